//! The phase in which all connections are made: nothing is measured before every one of them is logged in, and a run
//! that cannot have them all fails rather than measure something else.

use seam::Instant;

use super::Generator;
use super::connector::LOGINS_IN_PROGRESS;
use crate::errors::Failure;
use crate::local_addresses::grouped;

/// Connections that did not come about.
#[derive(Debug, Default)]
pub struct Opening {
    /// How many.
    given_up: u32,
    /// How many since one came about.
    in_a_row: u32,
    /// Why the first did not.
    reason: Option<Failure>,
}

/// After so many in a row the rest is not tried: as many as are under way at a time, so that one bad moment is not taken
/// for the end.
const HOPELESS: u32 = LOGINS_IN_PROGRESS;

impl Opening {
    /// A connection came about.
    pub fn made(&mut self) {
        self.in_a_row = 0;
    }
}

impl Generator<'_> {
    /// Goes on when every connection either stands or has been given up.
    pub(super) fn end_opening(&mut self, now: Instant) {
        if self.up + self.opening.given_up < self.options.connections {
            return;
        }
        match self.could_not_connect() {
            None => self.begin_load(now),
            Some(failure) => self.fail(now, failure),
        }
    }

    /// One connection will not come about. It is down already.
    pub(super) fn give_up(&mut self, now: Instant, failure: Failure) {
        self.opening.given_up += 1;
        self.opening.in_a_row += 1;
        self.opening.reason.get_or_insert(failure);
        if self.opening.in_a_row >= HOPELESS {
            if let Some(failure) = self.could_not_connect() {
                self.fail(now, failure);
            }
        }
    }

    fn could_not_connect(&self) -> Option<Failure> {
        let Opening { given_up, reason, .. } = &self.opening;
        let reason = reason.as_ref()?;
        let [given_up, up, wanted] =
            [*given_up, self.up, self.options.connections].map(|count| grouped(count.into()));
        let rest = if self.opening.in_a_row < HOPELESS { "" } else { ", and the rest was not tried" };
        let text = format!(
            "{given_up} of {wanted} connections could not be made, {up} were{rest}; the first one: {}",
            reason.text
        );
        Some(Failure { code: reason.code, text })
    }
}
