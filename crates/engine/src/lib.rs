//! The thread pool as a state machine, without I/O.

mod event;
mod settings;

pub use event::Event;
pub use settings::{HighPrioMode, Settings, ThreadHandling};

use seam::{Input, Instant, Output, Program};

/// The core of `onramp serve`.
pub struct Engine;

impl Engine {
    /// An engine that knows nothing yet; it asks for its first backend in the first turn.
    pub fn new(_settings: Settings) -> Self {
        Self
    }

    /// The oldest event not yet reported.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

impl Program for Engine {
    fn handle(&mut self, _now: Instant, _input: Input<'_>) {}

    fn poll_output(&mut self) -> Option<Output<'_>> {
        None
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }
}
