//! The running program as the ports of its operators see it: the admin port and HTTP. Everything here runs on their threads.

pub(crate) mod answers;
mod drain;
pub(crate) mod glance;
pub(crate) mod no_change;
mod reload;
mod switchover;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use config::Configuration;
use seam::Signal;

use crate::accept_queues::AcceptQueues;
use crate::arguments::Arguments;
use crate::ask::{Answer, Ask};
use crate::happening::Happening;
use crate::history::History;
use crate::logging::Log;
use crate::slow_log::SlowLog;
use crate::supervisor::{Addresses, Supervisor};
use crate::tls_files::TlsFiles;
use crate::workers::Reach;
use answers::Answers;
use no_change::NotAnswered;

/// What operators' ports need of the running program.
pub(crate) struct Program {
    /// As it was at the start.
    pub(crate) configuration: Configuration,
    /// Where the configuration came from, to read it again.
    pub(crate) arguments: Arguments,
    pub(crate) reach: Reach,
    pub(crate) driver: drivers::DriverKind,
    pub(crate) accept_queues: Arc<AcceptQueues>,
    pub(crate) happenings: SyncSender<Happening>,
    pub(crate) log: Log,
    pub(crate) slow_log: SlowLog,
    pub(crate) tls: Arc<TlsFiles>,
    pub(crate) supervisor: Supervisor,
    /// Where it has opened sockets for us.
    pub(crate) handed_over: Addresses,
    /// Set once it ends.
    pub(crate) ending: Arc<AtomicBool>,
}

/// See the module.
pub(crate) struct Control {
    pub(crate) program: Program,
    configuration: Mutex<Configuration>,
    pub(crate) started: Instant,
    /// The same, since 1970.
    pub(crate) began: Duration,
    /// Held by whoever changes the primary by plan, or which servers may be it.
    switching: Mutex<()>,
    /// The last order to read everything again could be carried out, or there was none.
    reloaded: AtomicBool,
    /// Where somebody may ask for it: the admin port, or HTTP.
    pub(crate) history: OnceLock<Arc<History>>,
}

impl Control {
    /// Of a program that has just begun to serve.
    pub(crate) fn new(program: Program) -> Self {
        let configuration = Mutex::new(program.configuration.clone());
        Self {
            program,
            configuration,
            started: Instant::now(),
            began: UNIX_EPOCH.elapsed().unwrap_or_default(),
            switching: Mutex::new(()),
            reloaded: AtomicBool::new(true),
            history: OnceLock::new(),
        }
    }

    /// As it is now.
    pub(crate) fn configuration(&self) -> MutexGuard<'_, Configuration> {
        self.configuration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all workers; `ask` makes the question from where to answer.
    pub(crate) fn ask(&self, signal: Signal, ask: impl Fn(Sender<Answer>) -> Ask) -> Answers {
        let (answer, answers) = channel();
        for (asks, signaller) in &self.program.reach {
            // A worker that has ended does not answer, which is seen by whoever waits for it.
            if asks.send(ask(answer.clone())).is_ok() {
                signaller.send(signal);
            }
        }
        Answers::new(answers, self.program.reach.len())
    }

    /// Has all workers do something, and waits until they have.
    ///
    /// # Errors
    /// Which of them have not answered.
    pub(crate) fn order(&self, ask: impl Fn(Sender<Answer>) -> Ask) -> Result<(), NotAnswered> {
        let mut answers = self.ask(Signal::Wake, ask);
        while answers.next().is_some() {}
        let missing = answers.missing();
        if missing.is_empty() { Ok(()) } else { Err(NotAnswered(missing)) }
    }

    /// Makes a change of the configuration hold from here on.
    ///
    /// # Errors
    /// As [`Self::order`].
    pub(crate) fn take_effect(&self, configuration: &Configuration) -> Result<(), NotAnswered> {
        (self.program.log.change_level)(configuration.log_level);
        self.program.log.lines.change_format(configuration.log_format);
        let settings = Arc::new(configuration.engine.clone());
        self.order(|answer| Ask::Change { settings: Arc::clone(&settings), answer })
    }

    /// How the last order to read everything again has ended; well, where there was none.
    pub(crate) fn reloaded(&self) -> bool {
        self.reloaded.load(Ordering::Relaxed)
    }

    /// Ends the program as SIGTERM does.
    pub(crate) fn end(&self) {
        // The queue is full only for moments; the order must not be lost.
        let _ = self.program.happenings.send(Happening::AskedToEnd);
    }

    /// Likewise, unless it ends already: a second order of that kind would break off what is under way. True for the first.
    pub(crate) fn end_once(&self) -> bool {
        let first = !self.program.ending.swap(true, Ordering::Relaxed);
        if first {
            self.end();
        }
        first
    }

    /// Whether the program ends: nobody new is served.
    pub(crate) fn is_ending(&self) -> bool {
        self.program.ending.load(Ordering::Relaxed)
    }
}
