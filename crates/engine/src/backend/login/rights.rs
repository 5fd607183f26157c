//! Finds out whether backends have the rights that their accounts have now.
//!
//! The servers look at global rights and default roles when a connection begins, and at rights on a schema when it takes that up, and
//! not again. Rights that are given, and taken away before anybody has read the accounts, are the same in both readings. A backend that
//! took rights up in between keeps them. Nothing on the server tells with which rights a connection has begun. But the servers count
//! statements such as GRANT (`Com_grant` and its like) before they carry them out. As long as the count is the same, no account has
//! changed. So a backend that has taken up rights is in doubt until the count has been read once more. Where the count is another one
//! then, the backend is closed as soon as nobody holds it.

pub(crate) mod taken_up;

use seam::Instant;

use crate::accounts::Identities;
use crate::backend::login::rights::taken_up::BackendRights;
use crate::backend::{Afterwards, Phase};
use crate::ids::BackendKey;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::{SessionHold, SessionId, Sessions};

impl Servers {
    /// Sets the session state of a backend from now on.
    pub(in crate::backend) fn set_backend_session(
        &mut self,
        key: BackendKey,
        session: SessionHold,
        sessions: &mut Sessions,
    ) {
        self.of_mut(key).note_change_of_schema(key, session.id(), sessions);
        self[key].session.becomes(session, sessions);
    }
}

impl Server {
    /// Says whether the server is to be asked for its count before the accounts are read again.
    pub(crate) fn doubts_rights(&self) -> bool {
        let in_doubt = |rights| matches!(rights, BackendRights::Since(_) | BackendRights::Asked(_));
        !self.control.changes.are_hidden()
            && self.backends.iter().any(|(_, backend)| backend.is_ready() && in_doubt(backend.account.rights))
    }

    /// Notes that the server is being asked for its count. The answer holds for all rights that were taken up before.
    pub(crate) fn note_question_for_changes(&mut self) {
        for (_, backend) in self.backends.iter_mut() {
            if let (Phase::Ready, BackendRights::Since(seen)) = (backend.phase(), backend.account.rights) {
                backend.account.rights = BackendRights::Asked(seen);
            }
        }
    }

    /// Notes that a backend has taken up the rights on a schema, maybe on the one that it was in.
    pub(crate) fn note_rights_taken_up(&mut self, key: BackendKey) {
        let backend = &mut self.backends[key];
        backend.account.rights = backend.account.rights.taken_up(backend.account.began_at);
    }

    /// Judges the backends' rights, once the accounts have been read behind the server's count. Backends that may have other rights than their
    /// accounts go. Returns the idle ones among these; the others go when they come to rest.
    pub(crate) fn judge_rights(&mut self, now: Instant, identities: &Identities) -> Vec<BackendKey> {
        let seen = self.control.changes.seen();
        let accounts = self.facts.as_ref().map(|facts| &facts.accounts);
        let mut idle = Vec::new();
        for (key, backend) in self.backends.iter_mut() {
            backend.account.rights = backend.account.rights.judged(seen);
            // One that cannot be replaced by another serves those who were logged in before, as connections of their own would.
            let may_log_in_again = || {
                accounts.is_some_and(|accounts| identities.lets_in(backend.account.identity(), accounts, now))
            };
            if backend.account.rights != BackendRights::Doubtful || !may_log_in_again() {
                continue;
            }
            backend.afterwards = Afterwards::Close;
            if backend.is_idle() {
                idle.push(key);
            }
        }
        idle
    }

    /// Notes that a backend's session state is about to change. With another schema the backend takes up rights.
    fn note_change_of_schema(&mut self, key: BackendKey, session: SessionId, sessions: &Sessions) {
        let schema = |session| &sessions.state(session).schema;
        if schema(session).is_some() && schema(session) != schema(self.backends[key].session.id()) {
            self.note_rights_taken_up(key);
        }
    }
}
