//! The service account's connection: learns what the server is, and keeps reading its accounts.

pub(crate) mod account_changes;
pub(crate) mod answer;
mod asking;
mod copies;
pub(crate) mod defaults;
pub(crate) mod facts;
pub(crate) mod frozen;
pub(crate) mod peers;
pub(crate) mod position;
mod question;
mod rights;
mod room;
pub(crate) mod state;
pub(crate) mod version;

use seam::{ConnectionId, Instant};
use std::sync::Arc;
use zeroize::Zeroize;

use crate::accounts::Accounts;
use crate::accounts::secret::Secret;
use crate::accounts::task::{Asker, Finding, Work};
use crate::backend::own_answers::rows_of;
use crate::backend::reachability::{NO_ANSWER, connect_error};
use crate::backend::rescue::allowance::functions_of_rows;
use crate::control::answer::{Kept, NoAnswer};
use crate::control::facts::{Facts, account_of_row};
use crate::control::peers::questions::PeersQuestion;
use crate::control::question::Question;
use crate::control::state::{CONTROL_TOKENS, State};
use crate::engine::Engine;
use crate::ids::ServerKey;
use crate::io::Role;
use crate::learned::lock_waits::told::{LockWaits, waits_at_gate, waits_of_rows};
use crate::outside::event::Event;
use crate::server::Server;
use crate::server_login::{Credentials, OF_SERVICE_ACCOUNT, Outcome, ServerLogin};
use crate::servers::Servers;
use crate::stored_code::questions::{CodeQuestion, ReadCode};
use crate::stored_code::watch::reading::AtHand;
use crate::workers::letter::Letter;

/// The accounts of a large installation are some thousand rows of 200 bytes; beyond this we would rather not log anybody
/// in than run out of memory.
const LARGEST_ANSWER: usize = 256 << 20;

impl Server {
    /// The service account's password has been encrypted for the server.
    pub(crate) fn control_finding(&mut self, connection: ConnectionId, finding: Finding) {
        let Finding::Encrypted(bytes) = finding else { return };
        if self.control.connection == Some(connection)
            && let State::LoggingIn(login) = &mut self.control.state
        {
            login.encrypted(bytes.as_deref(), &mut self.control.out);
        }
    }
}

impl Engine {
    /// Connects the service account to each server, or asks for the accounts, when it is time.
    pub(crate) fn control_turn(&mut self) {
        self.take_from_peers();
        for server in self.servers.keys() {
            self.control_turn_at(server);
        }
    }

    fn control_turn_at(&mut self, server: ServerKey) {
        match self.servers[server].control.state {
            State::Away
                if self.servers[server].reachability.may_connect(self.now)
                    && self.has_primary()
                    && (self.orders.draining.is_none() || self.awaits_its_only_server()) =>
            {
                let control = &mut self.servers[server].control;
                control.state = State::Connecting;
                control.since = self.now;
                // An attempt at a server that has been left meanwhile is another one's.
                if self.settings.cluster.several {
                    control.token = control.token.max(CONTROL_TOKENS) + 1;
                }
                let server = &self.servers[server];
                let address = self.settings.server[server.reachability.address].clone();
                self.io.outbox.connect(server.control.token, address);
            }
            State::Idle
                if let Some(question) =
                    self.servers[server].due_question(self.now, &self.settings, &self.pool) =>
            {
                self.servers[server].ask(self.now, question);
            }
            State::Idle
                if let Some(question) = self.servers[server].next_code_question(self.now, &self.pool) =>
            {
                self.servers[server].ask(self.now, Question::Code(question));
            }
            State::Idle if self.next_suspicion(server).is_some_and(|due| due <= self.now) => {
                let (settings, scheduling) = (&self.settings, &self.scheduling);
                let pace = self.servers[server].lock_wait_pace(self.now, settings, scheduling, &self.pool);
                let pace = pace.unwrap_or_default();
                if self.pool.workers.may_ask_for_lock_waits(self.now, pace) {
                    self.servers[server].control.lock_waits = LockWaits::new(server, self.now);
                    self.servers[server].ask(self.now, Question::LockGate);
                }
            }
            State::Connecting | State::LoggingIn(_) | State::Asking { .. }
                if self.now.since(self.servers[server].control.since)
                    > self.servers[server].control.limit(self.settings.backend_connect_timeout) =>
            {
                self.control_lost(server, NO_ANSWER);
            }
            _ => {}
        }
        // Behind one that was just put, this comes behind all others.
        let control = &self.servers[server].control;
        if matches!(control.state, State::Idle) && control.position.is_due(self.now) {
            self.servers[server].ask(self.now, Question::Position);
        }
        if !self.servers[server].control.out.is_empty()
            && let Some(connection) = self.servers[server].control.connection
        {
            self.io.outbox.send(connection, &self.servers[server].control.out);
            // The password may be among it.
            self.servers[server].control.out.zeroize();
        }
    }

    /// When [`Self::control_turn`] has something to do.
    pub(crate) fn next_control_turn(&self) -> Option<Instant> {
        self.servers.keys().filter_map(|server| self.next_control_turn_at(server)).min()
    }

    /// When to ask a server for lock waits.
    fn next_suspicion(&self, server: ServerKey) -> Option<Instant> {
        self.servers[server].next_suspicion(self.now, &self.settings, &self.scheduling, &self.pool)
    }

    fn next_control_turn_at(&self, server: ServerKey) -> Option<Instant> {
        match self.servers[server].control.state {
            State::Away if self.orders.draining.is_some() && !self.awaits_its_only_server() => None,
            State::Away if !self.has_primary() => None,
            State::Away => Some(self.servers[server].reachability.next_attempt().unwrap_or(self.now)),
            State::Idle => {
                let refresh = self.servers[server].control.next_refresh(self.settings.accounts_refresh);
                let due = refresh
                    .into_iter()
                    .chain(self.servers[server].next_look_at_defaults(&self.settings))
                    .chain(self.servers[server].next_look_at_room(&self.settings, &self.pool))
                    .chain(self.servers[server].next_look_at_peers(self.now, &self.settings, &self.pool))
                    .chain(self.servers[server].control.position.next());
                due.chain(self.next_suspicion(server))
                    .chain(self.servers[server].next_code_turn(self.now, &self.pool))
                    .min()
            }
            _ => {
                let control = &self.servers[server].control;
                Some(control.since + control.limit(self.settings.backend_connect_timeout))
            }
        }
    }

    pub(crate) fn control_connected(&mut self, server: ServerKey, connection: ConnectionId) {
        if !matches!(self.servers[server].control.state, State::Connecting) {
            return self.io.outbox.close(connection);
        }
        self.servers[server].control.connection = Some(connection);
        self.io.set_role(connection, Role::Control(server));
        let header = self.servers[server].proxy_header(&self.settings, None);
        self.servers[server].control.out.extend_from_slice(&header);
        let password = self.settings.service_password.as_bytes();
        let secret = Secret::of(password);
        self.servers[server].control.state = State::LoggingIn(Box::new(ServerLogin::new(Credentials {
            user: self.settings.service_user.clone().into_bytes(),
            secret,
            methods: OF_SERVICE_ACCOUNT.into(),
            way: self.servers[server].way_to_server(&self.settings),
            known_keys: Arc::clone(&self.settings.server_keys),
            tls: self.servers[server].wanted_server_tls(&self.settings),
            // utf8mb4_general_ci: names of accounts and schemas come as UTF-8.
            collation: 45,
            extra: wire::Capabilities(0),
            compression: self.settings.server_compression,
        })));
    }

    pub(crate) fn control_bytes(&mut self, server: ServerKey, bytes: &[u8]) {
        let control = &mut self.servers[server].control;
        match &mut control.state {
            State::LoggingIn(login) => match login.read(bytes, &mut control.out) {
                Ok(None) => {}
                Ok(Some(Outcome::Established(established))) => {
                    let connection =
                        self.servers[server].control.connection.expect("its bytes have just come");
                    self.servers[server].control.capabilities = established.capabilities;
                    self.io.start_server_compression(connection, established.capabilities);
                    self.views.note_missing_compression(&self.settings, &self.pool, &established);
                    self.servers[server].pending_facts = Some(Facts::new(&established));
                    self.servers[server].control.changes.asked_anew();
                    self.servers[server].control.code.asked_anew();
                    self.servers[server].control.defaults.asked_anew();
                    self.servers[server].control.room.asked_anew();
                    let key = self.settings.letter_key.as_ref();
                    self.servers[server].control.peers.asked_anew(key);
                    self.servers[server].ask(self.now, Question::Limits);
                }
                Ok(Some(Outcome::Encrypt { bytes, public_key })) => {
                    let connection =
                        self.servers[server].control.connection.expect("its bytes have just come");
                    self.io.tasks.give(
                        Asker::Control(server, connection),
                        Work::Encrypt { bytes, public_key },
                        None,
                    );
                }
                Ok(Some(Outcome::StartTls)) => {
                    let connection =
                        self.servers[server].control.connection.expect("its bytes have just come");
                    let out = std::mem::take(&mut self.servers[server].control.out);
                    self.servers[server].start_tls(&self.settings, &mut self.io, connection, &out);
                }
                Ok(Some(Outcome::Refused { code, message })) => {
                    let user = &self.settings.service_user;
                    let message = String::from_utf8_lossy(&message);
                    let reason = format!(
                        "it refused the service account '{user}' (see backend) with error {code}: {message}"
                    );
                    self.control_lost(server, &reason);
                }
                Ok(Some(Outcome::Withheld(why))) => {
                    let user = &self.settings.service_user;
                    let reason = format!("the service account '{user}' cannot log in: {}", why.message());
                    self.control_lost(server, &reason);
                }
                Err(error) => self.control_lost(server, &format!("its login broke the protocol: {error}")),
            },
            State::Asking { question, reader, answer } => match reader.read(bytes, answer) {
                Ok(progress) if progress.done => {
                    let (question, answer) = (*question, std::mem::take(answer));
                    self.answered(server, question, answer);
                }
                Ok(_) if answer.bytes.len() > LARGEST_ANSWER => {
                    self.control_lost(server, "its answer has no end");
                }
                Ok(_) => {}
                Err(error) => self.control_lost(server, &format!("it broke the protocol: {error}")),
            },
            State::Idle => self.control_lost(server, "the server closed the service account's connection"),
            State::Away | State::Connecting => {}
        }
    }

    /// TLS stands on the service account's connection.
    pub(crate) fn control_secured(&mut self, server: ServerKey) {
        let control = &mut self.servers[server].control;
        if let State::LoggingIn(login) = &mut control.state
            && let Err(error) = login.secured(&mut control.out)
        {
            self.control_lost(server, &format!("its login broke the protocol: {error}"));
        }
    }

    fn answered(&mut self, server: ServerKey, question: Question, answer: Kept) {
        self.servers[server].control.state = State::Idle;
        if let Some(error) =
            answer.error.filter(|_| !matches!(question, Question::Limits | Question::NoSyncWait))
        {
            return self.refused(server, question, error);
        }
        match question {
            Question::Limits => self.servers[server].ask(self.now, Question::NoSyncWait),
            Question::NoSyncWait if Server::counts_peers(&self.settings, &self.pool) => {
                self.servers[server].ask(self.now, Question::Peers(PeersQuestion::Silence));
            }
            Question::NoSyncWait => self.servers[server].ask(self.now, Question::Collations),
            Question::Collations => {
                let rows = rows_of(&answer.bytes);
                let facts = self.servers[server].pending_facts.as_mut().expect("set at the login");
                for row in &rows {
                    let row: Vec<_> = row.iter().map(Option::as_deref).collect();
                    facts.take_collation_row(&row);
                }
                self.servers[server].ask(self.now, Question::Server);
            }
            Question::Server => {
                let rows = rows_of(&answer.bytes);
                let row: Vec<_> = rows.first().into_iter().flatten().map(Option::as_deref).collect();
                let known = &mut self.servers[server];
                let (taken, is_new) = match (&mut known.pending_facts, &mut known.facts) {
                    (Some(facts), _) => (facts.take_server_row(&row), true),
                    (None, facts) => {
                        (facts.as_mut().and_then(|facts| facts.take_server_row_again(&row)), false)
                    }
                };
                if taken.is_none() {
                    return self.control_lost(server, "it gave an unexpected answer about its settings");
                }
                if is_new {
                    self.servers[server].ask(self.now, Question::Changes);
                }
            }
            Question::Defaults => self.defaults_answered(server, answer.bytes),
            Question::Room => self.servers[server].take_room(&self.settings, &self.pool, Some(&answer.bytes)),
            Question::Peers(question) => self.peers_answered(server, question, Ok(&answer.bytes)),
            Question::Position => self.servers[server].control.position.answered(&answer.bytes),
            Question::Changes => {
                self.servers[server].take_changes(self.now, &self.pool, &mut self.views, Ok(&answer.bytes));
            }
            Question::Accounts => self.take_accounts(server, answer.bytes),
            // The accounts that are read now may be newer than what the probe saw, never older.
            Question::Probe if answer.bytes != self.servers[server].control.probe_seen => {
                self.servers[server].control.probe_seen = answer.bytes;
                self.servers[server].ask(self.now, Question::Accounts);
            }
            Question::Probe => self.accounts_are_fresh(server),
            Question::LockGate if waits_at_gate(&rows_of(&answer.bytes)) > 0 => {
                self.servers[server].ask(self.now, Question::LockWaits);
            }
            // In `found_lock_waits` it ends, or with the other locks.
            Question::LockGate => self.ask_for_other_waiters(server),
            Question::LockWaits => {
                self.servers[server].control.lock_waits.waits.extend(waits_of_rows(&rows_of(&answer.bytes)));
                self.ask_for_other_waiters(server);
            }
            Question::OtherWaiters => {
                self.servers[server].control.lock_waits.waits.extend(waits_of_rows(&rows_of(&answer.bytes)));
                self.lock_waits_are_known(server);
            }
            Question::Code(question) => self.code_told(server, question, answer.bytes, None),
            Question::Functions => {
                let count = functions_of_rows(&rows_of(&answer.bytes));
                self.functions_are_known(server, count);
            }
        }
    }

    /// The server has answered a question of its stored code, or refused to.
    fn code_told(
        &mut self,
        server: ServerKey,
        question: CodeQuestion,
        answer: Vec<u8>,
        refusal: Option<String>,
    ) {
        let (mut at_hand, servers) = self.reading_code();
        if servers[server].code_answered(&mut at_hand, question, answer, refusal) {
            self.leave_control(server);
        }
    }

    /// The code that a server has told has been looked through.
    pub(crate) fn code_is_read(&mut self, server: ServerKey, task: u64, read: Option<ReadCode>) {
        let (mut at_hand, servers) = self.reading_code();
        if servers[server].code_is_read(&mut at_hand, task, read) {
            self.renew_backends();
            self.pool.write_to_others(&Letter::CodeFound);
        }
    }

    fn reading_code(&mut self) -> (AtHand<'_>, &mut Servers) {
        let Self { now, settings, pool, io, views, servers, .. } = self;
        (AtHand { now: *now, settings, pool, io, views }, servers)
    }

    /// The server has answered a question with an error. Much can be done without.
    fn refused(&mut self, server: ServerKey, question: Question, error: NoAnswer) {
        match question {
            Question::LockGate | Question::LockWaits | Question::OtherWaiters => {
                let event = self.servers[server].lock_waits_cannot_be_seen(self.now, error.to_string());
                event.filter(|_| self.pool.worker == 0).into_iter().for_each(|event| self.views.event(event));
            }
            Question::Functions => {
                self.functions_are_known(server, None);
            }
            Question::Code(question) => {
                self.code_told(server, question, Vec::new(), Some(error.to_string()));
            }
            Question::Changes => {
                self.servers[server].take_changes(self.now, &self.pool, &mut self.views, Err(error));
            }
            Question::Defaults => self.servers[server].control.defaults.are_refused(),
            Question::Room => self.servers[server].take_room(&self.settings, &self.pool, None),
            // A server counts as behind as long as it does not say how far it is.
            Question::Position => {}
            Question::Peers(question) => self.peers_answered(server, question, Err(error)),
            Question::Accounts | Question::Probe
                if self.servers[server].rights_cannot_be_read(&self.pool, &mut self.views, &error) =>
            {
                self.servers[server].ask(self.now, Question::Accounts);
            }
            _ => {
                let user = &self.settings.service_user;
                self.control_lost(server, &format!(
                    "the service account '{user}' may not read what it needs (docs/ACCOUNTS.md has the statements): {error}"
                ));
            }
        }
    }

    fn peers_answered(
        &mut self,
        server: ServerKey,
        question: PeersQuestion,
        answer: Result<&[u8], NoAnswer>,
    ) {
        let present = self.pool.workers.onramps.present();
        let found = &mut self.servers[server];
        found.take_peers(self.now, &self.settings, &self.pool, &mut self.views, question, answer);
        if self.pool.workers.onramps.present() != present {
            self.servers.ask_for_room();
            self.readers.engines_mut().for_each(|reader| reader.servers.ask_for_room());
        }
    }

    /// Whether the server has functions that a view could call.
    fn functions_are_known(&mut self, server: ServerKey, count: Option<u64>) {
        let found = &mut self.servers[server];
        found.rescues.found_functions(found.control.since, count);
        if server == self.servers.primary().key {
            self.primary_is_known(count == Some(0));
        }
    }

    fn ask_for_other_waiters(&mut self, server: ServerKey) {
        if self.servers[server].expects_waiters(self.now, &self.settings, &self.scheduling.stalls) {
            self.servers[server].ask(self.now, Question::OtherWaiters);
        } else {
            self.lock_waits_are_known(server);
        }
    }

    fn lock_waits_are_known(&mut self, server: ServerKey) {
        let found = Arc::new(self.servers[server].take_found_lock_waits(self.now));
        self.pool.write_to_others(&Letter::LockWaits(Arc::clone(&found)));
        // The next answer says whose locks these are.
        self.take_lock_waits(&found);
    }

    /// A server has said who waits for locks.
    pub(crate) fn take_lock_waits(&mut self, found: &LockWaits) {
        self.servers[found.server].tell_holders(&found.waits, &self.clients, &mut self.pool);
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.take_lock_waits(&parties, clients, servers, found);
    }

    /// Where sessions begin with other values, so do new backends alone, and the facts tell of them.
    fn defaults_answered(&mut self, server: ServerKey, answer: Vec<u8>) {
        let (sessions, views) = (&mut self.sessions, &mut self.views);
        let says_so = self.pool.worker == 0;
        if self.servers[server].control.defaults.take(answer, sessions, views, says_so) {
            self.renew_backends_on(server);
            self.servers[server].ask(self.now, Question::Server);
        }
    }

    /// The copy that is there is as good as a new one.
    fn accounts_are_fresh(&mut self, server: ServerKey) {
        self.servers[server].control.came = self.servers[server].control.asked;
        self.servers[server].control.last_copy = self.now;
        for backend in self.servers[server].judge_rights(self.now, &self.logins.identities) {
            self.quit_backend(backend);
        }
        self.judge_again();
    }

    fn take_accounts(&mut self, server: ServerKey, bytes: Vec<u8>) {
        let fresh = self.servers[server].pending_facts.take();
        let news = fresh.is_some();
        let before = fresh.and_then(|fresh| self.servers[server].facts.replace(fresh));
        if news {
            // Not at the login: a server of which too little may be read would be tried again and again without a pause.
            self.servers[server].reachability.answered();
            self.sessions.known_answers.clear(&mut self.sessions.states);
        }
        if news || bytes != self.servers[server].control.accounts_seen {
            let accounts = rows_of(&bytes)
                .iter()
                .filter_map(|row| account_of_row(&row.iter().map(Option::as_deref).collect::<Vec<_>>()))
                .collect();
            self.servers[server].control.accounts_seen = bytes;
            let facts = self.servers[server].facts.as_mut().expect("set above or earlier");
            let accounts = Accounts::new(accounts, facts.lex_mode.server);
            self.logins.identities.compare(&accounts);
            facts.accounts = accounts;
        }
        if let Some(before) = before {
            let facts = self.servers[server].facts.as_ref().expect("it has just been set");
            let (is_another, disappoints) = (before.is_another(facts), before.disappoints_clients(facts));
            if disappoints {
                self.disappoint_clients();
            }
            if is_another {
                self.renew_backends_on(server);
            }
        }
        if news {
            self.server_found(server);
        }
        self.accounts_are_fresh(server);
    }

    fn server_found(&mut self, server: ServerKey) {
        let facts = self.servers[server].facts.as_ref().expect("set by the caller");
        let event = Event::ServerFound {
            address: self.settings.server[self.servers[server].reachability.address].clone(),
            version: String::from_utf8_lossy(facts.version.text()).into_owned(),
            accounts: facts.accounts.len(),
        };
        self.views.event(event);
        if !facts.has_trackers() && self.pool.worker == 0 {
            let version = String::from_utf8_lossy(facts.version.text()).into_owned();
            self.views.event(Event::NoTrackers { version });
        }
        if !self.knows_primary() {
            self.servers[server].rescues.want_to_know();
        }
        let waiting: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| matches!(client.phase(), crate::client::Phase::AwaitingServer))
            .map(|(key, _)| key)
            .collect();
        self.renew_ids(&waiting);
        for key in waiting {
            self.greet(key);
        }
    }

    pub(crate) fn control_connect_failed(&mut self, server: ServerKey, errno: i32) {
        self.control_lost(server, &connect_error(errno));
    }

    /// Ends the service account's connection, where there is one.
    pub(crate) fn leave_control(&mut self, server: ServerKey) {
        if let Some(connection) = self.servers[server].control.leave() {
            self.io.outbox.close(connection);
            self.io.set_role(connection, Role::Free);
        }
    }

    /// The service account's connection is gone: it comes back with the pauses of the server's state. Logins go on with
    /// the accounts as they were last.
    pub(crate) fn control_lost(&mut self, server: ServerKey, reason: &str) {
        self.leave_control(server);
        self.servers[server].pending_facts = None;
        self.server_failed(server, reason.to_owned());
        self.judge_again();
    }
}
