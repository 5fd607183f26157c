//! The knowledge about a backend's rights: are they its account's?

/// The state of a backend's rights. The numbers are those of [`crate::server::control::account_changes::Changes::seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendRights {
    /// The rights may have been taken up after this many changes.
    Since(u64),
    /// The rights may have been taken up after this many changes, and the server has been asked for its count behind that.
    Asked(u64),
    /// The rights are those of its account.
    Known,
    /// The accounts have changed at about the time when the rights were taken up.
    Doubtful,
}

plain!(enum BackendRights { 0 => Since(seen), 1 => Asked(seen), 2 => Known, 3 => Doubtful });

impl BackendRights {
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
    use crate::server::control::account_changes::Changes;

    fn count(number: &str) -> Option<Vec<u8>> {
        Some(number.into())
    }

    #[test]
    fn rights_are_known_where_nothing_has_changed_since_before_they_were_taken_up() {
        let mut changes = Changes::default();
        changes.take(count("7"));
        let rights = BackendRights::Since(changes.seen());
        assert_eq!(rights.judged(changes.seen()), rights, "the question was asked before the login's end");
        changes.take(count("7"));
        assert_eq!(BackendRights::Asked(0).judged(changes.seen()), BackendRights::Known);
        changes.take(count("9"));
        assert_eq!(BackendRights::Asked(0).judged(changes.seen()), BackendRights::Doubtful);
        assert_eq!(BackendRights::Known.judged(changes.seen()), BackendRights::Known);
    }

    #[test]
    fn another_schema_brings_doubts_from_when_it_was_asked_for() {
        assert_eq!(BackendRights::Known.taken_up(3), BackendRights::Since(3));
        assert_eq!(BackendRights::Asked(2).taken_up(3), BackendRights::Since(2));
        assert_eq!(BackendRights::Doubtful.taken_up(3), BackendRights::Doubtful);
    }
}
