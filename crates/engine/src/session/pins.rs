//! The reasons for which a client holds its backend beyond a transaction.

use std::ops::BitOrAssign;

use sql::Effects;

/// The reasons to pin that hold for a client. Empty means: not pinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// The effects that the lexer found in statements.
    effects: Effects,
    /// The reasons that only the engine knows: the bits of the constants below.
    own: u16,
}

plain!(struct Pins { effects, own });

impl Pins {
    /// No reason.
    pub const NONE: Self = Self::own(0);
    /// A prepared statement (COM_STMT_PREPARE) that cannot be executed elsewhere: it reads ROW_COUNT(), FOUND_ROWS() or the
    /// diagnostics, or the schema where there was none.
    pub const PREPARED_STATEMENT: Self = Self::own(1);
    /// `thread_handling = one-thread-per-connection`.
    pub const THREAD_HANDLING: Self = Self::own(1 << 1);
    /// The client's character set has backslashes and quotes as second bytes (big5, gbk, sjis ...), or letters in the place of braces
    /// (swe7), so that no lexer can be sure of its statements.
    pub const CHARACTER_SET: Self = Self::own(1 << 2);
    /// The server reported a change of state that neither the lexer nor another tracker explains.
    pub const STATE_CHANGE: Self = Self::own(1 << 3);

    /// A cursor is open.
    pub const CURSOR: Self = Self::own(1 << 4);

    /// A savepoint is there without autocommit: it may be all there is of a transaction.
    pub const SAVEPOINT: Self = Self::own(1 << 5);

    /// The client has registered as a replica, or read the binary log.
    pub const REPLICATION: Self = Self::own(1 << 6);

    /// A table was used without autocommit, in a transaction that the status does not tell of: the server keeps the table's
    /// definition locked to the transaction's end.
    pub const METADATA_LOCK: Self = Self::own(1 << 7);

    /// The server has no session trackers: nobody knows what its statements change of their session.
    pub const NO_TRACKERS: Self = Self::own(1 << 8);

    const NAMES: [(Self, &'static str); 9] = [
        (Self::PREPARED_STATEMENT, "prepared_statement"),
        (Self::THREAD_HANDLING, "thread_handling"),
        (Self::CHARACTER_SET, "character_set"),
        (Self::STATE_CHANGE, "state_change"),
        (Self::CURSOR, "cursor"),
        (Self::SAVEPOINT, "savepoint"),
        (Self::REPLICATION, "replication"),
        (Self::METADATA_LOCK, "metadata_lock"),
        (Self::NO_TRACKERS, "no_trackers"),
    ];

    const fn own(own: u16) -> Self {
        Self { effects: Effects::NONE, own }
    }

    /// Says whether there is no reason.
    pub const fn is_empty(self) -> bool {
        self.effects.is_empty() && self.own == 0
    }

    /// The union of these reasons and others.
    #[must_use]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self { effects: self.effects.union(other.effects), own: self.own | other.own }
    }

    /// These reasons without others.
    #[must_use]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self { effects: self.effects.without(other.effects), own: self.own & !other.own }
    }

    /// Says whether the client is a replica, or acts as one.
    pub(crate) const fn replicates(self) -> bool {
        self.own & Self::REPLICATION.own != 0
    }

    /// Says whether prepared statements stay on the backend where they were prepared.
    pub(crate) const fn keeps_prepared(self) -> bool {
        self.own & Self::PREPARED_STATEMENT.own != 0
    }

    /// Says whether the client's statements may have had effects that nobody has seen in them.
    pub(crate) const fn hides_statements(self) -> bool {
        self.own & Self::CHARACTER_SET.own != 0
    }

    /// Says whether [`Self::NO_TRACKERS`] is among the reasons.
    pub(crate) const fn has_no_trackers(self) -> bool {
        self.own & Self::NO_TRACKERS.own != 0
    }

    /// Says whether [`Self::METADATA_LOCK`] is among the reasons.
    pub(crate) const fn holds_metadata_locks(self) -> bool {
        self.own & Self::METADATA_LOCK.own != 0
    }

    /// Returns the reasons that the lexer found.
    pub(crate) const fn effects(self) -> Effects {
        self.effects
    }

    /// Says whether the client may hold something beyond its transaction that others have to wait for. Reasons that are known to
    /// hold no lock are left out; a prepared statement holds none either.
    pub(crate) const fn may_hold_locks(self) -> bool {
        const HARMLESS: Effects = Effects::USER_VARIABLE
            .union(Effects::TEMPORARY_TABLE)
            .union(Effects::FOUND_ROWS)
            .union(Effects::SESSION_VARIABLE)
            .union(Effects::ROLE)
            .union(Effects::NEXT_TRANSACTION)
            .union(Effects::SEQUENCE);
        let harmless = Self::PREPARED_STATEMENT.own
            | Self::CHARACTER_SET.own
            | Self::THREAD_HANDLING.own
            | Self::NO_TRACKERS.own
            | Self::CURSOR.own
            | Self::SAVEPOINT.own
            | Self::REPLICATION.own;
        let own = self.own & !harmless;
        !self.effects.without(HARMLESS).is_empty() || own != 0
    }

    /// The reasons' names: the lexer's, then the engine's.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let own =
            Self::NAMES.into_iter().filter(move |(pin, _)| self.own & pin.own != 0).map(|(_, name)| name);
        self.effects.names().chain(own)
    }
}

impl From<Effects> for Pins {
    fn from(effects: Effects) -> Self {
        Self { effects, own: 0 }
    }
}

impl BitOrAssign for Pins {
    fn bitor_assign(&mut self, other: Self) {
        self.effects |= other.effects;
        self.own |= other.own;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_hold_locks_is_anything_not_known_to_hold_none() {
        assert!(!Pins::NONE.may_hold_locks() && !Pins::PREPARED_STATEMENT.may_hold_locks());
        assert!(!Pins::from(Effects::USER_VARIABLE.union(Effects::TEMPORARY_TABLE)).may_hold_locks());
        for effects in
            [Effects::LOCK_TABLES, Effects::NAMED_LOCK, Effects::ROUTINE, Effects::XA, Effects::UNKNOWN]
        {
            assert!(Pins::from(effects).may_hold_locks());
        }
        assert!(Pins::STATE_CHANGE.may_hold_locks());
    }
}
