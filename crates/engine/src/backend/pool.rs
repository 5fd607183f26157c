//! Which backend serves a client's statement. Those start here that follow others on one, and those that wait in the contended lane.

use sql::Effects;
use wire::{CommandKind, Expect};

use super::contended::NextContended;
use super::rescue::Rescued;
use super::sharing::{LOOK_FOR_FOLLOWERS, SharedReads, Sharing};
use super::{Afterwards, Backend, Ends, Owner, Phase, Summary};
use crate::accounts::IdentityId;
use crate::client::Client;
use crate::client::wait_timeout::RESTORE;
use crate::coalescing::followers::followers_of;
use crate::engine::Engine;
use crate::errors::MySqlError;
use crate::ids::{BackendKey, ClientKey, ServerKey};
use crate::server::Server;
use crate::session::SessionTables;
use crate::session::pins::Pins;

impl SessionTables {
    /// Same user, same capabilities; and a schema can be changed but not be unset.
    pub(super) fn fits(&self, backend: &Backend, client: &Client) -> bool {
        let has_schema = |session| self.states.state(session).schema.is_some();
        Some(backend.account.identity) == client.identity
            && backend.login.class == client.class()
            && (!has_schema(backend.session.id) || client.session.id.is_some_and(has_schema))
    }
}

impl Server {
    /// All backends are to be replaced by others as soon as nobody needs them; returns those of which that is so now. Those that are just
    /// being opened, too: what a connection begins with, the servers copy when they accept it, and the rest of its login may take long.
    fn renew_backends(&mut self) -> Vec<BackendKey> {
        self.backends.iter_mut().for_each(|(_, backend)| backend.afterwards = Afterwards::Close);
        self.backends.iter().filter(|(_, backend)| backend.is_idle()).map(|(key, _)| key).collect()
    }
}

impl Engine {
    /// Finds an idle backend for a client: best one whose session state is the client's already, the latest used first (its
    /// caches are warm, and the others can time out).
    pub(crate) fn idle_backend_for(&self, key: ClientKey) -> Option<BackendKey> {
        let client = &self.clients[key];
        if client.request.as_ref().is_some_and(|request| request.tries.sent_before.is_so())
            && !self.may_send_again()
        {
            return None;
        }
        let about = client.request.as_ref().and_then(|request| request.about.as_deref());
        // Preparing a statement takes as long as setting the state does, and the latter comes again with the next client.
        let mut best = None;
        let server = &self.servers[self.servers.serving(&self.clients[key])];
        for &candidate in server.idle.iter().rev() {
            let backend = &server.backends[candidate];
            if !self.sessions.fits(backend, client) {
                continue;
            }
            let state = Some(backend.session.id) == client.session.id && backend.session.trackers;
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

    /// Starts statements of contended kinds, as many as may be in work, or as find a backend. Returns whether one waits for nothing but a
    /// permit.
    pub(crate) fn start_contended(&mut self) -> bool {
        let mut backend_free = true;
        let wanting = loop {
            let (scheduling, parties, clients, servers) = self.queues();
            let (key, grant) = match scheduling.next_contended(&parties, clients, servers, backend_free) {
                NextContended::Starts(key, grant) => (key, grant),
                NextContended::WantsPermit => break true,
                NextContended::None => break false,
            };
            if let Some(backend) = self.clients[key].backend.or_else(|| self.idle_backend_for(key)) {
                self.servers.of_mut(backend).begin_contended(backend, grant);
                self.start_alone(key, backend, grant);
            } else {
                let (scheduling, parties, clients, servers) = self.queues();
                let waiting = scheduling.contended_lack_backend(&parties, clients, servers, grant);
                self.open_backends_for(&waiting);
                backend_free = false;
            }
        };
        let (scheduling, parties, clients, servers) = self.queues();
        scheduling.note_contended_room(&parties, clients, servers);
        wanting
    }

    /// Lets reads go on elsewhere that stand behind a stuck one.
    pub(super) fn rescue_reads(&mut self) {
        for key in self.servers.with_stuck_reads(self.now, &self.settings, &self.clients) {
            self.scheduling.note_stuck(self.now, &self.servers[key]);
            for Rescued { client, ends, group } in self.servers.of_mut(key).rescue(key, &self.clients) {
                self.views.totals.rescues += 1;
                self.queue_again(client, ends);
                // Others that wait for the same answer ask for themselves.
                for follower in
                    group.iter().flat_map(|group| followers_of(&self.clients, group)).collect::<Vec<_>>()
                {
                    self.coalescing().goes_alone(follower);
                }
            }
        }
    }

    /// A client's statement goes back to where it stood in its queue, unless a KILL QUERY waits to end it: then it is over.
    pub(crate) fn queue_again(&mut self, key: ClientKey, ends: Ends) {
        self.scheduling.queue_again(self.now, key, &mut self.clients[key]);
        if ends == Ends::WhenAlone {
            self.cancel_queued(key, &MySqlError::interrupted());
        }
    }

    /// Reads that are to share backends.
    pub(super) fn shared_reads(&mut self) -> SharedReads<'_> {
        let (scheduling, parties, clients, servers) = self.queues();
        SharedReads { parties, scheduling, clients, servers }
    }

    /// A short read follows others on a backend that is reading already, where it may.
    pub(super) fn start_shared(&mut self, key: ClientKey) -> Sharing {
        let sharing = self.shared_reads().place_of(key);
        if let Sharing::With(backend) = sharing {
            self.scheduling.scheduler.start(key);
            self.send_request(key, backend);
            self.views.totals.shared_reads += 1;
            let sent = self.servers[backend].in_flight.back();
            self.views.totals.schemas_brought += u64::from(sent.is_some_and(|sent| sent.preludes > 0));
        }
        sharing
    }

    /// The first statement waits for a permit, or for room among its own: reads behind it follow others of their account and state, which takes
    /// neither.
    pub(super) fn start_followers(&mut self, first: ClientKey) {
        let mut followed = self.shared_reads().followed_beside(first);
        if followed.is_empty() {
            return;
        }
        for key in self.scheduling.scheduler.behind(first, LOOK_FOR_FOLLOWERS) {
            let sharers = self.clients[key].sharers().filter(|sharers| followed.contains(sharers));
            let Some(sharers) = sharers else { continue };
            if !matches!(self.start_shared(key), Sharing::With(_)) {
                followed.remove(&sharers);
            }
        }
    }

    /// Nobody needs this backend any more: it goes to the idle ones, or is reset or closed first.
    pub(crate) fn free_backend(&mut self, key: BackendKey) {
        let backend = &mut self.servers[key];
        debug_assert!(
            backend.in_flight.is_empty() && backend.holder.is_none(),
            "nothing runs on a free backend"
        );
        backend.shown.serves.nobody();
        backend.shown.used = None;
        match backend.afterwards {
            _ if backend.place.is_former() => self.quit_backend(key),
            Afterwards::Keep if backend.session.wait_timeout.is_some() => self.restore_wait_timeout(key),
            Afterwards::Keep => {
                backend.since = self.now;
                // While draining nobody comes any more; those who wait still need one.
                let needed = self.scheduling.scheduler.in_need() > 0 || !self.scheduling.urgent.is_empty();
                // A statement of a contended kind may not start now, and asks for another one as soon as this is gone.
                if self.orders.draining.is_some() && !needed && self.scheduling.scheduler.waiting() == 0 {
                    return self.quit_backend(key);
                }
                // Nor may one be closed that a KILL waits for: another one would be opened at once.
                if self.has_too_many_backends() && !self.is_awaited_by_kill(key) {
                    return self.quit_backend(key);
                }
                if !self.scheduling.keeps_for_us(&self.servers[key])
                    && self.pool.leave_to_other_worker(needed)
                {
                    return self.quit_backend(key);
                }
                self.servers.of_mut(key).put_idle(key);
            }
            Afterwards::Reset => self.send_reset(key),
            Afterwards::Close => self.quit_backend(key),
        }
    }

    /// A client's `wait_timeout` stands on a backend that nobody holds any more: it goes before the backend is idle.
    fn restore_wait_timeout(&mut self, key: BackendKey) {
        self.send_own(key, Owner::RestoreWaitTimeout, CommandKind::Query, RESTORE, Expect::ResultSets, 0);
    }

    /// The answer to that.
    pub(crate) fn wait_timeout_restored(&mut self, key: BackendKey, summary: &Summary) {
        if summary.error.is_some() {
            return self.close_backend(key, "its wait_timeout could not be set back");
        }
        self.servers[key].session.wait_timeout = None;
    }

    /// All backends are replaced by others as soon as nobody needs them.
    pub(crate) fn renew_backends(&mut self) {
        for server in self.servers.keys() {
            self.renew_backends_on(server);
        }
    }

    /// The same of one server's.
    pub(crate) fn renew_backends_on(&mut self, server: ServerKey) {
        for key in self.servers[server].renew_backends() {
            self.quit_backend(key);
        }
    }

    /// A client leaves a backend on which it may have left something: clean it. What still runs is waited for.
    pub(crate) fn reset_backend(&mut self, key: BackendKey) {
        let backend = &mut self.servers[key];
        let holder = backend.holder.take().and_then(|client| self.clients.get(client));
        let clean = holder.map_or(Afterwards::Reset, |client| behind_pins(client.session.pins));
        backend.afterwards = backend.afterwards.max(clean);
        if backend.in_flight.is_empty() && matches!(backend.phase(), Phase::Ready) {
            self.free_backend(key);
        }
    }

    /// Closes backends that nobody has needed for `backend_idle_timeout`, those of rights that nobody has any more, and those beyond what
    /// the server has room for.
    pub(crate) fn sweep_backends(&mut self) {
        let limit = self.settings.backend_idle_timeout;
        let over: Vec<_> = self
            .servers
            .idle()
            .filter(|&key| {
                let backend = &self.servers[key];
                self.now.since(backend.since) > limit || self.is_left_by_clients(backend.account.identity)
            })
            .collect();
        for key in over {
            self.quit_backend(key);
        }
        while self.has_too_many_backends() && self.close_idle_backend() {}
    }

    /// Says whether there are more backends than the server has room for. An urgent statement may have one more than that, and
    /// uses it first.
    fn has_too_many_backends(&self) -> bool {
        self.scheduling.urgent.is_empty() && self.pool.workers.places.are_too_many()
    }

    fn is_left_by_clients(&self, identity: IdentityId) -> bool {
        // Looked at for few: accounts' rights seldom change.
        self.logins.identities.is_former(identity) && {
            let backends =
                self.servers.backends().filter(|(_, backend)| backend.account.identity == identity).count();
            self.logins.identities.holders(identity) == backends
        }
    }
}

/// Returns the way to clean a backend behind a client with these pins: COM_RESET_CONNECTION where that is known to undo what they
/// are for (tried for each on MariaDB 10.11 and MySQL 8.0.31), else the end of the connection.
pub(super) fn behind_pins(pins: Pins) -> Afterwards {
    // It does not undo: a role, in both servers (`THD::change_user` and `THD::cleanup_connection` in sql_class.cc do nothing about the
    // security context; that of a routine ends with it in MariaDB, not in MySQL); a prepared branch, which outlives its connection, and which MariaDB leaves
    // to others in good order only where that ends (after the command it is lost for whoever commits it); the texts of statements that
    // MariaDB's `profiling` and MySQL's `optimizer_trace` have kept. What was executed by name or in a routine, not understood, or read
    // in a character set that hides quotes may have been any of these. What it undoes on a server that is neither is not known.
    const UNDONE: Effects = Effects::USER_VARIABLE
        .union(Effects::TEMPORARY_TABLE)
        .union(Effects::LOCK_TABLES)
        .union(Effects::NAMED_LOCK)
        .union(Effects::HANDLER)
        .union(Effects::FOUND_ROWS)
        .union(Effects::NEXT_TRANSACTION)
        .union(Effects::SEQUENCE);
    match pins.effects().without(UNDONE).is_empty() && !pins.hides_statements() && !pins.has_no_trackers() {
        true => Afterwards::Reset,
        false => Afterwards::Close,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seam::{Input, Instant, Program};

    use super::{Afterwards, Effects, Pins, behind_pins};
    use crate::backend::Phase;
    use crate::client::commands::tests::{connection, engine};
    use crate::ids::client_key;
    use crate::scheduler::lane::Lane;
    use crate::settings::Settings;

    #[test]
    fn what_a_reset_undoes_is_not_known_of_servers_without_trackers() {
        assert_eq!(behind_pins(Effects::USER_VARIABLE.into()), Afterwards::Reset);
        assert_eq!(
            behind_pins(Pins::from(Effects::USER_VARIABLE).with(Pins::NO_TRACKERS)),
            Afterwards::Close
        );
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
        engine.orders.draining = Some(Instant::START + Duration::from_secs(1));
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
