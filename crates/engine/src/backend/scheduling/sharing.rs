//! The backends on which short reads follow each other.
//!
//! Reads of one account in one session state follow each other as they are. All reads of an account may follow all others where there are
//! more than twice as many states as backends that may be shared. So they may where the backends of one state are full and the other states
//! differ in their schema alone. Then a SET and a USE go ahead of a read in one text with it, so that the read does not run where its state
//! cannot be set. As long as texts that bring another state are in flight, nobody knows in which state the next read will find the backend.
//! So that read brings its own state along ([`crate::backend::to_server::brought`]).
//!
//! Among many accounts or states, two of the same seldom stand one behind the other in the queue. So while the first statement waits for a
//! permit, reads behind it follow others of their own account and state that have begun lately.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::time::Duration;

use seam::Instant;
use wire::{Capabilities, StatusFlags};

use crate::accounts::IdentityId;
use crate::backend::scheduling::shared_backends::{Share, Sharers};
use crate::backend::to_server::message::{LARGEST_JOINED, can_be_joined};
use crate::backend::{Afterwards, InFlight};
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::outside::waits::Lack;
use crate::request::{Request, RequestKind, may_be_several};
use crate::scheduling::Scheduling;
use crate::scheduling::learned::history::SHORT;
use crate::scheduling::scheduler::lane::Lane;
use crate::scheduling::shares::Parties;
use crate::server::Server;
use crate::servers::Servers;
use crate::session::{SessionId, SessionState, Sessions};
use crate::workers::full_accounts::Recipient;

/// The place of a statement towards backends that others share.
pub(in crate::backend) enum Sharing {
    /// The read goes to this backend.
    With(BackendKey),
    /// The read belongs on a shared backend, and all are full: they will have room in a moment.
    Full,
    /// The read goes on its own.
    Alone,
}

/// The backends that a client's short reads could join.
struct Shared {
    /// Number of such backends at work.
    running: usize,
    /// Number of such backends that should be at work.
    most: usize,
    /// The backend with the least in flight, if any has room.
    with_room: Option<BackendKey>,
}

/// The part of its session state that a read may bring along to a backend at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Brings {
    Nothing,
    Schema,
    State,
}

/// Number of statements behind the first that are looked at for followers. That takes some microseconds a turn.
pub(in crate::backend) const LOOK_FOR_FOLLOWERS: usize = 128;

impl Scheduling {
    /// Returns the kind of reads that alone may share a backend with this one; `None` for a read of a kind that is not stuck now and then. A
    /// stuck read holds up the reads behind it, which should not be of other kinds.
    pub(in crate::backend) fn only_kind(&self, now: Instant, request: &Request) -> Option<u64> {
        let kind = request.statement.fingerprint;
        self.digests.may_be_stuck(now, kind).then_some(kind)
    }

    /// Returns the time from which on reads that wait for room on a shared backend go elsewhere: then the next of these has said nothing for
    /// longer than a short read takes. Nothing else may happen until then.
    pub(crate) fn next_silence(&self, now: Instant, servers: &Servers) -> Option<Instant> {
        if self.holdups.now().others != Some(Lack::StatementsInFlight) {
            return None;
        }
        let silent = servers.sharing().map(|key| servers[key].first.since + SHORT + Duration::from_micros(1));
        silent.filter(|&silent| silent > now).min()
    }
}

impl Client {
    /// Returns the account and state of reads that its own follow as they are.
    pub(in crate::backend) fn sharers(&self) -> Option<Sharers> {
        Some((self.identity()?, self.session.id()?))
    }
}

impl Servers {
    /// Notes that a read with a state of its own has ended, though its client has gone, or asks elsewhere. The state stands on the backend, or
    /// the backend is in doubt and goes.
    pub(crate) fn brought_state_stands(
        &mut self,
        key: BackendKey,
        statement: &InFlight,
        sessions: &mut Sessions,
    ) {
        let Some(brought) = &statement.brings else { return };
        if statement.summary.preludes_done < statement.preludes {
            self[key].afterwards = Afterwards::Close;
            return;
        }
        if statement.prelude_effects.schema {
            self.of_mut(key).note_rights_taken_up(key);
        }
        let session = sessions.hold(SessionState::clone(brought));
        self.set_backend_session(key, session, sessions);
    }
}

/// Reads that are to share backends, and the parts that decide about them.
pub(in crate::backend) struct SharedReads<'a> {
    pub(in crate::backend) parties: Parties<'a>,
    pub(in crate::backend) scheduling: &'a Scheduling,
    pub(in crate::backend) clients: &'a Table<ClientKey, Client>,
    pub(in crate::backend) servers: &'a mut Servers,
}

impl SharedReads<'_> {
    /// Returns the place of a short read. It follows others on a backend that is reading already, where there are enough of those or no permit
    /// is left, since it shares that backend's permit.
    pub(in crate::backend) fn place_of(&mut self, key: ClientKey) -> Sharing {
        let client = &self.clients[key];
        let request = client.request.as_ref().expect("a queued client has a request");
        let workers = &self.parties.pool.workers;
        if client.backend.is_some() || !self.may_share(key, request) || workers.statements_in_flight() < 2 {
            return Sharing::Alone;
        }
        let Some(sharers) = client.sharers() else { return Sharing::Alone };
        let most = workers.shared_backends(self.parties.pool.worker) as usize;
        let server = self.servers.serving(client);
        let share = self.servers[server].sharing.share_of(self.parties.now, sharers, most);
        let shared = self.shared_backends_for(key, &self.servers[server], sharers, share);
        let enough = shared.running >= shared.most;
        match shared.with_room {
            Some(backend) if enough || !self.scheduling.scheduler.has_permit(key) => Sharing::With(backend),
            None if enough => Sharing::Full,
            _ => Sharing::Alone,
        }
    }

    /// Returns the accounts and states with reads that may follow out of turn while the first statement waits. Its own are not among them.
    pub(in crate::backend) fn followed_beside(&self, first: ClientKey) -> BTreeSet<Sharers> {
        let client = &self.clients[first];
        let server = &self.servers[self.servers.serving(client)];
        let mut followed = server.sharing.followed_out_of_turn(self.parties.now);
        // What has kept the first one back keeps all of its like.
        if let Some(sharers) = client.sharers() {
            followed.remove(&sharers);
        }
        followed
    }

    /// Says whether a read may share a backend: its kind has been short lately, hardly one aside, and its client's reads open no transaction
    /// and leave nothing behind.
    pub(in crate::backend) fn may_share(&self, key: ClientKey, request: &Request) -> bool {
        let client = &self.clients[key];
        request.statement.plain_read
            && !request.tries.sent_before.is_so()
            && request.raw.len() <= LARGEST_JOINED // it would be kept, see `rescue.rs`
            && !matches!(request.turn.lane(), Some(Lane::Long | Lane::Contended))
            && client.session.status().contains(StatusFlags::AUTOCOMMIT)
            && client.session.unstarted().is_none()
            && client.pins_of(request, self.parties.settings, self.servers, &self.parties.sessions.states).is_empty()
            && ((request.command == RequestKind::Query && request.text().is_some())
                || request.is_plain_execution())
            && self.scheduling.history.is_harmless(request.statement.fingerprint)
            // One that waits for a lock now and then would hold up those behind it for as long.
            && !self.scheduling.digests.is_long(request.statement.fingerprint, self.parties.settings.stall_limit)
            && !self.servers.had_contended_kind(self.parties.now, client, &self.parties.sessions.states, request)
            // What others share cannot be asked.
            && !request.rows.found.is_unknown()
    }

    /// Returns the backends that a client's read can join. A kind that may be stuck joins its own alone. A prepared read needs its statement.
    fn shared_backends_for(
        &self,
        key: ClientKey,
        server: &Server,
        (identity, session): Sharers,
        share: Share,
    ) -> Shared {
        let at_work = |most, brings, candidates: &mut dyn Iterator<Item = BackendKey>| {
            self.those_at_work(key, server, session, (most, brings), candidates)
        };
        let sharing = &server.sharing;
        if share.state == 0 {
            // Those in which it stands, whoever were the first there.
            let standing = at_work(1, Brings::Nothing, &mut sharing.of_account(identity));
            if standing.with_room.is_some() || !self.may_bring_state(key) {
                return standing;
            }
            return at_work(share.account, Brings::State, &mut sharing.of_account(identity));
        }
        let own = at_work(share.state, Brings::Schema, &mut sharing.of((identity, session)));
        // They have one of their own where they were among the first, or differ in more than their schema.
        if own.with_room.is_some() || own.running < own.most || !self.may_bring_state(key) {
            return own;
        }
        let is_of_others = |&other: &BackendKey| {
            let others = self.parties.sessions.states.state(self.servers[other].session.id());
            !others.is_but_for_schema(self.parties.sessions.states.state(session))
        };
        let others = sharing.of_account(identity).filter(is_of_others).count();
        let most = share.account.saturating_sub(others).max(1);
        at_work(most, Brings::Schema, &mut sharing.of_account(identity))
    }

    /// Returns the shared backend that is to run empty for another worker, since the server takes no more connections of its account.
    fn leaving_of_account(&self, server: &Server, identity: IdentityId) -> Option<BackendKey> {
        let Parties { now, pool, logins, .. } = self.parties;
        let last = server.sharing.of_account(identity).last()?;
        let recipient = pool.gets_room_of(now, (server, last), &logins.identities, self.clients, true);
        matches!(recipient, Recipient::Worker(_)).then_some(last)
    }

    /// Returns those of the candidates that a client's read can join, `most` of which should be at work.
    fn those_at_work(
        &self,
        key: ClientKey,
        server: &Server,
        session: SessionId,
        (most, brings): (usize, Brings),
        candidates: &mut dyn Iterator<Item = BackendKey>,
    ) -> Shared {
        let client = &self.clients[key];
        let request = client.request.as_ref().expect("looked at by the caller");
        let may_bring = LazyCell::new(|| brings != Brings::Nothing && self.may_bring_state(key));
        let (only_kind, about) =
            (self.scheduling.only_kind(self.parties.now, request), request.about.as_deref());
        let mut shared = Shared { running: 0, most, with_room: None };
        let mut fewest = self.parties.pool.workers.statements_in_flight() as usize;
        let leaving = server
            .sharing
            .iter()
            .next_back()
            .filter(|_| self.parties.pool.is_to_leave_a_backend())
            .or_else(|| self.leaving_of_account(server, client.identity()?));
        for candidate in candidates.filter(|&key| Some(key) != leaving) {
            let backend = &self.servers[candidate];
            // One that has not answered for so long may be waiting for a lock: nobody should queue behind it.
            let moves = self.parties.now.since(backend.first.since) <= SHORT;
            let state_stands = backend.session.id() == session && !self.parties.sessions.others_come(backend);
            let can_be_brought =
                || self.parties.sessions.can_be_brought(session, backend, brings == Brings::Schema);
            let same = self.parties.sessions.fits(backend, client)
                && (state_stands || (*may_bring && can_be_brought()))
                && backend.only_kind == only_kind
                && about.is_none_or(|about| server.statement_for(candidate, about).is_some());
            if !same || !moves || backend.afterwards != Afterwards::Keep || !backend.shares() {
                continue;
            }
            shared.running += 1;
            // What is beyond the number that should share runs empty.
            if shared.running <= most && backend.in_flight.len() < fewest {
                fewest = backend.in_flight.len();
                shared.with_room = Some(candidate);
            }
        }
        shared
    }

    /// Says whether the client's session state can go ahead of its read in one text with it.
    fn may_bring_state(&self, key: ClientKey) -> bool {
        let client = &self.clients[key];
        let request = client.request.as_ref().expect("looked at by the caller");
        // What was stuck lately waits for a lock in one schema perhaps, and should not hold up reads in others.
        if self.scheduling.only_kind(self.parties.now, request).is_some() {
            return false;
        }
        client
            .session
            .id()
            .is_some_and(|session| self.parties.sessions.states.state(session).can_say_schema())
            && can_be_joined(request)
            && (client.capabilities.contains(Capabilities::MULTI_STATEMENTS)
                || request.text().is_some_and(|text| !may_be_several(text)))
    }

    /// Says whether short reads would be sooner on more backends than may share them now: as many wait there behind others as are being read.
    /// False where the option gives the number: nobody looks for a better one.
    pub(in crate::backend) fn wait(&self) -> bool {
        let sharing = self.servers.sharing_count();
        self.parties.settings.shared_backends == 0
            && sharing >= self.parties.pool.workers.shared_backends(self.parties.pool.worker) as usize
            && self.servers.sharing().map(|key| self.servers[key].in_flight.len()).sum::<usize>()
                >= 2 * sharing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::IdentityId;
    use crate::client::commands::command::tests::{engine, open_backends};
    use crate::settings::Settings;
    use crate::timers::list::Timer;

    #[test]
    fn reads_that_wait_for_room_look_again_once_a_backend_is_silent() {
        let mut engine = engine(1, Settings::default());
        let server = engine.servers.primary().key;
        let session =
            engine.clients.iter().find_map(|(_, client)| client.session.id()).expect("it has logged in");
        let at = |micros: u64| Instant::from_micros(micros);
        for (key, since) in open_backends(&mut engine, &[server, server]).into_iter().zip([1_000, 2_000]) {
            engine.servers[key].first.since = at(since);
            engine.servers[server].sharing.add(at(since), key, (IdentityId::of_test(0), session));
        }
        let silence = SHORT + Duration::from_micros(1);
        engine.now = at(3_000);
        assert_eq!(engine.timer(Timer::SilentReads), None, "nobody waits for room");
        engine.scheduling.holdups.note(engine.now, Some(Lack::StatementsInFlight), None);
        assert_eq!(engine.timer(Timer::SilentReads), Some(at(1_000) + silence));
        engine.now = at(1_000) + silence;
        assert_eq!(
            engine.timer(Timer::SilentReads),
            Some(at(2_000) + silence),
            "the first one counts no more"
        );
        engine.now = at(2_000) + silence;
        assert_eq!(engine.timer(Timer::SilentReads), None);
    }
}
