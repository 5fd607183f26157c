//! The knowledge about a backend's rights: are they its account's?

/// The state of a backend's rights. The numbers are those of [`crate::control::account_changes::Changes::seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// The rights may have been taken up after this many changes.
    Since(u64),
    /// The rights may have been taken up after this many changes, and the server has been asked for its count behind that.
    Asked(u64),
    /// The rights are those of its account.
    Known,
    /// The accounts have changed at about the time when the rights were taken up.
    Doubtful,
}

plain!(enum Rights { 0 => Since(seen), 1 => Asked(seen), 2 => Known, 3 => Doubtful });

impl Rights {
    /// Returns the state behind a taking up of rights, by a text that was sent when so many changes had been seen.
    pub(super) fn taken_up(self, sent: u64) -> Self {
        match self {
            Self::Since(seen) | Self::Asked(seen) => Self::Since(seen.min(sent)),
            Self::Known => Self::Since(sent),
            Self::Doubtful => Self::Doubtful,
        }
    }

    /// Returns the state once the server has said how many statements have changed accounts.
    pub(super) fn judged(self, changes: u64) -> Self {
        match self {
            Self::Asked(seen) if seen == changes => Self::Known,
            Self::Asked(_) => Self::Doubtful,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::account_changes::Changes;

    fn count(number: &str) -> Option<Vec<u8>> {
        Some(number.into())
    }

    #[test]
    fn rights_are_known_where_nothing_has_changed_since_before_they_were_taken_up() {
        let mut changes = Changes::default();
        changes.take(count("7"));
        let rights = Rights::Since(changes.seen());
        assert_eq!(rights.judged(changes.seen()), rights, "the question was asked before the login's end");
        changes.take(count("7"));
        assert_eq!(Rights::Asked(0).judged(changes.seen()), Rights::Known);
        changes.take(count("9"));
        assert_eq!(Rights::Asked(0).judged(changes.seen()), Rights::Doubtful);
        assert_eq!(Rights::Known.judged(changes.seen()), Rights::Known);
    }

    #[test]
    fn another_schema_brings_doubts_from_when_it_was_asked_for() {
        assert_eq!(Rights::Known.taken_up(3), Rights::Since(3));
        assert_eq!(Rights::Asked(2).taken_up(3), Rights::Since(2));
        assert_eq!(Rights::Doubtful.taken_up(3), Rights::Doubtful);
    }
}
