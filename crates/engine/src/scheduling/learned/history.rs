//! The record of the latest statements of one kind: the ground on which a statement may share a backend with others.

use std::fmt;
use std::time::Duration;

/// How many kinds are remembered. A collision replaces the older kind, which then has to prove itself again; 4,096
/// entries of 16 bytes stay in the second-level cache.
const KINDS: usize = 4096;

/// Executions in a row that must have been harmless before statements of a kind are sent several at a time.
const TRIALS: u16 = 8;

/// Executions in a row that must have been harmless behind one that had warnings. Where others are behind that one already, the texts
/// of its warnings are lost: that comes to no more than one in as many, and a kind of ten thousand a second is back in half a second.
const TRIALS_BEHIND_WARNINGS: u16 = 4096;

/// A statement slower than this on the server would hold up those behind it noticeably: ten times what a point select
/// takes with a loaded machine's scheduling delays.
pub(crate) const SHORT: Duration = Duration::from_millis(5);

/// A statement that takes so long has not just waited for a core of a loaded machine: for a lock, rather, or it had more to do
/// than its like.
pub(crate) const STUCK: Duration = Duration::from_millis(20);

/// How long that is remembered at most. Who locks a table does so again, and a kind that shares with its like alone loses little.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(10);

/// A reply larger than this may not fit into a socket buffer, so that a slow client could hold up those behind it.
const SMALL: u64 = 16 << 10;

/// The number of executions for which a kind is not coalesced after a large reply: the followers of the next large one would
/// have waited for nothing.
const LARGE_FOR: u8 = 64;

/// A kind of statement, by fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Kind {
    fingerprint: u64,
    harmless_in_a_row: u16,
    /// Executions without warnings to come before it is sent behind others again.
    warned: u16,
    /// Executions to come before large replies are forgotten.
    large: u8,
}

/// The traces that an execution has left on its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traces {
    Nothing,
    /// An error that its packet tells of, or a change of session state.
    Something,
    /// Warnings, of which only the next question can tell.
    Warnings,
}

plain!(struct Kind { fingerprint, harmless_in_a_row, warned, large });

/// Remembers kinds of statements by fingerprint in a table of fixed size.
pub(crate) struct History {
    kinds: Vec<Kind>,
}

impl fmt::Debug for History {
    /// The kinds that have been seen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kinds.iter().filter(|kind| **kind != Kind::default())).finish()
    }
}

/// [`History`] as plain data ([`crate::frozen`]): the kinds that have been seen, each of which knows its place.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenHistory {
    kinds: Vec<Kind>,
}

plain!(struct FrozenHistory { kinds });

impl History {
    /// Takes all of it out.
    pub(crate) fn freeze(&mut self) -> FrozenHistory {
        let Self { kinds } = std::mem::take(self);
        FrozenHistory { kinds: kinds.into_iter().filter(|kind| *kind != Kind::default()).collect() }
    }

    /// Puts it in the place of what is there.
    pub(crate) fn thaw(&mut self, frozen: FrozenHistory) {
        let FrozenHistory { kinds } = frozen;
        *self = Self::default();
        for kind in kinds {
            self.kinds[slot(kind.fingerprint)] = kind;
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self { kinds: vec![Kind::default(); KINDS] }
    }
}

impl History {
    /// Says whether the latest statements of this kind were all short, small and without errors, and even more of them without
    /// warnings.
    pub(crate) fn is_harmless(&self, fingerprint: u64) -> bool {
        let kind = &self.kinds[slot(fingerprint)];
        kind.fingerprint == fingerprint && kind.harmless_in_a_row >= TRIALS && kind.warned == 0
    }

    /// Says whether one of the latest replies to statements of this kind was too large to be collected for many clients.
    pub(crate) fn is_large(&self, fingerprint: u64) -> bool {
        let kind = &self.kinds[slot(fingerprint)];
        kind.fingerprint == fingerprint && kind.large > 0
    }

    /// A reply of this kind is too large for that.
    pub(crate) fn note_large(&mut self, fingerprint: u64) {
        let kind = &mut self.kinds[slot(fingerprint)];
        if kind.fingerprint != fingerprint {
            *kind = Kind { fingerprint, ..Kind::default() };
        }
        kind.large = LARGE_FOR;
    }

    /// Takes in one execution: the time from its start on the server to its end, the bytes of its reply, and what it left.
    pub(crate) fn record(&mut self, fingerprint: u64, time: Duration, reply: u64, left: Traces) {
        let kind = &mut self.kinds[slot(fingerprint)];
        if kind.fingerprint != fingerprint {
            *kind = Kind { fingerprint, ..Kind::default() };
        }
        kind.large = kind.large.saturating_sub(1);
        kind.warned = match left {
            Traces::Warnings => TRIALS_BEHIND_WARNINGS,
            Traces::Nothing | Traces::Something => kind.warned.saturating_sub(1),
        };
        let leaves = left != Traces::Nothing;
        let harmless = time <= SHORT && reply <= SMALL && !leaves;
        // One slow execution may be the machine's: it costs half the trust. Size and diagnostics are the statement's.
        kind.harmless_in_a_row = match (harmless, reply > SMALL || leaves) {
            (true, _) => kind.harmless_in_a_row.saturating_add(1).min(4 * TRIALS),
            (false, false) => kind.harmless_in_a_row / 2,
            (false, true) => 0,
        };
    }
}

fn slot(fingerprint: u64) -> usize {
    // The upper bits of a multiplicative hash: fingerprints may differ in their lower bits only.
    (fingerprint.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

const _: () = assert!(KINDS == 1 << (64 - 52), "slot() yields as many bits as there are kinds");

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(50);

    #[test]
    fn trust_comes_with_trials_and_goes_with_diagnostics() {
        let mut history = History::default();
        for _ in 0..TRIALS {
            assert!(!history.is_harmless(42));
            history.record(42, FAST, 100, Traces::Nothing);
        }
        assert!(history.is_harmless(42));
        history.record(42, FAST, 100, Traces::Something);
        assert!(!history.is_harmless(42));
    }

    #[test]
    fn a_kind_that_has_warned_goes_alone_for_long() {
        let mut history = History::default();
        history.record(42, FAST, 100, Traces::Warnings);
        for _ in 0..TRIALS_BEHIND_WARNINGS {
            assert!(!history.is_harmless(42));
            history.record(42, FAST, 100, Traces::Nothing);
        }
        assert!(history.is_harmless(42));
    }

    #[test]
    fn one_slow_execution_does_not_end_long_trust_but_two_do() {
        let mut history = History::default();
        for _ in 0..100 {
            history.record(7, FAST, 100, Traces::Nothing);
        }
        history.record(7, Duration::from_secs(1), 100, Traces::Nothing);
        assert!(history.is_harmless(7));
        history.record(7, Duration::from_secs(1), 100, Traces::Nothing);
        history.record(7, Duration::from_secs(1), 100, Traces::Nothing);
        assert!(!history.is_harmless(7));
    }

    #[test]
    fn a_large_reply_ends_trust() {
        let mut history = History::default();
        for _ in 0..100 {
            history.record(7, FAST, 100, Traces::Nothing);
        }
        history.record(7, FAST, SMALL + 1, Traces::Nothing);
        assert!(!history.is_harmless(7));
    }
}
