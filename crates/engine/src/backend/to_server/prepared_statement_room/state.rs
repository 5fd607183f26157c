//! The room that a worker has taken for prepared statements on a server, and the statements that wait for more of it.

use std::time::Duration;

use seam::Instant;

use crate::frozen::Distance;
use crate::ids::{BackendKey, ClientRef};

/// Longest wait of a statement for room. Room counts as about to come for as long. Other workers answer in their next turns, unless they
/// have come to their end. The server answers when it has the time.
pub(super) const MADE_WITHIN: Duration = Duration::from_secs(10);

/// The room that this worker has taken, its requests for more, and the clients that wait for it.
#[derive(Debug, Default)]
pub(crate) struct PreparedStatementRoom {
    /// Number of statements that are prepared on all of its backends.
    pub(crate) taken: usize,
    /// Number of other workers that have not answered yet, and the time since which.
    pub(super) awaited: Option<(usize, Instant)>,
    /// Number of backends of ours where the server has not come to the closed statements yet, and the time since which.
    pub(super) closing: Option<(usize, Instant)>,
    /// Workers that are answered once the server has come to these.
    pub(super) owed: Vec<usize>,
    /// Statements that were closed on backends with others in flight. The server comes to them behind these.
    behind: Vec<Behind>,
    waiting: Vec<Waiting>,
    /// True where there may be room for the clients that wait.
    has_come: bool,
}

/// Statements that were closed on a backend where others are in flight.
#[derive(Debug)]
struct Behind {
    backend: BackendKey,
    /// Number of statements in flight that are to be answered before.
    statements: usize,
    since: Instant,
}

/// A client with a statement that waits for room, and holds no permit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) client: ClientRef,
    /// Time at which the statement goes on, whether or not room has come.
    pub(super) until: Instant,
}

/// Room that is being made, as plain data ([`crate::frozen`]). The taken room goes with the backends.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenPreparedStatementRoom {
    awaited: Option<(usize, Distance)>,
    closing: Option<(usize, Distance)>,
    owed: Vec<usize>,
}

plain!(struct FrozenPreparedStatementRoom { awaited, closing, owed });

impl PreparedStatementRoom {
    /// Takes out the room that is being made. Workers have the same numbers where all go along. Missing answers are given up in time.
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenPreparedStatementRoom {
        let Self {
            taken: _,
            awaited,
            closing,
            owed,
            behind: _,  // what is in flight on a backend keeps that here
            waiting: _, // a client does not go along while its statement waits for room
            has_come: _,
        } = self;
        let since = |(count, since)| (count, Distance::of(since, now));
        FrozenPreparedStatementRoom {
            awaited: awaited.take().map(since),
            closing: closing.take().map(since),
            owed: std::mem::take(owed),
        }
    }

    /// Puts room that is being made in the place of the present one.
    pub(crate) fn thaw(&mut self, frozen: FrozenPreparedStatementRoom, now: Instant) {
        let FrozenPreparedStatementRoom { awaited, closing, owed } = frozen;
        let since = |(count, since): (usize, Distance)| (count, since.from(now));
        self.awaited = awaited.map(since);
        self.closing = closing.map(since);
        self.owed = owed;
    }
}

impl PreparedStatementRoom {
    /// Makes a state in which others are waited for, and wait.
    #[cfg(test)]
    pub(crate) fn being_made(now: Instant) -> Self {
        Self { taken: 5, awaited: Some((2, now)), closing: Some((1, now)), owed: vec![1], ..Self::default() }
    }

    /// Says whether room is still being made.
    pub(super) fn is_awaited(&self, now: Instant) -> bool {
        let is_closing = self.closing.is_some_and(|(_, since)| now.since(since) < MADE_WITHIN);
        self.awaits_others(now) || is_closing || self.stands_behind(now)
    }

    /// Says whether other workers are still making some.
    pub(super) fn awaits_others(&self, now: Instant) -> bool {
        self.awaited.is_some_and(|(_, since)| now.since(since) < MADE_WITHIN)
    }

    /// Says whether the server is yet to come to statements that were closed behind others.
    pub(super) fn stands_behind(&self, now: Instant) -> bool {
        self.behind.iter().any(|behind| now.since(behind.since) < MADE_WITHIN)
    }

    /// Notes that statements were closed on a backend behind so many in flight.
    pub(super) fn note_behind(&mut self, now: Instant, backend: BackendKey, statements: usize) {
        let is_noted = |it: &Behind| it.backend == backend && it.statements == statements;
        if !self.behind.iter().any(is_noted) {
            self.behind.push(Behind { backend, statements, since: now });
        }
    }

    /// Notes that a statement on a backend has been answered. True where the server has come to statements that were closed behind it.
    pub(super) fn note_answer(&mut self, backend: BackendKey) -> bool {
        self.behind.iter_mut().filter(|it| it.backend == backend).for_each(|it| it.statements -= 1);
        self.forget_behind(|it| it.backend == backend && it.statements == 0)
    }

    /// Notes that all statements prepared on a backend have gone.
    pub(super) fn note_gone(&mut self, backend: BackendKey) {
        self.forget_behind(|it| it.backend == backend);
        self.comes();
    }

    fn forget_behind(&mut self, is_over: impl Fn(&Behind) -> bool) -> bool {
        let before = self.behind.len();
        self.behind.retain(|behind| !is_over(behind));
        self.behind.len() < before
    }

    /// Has waiting clients try again, since there may be room.
    pub(super) fn comes(&mut self) {
        self.has_come = !self.waiting.is_empty();
    }

    pub(super) fn wait(&mut self, waiting: Waiting) {
        self.waiting.push(waiting);
    }

    /// Returns the time at which the next waiting client goes on.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        if self.has_come { Some(now) } else { self.waiting.iter().map(|waiting| waiting.until).min() }
    }

    /// Takes out the clients that go on.
    pub(super) fn take_waiting(&mut self, now: Instant) -> Vec<Waiting> {
        let all = std::mem::take(&mut self.has_come);
        let (over, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| all || waiting.until <= now);
        self.waiting = waiting;
        over
    }
}
