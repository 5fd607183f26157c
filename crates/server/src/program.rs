//! The engine with its reports and its post: what it says about itself goes to the main thread, which logs it; what it
//! says to other workers goes to their threads, and what it has no time for to those of [`crate::helpers`].

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError};
use std::time::Duration;

use drivers::Signaller;
use engine::{Engine, Letter};
use seam::{Input, Instant, Output, Program, Signal};

use crate::ask::{Ask, Desk};
use crate::crowd::Crowd;
use crate::happening::Happening;
use crate::helpers::HelpDesk;
use crate::slow_log::SlowLog;

/// How one worker reaches the others.
pub(crate) struct Post {
    /// Which one this is.
    pub(crate) number: usize,
    /// From the others. Each letter comes with [`Signal::Wake`].
    pub(crate) letters: Receiver<Letter>,
    /// From the admin port.
    pub(crate) asks: Receiver<Ask>,
    /// To each worker.
    pub(crate) addressees: Vec<(Sender<Letter>, Signaller)>,
    /// The desk for work that takes long.
    pub(crate) help: HelpDesk,
    /// Statements that took long are written there.
    pub(crate) slow_log: SlowLog,
}

/// Bytes that the layers around hold for connections.
pub(crate) struct Held {
    pub(crate) compression: Rc<Cell<usize>>,
    /// Of clients' TLS handshakes that are not over.
    pub(crate) handshakes: Rc<Cell<usize>>,
}

impl Held {
    fn note(&self, engine: &mut Engine) {
        engine.note_compression(self.compression.get());
        engine.note_handshakes(self.handshakes.get());
    }
}

/// Runs the engine and passes its events on, without ever waiting for the thread that logs them.
pub(crate) struct Reporting {
    engine: Engine,
    number: usize,
    letters: Receiver<Letter>,
    addressees: Vec<(Sender<Letter>, Signaller)>,
    desk: Desk,
    help: HelpDesk,
    slow_log: SlowLog,
    held: Held,
    /// When the turn that is under way has begun, and how long the last one has taken.
    turn_began: Option<std::time::Instant>,
    turn_took: Option<Duration>,
    /// Somebody may have asked something since the last turn.
    asked: bool,
    crowd: Crowd,
    happenings: SyncSender<Happening>,
    lost: u64,
}

impl Reporting {
    /// Around `engine`.
    pub(crate) fn new(engine: Engine, post: Post, happenings: SyncSender<Happening>, held: Held) -> Self {
        let Post { number, letters, asks, addressees, help, slow_log } = post;
        let desk = Desk::new(number, asks, addressees[number].1.clone());
        Self {
            engine,
            number,
            letters,
            addressees,
            desk,
            help,
            slow_log,
            held,
            turn_began: None,
            turn_took: None,
            asked: false,
            crowd: Crowd::default(),
            happenings,
            lost: 0,
        }
    }

    /// Passes on what the engine has to say.
    pub(crate) fn report(&mut self) {
        if self.lost > 0 && self.happenings.try_send(Happening::EventsLost(self.lost)).is_ok() {
            self.lost = 0;
        }
        while let Some(event) = self.engine.poll_event() {
            // A log that is not read (a stopped terminal) must not stop the clients.
            if let Err(TrySendError::Full(_)) = self.happenings.try_send(Happening::Event(self.number, event))
            {
                self.lost += 1;
            }
        }
        while let Some(statement) = self.engine.poll_slow() {
            self.slow_log.put(self.number, statement);
        }
    }

    /// Letters of other workers, and what has been found for logins, are read before the turn ends, so that it can act on them.
    fn fetch_letters(&mut self, now: Instant) {
        while let Ok(letter) = self.letters.try_recv() {
            self.engine.read_letter(now, &letter);
        }
        while let Some((number, finding)) = self.help.finding() {
            self.engine.take_finding(number, finding);
        }
    }

    fn post_letters(&mut self) {
        while let Some(task) = self.engine.poll_task() {
            self.help.give(task);
        }
        while let Some((worker, letter)) = self.engine.poll_letter() {
            let (letters, signaller) = &self.addressees[worker];
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
        if let Some(took) = self.turn_took.take() {
            self.engine.note_turn(took);
        }
        self.turn_began.get_or_insert_with(std::time::Instant::now);
        match input {
            Input::Signal(Signal::Wake) => {
                self.fetch_letters(now);
                self.asked = true;
            }
            Input::Signal(Signal::Report) => {
                #[cfg(debug_assertions)]
                crate::injected::panic_in("worker");
                self.held.note(&mut self.engine);
                // Where the queue is full the question can be asked again.
                let _ = self
                    .happenings
                    .try_send(Happening::Memory(self.number, self.engine.holders_of_memory().memory()));
                self.asked = true;
            }
            Input::Signal(Signal::Look) => self.asked = true,
            // Before the turn ends, so that it can act on orders. Once a turn, whoever woke us.
            Input::TurnEnd if std::mem::take(&mut self.asked) => {
                self.held.note(&mut self.engine);
                self.desk.attend(&mut self.engine);
            }
            _ => {}
        }
        self.engine.handle(now, input);
        if turn_ends {
            self.desk.tell_of_kills(&mut self.engine);
            self.post_letters();
            self.report();
            if self.crowd.has_left(now, self.engine.client_count()) {
                // Where the queue is full there are others to be thankful for.
                let _ = self.happenings.try_send(Happening::CrowdLeft);
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output<'_>> {
        let output = self.engine.poll_output();
        if output.is_none() {
            self.turn_took = self.turn_began.take().map(|began| began.elapsed()).or(self.turn_took);
        }
        output
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.engine.next_timeout()
    }
}
