//! The kinds of statements that have got on while many backends are in use, and those that have not.

use std::collections::BTreeMap;

use seam::Instant;

use crate::backend::scheduling::contention::KindInSchema;
use crate::frozen::{Distance, distances, instants};

/// Most kinds that are remembered. Most backends run a few kinds at a time. With more, all are forgotten: a kind may then be taken to
/// stand until the next one of it ends.
const KINDS: usize = 1024;

/// The record of kinds while many backends are in use.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    /// Time at which the latest statement of each kind ended.
    pub(super) ended: BTreeMap<KindInSchema, Instant>,
    /// Kinds that stand, each with the time until which that is believed.
    pub(super) standing: BTreeMap<KindInSchema, Instant>,
}

/// [`Reserve`] as plain data ([`crate::frozen`]).
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenReserve {
    ended: Vec<(KindInSchema, Distance)>,
    standing: Vec<(KindInSchema, Distance)>,
}

plain!(struct FrozenReserve { ended, standing });

impl Reserve {
    /// Takes the whole record out.
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenReserve {
        let Self { ended, standing } = std::mem::take(self);
        FrozenReserve { ended: distances(ended, now), standing: distances(standing, now) }
    }

    /// Puts a record in the place of the present one.
    pub(crate) fn thaw(&mut self, frozen: FrozenReserve, now: Instant) {
        let FrozenReserve { ended, standing } = frozen;
        *self = Self { ended: instants(ended, now), standing: instants(standing, now) };
    }
}

impl Reserve {
    /// Notes that a statement has ended. True where its kind was taken to stand.
    pub(super) fn note_end(&mut self, now: Instant, fingerprint: u64, schema: Option<&[u8]>) -> bool {
        let mut of_text = self.ended.range_mut((fingerprint, None)..(fingerprint.saturating_add(1), None));
        if let Some((_, ended)) = of_text.find(|((_, of), _)| of.as_deref() == schema) {
            *ended = now;
        } else {
            if self.ended.len() >= KINDS {
                self.ended.clear();
            }
            self.ended.insert((fingerprint, schema.map(Into::into)), now);
        }
        let before = self.standing.len();
        self.standing.retain(|(of, in_schema), _| *of != fingerprint || in_schema.as_deref() != schema);
        self.standing.len() < before
    }

    /// Says whether statements of a kind run and none gets on: none has ended since the oldest of them began, or since `stalled`. One that began
    /// before a lock came may be older than the last that ended. Looks at no more running statements than necessary.
    pub(super) fn has_stalled(
        &self,
        kind: &KindInSchema,
        stalled: Instant,
        mut running: impl Iterator<Item = Instant>,
    ) -> bool {
        match self.ended.get(kind).filter(|&&ended| ended >= stalled) {
            None => running.next().is_some(),
            Some(&ended) => {
                running.next().is_some_and(|since| since > ended) && running.all(|since| since > ended)
            }
        }
    }

    /// Forgets all. True where a kind was taken to stand.
    pub(super) fn clear(&mut self) -> bool {
        let stood = !self.standing.is_empty();
        *self = Self::default();
        stood
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_stands_until_one_of_it_ends() {
        let at = |millis: u64| Instant::from_micros(millis * 1000);
        let kind = |fingerprint| (fingerprint, Some(b"shop"[..].into()));
        let mut reserve = Reserve::default();
        let stalled = |reserve: &Reserve, number, since: &[u64]| {
            reserve.has_stalled(&kind(number), at(3), since.iter().copied().map(at))
        };
        assert!(!stalled(&reserve, 7, &[]), "none runs");
        assert!(stalled(&reserve, 7, &[5]), "none has ended");
        reserve.standing.insert(kind(7), at(1000));
        let shop = Some(&b"shop"[..]);
        assert!(!reserve.note_end(at(6), 7, None), "in another schema");
        assert!(reserve.note_end(at(6), 7, shop) && !reserve.note_end(at(6), 7, shop), "once");
        assert!(!stalled(&reserve, 7, &[7, 5]) && !stalled(&reserve, 7, &[5, 7]), "the oldest is older");
        assert!(stalled(&reserve, 7, &[7, 8]) && !stalled(&reserve, 7, &[]));
        let later = |ended| reserve.has_stalled(&kind(7), at(ended), std::iter::once(at(5)));
        assert!(!later(6) && later(7), "long ago");
        assert!(stalled(&reserve, 8, &[5]), "another one");
        assert!(!reserve.clear());
        assert!(stalled(&reserve, 7, &[5]), "forgotten");
    }
}
