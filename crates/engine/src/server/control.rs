//! The service account's connection: learns what the server is, and keeps reading its accounts.

pub(crate) mod account_changes;
pub(crate) mod answer;
mod asking;
mod backend_limit;
mod copies;
pub(crate) mod defaults;
pub(crate) mod facts;
pub(crate) mod fresh_accounts;
pub(crate) mod frozen;
pub(crate) mod peers;
pub(crate) mod position;
mod question;
mod rights;
pub(crate) mod state;
pub(crate) mod version;

use seam::{ConnectionId, Instant};
use std::sync::Arc;
use zeroize::Zeroize;

use crate::accounts::copy::{AccountRows, ReadAccounts};
use crate::accounts::secret::Secret;
use crate::accounts::task::{Asker, Finding, Work};
use crate::backend::from_server::own_answers::rows_of;
use crate::backend::login::reachability::NO_ANSWER;
use crate::backend::scheduling::rescue::allowance::functions_of_rows;
use crate::ids::ServerKey;
use crate::io::{Io, Role};
use crate::outside::event::Event;
use crate::outside::views::Views;
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::scheduling::learned::lock_waits::told::{LockWaits, waits_at_gate, waits_of_rows};
use crate::server::Server;
use crate::server::control::answer::{Kept, NoAnswer};
use crate::server::control::facts::Facts;
use crate::server::control::peers::questions::PeersQuestion;
use crate::server::control::question::Question;
use crate::server::control::state::{CONTROL_TOKENS, State};
use crate::server::login::{Credentials, LoginOutcome, OF_SERVICE_ACCOUNT, ServerLogin};
use crate::server::stored_code::questions::{CodeQuestion, ReadCode};
use crate::server::stored_code::watch::reading::AtHand;
use crate::servers::Servers;
use crate::settings::Settings;
use crate::workers::letter::Letter;

/// The accounts of a large installation are some thousand rows of 200 bytes; beyond this we would rather not log anybody
/// in than run out of memory.
const LARGEST_ANSWER: usize = 256 << 20;

/// News that the service account has heard of a server, where others have to do something.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Nothing.
    Nothing,
    /// The connection is of no use any more, for this reason.
    Lost(String),
    /// A copy of the accounts, which is to be taken.
    Accounts(ReadAccounts),
    /// The copy that is there is as good as a new one.
    Fresh,
    /// The values that sessions begin with.
    Defaults(Vec<u8>),
    /// The clients that wait for locks, and who holds these. The other workers have been told.
    LockWaits(Arc<LockWaits>),
    /// `none`: the primary has no functions that a view could call.
    Functions { none: bool },
    /// Other Onramps have come or gone.
    Peers,
}

impl Server {
    /// The time at which the service account has something to do. `may_connect`: where its connection is away, it may come back.
    pub(crate) fn next_control_turn(
        &self,
        now: Instant,
        settings: &Settings,
        scheduling: &Scheduling,
        pool: &Pool,
        may_connect: bool,
    ) -> Option<Instant> {
        let control = &self.control;
        match control.state {
            State::Away if !may_connect => None,
            State::Away => Some(self.reachability.next_attempt().unwrap_or(now)),
            State::ReadingAccounts => None,
            State::Idle => control
                .next_refresh(settings.accounts_refresh)
                .into_iter()
                .chain(self.next_look_at_defaults(settings))
                .chain(self.next_look_at_backend_limit(settings, pool))
                .chain(self.next_look_at_peers(now, settings, pool))
                .chain(control.position.next())
                .chain(self.next_suspicion(now, settings, scheduling, pool))
                .chain(self.next_code_turn(now, pool))
                .min(),
            _ => Some(control.since + control.limit(settings.backend_connect_timeout)),
        }
    }
}

/// The service account's connections, and all that is found out on them.
pub(crate) struct ServiceAccounts<'a> {
    pub(crate) now: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) pool: &'a mut Pool,
    pub(crate) scheduling: &'a Scheduling,
    pub(crate) servers: &'a mut Servers,
    pub(crate) views: &'a mut Views,
    pub(crate) io: &'a mut Io,
}

impl ServiceAccounts<'_> {
    /// Connects the service account to a server, or asks for the accounts, when it is time. `may_connect`: where it is away, it may come back.
    pub(crate) fn turn(&mut self, key: ServerKey, may_connect: bool) -> Heard {
        match self.servers[key].control.state {
            State::Away if self.servers[key].reachability.may_connect(self.now) && may_connect => {
                self.connect(key);
            }
            State::Idle => self.ask_what_is_due(key),
            State::Connecting | State::LoggingIn(_) | State::Asking { .. }
                if self.now.since(self.servers[key].control.since)
                    > self.servers[key].control.limit(self.settings.backend_connect_timeout) =>
            {
                if let State::Asking { question: Question::Code(_), .. } = self.servers[key].control.state {
                    self.servers[key].code_takes_too_long(self.now, self.pool, self.views);
                }
                return Heard::Lost(String::from(NO_ANSWER));
            }
            _ => {}
        }
        // Behind one that was just put, this comes behind all others.
        let control = &self.servers[key].control;
        if matches!(control.state, State::Idle) && control.position.is_due(self.now) {
            self.servers[key].ask(self.now, Question::Position);
        }
        let control = &mut self.servers[key].control;
        if !control.out.is_empty()
            && let Some(connection) = control.connection
        {
            self.io.outbox.send(connection, &control.out);
            // The password may be among it.
            control.out.zeroize();
        }
        Heard::Nothing
    }

    fn connect(&mut self, key: ServerKey) {
        let control = &mut self.servers[key].control;
        control.state = State::Connecting;
        control.since = self.now;
        // An attempt at a server that has been left meanwhile is another one's.
        if self.settings.cluster.several {
            control.token = control.token.max(CONTROL_TOKENS) + 1;
        }
        let server = &self.servers[key];
        let address = self.settings.server[server.reachability.address].clone();
        self.io.outbox.connect(server.control.token, address);
    }

    fn ask_what_is_due(&mut self, key: ServerKey) {
        let (now, settings, scheduling) = (self.now, self.settings, self.scheduling);
        let server = &mut self.servers[key];
        if let Some(question) = server.due_question(now, settings, self.pool) {
            server.ask(now, question);
            return;
        }
        let code = server.next_code_question(now, self.pool);
        let suspects =
            server.next_suspicion(now, settings, scheduling, self.pool).is_some_and(|due| due <= now);
        // All of the stored code may be hundreds of questions, and who waits for locks is asked ten times a second.
        if suspects && (code.is_none() || server.control.code.gives_way()) {
            let pace = server.lock_wait_pace(now, settings, scheduling, self.pool).unwrap_or_default();
            if self.pool.workers.may_ask_for_lock_waits(now, pace) {
                server.control.lock_waits = LockWaits::new(key, now);
                return server.ask(now, Question::LockGate);
            }
        }
        if let Some(question) = code {
            server.ask(now, Question::Code(question));
        }
    }

    /// The connection of the service account to a server stands.
    pub(crate) fn connected(&mut self, key: ServerKey, connection: ConnectionId) {
        if !matches!(self.servers[key].control.state, State::Connecting) {
            return self.io.outbox.close(connection);
        }
        self.servers[key].control.connection = Some(connection);
        self.io.set_role(connection, Role::Control(key));
        let header = self.servers[key].proxy_header(self.settings, None);
        self.servers[key].control.out.extend_from_slice(&header);
        let password = self.settings.service_password.as_bytes();
        let secret = Secret::of(password);
        self.servers[key].control.state = State::LoggingIn(Box::new(ServerLogin::new(Credentials {
            user: self.settings.service_user.clone().into_bytes(),
            secret,
            methods: OF_SERVICE_ACCOUNT.into(),
            way: self.servers[key].way_to_server(self.settings),
            known_keys: Arc::clone(&self.settings.server_keys),
            tls: self.servers[key].wanted_server_tls(self.settings),
            // utf8mb4_general_ci: names of accounts and schemas come as UTF-8.
            collation: 45,
            extra: wire::Capabilities(0),
            compression: self.settings.server_compression,
        })));
    }

    /// Bytes of the server on its service account's connection.
    pub(crate) fn bytes(&mut self, key: ServerKey, bytes: &[u8]) -> Heard {
        let control = &mut self.servers[key].control;
        match &mut control.state {
            State::LoggingIn(login) => match login.read(bytes, &mut control.out) {
                Ok(None) => {}
                Ok(Some(LoginOutcome::Established(established))) => {
                    let connection = self.servers[key].control.connection.expect("its bytes have just come");
                    self.servers[key].control.capabilities = established.capabilities;
                    self.io.start_server_compression(connection, established.capabilities);
                    self.views.note_missing_compression(self.settings, self.pool, &established);
                    self.servers[key].pending_facts = Some(Facts::new(&established));
                    self.servers[key].control.asked_anew(self.settings.letter_key.as_ref());
                    self.servers[key].ask(self.now, Question::Limits);
                }
                Ok(Some(LoginOutcome::Encrypt { bytes, public_key })) => {
                    let connection = self.servers[key].control.connection.expect("its bytes have just come");
                    self.io.tasks.give(
                        Asker::Control(key, connection),
                        Work::Encrypt { bytes, public_key },
                        None,
                    );
                }
                Ok(Some(LoginOutcome::StartTls)) => {
                    let connection = self.servers[key].control.connection.expect("its bytes have just come");
                    let out = std::mem::take(&mut self.servers[key].control.out);
                    self.servers[key].start_tls(self.settings, self.io, connection, &out);
                }
                Ok(Some(LoginOutcome::Refused { code, message })) => {
                    let user = &self.settings.service_user;
                    let message = String::from_utf8_lossy(&message);
                    let reason = format!(
                        "it refused the service account '{user}' (see backend) with error {code}: {message}"
                    );
                    return Heard::Lost(reason);
                }
                Ok(Some(LoginOutcome::Withheld(why))) => {
                    let user = &self.settings.service_user;
                    let reason = format!("the service account '{user}' cannot log in: {}", why.message());
                    return Heard::Lost(reason);
                }
                Err(error) => return Heard::Lost(format!("its login broke the protocol: {error}")),
            },
            State::Asking { question, reader, answer } => match reader.read(bytes, answer) {
                Ok(progress) if progress.done => {
                    let (question, answer) = (*question, std::mem::take(answer));
                    return self.answered(key, question, answer);
                }
                Ok(_) if answer.bytes.len() > LARGEST_ANSWER => {
                    return Heard::Lost(String::from("its answer has no end"));
                }
                Ok(_) => {}
                Err(error) => return Heard::Lost(format!("it broke the protocol: {error}")),
            },
            State::Idle | State::ReadingAccounts => {
                return Heard::Lost(String::from("the server closed the service account's connection"));
            }
            State::Away | State::Connecting => {}
        }
        Heard::Nothing
    }

    /// TLS stands on the service account's connection.
    pub(crate) fn secured(&mut self, key: ServerKey) -> Heard {
        let control = &mut self.servers[key].control;
        if let State::LoggingIn(login) = &mut control.state
            && let Err(error) = login.secured(&mut control.out)
        {
            return Heard::Lost(format!("its login broke the protocol: {error}"));
        }
        Heard::Nothing
    }

    /// The server has answered a question of the service account's.
    fn answered(&mut self, key: ServerKey, question: Question, answer: Kept) -> Heard {
        self.servers[key].control.state = State::Idle;
        if let Some(error) =
            answer.error.filter(|_| !matches!(question, Question::Limits | Question::NoSyncWait))
        {
            return self.refused(key, question, error);
        }
        match question {
            Question::Limits => self.servers[key].ask(self.now, Question::NoSyncWait),
            Question::NoSyncWait if Server::counts_peers(self.settings, self.pool) => {
                self.servers[key].ask(self.now, Question::Peers(PeersQuestion::Silence));
            }
            Question::NoSyncWait => self.servers[key].ask(self.now, Question::Collations),
            Question::Collations => {
                let rows = rows_of(&answer.bytes);
                let facts = self.servers[key].pending_facts.as_mut().expect("set at the login");
                for row in &rows {
                    let row: Vec<_> = row.iter().map(Option::as_deref).collect();
                    facts.take_collation_row(&row);
                }
                self.servers[key].ask(self.now, Question::Server);
            }
            Question::Server => {
                let rows = rows_of(&answer.bytes);
                let row: Vec<_> = rows.first().into_iter().flatten().map(Option::as_deref).collect();
                let known = &mut self.servers[key];
                let (taken, is_new) = match (&mut known.pending_facts, &mut known.facts) {
                    (Some(facts), _) => (facts.take_server_row(&row), true),
                    (None, facts) => {
                        (facts.as_mut().and_then(|facts| facts.take_server_row_again(&row)), false)
                    }
                };
                if taken.is_none() {
                    return Heard::Lost(String::from("it gave an unexpected answer about its settings"));
                }
                if is_new {
                    self.servers[key].ask(self.now, Question::Changes);
                }
            }
            Question::Defaults => return Heard::Defaults(answer.bytes),
            Question::Backends => self.servers[key].take_limit(self.settings, self.pool, Some(&answer.bytes)),
            Question::Peers(question) => return self.peers_answered(key, question, Ok(&answer.bytes)),
            Question::Position => self.servers[key].control.position.answered(&answer.bytes),
            Question::Changes => {
                self.servers[key].take_changes(self.now, self.pool, self.views, Ok(&answer.bytes));
            }
            Question::Accounts => return self.accounts_told(key, answer.bytes),
            // The accounts that are read now may be newer than what the probe saw, never older.
            Question::Probe if answer.bytes != self.servers[key].control.probe_seen => {
                self.servers[key].control.probe_seen = answer.bytes;
                self.servers[key].ask(self.now, Question::Accounts);
            }
            Question::Probe => return Heard::Fresh,
            Question::LockGate if waits_at_gate(&rows_of(&answer.bytes)) > 0 => {
                self.servers[key].ask(self.now, Question::LockWaits);
            }
            // In `found_lock_waits` it ends, or with the other locks.
            Question::LockGate => return self.ask_for_other_waiters(key),
            Question::LockWaits => {
                self.servers[key].control.lock_waits.waits.extend(waits_of_rows(&rows_of(&answer.bytes)));
                return self.ask_for_other_waiters(key);
            }
            Question::OtherWaiters => {
                self.servers[key].control.lock_waits.waits.extend(waits_of_rows(&rows_of(&answer.bytes)));
                return self.lock_waits_are_known(key);
            }
            Question::Code(question) => self.code_told(key, question, answer.bytes, None),
            Question::Functions => {
                let count = functions_of_rows(&rows_of(&answer.bytes));
                return self.functions_are_known(key, count);
            }
        }
        Heard::Nothing
    }

    /// The server has told its accounts.
    fn accounts_told(&mut self, key: ServerKey, answer: Vec<u8>) -> Heard {
        let server = &mut self.servers[key];
        if server.pending_facts.is_none() && answer == server.control.accounts_seen {
            return Heard::Fresh;
        }
        let facts = server.pending_facts.as_ref().or(server.facts.as_ref()).expect("known since the login");
        let rows = AccountRows { answer, server: facts.lex_mode.server };
        if rows.is_short() {
            return Heard::Accounts(rows.read());
        }
        let connection = server.control.connection.expect("its bytes have just come");
        self.io.tasks.give(Asker::Control(key, connection), Work::ReadAccounts(rows), None);
        server.control.state = State::ReadingAccounts;
        Heard::Nothing
    }

    /// What a server's service account has given to do is done: its password is encrypted, or the accounts are read. Since then it may have
    /// logged in anew, on another connection.
    pub(crate) fn found(&mut self, key: ServerKey, connection: ConnectionId, finding: Finding) -> Heard {
        let control = &mut self.servers[key].control;
        if control.connection != Some(connection) {
            return Heard::Nothing;
        }
        match (&mut control.state, finding) {
            (State::LoggingIn(login), finding) => {
                if let Finding::Encrypted(bytes) = finding.for_server() {
                    login.encrypted(bytes.as_deref(), &mut control.out);
                }
            }
            (State::ReadingAccounts, Finding::Accounts(read)) => {
                control.state = State::Idle;
                return Heard::Accounts(read);
            }
            (State::ReadingAccounts, _) => {
                return Heard::Lost(String::from("reading its accounts met a defect of onramp"));
            }
            _ => {}
        }
        Heard::Nothing
    }

    /// The server has answered a question of its stored code, or refused to.
    fn code_told(
        &mut self,
        key: ServerKey,
        question: CodeQuestion,
        answer: Vec<u8>,
        refusal: Option<String>,
    ) {
        let Self { now, settings, pool, io, views, .. } = self;
        let mut at_hand = AtHand { now: *now, settings, pool, io, views };
        if self.servers[key].code_answered(&mut at_hand, question, answer, refusal) {
            self.leave(key);
        }
    }

    /// The code that a server has told has been looked through. True where more has been found than was known.
    pub(crate) fn code_is_read(&mut self, key: ServerKey, task: u64, read: Option<ReadCode>) -> bool {
        let Self { now, settings, pool, io, views, .. } = self;
        let mut at_hand = AtHand { now: *now, settings, pool, io, views };
        self.servers[key].code_is_read(&mut at_hand, task, read)
    }

    /// The server has answered a question with an error. Much can be done without.
    fn refused(&mut self, key: ServerKey, question: Question, error: NoAnswer) -> Heard {
        match question {
            Question::LockGate | Question::LockWaits | Question::OtherWaiters => {
                let event = self.servers[key].lock_waits_cannot_be_seen(self.now, error.to_string());
                event.filter(|_| self.pool.worker == 0).into_iter().for_each(|event| self.views.event(event));
            }
            Question::Functions => {
                return self.functions_are_known(key, None);
            }
            Question::Code(question) => {
                self.code_told(key, question, Vec::new(), Some(error.to_string()));
            }
            Question::Changes => {
                self.servers[key].take_changes(self.now, self.pool, self.views, Err(error));
            }
            Question::Defaults => self.servers[key].control.defaults.are_refused(),
            Question::Backends => self.servers[key].take_limit(self.settings, self.pool, None),
            // A server counts as behind as long as it does not say how far it is.
            Question::Position => {}
            Question::Peers(question) => return self.peers_answered(key, question, Err(error)),
            Question::Accounts | Question::Probe
                if self.servers[key].rights_cannot_be_read(self.pool, self.views, &error) =>
            {
                self.servers[key].ask(self.now, Question::Accounts);
            }
            _ => {
                let user = &self.settings.service_user;
                return Heard::Lost(format!(
                    "the service account '{user}' may not read what it needs (docs/ACCOUNTS.md has the statements): {error}"
                ));
            }
        }
        Heard::Nothing
    }

    fn peers_answered(
        &mut self,
        key: ServerKey,
        question: PeersQuestion,
        answer: Result<&[u8], NoAnswer>,
    ) -> Heard {
        let present = self.pool.workers.onramps.present();
        let found = &mut self.servers[key];
        found.take_peers(self.now, self.settings, self.pool, self.views, question, answer);
        if self.pool.workers.onramps.present() == present {
            return Heard::Nothing;
        }
        self.servers.ask_for_room();
        Heard::Peers
    }

    /// Takes in how many functions the server has that a view could call; `None` where that is not known.
    fn functions_are_known(&mut self, key: ServerKey, count: Option<u64>) -> Heard {
        let found = &mut self.servers[key];
        found.rescues.found_functions(found.control.since, count);
        match key == self.servers.primary().key {
            true => Heard::Functions { none: count == Some(0) },
            false => Heard::Nothing,
        }
    }

    fn ask_for_other_waiters(&mut self, key: ServerKey) -> Heard {
        if self.servers[key].expects_waiters(self.now, self.settings, &self.scheduling.stalls) {
            self.servers[key].ask(self.now, Question::OtherWaiters);
            return Heard::Nothing;
        }
        self.lock_waits_are_known(key)
    }

    fn lock_waits_are_known(&mut self, key: ServerKey) -> Heard {
        let found = Arc::new(self.servers[key].take_found_lock_waits(self.now));
        self.pool.write_to_others(&Letter::LockWaits(Arc::clone(&found)));
        // The next answer says whose locks these are.
        Heard::LockWaits(found)
    }

    /// Has the server tell its settings once more.
    pub(crate) fn ask_what_it_is(&mut self, key: ServerKey) {
        self.servers[key].ask(self.now, Question::Server);
    }

    /// Says of a server that it is there, and what it is.
    pub(crate) fn say_found(&mut self, key: ServerKey) {
        let facts = self.servers[key].facts.as_ref().expect("it has just been found");
        let version = || String::from_utf8_lossy(facts.version.text()).into_owned();
        let address = self.settings.server[self.servers[key].reachability.address].clone();
        let accounts = facts.accounts.len();
        self.views.event(Event::ServerFound { address, version: version(), accounts });
        if !facts.has_trackers() && self.pool.worker == 0 {
            self.views.event(Event::NoTrackers { version: version() });
        }
    }

    /// Ends the service account's connection, where there is one.
    pub(crate) fn leave(&mut self, key: ServerKey) {
        if let Some(connection) = self.servers[key].control.leave() {
            self.io.outbox.close(connection);
            self.io.set_role(connection, Role::Free);
        }
    }
}

#[cfg(test)]
mod tests;
