//! Plain data in the place of what a process holds, so that another process can go on with it.
//!
//! Frozen data has no reference, nothing that is shared, and no key of a table. An instant is its distance from the moment of freezing
//! ([`Distance`]). Values that several share go by value (session states, prepared statements), and are shared again where they are thawed.
//! An entry of a table that goes along is named by a property that stays the same in the next process: a backend by its token, an identity
//! by its number and name. [`plain`] turns all of this into bytes and back.
//!
//! A client is frozen in `client/frozen.rs`, by taking its struct apart without `..`: a new field does not compile until
//! somebody has said there what becomes of it.

#[macro_use]
pub(crate) mod plain;
mod foreign;

use std::collections::BTreeMap;
use std::fmt;

use seam::Instant;

/// An instant as seen from the moment of freezing: microseconds behind it, or ahead of it where that is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Distance(i64);

impl Distance {
    pub(crate) fn of(instant: Instant, now: Instant) -> Self {
        // Neither is further away than a process lives, which is what fits.
        Self(now.as_micros().wrapping_sub(instant.as_micros()) as i64)
    }

    /// The instant, seen from the moment of thawing. An instant before the beginning of the new process's time becomes that beginning.
    pub(crate) fn from(self, now: Instant) -> Instant {
        Instant::from_micros(now.as_micros().saturating_add_signed(self.0.saturating_neg()))
    }

    /// The distance of an instant that is kept in microseconds, as where several workers write it.
    pub(crate) fn of_micros(micros: u64, now: Instant) -> Self {
        Self::of(Instant::from_micros(micros), now)
    }

    /// The instant in microseconds, as in [`Self::of_micros`].
    pub(crate) fn micros_from(self, now: Instant) -> u64 {
        self.from(now).as_micros()
    }
}

plain!(struct Distance { 0 });

/// Turns the instants of a map into distances from now.
pub(crate) fn distances<K>(instants: BTreeMap<K, Instant>, now: Instant) -> Vec<(K, Distance)> {
    instants.into_iter().map(|(key, instant)| (key, Distance::of(instant, now))).collect()
}

/// Turns the distances from [`distances`] into instants again.
pub(crate) fn instants<K: Ord>(distances: Vec<(K, Distance)>, now: Instant) -> BTreeMap<K, Instant> {
    distances.into_iter().map(|(key, distance)| (key, distance.from(now))).collect()
}

/// The reason why something cannot be turned into plain data as it is now. Later it can be, when what it is in the middle of is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotFrozen {
    /// A client has not been greeted: the server has not said yet what a greeting has to repeat.
    NotGreeted,
    /// A client is in its login, which ends within `connect_timeout`: what is asked for it of other threads and of the server comes back to
    /// this process.
    LogsIn,
    /// Another thread of this process reads a client's large text.
    IsRead,
    /// A client's statement waits elsewhere than in a queue of the scheduler: for its user's share, for its delay, or for the answer to another
    /// one that runs. Or the statement is more than plain data, as one that ends another client's.
    Waits,
    /// A client's statement is at a server: its answer comes to this process.
    Runs,
    /// Another worker is asked to kill one of its clients.
    Kills,
    /// A client's statement is with a reader. The reader's answer comes to this process.
    IsLent,
    /// The layer below has the keys of a connection's encryption.
    IsEncrypted,
    /// A backend is in use, or on its way.
    IsUsed,
    /// The service account's connection to a server is in the middle of a question, or on its way; or a letter to or from a peer is.
    Asks,
}

impl fmt::Display for NotFrozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotGreeted => "it has not been greeted",
            Self::LogsIn => "it is in its login",
            Self::IsRead => "another thread reads its text",
            Self::Waits => "its statement waits elsewhere than in a queue",
            Self::Runs => "its statement runs",
            Self::Kills => "it waits for another worker to kill a client",
            Self::IsLent => "a reader has its statement",
            Self::IsEncrypted => "its connection is encrypted",
            Self::IsUsed => "it is in use",
            Self::Asks => "the service account waits for an answer",
        })
    }
}

/// The reason why plain data does not become what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotThawed {
    /// These bytes are not what was frozen, or come from a version with another form.
    Unreadable,
    /// The identity of a client is not among those that are known.
    UnknownIdentity,
    /// The backend that a client holds is not there.
    UnknownBackend,
    /// Another client waits for the answer to this client's statement, but none of its statements waits.
    UnknownLeader,
}
