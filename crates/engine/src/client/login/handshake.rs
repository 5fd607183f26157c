//! A client's login, and COM_CHANGE_USER, against the server's own accounts; [`crate::client::login::authentication`] is about its
//! proof of its password. And the consequences of what the service account hears, of accounts and of the server.

use std::sync::Arc;

use seam::{Instant, Peer};
use wire::{Capabilities, ChangeUser, Greeting, LoginRequest, WireError};
use zeroize::Zeroizing;

use crate::accounts::copy::ReadAccounts;
use crate::accounts::method::Method;
use crate::accounts::secret::Secret;
use crate::accounts::task::Finding;
use crate::accounts::{Account, Proved};
use crate::client::login::attempt::{Attempt, Login, LoginAnswer, is_libmariadb};
use crate::client::login::authentication::{Authentication, AuthenticationOutcome};
use crate::client::login::delegation::{ClaimStep, LOOKS};
use crate::client::login::refusing::LoginRefusal;
use crate::client::login::schema::Asked;
use crate::client::login::security::Security;
use crate::client::session::priority::Priority;
use crate::client::{Client, Phase, login::compression};
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{ClientKey, ClientRef, ServerKey};
use crate::outside::event::Event;
use crate::outside::named::{ClosedFor, Limit, LoginStage, RefusedFor};
use crate::outside::refusals::Reason;
use crate::outside::waits::WaitReason;
use crate::pool::Pool;
use crate::request::{Request, RequestKind};
use crate::scheduling::learned::lock_waits::told::LockWaits;
use crate::server::control::facts::Facts;
use crate::server::control::fresh_accounts::FreshAccounts;
use crate::server::control::{Heard, ServiceAccounts};
use crate::session::SessionState;
use crate::workers::letter::Letter;

/// The capabilities that we offer to clients, where the server offers them too.
pub(crate) const OFFERED: Capabilities = Capabilities(
    crate::server::login::ALWAYS.0
        | crate::client::CLASS.0
        // Heeded here, in the session state.
        | Capabilities::IGNORE_SPACE.0
        | Capabilities::CONNECT_WITH_DB.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::ODBC.0
        | Capabilities::NO_SCHEMA.0
        // Flags that mean nothing on the way; the servers offer all that they know.
        | Capabilities::IGNORE_SIGPIPE.0
        | Capabilities::RESERVED.0
        | Capabilities::REMEMBER_OPTIONS.0
        | Capabilities::CACHE_METADATA.0
        | crate::server::login::OF_BACKENDS.0,
);

/// Bytes that a client may make us hold before it has logged in. The servers take connection attributes of up to 64
/// KiB; libraries send some hundred bytes of them.
pub(crate) const LARGEST_LOGIN: usize = 16 << 10;

impl Pool {
    /// Tells the other workers of a password, so that clients of the same account there open backends by the latest one, too.
    fn tell_others(&mut self, account: &Account, user: &[u8], secret: &Secret) {
        let proved = Proved { identity: account.identity_key(user), secret: secret.clone() };
        self.write_to_others(&Letter::Proved(proved));
    }
}

impl Engine {
    /// Returns the service accounts' connections.
    pub(crate) fn service_accounts(&mut self) -> ServiceAccounts<'_> {
        let Self { now, settings, pool, scheduling, servers, views, io, .. } = self;
        ServiceAccounts { now: *now, settings, pool, scheduling, servers, views, io }
    }

    /// Says whether the service account may connect where it is away.
    fn may_ask_servers(&self) -> bool {
        let is_needed = !self.orders.is_draining() || self.awaits_its_only_server();
        is_needed && self.why_no_backend().may_connect()
    }

    /// Connects the service account to each server, or asks for the accounts, when it is time.
    pub(crate) fn control_turn(&mut self) {
        self.take_from_peers();
        for server in self.servers.keys() {
            let may_connect = self.may_ask_servers();
            let heard = self.service_accounts().turn(server, may_connect);
            self.control_heard(server, heard);
        }
    }

    /// Returns the time at which [`Self::control_turn`] has something to do.
    pub(crate) fn next_control_turn(&self) -> Option<Instant> {
        let Self { now, settings, scheduling, pool, .. } = self;
        let may_connect = self.may_ask_servers();
        let next = self.servers.iter();
        next.filter_map(|it| it.next_control_turn(*now, settings, scheduling, pool, may_connect)).min()
    }

    /// Carries out what follows from what the service account has heard.
    pub(crate) fn control_heard(&mut self, server: ServerKey, heard: Heard) {
        match heard {
            Heard::Nothing => {}
            Heard::Lost(reason) => self.control_lost(server, &reason),
            Heard::Accounts(read) => self.take_accounts(server, read),
            Heard::Fresh => self.accounts_are_fresh(server),
            Heard::Defaults(answer) => self.take_defaults(server, answer),
            Heard::LockWaits(found) => self.take_lock_waits(&found),
            Heard::Functions { none } => self.primary_is_known(none),
            Heard::Peers => self.readers.engines_mut().for_each(|reader| reader.servers.ask_for_room()),
        }
    }

    /// Takes in a server's word on who waits for locks.
    pub(crate) fn take_lock_waits(&mut self, found: &LockWaits) {
        self.servers[found.server].tell_holders(&found.waits, &self.clients, &mut self.pool);
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.take_lock_waits(&parties, clients, servers, found);
    }

    fn fresh_accounts(&mut self) -> FreshAccounts<'_> {
        let Self { now, logins, sessions, servers, .. } = self;
        FreshAccounts { now: *now, logins, sessions, servers }
    }

    /// Takes in a copy of a server's accounts, which has come.
    fn take_accounts(&mut self, server: ServerKey, read: ReadAccounts) {
        let fresh = self.fresh_accounts().take(server, read);
        if fresh.disappoints {
            self.disappoint_clients();
        }
        if fresh.is_another {
            self.renew_backends_on(server);
        }
        if fresh.is_found {
            self.server_found(server);
        }
        self.accounts_are_fresh(server);
    }

    /// Goes on where the copy that is there is as good as a new one.
    fn accounts_are_fresh(&mut self, server: ServerKey) {
        for backend in self.fresh_accounts().are_fresh(server) {
            self.quit_backend(backend);
        }
        self.judge_again();
    }

    /// Greets the clients that have waited for the facts of a server, which are known now.
    fn server_found(&mut self, server: ServerKey) {
        self.service_accounts().say_found(server);
        if !self.following.knows_primary(self.settings.cluster.several) {
            self.servers[server].rescues.want_to_know();
        }
        let waiting =
            self.clients.iter().filter(|(_, client)| matches!(client.phase(), Phase::AwaitingServer));
        let waiting: Vec<_> = waiting.map(|(key, _)| key).collect();
        let renewed = self.ids.renew(&self.pool, &mut self.clients, &waiting);
        self.logins.ids_are_renewed(&renewed);
        for key in waiting {
            self.greet(key);
        }
    }

    /// Sends our greeting, which repeats the server's version and capabilities.
    pub(crate) fn greet(&mut self, key: ClientKey) {
        let Some(facts) = &self.servers.primary().facts else { return };
        let scramble = self.io.entropy.scramble();
        let (collation, _) = facts.charset_of_login(0);
        let client = &mut self.clients[key];
        let mut payload = Vec::new();
        Greeting {
            server_version: facts.version.text(),
            connection_id: client.id,
            scramble,
            capabilities: (OFFERED & facts.capabilities)
                | client.security.offered()
                | compression::offered(&self.settings, facts.capabilities),
            collation,
            status: facts.greeting_status(),
            auth_plugin: facts.method.name(),
        }
        .put(&mut payload);
        client.login.scramble = scramble;
        client.greet();
        let connection = client.connection;
        self.io.send_packet_to(connection, 0, &payload);
        self.note_login_stage(key, LoginStage::Greeting);
    }

    /// Notes that the part of a login which began with the connection is over.
    fn note_login_stage(&mut self, key: ClientKey, stage: LoginStage) {
        if let Some(until) = self.clients[key].login.until() {
            let left = until.since(self.now);
            self.views.measures.note_login_stage(stage, self.settings.connect_timeout.saturating_sub(left));
        }
    }

    /// Takes in a whole packet of a client that is logging in.
    pub(crate) fn login_packet(&mut self, key: ClientKey, payload: &[u8], sequence: u8) {
        match self.clients[key].take_login(|login| !login.is_ours_to_go_on()) {
            Some(Login::Greeted | Login::Secured) => match self.read_login(key, payload, sequence) {
                Ok(()) => {}
                Err(error) => {
                    self.answers().error(key, sequence.wrapping_add(1), &MySqlError::handshake());
                    self.close_malformed(key, &format!("bad login packet: {error}"));
                }
            },
            Some(Login::Switched(mut attempt)) => {
                attempt.answer = LoginAnswer::Token(Zeroizing::new(payload.to_vec()));
                attempt.sequence = sequence.wrapping_add(1);
                let outcome = self.authentication().judge(key, attempt);
                self.carry_out_login(key, outcome);
            }
            Some(Login::PasswordAsked(mut attempt)) => {
                attempt.sequence = sequence.wrapping_add(1);
                let outcome = self.authentication().password_sent(key, attempt, payload);
                self.carry_out_login(key, outcome);
            }
            // A client that goes on talking before it has its answer.
            _ => self.close_malformed(key, "a packet in the middle of its login"),
        }
    }

    /// Returns the view of the engine by which clients prove who they are.
    pub(crate) fn authentication(&mut self) -> Authentication<'_> {
        let Self { now, settings, pool, servers, clients, logins, resume, io, .. } = self;
        let server = servers.primary_mut();
        Authentication { now: *now, settings, pool, server, clients, logins, resume, io }
    }

    /// Carries out the outcome of a client's login, by what it has proved.
    fn carry_out_login(&mut self, key: ClientKey, outcome: AuthenticationOutcome) {
        match outcome {
            AuthenticationOutcome::Waits => {}
            AuthenticationOutcome::LogsIn(account, secret, attempt) => {
                self.log_in(key, &account, secret, *attempt);
            }
            AuthenticationOutcome::Claims(attempt) => {
                let step = self.authentication().claim(key, attempt);
                self.carry_out_claim(step);
            }
            AuthenticationOutcome::Refused(attempt, verdict) => {
                let refusal = self.authentication().refuse(key, &attempt, &verdict);
                self.refuse(key, attempt.sequence, refusal);
            }
        }
    }

    fn authenticate(&mut self, key: ClientKey, attempt: Box<Attempt>, fresh_scramble: bool) {
        let outcome = self.authentication().authenticate(key, attempt, fresh_scramble);
        self.carry_out_login(key, outcome);
    }

    /// Takes in what another thread has found for a client's login.
    pub(crate) fn client_finding(&mut self, client: ClientRef, finding: Finding) {
        let outcome = self.authentication().take_finding(client, finding);
        self.carry_out_login(client.key, outcome);
    }

    /// Decides on the logins that have waited for a fresh copy of the accounts. The copy is there, or will not come.
    pub(crate) fn judge_again(&mut self) {
        for client in self.logins.take_awaiting_accounts() {
            let outcome = self.authentication().judge_again(client);
            self.carry_out_login(client.key, outcome);
        }
    }

    /// Asks about the clients that are next in line, and lets in those of a user that has proved the same password just now.
    pub(crate) fn go_on_with_claims(&mut self) {
        self.authentication().take_held();
        for _ in 0..LOOKS {
            match self.authentication().next_step() {
                ClaimStep::Rest => break,
                ClaimStep::Ask(client, guest, password, turn) => {
                    let Some(origin) = self.place_for_claim() else {
                        self.logins.claims.lack_place(guest, client);
                        break;
                    };
                    self.ask_server(client, guest, password, (origin, turn));
                }
                step => self.carry_out_claim(step),
            }
        }
    }

    /// Carries out the next step for a client with a password that the server has to judge, but for asking the server.
    pub(crate) fn carry_out_claim(&mut self, step: ClaimStep) {
        match step {
            ClaimStep::Rest | ClaimStep::Next | ClaimStep::Ask(..) => {}
            ClaimStep::MakeRoom(idle) => self.quit_backend(idle),
            ClaimStep::Judge(client, answer) => self.judge_claim(client, answer),
            ClaimStep::Refuse(client, error) => self.refuse_claim(client, &error),
            ClaimStep::Lose(client) => {
                let error = self.why_no_backend().unreachable(self.servers.primary().key, "connect_timeout");
                self.refuse_claim(client, &error);
            }
        }
    }

    pub(crate) fn judge_claim(&mut self, client: ClientRef, answer: LoginAnswer) {
        let outcome = self.authentication().judge_claim(client, answer);
        self.carry_out_login(client.key, outcome);
    }

    fn refuse_claim(&mut self, client: ClientRef, error: &MySqlError) {
        let Some((user, sequence)) = self.authentication().attempt_to_refuse(client) else { return };
        let peer = self.clients[client.key].peer;
        let (refused_for, reason) = (RefusedFor::Server, error.message.clone());
        self.views.event(Event::LoginRefused { peer, user, refused_for, reason });
        self.tell_refusal(client.key, sequence, error);
    }

    fn read_login(&mut self, key: ClientKey, payload: &[u8], sequence: u8) -> Result<(), WireError> {
        if wire::is_ssl_request(payload) {
            return self.clients[key].start_tls(&mut self.io);
        }
        let login = LoginRequest::parse(payload)?;
        self.note_login_stage(key, LoginStage::Request);
        if self.clients[key].lacks_tls() {
            let LoginRefusal { event, told } = self.authentication().refuse_plain(key, login.user);
            if let Some(error) = told {
                self.answers().error(key, sequence.wrapping_add(1), &error);
            }
            self.views.event(event);
            self.drop_client(key);
            return Ok(());
        }
        if !login.capabilities.contains(Capabilities::SECURE_CONNECTION) {
            return Err(WireError::Malformed { what: "a client without CLIENT_SECURE_CONNECTION" });
        }
        if self.refuses_charset(key, login.collation, login.user, sequence.wrapping_add(1)) {
            return Ok(());
        }
        let offered =
            self.servers.primary().facts.as_ref().map_or(OFFERED, |facts| OFFERED & facts.capabilities);
        let servers =
            self.servers.primary().facts.as_ref().map_or(Capabilities::NONE, |facts| facts.capabilities);
        let compressions = compression::offered(&self.settings, servers);
        let client = &mut self.clients[key];
        client.capabilities = login.capabilities & offered;
        client.login.asks_for(compression::wanted(compressions, login.capabilities, payload));
        client.loss.wants_end = is_libmariadb(login.attributes);
        let (plugin, token) = (login.auth_plugin, login.auth_response);
        let mut attempt = Box::new(Attempt {
            schema: login.schema.filter(|schema| !schema.is_empty()).map(<[u8]>::to_vec),
            collation: login.collation,
            came: self.now,
            ..Attempt::new(login.user, plugin, token, client.login.scramble, sequence)
        });
        // Only an answer by the method of our greeting is one to its scramble: who names another plugin has sent none that
        // counts (the C libraries send an empty packet), and is asked anew. Ed25519 needs a longer nonce than greetings have.
        let greeted = self.servers.primary().facts.as_ref().map(|facts| facts.method);
        if client.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            attempt.method = attempt.method.filter(|&it| Some(it) == greeted && it != Method::Ed25519);
        }
        self.authenticate(key, attempt, false);
        Ok(())
    }

    /// Carries out COM_CHANGE_USER. `body` stands behind the command byte.
    pub(crate) fn change_user(&mut self, key: ClientKey, body: &[u8], sequence: u8) {
        let client = &self.clients[key];
        let change = match ChangeUser::parse(body, client.capabilities) {
            Ok(change) => change,
            Err(error) => {
                self.answers().error(key, sequence.wrapping_add(1), &MySqlError::handshake());
                return self.close_malformed(key, &format!("bad COM_CHANGE_USER: {error}"));
            }
        };
        let collation =
            change.collation.and_then(|id| u8::try_from(id).ok()).unwrap_or(client.login.collation);
        let (plugin, token) = (change.auth_plugin, change.auth_response);
        let attempt = Box::new(Attempt {
            schema: change.schema.map(<[u8]>::to_vec),
            collation,
            came: self.now,
            ..Attempt::new(change.user, plugin, token, client.login.scramble, sequence)
        });
        if client.backend.is_none() {
            return self.become_user(key, attempt);
        }
        // Ahead of all else, so that nobody waits for locks until the login is over, and the client itself finds none behind it
        // (dispatch_command: `change_user` in MariaDB, `cleanup_connection` in MySQL, both before `acl_authenticate`).
        let mut raw = Vec::new();
        wire::put_message(&mut raw, &mut 0, &[wire::CommandKind::ResetConnection as u8]);
        let reset = Request::plain(raw, wire::Expect::Simple, RequestKind::ChangeUser);
        let answer = sequence.wrapping_add(1);
        let mut reset = Request { answer, ..reset.urgently() };
        reset.changes.becomes = Some(attempt);
        self.queue_request(key, reset);
    }

    /// Carries out the rest of COM_CHANGE_USER: nothing is left of what the client had.
    pub(crate) fn become_user(&mut self, key: ClientKey, attempt: Box<Attempt>) {
        if let Some(backend) = self.clients[key].backend.take() {
            self.reset_backend(backend);
        }
        self.forget_state(key);
        if self.refuses_charset(key, attempt.collation, &attempt.user, attempt.sequence) {
            return;
        }
        // A client may have computed its answer for the scramble of its greeting or for one of an earlier switch: a
        // fresh one leaves no doubt. MariaDB does the same (native_password_authenticate).
        self.authenticate(key, attempt, true);
    }

    /// Refuses a character set in which no client may talk. True where it did.
    fn refuses_charset(&mut self, key: ClientKey, collation: u8, user: &[u8], sequence: u8) -> bool {
        let refusal = self.authentication().refuses_charset(key, collation, user);
        refusal.is_some_and(|refusal| {
            self.refuse(key, sequence, refusal);
            true
        })
    }

    /// Refuses a login. Its client is told so now, or at a time that has been noted.
    fn refuse(&mut self, key: ClientKey, sequence: u8, LoginRefusal { event, told }: LoginRefusal) {
        self.views.event(event);
        if let Some(error) = told {
            self.tell_refusal(key, sequence, &error);
        }
    }

    /// Ends a login that is refused, or an attempt to become somebody else.
    pub(crate) fn tell_refusal(&mut self, key: ClientKey, sequence: u8, error: &MySqlError) {
        let changes_user = self.clients[key].identity().is_some();
        // MySQL ends a connection that may not become somebody else (sql_parse.cc, COM_CHANGE_USER: KILL_CONNECTION).
        let stays = changes_user && self.servers.primary().facts.as_ref().is_none_or(Facts::is_mariadb);
        if stays {
            self.keep_user(key);
        }
        self.answers().error(key, sequence, error);
        if !stays {
            self.drop_client(key);
        }
    }

    /// Lets the client stay who it was, but as after a reset: COM_CHANGE_USER was refused by a MariaDB.
    fn keep_user(&mut self, key: ClientKey) {
        self.clients[key].end_login();
        self.clients[key].login.end();
        self.resume.push(key);
    }

    /// Logs a client in. The password was right: the client is this account from here on.
    pub(crate) fn log_in(&mut self, key: ClientKey, to: &Arc<Account>, secret: Secret, attempt: Attempt) {
        let is_new = self.clients[key].identity().is_none();
        self.forget_session(key);
        self.pool.workers.failed_logins.succeeded(&self.clients[key].peer, &attempt.user);
        let Some(facts) = &self.servers.primary().facts else { return };
        let (collation, charset) = facts.charset_of_login(attempt.collation);
        let is_news = self.logins.identities.secret_of(&attempt.user, to) != Some(&secret);
        // Whoever came without a password, as a user of this machine, has proved nothing that others lack.
        if is_news && secret != Secret::None {
            self.pool.tell_others(to, &attempt.user, &secret);
        }
        let Some(facts) = &self.servers.primary().facts else { return };
        let identity = self.logins.identities.hold(to, &attempt.user, secret);
        self.logins.identities.came_from(identity.id(), &self.clients[key].peer);
        self.scheduling
            .waits
            .record(WaitReason::Login, self.now.since(self.clients[key].activity.last_heard));
        self.views.measures.note_login_stage(LoginStage::Password, self.now.since(attempt.came));
        let mut state =
            SessionState { schema: attempt.schema.clone().map(Into::into), charset, ..Default::default() };
        if is_new && self.clients[key].capabilities.contains(Capabilities::IGNORE_SPACE) {
            state.set_variable(b"sql_mode", &facts.sql_mode_with_ignore_space());
        }
        let session = self.sessions.states.hold(state);
        let client = &mut self.clients[key];
        client.session.begins(session);
        client.login.collation = collation;
        client.logs_in(identity);
        self.views.measures.logged_in += 1;
        client.session.aftermath = client.session.aftermath.of_reset();
        client.session.status = facts.fresh_status();
        client.loss.kind = None;
        client.priority = Priority::default();
        client.tickets = self.scheduling.scheduler.full_tickets();
        client.login.scramble = attempt.scramble;
        client.end_login();
        let Some(schema) = attempt.schema else { return self.answer_login(key, attempt.sequence) };
        let (clients, sessions) = (&mut self.clients, &self.sessions.states);
        let named = (key, schema, attempt.sequence);
        match self.logins.schemas.ask(self.now, &self.settings, clients, sessions, named) {
            Asked::Known => self.answer_login(key, attempt.sequence),
            Asked::With(request) => self.queue_request(key, *request),
            Asked::Waits => {}
        }
    }

    /// Sends the OK that ends a login or a COM_CHANGE_USER.
    pub(crate) fn answer_login(&mut self, key: ClientKey, sequence: u8) {
        let proof = self.clients[key].certificate_proof(&self.logins.identities, self.servers.primary());
        self.answers().login(key, sequence, &proof);
    }

    /// Logs in the clients that waited with the one that asked for the schema, since it is there for them.
    pub(crate) fn schema_allowed(&mut self, asked: ClientKey) {
        for (key, sequence) in self.logins.schemas.end_check(asked, &self.clients) {
            self.clients[key].end_login();
            self.answer_login(key, sequence);
            self.resume.push(key);
        }
    }

    /// Gives back identity, session state and backend of a client that becomes somebody else, or goes.
    pub(crate) fn forget_session(&mut self, key: ClientKey) {
        if let Some(backend) = self.clients[key].backend.take() {
            self.reset_backend(backend);
        }
        self.prepared().forget_all(key);
        let client = &mut self.clients[key];
        self.client_memory.sessions.give_back(&mut client.memory.session);
        let (identity, session) = (client.logs_out(), client.session.end());
        if let Some(identity) = identity {
            self.views.measures.logged_in = self.views.measures.logged_in.saturating_sub(1);
            self.release_identity(identity);
        }
        if let Some(session) = session {
            self.sessions.states.release(session);
        }
    }

    /// Takes in a new peer. Beyond `max_connections` the peer is told so and let go.
    pub(crate) fn client_accepted(
        &mut self,
        connection: seam::ConnectionId,
        listener: seam::ListenerId,
        peer: Peer,
    ) {
        if self.orders.is_draining() || !self.pool.workers.take_client() {
            let error = if self.orders.is_draining() {
                MySqlError::shutdown()
            } else {
                self.views.limit_reached(
                    self.now,
                    Limit::MaxConnections,
                    u64::from(self.settings.max_connections),
                );
                self.views.refusals.note(Reason::Limit(Limit::MaxConnections), None, &peer);
                MySqlError::too_many_connections()
            };
            self.io.send_early_error(connection, &error);
            self.io.outbox.close(connection);
            return;
        }
        let id = self.ids.next(&self.pool);
        let mut client = Client::new(connection, peer, id, self.now);
        client.security = Security::of_listener(&self.settings, listener);
        let key = self.clients.insert(client);
        self.ids.come(id, key);
        self.io.set_role(connection, crate::io::Role::Client(key));
        self.begin_login(key);
        if self.servers.primary().facts.is_some() {
            self.greet(key);
        }
    }

    /// Gives a login `connect_timeout` from now on, if it has not begun already.
    pub(crate) fn begin_login(&mut self, key: ClientKey) {
        let (until, client) = (self.now + self.settings.connect_timeout, self.clients.ref_to(key));
        self.logins.begin(until, client, &mut self.clients[key].login);
    }

    /// Ends logins that have taken longer than `connect_timeout`.
    pub(crate) fn expire_logins(&mut self) {
        while let Some(key) = self.logins.next_expired(self.now, &self.clients) {
            match *self.clients[key].phase() {
                Phase::AwaitingServer => {
                    let error =
                        self.why_no_backend().unreachable(self.servers.primary().key, "connect_timeout");
                    let connection = self.clients[key].connection;
                    self.io.send_early_error(connection, &error);
                    self.close_client(
                        key,
                        ClosedFor::ConnectTimeout,
                        "the server could not be reached before connect_timeout",
                    );
                }
                // It will hear of it in time, or as soon as whoever asks for the same schema does.
                Phase::Login(Login::Refused(_) | Login::AwaitingSchema { .. }) => {}
                Phase::Login(_) => self.close_client(
                    key,
                    ClosedFor::ConnectTimeout,
                    "its login took longer than connect_timeout",
                ),
                _ => {}
            }
        }
    }
}
