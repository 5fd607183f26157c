//! A backend's beginning and orderly end.

use std::collections::VecDeque;
use std::sync::Arc;

use seam::ConnectionId;
use wire::{Capabilities, CommandKind, Expect};

use super::diagnostics_area::DiagnosticsArea;
use super::own_statement::OwnStatement;
use super::prepared::Prepared;
use super::reachability::{NO_ANSWER, NO_PROOF, connect_error};
use super::rights::taken_up::Rights;
use super::state::State;
use super::{
    Afterwards, Backend, BackendAccount, BackendLogin, BackendSession, First, Locks, Opened, Owner, Phase,
    Place, Shown, Summary,
};
use crate::accounts::IdentityId;
use crate::accounts::secret::Password;
use crate::accounts::task::{Asker, Finding, Work};
use crate::client::attempt::Answer;
use crate::client::delegation::Unproved;
use crate::client::delegation::claims::Claim;
use crate::client::delegation::line::Guest;
use crate::client::{self};
use crate::control::facts::Facts;
use crate::engine::Engine;
use crate::ids::{BackendKey, ClientKey, ClientRef, ServerKey};
use crate::io::Role;
use crate::outside::event::Event;
use crate::server::Server;
use crate::server_login::{Credentials, Established, OF_BACKENDS, Outcome, ServerLogin};
use crate::session::SessionState;
use crate::stored_code::Hidden;
use crate::workers::places::Origin;

impl Server {
    /// A backend's password has been encrypted for the server.
    pub(crate) fn backend_finding(&mut self, key: BackendKey, finding: Finding) {
        let Finding::Encrypted(bytes) = finding else { return };
        let backend = &mut self.backends[key];
        if let Some((login, out)) = backend.login() {
            login.encrypted(bytes.as_deref(), out);
            self.mark_dirty(key);
        }
    }
}

impl Engine {
    /// Begins a backend for a client's user, capabilities and character set. Its place has been taken.
    pub(crate) fn open_backend(&mut self, key: ClientKey, origin: Origin) {
        let client = &self.clients[key];
        match client.identity {
            Some(identity) => {
                self.open_backend_as(
                    self.servers.serving(&self.clients[key]),
                    identity,
                    client.class(),
                    client.login.collation,
                    origin,
                );
            }
            None => self.pool.workers.places.give(self.pool.worker),
        }
    }

    /// Begins a backend with such a login on a server. Its place has been taken.
    pub(crate) fn open_backend_as(
        &mut self,
        server: ServerKey,
        identity: IdentityId,
        class: Capabilities,
        collation: u8,
        origin: Origin,
    ) {
        let Some(backend) = self.new_backend(server, identity, class, collation, origin) else {
            return self.pool.workers.places.give(self.pool.worker);
        };
        let server = &mut self.servers[server];
        server.backends.insert(backend);
        let address = self.settings.server[server.reachability.address].clone();
        self.io.outbox.connect(self.io.last_token, address);
    }

    /// A backend that is yet to be connected and to log in; none as long as nobody knows the server.
    pub(super) fn new_backend(
        &mut self,
        server: ServerKey,
        identity: IdentityId,
        class: Capabilities,
        collation: u8,
        origin: Origin,
    ) -> Option<Backend> {
        let server = &self.servers[server];
        let facts = server.facts.as_ref()?;
        let (collation, charset) = facts.charset_of_login(collation);
        let state = SessionState { charset: charset.clone(), ..SessionState::default() };
        let session = self.sessions.states.hold(state);
        self.io.last_token += 1;
        Some(Backend {
            token: self.io.last_token,
            connection: None,
            state: State::new(self.now),
            place: Place::At(server.reachability.address),
            opened: Opened { origin, fresh: true, unproved: None, affinity_until: None },
            since: self.now,
            account: BackendAccount {
                identity: self.logins.identities.hold_again(identity),
                rights: Rights::Since(server.control.changes.seen()),
                began_at: 0,
            },
            login: BackendLogin {
                class,
                thread_id: 0,
                capabilities: Capabilities(0),
                established: None,
                has_no_role: false,
                collation,
                charset,
            },
            session: BackendSession {
                id: session,
                variables: None,
                wait_timeout: None,
                trackers: false,
                multi_statements: true,
                prepared: Prepared::default(),
                failed: Hidden::NOTHING,
                diagnostics_area: DiagnosticsArea::default(),
            },
            in_flight: VecDeque::new(),
            first: First { since: self.now, is_alone: false },
            abandoned_since: None,
            shown: Shown::default(),
            holder: None,
            runs_long: false,
            locks: Locks::default(),
            only_kind: None,
            paused: false,
            afterwards: Afterwards::Keep,
            out: Vec::new(),
        })
    }

    /// The driver's answer: the connection stands.
    pub(crate) fn backend_connected(&mut self, token: u64, connection: ConnectionId) {
        let Some(key) = self.servers.backend_of(token) else {
            return self.io.outbox.close(connection);
        };
        self.io.set_role(connection, Role::Backend(key));
        let credentials = self.credentials_of(key.server(), &self.servers[key]);
        // A reader's is for reads alone, of which the server's answers say how old they are.
        let unproved = (!self.is_reader()).then(|| self.pool.workers.chosen.proof.connected()).flatten();
        if unproved.is_some() && !self.cluster.is_watching() {
            self.pool.wake_worker(0);
        }
        let backend = &mut self.servers[key];
        backend.opened.unproved = unproved;
        backend.connection = Some(connection);
        backend.state.log_in(ServerLogin::new(credentials));
        let address = self.logins.identities.identity(backend.account.identity).address;
        let server = self.servers.of_mut(key);
        let header = server.proxy_header(&self.settings, address);
        server.put_to_backend(key, &header);
    }

    /// With what a backend logs in on its server.
    pub(super) fn credentials_of(&self, server: ServerKey, backend: &Backend) -> Credentials {
        let server = &self.servers[server];
        let identity = self.logins.identities.identity(backend.account.identity);
        let account = &identity.account;
        // Its plugin may have changed since somebody logged in; for a change of account, which is more frequent, it is not looked up.
        let accounts = server.facts.as_ref().map(|facts| &facts.accounts).filter(|_| !backend.is_changing());
        let present = accounts.and_then(|accounts| accounts.named(&account.user, &account.host));
        Credentials {
            user: identity.user.clone(),
            secret: identity.secret.clone(),
            methods: present.unwrap_or(account).methods(),
            way: server.way_to_server(&self.settings),
            known_keys: Arc::clone(&self.settings.server_keys),
            tls: server.wanted_server_tls(&self.settings),
            collation: backend.login.collation,
            extra: (backend.login.class & client::CLASS) | OF_BACKENDS,
            compression: self.settings.server_compression,
        }
    }

    pub(crate) fn backend_connect_failed(&mut self, token: u64, errno: i32) {
        let Some(key) = self.servers.backend_of(token) else { return };
        self.server_failed(key.server(), connect_error(errno));
        self.remove_backend(key);
    }

    /// Bytes for a backend that is logging in.
    pub(crate) fn backend_login_bytes(&mut self, key: BackendKey, bytes: &[u8]) {
        let backend = &mut self.servers[key];
        let Some((login, out)) = backend.login() else { return };
        match login.read(bytes, out) {
            Ok(None) => self.servers.of_mut(key).mark_dirty(key),
            Ok(Some(Outcome::Established(established))) => {
                if self.meets_another_server(key, &established) {
                    return;
                }
                let backend = &mut self.servers[key];
                backend.login.thread_id = established.thread_id;
                self.pool.workers.serving.add(established.thread_id, &backend.shown.serves);
                backend.login.capabilities = established.capabilities;
                backend.state.set_up();
                let connection = backend.connection.expect("its bytes have just come");
                self.io.start_server_compression(connection, established.capabilities);
                self.servers[key].login.established = Some(established);
                self.servers.of_mut(key).reachability.answered();
                self.send_setup(key);
            }
            Ok(Some(Outcome::Encrypt { bytes, public_key })) => {
                let asker = Asker::Backend(backend.token);
                self.io.tasks.give(asker, Work::Encrypt { bytes, public_key }, None);
            }
            Ok(Some(Outcome::StartTls)) => {
                let (connection, out) = (backend.connection, std::mem::take(&mut backend.out));
                let connection = connection.expect("its bytes have just come");
                self.servers.of(key).start_tls(&self.settings, &mut self.io, connection, &out);
            }
            Ok(Some(Outcome::Refused { code, message })) => {
                // Another server may not know the account, or not by this method.
                let found = login.found().cloned();
                if found.is_some_and(|found| self.meets_another_server(key, &found)) {
                    return;
                }
                let message = String::from_utf8_lossy(&message).into_owned();
                self.backend_refused(key, code, message);
            }
            Ok(Some(Outcome::Withheld(why))) => {
                let found = login.found().cloned();
                if found.is_some_and(|found| self.meets_another_server(key, &found)) {
                    return;
                }
                let user = self.logins.identities.identity(self.servers[key].account.identity).user.clone();
                if let Some(event) = self.servers.of_mut(key).note_withheld(self.now, &user, why) {
                    self.views.event(event);
                }
                self.backend_refused(key, why.code(), why.message().to_owned());
            }
            Err(error) => self.close_backend(key, &format!("its login broke the protocol: {error}")),
        }
    }

    /// The trackers on, and the question who the server takes us for, since it sees our address instead of the client's, and whether
    /// the account has a role.
    fn send_setup(&mut self, key: BackendKey) {
        let facts = self.servers.of(key).facts.as_ref();
        let has_trackers = facts.is_some_and(Facts::has_trackers);
        let who = if facts.is_some_and(Facts::is_mariadb) || !has_trackers {
            "CURRENT_USER()"
        } else {
            // A MySQL server that maps proxy users (check_proxy_users) tells their own account here, in quotes.
            "IFNULL(REPLACE(@@proxy_user,0x27,''),CURRENT_USER())"
        };
        let asks = self.settings.change_accounts && facts.is_some_and(Facts::has_roles);
        let role = if asks { ",CURRENT_ROLE()" } else { "" };
        let (ahead, skipped) = if has_trackers { (&*format!("{TRACKERS_ON};"), 1) } else { ("", 0) };
        let text = format!("{ahead}SELECT {who}{role}");
        self.send_own(key, Owner::Setup, CommandKind::Query, text.as_bytes(), Expect::ResultSets, skipped);
    }

    /// The answer to the setup.
    pub(crate) fn backend_set_up(&mut self, key: BackendKey, summary: &Summary) {
        if let Some(error) = &summary.error {
            let message = String::from_utf8_lossy(&error.message).into_owned();
            return self.backend_refused(key, error.code, message);
        }
        let row = super::own_answers::rows_of(&summary.kept).into_iter().next().unwrap_or_default();
        let mut fields = row.into_iter();
        let found = fields.next().flatten().unwrap_or_default();
        if self.note_role(key, fields.next()) && self.servers[key].is_changing() {
            return self.backend_refused(
                key,
                0,
                String::from("it has a role, which may be the former account's"),
            );
        }
        let backend = &self.servers[key];
        let account = &self.logins.identities.identity(backend.account.identity).account;
        let expected = [account.user.as_slice(), b"@", account.host.as_bytes()].concat();
        if !found.eq_ignore_ascii_case(&expected) {
            let message = format!(
                "the client's account is {}, but for a connection from Onramp the server chooses {}: give both the \
                 same rights by using one account whose host covers both",
                String::from_utf8_lossy(&expected),
                String::from_utf8_lossy(&found)
            );
            // ER_ACCESS_DENIED_ERROR: the client must not get another account's rights.
            return self.backend_refused(key, 1045, message);
        }
        if !self.claim_proved(key) {
            return;
        }
        let backend = &self.servers[key];
        if self.following.may_use(backend.opened.unproved, backend.token) {
            self.backend_ready(key);
        }
    }

    /// Backends whose logins are over are used, where it is known by now which process they lead to.
    pub(crate) fn take_up_proved(&mut self) {
        for token in self.following.take_unproved() {
            let Some(key) = self.servers.backend_of(token) else { continue };
            if self.following.may_use(self.servers[key].opened.unproved, token) {
                self.backend_ready(key);
            }
        }
    }

    /// Statements may run on a backend.
    fn backend_ready(&mut self, key: BackendKey) {
        let changed = self.servers[key].is_changing();
        if changed {
            self.servers.of_mut(key).opening.failed_changes.one_worked();
        } else {
            self.servers.of_mut(key).full = None;
        }
        let backend = &mut self.servers[key];
        backend.state.be_ready();
        backend.session.trackers = true;
        let took = self.now.since(backend.since);
        self.servers.of_mut(key).opening.took(took, changed);
        if !changed {
            self.views.measures.backend_connects.record(took);
        }
        self.servers[key].opened.affinity_until = self.servers.of(key).affinity_ends(self.now, changed);
        self.free_backend(key);
    }

    /// What a backend says of its role, where it was asked. True where there is one.
    fn note_role(&mut self, key: BackendKey, answer: Option<Option<Vec<u8>>>) -> bool {
        // MySQL's word for none; MariaDB says NULL.
        let is_role = |role: Vec<u8>| !role.is_empty() && role != b"NONE";
        let has_roles = self.servers.of(key).facts.as_ref().is_some_and(Facts::has_roles);
        let backend = &mut self.servers[key];
        let has_role = answer.map(|role| role.is_some_and(is_role));
        backend.login.has_no_role = has_role.map_or(!has_roles, |has_role| !has_role);
        if let Some(has_role) = has_role {
            self.logins.identities.note_role(backend.account.identity, has_role);
        }
        has_role == Some(true)
    }

    /// Takes up statements of our own between clients' statements.
    pub(crate) fn send_own(
        &mut self,
        key: BackendKey,
        owner: Owner,
        command: CommandKind,
        argument: &[u8],
        expect: Expect,
        skip_results: u8,
    ) {
        let form = match owner {
            // Kept for the client and sent to it as it is.
            Owner::SaveDiagnostics { client } => self.clients[client].capabilities,
            _ => Capabilities::DEPRECATE_EOF,
        };
        let own = OwnStatement { owner, command, argument, expect, skip_results, form };
        self.servers.of_mut(key).send_own(self.now, key, &own);
    }

    /// COM_RESET_CONNECTION: rolls back, and frees temporary tables, locks, variables and prepared statements.
    pub(crate) fn send_reset(&mut self, key: BackendKey) {
        self.servers[key].afterwards = Afterwards::Keep;
        self.send_own(key, Owner::Reset, CommandKind::ResetConnection, &[], Expect::Simple, 0);
    }

    /// Ends a backend on which nothing runs in the orderly way.
    pub(crate) fn quit_backend(&mut self, key: BackendKey) {
        let in_login = matches!(self.servers[key].phase(), Phase::Connecting | Phase::LoggingIn(_));
        if let Some(connection) = self.servers[key].connection {
            // In the middle of a login the server would take it for a part of that.
            if !in_login {
                let mut packet = Vec::new();
                wire::put_message(&mut packet, &mut 0, &[CommandKind::Quit as u8]);
                self.io.outbox.send(connection, &packet);
            }
            self.io.outbox.close(connection);
        }
        self.remove_backend(key);
    }

    /// See [`crate::servers::Servers::change_failed`].
    pub(super) fn change_failed(&mut self, key: BackendKey) -> bool {
        let failed = self.servers.change_failed(self.now, key, &self.logins.identities);
        self.views.totals.failed_account_changes += u64::from(failed);
        failed
    }

    /// Gives up a backend whose change has failed. Its connection has been closed.
    pub(super) fn change_ended(&mut self, key: BackendKey, reason: &str) {
        let backend = &self.servers[key];
        let (thread_id, reason) = (backend.login.thread_id, self.logins.failure_of_change(backend, reason));
        self.remove_backend(key);
        self.views.event(Event::BackendClosed { thread_id, reason });
    }

    /// A backend's login says what the server is. True where it is not the one that is known: then the backend is gone, and the
    /// service account has to find out.
    fn meets_another_server(&mut self, key: BackendKey, established: &Established) -> bool {
        let Some(version) = self.servers.of(key).is_replaced_by(established) else { return false };
        if let Some(connection) = self.servers[key].connection {
            self.io.outbox.close(connection);
        }
        self.remove_backend(key);
        let reason = format!("it has been replaced by {version}");
        // Where the service account is just asking the new one, backends wait for that.
        if self.servers.of(key).control.can_refresh() && self.servers.of(key).pending_facts.is_none() {
            self.control_lost(key.server(), &reason);
        } else if self.servers.of(key).pending_facts.is_none() {
            self.server_failed(key.server(), reason);
        }
        true
    }

    /// A place for a backend that asks the server about a client's password.
    pub(crate) fn place_for_claim(&mut self) -> Option<Origin> {
        if !self.may_connect_now(self.servers.primary().key) {
            return None;
        }
        self.pool
            .take_place(self.now)
            .or_else(|| self.close_idle_backend().then(|| self.pool.take_place(self.now))?)
    }

    /// Asks the server whether a client's password is right: a backend logs in with it.
    pub(crate) fn ask_server(
        &mut self,
        client: ClientRef,
        guest: Guest,
        password: Arc<Password>,
        origin: Origin,
    ) {
        let asked = self.authentication().identity_to_ask(client, &password);
        let Some((identity, question, collation)) = asked else {
            // Gone since: whoever looks again finds no such account.
            self.pool.workers.places.give(self.pool.worker);
            return self.judge_claim(client, Answer::Nonsense);
        };
        let (server, class) = (self.servers.primary().key, self.clients[client.key].class());
        self.open_backend_as(server, identity, class, collation, origin);
        self.logins.claims.asks(self.io.last_token, Claim { client, guest, password, question });
        // The backend alone holds it.
        self.release_identity(identity);
    }

    /// The server has taken the password: the client is in, and the backend is its account's. False where the backend has gone
    /// with the claim.
    fn claim_proved(&mut self, backend: BackendKey) -> bool {
        let (token, claimed) = (self.servers[backend].token, self.servers[backend].account.identity);
        let Some((client, answer)) = self.authentication().claim_proved(token) else { return true };
        self.judge_claim(client, answer);
        let Some(identity) = self.authentication().identity_proved(client, claimed) else {
            // It has gone, or may not log in for another reason.
            self.quit_backend(backend);
            return false;
        };
        self.servers[backend].account.identity = self.logins.identities.hold_again(identity);
        self.release_identity(claimed);
        true
    }

    /// A backend did not come about. Whether it was for a claim, which is over by that.
    pub(crate) fn claim_failed(&mut self, token: u64, how: Unproved) -> bool {
        let was_for_claim = self.logins.claims.has_asked(token);
        let step = self.authentication().claim_failed(token, how);
        self.carry_out_claim(step);
        was_for_claim
    }

    /// Takes a backend out of all tables. Its connection has been closed, or has ended.
    pub(crate) fn remove_backend(&mut self, key: BackendKey) {
        let backend = self.take_backend_out(key);
        self.pool.workers.places.give(self.pool.worker);
        if let Some(connection) = backend.connection {
            self.io.set_role(connection, Role::Free);
        }
        self.claim_failed(backend.token, Unproved::Lost);
    }

    /// Takes a backend out of all tables, but for its place and its connection.
    pub(super) fn take_backend_out(&mut self, key: BackendKey) -> Backend {
        self.forget_prepared(key);
        self.servers[key].give_permit(&mut self.scheduling.scheduler);
        let backend = self.servers.of_mut(key).backends.remove(key);
        if backend.runs_long {
            self.scheduling.scheduler.finish_long();
        }
        if backend.locks.contends {
            self.servers.of_mut(key).contention.rests();
        }
        self.servers.of_mut(key).idle.remove(key);
        self.servers.of_mut(key).sharing.remove(key);
        self.servers.of_mut(key).dirty.retain(|&dirty| dirty != key);
        self.release_identity(backend.account.identity);
        self.sessions.states.release(backend.session.id);
        backend
    }

    /// Gives up attempts that have taken longer than `backend_connect_timeout`.
    pub(crate) fn expire_connects(&mut self) {
        let limit = self.settings.backend_connect_timeout;
        let over: Vec<_> = self
            .servers
            .backends()
            .filter(|(_, backend)| !backend.is_ready() && self.now.since(backend.since) > limit)
            .map(|(key, _)| key)
            .collect();
        for key in over {
            let backend = &self.servers[key];
            let reason = self.why_not_ready(backend);
            if let Some(connection) = backend.connection {
                self.io.outbox.close(connection);
            }
            if self.change_failed(key) {
                self.change_ended(key, reason);
                continue;
            }
            self.server_failed(key.server(), String::from(reason));
            self.remove_backend(key);
        }
    }

    /// Why a backend is not ready, after too long a time.
    pub(super) fn why_not_ready(&self, backend: &Backend) -> &'static str {
        if self.following.waits_for_proof(backend.token) { NO_PROOF } else { NO_ANSWER }
    }

    /// A server could not be reached, or hung up on a login.
    pub(crate) fn server_failed(&mut self, server: ServerKey, reason: String) {
        let server = &mut self.servers[server];
        self.views.measures.connect_failures += 1;
        let address = self.settings.server[server.reachability.address].clone();
        // Without checks the addresses are those of one server: the next address gets its turn only when nothing stands on this one.
        let is_there = |it: &Backend| !it.place.is_former() && (it.is_ready() || it.is_changing());
        let stands = server.backends.iter().any(|(_, backend)| is_there(backend));
        let next = (server.reachability.address + 1) % self.settings.server.len();
        // Among several servers the checks say which one is next.
        let next = (!stands && !self.settings.cluster.several).then_some(next);
        if server.reachability.failed(self.now, reason.clone(), next) {
            self.pool.workers.way.forget();
            self.views.event(Event::ServerLost { address, reason });
        }
    }
}

/// What every backend needs, and loses with a reset. One statement, so that it fails or works as a whole.
pub(crate) const TRACKERS_ON: &str = "SET @@session.session_track_system_variables='*',\
    @@session.session_track_schema=1,@@session.session_track_state_change=1";
