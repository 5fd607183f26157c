//! The times of a client's latest activities.

use std::time::Duration;

use seam::Instant;

use crate::workers::onramps::millis_of;

/// The times of a client's latest activities.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(super) last_heard: Instant,
    /// The time since which the client has not taken its reply.
    pub(super) stalled_since: Option<Instant>,
    /// The time at which the client's latest command was taken up: the last 32 bits of the milliseconds, which are seven weeks.
    pub(super) took_command: u32,
    /// True once a statement of the client has gone to a backend.
    pub(super) has_begun: bool,
}

impl Activity {
    pub(super) fn new(now: Instant) -> Self {
        Self { last_heard: now, stalled_since: None, took_command: millis_of(now) as u32, has_begun: false }
    }

    /// The client was heard, or has been told something: it is idle from now on at the earliest.
    pub(crate) fn goes_on(&mut self, now: Instant) {
        self.last_heard = now;
    }

    pub(crate) fn last_heard(&self) -> Instant {
        self.last_heard
    }

    /// The client does not take its reply.
    pub(crate) fn stalls(&mut self, now: Instant) {
        self.stalled_since = Some(now);
    }

    /// The client has taken all of its reply.
    pub(crate) fn catches_up(&mut self, now: Instant) {
        self.stalled_since = None;
        self.last_heard = now;
    }

    /// Returns the time since which the client has not taken its reply.
    pub(crate) fn stalled_since(&self) -> Option<Instant> {
        self.stalled_since
    }

    /// A statement of the client goes to a backend. Returns true where that is its first.
    pub(crate) fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }

    /// The client's command is taken up.
    pub(crate) fn takes_command(&mut self, now: Instant) {
        self.took_command = millis_of(now) as u32;
    }

    /// Returns the time since the client's latest command was taken up, rounded up to milliseconds.
    pub(crate) fn command_age(&self, now: Instant) -> Duration {
        let millis = (millis_of(now) as u32).wrapping_sub(self.took_command);
        Duration::from_millis(u64::from(millis) + 1)
    }
}
