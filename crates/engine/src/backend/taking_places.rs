//! Opens backends for statements that find none, and takes idle ones' places for them, see [`super::opening`]. An idle one may also leave this
//! process for another, with its place.

use std::time::Duration;

use seam::Instant;
use sql::LexMode;
use wire::Capabilities;

use super::Backend;
use super::frozen::{Common, FrozenBackend};
use super::opening::{LONGEST_WAIT, Login};
use crate::accounts::IdentityId;
use crate::engine::Engine;
use crate::frozen::plain::{bytes_of, read};
use crate::frozen::{NotFrozen, NotThawed};
use crate::ids::{BackendKey, ClientKey, ServerKey};
use crate::io::Role;
use crate::workers::places::Origin;

/// Where a backend comes from.
enum Place {
    /// The backend is a new one.
    New(Origin),
    /// This idle one changes its account.
    Of(BackendKey),
}

impl Engine {
    /// A client's statement is the first in need and finds no backend. Returns for how long its login has had none.
    pub(super) fn note_lack(&mut self, key: ClientKey) -> Duration {
        let client = &self.clients[key];
        let Some(identity) = client.identity else { return Duration::ZERO };
        let (server, login) = (self.servers.serving(&self.clients[key]), (identity, client.class()));
        let since = self.servers[server].opening.lacks(self.now, login);
        self.now.since(since)
    }

    /// Opens backends for those of waiting statements, in their order, that neither find an idle one nor will have one that is being
    /// opened; in all no more than could run at once.
    pub(crate) fn open_backends_for(&mut self, waiting: &[ClientKey]) {
        for server in self.servers.keys() {
            self.open_backends_on(server, waiting);
        }
    }

    /// The same for those whose statements go to one server.
    fn open_backends_on(&mut self, server: ServerKey, waiting: &[ClientKey]) {
        // While the server is not known to answer, one attempt is enough.
        let most = if self.servers[server].reachability.is_up() {
            self.scheduling.scheduler.free_permits().max(1)
        } else {
            1
        };
        let opening = |(_, backend): &(BackendKey, &Backend)| !backend.is_ready();
        let mut to_come: Vec<_> =
            self.servers[server].backends.iter().filter(opening).map(|(key, _)| key).collect();
        // A MariaDB takes a second to refuse a change: others do not wait for that.
        let under_way = to_come.len() - self.servers[server].slow_changes(self.now);
        let mut room = most.saturating_sub(under_way);
        to_come.extend(self.servers[server].idle.iter());
        for &key in waiting {
            if self.servers.serving(&self.clients[key]) != server {
                continue;
            }
            let client = &self.clients[key];
            let Some(login) = client.identity.map(|identity| (identity, client.class())) else { continue };
            if let Some(own) = to_come.iter().position(|&own| self.sessions.fits(&self.servers[own], client))
            {
                to_come.swap_remove(own);
                continue;
            }
            if room == 0 || !self.may_open_as(server, login.0) {
                continue;
            }
            match self.place_for(key, login, waiting, &mut to_come) {
                Some(Place::New(origin)) => self.open_backend(key, origin),
                Some(Place::Of(other)) => self.change_account(other, key),
                None => continue,
            }
            room -= 1;
        }
    }

    /// A place for a backend of this login: a free one, or that of an idle backend of another login, which does not come for
    /// anybody then, or of another worker's.
    fn place_for(
        &mut self,
        key: ClientKey,
        login: Login,
        waiting: &[ClientKey],
        to_come: &mut Vec<BackendKey>,
    ) -> Option<Place> {
        if let Some(origin) = self.pool.take_place(self.now) {
            return Some(Place::New(origin));
        }
        let server = self.servers.serving(&self.clients[key]);
        let (settings, identities) = (&self.settings, &self.logins.identities);
        let by_change = self.servers[server].may_change_to(self.now, settings, identities, &self.pool, login);
        let worth = self.servers[server].opening.worth(by_change);
        let lacks_for = self.now.since(self.servers[server].opening.lacks(self.now, login));
        let expects = lacks_for < LONGEST_WAIT && self.expects_one(key);
        if expects && lacks_for < worth {
            return None;
        }
        let may_be_taken = |&idle: &BackendKey| {
            let backend = &self.servers[idle];
            let in_use = expects && self.now.since(backend.since) < worth;
            // One that has been opened for a statement is not lost before that has run: two could take it from each other for ever.
            let awaited = backend.opened.fresh && self.now.since(backend.since) < LONGEST_WAIT;
            let wanted = (lacks_for < worth || awaited)
                && waiting.iter().any(|&other| self.sessions.fits(backend, &self.clients[other]));
            !in_use && !wanted
        };
        let mut free = self.servers[server].idle.iter().copied().filter(may_be_taken);
        let Some(longest) = free.next() else {
            self.pool.ask_for_backends();
            return None;
        };
        let changes = |&idle: &BackendKey| by_change && self.servers[server].may_change(idle, login);
        // One that can change costs less, but nobody loses a backend for that which is in use.
        let unused = |&idle: &BackendKey| self.now.since(self.servers[idle].since) >= worth;
        let instead = || free.take_while(unused).find(changes);
        let taken = Some(longest).filter(changes).or_else(instead);
        let (taken, changes) = (taken.unwrap_or(longest), taken.is_some());
        self.servers[server].opening.affinity.place_taken(self.now);
        to_come.retain(|&own| own != taken);
        if changes {
            return Some(Place::Of(taken));
        }
        self.quit_backend(taken);
        self.pool.take_place(self.now).map(Place::New)
    }

    /// Makes an idle backend one for a client: whatever is known of it is over, but for its place and connection.
    fn change_account(&mut self, key: BackendKey, client: ClientKey) {
        let client = &self.clients[client];
        let (class, collation) = (client.class(), client.login.collation);
        let identity = client.identity.expect("a client that waits for a backend has logged in");
        let new = self.new_backend(key.server(), identity, class, collation, Origin::Changed);
        let mut backend = new.expect("a server with backends is known");
        let before = self.take_backend_out(key);
        let credentials = self.credentials_of(key.server(), &backend);
        let connection = backend.take_over(before, credentials).expect("an idle backend is connected");
        self.views.totals.account_changes += 1;
        let server = self.servers.of_mut(key);
        let key = server.backends.insert(backend);
        server.mark_dirty(key);
        self.io.set_role(connection, Role::Backend(key));
    }

    /// Says whether a backend for this client will be free in a moment: it is in use or being opened, and nobody holds it beyond
    /// a statement.
    fn expects_one(&self, key: ClientKey) -> bool {
        let passes = |backend: &Backend| {
            let holder = backend.holder.and_then(|client| self.clients.get(client));
            holder.is_none_or(|client| client.session.pins.is_empty() && !client.in_transaction())
        };
        let client = &self.clients[key];
        let server = &self.servers[self.servers.serving(&self.clients[key])];
        server.backends.iter().any(|(_, backend)| self.sessions.fits(backend, client) && passes(backend))
    }

    /// Opens a backend for a KILL, one over the limit if it must be: when all are held is when it is needed.
    pub(crate) fn open_backend_for_urgent(&mut self, key: ClientKey) {
        let client = &self.clients[key];
        if let Some(identity) = client.identity {
            self.open_urgently(
                self.servers.serving(&self.clients[key]),
                identity,
                client.class(),
                client.login.collation,
            );
        }
    }

    /// Opens a backend with the login of another one, likewise.
    pub(crate) fn open_backend_like(&mut self, key: BackendKey) {
        let other = &self.servers[key];
        self.open_urgently(key.server(), other.account.identity, other.login.class, other.login.collation);
    }

    fn open_urgently(&mut self, server: ServerKey, identity: IdentityId, class: Capabilities, collation: u8) {
        let fits = |backend: &Backend| backend.account.identity == identity && backend.login.class == class;
        let under_way =
            self.servers[server].backends.iter().any(|(_, backend)| !backend.is_ready() && fits(backend));
        if under_way || !self.may_open_as(server, identity) {
            return;
        }
        let place = self
            .pool
            .take_place(self.now)
            .or_else(|| self.close_idle_backend().then(|| self.pool.take_place(self.now))?)
            // A server that is full has no room for one more either, however urgent.
            .or_else(|| {
                let places = &self.pool.workers.places;
                (!places.server_is_full()).then(|| places.take(self.now, self.pool.worker, 1))?
            });
        if let Some(origin) = place {
            self.open_backend_as(server, identity, class, collation, origin);
        }
    }

    /// Says whether an attempt to connect with this login makes sense now.
    fn may_open_as(&self, server: ServerKey, identity: IdentityId) -> bool {
        let refused = self.logins.identities.identity(identity).refused_until;
        self.may_connect_now(server) && refused.is_none_or(|until| until <= self.now)
    }

    /// Says whether an attempt to connect to a server makes sense now: where it is known which one is the primary.
    pub(crate) fn may_connect_now(&self, server: ServerKey) -> bool {
        self.servers[server].may_connect_now(self.now) && self.knows_primary()
    }

    /// Closes the backend that has been idle longest; false where none is.
    pub(crate) fn close_idle_backend(&mut self) -> bool {
        let Some(longest) = self.servers.longest_idle() else { return false };
        self.quit_backend(longest);
        true
    }

    /// Turns a backend into bytes, and these into a backend that takes its place, as
    /// [`freeze_and_thaw_client`](Self::freeze_and_thaw_client) does with a client.
    ///
    /// `None` where there is no backend.
    ///
    /// # Errors
    ///
    /// Where it is in use.
    ///
    /// # Panics
    ///
    /// If the bytes are not read as what they were made of, or something in them is unknown here.
    pub fn freeze_and_thaw_backend(&mut self, now: Instant, place: usize) -> Option<Result<(), NotFrozen>> {
        let place = place.checked_rem(self.servers.backends().count())?;
        let (key, backend) = self.servers.backends().nth(place)?;
        // The identities go along as a table.
        let identity = self.logins.identities.hold_again(backend.account.identity);
        let outcome = self.freeze_backend(now, key).map(|(frozen, idle_at)| {
            let bytes = bytes_of(&frozen);
            self.thaw_backend_at(now, key, &bytes, idle_at);
            // What has been lost on the way is missing in the second plain form.
            let (again, idle_at) = self.freeze_backend(now, key).expect("it could be a moment ago");
            assert_eq!(again, frozen, "nothing of a backend is lost");
            self.thaw_backend_at(now, key, &bytes, idle_at);
        });
        self.release_identity(identity);
        Some(outcome)
    }

    /// A backend goes on from bytes in a place that is free, and the next to be taken.
    fn thaw_backend_at(&mut self, now: Instant, key: BackendKey, bytes: &[u8], idle_at: Option<usize>) {
        let thawed = read::<FrozenBackend>(bytes).ok_or(NotThawed::Unreadable);
        let there = thawed.and_then(|thawed| self.thaw_backend(now, key.server(), thawed, idle_at));
        assert_eq!(there, Ok(key), "a backend takes the place that is free");
    }

    /// Takes an idle backend out of its server, as plain data. Returns also its place among the idle ones.
    fn freeze_backend(
        &mut self,
        now: Instant,
        key: BackendKey,
    ) -> Result<(FrozenBackend, Option<usize>), NotFrozen> {
        self.servers[key].can_be_frozen()?;
        let server = self.servers.of_mut(key);
        let idle_at = server.idle.take_out(key);
        let backend = server.backends.remove(key);
        server.room.taken -= backend.session.prepared.count();
        if let Some(connection) = backend.connection {
            self.io.set_role(connection, Role::Free);
        }
        Ok((backend.freeze(&mut self.common_of_backends(now, key.server()))?, idle_at))
    }

    /// A backend goes on from plain data. The server's threads go on being known by whom they serve.
    fn thaw_backend(
        &mut self,
        now: Instant,
        server: ServerKey,
        frozen: FrozenBackend,
        idle_at: Option<usize>,
    ) -> Result<BackendKey, NotThawed> {
        let backend = frozen.thaw(&mut self.common_of_backends(now, server))?;
        let (connection, prepared) = (backend.connection, backend.session.prepared.count());
        self.pool.workers.serving.add(backend.login.thread_id, &backend.shown.serves);
        let server = &mut self.servers[server];
        let key = server.backends.insert(backend);
        server.room.taken += prepared;
        if let Some(place) = idle_at {
            server.idle.put_back(key, place);
        }
        if let Some(connection) = connection {
            self.io.set_role(connection, Role::Backend(key));
        }
        Ok(key)
    }

    fn common_of_backends(&mut self, now: Instant, server: ServerKey) -> Common<'_> {
        let facts = self.servers[server].facts.as_ref();
        Common {
            now,
            lex_mode: facts.map_or_else(LexMode::default, |facts| facts.lex_mode),
            sessions: &mut self.sessions,
            identities: &mut self.logins.identities,
        }
    }

    /// Turns what is known of the servers into bytes, and these into what is known of them; likewise what has been learned of their
    /// statements, by this worker and by all together. For tests, as the others.
    ///
    /// # Errors
    ///
    /// Where a service account's connection has stayed as it was: something is under way there.
    pub fn freeze_and_thaw_servers(&mut self, now: Instant) -> Result<(), NotFrozen> {
        self.scheduling.freeze_and_thaw_learned(now);
        self.pool.workers.freeze_and_thaw(now);
        let of_servers = self.servers.iter_mut().map(|server| server.freeze_and_thaw(now));
        let of_readers = self.readers.engines_mut().map(|reader| reader.freeze_and_thaw_servers(now));
        of_servers.chain(of_readers).fold(Ok(()), Result::and)
    }
}
