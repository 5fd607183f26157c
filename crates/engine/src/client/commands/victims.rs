//! Clients that are killed: what of that can be done here, and what the server has to do.

use std::time::Duration;

use seam::Instant;

use crate::backend::Owner;
use crate::client::{Client, Phase, Running};
use crate::cluster::following::Following;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::scheduling::Scheduling;
use crate::scheduling::overload::ending::Overdue;
use crate::servers::Servers;
use crate::settings::Settings;
use crate::workers::letter::ServerKill;

/// The time after which a shared read that has not moved is held up by a lock: it will not end in the moment that a KILL takes.
const STUCK: Duration = Duration::from_secs(1);

/// The way in which a client that is killed is ended, or its statement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing: there is nothing to end, or it ends by itself.
    Nothing,
    /// The client's statement runs. The rest follows from whether another client takes it over.
    Runs,
    /// The client's statement waits, and is answered.
    Waiting,
    /// The client's statement is being read elsewhere, and is answered.
    Reading,
    /// The client is lent to a reader, which ends it.
    Lent,
    /// The client is closed, and behind it this backend.
    Client(Option<BackendKey>),
    /// This backend is given up with its server.
    Backend(BackendKey),
    /// The server is asked to end it.
    ByServer(ServerKill),
}

/// Clients that may be killed, and what runs of them.
pub(crate) struct Victims<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) clients: &'a mut Table<ClientKey, Client>,
    pub(crate) scheduling: &'a mut Scheduling,
    pub(crate) servers: &'a mut Servers,
    pub(crate) following: &'a Following,
}

impl Victims<'_> {
    /// Returns the way in which what a client does is ended, or the client itself.
    pub(crate) fn end(&mut self, victim: ClientKey, query_only: bool) -> End {
        match *self.clients[victim].phase() {
            // Such a server notices no KILL QUERY, but that its connection has ended (my_net_read, net_write_packet).
            Phase::Preparing | Phase::Running(_) if !query_only && self.is_waited_for(victim) => {
                End::Client(self.clients[victim].backend)
            }
            Phase::Preparing | Phase::Running(_) => End::Runs,
            Phase::Queued | Phase::Following { .. } if query_only => {
                let client = &self.clients[victim];
                self.scheduling.note_abandoned_wait(self.now, self.settings, victim, client);
                End::Waiting
            }
            Phase::Reading(_) if query_only => End::Reading,
            Phase::Lent(_) => End::Lent,
            _ if query_only => End::Nothing,
            _ => End::Client(None),
        }
    }

    /// Hands the victim's statement over to another client that waits for the same answer. Only the victim goes without.
    pub(crate) fn is_handed_over(&mut self, victim: ClientKey, query_only: bool) -> End {
        self.clients[victim].hand_over();
        if query_only { End::Waiting } else { End::Client(None) }
    }

    /// Has the server end the statement, or all that the client has there, asked by the killer's own account, or the
    /// victim's. The backend is not used again afterwards: a late KILL must not hit the statement of another client.
    pub(crate) fn end_running(&mut self, victim: ClientKey, query_only: bool) -> End {
        let Some(key) = self.clients[victim].backend else { return End::Nothing };
        let backend = &mut self.servers[key];
        if self.following.is_former(self.settings.cluster.several, backend.place()) {
            // Its number means another thread on the server that would be asked. What has not arrived there is not to.
            self.clients[victim].loss.killed |= !query_only;
            return End::Backend(key);
        }
        let others = backend
            .in_flight
            .iter()
            .any(|other| matches!(other.owner, Owner::Client { client, .. } if client != victim));
        let stuck = backend.answers(victim) && self.now.since(backend.first.since) > STUCK;
        if others && !stuck {
            // Short reads share this backend; a KILL could hit any of them, and most end by themselves at once.
            if !query_only {
                return End::Client(None);
            }
            self.overdue().cancel_later(victim, key);
            return End::Nothing;
        }
        backend.close_afterwards();
        // What others have in flight there goes on: then all of it are plain reads, of one statement each.
        let only_its_own = backend
            .in_flight
            .iter()
            .all(|statement| statement.owner.client().is_none_or(|client| client == victim));
        let thread_id = u64::from(backend.login.thread_id);
        self.clients[victim].loss.killed |= !query_only;
        End::ByServer(ServerKill { thread_id, query_only: query_only || !only_its_own })
    }

    fn overdue(&mut self) -> Overdue<'_> {
        let Self { now, settings, clients, servers, scheduling, .. } = self;
        Overdue { now: *now, settings, clients, servers, scheduling }
    }

    /// Says whether the server waits for a client that sends no more of a file, or takes no more of its reply, and for nobody else.
    fn is_waited_for(&self, client: ClientKey) -> bool {
        let state = &self.clients[client];
        let Some(backend) = state.backend.map(|backend| &self.servers[backend]) else { return false };
        let Some(statement) = backend.in_flight.front().filter(|_| backend.answers(client)) else {
            return false;
        };
        let is_only = backend.in_flight.len() == 1 && statement.group().is_none();
        let stalls = state.activity.stalled_since.is_some() && statement.summary.relayed > 0;
        is_only && (stalls || matches!(state.phase(), Phase::Running(Running::Uploading { .. })))
    }
}

#[cfg(test)]
mod tests {
    use wire::{CommandKind, Expect};

    use super::*;
    use crate::client::commands::command::tests::{engine, open_backends};
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::request::RequestKind;

    /// Two clients with reads in flight on one backend.
    fn two_on_one() -> (Engine, BackendKey) {
        let mut engine = engine(2, Settings::default());
        let server = engine.servers.primary().key;
        let key = open_backends(&mut engine, &[server])[0];
        engine.servers[key].login.thread_id = 42;
        for client in [0, 1].map(client_key) {
            let owner = Owner::Client { client, command: RequestKind::Query };
            engine.sending().send_own(key, owner, CommandKind::Query, b"SELECT 1", Expect::ResultSets, 0);
            engine.clients[client].backend = Some(key);
            engine.clients[client].set_phase(Phase::Running(Running::OnServer));
        }
        (engine, key)
    }

    #[test]
    fn a_statement_that_shares_its_backend_is_not_killed_before_it_is_stuck() {
        let (mut engine, key) = two_on_one();
        let victim = client_key(0);
        assert_eq!(engine.victims().end(victim, true), End::Runs);
        assert_eq!(engine.victims().end_running(victim, true), End::Nothing);
        assert_eq!(engine.scheduling.to_be_ended.take_cancelled(), [key], "it is ended once it is alone");
        assert_eq!(engine.victims().end_running(victim, false), End::Client(None));
        engine.now = engine.now + STUCK + Duration::from_micros(1);
        let ending = ServerKill { thread_id: 42, query_only: true };
        assert_eq!(
            engine.victims().end_running(victim, false),
            End::ByServer(ending),
            "the other one goes on"
        );
        assert!(engine.clients[victim].loss.killed && engine.servers[key].is_closed_afterwards());
    }

    #[test]
    fn nobody_asks_the_primary_to_end_what_runs_on_another_server() {
        let (mut engine, key) = two_on_one();
        engine.settings.cluster.several = true;
        assert_eq!(engine.victims().end_running(client_key(0), true), End::Backend(key));
        assert!(!engine.clients[client_key(0)].loss.killed);
    }

    #[test]
    fn a_client_that_does_nothing_has_no_statement_to_end() {
        let mut engine = engine(1, Settings::default());
        assert_eq!(engine.victims().end(client_key(0), true), End::Nothing);
        assert_eq!(engine.victims().end(client_key(0), false), End::Client(None));
    }
}
