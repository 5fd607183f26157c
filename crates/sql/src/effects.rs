//! Two small sets: what a statement leaves behind on its connection, and what it reads of what the last one left.

use std::ops::{BitOr, BitOrAssign};

/// The operations that both sets have. Each set lists its members in `NAMES`.
macro_rules! set_operations {
    ($set:ident) => {
        impl $set {
            /// Says whether all members of `other` are in this set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Says whether there is no member.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The members of either.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The members, one at a time.
            pub fn iter(self) -> impl Iterator<Item = Self> {
                Self::NAMES.into_iter().map(|(member, _)| member).filter(move |&member| self.contains(member))
            }

            /// The members' names for operators: stable, in snake case.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES
                    .into_iter()
                    .filter(move |&(member, _)| self.contains(member))
                    .map(|(_, name)| name)
            }
        }

        impl BitOr for $set {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl BitOrAssign for $set {
            fn bitor_assign(&mut self, other: Self) {
                *self = self.union(other);
            }
        }
    };
}

/// The traces that a statement leaves on its connection beyond the reports of session trackers: each member is a reason to pin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effects(u32);

impl Effects {
    /// Nothing to pin for.
    pub const NONE: Self = Self(0);
    /// A user variable is read or written (`@x`, `INTO @x`, `@x := 1`).
    pub const USER_VARIABLE: Self = Self(1);
    /// `CREATE [OR REPLACE] TEMPORARY TABLE`.
    pub const TEMPORARY_TABLE: Self = Self(1 << 1);
    /// `LOCK TABLES`, `FLUSH TABLES ... WITH READ LOCK` or `FOR EXPORT`, `LOCK INSTANCE`, `BACKUP STAGE`, `BACKUP LOCK`.
    pub const LOCK_TABLES: Self = Self(1 << 2);
    /// `GET_LOCK` and its relatives, the locking service and version tokens.
    pub const NAMED_LOCK: Self = Self(1 << 3);
    /// `PREPARE`, `EXECUTE`, `EXECUTE IMMEDIATE`, `DEALLOCATE PREPARE` as text.
    pub const TEXT_PREPARE: Self = Self(1 << 4);
    /// `HANDLER ... OPEN`, `READ`, `CLOSE`.
    pub const HANDLER: Self = Self(1 << 5);
    /// `SQL_CALC_FOUND_ROWS`, for a later `FOUND_ROWS()`.
    pub const FOUND_ROWS: Self = Self(1 << 6);
    /// A session variable whose value cannot be set again elsewhere, or a `SET` that is not fully understood.
    pub const SESSION_VARIABLE: Self = Self(1 << 7);
    /// `SET ROLE`, `SET RESOURCE GROUP`, `SET SESSION AUTHORIZATION`: no reset of the connection brings them back.
    pub const ROLE: Self = Self(1 << 8);
    /// Characteristics of the next transaction only: `SET TRANSACTION` without a scope and its variables.
    pub const NEXT_TRANSACTION: Self = Self(1 << 9);
    /// `XA ...`.
    pub const XA: Self = Self(1 << 10);
    /// `CALL`, or a function that is not built in: its body may do anything of this list.
    pub const ROUTINE: Self = Self(1 << 11);
    /// A sequence is used; `LASTVAL` is kept per connection.
    pub const SEQUENCE: Self = Self(1 << 12);
    /// The lexer has not understood the statement.
    pub const UNKNOWN: Self = Self(1 << 13);

    /// Every member with its name, in the order of the bits.
    const NAMES: [(Self, &'static str); 14] = [
        (Self::USER_VARIABLE, "user_variable"),
        (Self::TEMPORARY_TABLE, "temporary_table"),
        (Self::LOCK_TABLES, "lock_tables"),
        (Self::NAMED_LOCK, "named_lock"),
        (Self::TEXT_PREPARE, "text_prepare"),
        (Self::HANDLER, "handler"),
        (Self::FOUND_ROWS, "found_rows"),
        (Self::SESSION_VARIABLE, "session_variable"),
        (Self::ROLE, "role"),
        (Self::NEXT_TRANSACTION, "next_transaction"),
        (Self::XA, "xa"),
        (Self::ROUTINE, "routine"),
        (Self::SEQUENCE, "sequence"),
        (Self::UNKNOWN, "unknown"),
    ];

    /// The members that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The members that are in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The bits, for tables that count by member: bit `n` is the `n`-th of [`Effects::names`] of a full set.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Those of these bits; `None` where one of them is no member's.
    pub fn from_bits(bits: u32) -> Option<Self> {
        let known = Self::NAMES.into_iter().fold(Self::NONE, |all, (member, _)| all.union(member));
        (bits & !known.0 == 0).then_some(Self(bits))
    }
}

/// The traces of its predecessor on the same connection that a statement reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reads(u8);

impl Reads {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// `LAST_INSERT_ID()`, `@@identity`, `@@last_insert_id`.
    pub const LAST_INSERT_ID: Self = Self(1);
    /// `ROW_COUNT()`.
    pub const ROW_COUNT: Self = Self(1 << 1);
    /// `FOUND_ROWS()`.
    pub const FOUND_ROWS: Self = Self(1 << 2);
    /// `CONNECTION_ID()`, `@@pseudo_thread_id`.
    pub const CONNECTION_ID: Self = Self(1 << 3);
    /// `SHOW WARNINGS` and `ERRORS`, `@@warning_count`, `@@error_count`, `GET DIAGNOSTICS`.
    pub const DIAGNOSTICS: Self = Self(1 << 4);
    /// A variable of the thread pool that clients set for themselves, see [`crate::PoolVariable`].
    pub const POOL_VARIABLE: Self = Self(1 << 5);
    /// The client's own values of [`crate::TrackerVariable`].
    pub const TRACKER: Self = Self(1 << 6);
    /// `@@wait_timeout` and what lists it: `SHOW VARIABLES`, tables of session variables.
    pub const WAIT_TIMEOUT: Self = Self(1 << 7);

    /// Every member with its name, in the order of the bits.
    const NAMES: [(Self, &'static str); 8] = [
        (Self::LAST_INSERT_ID, "last_insert_id"),
        (Self::ROW_COUNT, "row_count"),
        (Self::FOUND_ROWS, "found_rows"),
        (Self::CONNECTION_ID, "connection_id"),
        (Self::DIAGNOSTICS, "diagnostics"),
        (Self::POOL_VARIABLE, "pool_variable"),
        (Self::TRACKER, "tracker"),
        (Self::WAIT_TIMEOUT, "wait_timeout"),
    ];

    /// The bits, one for each member: all eight are taken.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Those of these bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
}

set_operations!(Effects);
set_operations!(Reads);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_bits() {
        let both = Effects::XA | Effects::USER_VARIABLE;
        assert_eq!(both.names().collect::<Vec<_>>(), ["user_variable", "xa"]);
        assert_eq!(both.iter().fold(Effects::NONE, Effects::union), both);
        assert!(both.contains(Effects::XA) && !both.contains(Effects::ROLE) && !both.is_empty());
        assert_eq!(both.without(Effects::XA), Effects::USER_VARIABLE);
        for (place, (member, _)) in Effects::NAMES.iter().enumerate() {
            assert_eq!(member.bits(), 1 << place);
        }
        assert_eq!(
            (Reads::ROW_COUNT | Reads::DIAGNOSTICS).names().collect::<Vec<_>>(),
            ["row_count", "diagnostics"]
        );
    }
}
