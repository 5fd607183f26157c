//! Checks what must agree between clients, servers and backends, after each turn of a debug build, in the simulator first of all.

use std::collections::BTreeMap;

use crate::accounts::Identities;
use crate::backend::{Backend, Owner, Permit};
use crate::client::commands::statements::ClientStatements;
use crate::client::login::attempt::Login;
use crate::client::memory::bytes_held::ClientMemory;
use crate::client::{Client, Phase};
use crate::ids::{BackendKey, ClientKey, Table};
use crate::io::{Io, Role};
use crate::pool::Pool;
use crate::request::RequestKind;
use crate::scheduling::scheduler::Scheduler;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::SessionTables;

/// All clients are looked at where there are no more: tests with crowds would take their time for nothing else.
const FEW: usize = 1000;

/// A client and the backend that it holds know of each other, and each server of what is its own; no login is left in the middle of a
/// step.
///
/// # Panics
///
/// Where that is not so.
pub(crate) fn check(
    clients: &Table<ClientKey, Client>,
    servers: &Servers,
    io: &Io,
    scheduler: &Scheduler,
    pool: &Pool,
    client_memory: &ClientMemory,
) {
    for (key, backend) in servers.backends() {
        if let Some(holder) = backend.holder() {
            let held = clients.get(holder).map(|client| client.backend);
            assert_eq!(held, Some(Some(key)), "{key:?} is held by {holder:?}");
        }
    }
    for (key, server) in servers.keys().zip(servers.iter()) {
        assert_eq!(server.key, key, "a server is in its slot");
        server.check(io);
    }
    scheduler.check_permits(servers, pool);
    if clients.len() <= FEW {
        for (key, client) in clients.iter() {
            client.check(key, servers);
        }
        client_memory.check(clients);
    }
}

impl Server {
    /// A server's lists name its own backends, what is idle is so, and is there once, and bytes that come on its connections are taken for its
    /// own.
    fn check(&self, io: &Io) {
        let own = |key: BackendKey| if key.server() == self.key { self.backends.get(key) } else { None };
        let mut idle = self.idle.to_vec();
        idle.sort_unstable();
        assert!(idle.windows(2).all(|two| two[0] != two[1]), "one is idle twice: {idle:?}");
        for key in idle {
            assert!(own(key).is_some_and(Backend::is_idle), "{key:?} is not idle");
        }
        for key in self.sharing.iter() {
            assert!(own(key).is_some(), "{key:?} is shared, and is not there");
        }
        assert!(self.dirty.is_empty(), "what was to be sent has been: {:?}", self.dirty);
        for (key, backend) in self.backends.iter() {
            let role = backend.connection.map(|connection| io.role(connection));
            assert!(role.is_none_or(|role| role == Role::Backend(key)), "{key:?} is taken for {role:?}");
        }
        let role = self.control.connection().map(|connection| io.role(connection));
        assert!(
            role.is_none_or(|role| role == Role::Control(self.key)),
            "the service account at {:?} is taken for {role:?}",
            self.key
        );
        let in_work = self.backends.iter().filter(|(_, backend)| backend.locks.contends).count();
        assert_eq!(in_work, self.contention.in_work as usize, "statements of contended kinds in work");
    }
}

impl Scheduler {
    /// Permits are neither lost nor doubled, nor are the parts of them that are left to others.
    fn check_permits(&self, servers: &Servers, pool: &Pool) {
        let count = |permit| servers.backends().filter(|(_, it)| it.permit() == permit).count();
        assert_eq!(count(Permit::Held), self.running() as usize, "permits that are held");
        let of = |is_held: bool| {
            let some = servers.backends().filter(|(_, it)| (it.permit() == Permit::Held) == is_held);
            some.map(|(_, it)| it.spared()).sum::<u32>()
        };
        assert_eq!((of(true), of(false)), (self.spared(), 0), "parts of permits left to others");
        // The common counts are those of all workers, each of which looks at its own.
        if pool.workers.count() == 1 {
            let both = (pool.workers.running(), pool.workers.spared());
            assert_eq!(both, (self.running(), self.spared()), "permits in use");
        }
    }
}

impl ClientMemory {
    /// Nobody has left behind what it held against a bound of memory.
    fn check(&self, clients: &Table<ClientKey, Client>) {
        let of_all = |bytes: fn(&Client) -> usize| clients.iter().map(|(_, it)| bytes(it)).sum::<usize>();
        assert_eq!(self.statements.bytes(), of_all(Client::counted_statements), "bytes of statements");
        assert_eq!(self.logins.bytes(), of_all(|it| it.memory.login.bytes()), "bytes of logins");
        assert_eq!(self.sessions.bytes(), of_all(|it| it.memory.session.bytes()), "bytes of sessions");
    }
}

impl Client {
    fn check(&self, key: ClientKey, servers: &Servers) {
        let is_judged = matches!(self.phase(), Phase::Login(Login::Judged));
        assert!(!is_judged, "{key:?} has been judged, and nobody has said what follows from it");
        let logs_in = match self.phase() {
            Phase::AwaitingServer | Phase::Login(_) => true,
            _ => self.request.as_ref().is_some_and(|request| request.command == RequestKind::LoginSchema),
        };
        let is_left = !logs_in && self.login.until().is_some();
        assert!(!is_left, "{key:?} has logged in, and keeps what belongs to its login");
        let Some(held) = self.backend else { return };
        let backend = servers.get(held).expect("a client's backend is there");
        let shares = backend
            .in_flight
            .iter()
            .any(|statement| matches!(statement.owner, Owner::Client { client, .. } if client == key));
        assert!(backend.holder() == Some(key) || shares, "{key:?} is on {held:?}");
    }
}

/// What is stored once for all is held as often as it is counted: it would stay for ever otherwise, or become something else under those
/// that still have it.
///
/// # Panics
///
/// Where that is not so.
pub(crate) fn check_holders(
    clients: &Table<ClientKey, Client>,
    servers: &Servers,
    sessions: &SessionTables,
    identities: &Identities,
) {
    if clients.len().max(sessions.statement_count() as usize) > FEW {
        return;
    }
    let backends = || servers.backends().map(|(_, backend)| backend);
    let of_clients = clients.iter().filter_map(|(_, client)| client.identity());
    let held = counted(of_clients.chain(backends().map(|backend| backend.account.identity())));
    assert_eq!(identities.holder_counts(), held, "who holds identities");
    let of_clients = clients.iter().filter_map(|(_, client)| client.session.statements.as_deref());
    let of_clients = of_clients.flat_map(ClientStatements::definitions);
    let held =
        counted(of_clients.chain(backends().flat_map(|backend| backend.session.prepared.definitions())));
    let definitions = sessions.definitions.holder_counts();
    let count = definitions.iter().map(|(&id, &(holders, _))| (id, holders)).collect::<BTreeMap<_, _>>();
    assert_eq!(count, held, "who holds definitions");
    let of_clients = clients.iter().filter_map(|(_, client)| client.session.id());
    let of_backends = backends().map(|backend| backend.session.id());
    let of_definitions = definitions.values().map(|&(_, session)| session);
    let of_answers = sessions.known_answers.states();
    let held = counted(of_clients.chain(of_backends).chain(of_definitions).chain(of_answers));
    assert_eq!(sessions.states.holder_counts(), held, "who holds session states");
}

/// How often each is there.
fn counted<T: Ord>(all: impl Iterator<Item = T>) -> BTreeMap<T, u32> {
    let mut counts = BTreeMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}
