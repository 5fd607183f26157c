//! What a driver knows of the program that it runs.

use engine::Finding;
use seam::{ConnectionId, Signal};

/// A program under test and its driver.
#[derive(Debug)]
pub(super) struct Driver<P> {
    pub(super) program: P,
    /// Inputs about connections that came about, for the next turn.
    pub(super) news: Vec<News>,
    pub(super) next_turn: Option<u64>,
    pub(super) idle_turns: u32,
    pub(super) listening: bool,
    pub(super) finished: bool,
    pub(super) life: Life,
    /// Since when it runs without having been stopped.
    pub(super) since: u64,
    /// The place of the primary that it has, or has had last.
    pub(super) led_to: Option<usize>,
    /// Since when it has none.
    pub(super) without: Option<u64>,
}

/// Whether a program does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Runs,
    /// It is stopped, and goes on where it was.
    Frozen,
    /// It does not come back.
    Gone,
}

/// What the driver tells once.
#[derive(Debug)]
pub(super) enum News {
    Accepted(ConnectionId, u32),
    Connected(u64, ConnectionId),
    ConnectFailed(u64),
    Signal(Signal),
    /// What came of a task of a worker.
    Found(usize, u64, Finding),
}

impl<P> Driver<P> {
    pub(super) fn new(program: P, now: u64) -> Self {
        Self {
            program,
            news: Vec::new(),
            next_turn: None,
            idle_turns: 0,
            listening: true,
            finished: false,
            life: Life::Runs,
            since: now,
            led_to: None,
            without: None,
        }
    }
}
