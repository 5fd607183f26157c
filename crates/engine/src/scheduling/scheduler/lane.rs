//! The lanes, and what a statement brings along into one.

/// The lane in which a statement waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Blocking,
    Holding,
    High,
    Low,
    /// The lane of statements of kinds that have been long.
    Long,
    /// The lane of statements of kinds that wait for locks at present.
    Contended,
    /// The lane of statements that have moved from the low lane to the high one, and hold no backend.
    KickedUp,
}

/// All lanes.
pub(super) const LANES: [Lane; 7] =
    [Lane::Blocking, Lane::Holding, Lane::High, Lane::Low, Lane::Long, Lane::Contended, Lane::KickedUp];

/// The things that a statement's client holds and that others may wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) in_transaction: bool,
    /// True if the client has changed or locked something, in its transaction or beyond.
    pub(crate) holds_locks: bool,
    /// True where others are known to wait for that.
    pub(crate) blocks_others: bool,
    /// The place in the order of all arrivals of the first statement of its transaction, or of this one.
    pub(crate) began: u64,
}

/// Lanes with a common bound for their statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// All queues but the long one.
    #[default]
    Short,
    /// The long one.
    Long,
}

impl Class {
    pub(crate) const ALL: [Self; 2] = [Self::Short, Self::Long];

    pub(crate) const fn of(lane: Lane) -> Self {
        match lane {
            Lane::Long => Self::Long,
            Lane::Blocking | Lane::Holding | Lane::High | Lane::KickedUp | Lane::Low | Lane::Contended => {
                Self::Short
            }
        }
    }

    pub(super) fn lanes(self) -> &'static [Lane] {
        match self {
            Self::Short => {
                &[Lane::Blocking, Lane::Holding, Lane::High, Lane::KickedUp, Lane::Low, Lane::Contended]
            }
            Self::Long => &[Lane::Long],
        }
    }

    /// The lane that new work of the class comes into when nothing is known of it.
    pub(crate) const fn lane(self) -> Lane {
        match self {
            Self::Short => Lane::Low,
            Self::Long => Lane::Long,
        }
    }

    /// The lanes in which new work of the class waits when nothing is known of it but when it came: the low queue, wherever that has moved to,
    /// and the long one.
    pub(super) fn plain_lanes(self) -> &'static [Lane] {
        match self {
            Self::Short => &[Lane::KickedUp, Lane::Low],
            Self::Long => &[Lane::Long],
        }
    }
}
