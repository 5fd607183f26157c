//! Knowledge of kinds of statements as plain data ([`crate::frozen`]), and back.

use seam::Instant;

use super::{Digest, Digests, Recent, Times};
use crate::frozen::Distance;
use crate::outside::histogram::SmallHistogram;
use crate::scheduling::learned::stuck::FrozenStuck;
use crate::scheduling::learned::waiting::FrozenWaiting;

/// [`Digests`] as plain data.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenDigests {
    digests: Vec<FrozenDigest>,
    others: FrozenDigest,
}

/// See [`Digest`].
#[derive(Debug, PartialEq)]
struct FrozenDigest {
    fingerprint: Option<u64>,
    text: Option<Box<str>>,
    count: u64,
    errors: u64,
    coalesced: u64,
    rows_sent: u64,
    rows_affected: u64,
    execution: Times,
    wait: Times,
    first_seen: Distance,
    last_seen: Distance,
    histogram: SmallHistogram,
    stuck: FrozenStuck,
    recent: Recent,
    waiting: FrozenWaiting,
    usual_long: u32,
    usual_response: f32,
}

plain!(struct FrozenDigests { digests, others });
plain!(struct FrozenDigest {
    fingerprint, text, count, errors, coalesced, rows_sent, rows_affected, execution, wait, first_seen, last_seen,
    histogram, stuck, recent, waiting, usual_long, usual_response,
});
plain!(struct Times { sum, min, max });
plain!(struct Recent { longest, longest_before, in_generation, has_before });

impl Digests {
    /// Takes all of them out.
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenDigests {
        let before = std::mem::replace(self, Self::new(0));
        let Self { limit, digests, index: _, others } = before; // the index follows from the digests
        self.limit = limit; // a setting of whoever thaws them
        FrozenDigests {
            digests: digests.into_iter().map(|digest| digest.freeze(now)).collect(),
            others: others.freeze(now),
        }
    }

    /// Puts them in the place of what is there. Where there is less room than before, the last ones are counted with those that found no place.
    pub(crate) fn thaw(&mut self, frozen: FrozenDigests, now: Instant) {
        let FrozenDigests { digests, others } = frozen;
        self.clear();
        self.others = Digest::thawed(others, now);
        for digest in digests {
            let digest = Digest::thawed(digest, now);
            let is_new = digest.fingerprint.is_some_and(|fingerprint| self.is_news(fingerprint));
            if is_new { self.put(digest) } else { self.others += &digest }
        }
    }
}

impl Digest {
    fn freeze(self, now: Instant) -> FrozenDigest {
        let Self {
            fingerprint,
            text,
            count,
            errors,
            coalesced,
            rows_sent,
            rows_affected,
            execution,
            wait,
            first_seen,
            last_seen,
            histogram,
            stuck,
            recent,
            waiting,
            usual_long,
            usual_response,
        } = self;
        FrozenDigest {
            fingerprint,
            text,
            count,
            errors,
            coalesced,
            rows_sent,
            rows_affected,
            execution,
            wait,
            first_seen: Distance::of(first_seen, now),
            last_seen: Distance::of(last_seen, now),
            histogram,
            stuck: stuck.freeze(now),
            recent,
            waiting: waiting.freeze(now),
            usual_long,
            usual_response,
        }
    }

    fn thawed(frozen: FrozenDigest, now: Instant) -> Self {
        let FrozenDigest {
            fingerprint,
            text,
            count,
            errors,
            coalesced,
            rows_sent,
            rows_affected,
            execution,
            wait,
            first_seen,
            last_seen,
            histogram,
            stuck,
            recent,
            waiting,
            usual_long,
            usual_response,
        } = frozen;
        Self {
            fingerprint,
            text,
            count,
            errors,
            coalesced,
            rows_sent,
            rows_affected,
            execution,
            wait,
            first_seen: first_seen.from(now),
            last_seen: last_seen.from(now),
            histogram,
            stuck: stuck.thaw(now),
            recent,
            waiting: waiting.thaw(now),
            usual_long,
            usual_response,
        }
    }
}
