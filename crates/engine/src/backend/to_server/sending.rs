//! A client takes a backend, and the backend is sent commands besides the client's own statement.

use seam::Instant;
use wire::{Capabilities, CommandKind, Expect};

use crate::backend::to_server::ahead::Ahead;
use crate::backend::to_server::own_statement::OwnStatement;
use crate::backend::{Afterwards, Owner};
use crate::client::Client;
use crate::client::session::wait_timeout::RESTORE;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::logins::Logins;
use crate::pool::Pool;
use crate::servers::Servers;
use crate::workers::letter::ServerKill;

/// Clients and the backends on which their statements go to the servers.
pub(crate) struct Sending<'a> {
    pub(in crate::backend) now: Instant,
    pub(in crate::backend) pool: &'a Pool,
    pub(in crate::backend) logins: &'a Logins,
    pub(in crate::backend) clients: &'a mut Table<ClientKey, Client>,
    pub(in crate::backend) servers: &'a mut Servers,
}

impl Sending<'_> {
    /// Has the client take the backend, alone or beside others.
    pub(super) fn begin_on(
        &mut self,
        key: ClientKey,
        backend_key: BackendKey,
        shared: bool,
        only_kind: Option<u64>,
    ) {
        let server = self.servers.of_mut(backend_key);
        let backend = &mut server.backends[backend_key];
        if backend.shown.used.is_none() {
            let usage = self.logins.identities.usage(backend.account.identity(), &self.pool.workers.users);
            backend.shown.used = Some(usage.begin(self.pool.worker));
        }
        backend.opened.fresh = false;
        if backend.in_flight.is_empty() {
            backend.account.began_at = server.control.changes.seen();
        }
        if backend.is_idle() {
            backend.only_kind = only_kind;
            server.idle.remove(backend_key);
            if shared {
                let session = self.clients[key].session.id().expect("a client with requests has logged in");
                server.sharing.add(self.now, backend_key, (backend.account.identity(), session));
            }
        }
        if shared {
            backend.shown.serves.nobody();
        } else {
            backend.holder = Some(key);
            backend.shown.serves.set(self.clients[key].id);
        }
        self.clients[key].backend = Some(backend_key);
    }

    /// Notes that the client's `wait_timeout` goes ahead, where it is among the preludes. Should it fail after all, the backend is closed.
    pub(super) fn wait_timeout_goes_ahead(&mut self, key: ClientKey, backend_key: BackendKey, ahead: &Ahead) {
        if ahead.sets_wait_timeout {
            self.servers[backend_key].session.wait_timeout = self.clients[key].session.wait_timeout;
        }
    }

    /// Sends a statement of our own between clients' statements.
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

    /// Sends COM_SET_OPTION, where the backend's setting is another one.
    pub(in crate::backend) fn set_multi_statements(&mut self, key: BackendKey, on: bool) {
        if self.servers[key].session.multi_statements != on {
            self.servers[key].session.multi_statements = on;
            let option = u16::from(!on).to_le_bytes();
            self.send_own(key, Owner::SetOption, CommandKind::SetOption, &option, Expect::Simple, 0);
        }
    }

    /// Sends COM_RESET_CONNECTION, which rolls back, and frees temporary tables, locks, variables and prepared statements.
    pub(crate) fn reset(&mut self, key: BackendKey) {
        self.servers[key].afterwards = Afterwards::Keep;
        self.send_own(key, Owner::Reset, CommandKind::ResetConnection, &[], Expect::Simple, 0);
    }

    /// Sets back a client's `wait_timeout` on a backend that nobody holds any more, before the backend is idle.
    pub(in crate::backend) fn restore_wait_timeout(&mut self, key: BackendKey) {
        self.send_own(key, Owner::RestoreWaitTimeout, CommandKind::Query, RESTORE, Expect::ResultSets, 0);
    }

    /// Asks the server to end a statement or connection, on an idle backend of the same user.
    pub(crate) fn kill(&mut self, key: BackendKey, ending: ServerKill) {
        self.servers.of_mut(key).idle.remove(key);
        let (owner, text) = (Owner::Abandoned, ending.text());
        self.send_own(key, owner, CommandKind::Query, text.as_bytes(), Expect::ResultSets, 0);
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::Phase;
    use crate::client::commands::command::tests::{engine, open_backends};
    use crate::ids::client_key;
    use crate::settings::Settings;

    #[test]
    fn a_backend_is_one_clients_own_unless_reads_share_it() {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let keys = open_backends(&mut engine, &[server; 2]);
        for (&key, shared) in keys.iter().zip([true, false]) {
            engine.servers[key].set_phase(Phase::Ready);
            engine.servers[server].put_idle(key);
            engine.sending().begin_on(client_key(0), key, shared, None);
            assert_eq!(engine.servers[key].holder.is_none(), shared);
            assert_eq!(engine.servers[server].sharing.iter().any(|other| other == key), shared);
            assert_eq!(engine.clients[client_key(0)].backend, Some(key));
        }
        assert_eq!(engine.servers.idle_count(), 0);
    }

    #[test]
    fn an_option_is_set_where_it_is_another_one() {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let key = open_backends(&mut engine, &[server])[0];
        let mut sent = |on| {
            let before = engine.servers[key].in_flight.len();
            engine.sending().set_multi_statements(key, on);
            engine.servers[key].in_flight.len() - before
        };
        assert_eq!([true, false, false, true].map(&mut sent), [0, 1, 0, 1], "a login turns it on");
    }
}
