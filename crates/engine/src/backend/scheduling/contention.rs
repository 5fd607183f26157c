//! The kinds of statements that are contended on a server.

use std::collections::BTreeMap;
use std::time::Duration;

use seam::Instant;

use crate::frozen::{Distance, distances, instants};
use crate::scheduling::learned::history;

/// A kind is taken for contended this long after it was seen to be. That is a few times as long as until the server is asked again.
const REMEMBERED: Duration = Duration::from_secs(2);

/// Fewest waiting statements that say anything of their kind.
const FEWEST: u32 = 2;

/// A fingerprint and the default schema. The same text means other tables in another schema, which nobody may have locked.
pub(crate) type KindInSchema = (u64, Option<Box<[u8]>>);

/// The kinds that wait for locks, and the number of backends in work for them.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// The contended kinds, each with the time until which it is taken for that.
    kinds: BTreeMap<KindInSchema, Instant>,
    /// The kinds that were contended, each with the time until which that is remembered.
    former: BTreeMap<KindInSchema, Instant>,
    /// Number of backends with [`crate::backend::Locks::contends`].
    pub(crate) in_work: u32,
}

/// The kinds of [`Contention`] as plain data.
#[derive(Debug, PartialEq)]
pub(crate) struct FrozenContention {
    kinds: Vec<(KindInSchema, Distance)>,
    former: Vec<(KindInSchema, Distance)>,
}

plain!(struct FrozenContention { kinds, former });

impl Contention {
    /// Takes the kinds out. The number in work stays, since each backend in work counts itself.
    pub(crate) fn freeze(&mut self, now: Instant) -> FrozenContention {
        let Self { kinds, former, in_work: _ } = self;
        let freeze = |kinds| distances(std::mem::take(kinds), now);
        FrozenContention { kinds: freeze(kinds), former: freeze(former) }
    }

    pub(crate) fn thaw(&mut self, frozen: FrozenContention, now: Instant) {
        let FrozenContention { kinds, former } = frozen;
        self.kinds = instants(kinds, now);
        self.former = instants(former, now);
    }
}

impl Contention {
    /// Says whether any kind is contended.
    pub(crate) fn is_there(&self, now: Instant) -> bool {
        self.kinds.values().any(|&until| until > now)
    }

    /// Says whether a kind is contended in any schema.
    pub(crate) fn has_in_some_schema(&self, fingerprint: u64, now: Instant) -> bool {
        self.kinds.iter().any(|(kind, &until)| kind.0 == fingerprint && until > now)
    }

    pub(in crate::backend) fn has(&self, fingerprint: u64, schema: Option<&[u8]>, now: Instant) -> bool {
        holds(&self.kinds, fingerprint, schema, now)
    }

    /// Says whether a kind was contended a while ago. A lock that is given back leaves a backlog. The statements there had better not wait for
    /// each other on a backend: their clients have waited long enough.
    pub(super) fn was_there(&self, fingerprint: u64, schema: Option<&[u8]>, now: Instant) -> bool {
        holds(&self.former, fingerprint, schema, now)
    }

    /// Counts a backend out that was in work.
    pub(crate) fn rests(&mut self) {
        self.in_work = self.in_work.saturating_sub(1);
    }

    /// Takes in how many statements of each kind run here, and how many of them wait. True where a kind is not contended any more.
    pub(crate) fn note(&mut self, now: Instant, found: BTreeMap<KindInSchema, (u32, u32)>) -> bool {
        let before = self.kinds.len();
        self.kinds.retain(|_, until| *until > now);
        let mut fewer = self.kinds.len() < before;
        self.former.retain(|_, until| *until > now);
        for (kind, (running, waiting)) in found {
            if waiting >= FEWEST && waiting * 2 >= running {
                self.former.insert(kind.clone(), now + history::REMEMBERED);
                self.kinds.insert(kind, now + REMEMBERED);
            } else if waiting == 0 {
                fewer |= self.kinds.remove(&kind).is_some();
            }
        }
        fewer
    }
}

/// Says whether a kind is in such a table at present.
pub(crate) fn holds(
    kinds: &BTreeMap<KindInSchema, Instant>,
    fingerprint: u64,
    schema: Option<&[u8]>,
    now: Instant,
) -> bool {
    let of_text = (fingerprint, None)..(fingerprint.saturating_add(1), None);
    kinds.range(of_text).any(|((_, of), &until)| of.as_deref() == schema && until > now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_contended_where_half_of_it_waits_and_for_a_while() {
        let at = |millis: u64| Instant::from_micros(millis * 1000);
        let mut contention = Contention::default();
        let schema: Option<Box<[u8]>> = Some(b"shop"[..].into());
        let found = |running, waiting| BTreeMap::from([((7, schema.clone()), (running, waiting))]);
        let has = |contention: &Contention, kind, now| contention.has(kind, Some(b"shop"), now);
        assert!(!contention.note(at(0), found(1, 1)));
        assert!(!contention.is_there(at(0)), "one says nothing");
        contention.note(at(0), found(5, 2));
        assert!(!has(&contention, 7, at(0)), "most go on");
        contention.note(at(0), found(4, 2));
        assert!(
            has(&contention, 7, at(1999)) && !has(&contention, 7, at(2000)) && !has(&contention, 8, at(0))
        );
        assert!(!contention.has(7, Some(b"blog"), at(0)) && !contention.has(7, None, at(0)), "other tables");
        contention.note(at(1), found(4, 1));
        assert!(has(&contention, 7, at(1)), "fewer than half still wait");
        assert!(contention.note(at(1), found(4, 0)), "one less");
        assert!(!contention.is_there(at(1)), "none waits any more");
        let was_there = |schema: &[u8], now| contention.was_there(7, Some(schema), now);
        assert!(was_there(b"shop", at(9999)) && !was_there(b"shop", at(10_000)));
        assert!(!was_there(b"blog", at(0)));
    }
}
