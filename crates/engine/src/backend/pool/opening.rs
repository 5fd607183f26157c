//! Decides when backends are opened, and in the place of which others.
//!
//! Each login (an account, and the capabilities that must be alike) has backends of its own. Where all places are taken, a backend for
//! another login takes the place of an idle one, which changes its account or is closed. That costs the server a login, and one more
//! as soon as the other login comes again. A place that goes round between logins costs far more than the statements that it serves. So
//! a place changes hands at once only for a login that has no backend to wait for. For others it does so only where a statement has
//! waited longer than the change is worth, and from a login that has not used the place for as long.

use std::time::Duration;

use seam::Instant;
use wire::Capabilities;

use crate::accounts::{Identities, IdentityId};
use crate::backend::pool::account_affinity::waiting::AccountAffinity;
use crate::backend::pool::change::failed::{FailedChanges, FrozenFailedChanges};
use crate::frozen::Distance;

/// The state of opening backends.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// Mean time lately from the attempt to the first statement; none where no backend has been opened yet.
    time: Option<Duration>,
    /// The same time for backends that have changed their account.
    time_of_change: Option<Duration>,
    /// Logins with statements that have found no backend in this turn, each with the time since which that has been so.
    lacking: Vec<(Login, Instant)>,
    /// The same of the last turn in which anybody looked for a backend. While permits are short, nobody may look for many turns.
    lacked: Vec<(Login, Instant)>,
    /// True if a statement has looked for a backend in vain since the turn began. Below stands when one last has.
    has_looked: bool,
    looked_at: Instant,
    pub(in crate::backend) failed_changes: FailedChanges,
    pub(crate) affinity: AccountAffinity,
}

/// Time of a login where none has been seen. An accept, a thread, three round trips and a look at the account take a server about as long
/// (seen with MariaDB and MySQL on the same machine).
const USUAL_TIME: Duration = Duration::from_millis(1);

/// A place changes hands after this many times the cost of opening a backend. Two are the login itself, and that of the account that
/// has to come back. As much again keeps logins to half of the work at worst.
const WORTH: u32 = 4;

/// A place changes hands after this time in any case: a client that has waited so long does not wait for others' convenience.
pub(in crate::backend) const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// A login keeps the room of a full account for this time at most, however long a login takes: others wait for `backend_connect_timeout` (10 s).
const LONGEST_KEPT: Duration = Duration::from_secs(1);

/// A lack is remembered this long while nobody can look for a backend. After that a client begins to wait anew, since the former one may
/// be gone.
const REMEMBERED: Duration = Duration::from_secs(1);

/// Weight of the mean of the latest times: each new one counts for an eighth, so that a slow login among many changes little.
const WEIGHT: u32 = 8;

/// The lasting part of [`Opening`] as plain data ([`crate::frozen`]).
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
    /// Takes the lasting part out. The lacking logins stay: in another process logins begin to lack a backend anew, which is a matter of
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

    /// Puts the lasting part in the place of the present one.
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
    /// Notes that a backend is ready, this time after it was asked for.
    pub(crate) fn took(&mut self, time: Duration, changed: bool) {
        let mean = if changed { &mut self.time_of_change } else { &mut self.time };
        *mean = Some(match *mean {
            Some(mean) => (mean * (WEIGHT - 1) + time) / WEIGHT,
            None => time,
        });
    }

    /// Notes that statements are about to be dispatched.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        if std::mem::take(&mut self.has_looked) {
            self.looked_at = now;
            self.lacked.clear();
            std::mem::swap(&mut self.lacking, &mut self.lacked);
        } else if now.since(self.looked_at) > REMEMBERED {
            self.lacked.clear();
        }
    }

    /// Notes that a statement of this login has a backend.
    pub(super) fn served(&mut self, login: Login) {
        if !(self.lacking.is_empty() && self.lacked.is_empty()) {
            self.lacking.retain(|&(other, _)| other != login);
            self.lacked.retain(|&(other, _)| other != login);
        }
    }

    /// Notes that a login lacks a backend. Returns since when it has.
    pub(in crate::backend) fn lacks(&mut self, now: Instant, login: Login) -> Instant {
        self.has_looked = true;
        let same = |&&(other, _): &&(Login, Instant)| other == login;
        if let Some(&(_, since)) = self.lacking.iter().find(same) {
            return since;
        }
        let since = self.lacked.iter().find(same).map_or(now, |&(_, since)| since);
        self.lacking.push((login, since));
        since
    }

    /// Returns the identities of statements that have found no backend lately.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = IdentityId> {
        self.lacking.iter().chain(&self.lacked).map(|&((identity, _), _)| identity)
    }

    /// Returns the time that a statement waits for a backend of its login before it gets another one's place. That one must have been idle for
    /// as long. The time is for a change of account, or for a login.
    pub(super) fn worth(&self, by_change: bool) -> Duration {
        let time = self.time_of_change.filter(|_| by_change).or(self.time);
        (WORTH * time.unwrap_or(USUAL_TIME)).min(LONGEST_WAIT)
    }

    /// Returns the time for which a login keeps the room of a full account that it has got from another one: several times what a login takes.
    pub(super) fn kept_for(&self) -> Duration {
        (WORTH * self.time.unwrap_or(USUAL_TIME)).clamp(LONGEST_WAIT, LONGEST_KEPT)
    }

    /// Returns what the room of a full account costs another worker, the time of a login, and the time for which it is kept for that.
    pub(super) fn costs_of_room(&self) -> (Duration, Duration) {
        (self.time.unwrap_or(USUAL_TIME).min(LONGEST_KEPT), self.kept_for())
    }

    /// Returns the time at which the next login will have lacked a backend for long enough that others' places are looked at again, or at which
    /// the server may be asked again for one that it has refused.
    pub(crate) fn next_look(&self, now: Instant, identities: &Identities) -> Option<Instant> {
        let waits = [self.worth(true), self.worth(false), LONGEST_WAIT, self.kept_for()];
        let dues = self.lacking.iter().flat_map(|&(_, since)| waits.map(|wait| since + wait));
        let refused = self.lacking.iter().filter_map(|&((id, _), _)| identities.refused_until(id));
        dues.chain(refused).filter(|&due| due > now).min()
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
