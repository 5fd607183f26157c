//! How long a worker's turns take: while one lasts, the worker serves nobody else.

use std::time::Duration;

use seam::Instant;

use crate::scheduling::learned::digests::Digests;

/// The longest turn that is told is one of the last minute at least, and of two at most: what was long ago hides nothing that is new.
const WINDOW: Duration = Duration::from_secs(60);

/// A turn, and the digest of the largest statement that came in it, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    took: Duration,
    digest: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// The largest statement of the turn that is under way: its bytes, and its digest.
    largest: (usize, u64),
    /// The longest one since a moment, and of the window before that.
    longest: Turn,
    since: Instant,
    before: Turn,
}

impl Turns {
    /// A statement has come.
    pub(crate) fn note_statement(&mut self, bytes: usize, digest: u64) {
        if bytes > self.largest.0 {
            self.largest = (bytes, digest);
        }
    }

    /// A turn has taken so long.
    pub(super) fn note(&mut self, now: Instant, took: Duration) {
        let (_, digest) = std::mem::take(&mut self.largest);
        if now.since(self.since) >= WINDOW {
            self.before = std::mem::take(&mut self.longest);
            if now.since(self.since) >= 2 * WINDOW {
                self.before = Turn::default();
            }
            self.since = now;
        }
        if took > self.longest.took {
            self.longest = Turn { took, digest };
        }
    }

    /// The longest one of late.
    pub(crate) fn longest(&self) -> Turn {
        if self.before.took > self.longest.took { self.before } else { self.longest }
    }

    /// The same, as operators see it.
    pub(crate) fn told(&self, digests: &Digests) -> LongestTurn {
        let Turn { took, digest } = self.longest();
        let statement = digests.text(digest).map(str::to_owned);
        LongestTurn { took, digest: Some(digest).filter(|&digest| digest != 0), statement }
    }
}

/// A turn as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongestTurn {
    /// The length of the turn, from the event that began it to the last of its outputs.
    pub took: Duration,
    /// The digest of the largest statement that came in it.
    pub digest: Option<u64>,
    /// See [`Digests::text`](crate::Digests::text).
    pub statement: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_turn_of_late_is_told_with_its_largest_statement() {
        let (second, ms) = (|second: u64| Instant::from_micros(second * 1_000_000), Duration::from_millis);
        let mut turns = Turns::default();
        turns.note_statement(10, 1);
        turns.note_statement(30, 3);
        turns.note_statement(20, 2);
        turns.note(second(1), ms(5));
        turns.note(second(2), ms(4));
        assert_eq!(turns.longest(), Turn { took: ms(5), digest: 3 });
        turns.note(second(59), ms(7));
        assert_eq!(turns.longest(), Turn { took: ms(7), digest: 0 }, "no statement came in it");
        turns.note(second(61), ms(1));
        assert_eq!(turns.longest().took, ms(7), "it is not a minute ago");
        turns.note(second(122), ms(2));
        assert_eq!(turns.longest().took, ms(2));
        turns.note(second(500), ms(1));
        assert_eq!(turns.longest().took, ms(1));
    }
}
