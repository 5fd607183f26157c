//! The thread of the event loop.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use config::Configuration;
use drivers::{EpollDriver, ListenAddress, Signaller};
use engine::{Engine, Settings};

use crate::addresses;
use crate::happening::Happening;
use crate::program::Reporting;

/// An event loop that listens. It serves once it is told to; dropped before that, it closes its listeners and ends.
pub(crate) struct Worker {
    begin: Sender<Settings>,
    listening: Vec<ListenAddress>,
    signaller: Signaller,
}

impl Worker {
    /// Starts the thread and opens the listeners. The kernel holds clients that come early.
    ///
    /// # Errors
    /// A line that says which address cannot be listened on, or what the system lacks.
    pub(crate) fn listen(
        configuration: &Configuration,
        happenings: SyncSender<Happening>,
    ) -> Result<Self, String> {
        let (begin, begun) = channel();
        let (answer, answered) = channel();
        let configuration = configuration.clone();
        // The driver stays on the thread that it was made on.
        let run = move || match open(&configuration) {
            Ok((driver, listening, signaller)) => {
                let _ = answer.send(Ok((listening, signaller)));
                serve(driver, &begun, &happenings);
            }
            Err(reason) => {
                let _ = answer.send(Err(reason));
            }
        };
        std::thread::Builder::new()
            .name(String::from("worker"))
            .spawn(run)
            .map_err(|error| format!("no thread for the event loop: {error}"))?;
        let (listening, signaller) =
            answered.recv().map_err(|_| String::from("the event loop does not start"))??;
        Ok(Self { begin, listening, signaller })
    }

    /// Where it listens, with the ports that the system chose.
    pub(crate) fn listening(&self) -> &[ListenAddress] {
        &self.listening
    }

    /// Begins to serve. [`Happening::WorkerEnded`] is the last that comes from it.
    pub(crate) fn begin(&self, settings: Settings) {
        // The thread waits for this; were it gone, there would be a panic's message on the standard error stream.
        let _ = self.begin.send(settings);
    }

    /// How to reach the engine.
    pub(crate) fn signaller(&self) -> &Signaller {
        &self.signaller
    }
}

fn open(configuration: &Configuration) -> Result<(EpollDriver, Vec<ListenAddress>, Signaller), String> {
    let settings = drivers::Settings {
        receive_buffer: configuration.receive_buffer,
        high_water: configuration.client_output_buffer,
        ..drivers::Settings::default()
    };
    let no_loop = |error: io::Error| format!("no event loop: {error}");
    let mut driver = EpollDriver::new(settings).map_err(no_loop)?;
    let signaller = driver.signaller().map_err(no_loop)?;
    let listening = addresses::listen(&mut driver, &configuration.listen, configuration.back_log)?;
    Ok((driver, listening, signaller))
}

fn serve(mut driver: EpollDriver, begun: &Receiver<Settings>, happenings: &SyncSender<Happening>) {
    let Ok(settings) = begun.recv() else { return };
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut program = Reporting::new(Engine::new(settings), happenings.clone());
        let result = driver.run(&mut program);
        program.report();
        tracing::debug!("the event loop has ended: {:?}", driver.counters());
        result
    }));
    // The panic's own message is on the standard error stream already.
    let ended = ended.unwrap_or_else(|_| Err(io::Error::other("it panicked; this is a defect of onramp")));
    // Listeners and connections go before the main thread learns of the end and lets the process go.
    drop(driver);
    let _ = happenings.send(Happening::WorkerEnded(ended));
}
