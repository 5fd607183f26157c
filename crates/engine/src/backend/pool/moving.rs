//! Backends that leave this process for another, each with its place.

use seam::Instant;
use sql::LexMode;

use crate::backend::frozen::{Common, FrozenBackend};
use crate::frozen::plain::{bytes_of, read};
use crate::frozen::{NotFrozen, NotThawed};
use crate::ids::{BackendKey, ServerKey};
use crate::io::{Io, Role};
use crate::logins::Logins;
use crate::pool::Pool;
use crate::servers::Servers;
use crate::session::SessionTables;

/// The servers' backends at a time, and the tables that know of them while they are at rest.
pub(crate) struct MovingBackends<'a> {
    pub(crate) now: Instant,
    pub(crate) pool: &'a Pool,
    pub(crate) logins: &'a mut Logins,
    pub(crate) sessions: &'a mut SessionTables,
    pub(crate) servers: &'a mut Servers,
    pub(crate) io: &'a mut Io,
}

impl MovingBackends<'_> {
    /// Turns the backend at this place among all into bytes, and these into a backend that takes its place. Places go round behind the last one.
    /// `None` where there is no backend.
    pub(crate) fn freeze_and_thaw(&mut self, place: usize) -> Option<Result<(), NotFrozen>> {
        let place = place.checked_rem(self.servers.backends().count())?;
        let (key, backend) = self.servers.backends().nth(place)?;
        // The identities go along as a table.
        let identity = self.logins.identities.hold_again(backend.account.identity());
        let outcome = self.freeze(key).map(|(frozen, idle_at)| {
            let bytes = bytes_of(&frozen);
            self.thaw_at(key, &bytes, idle_at);
            // What has been lost on the way is missing in the second plain form.
            let (again, idle_at) = self.freeze(key).expect("it could be a moment ago");
            assert_eq!(again, frozen, "nothing of a backend is lost");
            self.thaw_at(key, &bytes, idle_at);
        });
        if let Some(gone) = self.logins.release(identity) {
            self.servers.forget_identity(gone);
        }
        Some(outcome)
    }

    /// Makes a backend again from bytes, in the place that is free and the next to be taken.
    fn thaw_at(&mut self, key: BackendKey, bytes: &[u8], idle_at: Option<usize>) {
        let thawed = read::<FrozenBackend>(bytes).ok_or(NotThawed::Unreadable);
        let there = thawed.and_then(|thawed| self.thaw(key.server(), thawed, idle_at));
        assert_eq!(there, Ok(key), "a backend takes the place that is free");
    }

    /// Takes an idle backend out of its server, as plain data. Returns also its place among the idle ones.
    fn freeze(&mut self, key: BackendKey) -> Result<(FrozenBackend, Option<usize>), NotFrozen> {
        self.servers[key].can_be_frozen()?;
        let server = self.servers.of_mut(key);
        let idle_at = server.idle.take_out(key);
        let backend = server.backends.remove(key);
        server.prepared_statement_room.taken -= backend.session.prepared.count();
        if let Some(connection) = backend.connection {
            self.io.set_role(connection, Role::Free);
        }
        Ok((backend.freeze(&mut self.common(key.server()))?, idle_at))
    }

    /// Makes a backend again from plain data. The server's thread is known again by the client that it serves.
    fn thaw(
        &mut self,
        server: ServerKey,
        frozen: FrozenBackend,
        idle_at: Option<usize>,
    ) -> Result<BackendKey, NotThawed> {
        let backend = frozen.thaw(&mut self.common(server))?;
        let (connection, prepared) = (backend.connection, backend.session.prepared.count());
        self.pool.workers.serving.add(backend.login.thread_id, &backend.shown.serves);
        let server = &mut self.servers[server];
        let key = server.backends.insert(backend);
        server.prepared_statement_room.taken += prepared;
        if let Some(place) = idle_at {
            server.idle.put_back(key, place);
        }
        if let Some(connection) = connection {
            self.io.set_role(connection, Role::Backend(key));
        }
        Ok(key)
    }

    fn common(&mut self, server: ServerKey) -> Common<'_> {
        let facts = self.servers[server].facts.as_ref();
        Common {
            now: self.now,
            lex_mode: facts.map_or_else(LexMode::default, |facts| facts.lex_mode),
            sessions: self.sessions,
            identities: &mut self.logins.identities,
            users: &self.pool.workers.users,
        }
    }
}
