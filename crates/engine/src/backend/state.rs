//! The phase of a backend, its permit, and the list of idle backends: nothing else sets any of these.
//!
//! As with clients ([`crate::client`]), each way from one state to another is a function and a line of a table. A debug build checks the
//! table, and `moves.txt` shows the tables. A permit changes together with the scheduler's count of permits in use, and so does the part
//! of it that is left to others ([`crate::scheduling::learned::waiting`]).

use std::ops::Deref;

use seam::Instant;

use crate::ids::BackendKey;
use crate::moves::{self, Move};
use crate::scheduling::scheduler::Scheduler;
use crate::server::login::ServerLogin;

/// The phase of a backend.
pub(crate) enum Phase {
    Connecting,
    LoggingIn(Box<ServerLogin>),
    /// Logged in: the trackers are being turned on, and the account is being checked.
    SettingUp,
    Ready,
}

/// The claim of the statement on a backend to a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    None,
    Held,
    /// Given back while the statement runs on, since it stalls, waits for a lock or waits for its client. Or never had, since the statement
    /// started without one.
    Lent,
}

/// A backend's phase and permit, which only this module can set.
pub(super) struct State {
    phase: Phase,
    permit: Permit,
    /// Time at which the backend got its permit. The value means nothing without a permit.
    permit_since: Instant,
    /// Part of the permit that is left to others, as long as it is held, in parts of [`crate::scheduling::learned::waiting::WHOLE`].
    spared: u32,
}

impl State {
    /// Makes the state of a backend that is being connected.
    pub(super) fn new(now: Instant) -> Self {
        Self { phase: Phase::Connecting, permit: Permit::None, permit_since: now, spared: 0 }
    }
}

/// A phase as the table names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Connecting,
    LoggingIn,
    SettingUp,
    Ready,
}

impl At {
    fn of(phase: &Phase) -> Self {
        match phase {
            Phase::Connecting => Self::Connecting,
            Phase::LoggingIn(_) => Self::LoggingIn,
            Phase::SettingUp => Self::SettingUp,
            Phase::Ready => Self::Ready,
        }
    }
}

/// A backend that changes its account begins as a new one. A backend may end in any phase.
const MOVES: &[Move<At>] = &[
    Move { by: "log_in", from: &[At::Connecting], to: &[At::LoggingIn] },
    Move { by: "set_up", from: &[At::LoggingIn], to: &[At::SettingUp] },
    Move { by: "be_ready", from: &[At::SettingUp], to: &[At::Ready] },
    // It was ready in another process, or in this one.
    Move { by: "be_thawed", from: &[At::Connecting], to: &[At::Ready] },
];

const PERMITS: &[Move<Permit>] = &[
    // Statements share a backend without a permit each, and some begin with a permit that is lent already.
    Move { by: "begin", from: &[Permit::None, Permit::Lent], to: &[Permit::Held, Permit::Lent] },
    Move { by: "lend", from: &[Permit::Held], to: &[Permit::Lent] },
    Move { by: "take_back", from: &[Permit::Lent], to: &[Permit::Held] },
    Move { by: "give", from: &[Permit::None, Permit::Held, Permit::Lent], to: &[Permit::None] },
];

impl State {
    pub(super) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) fn permit(&self) -> Permit {
        self.permit
    }

    /// Returns the time at which the backend got its permit. The value means nothing without a permit.
    pub(super) fn permit_since(&self) -> Instant {
        self.permit_since
    }

    /// Returns the part of the permit that is left to others. Without a permit it is 0.
    pub(super) fn spared(&self) -> u32 {
        self.spared
    }

    /// Begins the login: the connection stands.
    pub(super) fn log_in(&mut self, login: ServerLogin) {
        self.go("log_in", Phase::LoggingIn(Box::new(login)));
    }

    /// Returns the login; none where the backend does not log in.
    pub(super) fn login(&mut self) -> Option<&mut ServerLogin> {
        match &mut self.phase {
            Phase::LoggingIn(login) => Some(login),
            _ => None,
        }
    }

    /// Notes that the server has let the backend in.
    pub(super) fn set_up(&mut self) {
        self.go("set_up", Phase::SettingUp);
    }

    /// Notes that statements may run on the backend.
    pub(super) fn be_ready(&mut self) {
        self.go("be_ready", Phase::Ready);
    }

    /// Makes a thawed backend as it was when it was frozen: ready, and nothing runs on it.
    pub(super) fn be_thawed(&mut self) {
        self.go("be_thawed", Phase::Ready);
    }

    fn go(&mut self, by: &str, to: Phase) {
        moves::check(MOVES, "a backend", by, At::of(&self.phase), At::of(&to));
        self.phase = to;
    }

    /// Sets the permit and returns the former one.
    fn set_permit(&mut self, by: &str, to: Permit) -> Permit {
        moves::check(PERMITS, "a permit", by, self.permit, to);
        std::mem::replace(&mut self.permit, to)
    }

    /// Notes that a statement begins. The scheduler has counted its permit, if it has one. `spared` is the part that it leaves to others.
    pub(super) fn begin_with_permit(
        &mut self,
        now: Instant,
        scheduler: &mut Scheduler,
        has_permit: bool,
        spared: u32,
    ) {
        debug_assert!(has_permit || spared == 0, "what nobody has is left to nobody");
        self.set_permit("begin", if has_permit { Permit::Held } else { Permit::Lent });
        self.permit_since = now;
        self.spared = spared;
        scheduler.spare(spared);
    }

    /// Lends the permit to others as long as the statement runs on without it.
    pub(super) fn lend_permit(&mut self, scheduler: &mut Scheduler) {
        if self.permit == Permit::Held {
            self.set_permit("lend", Permit::Lent);
            self.end_permit(scheduler);
        }
    }

    /// Takes a whole permit in the place of the lent one: it is not known any more how much the statement waits.
    pub(super) fn take_permit_back(&mut self, scheduler: &mut Scheduler) {
        if self.permit == Permit::Lent {
            self.set_permit("take_back", Permit::Held);
            scheduler.resume();
        }
    }

    /// Gives the permit back, since nothing runs here any more.
    pub(super) fn give_permit(&mut self, scheduler: &mut Scheduler) {
        if self.set_permit("give", Permit::None) == Permit::Held {
            self.end_permit(scheduler);
        }
    }

    /// Gives the held part of the permit back, together with the part that was left to others.
    fn end_permit(&mut self, scheduler: &mut Scheduler) {
        scheduler.finish(std::mem::take(&mut self.spared));
    }

    /// Puts the backend into this phase, as if it had come there itself.
    #[cfg(test)]
    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }
}

/// The backends that nobody uses, the longest idle one first.
#[derive(Default)]
pub(crate) struct Idle(Vec<BackendKey>);

impl Idle {
    /// Adds a backend that nothing runs on and nobody holds: it is there for the next statement.
    pub(crate) fn put(&mut self, key: BackendKey) {
        if !self.0.contains(&key) {
            self.0.push(key);
        }
    }

    /// Removes a backend that is used, or goes.
    pub(crate) fn remove(&mut self, key: BackendKey) {
        self.0.retain(|&idle| idle != key);
    }
}

impl Idle {
    /// Takes a backend out and returns its place.
    pub(super) fn take_out(&mut self, key: BackendKey) -> Option<usize> {
        let place = self.0.iter().position(|&idle| idle == key)?;
        self.0.remove(place);
        Some(place)
    }

    /// Puts a backend back to its place.
    pub(super) fn put_back(&mut self, key: BackendKey, place: usize) {
        self.0.insert(place, key);
    }
}

impl Deref for Idle {
    type Target = [BackendKey];

    fn deref(&self) -> &[BackendKey] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{At, MOVES, PERMITS, Permit};
    use crate::moves::{check, check_table, rendered};

    #[test]
    fn the_tables_of_moves_are_as_written_down() {
        let now = format!("{}\n{}", rendered(MOVES), rendered(PERMITS));
        assert_eq!(now, include_str!("state/moves.txt"), "\nmoves.txt has to be:\n{now}");
    }

    #[test]
    fn no_function_has_two_lines_and_no_state_is_a_dead_end() {
        // A ready backend ends, or becomes another one.
        check_table(MOVES, &[At::Ready]);
        check_table(PERMITS, &[]);
    }

    #[test]
    #[should_panic(expected = "a backend must not `be_ready` from LoggingIn to Ready")]
    fn no_statement_runs_ahead_of_the_end_of_a_login() {
        check(MOVES, "a backend", "be_ready", At::LoggingIn, At::Ready);
    }

    #[test]
    #[should_panic(expected = "a permit must not `begin` from Held to Held")]
    fn nothing_has_two_permits() {
        check(PERMITS, "a permit", "begin", Permit::Held, Permit::Held);
    }
}
