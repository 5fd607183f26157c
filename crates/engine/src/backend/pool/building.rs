//! Makes backends, connects them as one of the server's users, gives them to another account, and takes them out of all tables in the end.

use std::collections::VecDeque;
use std::sync::Arc;

use seam::{ConnectionId, Instant};
use wire::{Capabilities, CommandKind};

use crate::accounts::IdentityId;
use crate::backend::from_server::diagnostics_area::DiagnosticsArea;
use crate::backend::login::rights::taken_up::BackendRights;
use crate::backend::state::State;
use crate::backend::to_server::prepared::Prepared;
use crate::backend::{
    Afterwards, Backend, BackendAccount, BackendLogin, BackendSession, First, Locks, Opened, Phase,
    ServerPlace, Shown, Successor,
};
use crate::client::{self, Client};
use crate::ids::{BackendKey, ServerKey};
use crate::io::{Io, Role};
use crate::logins::Logins;
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::server::login::{Credentials, OF_BACKENDS, ServerLogin};
use crate::server::stored_code::Hidden;
use crate::servers::Servers;
use crate::session::{SessionState, SessionTables};
use crate::settings::Settings;
use crate::workers::account_connections::AccountConnection;
use crate::workers::places::Origin;

/// A backend that is in no table any more and has given up all that it held there. Its connection may go on.
pub(in crate::backend) struct TakenOut {
    pub(in crate::backend) token: u64,
    pub(in crate::backend) connection: Option<ConnectionId>,
    pub(super) login: BackendLogin,
    /// True where the server takes several statements in one text.
    pub(super) multi_statements: bool,
    pub(super) diagnostics_area: DiagnosticsArea,
    #[expect(dead_code, reason = "the connection is one of the account's for as long as this is there")]
    of_account: AccountConnection,
}

/// The user that a backend logs in as, and the way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsWhom {
    pub(crate) identity: IdentityId,
    pub(crate) class: Capabilities,
    pub(crate) collation: u8,
}

impl Client {
    /// Returns the login of backends for the client's statements; `None` before the client has logged in itself.
    pub(in crate::backend) fn as_whom(&self) -> Option<AsWhom> {
        let (class, collation) = (self.class(), self.login.collation);
        self.identity().map(|identity| AsWhom { identity, class, collation })
    }
}

impl Backend {
    /// Returns the login by which the backend has come.
    pub(in crate::backend) fn as_whom(&self) -> AsWhom {
        let (class, collation) = (self.login.class, self.login.collation);
        AsWhom { identity: self.account.identity(), class, collation }
    }
}

/// The servers' backends, and all that one of them holds a part of.
pub(crate) struct Building<'a> {
    pub(in crate::backend) now: Instant,
    pub(in crate::backend) settings: &'a Settings,
    pub(in crate::backend) pool: &'a mut Pool,
    pub(in crate::backend) logins: &'a mut Logins,
    pub(in crate::backend) sessions: &'a mut SessionTables,
    pub(in crate::backend) scheduling: &'a mut Scheduling,
    pub(in crate::backend) servers: &'a mut Servers,
    pub(in crate::backend) io: &'a mut Io,
}

impl Building<'_> {
    /// Begins a backend on a server. Its place has been taken. The place is given back where the server or the user is not known.
    pub(crate) fn open(&mut self, server: ServerKey, whom: Option<AsWhom>, origin: Origin) {
        let Some(backend) = whom.and_then(|whom| self.new_backend(server, whom, origin)) else {
            return self.pool.workers.places.give(self.pool.worker);
        };
        let server = &mut self.servers[server];
        server.backends.insert(backend);
        let address = self.settings.server[server.reachability.address].clone();
        self.io.outbox.connect(self.io.last_name(), address);
    }

    /// Makes an idle backend one of another account. Only its place, its connection and its thread stay.
    pub(in crate::backend) fn change(&mut self, key: BackendKey, whom: AsWhom) {
        let new = self.new_backend(key.server(), whom, Origin::Changed);
        let mut backend = new.expect("a server with backends is known");
        let before = self.take_out(key);
        let credentials = self.credentials_of(key.server(), &backend);
        let connection = backend.take_over(before, credentials).expect("an idle backend is connected");
        let server = self.servers.of_mut(key);
        let key = server.backends.insert(backend);
        server.mark_dirty(key);
        self.io.set_role(connection, Role::Backend(key));
    }

    /// Closes a backend's connection, where it has one.
    pub(in crate::backend) fn hang_up(&mut self, key: BackendKey) {
        if let Some(connection) = self.servers[key].connection {
            self.io.outbox.close(connection);
        }
    }

    /// Closes a backend's connection in the orderly way, by COM_QUIT.
    pub(in crate::backend) fn say_goodbye(&mut self, key: BackendKey) {
        let backend = &self.servers[key];
        // In the middle of a login the server would take it for a part of that.
        let in_login = matches!(backend.phase(), Phase::Connecting | Phase::LoggingIn(_));
        if let Some(connection) = backend.connection.filter(|_| !in_login) {
            let mut packet = Vec::new();
            wire::put_message(&mut packet, &mut 0, &[CommandKind::Quit as u8]);
            self.io.outbox.send(connection, &packet);
        }
        self.hang_up(key);
    }

    /// Makes a backend that is yet to be connected and to log in. None as long as nobody knows the server.
    fn new_backend(&mut self, server: ServerKey, whom: AsWhom, origin: Origin) -> Option<Backend> {
        let server = &self.servers[server];
        let facts = server.facts.as_ref()?;
        let (collation, charset) = facts.charset_of_login(whom.collation);
        let state = SessionState { charset: charset.clone(), ..SessionState::default() };
        let session = self.sessions.states.hold(state);
        let account = &self.logins.identities.identity(whom.identity).account;
        let connection = self.pool.workers.users.begin_connection(server.reachability.address, account);
        Some(Backend {
            token: self.io.next_name(),
            connection: None,
            state: State::new(self.now),
            place: ServerPlace::At(server.reachability.address),
            opened: Opened { origin, fresh: true, unproved: None, affinity_until: None },
            since: self.now,
            account: BackendAccount {
                identity: self.logins.identities.hold_again(whom.identity),
                rights: BackendRights::Since(server.control.changes.seen()),
                began_at: 0,
                held_since: self.now,
                connection,
                successor: Successor::Anybody,
            },
            login: BackendLogin {
                class: whom.class,
                thread_id: 0,
                capabilities: Capabilities(0),
                established: None,
                has_no_role: false,
                collation,
                charset,
            },
            session: BackendSession {
                held: session,
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
            runs_long: None,
            locks: Locks::default(),
            only_kind: None,
            paused: false,
            afterwards: Afterwards::Keep,
            out: Vec::new(),
        })
    }

    /// Begins the login of a backend that is connected. `unproved` is its number, where a check still has to prove which process it leads to.
    pub(in crate::backend) fn connected(
        &mut self,
        key: BackendKey,
        connection: ConnectionId,
        unproved: Option<u64>,
    ) {
        self.io.set_role(connection, Role::Backend(key));
        let credentials = self.credentials_of(key.server(), &self.servers[key]);
        let backend = &mut self.servers[key];
        backend.opened.unproved = unproved;
        backend.connection = Some(connection);
        backend.state.log_in(ServerLogin::new(credentials));
        let address = self.logins.identities.identity(backend.account.identity()).address;
        let server = self.servers.of_mut(key);
        let header = server.proxy_header(self.settings, address);
        server.put_to_backend(key, &header);
    }

    /// Returns the credentials by which a backend logs in on its server.
    fn credentials_of(&self, server: ServerKey, backend: &Backend) -> Credentials {
        let server = &self.servers[server];
        let identity = self.logins.identities.identity(backend.account.identity());
        let account = &identity.account;
        // Its plugin may have changed since somebody logged in; for a change of account, which is more frequent, it is not looked up.
        let accounts = server.facts.as_ref().map(|facts| &facts.accounts).filter(|_| !backend.is_changing());
        let present = accounts.and_then(|accounts| accounts.named(&account.user, &account.host));
        Credentials {
            user: identity.user.clone(),
            secret: identity.secret.clone(),
            methods: present.unwrap_or(account).methods(),
            way: server.way_to_server(self.settings),
            known_keys: Arc::clone(&self.settings.server_keys),
            tls: server.wanted_server_tls(self.settings),
            collation: backend.login.collation,
            extra: (backend.login.class & client::CLASS) | OF_BACKENDS,
            compression: self.settings.server_compression,
        }
    }

    /// Takes a backend out of all tables, but for its place and its connection.
    pub(in crate::backend) fn take_out(&mut self, key: BackendKey) -> TakenOut {
        self.servers.forget_prepared_on(key, self.sessions, self.pool);
        self.servers[key].give_permit(&mut self.scheduling.scheduler);
        let server = self.servers.of_mut(key);
        let backend = server.backends.remove(key);
        if let Some(allowed) = backend.runs_long {
            self.scheduling.scheduler.finish_long(allowed);
        }
        if backend.locks.contends {
            server.contention.rests();
        }
        server.idle.remove(key);
        server.sharing.remove(key);
        server.dirty.retain(|&dirty| dirty != key);
        match backend.account.successor {
            Successor::OtherWorker => {
                self.logins.identities.left_to_another(backend.account.identity(), self.now);
            }
            Successor::Here(identity) => self.logins.identities.room_comes(identity, self.now),
            // A login counts for the account like a backend that stands: one that fails leaves its room, too.
            Successor::Anybody => {
                let (identity, identities) = (backend.account.identity(), &mut self.logins.identities);
                identities.one_has_ended(identity, self.now);
                identities.has_room(&identities.name(identity), self.now);
                self.pool.tell_of_room(self.now, identities, identity);
            }
            Successor::Nobody => {}
        }
        let Backend { token, connection, login, session, account, .. } = backend;
        if let Some(gone) = self.logins.release(account.identity) {
            self.servers.forget_identity(gone);
        }
        let BackendSession { held, multi_statements, diagnostics_area, .. } = session;
        self.sessions.states.release(held);
        TakenOut {
            token,
            connection,
            login,
            multi_statements,
            diagnostics_area,
            of_account: account.connection,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::commands::command::tests::{connection, engine, open_backends};
    use crate::ids::client_key;

    #[test]
    fn a_place_is_given_back_where_nobody_knows_the_server_or_the_user() {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let whom = engine.clients[client_key(0)].as_whom();
        let mut open = |whom, is_known: bool| {
            let facts = engine.servers.primary_mut().facts.take();
            let places = &engine.pool.workers.places;
            let before = places.taken();
            let origin = places.take(engine.now, 0, 0).expect("there is room");
            if is_known {
                engine.servers.primary_mut().facts = facts;
                engine.building().open(server, whom, origin);
            } else {
                engine.building().open(server, whom, origin);
                engine.servers.primary_mut().facts = facts;
            }
            (engine.pool.workers.places.taken() - before, engine.servers.backend_count())
        };
        assert_eq!(open(whom, false), (0, 0));
        assert_eq!(open(None, true), (0, 0));
        assert_eq!(open(whom, true), (1, 1));
    }

    /// The changed backend has another key. Of the former one only the connection and the thread stay.
    #[test]
    fn a_backend_that_changes_its_account_is_a_new_one_on_the_same_connection() {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let key = open_backends(&mut engine, &[server])[0];
        let whom = engine.servers[key].as_whom();
        engine.building().connected(key, connection(1), Some(7));
        let token = engine.servers[key].token;
        engine.servers[key].login.thread_id = 42;
        engine.servers[key].login.established =
            Some(crate::server::login::Established::of_test("11.4-MariaDB", Capabilities(u64::MAX)));
        engine.building().change(key, whom);
        let (key, changed) = engine.servers.backends().next().expect("there is one still");
        assert_eq!((changed.connection, changed.login.thread_id), (Some(connection(1)), 42));
        assert!(changed.token != token && changed.is_changing() && changed.opened.unproved.is_none());
        assert_eq!((engine.io.role(connection(1)), engine.servers.backend_count()), (Role::Backend(key), 1));
        engine.building().take_out(key);
        assert_eq!(engine.servers.backend_count(), 0);
    }
}
