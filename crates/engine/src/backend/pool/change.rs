//! An idle backend changes its account by COM_CHANGE_USER, where another account needs its place.
//!
//! A new connection costs the server an accept, a thread, and inside TLS a handshake. A change costs the proof of the password and
//! a look at the account, and begins a new session (`THD::change_user` and `THD::cleanup_connection` in the servers' `sql_class.cc`).
//! A new backend is opened instead where a changed one would differ from it:
//!
//! - Roles. A MariaDB leaves the former account's role, with its rights, to an account that has no role of its own. A MySQL leaves the
//!   role's name (`acl_authenticate` sets a role and takes none away; seen with MariaDB 10.11 and MySQL 8.0). So an account with a role
//!   neither gives its backend away nor takes another's. Roles that clients set themselves never come this far: their backends are
//!   closed behind them.
//! - `init_connect`, which the servers run behind a login alone.
//! - Galera, where a connection that has changed its account does not wait for other nodes any more (`wsrep_sync_wait`; `THD::cleanup`
//!   and `wsrep_must_sync_wait`).
//! - `CLIENT_INTERACTIVE`, which a MariaDB looks at in a login alone (`parse_client_handshake_packet`).
//! - The header of the PROXY protocol, which names a client of the former account.
//! - Compression, where the reader would have to tell the server's answers from each other.
//!
//! A server, or a proxy in front of it, may not know the command, or may not take it for some account. The backend is lost then. The
//! next one logs in, and so do all of that user's for a while. A MariaDB takes a second to refuse a change. So an account has one
//! change under way at a time.

pub(super) mod failed;

use seam::{ConnectionId, Instant};
use wire::Capabilities;

use crate::accounts::Identities;
use crate::backend::pool::building::TakenOut;
use crate::backend::pool::opening::{LONGEST_WAIT, Login};
use crate::backend::{Afterwards, Backend};
use crate::ids::BackendKey;
use crate::logins::Logins;
use crate::pool::Pool;
use crate::server::Server;
use crate::server::login::{Credentials, ServerLogin};
use crate::servers::Servers;
use crate::settings::Settings;
use crate::workers::places::Origin;

/// The part of all places that may be with slow changes, as a divisor. A thousand passwords may turn wrong at the same moment.
const SLOW_PART: usize = 4;

impl Backend {
    /// Takes over the connection of another backend, which is no more, and begins the change to these credentials. Returns the connection.
    pub(super) fn take_over(&mut self, before: TakenOut, credentials: Credentials) -> Option<ConnectionId> {
        let established = before.login.established.expect("an idle backend has logged in");
        let login = ServerLogin::change(credentials, &established, &mut self.out);
        self.state.log_in(login);
        self.connection = before.connection;
        self.login.thread_id = before.login.thread_id;
        // The servers do not undo COM_SET_OPTION, nor ROW_COUNT() and FOUND_ROWS().
        self.session.multi_statements = before.multi_statements;
        self.session.diagnostics_area = before.diagnostics_area;
        self.connection
    }

    /// Says whether the backend is still changing its account: it has begun, and is not ready yet.
    pub(crate) fn is_changing(&self) -> bool {
        self.opened.origin == Origin::Changed && !self.is_ready()
    }
}

impl Server {
    /// Says whether this idle backend is such that it can become this login's, where idle backends may.
    pub(in crate::backend) fn may_change(&self, key: BackendKey, (_, class): Login) -> bool {
        const COMPRESSED: [Capabilities; 2] = [Capabilities::COMPRESS, Capabilities::ZSTD_COMPRESSION];
        let backend = &self.backends[key];
        backend.login.class == class
            && backend.login.has_no_role
            && backend.login.established.is_some()
            && backend.afterwards == Afterwards::Keep
            && !COMPRESSED.into_iter().any(|compressed| backend.login.capabilities.contains(compressed))
    }

    /// Says whether idle backends may become this login's now.
    pub(super) fn may_change_to(
        &self,
        now: Instant,
        settings: &Settings,
        identities: &Identities,
        pool: &Pool,
        (identity, class): Login,
    ) -> bool {
        let Some(facts) = &self.facts else { return false };
        let to = identities.identity(identity);
        let interactive = facts.is_mariadb() && class.contains(Capabilities::INTERACTIVE);
        let under_way =
            |(_, other): (BackendKey, &Backend)| other.account.identity() == identity && other.is_changing();
        // What COM_CHANGE_USER undoes on a server that is neither MySQL nor MariaDB is not known.
        settings.change_accounts
            && facts.has_trackers()
            && !settings.proxy_to_server
            && self.control.defaults.allow_changes()
            && !interactive
            && !to.has_role
            && !self.opening.failed_changes.forbid(now, &to.user)
            && !self.backends.iter().any(under_way)
            && self.slow_changes(now) <= pool.workers.places.limit() as usize / SLOW_PART
    }

    /// Returns the number of backends that have been changing their account for longer than anybody should wait.
    pub(in crate::backend) fn slow_changes(&self, now: Instant) -> usize {
        let slow = |(_, backend): &(BackendKey, &Backend)| {
            backend.is_changing() && now.since(backend.since) > LONGEST_WAIT
        };
        self.backends.iter().filter(slow).count()
    }
}

impl Servers {
    /// Notes that a backend has ended before it was ready. True where that was a change of its account. The failure then says nothing of
    /// the server or the account; a login will.
    pub(in crate::backend) fn change_failed(
        &mut self,
        now: Instant,
        key: BackendKey,
        identities: &Identities,
    ) -> bool {
        let backend = &self[key];
        if !backend.is_changing() {
            return false;
        }
        let user = &identities.identity(backend.account.identity()).user;
        self.of_mut(key).opening.failed_changes.add(now, user);
        true
    }
}

impl Logins {
    /// Returns the reason of the loss of a backend that was to change its account.
    pub(in crate::backend) fn failure_of_change(&self, backend: &Backend, reason: &str) -> String {
        let user = String::from_utf8_lossy(&self.identities.identity(backend.account.identity()).user);
        format!("it could not become one of '{user}' by COM_CHANGE_USER: {reason}")
    }
}
