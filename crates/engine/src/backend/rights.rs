//! Finds out whether backends have the rights that their accounts have now.
//!
//! The servers look at global rights and default roles when a connection begins, and at rights on a schema when it takes that
//! up, and not again. Rights that are given, and taken away before anybody has read the accounts, are the same in both
//! readings, and what a backend took up in between stays with it. Nothing on the server tells with which rights a connection
//! has begun. But the servers count statements (`Com_grant` and its like), before they do what these say: as long as the count is
//! the same, no account has changed. So a backend that has taken up rights is in doubt until the count has been read once more;
//! where it is another one then, the backend is closed as soon as nobody holds it.

use seam::Instant;

use super::{Afterwards, Phase};
use crate::accounts::Identities;
use crate::ids::BackendKey;
use crate::server::Server;
use crate::session::{SessionId, Sessions};

/// The state of a backend's rights. The numbers are those of [`Changes::seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// They may have been taken up since then.
    Since(u64),
    /// The rights may have been taken up since then, and the server has been asked for its count behind that.
    Asked(u64),
    /// The rights are those of its account.
    Known,
    /// The accounts have changed about when it took them up.
    Doubtful,
}

impl Rights {
    /// They are taken up anew, by what was sent when so many changes had been seen.
    fn taken_up(self, sent: u64) -> Self {
        match self {
            Self::Since(seen) | Self::Asked(seen) => Self::Since(seen.min(sent)),
            Self::Known => Self::Since(sent),
            Self::Doubtful => Self::Doubtful,
        }
    }

    /// The server has said how many statements have changed accounts.
    fn judged(self, changes: u64) -> Self {
        match self {
            Self::Asked(seen) if seen == changes => Self::Known,
            Self::Asked(_) => Self::Doubtful,
            other => other,
        }
    }
}

/// The server's counts of statements that change accounts.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Its latest count, as it said it.
    count: Option<Vec<u8>>,
    /// How often it was another one than before.
    seen: u64,
    /// True if the server does not show them to the service account.
    hidden: bool,
}

impl Changes {
    /// How many changes of the count have been seen.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// The service account has logged in anew: it may be another server, or see more.
    pub(crate) fn asked_anew(&mut self) {
        self.hidden = false;
    }

    /// The server's answer; `None` where it refused one.
    pub(crate) fn take(&mut self, count: Option<Vec<u8>>) {
        self.hidden = count.is_none();
        if self.count.is_some() && count.is_some() && self.count != count {
            self.seen += 1;
        }
        self.count = count.or(self.count.take());
    }
}

impl Server {
    /// Says whether the server is to be asked for its count before the accounts are read again.
    pub(crate) fn doubts_rights(&self) -> bool {
        let in_doubt = |rights| matches!(rights, Rights::Since(_) | Rights::Asked(_));
        !self.control.changes.hidden
            && self.backends.iter().any(|(_, backend)| backend.is_ready() && in_doubt(backend.account.rights))
    }

    /// The server is being asked for its count: it holds for whatever has been taken up before.
    pub(crate) fn note_question_for_changes(&mut self) {
        for (_, backend) in self.backends.iter_mut() {
            if let (Phase::Ready, Rights::Since(seen)) = (backend.phase(), backend.account.rights) {
                backend.account.rights = Rights::Asked(seen);
            }
        }
    }

    /// A backend has taken up the rights on a schema, maybe on the one that it was in.
    pub(crate) fn note_rights_taken_up(&mut self, key: BackendKey) {
        let backend = &mut self.backends[key];
        backend.account.rights = backend.account.rights.taken_up(backend.account.began_at);
    }

    /// The accounts have been read, behind the server's count: backends that may have other rights than theirs go. Returns those on
    /// which nothing runs; the others go when they come to rest.
    pub(crate) fn judge_rights(&mut self, now: Instant, identities: &Identities) -> Vec<BackendKey> {
        let seen = self.control.changes.seen;
        let accounts = self.facts.as_ref().map(|facts| &facts.accounts);
        let mut idle = Vec::new();
        for (key, backend) in self.backends.iter_mut() {
            backend.account.rights = backend.account.rights.judged(seen);
            // One that cannot be replaced by another serves those who were logged in before, as connections of their own would.
            let may_log_in_again = || {
                accounts.is_some_and(|accounts| identities.lets_in(backend.account.identity, accounts, now))
            };
            if backend.account.rights != Rights::Doubtful || !may_log_in_again() {
                continue;
            }
            backend.afterwards = Afterwards::Close;
            if backend.is_idle() {
                idle.push(key);
            }
        }
        idle
    }

    /// A backend's session state is about to be another one, and so may be its schema.
    pub(super) fn note_change_of_schema(&mut self, key: BackendKey, session: SessionId, sessions: &Sessions) {
        let schema = |session| &sessions.state(session).schema;
        if schema(session).is_some() && schema(session) != schema(self.backends[key].session.id) {
            self.note_rights_taken_up(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_count_that_is_not_told_is_no_change() {
        let mut changes = Changes::default();
        changes.take(count("7"));
        changes.take(None);
        assert!(changes.hidden);
        changes.asked_anew();
        changes.take(count("7"));
        assert_eq!((changes.seen(), changes.hidden), (0, false));
        changes.take(count("0"));
        assert_eq!(changes.seen(), 1, "a server that was restarted");
    }
}
