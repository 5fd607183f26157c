//! Statements that may run on another server: their backend is lost, or the server has refused them because of its role.

use seam::Instant;
use wire::StatusFlags;

use super::following::Following;
use super::refusal::{cannot_commit, is_commit_alone, may_be_sent_again};
use super::sent_before::SentBefore;
use crate::backend::{InFlight, Owner};
use crate::client::{Client, Phase, Running};
use crate::ids::{BackendKey, ClientKey, ClientRef, Table};
use crate::pool::Pool;
use crate::request::RequestKind;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::settings::Settings;
use crate::workers::letter::Letter;

/// The fate of a statement where there may be another server.
#[derive(Debug, PartialEq)]
pub(crate) enum Fate {
    /// The client hears of the loss: nobody knows whether the statement has run, or there is no other server.
    Lost,
    /// The client's transaction is rolled back. The client hears that with this sequence number, and goes on.
    RolledBack(ClientKey, u8),
    /// The statement is queued once more.
    WaitsAgain(ClientKey, SentBefore),
}

/// The clients with statements on servers, and the knowledge of the primary.
pub(crate) struct Elsewhere<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a mut Pool,
    pub(crate) sessions: &'a Sessions,
    pub(crate) clients: &'a mut Table<ClientKey, Client>,
    pub(crate) servers: &'a mut Servers,
    pub(crate) following: &'a mut Following,
}

impl Elsewhere<'_> {
    /// Returns the fate of a statement that has lost its backend. A statement that may have run is never sent again, and is counted where nobody
    /// will ever know. `begun`: its client has got a part of the answer.
    pub(crate) fn lost(&mut self, statement: &InFlight, begun: bool) -> Fate {
        if !self.settings.cluster.several {
            return Fate::Lost;
        }
        let fate = self.fate_of(statement.owner, begun).unwrap_or(Fate::Lost);
        if fate == Fate::Lost && matches!(statement.owner, Owner::Client { .. }) {
            self.pool.workers.chosen.tally.unknown();
        }
        fate
    }

    fn fate_of(&mut self, owner: Owner, begun: bool) -> Option<Fate> {
        let (key, sent) = match owner {
            Owner::Client { client, command: RequestKind::Query | RequestKind::Execute } => (client, true),
            // The choice of a schema changes nothing but the backend that is lost.
            Owner::Client { client, command: RequestKind::LoginSchema } => (client, false),
            Owner::ApplyState { client } | Owner::ApplyDefinition { client } | Owner::Prepare { client } => {
                (client, false)
            }
            _ => return None,
        };
        let client = self.clients.get(key)?;
        let request = client.request.as_deref()?;
        // A server that ends each connection at that question is not asked for ever.
        let is_login = request.command == RequestKind::LoginSchema;
        if is_login && request.tries.sent_before.is_so() && !self.is_held(key) {
            return None;
        }
        let goes_on = matches!(client.phase(), Phase::Preparing | Phase::Running(Running::OnServer));
        if begun || client.loss.killed || !client.session.pins().is_empty() || !goes_on {
            return None;
        }
        let autocommit = client.session.status().contains(StatusFlags::AUTOCOMMIT);
        let is_open =
            client.in_transaction() || (sent && (client.session.unstarted().is_some() || !autocommit));
        if is_open {
            let rolled_back = !sent || cannot_commit(request);
            return rolled_back.then_some(Fate::RolledBack(key, request.answer));
        }
        if sent {
            let repeats = request.statement.plain_read
                && !request.tries.sent_before.is_so()
                && !request.raw.is_empty()
                && (request.command == RequestKind::Query || request.is_plain_execution())
                && client.pins_of(request, self.settings, self.servers, self.sessions).is_empty();
            if !repeats {
                return None;
            }
            self.following.repeats(self.clients.ref_to(key));
            self.servers.primary_mut().rescues.want_to_know();
        }
        let was_sent = sent || is_login;
        Some(Fate::WaitsAgain(key, if was_sent { SentBefore::Lost } else { SentBefore::No }))
    }

    /// Says whether a client's statement has come so lately that it may wait for another server.
    fn is_held(&self, key: ClientKey) -> bool {
        let request = self.clients.get(key).and_then(|client| client.request.as_deref());
        request.is_some_and(|request| self.now.since(request.turn.arrived_at()) < self.settings.cluster.hold)
    }

    /// Says whether the refusal of the first statement in flight on a backend may be kept from its client, since the statement goes elsewhere.
    pub(crate) fn may_go(&self, backend: BackendKey) -> bool {
        let Some(statement) = self.servers[backend].in_flight.front() else { return false };
        let Owner::Client { client, command: RequestKind::Query | RequestKind::Execute } = statement.owner
        else {
            return false;
        };
        if !self.settings.cluster.several {
            return false;
        }
        let is_held = self.is_held(client);
        let client = &self.clients[client];
        let Some(request) = client.request.as_deref() else { return false };
        !statement.changes_code()
            && client.session.pins().is_empty()
            && !client.loss.killed
            && is_held
            && matches!(client.phase(), Phase::Running(Running::OnServer))
            && match client.in_transaction() {
                true => cannot_commit(request) || is_commit_alone(request),
                false => may_be_sent_again(request) && !request.raw.is_empty(),
            }
            && self.pool.workers.chosen.believes_refusals(self.now, self.following.choice)
    }

    /// Returns the fate of a client's statement that the server has refused because of its role. Nothing of it has run. The backend is closed.
    pub(crate) fn refused(&mut self, key: BackendKey, client: ClientKey, statement: &mut InFlight) -> Fate {
        let several = self.settings.cluster.several;
        let doubts = !self.following.is_former(several, self.servers[key].place());
        if doubts && self.pool.workers.chosen.doubt(self.following.choice) {
            self.pool.write_to_others(&Letter::Wake);
        }
        let backend = &mut self.servers[key];
        backend.is_refused();
        let refused = self.clients.ref_to(client);
        let state = &mut self.clients[client];
        // One that was to begin with this statement has done nothing yet, and begins anew.
        if state.in_transaction() {
            let answer = state.request.as_ref().map_or(1, |request| request.answer);
            return Fate::RolledBack(client, answer);
        }
        state.session.aftermath.insert_id_leaves();
        if doubts {
            self.following.refused.push(refused);
        }
        let error = statement.summary.error.take().expect("a refusal is an error");
        Fate::WaitsAgain(client, SentBefore::Refused(Box::new(error)))
    }

    /// Returns the code of the error with which the server has refused a client's statement, where the statement still waits.
    pub(crate) fn refused_with(&self, client: ClientRef) -> Option<u16> {
        match self.waits_again(client)? {
            SentBefore::Refused(error) => Some(error.code),
            SentBefore::No | SentBefore::Lost => None,
        }
    }

    /// Says whether a client's read was to be sent once more. To be asked where the primary has functions, since the read may have called one
    /// before its backend was lost. Nobody will ever know its writes then, and it is counted.
    pub(crate) fn may_have_written(&self, client: ClientRef) -> bool {
        let repeats = matches!(self.waits_again(client), Some(SentBefore::Lost));
        if repeats {
            self.pool.workers.chosen.tally.unknown();
        }
        repeats
    }

    /// Returns how a client's statement was sent before, where it is queued once more; `None` where it is not any more.
    fn waits_again(&self, client: ClientRef) -> Option<&SentBefore> {
        let client = self.clients.find(client).filter(|client| matches!(client.phase(), Phase::Queued))?;
        client.request.as_ref().map(|request| &request.tries.sent_before)
    }
}

#[cfg(test)]
mod tests {
    use wire::{CommandKind, Expect};

    use super::*;
    use crate::cluster::following::tests::with_backends;
    use crate::cluster::refusal::tests::request;
    use crate::ids::client_key;
    use crate::session::SessionState;

    const OWN: Owner = Owner::Client { client: client_key(0), command: RequestKind::Query };

    /// Returns the fate of a request that has lost its backend while a client's statement is on the way, and the count of unknown outcomes.
    fn lost(several: bool, owner: Owner, text: &str, in_transaction: bool) -> (Fate, u64) {
        let mut engine = with_backends();
        engine.settings.cluster.several = several;
        let mut request = request(text);
        (request.statement.plain_read, request.raw) = (text.starts_with("SELECT"), vec![1, 0, 0, 0, 3]);
        // With no character set it would be taken for one that keeps its backend.
        let mut state = SessionState::default();
        state.charset.client = (*b"utf8mb4").into();
        let client = &mut engine.clients[client_key(0)];
        let held = engine.sessions.states.hold(state);
        client.session.becomes(held, &mut engine.sessions.states);
        client.session.status_told(StatusFlags::AUTOCOMMIT);
        if in_transaction {
            client.session.status_told(client.session.status().with(StatusFlags::IN_TRANS));
        }
        client.request = Some(Box::new(request));
        client.set_phase(Phase::Running(Running::OnServer));
        let key = client.backend.expect("it holds one");
        engine.sending().send_own(key, owner, CommandKind::Query, b"SELECT 1", Expect::ResultSets, 0);
        let statement = engine.servers[key].in_flight.pop_front().expect("it has just been sent");
        let fate = engine.elsewhere().lost(&statement, false);
        (fate, engine.pool.workers.chosen.tally.counts().unknown)
    }

    #[test]
    fn what_may_have_run_is_not_sent_again() {
        let client = client_key(0);
        let again = |before| (Fate::WaitsAgain(client, before), 0);
        assert_eq!(lost(true, OWN, "SELECT a FROM t", false), again(SentBefore::Lost));
        assert_eq!(lost(true, OWN, "UPDATE t SET a = 1", false), (Fate::Lost, 1));
        assert_eq!(
            lost(true, Owner::ApplyState { client }, "UPDATE t SET a = 1", false),
            again(SentBefore::No)
        );
        assert_eq!(lost(false, OWN, "SELECT a FROM t", false), (Fate::Lost, 0), "there is no other server");
    }

    #[test]
    fn a_transaction_is_rolled_back_unless_it_may_have_been_committed() {
        let client = client_key(0);
        let is_rolled_back = |owner, text| match lost(true, owner, text, true) {
            (Fate::RolledBack(whose, _), 0) => whose == client,
            _ => false,
        };
        assert!(is_rolled_back(OWN, "UPDATE t SET a = 1"));
        assert_eq!(lost(true, OWN, "COMMIT", true), (Fate::Lost, 1));
        assert!(is_rolled_back(Owner::ApplyState { client }, "COMMIT"), "it has not been sent");
    }
}
