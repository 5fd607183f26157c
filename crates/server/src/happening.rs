//! What the main thread waits for: one queue that the other threads write to.

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
    /// What a worker's engine holds; what its driver holds is known to the worker's signaller by then.
    Memory(Memory),
    /// The engine reports something.
    Event(Event),
    /// This many reports did not fit into the queue.
    EventsLost(u64),
    /// The event loop has ended.
    WorkerEnded(io::Result<()>),
    /// The private server answers.
    ServerReady(Access),
    /// The private server cannot be started, and why.
    ServerFailed(String),
    /// The private server has been stopped, or told to.
    ServerStopped,
}
