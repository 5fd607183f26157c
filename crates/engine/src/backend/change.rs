//! An idle backend changes its account, where another account needs its place: COM_CHANGE_USER.
//!
//! A new connection costs the server an accept, a thread, and inside TLS a handshake; a change costs it the proof of the password and
//! a look at the account, and leaves nothing of the session: both servers do first what COM_RESET_CONNECTION does (`THD::change_user`
//! and `THD::cleanup_connection` in their `sql_class.cc`). Three things make a backend that has changed another one than a new one,
//! and such are not changed:
//!
//! - Roles. A MariaDB leaves the role of the former account, with its rights, to one that has none of its own, and MySQL its name
//!   (`acl_authenticate` sets a role and takes none away; seen with MariaDB 10.11 and MySQL 8.0). Clients' own roles never come this
//!   far, since their backends are closed behind them.
//! - `init_connect`, which the servers run behind a login alone.
//! - The header of the PROXY protocol, which names a client of the former account, and compression, in which a new login would have
//!   to be told from an answer.
//!
//! A server, or what stands in front of it, may not know the command, or not take it for some account. The backend is lost then, the next
//! one logs in, and that account's backends do so for a while.

use std::time::Duration;

use wire::Capabilities;

use super::Phase;
use super::opening::Login;
use crate::engine::{Engine, Role};
use crate::outside::event::Event;
use crate::server_login::ServerLogin;
use crate::workers::places::Origin;

/// For so long an account's backends log in after a change that did not work: a backend a minute is not much to lose.
const LOGIN_ONLY: Duration = Duration::from_secs(60);

impl Engine {
    /// Whether an idle backend can become one of this login.
    pub(super) fn may_change_account(&self, key: usize, (identity, class): Login) -> bool {
        const COMPRESSED: [Capabilities; 2] = [Capabilities::COMPRESS, Capabilities::ZSTD_COMPRESSION];
        let backend = &self.backends[key];
        let login_only = self.identities.identity(identity).no_change_until;
        self.settings.change_accounts
            && backend.class == class
            && backend.established.is_some()
            && !backend.has_role
            && !COMPRESSED.into_iter().any(|compressed| backend.capabilities.contains(compressed))
            && !self.settings.proxy_to_server
            && self.facts.as_ref().is_some_and(|facts| !facts.runs_init_connect)
            && login_only.is_none_or(|until| until <= self.now)
    }

    /// Makes an idle backend one for a client: whatever is known of it is over, but for its place and connection.
    pub(super) fn change_account(&mut self, key: usize, client: usize) {
        let client = &self.clients[client];
        let (class, collation) = (client.class(), client.collation);
        let identity = client.identity.expect("a client that waits for a backend has logged in");
        let new = self.new_backend(identity, class, collation, Origin::Changed);
        let mut backend = new.expect("a server with backends is known");
        let before = self.take_backend_out(key);
        let credentials = self.credentials_of(&backend);
        let established = before.established.expect("an idle backend has logged in");
        let login = ServerLogin::change(credentials, &established, &mut backend.out);
        backend.phase = Phase::LoggingIn(Box::new(login));
        backend.connection = before.connection;
        backend.thread_id = before.thread_id;
        // Of neither the servers say that it is undone.
        backend.multi_statements = before.multi_statements;
        backend.leftovers = before.leftovers;
        self.totals.account_changes += 1;
        let key = self.backends.insert(backend);
        let connection = before.connection.expect("an idle backend is connected");
        self.set_role(connection, Role::Backend(key));
        self.mark_dirty(key);
    }

    /// A backend has ended before it was ready. True where that was a change of its account, which says nothing of the server or the
    /// account: a login will.
    pub(super) fn change_failed(&mut self, key: usize, reason: &str) -> bool {
        let backend = &self.backends[key];
        if backend.origin != Origin::Changed || backend.is_ready() {
            return false;
        }
        let (identity, thread_id) = (backend.identity, backend.thread_id);
        self.identities.login_only_until(identity, self.now + LOGIN_ONLY);
        let user = String::from_utf8_lossy(&self.identities.identity(identity).user).into_owned();
        let reason = format!("it could not become one of '{user}' by COM_CHANGE_USER: {reason}");
        self.event(Event::BackendClosed { thread_id, reason });
        true
    }
}
