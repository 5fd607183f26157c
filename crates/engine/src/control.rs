//! The service account's connection: learns what the server is, and keeps reading its accounts.

pub(crate) mod answer;
pub(crate) mod defaults;
pub(crate) mod facts;
mod rights;
mod room;
pub(crate) mod version;

use seam::{ConnectionId, Instant};
use std::sync::Arc;
use wire::{CommandKind, ReplyReader};
use zeroize::Zeroize;

use crate::accounts::Accounts;
use crate::accounts::secret::Secret;
use crate::accounts::task::{Asker, Finding, Work};
use crate::backend::connect::{NO_ANSWER, connect_error};
use crate::backend::kept::rows_of;
use crate::backend::rescue::functions_of_rows;
use crate::backend::rights::Changes;
use crate::control::answer::Kept;
use crate::control::defaults::Defaults;
use crate::control::facts::{COLLATIONS_QUERY, Facts, NO_LIMITS, SERVER_QUERY, account_of_row};
use crate::control::room::Room;
use crate::engine::{Engine, Role};
use crate::learned::lock_waits::{GATE_QUERY, LockWaits, waits_at_gate, waits_of_rows};
use crate::outside::event::Event;
use crate::server::Server;
use crate::server_login::{Credentials, OF_SERVICE_ACCOUNT, Outcome, ServerLogin};
use crate::settings::Settings;
use crate::stored_code::questions::CodeQuestion;
use crate::stored_code::watch::Watch;

/// Names the service account's connection towards the driver; backends count up from 1.
pub(crate) const CONTROL_TOKEN: u64 = 0;

/// Where there are several servers, each attempt has a name of its own, from here on.
const CONTROL_TOKENS: u64 = 1 << 62;

/// The accounts of a large installation are some thousand rows of 200 bytes; beyond this we would rather not log anybody
/// in than run out of memory.
const LARGEST_ANSWER: usize = 256 << 20;

/// Bad logins ask for fresh copies of the accounts: this many a second at most.
const SHORTEST_REFRESH: std::time::Duration = std::time::Duration::from_millis(20);

/// The service account's connection and what it is doing.
pub(crate) struct Control {
    state: State,
    connection: Option<ConnectionId>,
    /// Names the latest attempt to connect towards the driver.
    pub(crate) token: u64,
    /// The capabilities that the login has agreed on.
    capabilities: wire::Capabilities,
    since: Instant,
    /// Counts the copies of the accounts that were asked for, and that came.
    asked: u64,
    came: u64,
    wanted: bool,
    last_copy: Instant,
    out: Vec<u8>,
    accounts_seen: Vec<u8>,
    /// The answer to the latest probe.
    probe_seen: Vec<u8>,
    /// The server's counts of changes of accounts.
    pub(crate) changes: Changes,
    /// True once a log line has said that not all of the accounts can be read.
    rights_hidden: bool,
    /// The lock waits that have been found out so far.
    lock_waits: LockWaits,
    /// The knowledge of stored code.
    pub(crate) code: Watch,
    /// The values that a session begins with, as far as they are known.
    pub(crate) defaults: Defaults,
    room: Room,
}

enum State {
    Away,
    Connecting,
    LoggingIn(Box<ServerLogin>),
    Asking { question: Question, reader: Box<ReplyReader>, answer: Kept },
    Idle,
}

/// A question that the service account asks after its login: the first five in this order, the probe, the defaults and the room
/// again and again, the others when there is a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// That nothing is left out of the answers that follow, nor refused for its size.
    Limits,
    Collations,
    Server,
    /// How many statements have changed the accounts; before these are read.
    Changes,
    Accounts,
    /// Have the accounts changed?
    Probe,
    /// What does a new session begin with?
    Defaults,
    /// How many backends there may be.
    Room,
    /// How many statements wait for locks.
    LockGate,
    /// Which statements wait for the row locks of which others?
    LockWaits,
    /// Which statements wait for other locks than those of rows?
    OtherWaiters,
    /// How many functions there are that a view could call.
    Functions,
    /// Which stored code is there?
    Code(CodeQuestion),
}

impl Control {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Away,
            connection: None,
            token: CONTROL_TOKEN,
            capabilities: wire::Capabilities::NONE,
            since: Instant::START,
            asked: 0,
            came: 0,
            wanted: false,
            last_copy: Instant::START,
            out: Vec::new(),
            accounts_seen: Vec::new(),
            probe_seen: Vec::new(),
            changes: Changes::default(),
            rights_hidden: false,
            lock_waits: LockWaits::default(),
            code: Watch::default(),
            defaults: Defaults::default(),
            room: Room::default(),
        }
    }

    /// The server has gone, or is to be left. Returns the connection, which is to be closed.
    pub(crate) fn leave(&mut self) -> Option<ConnectionId> {
        self.state = State::Away;
        self.out.zeroize();
        self.connection.take()
    }

    /// The number of the copy that an attempt which comes in now may be refused by: one that is asked for later.
    pub(crate) fn next_accounts_copy(&self) -> u64 {
        self.asked + 1
    }

    /// The number of the copy in use.
    pub(crate) fn accounts_copy(&self) -> u64 {
        self.came
    }

    /// Says whether a fresh copy can be had soon.
    pub(crate) fn can_refresh(&self) -> bool {
        matches!(self.state, State::Idle | State::Asking { .. })
    }

    pub(crate) fn ask_for_accounts(&mut self) {
        self.wanted = true;
    }

    /// When the accounts are to be read next.
    pub(crate) fn next_refresh(&self, every: std::time::Duration) -> Option<Instant> {
        let pause = if self.wanted { SHORTEST_REFRESH } else { every };
        matches!(self.state, State::Idle).then_some(self.last_copy + pause)
    }
}

impl Server {
    fn next_look_at_defaults(&self, settings: &Settings) -> Option<Instant> {
        self.control.defaults.next(settings.accounts_refresh)
    }

    /// The service account's password has been encrypted for the server.
    pub(crate) fn control_finding(&mut self, connection: ConnectionId, finding: Finding) {
        let Finding::Encrypted(bytes) = finding else { return };
        if self.control.connection == Some(connection)
            && let State::LoggingIn(login) = &mut self.control.state
        {
            login.encrypted(bytes.as_deref(), &mut self.control.out);
        }
    }

    fn ask(&mut self, now: Instant, question: Question) {
        let facts = self.pending_facts.as_ref().or(self.facts.as_ref()).expect("known since the login");
        let text = match question {
            Question::Limits => NO_LIMITS,
            Question::Collations => COLLATIONS_QUERY,
            Question::Server => SERVER_QUERY,
            Question::Changes => facts.changes_query(),
            Question::Accounts => facts.accounts_query(),
            Question::Probe => facts.accounts_probe(),
            Question::Defaults => defaults::QUERY,
            Question::Room => self.room_query(),
            Question::LockGate => GATE_QUERY,
            Question::LockWaits => facts.lock_waits_query(),
            Question::OtherWaiters => facts.waiters_query(),
            Question::Functions => facts.functions_query(),
            Question::Code(question) => self.code_text(question),
        };
        let options = crate::backend::message::reply_options(
            self.control.capabilities,
            wire::Capabilities::DEPRECATE_EOF,
            0,
            1,
        );
        if question == Question::Changes {
            self.note_question_for_changes();
        }
        let control = &mut self.control;
        if matches!(question, Question::Accounts | Question::Probe) {
            control.asked += 1;
            control.wanted = false;
        }
        match question {
            Question::Defaults => control.defaults.are_asked_for(now),
            Question::Room => control.room.is_asked_for(now),
            _ => {}
        }
        let start = wire::begin_packet(&mut control.out);
        control.out.push(CommandKind::Query as u8);
        control.out.extend_from_slice(text.as_bytes());
        wire::end_packet(&mut control.out, start, &mut 0);
        control.since = now;
        let reader = Box::new(ReplyReader::new(wire::Expect::ResultSets, options));
        let of_code = matches!(question, Question::Code(_));
        control.state = State::Asking { question, reader, answer: Kept { of_code, ..Kept::default() } };
    }
}

impl Engine {
    /// Connects the service account, or asks for the accounts, when it is time.
    pub(crate) fn control_turn(&mut self) {
        match self.server.control.state {
            State::Away
                if self.server.reachability.may_connect(self.now)
                    && self.has_primary()
                    && self.draining.is_none() =>
            {
                let control = &mut self.server.control;
                control.state = State::Connecting;
                control.since = self.now;
                // An attempt at a server that has been left meanwhile is another one's.
                if self.settings.cluster.several {
                    control.token = control.token.max(CONTROL_TOKENS) + 1;
                }
                let address = self.settings.server[self.server.reachability.address].clone();
                self.io.outbox.connect(control.token, address);
            }
            State::Idle
                if self
                    .server
                    .control
                    .next_refresh(self.settings.accounts_refresh)
                    .is_some_and(|due| due <= self.now) =>
            {
                self.server.ask(
                    self.now,
                    if self.server.doubts_rights() { Question::Changes } else { Question::Probe },
                );
            }
            State::Idle
                if self.server.next_look_at_defaults(&self.settings).is_some_and(|due| due <= self.now) =>
            {
                self.server.ask(self.now, Question::Defaults);
            }
            State::Idle
                if self
                    .server
                    .next_look_at_room(&self.settings, &self.pool)
                    .is_some_and(|due| due <= self.now) =>
            {
                self.server.ask(self.now, Question::Room);
            }
            State::Idle if self.server.rescues.asks_for_functions() => {
                self.server.ask(self.now, Question::Functions);
            }
            State::Idle if let Some(question) = self.next_code_question() => {
                self.server.ask(self.now, Question::Code(question));
            }
            State::Idle if self.suspects_lock_waits() => {
                let pace = self.lock_wait_pace().unwrap_or_default();
                if self.pool.workers.may_ask_for_lock_waits(self.now, pace) {
                    self.server.control.lock_waits = LockWaits { asked: self.now, waits: Vec::new() };
                    self.server.ask(self.now, Question::LockGate);
                }
            }
            State::Connecting | State::LoggingIn(_) | State::Asking { .. }
                if self.now.since(self.server.control.since) > self.settings.backend_connect_timeout =>
            {
                self.control_lost(NO_ANSWER);
            }
            _ => {}
        }
        if !self.server.control.out.is_empty()
            && let Some(connection) = self.server.control.connection
        {
            self.io.outbox.send(connection, &self.server.control.out);
            // The password may be among it.
            self.server.control.out.zeroize();
        }
    }

    /// When [`Self::control_turn`] has something to do.
    pub(crate) fn next_control_turn(&self) -> Option<Instant> {
        match self.server.control.state {
            State::Away if self.draining.is_some() || !self.has_primary() => None,
            State::Away => Some(self.server.reachability.next_attempt().unwrap_or(self.now)),
            State::Idle => {
                let refresh = self.server.control.next_refresh(self.settings.accounts_refresh);
                let due = refresh
                    .into_iter()
                    .chain(self.server.next_look_at_defaults(&self.settings))
                    .chain(self.server.next_look_at_room(&self.settings, &self.pool));
                due.chain(self.next_suspicion()).chain(self.next_code_turn()).min()
            }
            _ => Some(self.server.control.since + self.settings.backend_connect_timeout),
        }
    }

    pub(crate) fn control_connected(&mut self, connection: ConnectionId) {
        if !matches!(self.server.control.state, State::Connecting) {
            return self.io.outbox.close(connection);
        }
        self.server.control.connection = Some(connection);
        self.io.set_role(connection, Role::Control);
        self.server.control.out.extend_from_slice(&self.server.proxy_header(&self.settings, None));
        let password = self.settings.service_password.as_bytes();
        let secret = Secret::of(password);
        self.server.control.state = State::LoggingIn(Box::new(ServerLogin::new(Credentials {
            user: self.settings.service_user.clone().into_bytes(),
            secret,
            methods: OF_SERVICE_ACCOUNT.into(),
            way: self.server.way_to_server(&self.settings),
            known_keys: Arc::clone(&self.settings.server_keys),
            tls: self.server.wanted_server_tls(&self.settings),
            // utf8mb4_general_ci: names of accounts and schemas come as UTF-8.
            collation: 45,
            extra: wire::Capabilities(0),
            compression: self.settings.server_compression,
        })));
    }

    pub(crate) fn control_bytes(&mut self, bytes: &[u8]) {
        match &mut self.server.control.state {
            State::LoggingIn(login) => match login.read(bytes, &mut self.server.control.out) {
                Ok(None) => {}
                Ok(Some(Outcome::Established(established))) => {
                    self.server.reachability.answered();
                    let connection = self.server.control.connection.expect("its bytes have just come");
                    self.server.control.capabilities = established.capabilities;
                    self.io.start_server_compression(connection, established.capabilities);
                    self.note_missing_compression(&established);
                    self.server.pending_facts = Some(Facts::new(&established));
                    self.server.control.changes.asked_anew();
                    self.server.control.code.asked_anew();
                    self.server.control.defaults.asked_anew();
                    self.server.control.room.asked_anew();
                    self.server.ask(self.now, Question::Limits);
                }
                Ok(Some(Outcome::Encrypt { bytes, public_key })) => {
                    let connection = self.server.control.connection.expect("its bytes have just come");
                    self.io.give_task(Asker::Control(connection), Work::Encrypt { bytes, public_key }, None);
                }
                Ok(Some(Outcome::StartTls)) => {
                    let connection = self.server.control.connection.expect("its bytes have just come");
                    let out = std::mem::take(&mut self.server.control.out);
                    self.start_server_tls(connection, &out);
                }
                Ok(Some(Outcome::Refused { code, message })) => {
                    let user = &self.settings.service_user;
                    let message = String::from_utf8_lossy(&message);
                    let reason = format!(
                        "it refused the service account '{user}' (see backend) with error {code}: {message}"
                    );
                    self.control_lost(&reason);
                }
                Ok(Some(Outcome::Withheld(why))) => {
                    let user = &self.settings.service_user;
                    let reason = format!("the service account '{user}' cannot log in: {}", why.message());
                    self.control_lost(&reason);
                }
                Err(error) => self.control_lost(&format!("its login broke the protocol: {error}")),
            },
            State::Asking { question, reader, answer } => match reader.read(bytes, answer) {
                Ok(progress) if progress.done => {
                    let (question, answer) = (*question, std::mem::take(answer));
                    self.answered(question, answer);
                }
                Ok(_) if answer.bytes.len() > LARGEST_ANSWER => self.control_lost("its answer has no end"),
                Ok(_) => {}
                Err(error) => self.control_lost(&format!("it broke the protocol: {error}")),
            },
            State::Idle => self.control_lost("the server closed the service account's connection"),
            State::Away | State::Connecting => {}
        }
    }

    /// TLS stands on the service account's connection.
    pub(crate) fn control_secured(&mut self) {
        if let State::LoggingIn(login) = &mut self.server.control.state
            && let Err(error) = login.secured(&mut self.server.control.out)
        {
            self.control_lost(&format!("its login broke the protocol: {error}"));
        }
    }

    fn answered(&mut self, question: Question, answer: Kept) {
        self.server.control.state = State::Idle;
        if let Some(error) = answer.error.filter(|_| question != Question::Limits) {
            return self.refused(question, error);
        }
        match question {
            Question::Limits => self.server.ask(self.now, Question::Collations),
            Question::Collations => {
                let rows = rows_of(&answer.bytes);
                let facts = self.server.pending_facts.as_mut().expect("set at the login");
                for row in &rows {
                    let row: Vec<_> = row.iter().map(Option::as_deref).collect();
                    facts.take_collation_row(&row);
                }
                self.server.ask(self.now, Question::Server);
            }
            Question::Server => {
                let rows = rows_of(&answer.bytes);
                let row: Vec<_> = rows.first().into_iter().flatten().map(Option::as_deref).collect();
                let (taken, is_new) = match (&mut self.server.pending_facts, &mut self.server.facts) {
                    (Some(facts), _) => (facts.take_server_row(&row), true),
                    (None, facts) => {
                        (facts.as_mut().and_then(|facts| facts.take_server_row_again(&row)), false)
                    }
                };
                if taken.is_none() {
                    return self.control_lost("it gave an unexpected answer about its settings");
                }
                if is_new {
                    self.server.ask(self.now, Question::Changes);
                }
            }
            Question::Defaults => {
                if self.take_defaults(answer.bytes) {
                    self.server.ask(self.now, Question::Server);
                }
            }
            Question::Room => self.server.take_room(&self.settings, &self.pool, Some(&answer.bytes)),
            Question::Changes => {
                self.server.take_changes(self.now, &self.pool, &mut self.views, Ok(&answer.bytes));
            }
            Question::Accounts => self.take_accounts(answer.bytes),
            // The accounts that are read now may be newer than what the probe saw, never older.
            Question::Probe if answer.bytes != self.server.control.probe_seen => {
                self.server.control.probe_seen = answer.bytes;
                self.server.ask(self.now, Question::Accounts);
            }
            Question::Probe => self.accounts_are_fresh(),
            Question::LockGate if waits_at_gate(&rows_of(&answer.bytes)) > 0 => {
                self.server.ask(self.now, Question::LockWaits);
            }
            // In `found_lock_waits` it ends, or with the other locks.
            Question::LockGate => self.ask_for_other_waiters(),
            Question::LockWaits => {
                self.server.control.lock_waits.waits.extend(waits_of_rows(&rows_of(&answer.bytes)));
                self.ask_for_other_waiters();
            }
            Question::OtherWaiters => {
                self.server.control.lock_waits.waits.extend(waits_of_rows(&rows_of(&answer.bytes)));
                self.lock_waits_are_known();
            }
            Question::Code(question) => self.code_answered(question, answer.bytes, None),
            Question::Functions => {
                let count = functions_of_rows(&rows_of(&answer.bytes));
                self.server.rescues.found_functions(self.server.control.since, count);
                self.primary_is_known(count == Some(0));
            }
        }
    }

    /// The server has answered a question with an error. Much can be done without.
    fn refused(&mut self, question: Question, error: String) {
        match question {
            Question::LockGate | Question::LockWaits | Question::OtherWaiters => {
                self.lock_waits_cannot_be_seen(error);
            }
            Question::Functions => {
                self.server.rescues.found_functions(self.server.control.since, None);
                self.primary_is_known(false);
            }
            Question::Code(question) => self.code_answered(question, Vec::new(), Some(error)),
            Question::Changes => self.server.take_changes(self.now, &self.pool, &mut self.views, Err(error)),
            Question::Defaults => self.server.control.defaults.are_refused(),
            Question::Room => self.server.take_room(&self.settings, &self.pool, None),
            Question::Accounts | Question::Probe
                if self.server.rights_cannot_be_read(&self.pool, &mut self.views, &error) =>
            {
                self.server.ask(self.now, Question::Accounts);
            }
            _ => {
                let user = &self.settings.service_user;
                self.control_lost(&format!(
                    "the service account '{user}' may not read what it needs (docs/ACCOUNTS.md has the statements): {error}"
                ));
            }
        }
    }

    fn ask_for_other_waiters(&mut self) {
        if self.expects_waiters() {
            self.server.ask(self.now, Question::OtherWaiters);
        } else {
            self.lock_waits_are_known();
        }
    }

    fn lock_waits_are_known(&mut self) {
        let found = std::mem::take(&mut self.server.control.lock_waits);
        self.found_lock_waits(found);
    }

    /// The copy that is there is as good as a new one.
    fn accounts_are_fresh(&mut self) {
        self.server.control.came = self.server.control.asked;
        self.server.control.last_copy = self.now;
        self.judge_rights();
        self.judge_again();
    }

    fn take_accounts(&mut self, bytes: Vec<u8>) {
        let fresh = self.server.pending_facts.take();
        let news = fresh.is_some();
        let before = fresh.and_then(|fresh| self.server.facts.replace(fresh));
        if news {
            self.sessions.known_answers.clear(&mut self.sessions.states);
        }
        if news || bytes != self.server.control.accounts_seen {
            let accounts = rows_of(&bytes)
                .iter()
                .filter_map(|row| account_of_row(&row.iter().map(Option::as_deref).collect::<Vec<_>>()))
                .collect();
            self.server.control.accounts_seen = bytes;
            let facts = self.server.facts.as_mut().expect("set above or earlier");
            let accounts = Accounts::new(accounts, facts.lex_mode.server);
            self.logins.identities.compare(&accounts);
            facts.accounts = accounts;
        }
        if let Some(before) = before {
            self.server_replaced(&before);
        }
        if news {
            self.server_found();
        }
        self.accounts_are_fresh();
    }

    fn server_found(&mut self) {
        let facts = self.server.facts.as_ref().expect("set by the caller");
        let event = Event::ServerFound {
            address: self.settings.server[self.server.reachability.address].clone(),
            version: String::from_utf8_lossy(facts.version.text()).into_owned(),
            accounts: facts.accounts.len(),
        };
        self.views.event(event);
        if !self.knows_primary() {
            self.server.rescues.want_to_know();
        }
        let waiting: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| matches!(client.phase(), crate::client::Phase::AwaitingServer))
            .map(|(key, _)| key)
            .collect();
        for key in waiting {
            self.greet(key);
        }
    }

    pub(crate) fn control_connect_failed(&mut self, errno: i32) {
        self.control_lost(&connect_error(errno));
    }

    /// Ends the service account's connection, where there is one.
    pub(crate) fn leave_control(&mut self) {
        if let Some(connection) = self.server.control.leave() {
            self.io.outbox.close(connection);
            self.io.set_role(connection, Role::Free);
        }
    }

    /// The service account's connection is gone: it comes back with the pauses of the server's state. Logins go on with
    /// the accounts as they were last.
    pub(crate) fn control_lost(&mut self, reason: &str) {
        self.leave_control();
        self.server.pending_facts = None;
        self.server_failed(reason.to_owned());
        self.judge_again();
    }
}
