//! The places that statements went to, and the reasons.

use std::collections::BTreeMap;

use crate::outside::enum_map::EnumMap;
use crate::outside::named::named;

named! {
    /// The reason why a statement went to the primary.
    NotSplit {
        /// The statement's client wants it to.
        AsWanted = "as_wanted",
        /// The text may do more than read, or may not be understood.
        NoPlainRead = "no_plain_read",
        /// The statement asks for something of its session.
        OfSession = "of_session",
        /// The statement asks for something of its server: a schema that each server has of its own.
        OfServer = "of_server",
        /// The client has a transaction open, or autocommit off.
        Transaction = "transaction",
        /// The client holds something on the primary, or writes what replicas never get.
        HoldsState = "holds_state",
        /// The server has functions, which a view could call and which could write.
        Functions = "functions",
        /// The stored code behind it may change the session, or could not be read.
        StoredCode = "stored_code",
        /// There is no replica for the statement.
        NoReplica = "no_replica",
        /// Replicas that could take it have the weight 0.
        NoWeight = "no_weight",
        /// The primary is in Onramp's own zone, and no replica there could take it.
        OtherZone = "other_zone",
        /// No replica has what it has to see, and it does not wait for that.
        Behind = "behind",
        /// The primary is likely to answer sooner, or it is its turn.
        Sooner = "sooner",
        /// The statement has waited for a replica in vain.
        NotInTime = "not_in_time",
        /// A replica had it, and has not answered it.
        CameBack = "came_back",
    }
}

impl NotSplit {
    /// A sentence for who looks.
    pub const fn says(self) -> &'static str {
        match self {
            Self::AsWanted => {
                "Its client wants the primary, by onramp_reads or by a comment in front of the statement."
            }
            Self::NoPlainRead => {
                "It is no plain SELECT: it may do more than read, or Onramp is not sure of its text."
            }
            Self::OfSession => {
                "It asks for something of its session: a function such as FOUND_ROWS(), a variable, or no table at all."
            }
            Self::OfServer => {
                "It asks for something of its server: it names a schema that each server has of its own, or its client is in one."
            }
            Self::Transaction => "Its client had a transaction open, or autocommit off.",
            Self::HoldsState => {
                "Its client holds something on the primary (a temporary table, a lock), or a backend whatever it says (the table pins \
                 says why), writes without the binary log, or logs in by a password that only the server can judge."
            }
            Self::Functions => {
                "The primary has stored or loaded functions, or has not said yet that it has none: a view could call one that writes."
            }
            Self::StoredCode => "The stored code behind it may change the session, or could not be read.",
            Self::NoReplica => {
                "No replica could be read from, or none that lets its account in: the table servers says why of each."
            }
            Self::NoWeight => "Those replicas that could be read from have the weight 0 (read_weights).",
            Self::OtherZone => {
                "The primary is in Onramp's own zone, and those replicas that could take it are in others (read_split = all, zone)."
            }
            Self::Behind => {
                "No replica had all that it was to see, and it does not wait for that (read_split = all, or read_wait_limit = 0s)."
            }
            Self::Sooner => {
                "The primary was likely to answer sooner, or it was its turn by read_weights (read_split = all)."
            }
            Self::NotInTime => {
                "It waited for a replica to have all that it was to see, until read_wait_limit, or until none was left to wait for."
            }
            Self::CameBack => {
                "A replica had it and did not answer it: it was lost, refused it, or could not begin with it."
            }
        }
    }
}

/// The places that the statements of a kind went to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// Statements that went to replicas.
    pub sent: u64,
    /// Statements among all of them that have waited for a replica to have what they had to see.
    pub waited: u64,
    /// Statements that went to the primary.
    pub not_split: EnumMap<NotSplit, u64>,
}

impl Routed {
    /// Statements that went to the primary, those that a replica had first among them.
    pub fn primary(&self) -> u64 {
        self.not_split.total()
    }

    /// Statements that went to the primary after they had waited for a replica, or had been on one.
    pub fn returned(&self) -> u64 {
        self.not_split[NotSplit::NotInTime] + self.not_split[NotSplit::CameBack]
    }

    /// The reason why most of them went to the primary, and how many; of several the first that is declared.
    pub fn reason(&self) -> Option<(NotSplit, u64)> {
        let all = self.not_split.iter().map(|(why, &times)| (why, times)).rev();
        all.max_by_key(|&(_, times)| times).filter(|&(_, times)| times > 0)
    }
}

impl std::ops::AddAssign<&Self> for Routed {
    /// Several workers together.
    fn add_assign(&mut self, other: &Self) {
        self.sent += other.sent;
        self.waited += other.waited;
        self.not_split += &other.not_split;
    }
}

/// The places that statements went to, by digest.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    /// The number of digests that are counted apart, as those of [`crate::Digests`] are.
    limit: usize,
    by_digest: BTreeMap<u64, Routed>,
    /// Statements without a digest, and those of digests that found no place.
    others: Routed,
}

impl Routing {
    /// Makes counts with room for so many digests.
    pub(super) fn new(limit: u32) -> Self {
        Self { limit: limit as usize, ..Self::default() }
    }

    /// The counts of this digest, to be counted up.
    pub(super) fn of(&mut self, fingerprint: u64) -> &mut Routed {
        let has_room = self.by_digest.len() < self.limit;
        match self.by_digest.entry(fingerprint) {
            _ if fingerprint == 0 => &mut self.others,
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) if has_room => free.insert(Routed::default()),
            std::collections::btree_map::Entry::Vacant(_) => &mut self.others,
        }
    }

    /// A statement goes to the primary.
    pub(super) fn note_primary(&mut self, fingerprint: u64, why: NotSplit) {
        self.of(fingerprint).not_split[why] += 1;
    }

    /// The next `count` digests from this one on; first those without, under 0.
    pub(crate) fn piece(&self, from: u64, count: usize) -> impl Iterator<Item = (u64, &Routed)> {
        let others = (from == 0 && self.others != Routed::default()).then_some((0, &self.others));
        let named = self.by_digest.range(from..).map(|(&fingerprint, routed)| (fingerprint, routed));
        others.into_iter().chain(named).take(count)
    }

    /// The counts of all digests together.
    pub(crate) fn all(&self) -> Routed {
        let mut all = self.others;
        self.by_digest.values().for_each(|routed| all += routed);
        all
    }

    /// Bytes of it.
    pub(crate) fn bytes(&self) -> usize {
        // The nodes of a B-tree are at least half full.
        self.by_digest.len() * 2 * size_of::<(u64, Routed)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_digest_is_counted_apart_as_long_as_there_is_room() {
        let mut routing = Routing::new(2);
        for fingerprint in [0, 7, 5, 9, 7] {
            routing.note_primary(fingerprint, NotSplit::Transaction);
        }
        routing.of(5).sent += 3;
        let counted = |from, count| -> Vec<_> {
            routing
                .piece(from, count)
                .map(|(digest, routed)| (digest, routed.sent, routed.primary()))
                .collect()
        };
        assert_eq!(counted(0, 9), [(0, 0, 2), (5, 3, 1), (7, 0, 2)]);
        assert_eq!(counted(0, 2), [(0, 0, 2), (5, 3, 1)]);
        assert_eq!(counted(6, 2), [(7, 0, 2)]);
        assert_eq!((routing.all().sent, routing.all().primary()), (3, 5));
    }

    #[test]
    fn the_commonest_reason_is_told() {
        let mut routed = Routed::default();
        assert_eq!(routed.reason(), None);
        routed.not_split[NotSplit::CameBack] = 1;
        routed.not_split[NotSplit::Transaction] = 2;
        routed.not_split[NotSplit::Behind] = 2;
        assert_eq!(routed.reason(), Some((NotSplit::Transaction, 2)));
        assert_eq!((routed.primary(), routed.returned()), (5, 1));
    }

    #[test]
    fn each_reason_has_a_sentence() {
        for why in NotSplit::ALL {
            assert!(why.says().ends_with('.') && why.says().len() > 20, "{why}");
        }
    }
}
