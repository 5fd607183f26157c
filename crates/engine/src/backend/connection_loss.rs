//! A backend that ends in another way than we meant it to.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use seam::Instant;

use super::full::{OFFLINE, SERVER_FULL, SHUTDOWN, ServerFull};
use super::{Backend, InFlight, Owner, Phase};
use crate::client::delegation::Unproved;
use crate::client::{Lost, Phase as ClientPhase, Running};
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey, ServerKey};
use crate::outside::event::Event;
use crate::outside::named::{ClosedFor, Limit};
use crate::outside::slow_log::SlowEnd;
use crate::request::RequestKind;
use crate::server::Server;
use crate::settings::Settings;
use crate::workers::places::Origin;

/// ER_TOO_MANY_USER_CONNECTIONS: it takes no more of this user.
const USER_FULL: u16 = 1203;

/// ER_USER_LIMIT_REACHED: a limit of the account's, on connections at a time or, for which nobody waits, on what it does in an hour.
const USER_LIMITED: u16 = 1226;

/// How both servers call the former (check_for_max_user_connections).
const AT_A_TIME: &str = "max_user_connections";

/// ER_ACCESS_DENIED_ERROR, and ER_ACCESS_DENIED_NO_PASSWORD_ERROR of plugins that say nothing of passwords.
const WRONG_PASSWORD: u16 = 1045;
const WRONG_PASSWORD_UNSAID: u16 = 1698;

/// How long a server that takes no more is left alone: connections of others end all the time, so not long.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Another worker has closed a backend so that we may open one, and the server has not noticed yet: it takes a fraction of
/// a millisecond, or longer where it is busy.
const SOON: Duration = Duration::from_millis(20);

/// So often a granted place is tried before it is given back: somebody else has taken it. A second in all, as the pause.
const TRIES: u32 = 50;

/// The SQLSTATE of an error with which a server refuses a login, by the servers' lists of errors: in the place of a greeting it comes
/// without one.
fn state_of_refusal(code: u16) -> &'static [u8; 5] {
    match code {
        WRONG_PASSWORD | WRONG_PASSWORD_UNSAID => b"28000",
        // Also ER_DBACCESS_DENIED_ERROR and ER_BAD_DB_ERROR.
        USER_FULL | USER_LIMITED | 1044 | 1049 => b"42000",
        SERVER_FULL => b"08004",
        _ => b"HY000",
    }
}

impl Server {
    fn server_address(&self, settings: &Settings) -> String {
        settings.server.get(self.reachability.address).map(ToString::to_string).unwrap_or_default()
    }
}

impl Engine {
    /// The server has closed a backend, or the connection broke.
    pub(crate) fn backend_gone(&mut self, key: BackendKey, reason: &str) {
        let backend = &self.servers[key];
        let in_login = !backend.is_ready() && !backend.is_changing();
        self.servers[key].connection = self.servers[key].connection.take().inspect(|&connection| {
            self.io.set_role(connection, crate::io::Role::Free);
        });
        // What ends at a former address says nothing of the server where it is now.
        let in_work = !self.servers[key].in_flight.is_empty() && !self.servers[key].place.is_former();
        // Whoever waits for this login is told why.
        if in_login {
            self.server_failed(
                key.server(),
                format!("it closed the connection in the middle of a login ({reason})"),
            );
        }
        self.lose_backend(key, reason);
        if in_work && self.settings.cluster.several && self.following.distrusts_idle(self.now) {
            // If the server has died, those that are idle have too, and what goes on is not to meet them.
            while let Some(&idle) = self.servers.of(key).idle.first() {
                self.quit_backend(idle);
            }
        }
    }

    /// Gives a backend up: nobody can say any more which bytes are whose, or what state it is in.
    pub(crate) fn close_backend(&mut self, key: BackendKey, reason: &str) {
        if let Some(connection) = self.servers[key].connection {
            self.io.outbox.close(connection);
        }
        self.lose_backend(key, reason);
    }

    /// Gives a backend up with its server. What is in flight is not to be carried out there once another one is known as the primary: the
    /// system would go on trying to deliver it, and do so when the line is back.
    pub(crate) fn give_up_backend(&mut self, key: BackendKey, reason: &str) {
        let cluster = &self.settings.cluster;
        let may_be_chosen_again =
            cluster.several && !self.has_primary() && !self.pool.workers.chosen.may_end();
        let backend = &self.servers[key];
        match backend.connection {
            // Its end is all that is to arrive, and tells the server at once that the session is over, which frees its locks.
            Some(connection) if backend.in_flight.is_empty() => self.io.outbox.close(connection),
            Some(connection) if may_be_chosen_again => {
                self.following.leave_open(connection, backend.place.clone());
            }
            Some(connection) => self.io.outbox.abort(connection),
            None => {}
        }
        self.lose_backend(key, reason);
    }

    /// The primary is known again, or nobody will choose one any more: ends the connections that were left open until then. One to the same
    /// server is closed: the end arrives behind what was in flight, and frees the locks of the session.
    pub(crate) fn end_left_open(&mut self, primary: Option<usize>) {
        for (connection, place) in self.following.take_left_open() {
            match primary.is_some_and(|primary| place.is(primary)) {
                true => self.io.outbox.close(connection),
                false => self.io.outbox.abort(connection),
            }
        }
    }

    fn lose_backend(&mut self, key: BackendKey, reason: &str) {
        self.servers.of_mut(key).lock_wait_ended(self.now, key, &mut self.scheduling.waits);
        let reason = match self.change_failed(key) {
            true => Cow::Owned(self.logins.failure_of_change(&self.servers[key], reason)),
            false => Cow::Borrowed(reason),
        };
        let backend = &mut self.servers[key];
        let (thread_id, holder) = (backend.login.thread_id, backend.holder.take());
        let statements = std::mem::take(&mut backend.in_flight);
        let first_since = backend.first.since;
        let quiet = matches!(reason, Cow::Borrowed(_)) && (statements.is_empty() && holder.is_none())
            || self.was_to_end(&statements);
        self.remove_backend(key);
        for (place, mut statement) in statements.into_iter().enumerate() {
            // Only the first can have been answered in part, and only where its client has heard of that does it matter.
            let is_heard = statement.owner.is_heard() && statement.group.is_none();
            let begun = place == 0 && statement.summary.relayed > 0 && is_heard;
            if place == 0 && statement.fingerprint != 0 {
                self.count_execution(&statement, self.now.since(first_since), true);
            }
            if let Some(command) = statement.owner.command() {
                self.views.measures.note_lost(command);
            }
            let took = if place == 0 { self.now.since(first_since) } else { Duration::ZERO };
            let (views, around) = self.slow_log();
            views.note_slow(&around, thread_id, &statement, took, SlowEnd::BackendLost);
            if self.survives_loss(&mut statement, begun) {
                continue;
            }
            self.note_unknown(&statement);
            match statement.owner {
                Owner::Client { client, .. } => self.statement_lost(client, begun),
                Owner::ApplyState { client }
                | Owner::ApplyDefinition { client }
                | Owner::Prepare { client } => self.statement_lost(client, false),
                Owner::ReadVariables { client } if self.prepares(client) => {
                    self.statement_lost(client, false);
                }
                Owner::SaveDiagnostics { client }
                | Owner::SaveInsertId { client }
                | Owner::ReadStatus { client }
                | Owner::ReadVariables { client } => self.holder_lost(client),
                Owner::Closing => self.servers.of_mut(key).closing_ended(&mut self.pool),
                Owner::Abandoned
                | Owner::Setup
                | Owner::Reset
                | Owner::RestoreWaitTimeout
                | Owner::SetOption => {}
            }
            if let Some(group) = &statement.group {
                self.group_lost(group);
            }
        }
        if let Some(client) =
            holder.filter(|&client| self.clients.get(client).is_some_and(|c| c.backend == Some(key)))
        {
            self.holder_lost(client);
        }
        if !quiet {
            self.views.event(Event::BackendClosed { thread_id, reason: reason.into_owned() });
        }
    }

    /// The server was asked to end it.
    fn was_to_end(&self, statements: &VecDeque<InFlight>) -> bool {
        let clients = statements.iter().filter_map(|statement| self.clients.get(statement.owner.client()?));
        clients.into_iter().any(|client| client.loss.killed)
    }

    /// Something still goes ahead of the client's statement.
    fn prepares(&self, key: ClientKey) -> bool {
        self.clients.get(key).is_some_and(|client| matches!(client.phase(), ClientPhase::Preparing))
    }

    /// The statement was with the server: whether it ran, and how far, nobody knows, so it is not sent again.
    pub(crate) fn statement_lost(&mut self, key: ClientKey, begun: bool) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let uploading = matches!(client.phase(), ClientPhase::Running(Running::Uploading { .. }));
        // A transaction that was about to begin with it may have begun.
        let transaction = client.in_transaction() || client.transaction.unstarted.is_some();
        let (pinned, killed) = (!client.session.pins.is_empty(), client.loss.killed);
        client.backend = None;
        client.end_statement();
        self.clients.server_keeps_up(key, &mut self.io.outbox);
        let request = self.take_request(key);
        let (answer, command) =
            request.map_or((1, RequestKind::Other), |request| (request.answer, request.command));
        if begun || uploading || self.clients[key].loss.wants_end {
            return self.close_client(
                key,
                ClosedFor::BackendLost,
                "its backend was lost in the middle of a statement",
            );
        }
        let login = command == RequestKind::LoginSchema;
        let sequence = if login { self.clients[key].login.sequence } else { answer };
        if killed {
            self.answer_error(key, sequence, &MySqlError::killed());
            return self.close_client(key, ClosedFor::Killed, "killed");
        }
        self.answer_error(key, sequence, &MySqlError::server_lost(transaction));
        if transaction || pinned || login {
            // Going on would run the rest of the transaction outside of it, or without the state it counts on.
            self.close_client(
                key,
                ClosedFor::BackendLost,
                "its backend was lost with its transaction or state",
            );
        } else {
            self.clients[key].session.aftermath.insert_id_at = None;
            self.resume.push(key);
        }
    }

    /// The client was between two statements.
    fn holder_lost(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get_mut(key) else { return };
        client.backend = None;
        // The servers close the connection behind the end of the binary log (dispatch_command: COM_BINLOG_DUMP).
        if client.session.pins.replicates() {
            return self.close_client(
                key,
                ClosedFor::BackendLost,
                "the server closed the connection of this replica",
            );
        }
        client.session.aftermath.insert_id_lost();
        // What was still to be asked for only this backend knew.
        let has_state_there = !client.session.pins.is_empty() || client.session.unreported.is_some();
        client.loss.lost = match (has_state_there, client.in_transaction()) {
            _ if client.loss.lost == Some(Lost::Server) => client.loss.lost,
            (true, _) => Some(Lost::PinnedState),
            (false, true) => Some(Lost::Transaction),
            (false, false) => None,
        };
        if matches!(client.phase(), ClientPhase::Settling) {
            // Its answer is not lost, and has told how many warnings there were.
            client.end_statement();
            client.session.aftermath.diagnostics.lose_texts();
            self.resume.push(key);
        }
        let queued = matches!(client.phase(), ClientPhase::Queued);
        self.clients.server_keeps_up(key, &mut self.io.outbox);
        if queued {
            let lost = self.clients[key].loss.lost.unwrap_or(Lost::Transaction);
            self.scheduling.scheduler.remove(key);
            let answer = self.take_request(key).map_or(1, |request| request.answer);
            self.clients[key].cancel();
            self.answer_lost(key, lost, answer);
        }
    }

    /// The server refused a login of ours for a user whose password was right a moment ago, or has no room.
    pub(crate) fn backend_refused(&mut self, key: BackendKey, code: u16, message: String) {
        let identity = self.servers[key].account.identity;
        let connection = self.servers[key].connection;
        debug_assert!(
            !matches!(self.servers[key].phase(), Phase::Ready),
            "a login is refused before its end"
        );
        // Another server is the primary soon, or this one is back: who waits, waits for that.
        if matches!(code, OFFLINE | SHUTDOWN)
            && self.settings.cluster.several
            && !self.servers[key].is_changing()
        {
            self.server_failed(key.server(), format!("it lets nobody in: error {code}: {message}"));
            self.claim_failed(self.servers[key].token, Unproved::NotNow);
            return self.close_backend(key, &message);
        }
        if let Some(connection) = connection {
            self.io.outbox.close(connection);
        }
        let has_room_soon = code == USER_FULL || (code == USER_LIMITED && message.contains(AT_A_TIME));
        if !has_room_soon && self.change_failed(key) {
            return self.change_ended(key, &message);
        }
        let is_changing = self.servers[key].is_changing();
        let is_wrong = self.claim_refused(key, code, &message);
        // A client's wrong password is no failure of ours.
        if !is_changing && !is_wrong {
            self.views.measures.connect_failures += 1;
        }
        // Those that there are go on, as logged-in connections do; others wait for them, or for the server to take more.
        if code == SERVER_FULL {
            return self.server_refused_for_room(key, message);
        }
        let has_others = self.servers.of(key).backends.iter().any(|(_, other)| {
            other.is_ready() && other.account.identity == identity && !other.place.is_former()
        });
        if has_room_soon || has_others {
            self.logins.identities.refuse_until(identity, self.now + NO_ROOM_PAUSE);
            self.remove_backend(key);
            return self.views.event(Event::NoRoom { reason: message });
        }
        self.remove_backend(key);
        self.servers.of_mut(key).control.ask_for_accounts();
        if code == WRONG_PASSWORD && self.logins.identities.go_back(identity) {
            // Those who wait get another backend, by the password that was proved before.
            return;
        }
        let error = MySqlError { code, sql_state: state_of_refusal(code), message };
        let waiting: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| {
                client.identity == Some(identity)
                    && client.backend.is_none()
                    && matches!(client.phase(), ClientPhase::Queued | ClientPhase::Following { .. })
            })
            .map(|(key, _)| key)
            .collect();
        for key in waiting {
            self.cancel_queued(key, &error);
        }
    }

    /// Where the login was to find out whether a client's password is right, that is found out. Whether it was, and the password is
    /// wrong.
    fn claim_refused(&mut self, key: BackendKey, code: u16, message: &str) -> bool {
        let backend = &self.servers[key];
        let how = match code {
            SERVER_FULL => Unproved::NotNow,
            // Once it is logged in, only the account can be the wrong one.
            WRONG_PASSWORD | WRONG_PASSWORD_UNSAID if matches!(backend.phase(), Phase::LoggingIn(_)) => {
                Unproved::Wrong
            }
            _ => {
                let sql_state = state_of_refusal(code);
                Unproved::Refused(MySqlError { code, sql_state, message: message.to_owned() })
            }
        };
        let is_wrong = matches!(how, Unproved::Wrong);
        self.claim_failed(backend.token, how) && is_wrong
    }

    /// The server has as many connections as it takes: what stands is our limit now, which others share with us.
    fn server_refused_for_room(&mut self, key: BackendKey, reason: String) {
        let origin = self.servers[key].opened.origin;
        self.remove_backend(key);
        let places = &self.pool.workers.places;
        let tries = self.servers.of(key).full.as_ref().map_or(0, |full| full.tries) + 1;
        if origin == Origin::Granted && tries < TRIES {
            places.grant(self.pool.worker);
            self.servers.of_mut(key).full = Some(ServerFull { until: self.now + SOON, tries });
            return;
        }
        let none_stands = places.refused(self.now);
        self.servers.of_mut(key).full =
            none_stands.then(|| ServerFull { until: self.now + NO_ROOM_PAUSE, tries: 0 });
        self.views.event(Event::NoRoom { reason });
    }

    /// Remembers since when statements wait for a backend, and gives up those that have waited too long.
    pub(crate) fn note_lack_of_backends(&mut self, lacking: bool) {
        if !lacking || self.scheduling.scheduler.in_need() == 0 {
            self.pool.workers.places.lack(self.pool.worker, false);
            self.pool.workers.places.return_grants(self.pool.worker);
            self.scheduling.lacking_since = None;
            return;
        }
        if self.pool.workers.places.are_full() {
            self.pool.workers.onramps.wait();
        }
        let since = *self.scheduling.lacking_since.get_or_insert(self.now);
        while let Some((key, queued)) = self.scheduling.scheduler.oldest_in_need() {
            if self.waits_until(queued.max(since)) > self.now {
                break;
            }
            let error = self.lack_error(self.servers.serving(&self.clients[key]));
            self.cancel_queued(key, &error);
        }
    }

    /// Why the server, or of several each, cannot be used; `within` names the option that bounds the wait for a primary.
    pub(crate) fn unreachable_error(&self, server: ServerKey, within: &str) -> MySqlError {
        if !self.has_primary() {
            return MySqlError::no_primary(within, &self.pool.workers.chosen.why_for_clients());
        }
        let server = &self.servers[server];
        MySqlError::server_unreachable(&server.server_address(&self.settings), server.reachability.reason())
    }

    /// Why a statement for this server has found no backend in time.
    pub(crate) fn lack_error(&mut self, server: ServerKey) -> MySqlError {
        // A server that has frozen takes connections and says nothing. Until the first of ours has taken too long it is up.
        if !self.has_primary() {
            return self.unreachable_error(server, "failover_hold");
        }
        let long = self.settings.backend_connect_timeout / 2;
        let is_silent = |backend: &Backend| {
            !backend.is_ready() && !backend.is_changing() && self.now.since(backend.since) >= long
        };
        let found = &self.servers[server];
        let silent = found.backends.iter().map(|(_, backend)| backend).find(|backend| is_silent(backend));
        if let Some(silent) = silent.filter(|_| found.reachability.is_up()) {
            let reason = self.why_not_ready(silent);
            MySqlError::server_unreachable(&found.server_address(&self.settings), reason)
        } else if found.reachability.is_up() {
            let limit = self.pool.workers.places.limit();
            let of_server = self.pool.workers.places.server_is_full();
            if !of_server {
                self.views.limit_reached(self.now, Limit::MaxBackends, u64::from(limit));
            }
            MySqlError::no_backend(limit, of_server)
        } else {
            self.unreachable_error(server, "failover_hold")
        }
    }

    /// When the next statement will have waited too long for a backend.
    pub(crate) fn next_giving_up(&self) -> Option<Instant> {
        let urgent = self.scheduling.urgent.iter().map(|&(_, since)| self.waits_until(since)).min();
        let waiting = self.scheduling.lacking_since.zip(self.scheduling.scheduler.oldest_in_need());
        let waiting = waiting.map(|(since, (_, queued))| self.waits_until(queued.max(since)));
        urgent.into_iter().chain(waiting).chain(self.scheduling.next_held_up(&self.settings)).min()
    }
}

#[cfg(test)]
mod tests {
    use seam::{Input, Output, Program};
    use wire::StatusFlags;

    use super::*;
    use crate::client::commands::tests::{connection, engine};
    use crate::ids::client_key;
    use crate::session::aftermath::Diagnostics;
    use crate::settings::Settings;

    /// Of a client's statement that finds no backend in time, while the one that was begun for it does this.
    fn error_code(begin: impl FnOnce(&mut Engine, u64)) -> u16 {
        let mut engine = engine(2, Settings::default());
        engine.servers.primary_mut().reachability.answered();
        let mut query = Vec::new();
        wire::put_message(&mut query, &mut 0, b"\x03SELECT 1");
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: &query });
        engine.handle(Instant::START, Input::TurnEnd);
        let mut begun = None;
        while let Some(output) = engine.poll_output() {
            if let Output::Connect { token: token @ 1.., .. } = output {
                begun = Some(token);
            }
        }
        begin(&mut engine, begun.expect("a backend is begun for it"));
        engine.handle(Instant::START + engine.settings.backend_connect_timeout, Input::TurnEnd);
        while let Some(output) = engine.poll_output() {
            if let Output::Send { connection: to, bytes } = output
                && to == connection(0)
            {
                assert_eq!(bytes[wire::HEADER_LEN], 0xff, "{bytes:?}");
                return u16::from_le_bytes([bytes[5], bytes[6]]);
            }
        }
        panic!("no answer")
    }

    /// Between the answer to a statement and that to our SHOW WARNINGS.
    #[test]
    fn warnings_that_were_told_of_are_not_denied_with_their_backend_lost() {
        let mut engine = engine(1, Settings::default());
        let mut counted = |diagnostics| {
            engine.clients[client_key(0)].set_phase(ClientPhase::Settling);
            engine.clients[client_key(0)].session.aftermath.diagnostics = diagnostics;
            engine.holder_lost(client_key(0));
            let diagnostics = &engine.clients[client_key(0)].session.aftermath.diagnostics;
            let reply = diagnostics.reply(engine.clients[client_key(0)].reader());
            (diagnostics.counts(), reply.map_or(0, |reply| reply.len()))
        };
        let (counts, answer) = counted(Diagnostics::OnBackend { warnings: 3, errors: 1, sql_state: None });
        assert_eq!(counts, (3, 1));
        assert!(answer > 0);
        assert_eq!(counted(Diagnostics::OnBackend { warnings: 0, errors: 0, sql_state: None }), ((0, 0), 0));
        // The loss was behind it, with another question of ours.
        let saved = Diagnostics::Saved {
            warnings: 2,
            errors: 0,
            sql_state: None,
            reply: crate::session::aftermath::List::new(vec![0; 9].into()),
        };
        assert_eq!(counted(saved), ((2, 0), 9));
    }

    /// What a client hears of a COM_STMT_PREPARE, of which the session state has to be known, and whether it is there still. Its backend was
    /// lost behind the answer to a SET, while it was asked for the values.
    fn prepares_with_unreported_lost(status: StatusFlags) -> (Vec<u8>, bool) {
        let mut engine = engine(1, Settings::default());
        let client = client_key(0);
        engine.clients[client].session.unreported =
            Some(Box::new([b"character_set_results"[..].into()].into()));
        engine.clients[client].session.status = status;
        engine.clients[client].set_phase(ClientPhase::Settling);
        engine.holder_lost(client);
        let mut prepare = Vec::new();
        wire::put_message(&mut prepare, &mut 0, b"\x16SELECT 1");
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: &prepare });
        engine.handle(Instant::START, Input::TurnEnd);
        let mut heard = Vec::new();
        while let Some(output) = engine.poll_output() {
            if let Output::Send { connection: to, bytes } = output
                && to == connection(0)
            {
                heard.extend_from_slice(bytes);
            }
        }
        (heard, engine.clients.contains(client))
    }

    /// Another backend has other values, and is not asked in its place.
    #[test]
    fn values_that_only_a_lost_backend_knew_end_their_client() {
        let lost = MySqlError::pinned_state_lost();
        for status in [StatusFlags::AUTOCOMMIT, StatusFlags::IN_TRANS] {
            let (heard, goes_on) = prepares_with_unreported_lost(status);
            assert!(heard.ends_with(lost.message.as_bytes()) && !goes_on, "{heard:?}");
        }
    }

    #[test]
    fn a_frozen_server_is_not_taken_for_a_full_pool() {
        let silent = error_code(|engine, token| {
            let stands = Input::Connected { token, connection: connection(7) };
            engine.handle(Instant::START, stands);
        });
        assert_eq!(silent, 1158);
        let held = error_code(|engine, _| {
            for (key, backend) in engine.servers.primary_mut().backends.iter_mut() {
                backend.set_phase(Phase::Ready);
                engine.clients[client_key(1)].backend = Some(key);
                backend.holder = Some(client_key(1));
            }
        });
        assert_eq!(held, 1040);
    }
}
