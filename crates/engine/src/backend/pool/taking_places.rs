//! Finds places for the backends that waiting statements lack: free places, those of idle backends with another login, or those of other
//! workers. [`crate::backend::pool::opening`] says how much that is worth.

use std::time::Duration;

use seam::Instant;

use crate::accounts::{Identities, IdentityId};
use crate::backend::pool::opening::{LONGEST_WAIT, Login};
use crate::backend::{Backend, Successor};
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, ServerKey, Table};
use crate::pool::Pool;
use crate::scheduling::shares::Parties;
use crate::servers::Servers;
use crate::workers::places::Origin;

/// A place for a backend of a waiting statement's login.
pub(in crate::backend) enum FoundPlace {
    /// A free place, which has been taken for a new backend.
    Free(Origin),
    /// The place of this idle backend, which changes its account.
    Of(BackendKey),
    /// The place of this idle backend, which has to be closed for it.
    Behind(BackendKey),
    /// None, since the server takes no more of the account.
    OfFullAccount(FullAccount),
    /// The place of another worker, which has to be asked for it.
    OfOtherWorker,
}

/// The way to room for a backend of an account of which the server takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum FullAccount {
    /// The room of this idle backend. Once it is closed, a backend may be opened instead as soon as the server has noticed.
    Behind(BackendKey),
    /// None here, and nobody knows yet that one lacks.
    Unknown(IdentityId),
}

/// The room that a server has for one more backend of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccountRoom {
    /// There is some, as far as anybody knows.
    Some,
    /// An attempt would be in vain just now.
    NotNow,
    /// The server takes as many at a time as there are. `is_known` is true where that has been noted lately.
    None { is_known: bool },
}

/// The backends of a server that are idle or being opened, and the number of others that may be opened.
pub(in crate::backend) struct ToCome {
    server: ServerKey,
    backends: Vec<BackendKey>,
    room: usize,
}

impl ToCome {
    /// Notes that one more is being opened, or changes its account.
    pub(in crate::backend) fn one_opens(&mut self) {
        self.room -= 1;
    }
}

impl Servers {
    /// Returns the time at which a statement that lacks a backend may get one without anything else happening, here or on another worker.
    pub(crate) fn next_place(&self, now: Instant, identities: &Identities, pool: &Pool) -> Option<Instant> {
        let own = self.iter().filter_map(|server| server.opening.next_look(now, identities));
        own.chain(pool.next_look_at_wanted()).min()
    }

    /// Notes that a client's statement is the first in need and finds no backend. Returns for how long its login has had none.
    pub(in crate::backend) fn note_lack(&mut self, now: Instant, client: &Client) -> Duration {
        let Some(identity) = client.identity() else { return Duration::ZERO };
        let server = self.serving(client);
        let since = self[server].opening.lacks(now, (identity, client.class()));
        now.since(since)
    }

    /// Notes that a client's statement starts on a backend of its own.
    pub(in crate::backend) fn note_served(&mut self, backend: BackendKey, client: &Client) {
        if let Some(identity) = client.identity() {
            self.of_mut(backend).opening.served((identity, client.class()));
        }
    }
}

/// The clients with statements that lack backends, and the backends that there are.
pub(in crate::backend) struct TakingPlaces<'a> {
    pub(in crate::backend) parties: Parties<'a>,
    /// True where backends may be opened: the primary is known.
    pub(in crate::backend) knows_primary: bool,
    pub(in crate::backend) clients: &'a Table<ClientKey, Client>,
    pub(in crate::backend) servers: &'a mut Servers,
}

impl TakingPlaces<'_> {
    /// Returns the backends that come on a server by themselves. In all no more is opened than could run at once, with so many permits.
    pub(in crate::backend) fn to_come(&self, server: ServerKey, free_permits: usize) -> ToCome {
        let on_server = &self.servers[server];
        // While the server is not known to answer, one attempt is enough.
        let most = if on_server.reachability.is_up() { free_permits.max(1) } else { 1 };
        let opening = |(_, backend): &(BackendKey, &Backend)| !backend.is_ready();
        let mut backends: Vec<_> = on_server.backends.iter().filter(opening).map(|(key, _)| key).collect();
        // A MariaDB takes a second to refuse a change: others do not wait for that.
        let under_way = backends.len() - on_server.slow_changes(self.parties.now);
        backends.extend(on_server.idle.iter());
        ToCome { server, backends, room: most.saturating_sub(under_way) }
    }

    /// Returns a place for a backend of a client's login on this server, where its statement waits there and no backend comes for it. A backend
    /// that comes for it is for nobody else then.
    pub(in crate::backend) fn place_for(
        &mut self,
        key: ClientKey,
        waiting: &[ClientKey],
        to_come: &mut ToCome,
    ) -> Option<FoundPlace> {
        let login = self.login_without_one(key, to_come)?;
        match self.room_of(to_come.server, login.0) {
            AccountRoom::Some => self.take_place(key, login, waiting, to_come),
            AccountRoom::NotNow => {
                // It is looked at again at the time until which the server is not asked, whether anything else happens or not.
                self.servers[to_come.server].opening.lacks(self.parties.now, login);
                None
            }
            AccountRoom::None { is_known } => {
                let behind = self.take_room(login, to_come).map(FullAccount::Behind);
                behind
                    .or_else(|| (!is_known).then_some(FullAccount::Unknown(login.0)))
                    .map(FoundPlace::OfFullAccount)
            }
        }
    }

    /// Takes a free place for a backend of a client with a statement that needs no permit. Nobody gives up a place for that. Other workers
    /// are not asked for one either: a lack that is none would be news to them in each turn.
    pub(in crate::backend) fn free_place_for(&mut self, key: ClientKey) -> Option<Origin> {
        let mut to_come = self.to_come(self.servers.serving(&self.clients[key]), 0);
        let login = self.login_without_one(key, &mut to_come)?;
        if !self.may_open_as(to_come.server, login.0) {
            return None;
        }
        self.parties.pool.take_place(self.parties.now)
    }

    /// Returns a client's login, where its statement waits on that server, none of the coming backends is for it, and one more may be opened.
    fn login_without_one(&self, key: ClientKey, to_come: &mut ToCome) -> Option<Login> {
        let client = &self.clients[key];
        if self.servers.serving(client) != to_come.server {
            return None;
        }
        let login = client.identity().map(|identity| (identity, client.class()))?;
        let fits = |&own: &BackendKey| self.parties.sessions.fits(&self.servers[own], client);
        if let Some(own) = to_come.backends.iter().position(fits) {
            to_come.backends.swap_remove(own);
            return None;
        }
        (to_come.room > 0 && self.may_connect(to_come.server)).then_some(login)
    }

    /// Takes a free place, that of an idle backend of another login, which does not come for anybody then, or that of another worker.
    fn take_place(
        &mut self,
        key: ClientKey,
        login: Login,
        waiting: &[ClientKey],
        to_come: &mut ToCome,
    ) -> Option<FoundPlace> {
        let Parties { now, settings, pool, logins, sessions } = self.parties;
        if let Some(origin) = pool.take_place(now) {
            return Some(FoundPlace::Free(origin));
        }
        let server = &mut self.servers[to_come.server];
        let by_change = server.may_change_to(now, settings, &logins.identities, pool, login);
        let worth = server.opening.worth(by_change);
        let lacks_for = now.since(server.opening.lacks(now, login));
        let expects = lacks_for < LONGEST_WAIT && self.expects_one(key);
        if expects && lacks_for < worth {
            return None;
        }
        let server = &self.servers[to_come.server];
        let may_be_taken = |&idle: &BackendKey| {
            let backend = &server.backends[idle];
            let in_use = expects && now.since(backend.since) < worth;
            // One that has been opened for a statement is not lost before that has run: two could take it from each other for ever.
            let awaited = backend.opened.fresh && now.since(backend.since) < LONGEST_WAIT;
            let wanted = (lacks_for < worth || awaited)
                && waiting.iter().any(|&other| sessions.fits(backend, &self.clients[other]));
            !in_use && !wanted
        };
        let mut free = server.idle.iter().copied().filter(may_be_taken);
        let Some(longest) = free.next() else { return Some(FoundPlace::OfOtherWorker) };
        let changes = |&idle: &BackendKey| by_change && server.may_change(idle, login);
        // One that can change costs less, but nobody loses a backend for that which is in use.
        let unused = |&idle: &BackendKey| now.since(server.backends[idle].since) >= worth;
        let instead = || free.take_while(unused).find(changes);
        let taken = Some(longest).filter(changes).or_else(instead);
        let place = taken.map_or(FoundPlace::Behind(longest), FoundPlace::Of);
        let taken = taken.unwrap_or(longest);
        self.servers[to_come.server].opening.affinity.place_taken(now);
        to_come.backends.retain(|&own| own != taken);
        Some(place)
    }

    /// Takes the room of an idle backend of the account that has other capabilities, or rights from before, and comes for no statement in front,
    /// for a backend of this login: one that nobody has needed for a while, or any where the login has lacked one for long. So each keeps what
    /// it has got for a while.
    fn take_room(&mut self, login: Login, to_come: &mut ToCome) -> Option<BackendKey> {
        let now = self.parties.now;
        let opening = &mut self.servers[to_come.server].opening;
        let (lacks_for, kept_for) = (now.since(opening.lacks(now, login)), opening.kept_for());
        let may_go = |backend: &Backend| {
            let held_for = now.since(backend.account.held_since);
            now.since(backend.since) >= LONGEST_WAIT || (lacks_for >= kept_for && held_for >= kept_for)
        };
        let idle = self.idle_of_account(login, to_come, may_go)?;
        to_come.backends.retain(|&own| own != idle);
        Some(idle)
    }

    /// Returns an idle backend of the account that is of another login, comes for no statement in front, and may go. It is to be closed for one of
    /// this login.
    fn idle_of_account(
        &mut self,
        login: Login,
        to_come: &ToCome,
        may_go: impl Fn(&Backend) -> bool,
    ) -> Option<BackendKey> {
        let logins = self.parties.logins;
        let server = &mut self.servers[to_come.server];
        let account = &logins.identities.identity(login.0).account;
        let is_of_account = |backend: &Backend| {
            let other = &logins.identities.identity(backend.account.identity()).account;
            (&other.user, &other.host) == (&account.user, &account.host)
        };
        let is_own = |backend: &Backend| (backend.account.identity(), backend.login.class) == login;
        // What comes for a statement in front of this one is not among those to come any more.
        let may_be_taken = |&&key: &&BackendKey| {
            let backend = &server.backends[key];
            backend.is_idle() && is_of_account(backend) && !is_own(backend) && may_go(backend)
        };
        let &idle = to_come.backends.iter().find(may_be_taken)?;
        server.backends[idle].account.successor = Successor::Here(login.0);
        Some(idle)
    }

    /// Says whether a backend for this client will be free in a moment: it is in use or being opened, and nobody holds it beyond a
    /// statement.
    fn expects_one(&self, key: ClientKey) -> bool {
        let client = &self.clients[key];
        let server = &self.servers[self.servers.serving(client)];
        let sessions = self.parties.sessions;
        server
            .backends
            .iter()
            .any(|(_, backend)| sessions.fits(backend, client) && backend.passes(self.clients))
    }

    /// Says whether a backend of this login may be opened for a statement that cannot wait: none comes yet, and an attempt makes sense.
    ///
    /// # Errors
    /// The way to room for one, where the account is full: any idle backend of another login gives way at once. `None` where there is no way
    /// now.
    pub(in crate::backend) fn may_open_urgently(
        &mut self,
        server: ServerKey,
        login: Login,
    ) -> Result<(), Option<FullAccount>> {
        let (identity, class) = login;
        let fits = |backend: &Backend| backend.account.identity() == identity && backend.login.class == class;
        let under_way =
            self.servers[server].backends.iter().any(|(_, backend)| !backend.is_ready() && fits(backend));
        if under_way || !self.may_connect(server) {
            return Err(None);
        }
        let room = self.room_of(server, identity);
        if room != AccountRoom::Some {
            // So it is looked at again when the server may be asked.
            self.servers[server].opening.lacks(self.parties.now, login);
        }
        match room {
            AccountRoom::Some => Ok(()),
            AccountRoom::NotNow => Err(None),
            AccountRoom::None { is_known } => {
                let to_come = self.to_come(server, 0);
                let behind = self.idle_of_account(login, &to_come, |_| true).map(FullAccount::Behind);
                Err(behind.or_else(|| (!is_known).then_some(FullAccount::Unknown(identity))))
            }
        }
    }

    /// Says whether an attempt to connect with this login makes sense now.
    fn may_open_as(&self, server: ServerKey, identity: IdentityId) -> bool {
        self.may_connect(server) && self.room_of(server, identity) == AccountRoom::Some
    }

    /// Says whether the server takes one more connection of the identity's account.
    fn room_of(&self, server: ServerKey, identity: IdentityId) -> AccountRoom {
        let Parties { now, logins, pool, .. } = self.parties;
        let (identities, server) = (&logins.identities, &self.servers[server]);
        let comes = |backend: &Backend| !backend.is_ready() && backend.account.identity() == identity;
        let come = || server.backends.iter().filter(|(_, backend)| comes(backend)).count();
        if identities.has_no_room(identity, now) {
            AccountRoom::None { is_known: true }
        } else if identities.refused_until(identity).is_some_and(|until| until > now)
            || (identities.was_full(identity) && come() >= identities.opens_at_a_time(identity))
        {
            AccountRoom::NotNow
        } else if server.has_all_of(&identities.identity(identity).account, pool) {
            AccountRoom::None { is_known: false }
        } else {
            AccountRoom::Some
        }
    }

    /// Says whether an attempt to connect to a server makes sense now. For that the primary has to be known.
    pub(in crate::backend) fn may_connect(&self, server: ServerKey) -> bool {
        self.servers[server].may_connect_now(self.parties.now) && self.knows_primary
    }
}

#[cfg(test)]
mod tests {
    use wire::Capabilities;

    use super::*;
    use crate::backend::Phase;
    use crate::client::commands::command::tests::{engine, open_backends};
    use crate::engine::Engine;
    use crate::ids::client_key;
    use crate::settings::Settings;

    /// Makes an engine with three clients of one account, which has no more room. Its only backend has been idle for long, and is of the login of
    /// the first two clients.
    fn with_full_account() -> Engine {
        let mut engine = engine(3, Settings::default());
        let primary = engine.servers.primary().key;
        engine.servers.primary_mut().reachability.answered();
        let backend = open_backends(&mut engine, &[primary])[0];
        engine.servers[backend].set_phase(Phase::Ready);
        engine.servers[primary].put_idle(backend);
        engine.clients[client_key(2)].capabilities = Capabilities::FOUND_ROWS;
        engine.now = engine.now + LONGEST_WAIT;
        let identity = engine.servers[backend].account.identity();
        engine.logins.identities.takes_no_more(identity, engine.now, false);
        engine
    }

    /// Returns the places for statements of these clients, which wait in this order.
    fn places(engine: &mut Engine, clients: &[u32]) -> Vec<Option<FoundPlace>> {
        let waiting: Vec<_> = clients.iter().map(|&number| client_key(number)).collect();
        let mut taking = engine.taking_places();
        let mut to_come = taking.to_come(taking.servers.primary().key, 16);
        waiting.iter().map(|&key| taking.place_for(key, &waiting, &mut to_come)).collect()
    }

    #[test]
    fn a_full_account_leaves_no_room_to_itself() {
        let mut engine = with_full_account();
        assert!(matches!(places(&mut engine, &[0, 1])[..], [None, None]));
    }

    #[test]
    fn room_of_a_full_account_goes_to_other_capabilities_where_nothing_in_front_waits_for_the_backend() {
        let mut engine = with_full_account();
        assert!(matches!(places(&mut engine, &[0, 2])[..], [None, None]));
        let found = places(&mut engine, &[2, 0]);
        assert!(matches!(found[..], [Some(FoundPlace::OfFullAccount(FullAccount::Behind(_))), None]));
    }

    #[test]
    fn who_is_killed_waits_for_nobody_who_is_idle() {
        let mut engine = with_full_account();
        let primary = engine.servers.primary().key;
        let backend = engine.servers.idle().next().unwrap();
        engine.servers[backend].since = engine.now;
        let [own, other] = [0, 2].map(|number| {
            let client = &engine.clients[client_key(number)];
            (client.identity().unwrap(), client.class())
        });
        let mut taking = engine.taking_places();
        assert_eq!(taking.may_open_urgently(primary, own), Err(None), "it has one");
        assert_eq!(taking.may_open_urgently(primary, other), Err(Some(FullAccount::Behind(backend))));
        let (now, identities) = (engine.now, &mut engine.logins.identities);
        identities.room_comes(other.0, now);
        let soon = identities.refused_until(other.0).unwrap();
        let next = engine.servers.next_place(now, &engine.logins.identities, &engine.pool);
        assert!(soon > now && next.is_some_and(|next| next <= soon), "{next:?}");
    }

    #[test]
    fn a_statement_that_is_not_the_first_is_looked_at_again_when_the_server_may_be_asked() {
        let mut engine = with_full_account();
        let (now, identity) = (engine.now, engine.clients[client_key(0)].identity().unwrap());
        engine.logins.identities.one_has_ended(identity, now);
        assert!(matches!(places(&mut engine, &[2])[..], [None]));
        let soon = engine.logins.identities.refused_until(identity).unwrap();
        let next = engine.servers.next_place(now, &engine.logins.identities, &engine.pool);
        assert!(soon > now && next.is_some_and(|next| next <= soon), "{next:?}");
    }

    /// Others have left, or the limit has been raised, and nobody has been refused since.
    #[test]
    fn an_account_that_has_taken_several_again_is_asked_for_several_at_a_time() {
        let mut engine = with_full_account();
        let primary = engine.servers.primary().key;
        let identity = engine.clients[client_key(0)].identity().unwrap();
        let idle = engine.servers[primary].idle[0];
        engine.servers.primary_mut().idle.remove(idle);
        // Those for the first client that come, and as many others as nobody waits for.
        open_backends(&mut engine, &[primary]);
        let mut second = |taken: u32| {
            for _ in 0..taken {
                engine.logins.identities.has_one_more(identity, engine.now);
            }
            engine.now = engine.now + LONGEST_WAIT;
            let second = places(&mut engine, &[0, 1]).pop().flatten();
            matches!(second, Some(FoundPlace::Free(_)))
        };
        assert!(!second(1), "whether it takes another one is to be seen");
        assert!(second(1));
        engine.logins.identities.takes_no_more(identity, engine.now, false);
        engine.logins.identities.one_has_ended(identity, engine.now);
        engine.now = engine.now + LONGEST_WAIT;
        assert!(matches!(places(&mut engine, &[0, 1])[..], [None, None]), "one has left, and one comes");
    }
}
