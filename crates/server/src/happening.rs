//! The events that the main thread waits for: one queue that the other threads write to.

use std::io;

use engine::{Event, Memory};
use private_server::Access;

/// How many happenings may wait. The worker never blocks on the queue: beyond this it counts what it could not report.
pub(crate) const QUEUE_LENGTH: usize = 4096;

/// Something that the main thread reacts to.
pub(crate) enum Happening {
    /// SIGTERM or SIGINT.
    AskedToEnd,
    /// SIGUSR1.
    AskedToReport,
    /// SIGHUP: options, certificates and keys are to be read again, and the slow log is to be opened anew.
    AskedForFiles,
    /// SIGUSR2: the slow log alone is to be opened anew.
    AskedForSlowLog,
    /// The memory that the engine of the worker with this number holds; its signaller knows by then how much its driver holds.
    Memory(usize, Memory),
    /// The engine of the worker with this number reports something.
    Event(usize, Event),
    /// This many reports did not fit into the queue.
    EventsLost(u64),
    /// Most of the clients that a worker had have gone.
    CrowdLeft,
    /// The event loop of the worker with this number has ended.
    WorkerEnded(usize, io::Result<()>),
    /// The private server answers.
    ServerReady(Access),
    /// The private server cannot be started, and why.
    ServerFailed(String),
    /// The private server has been stopped, or told to.
    ServerStopped,
}
