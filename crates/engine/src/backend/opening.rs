//! Decides when backends are opened, and whose places they take.
//!
//! Each login (an account, and what of its capabilities must be alike) has backends of its own. Where all places are taken, one for
//! another login takes the place of an idle one, which changes its account or is closed. That costs the server a login, and one more
//! as soon as the other login comes again: a place that goes round between logins costs far more than the statements that it serves. So
//! it changes hands at once only for a login that has no backend of which to expect anything, and for others only where a statement
//! has waited for longer than that is worth, and at the cost of somebody who has not used it for as long.

use std::time::Duration;

use seam::Instant;
use wire::Capabilities;

use super::account_affinity::waiting::AccountAffinity;
use super::change::failed::{FailedChanges, FrozenFailedChanges};
use crate::accounts::IdentityId;
use crate::frozen::Distance;

/// The state of opening backends.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// How long it has taken lately, from the attempt to the first statement; none where none has been opened yet.
    time: Option<Duration>,
    /// The same time for backends that have changed their account.
    time_of_change: Option<Duration>,
    /// The logins whose statements have found no backend in this turn, and since when that has been so.
    lacking: Vec<(Login, Instant)>,
    /// The logins of the turn before in which anybody looked for a backend: while permits are short, nobody may for many turns.
    lacked: Vec<(Login, Instant)>,
    /// True if anybody has looked since, and when somebody last has.
    has_looked: bool,
    looked_at: Instant,
    pub(super) failed_changes: FailedChanges,
    pub(crate) affinity: AccountAffinity,
}

/// The time of a login where none has been seen: an accept, a thread, three round trips and a look at the account take a server
/// about as long (seen with MariaDB and MySQL on the same machine).
const USUAL_TIME: Duration = Duration::from_millis(1);

/// A place changes hands after so many times the cost of opening a backend: the login itself, that of the account that has to
/// come back for it, and as much again, so that half of the work at worst is logins.
const WORTH: u32 = 4;

/// In any case after so long: a client that has waited this long is not to wait for others' convenience.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// A client that lacked a backend so long ago, while nobody could look for one, begins to wait anew: it may not be there any
/// more.
const REMEMBERED: Duration = Duration::from_secs(1);

/// Of the latest times the mean counts, each new one for an eighth: a slow login among many changes little.
const WEIGHT: u32 = 8;

/// What is known of opening backends, as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenOpening {
    time: Option<Duration>,
    time_of_change: Option<Duration>,
    has_looked: bool,
    looked_at: Distance,
    failed_changes: FrozenFailedChanges,
    /// See [`AccountAffinity`].
    place_taken_at: Option<Distance>,
}

plain!(struct FrozenOpening { time, time_of_change, has_looked, looked_at, failed_changes, place_taken_at });

impl Opening {
    /// Takes out what is known. Who waits stays: in another process logins begin to lack a backend anew, which is a matter of
    /// [`LONGEST_WAIT`].
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenOpening {
        let Self {
            time,
            time_of_change,
            lacking: _,
            lacked: _,
            has_looked,
            looked_at,
            failed_changes,
            affinity,
        } = self;
        FrozenOpening {
            time: time.take(),
            time_of_change: time_of_change.take(),
            has_looked: std::mem::take(has_looked),
            looked_at: Distance::of(std::mem::take(looked_at), now),
            failed_changes: std::mem::take(failed_changes).freeze(now),
            place_taken_at: affinity.take_place_taken().map(|at| Distance::of(at, now)),
        }
    }

    /// Puts it in the place of what is there.
    pub(crate) fn thaw(&mut self, frozen: FrozenOpening, now: Instant) {
        let FrozenOpening { time, time_of_change, has_looked, looked_at, failed_changes, place_taken_at } =
            frozen;
        self.time = time;
        self.time_of_change = time_of_change;
        self.has_looked = has_looked;
        self.looked_at = looked_at.from(now);
        self.failed_changes = failed_changes.thaw(now);
        if let Some(at) = place_taken_at {
            self.affinity.place_taken(at.from(now));
        }
    }
}

impl Opening {
    /// A backend that was asked for so long ago is ready.
    pub(crate) fn took(&mut self, time: Duration, changed: bool) {
        let mean = if changed { &mut self.time_of_change } else { &mut self.time };
        *mean = Some(match *mean {
            Some(mean) => (mean * (WEIGHT - 1) + time) / WEIGHT,
            None => time,
        });
    }

    /// Statements are about to be dispatched.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        if std::mem::take(&mut self.has_looked) {
            self.looked_at = now;
            self.lacked.clear();
            std::mem::swap(&mut self.lacking, &mut self.lacked);
        } else if now.since(self.looked_at) > REMEMBERED {
            self.lacked.clear();
        }
    }

    /// A statement of this login has a backend.
    pub(super) fn served(&mut self, login: Login) {
        if !(self.lacking.is_empty() && self.lacked.is_empty()) {
            self.lacking.retain(|&(other, _)| other != login);
            self.lacked.retain(|&(other, _)| other != login);
        }
    }

    /// A login lacks a backend. Returns since when it has.
    pub(super) fn lacks(&mut self, now: Instant, login: Login) -> Instant {
        self.has_looked = true;
        let same = |&&(other, _): &&(Login, Instant)| other == login;
        if let Some(&(_, since)) = self.lacking.iter().find(same) {
            return since;
        }
        let since = self.lacked.iter().find(same).map_or(now, |&(_, since)| since);
        self.lacking.push((login, since));
        since
    }

    /// How long a statement waits for a backend of its login before it gets another one's place, and for how long that must have
    /// been idle: with a change of account, or with a login.
    pub(super) fn worth(&self, by_change: bool) -> Duration {
        let time = self.time_of_change.filter(|_| by_change).or(self.time);
        (WORTH * time.unwrap_or(USUAL_TIME)).min(LONGEST_WAIT)
    }

    /// When the first login will have lacked a backend for long enough that others' places are looked at again.
    pub(crate) fn next_look(&self, now: Instant) -> Option<Instant> {
        let waits = [self.worth(true), self.worth(false), LONGEST_WAIT];
        let dues = self.lacking.iter().flat_map(|&(_, since)| waits.map(|wait| since + wait));
        dues.filter(|&due| due > now).min()
    }
}

/// The login that decides which clients a backend serves.
pub(super) type Login = (IdentityId, Capabilities);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frozen::plain::{bytes_of, read};

    #[test]
    fn what_is_known_goes_along_and_who_waits_stays() {
        let (then, later) = (Instant::from_micros(90_000_000), Instant::from_micros(5_000_000_000));
        let known = |now: Instant| {
            let mut opening = Opening::default();
            opening.took(Duration::from_millis(3), false);
            opening.took(Duration::from_millis(2), true);
            opening.failed_changes.add(now, b"app");
            opening.failed_changes.one_worked();
            opening.affinity.place_taken(now);
            opening.lacks(now, (IdentityId::of_test(1), Capabilities::NONE));
            opening.begin_turn(now);
            opening.has_looked = true;
            opening
        };
        let mut opening = known(then);
        let frozen: FrozenOpening = read(&bytes_of(&opening.freeze(then))).expect("it is whole");
        assert_eq!(opening.lacked.len(), 1);
        assert_eq!((opening.worth(false), opening.looked_at), (WORTH * USUAL_TIME, Instant::START));
        let mut other = Opening { lacked: opening.lacked.clone(), ..Opening::default() };
        other.thaw(frozen, later);
        let lacked = known(then).lacked;
        assert_eq!(format!("{other:?}"), format!("{:?}", Opening { lacked, ..known(later) }));
        assert_eq!([other.worth(false), other.worth(true)], [12, 8].map(Duration::from_millis));
    }
}
