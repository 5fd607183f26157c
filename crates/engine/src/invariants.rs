//! Checks what must agree between clients, servers and backends, after each turn of a debug build, in the simulator first of all.

use crate::backend::{Backend, Owner, Permit};
use crate::client::login::Login;
use crate::client::{Client, Phase};
use crate::engine::{Engine, Role};
use crate::ids::BackendKey;
use crate::server::Server;

/// All clients are looked at where there are no more: tests with crowds would take their time for nothing else.
const FEW: usize = 1000;

impl Engine {
    /// A client and the backend that it holds know of each other, and each server of what is its own; no login is left in the middle of a
    /// step.
    ///
    /// # Panics
    ///
    /// Where that is not so.
    pub(crate) fn check_invariants(&self) {
        for (key, backend) in self.servers.backends() {
            if let Some(holder) = backend.holder {
                let held = self.clients.get(holder).map(|client| client.backend);
                assert_eq!(held, Some(Some(key)), "{key:?} is held by {holder:?}");
            }
        }
        for (key, server) in self.servers.keys().zip(self.servers.iter()) {
            assert_eq!(server.key, key, "a server is in its slot");
            self.check_server(server);
        }
        assert_eq!(self.readers.lost_backends(), 0, "backends of servers that are lost");
        self.check_permits();
        if self.clients.len() <= FEW {
            self.check_clients();
            self.check_hoards();
        }
    }

    /// A server's lists name its own backends, what is idle is so, and is there once, and bytes that come on its connections are taken for its
    /// own.
    fn check_server(&self, server: &Server) {
        let own = |key: BackendKey| if key.server() == server.key { server.backends.get(key) } else { None };
        let mut idle = server.idle.to_vec();
        idle.sort_unstable();
        assert!(idle.windows(2).all(|two| two[0] != two[1]), "one is idle twice: {idle:?}");
        for key in idle {
            assert!(own(key).is_some_and(Backend::is_idle), "{key:?} is not idle");
        }
        for key in server.sharing.iter() {
            assert!(own(key).is_some(), "{key:?} is shared, and is not there");
        }
        assert!(server.dirty.is_empty(), "what was to be sent has been: {:?}", server.dirty);
        for (key, backend) in server.backends.iter() {
            let role = backend.connection.map(|connection| self.io.role(connection));
            assert!(role.is_none_or(|role| role == Role::Backend(key)), "{key:?} is taken for {role:?}");
        }
        let role = server.control.connection().map(|connection| self.io.role(connection));
        assert!(
            role.is_none_or(|role| role == Role::Control(server.key)),
            "the service account at {:?} is taken for {role:?}",
            server.key
        );
        let in_work = server.backends.iter().filter(|(_, backend)| backend.contends).count();
        assert_eq!(in_work, server.contention.in_work as usize, "statements of contended kinds in work");
    }

    /// Permits are neither lost nor doubled, nor are the parts of them that are left to others.
    fn check_permits(&self) {
        let count = |permit| self.servers.backends().filter(|(_, it)| it.permit() == permit).count();
        assert_eq!(
            count(Permit::Held),
            self.scheduling.scheduler.running() as usize,
            "permits that are held"
        );
        let of = |is_held: bool| {
            let some = self.servers.backends().filter(|(_, it)| (it.permit() == Permit::Held) == is_held);
            some.map(|(_, it)| it.spared()).sum::<u32>()
        };
        assert_eq!(
            (of(true), of(false)),
            (self.scheduling.scheduler.spared(), 0),
            "parts of permits left to others"
        );
        // The common counts are those of all workers, each of which looks at its own.
        if self.pool.workers.count() == 1 {
            let both = (self.pool.workers.running(), self.pool.workers.spared());
            assert_eq!(
                both,
                (self.scheduling.scheduler.running(), self.scheduling.scheduler.spared()),
                "permits in use"
            );
        }
    }

    /// Nobody has left behind what it held against a bound of memory.
    fn check_hoards(&self) {
        let of_all =
            |bytes: fn(&Client) -> usize| self.clients.iter().map(|(_, it)| bytes(it)).sum::<usize>();
        let hoards = &self.hoards;
        assert_eq!(hoards.statements.bytes(), of_all(Client::counted_statements), "bytes of statements");
        assert_eq!(hoards.logins.bytes(), of_all(|it| it.counted_for_login.bytes()), "bytes of logins");
        assert_eq!(hoards.sessions.bytes(), of_all(|it| it.counted_for_session.bytes()), "bytes of sessions");
    }

    fn check_clients(&self) {
        for (key, client) in self.clients.iter() {
            let is_judged = matches!(client.phase(), Phase::Login(Login::Judged));
            assert!(!is_judged, "{key:?} has been judged, and nobody has said what follows from it");
            let Some(held) = client.backend else { continue };
            let backend = self.servers.get(held).expect("a client's backend is there");
            let shares = backend
                .in_flight
                .iter()
                .any(|statement| matches!(statement.owner, Owner::Client { client, .. } if client == key));
            assert!(backend.holder == Some(key) || shares, "{key:?} is on {held:?}");
        }
    }
}
