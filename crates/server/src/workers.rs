//! The threads of the event loops, one for each worker of the pool.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use compression::Compressed;
use config::Configuration;
use drivers::{
    Counters, Driver, DriverKind, InheritedSocket, ListenAddress, ListenSocket, NoUring, Opened, Signaller,
};
use engine::{ClientTls, Engine, Letter, LetterKey, Settings};
use proxy_protocol::{Networks, ProxyProtocol};
use rustix::rand::{GetRandomFlags, getrandom};
use seam::Signal;

use crate::Failure;
use crate::accept_queues::AcceptQueues;
use crate::addresses;
use crate::ask::Ask;
use crate::handshakes::Handshakes;
use crate::happening::Happening;
use crate::helpers::{HandshakeDesk, Helpers};
use crate::program::{Held, Post, Reporting};
use crate::slow_log::SlowLog;
use crate::tls_files::TlsFiles;

/// Event loops that listen. They serve once they are told to; dropped before that, they close their listeners and end.
pub(crate) struct Workers {
    begin: Vec<Sender<Begin>>,
    listening: Vec<ListenAddress>,
    client_tls: Vec<ClientTls>,
    trusted: Networks,
    signallers: Vec<Signaller>,
    driver: DriverKind,
    accept_queues: Arc<AcceptQueues>,
}

/// How the admin port reaches each worker. An [`Ask`] comes with [`Signal::Wake`], or [`Signal::Report`] where the driver's
/// counters are to be published.
pub(crate) type Reach = Vec<(Sender<Ask>, Signaller)>;

/// The things that a worker needs to begin.
struct Begin {
    settings: Settings,
    pool: Arc<engine::Workers>,
    post: Post,
    handshakes: HandshakeDesk,
    tls: Arc<TlsFiles>,
    /// The balancers that may say for whom they connect.
    trusted: Networks,
}

impl Workers {
    /// Opens the listeners, or takes those that were handed over in their place, and starts the threads. The kernel holds clients that
    /// come early.
    ///
    /// # Errors
    /// A line that says which address cannot be listened on, or what the system lacks.
    pub(crate) fn listen(
        configuration: &Configuration,
        handed_over: Vec<InheritedSocket>,
        happenings: &SyncSender<Happening>,
    ) -> Result<Self, Failure> {
        let (count, back_log) = (configuration.workers as usize, configuration.back_log);
        let (shares, listening) = if handed_over.is_empty() {
            addresses::listen(&configuration.listen, back_log, count)?
        } else {
            addresses::take_over(&configuration.listen, handed_over, back_log, count)?
        };
        let accept_queues = AcceptQueues::of(&shares, &listening, back_log)
            .map_err(|error| format!("listen: a socket cannot be looked at: {error}"))?;
        let client_tls = listening.iter().map(|one| configuration.tls_of(&one.given)).collect();
        let listening = listening.into_iter().map(|one| one.actual).collect();
        let mut workers = Self {
            begin: Vec::new(),
            listening,
            client_tls,
            trusted: configuration.proxy_protocol_networks.clone(),
            signallers: Vec::new(),
            driver: DriverKind::Epoll,
            accept_queues: Arc::new(accept_queues),
        };
        for (number, sockets) in shares.into_iter().enumerate() {
            let (begin, begun) = channel();
            let started = start_thread(number, configuration, sockets, begun, happenings.clone())?;
            if let Some(reason) = started.fallback {
                // Each says so for itself: where memory for io_uring runs short, only the later ones may lack it.
                tracing::info!("worker {number}: driver: epoll, because io_uring cannot be used: {reason}");
            }
            workers.driver = started.driver;
            workers.signallers.push(started.signaller);
            workers.begin.push(begin);
        }
        Ok(workers)
    }

    /// Where they listen, with the ports that the system chose.
    pub(crate) fn listening(&self) -> &[ListenAddress] {
        &self.listening
    }

    /// Says whether clients may or must use TLS, address by address.
    pub(crate) fn client_tls(&self) -> &[ClientTls] {
        &self.client_tls
    }

    /// Returns the driver that they run on.
    pub(crate) fn driver(&self) -> DriverKind {
        self.driver
    }

    /// Connections that the kernel holds for them.
    pub(crate) fn accept_queues(&self) -> Arc<AcceptQueues> {
        Arc::clone(&self.accept_queues)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.begin.len()
    }

    /// Begins to serve; returns how to ask each of them. [`Happening::WorkerEnded`] is the last that comes from each.
    ///
    /// # Errors
    /// Where the system has no random bytes, or no threads left.
    pub(crate) fn begin(
        &self,
        settings: &Settings,
        tls: &Arc<TlsFiles>,
        slow_log: &SlowLog,
    ) -> Result<Reach, Failure> {
        let count = u32::try_from(self.count()).expect("the option workers is a u32");
        let pool = engine::Workers::new(settings, count);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| channel::<Letter>()).unzip();
        let helpers = Helpers::start()?;
        let mut reach = Vec::new();
        let letter_key = if settings.counts_peers { LetterKey::of(&settings.service_password) } else { None };
        for (number, (begin, letters)) in self.begin.iter().zip(receivers).enumerate() {
            let mut settings = Settings { letter_key: letter_key.clone(), ..settings.clone() };
            getrandom(&mut settings.entropy, GetRandomFlags::empty())
                .map_err(|error| format!("the system has no random bytes: {error}"))?;
            let addressees = senders.iter().cloned().zip(self.signallers.iter().cloned()).collect();
            let (asker, asks) = channel();
            reach.push((asker, self.signallers[number].clone()));
            let help = helpers.desk(self.signallers[number].clone());
            let handshakes = helpers.handshake_desk(self.signallers[number].clone());
            let post = Post { number, letters, asks, addressees, help, slow_log: slow_log.clone() };
            // The thread waits for this; were it gone, there would be a panic's message in the log.
            let (pool, tls) = (Arc::clone(&pool), Arc::clone(tls));
            let _ =
                begin.send(Begin { settings, pool, post, handshakes, tls, trusted: self.trusted.clone() });
        }
        Ok(reach)
    }

    /// Returns the counters that each driver last published, which is when it was last told something.
    pub(crate) fn counters(&self) -> Vec<Counters> {
        self.signallers.iter().map(Signaller::counters).collect()
    }

    /// Tells all of them something.
    pub(crate) fn signal(&self, signal: Signal) {
        for signaller in &self.signallers {
            signaller.send(signal);
        }
    }
}

/// A worker whose driver stands.
struct Started {
    driver: DriverKind,
    fallback: Option<NoUring>,
    signaller: Signaller,
}

/// Starts a thread that opens its driver and waits to begin. A driver stays on the thread that it was made on.
fn start_thread(
    number: usize,
    configuration: &Configuration,
    sockets: Vec<ListenSocket>,
    begun: Receiver<Begin>,
    happenings: SyncSender<Happening>,
) -> Result<Started, Failure> {
    let (answer, answered) = channel();
    let configuration = configuration.clone();
    let run = move || {
        let opened = open(&configuration, sockets).and_then(|opened| {
            let signaller = opened.driver.signaller().map_err(no_loop)?;
            let started = Started { driver: opened.driver.kind(), fallback: opened.fallback, signaller };
            Ok((opened.driver, started))
        });
        match opened {
            Ok((driver, started)) => {
                let _ = answer.send(Ok(started));
                serve(driver, &begun, &happenings);
            }
            Err(reason) => {
                let _ = answer.send(Err(reason));
            }
        }
    };
    std::thread::Builder::new()
        .name(format!("worker {number}"))
        .spawn(run)
        .map_err(|error| format!("no thread for the event loop: {error}"))?;
    answered.recv().map_err(|_| String::from("the event loop does not start"))?
}

fn open(configuration: &Configuration, sockets: Vec<ListenSocket>) -> Result<Opened, Failure> {
    let settings = drivers::Settings {
        receive_buffer: configuration.receive_buffer,
        high_water: configuration.client_output_buffer,
        accepts_per_turn: configuration.logins_per_turn as usize,
        ..drivers::Settings::default()
    };
    let mut opened = Driver::open(configuration.driver, settings).map_err(no_loop)?;
    for socket in sockets {
        opened.driver.attach(socket).map_err(no_loop)?;
    }
    Ok(opened)
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn no_loop(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Unsupported => {
            format!("driver = uring: {error}; auto takes epoll where io_uring cannot be used")
        }
        _ => format!("no event loop: {error}"),
    }
}

fn serve(mut driver: Driver, begun: &Receiver<Begin>, happenings: &SyncSender<Happening>) {
    let Ok(Begin { settings, pool, post, handshakes, tls, trusted }) = begun.recv() else { return };
    let number = post.number;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        // Of what is not whole yet, compressed clients may hold as much as the others.
        let of_clients = settings.statement_memory / pool.count() as usize;
        let of_logins = settings.login_memory / pool.count() as usize;
        let engine = Engine::join(settings, pool, number);
        // From the outside in: what is said ahead of all, what is encrypted, what is compressed, the engine.
        let compression = Rc::new(Cell::new(0));
        let unfinished = Rc::new(Cell::new(0));
        let held = Held { compression: compression.clone(), handshakes: unfinished.clone() };
        let reporting = Reporting::new(engine, post, happenings.clone(), held);
        let compressed = Compressed::new(reporting, compression, of_clients);
        let encrypted = Handshakes::new(tls.around(compressed).bounded(unfinished, of_logins), handshakes);
        let mut program = ProxyProtocol::new(encrypted, trusted);
        let result = driver.run(&mut program);
        program.inner_mut().inner_mut().inner_mut().inner_mut().report();
        tracing::debug!("worker {number} has ended: {:?}", driver.counters());
        result
    }));
    // The panic's own message is among the lines of the log already.
    let ended = ended.unwrap_or_else(|_| Err(io::Error::other("it panicked; this is a defect of onramp")));
    // Listeners and connections go before the main thread learns of the end and lets the process go.
    drop(driver);
    let _ = happenings.send(Happening::WorkerEnded(number, ended));
}
