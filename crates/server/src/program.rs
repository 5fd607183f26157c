//! The engine with its reports and its post: what it says about itself goes to the main thread, which logs it; what it
//! says to other workers goes to their threads.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError};

use drivers::Signaller;
use engine::{Engine, Letter};
use seam::{Input, Instant, Output, Program, Signal};

use crate::happening::Happening;

/// How one worker reaches the others.
pub(crate) struct Post {
    /// Which one this is.
    pub(crate) number: usize,
    /// From the others. Each letter comes with [`Signal::Wake`].
    pub(crate) letters: Receiver<Letter>,
    /// To each worker.
    pub(crate) addressees: Vec<(Sender<Letter>, Signaller)>,
}

/// Runs the engine and passes its events on, without ever waiting for whoever logs them.
pub(crate) struct Reporting {
    engine: Engine,
    post: Post,
    happenings: SyncSender<Happening>,
    lost: u64,
}

impl Reporting {
    pub(crate) fn new(engine: Engine, post: Post, happenings: SyncSender<Happening>) -> Self {
        Self { engine, post, happenings, lost: 0 }
    }

    /// Passes on what the engine has to say.
    pub(crate) fn report(&mut self) {
        if self.lost > 0 && self.happenings.try_send(Happening::EventsLost(self.lost)).is_ok() {
            self.lost = 0;
        }
        while let Some(event) = self.engine.poll_event() {
            // A log that is not read (a stopped terminal) must not stop the clients.
            if let Err(TrySendError::Full(_)) =
                self.happenings.try_send(Happening::Event(self.post.number, event))
            {
                self.lost += 1;
            }
        }
    }

    /// Letters of other workers are read before the turn ends, so that it can act on them.
    fn fetch_letters(&mut self) {
        while let Ok(letter) = self.post.letters.try_recv() {
            self.engine.read_letter(&letter);
        }
    }

    fn post_letters(&mut self) {
        while let Some((worker, letter)) = self.engine.poll_letter() {
            let (letters, signaller) = &self.post.addressees[worker];
            // A worker that has ended takes none, and the process is about to end too.
            if letters.send(letter).is_ok() {
                signaller.send(Signal::Wake);
            }
        }
    }
}

impl Program for Reporting {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        let turn_ends = matches!(input, Input::TurnEnd);
        match input {
            Input::Signal(Signal::Wake) => self.fetch_letters(),
            Input::Signal(Signal::Report) => {
                // Where the queue is full the question can be asked again.
                let _ = self.happenings.try_send(Happening::Memory(self.post.number, self.engine.memory()));
            }
            _ => {}
        }
        self.engine.handle(now, input);
        if turn_ends {
            self.post_letters();
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
