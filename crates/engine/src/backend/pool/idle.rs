//! Backends that nobody needs at the moment: which of them serves a client's next statement, and how long each of them stays.

use seam::Instant;

use crate::accounts::Identities;
use crate::backend::pool::cleaning::behind_pins;
use crate::backend::{Afterwards, Backend, Phase, Successor};
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::outside::orders::given::Orders;
use crate::pool::Pool;
use crate::scheduling::Scheduling;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::settings::Settings;
use crate::workers::full_accounts::Recipient;

impl SessionTables {
    /// Says whether a backend can serve a client: same user, same capabilities. A schema can be changed but not be unset.
    pub(in crate::backend) fn fits(&self, backend: &Backend, client: &Client) -> bool {
        let has_schema = |session| self.states.state(session).schema.is_some();
        Some(backend.account.identity()) == client.identity()
            && backend.login.class == client.class()
            && (!has_schema(backend.session.id()) || client.session.id().is_some_and(has_schema))
    }
}

impl Server {
    /// Marks all backends to be replaced as soon as nobody needs them, and returns the idle ones. Marks also backends that are being opened: a
    /// server copies a connection's first values as it accepts it, and the rest of the login may take long.
    pub(in crate::backend) fn renew_backends(&mut self) -> Vec<BackendKey> {
        self.backends.iter_mut().for_each(|(_, backend)| backend.afterwards = Afterwards::Close);
        self.backends.iter().filter(|(_, backend)| backend.is_idle()).map(|(key, _)| key).collect()
    }
}

impl Servers {
    /// Finds an idle backend for a client: best one in its session state, with the statement of its execution prepared. Of several the one
    /// used last is taken, since its caches are warm and the others can time out. None for a request that was sent before, unless
    /// `may_send_again`.
    pub(in crate::backend) fn idle_for(
        &self,
        client: &Client,
        sessions: &SessionTables,
        may_send_again: bool,
    ) -> Option<BackendKey> {
        let request = client.request.as_ref();
        if request.is_some_and(|request| request.tries.sent_before.is_so()) && !may_send_again {
            return None;
        }
        let about = request.and_then(|request| request.about.as_deref());
        // Preparing a statement takes as long as setting the state does, and the latter comes again with the next client.
        let mut best = None;
        let server = &self[self.serving(client)];
        for &candidate in server.idle.iter().rev() {
            let backend = &server.backends[candidate];
            if !sessions.fits(backend, client) {
                continue;
            }
            let state = Some(backend.session.id()) == client.session.id() && backend.session.trackers;
            let prepared = about.is_none_or(|about| server.statement_for(candidate, about).is_some());
            if state && prepared {
                return Some(candidate);
            }
            let rank = 2 * u8::from(prepared) + u8::from(state);
            if best.is_none_or(|(other, _)| rank > other) {
                best = Some((rank, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// Returns the idle backends that nobody has needed for `backend_idle_timeout`, and those with rights that no client has any more.
    pub(in crate::backend) fn needless(
        &self,
        now: Instant,
        settings: &Settings,
        identities: &Identities,
    ) -> Vec<BackendKey> {
        let is_needless = |&key: &BackendKey| {
            let (since, identity) = (self[key].since, self[key].account.identity());
            now.since(since) > settings.backend_idle_timeout
                // Looked at for few: accounts' rights seldom change.
                || (identities.is_former(identity) && {
                    let backends = self.backends();
                    let own = backends.filter(|(_, backend)| backend.account.identity() == identity);
                    identities.holders(identity) == own.count()
                })
        };
        self.idle().filter(is_needless).collect()
    }
}

/// The next step of a backend that nobody needs any more.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::backend) enum Rest {
    /// The backend is idle.
    Idle,
    /// Its `wait_timeout`, which a client has set, goes back first.
    WaitTimeoutFirst,
    /// The backend is reset.
    Reset,
    /// The backend is closed.
    Quit,
}

/// Backends that come to rest, and the queues that may need them.
pub(in crate::backend) struct Resting<'a> {
    pub(in crate::backend) now: Instant,
    pub(in crate::backend) pool: &'a mut Pool,
    pub(in crate::backend) identities: &'a Identities,
    pub(in crate::backend) orders: &'a Orders,
    pub(in crate::backend) scheduling: &'a Scheduling,
    pub(in crate::backend) clients: &'a Table<ClientKey, Client>,
    pub(in crate::backend) servers: &'a mut Servers,
}

impl Resting<'_> {
    /// Notes that a client leaves a backend with something of its own, so that it has to be cleaned. True where that can be done at once, since
    /// nothing runs there.
    pub(in crate::backend) fn left(&mut self, key: BackendKey) -> bool {
        let backend = &mut self.servers[key];
        let holder = backend.holder.take().and_then(|client| self.clients.get(client));
        let clean = holder.map_or(Afterwards::Reset, |client| behind_pins(client.session.pins()));
        backend.afterwards = backend.afterwards.max(clean);
        backend.in_flight.is_empty() && matches!(backend.phase(), Phase::Ready)
    }

    /// Frees a backend that nobody needs any more, and returns its next step.
    pub(in crate::backend) fn free(&mut self, key: BackendKey) -> Rest {
        let backend = &mut self.servers[key];
        debug_assert!(
            backend.in_flight.is_empty() && backend.holder.is_none(),
            "nothing runs on a free backend"
        );
        backend.shown.serves.nobody();
        backend.shown.used = None;
        match backend.afterwards {
            _ if backend.place.is_former() => Rest::Quit,
            Afterwards::Keep if backend.session.wait_timeout.is_some() => Rest::WaitTimeoutFirst,
            Afterwards::Keep => {
                backend.since = self.now;
                if !self.keeps(key) {
                    return Rest::Quit;
                }
                self.servers.of_mut(key).put_idle(key);
                Rest::Idle
            }
            Afterwards::Reset => Rest::Reset,
            Afterwards::Close => Rest::Quit,
        }
    }

    fn keeps(&mut self, key: BackendKey) -> bool {
        // While draining nobody comes any more; those who wait still need one.
        let needed = self.scheduling.scheduler.in_need() > 0 || !self.scheduling.urgent.is_empty();
        // A statement of a contended kind may not start now, and asks for another one as soon as this is gone.
        if self.orders.is_draining() && !needed && self.scheduling.scheduler.waiting() == 0 {
            return false;
        }
        // Nor may one be closed that a KILL waits for: another one would be opened at once.
        if !self.is_awaited_by_kill(key) && (self.are_too_many() || self.leaves_its_account(key, needed)) {
            return false;
        }
        self.scheduling.keeps_for_us(&self.servers[key]) || !self.pool.leave_to_other_worker(needed)
    }

    /// Returns an idle backend that is closed for another worker, which was refused one of that account: the server takes no more of them.
    pub(in crate::backend) fn next_of_wanted_account(&mut self) -> Option<BackendKey> {
        while let Some(account) = self.pool.next_wanted_account(self.now) {
            let is_of =
                |key: &BackendKey| self.identities.name(self.servers[*key].account.identity()) == account;
            let idle: Vec<_> = self.servers.idle().filter(is_of).collect();
            for key in idle {
                // What nothing has run on yet is there for a statement that waits for a permit.
                if !self.is_awaited_by_kill(key)
                    && self.leaves_its_account(key, self.servers[key].opened.fresh)
                {
                    return Some(key);
                }
            }
        }
        None
    }

    /// Says whether its room is left to another worker, since the server takes no more connections of its account. That worker is told.
    fn leaves_its_account(&mut self, key: BackendKey, needed: bool) -> bool {
        let server = self.servers.of(key);
        let (identities, clients) = (self.identities, self.clients);
        let recipient = self.pool.gets_room_of(self.now, (server, key), identities, clients, needed);
        let identity = server.backends[key].account.identity();
        let account = || identities.name(identity);
        let (worker, account) = match recipient {
            Recipient::Nobody => return false,
            Recipient::NotBefore(at) => {
                self.pool.is_wanted(at, account());
                return false;
            }
            Recipient::Worker(worker) => (worker, account()),
        };
        if needed {
            let left = server.passing_backends(identity, clients) - 1;
            let full_accounts = &self.pool.workers.users.full_accounts;
            full_accounts.lacks(self.now, account.clone(), self.pool.worker, left);
        }
        self.pool.leave_room_of(account, worker);
        self.servers[key].account.successor = Successor::OtherWorker;
        true
    }

    /// Says whether a KILL waits for a backend of this one's user.
    fn is_awaited_by_kill(&self, key: BackendKey) -> bool {
        let wanted = self.orders.victims(self.clients).filter_map(|victim| victim.identity());
        let mut wanted = wanted.chain(self.scheduling.users_of_abandoned(self.servers));
        wanted.any(|identity| identity == self.servers[key].account.identity())
    }

    /// Says whether there are more backends than the server has room for. An urgent statement may have one more, and uses it first.
    fn are_too_many(&self) -> bool {
        self.scheduling.urgent.is_empty() && self.pool.workers.places.are_too_many()
    }

    /// Returns the backend that is closed next, where there are too many and one is idle.
    pub(in crate::backend) fn next_surplus(&self) -> Option<BackendKey> {
        self.servers.longest_idle().filter(|_| self.are_too_many())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seam::{Input, Program};

    use super::*;
    use crate::client::commands::command::tests::{connection, engine, open_backends};
    use crate::cluster::sent_before::SentBefore;
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::request::Request;
    use crate::scheduling::scheduler::lane::Lane;

    /// Makes an engine with so many idle backends of the client's account, the last of them used last.
    fn with_idle(count: usize) -> (Engine, Vec<BackendKey>) {
        let mut engine = engine(1, Settings::default());
        let primary = engine.servers.primary().key;
        let keys = open_backends(&mut engine, &vec![primary; count]);
        for &key in &keys {
            engine.servers[key].set_phase(Phase::Ready);
            engine.servers[primary].put_idle(key);
        }
        (engine, keys)
    }

    #[test]
    fn a_backend_in_the_clients_own_state_serves_it_and_else_the_latest_used() {
        let (mut engine, keys) = with_idle(3);
        let client = client_key(0);
        let idle_for = |engine: &Engine, may_send_again| {
            engine.servers.idle_for(&engine.clients[client], &engine.sessions, may_send_again)
        };
        assert_eq!(idle_for(&engine, true), Some(keys[2]));
        let state = engine.servers[keys[1]].session.id();
        let held = engine.sessions.states.hold_again(state);
        engine.clients[client].session.becomes(held, &mut engine.sessions.states);
        engine.servers[keys[1]].session.trackers = true;
        assert_eq!(idle_for(&engine, true), Some(keys[1]));
        let mut request = Request::query("SELECT 1");
        request.tries.sent_before = SentBefore::Lost;
        engine.clients[client].request = Some(Box::new(request));
        assert_eq!([true, false].map(|may| idle_for(&engine, may)), [Some(keys[1]), None]);
    }

    #[test]
    fn what_becomes_of_a_backend_follows_from_what_is_left_on_it() {
        for (afterwards, rest) in [
            (Afterwards::Keep, Rest::Idle),
            (Afterwards::Reset, Rest::Reset),
            (Afterwards::Close, Rest::Quit),
        ] {
            let (mut engine, keys) = with_idle(1);
            engine.servers.primary_mut().idle.remove(keys[0]);
            engine.servers[keys[0]].afterwards = afterwards;
            assert_eq!(engine.resting().free(keys[0]), rest);
            assert_eq!(engine.servers.idle_count(), usize::from(rest == Rest::Idle));
        }
    }

    #[test]
    fn a_backend_that_nobody_has_needed_for_long_is_needless() {
        let (mut engine, keys) = with_idle(2);
        let needless = |engine: &Engine| {
            engine.servers.needless(engine.now, &engine.settings, &engine.logins.identities)
        };
        engine.now = engine.now + engine.settings.backend_idle_timeout;
        assert_eq!(needless(&engine), []);
        engine.now = engine.now + Duration::from_micros(1);
        engine.servers[keys[1]].since = engine.now;
        assert_eq!(needless(&engine), [keys[0]]);
    }

    /// Else it would be closed as soon as it stands, and asked for again at once, until nothing waits any more.
    #[test]
    fn a_backend_stays_while_draining_for_who_may_not_start_now() {
        let mut engine = engine(1, Settings::default());
        engine.servers.primary_mut().reachability.answered();
        let mut query = Vec::new();
        wire::put_message(&mut query, &mut 0, b"\x03SELECT 1 FROM t FOR UPDATE");
        engine.handle(Instant::START, Input::Bytes { connection: connection(0), bytes: &query });
        engine.handle(Instant::START, Input::TurnEnd);
        let (key, backend) =
            engine.servers.primary_mut().backends.iter_mut().next().expect("one is begun for it");
        backend.set_phase(Phase::Ready);
        engine.orders.drain_until(Instant::START + Duration::from_secs(1));
        engine.scheduling.change_lane(
            engine.now,
            client_key(0),
            &mut engine.clients[client_key(0)],
            Lane::Contended,
        );
        engine.scheduling.scheduler.note_contended_room(0);
        assert_eq!((engine.scheduling.scheduler.in_need(), engine.scheduling.scheduler.waiting()), (0, 1));
        engine.free_backend(key);
        assert_eq!((engine.servers.backend_count(), &engine.servers.primary().idle[..]), (1, &[key][..]));
        engine.client_gone(client_key(0));
        engine.servers.primary_mut().idle.remove(key);
        engine.free_backend(key);
        assert!(engine.servers.primary().backends.is_empty(), "nobody comes any more");
    }
}
