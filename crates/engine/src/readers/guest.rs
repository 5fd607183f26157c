//! A reader's side of lending: clients that are there for one statement.
//!
//! To the reader a guest is a client like any, but for its ends. It sends nothing to the client of its own: an error of Onramp's goes back
//! with the guest, and whoever has lent it decides. It closes no connection of a client.

use std::rc::Rc;

use super::guests::{Ended, Guest, Guests, Returned};
use crate::accounts::Account;
use crate::backend::InFlight;
use crate::client::{Client, Phase};
use crate::coalescing::followers::followers_of;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey};
use crate::io::Role;
use crate::request::RequestKind;

impl Engine {
    /// From now on this is a reader. Names towards the driver, and numbers of tasks, begin here, so that all engines' differ.
    pub(super) fn be_reader(&mut self, first_token: u64) {
        self.guests = Some(Guests::default());
        self.io.begin_names(first_token);
        let control = &mut self.servers.primary_mut().control;
        control.token = first_token;
        control.position.of_replica = true;
    }

    /// Says whether this is a reader.
    pub(crate) fn is_reader(&self) -> bool {
        self.guests.is_some()
    }

    /// Says whether a reader may connect to its server.
    pub(crate) fn takes_guests(&self) -> bool {
        self.guests.as_ref().is_none_or(|guests| guests.are_welcome)
    }

    /// The server may be read from, or not any more.
    pub(super) fn welcome_guests(&mut self, are_welcome: bool) {
        let Some(guests) = &mut self.guests else { return };
        if std::mem::replace(&mut guests.are_welcome, are_welcome) && !are_welcome {
            self.leave_server();
        }
    }

    /// The server does not answer: nobody waits for what it was doing, nor for what has not arrived there.
    pub(super) fn give_up_server(&mut self) {
        // Nobody else would notice for as long as that may take that the connection is dead.
        let server = self.servers.primary().key;
        if self.servers.primary().control.waits_for_cluster() {
            self.leave_control(server);
        }
        let backends: Vec<_> = self.servers.backends().map(|(key, _)| key).collect();
        for key in backends {
            if self.servers.contains(key) {
                self.give_up_backend(key, "its server is down");
            }
        }
    }

    /// Statements that wait for a server which is not there go back, so that another one runs them.
    pub(crate) fn return_waiting(&mut self) {
        if !self.takes_guests() {
            // What was in use when others were left may be free by now.
            self.leave_server();
        } else if self.servers.primary().reachability.is_up() {
            return;
        }
        let waits = |client: &Client| matches!(client.phase(), Phase::Queued | Phase::Following { .. });
        let waiting: Vec<_> =
            self.clients.iter().filter(|(_, client)| waits(client)).map(|(key, _)| key).collect();
        for key in waiting {
            let error = self.unreachable_error(self.servers.primary().key, "read_wait_limit");
            self.cancel_queued(key, &error);
        }
    }

    /// Ends what nobody uses on the server.
    pub(super) fn leave_server(&mut self) {
        let idle: Vec<_> = self.servers.idle().collect();
        for key in idle {
            self.quit_backend(key);
        }
        self.leave_control(self.servers.primary().key);
    }

    /// The server's own account of this name, where it is as the lender knows it.
    fn own_account(&self, account: &Account) -> Option<&Rc<Account>> {
        let accounts = &self.servers.primary().facts.as_ref()?.accounts;
        let own = accounts.named(&account.user, &account.host)?;
        (own.credential == account.credential && !own.locked && !own.expired).then_some(own)
    }

    /// Says whether the server lets this account in, as far as its accounts tell.
    pub(super) fn admits(&self, account: &Account) -> bool {
        self.own_account(account).is_some()
    }

    /// Takes a client of an account that it [`Self::admits`], and queues its statement.
    pub(super) fn take_guest(&mut self, mut guest: Guest) {
        let account = self.own_account(&guest.account).unwrap_or(&guest.account).clone();
        let identity = self.logins.identities.hold(&account, &guest.user, guest.secret);
        self.logins.identities.came_from(identity, &guest.peer);
        let session = self.sessions.states.hold(guest.session);
        let mut client = Client::new(guest.connection, guest.peer, guest.id, self.now);
        client.capabilities = guest.capabilities;
        client.login.collation = guest.collation;
        client.identity = Some(identity);
        client.session.id = Some(session);
        client.session.aftermath = guest.aftermath;
        client.session.status = guest.status;
        client.priority = guest.priority;
        client.tickets = self.scheduling.scheduler.full_tickets();
        client.loss.wants_end = guest.wants_end_for_loss;
        client.activity.has_begun = guest.has_begun;
        client.be_lent();
        self.views.measures.logged_in += 1;
        self.pool.workers.take_client();
        let key = self.clients.insert(client);
        if let Some(guests) = &mut self.guests {
            guests.errors.remove(&key);
        }
        self.ids.keys.insert(guest.id, key);
        self.io.set_role(guest.connection, Role::Client(key));
        if let (Some(statement), Some(about)) = (guest.statement, &mut guest.request.about) {
            **about = self.take_lent_statement(key, statement, **about);
        }
        self.queue_request(key, guest.request);
    }

    /// The lender's client has gone.
    pub(super) fn forget_guest(&mut self, id: u32) {
        if let Some(&key) = self.ids.keys.get(&id) {
            self.client_gone(key);
        }
    }

    /// This would be said to a guest's client.
    pub(crate) fn note_error_of_guest(&mut self, key: ClientKey, error: &MySqlError) {
        if let Some(guests) = &mut self.guests {
            guests.errors.insert(key, error.clone());
        }
        if let Some(client) = self.clients.get(key)
            && matches!(client.phase(), Phase::Idle)
        {
            self.resume.push(key);
        }
    }

    /// The server has answered a guest's statement, and those that waited for the same answer, with an error that nobody has heard.
    pub(crate) fn guest_refused(
        &mut self,
        backend: BackendKey,
        key: ClientKey,
        command: RequestKind,
        statement: &mut InFlight,
    ) {
        let error = statement.summary.error.as_ref().expect("an error is withheld");
        let error = MySqlError::replica_refuses(error);
        let group = statement.group.take();
        for follower in group.iter().flat_map(|group| followers_of(&self.clients, group)).collect::<Vec<_>>()
        {
            self.take_request(follower);
            self.note_error_of_guest(follower, &error);
            self.let_go(backend, follower);
        }
        self.note_error_of_guest(key, &error);
        self.client_statement_ended(backend, key, command, statement);
    }

    /// Says whether a statement that is answered with this error before it has begun is answered by the primary in the end.
    pub(crate) fn goes_to_primary(&self, error: u16) -> bool {
        self.is_reader() && error != MySqlError::interrupted().code
    }

    /// A guest may have come to its end.
    pub(crate) fn guest_rests(&mut self, key: ClientKey) {
        if self.clients.get(key).is_some_and(|client| matches!(client.phase(), Phase::Idle)) {
            self.return_guest(key, false);
        }
    }

    /// A guest's statement is over: it goes back. `broken` where its client cannot go on.
    pub(crate) fn return_guest(&mut self, key: ClientKey, broken: bool) {
        let client = &mut self.clients[key];
        let (id, status, aftermath) =
            (client.id, client.session.status, std::mem::take(&mut client.session.aftermath));
        let is_paused = client.backpressure.paused;
        self.forget_client(key);
        let Some(guests) = &mut self.guests else { return };
        let ended = match guests.errors.remove(&key) {
            _ if broken => Ended::Broken,
            None => Ended::Answered,
            Some(error) if error.is_clients() => Ended::Lost(error),
            Some(error) => Ended::NotRun(error),
        };
        guests.returned.push(Returned { id, status, aftermath, ended, is_paused });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Summary;
    use crate::client::Running;
    use crate::client::commands::tests::{engine, open_backends};
    use crate::control::position::tests::asking_node;
    use crate::errors::ServerError;
    use crate::ids::client_key;
    use crate::request::Request;
    use crate::settings::Settings;

    #[test]
    fn what_a_node_that_is_down_was_asked_is_not_waited_for() {
        let mut engine = asking_node(true);
        assert!(engine.servers.primary().control.waits_for_cluster());
        engine.give_up_server();
        assert!(!engine.servers.primary().control.waits_for_cluster());
    }

    /// What sets the session state runs first, and may be what the server ends.
    #[test]
    fn a_guest_that_is_killed_ahead_of_its_statement_does_not_go_on() {
        let mut engine = engine(1, Settings::default());
        engine.be_reader(1 << 48);
        let client = client_key(0);
        let primary = engine.servers.primary().key;
        let backend = open_backends(&mut engine, &[primary])[0];
        engine.clients[client].set_phase(Phase::Running(Running::OnServer));
        engine.clients[client].loss.killed = true;
        let message = b"Connection was killed".to_vec();
        let error = Some(ServerError { code: 1927, sql_state: *b"70100", message });
        let summary = Summary { error, prelude_failed: true, ..Summary::default() };
        engine.prelude_failed(backend, client, &Request::query("SELECT a FROM t"), &summary);
        let returned = engine.guests.as_mut().map(Guests::take_returned).unwrap_or_default();
        let ended: Vec<Ended> = returned.into_iter().map(|returned| returned.ended).collect();
        assert_eq!(ended, [Ended::Broken]);
    }
}
