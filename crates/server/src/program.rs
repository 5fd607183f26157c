//! The engine with its reports: what it says about itself goes to the main thread, which logs it.

use std::sync::mpsc::{SyncSender, TrySendError};

use engine::Engine;
use seam::{Input, Instant, Output, Program};

use crate::happening::Happening;

/// Runs the engine and passes its events on, without ever waiting for whoever logs them.
pub(crate) struct Reporting {
    engine: Engine,
    happenings: SyncSender<Happening>,
    lost: u64,
}

impl Reporting {
    pub(crate) fn new(engine: Engine, happenings: SyncSender<Happening>) -> Self {
        Self { engine, happenings, lost: 0 }
    }

    /// Passes on what the engine has to say.
    pub(crate) fn report(&mut self) {
        if self.lost > 0 && self.happenings.try_send(Happening::EventsLost(self.lost)).is_ok() {
            self.lost = 0;
        }
        while let Some(event) = self.engine.poll_event() {
            // A log that is not read (a stopped terminal) must not stop the clients.
            if let Err(TrySendError::Full(_)) = self.happenings.try_send(Happening::Event(event)) {
                self.lost += 1;
            }
        }
    }
}

impl Program for Reporting {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        let turn_ends = matches!(input, Input::TurnEnd);
        self.engine.handle(now, input);
        if turn_ends {
            self.report();
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        self.engine.poll_output()
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.engine.next_timeout()
    }
}
