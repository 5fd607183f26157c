//! Reads that wait together run once (`coalesce_reads`).
//!
//! Identical plain reads of one user in one session state that are still queued form a *group*: the first of them, its
//! *leader*, stands in the queue, the others are its *followers* and wait for its answer. The one execution begins after
//! the last of them arrived, so that nobody sees anything older than on a connection of its own. Once the leader's statement
//! is on its way to the server nobody joins any more: a later one starts a group of its own.
//!
//! A group's reply is collected and given to all of its members at once, byte for byte: all of them have the same
//! capabilities, and their statements came in one packet each, so that even the sequence numbers are the same. Who is slow
//! to take it thus holds up nobody. A reply that grows beyond `coalesced_reply_size` is relayed to the leader alone, and the
//! followers go back into the queue, each for itself and to where it would stand by now; statements of that kind are left alone
//! for a while then.
//!
//! Where the leader goes or is killed, a follower leads: in the queue at the place of its own arrival, or as the client that has its
//! statement in flight. Where the backend is lost, all of them are told so, as they would be on connections of their own.
//!
//! Followers are named by slot and id, and looked up when it is their turn: one that has gone or was killed is then no
//! longer found in [`crate::client::Phase::Following`] with the group's number, and nobody has to look for it in the groups.

pub(crate) mod followers;
pub(crate) mod group;
pub(crate) mod settings;

use std::collections::VecDeque;

use seam::Instant;
use wire::StatusFlags;

use self::followers::{followers_of, is_following};
use self::group::{CoalescedGroup, Coalescer};
use crate::backend::{InFlight, Owner};
use crate::client::Client;
use crate::client::memory::bytes_held::ClientMemory;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::outbox::Outbox;
use crate::outside::slow_log::noting::Surroundings;
use crate::outside::waits::WaitReason;
use crate::request::{QueryAttributes, Request, RequestKind, may_be_several};
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::lane::{Lane, Standing};
use crate::scheduling::shares::{Arriving, Parties};
use crate::servers::Servers;

/// Longer texts are rare among those that come many times at once, and cost more to compare.
const LARGEST_TEXT: usize = 64 << 10;

impl Scheduling {
    fn found_group(&mut self, key: ClientKey, hash: u64, request: &mut Request) {
        self.coalescer.last_number += 1;
        let number = self.coalescer.last_number;
        let (lane, followers) = (request.turn.lane(), VecDeque::new());
        let group = CoalescedGroup { number, leader: key, lane, followers, reply: Vec::new() };
        self.coalescer.waiting.insert(hash, group);
        request.turn.lead(hash);
    }
}

impl Coalescer {
    /// Says whether others wait for the answer to a client's waiting statement.
    pub(crate) fn leads_others(&self, clients: &Table<ClientKey, Client>, key: ClientKey) -> bool {
        let hash = clients[key].request.as_ref().and_then(|request| request.turn.group());
        let group = hash.and_then(|hash| self.waiting.get(&hash));
        group.is_some_and(|group| {
            group.followers.iter().any(|&follower| is_following(clients, follower, group.number))
        })
    }
}

impl Servers {
    /// The clients that wait for the answer to the first statement in flight on a backend.
    pub(crate) fn followers_behind(
        &self,
        backend: BackendKey,
        clients: &Table<ClientKey, Client>,
    ) -> Vec<ClientKey> {
        let statement = self[backend].in_flight.front();
        let group = statement.and_then(InFlight::group);
        group.map_or_else(Vec::new, |group| followers_of(clients, group))
    }
}

/// Clients with reads that run together, and the parts that change when they do.
pub(crate) struct Coalescing<'a> {
    pub(crate) parties: Parties<'a>,
    pub(crate) scheduling: &'a mut Scheduling,
    pub(crate) clients: &'a mut Table<ClientKey, Client>,
    pub(crate) client_memory: &'a mut ClientMemory,
    pub(crate) servers: &'a mut Servers,
    pub(crate) outbox: &'a mut Outbox,
}

impl Coalescing<'_> {
    /// A statement is about to be queued. Where it has to wait for nothing but the answer to one that waits already: the
    /// number of that group. Else it may have become the leader of a new one.
    pub(crate) fn join_group(&mut self, key: ClientKey, request: &mut Request) -> Option<u64> {
        if !self.may_coalesce(key, request) {
            return None;
        }
        let most = self.parties.settings.coalescing.most as usize;
        let mut hash = self.hash_of(key, request);
        loop {
            let Some(group) = self.scheduling.coalescer.waiting.get(&hash) else {
                self.scheduling.found_group(key, hash, request);
                return None;
            };
            // A hash says nothing for certain.
            if !self.belongs_to(key, request, group) {
                return None;
            }
            if group.followers.len() < most {
                break;
            }
            // It is full: the next one stands beside it.
            hash = hash.wrapping_add(1);
        }
        let follower = self.clients.ref_to(key);
        let group = self.scheduling.coalescer.waiting.get_mut(&hash)?;
        // It may have followed before, been killed, and come again: it is to be answered once.
        group.followers.retain(|other| other.key != follower.key);
        group.followers.push_back(follower);
        let (leader, number) = (group.leader, group.number);
        self.scheduling.scheduler.renew(leader);
        Some(number)
    }

    /// A client's statement leads again, as it did before it was frozen: a group that has stayed, or one in which nobody follows yet. `before`
    /// is where that stood, where it is known.
    pub(crate) fn lead_again(&mut self, key: ClientKey, before: Option<u64>) {
        let Some(mut request) = self.clients[key].request.take() else { return };
        let is_taken = |hash: &u64| self.scheduling.coalescer.waiting.contains_key(hash);
        if let Some(hash) = before.filter(is_taken) {
            request.turn.lead(hash);
        } else {
            let mut hash = before.unwrap_or_else(|| self.hash_of(key, &request));
            while is_taken(&hash) {
                hash = hash.wrapping_add(1);
            }
            self.scheduling.found_group(key, hash, &mut request);
        }
        self.clients[key].request = Some(request);
    }

    /// The hash of the group that a client leads, while that waits.
    pub(crate) fn group_led_by(&self, leader: ClientKey) -> Option<u64> {
        let leader = self.clients.get(leader)?;
        leader
            .request
            .as_ref()?
            .turn
            .group()
            .filter(|hash| self.scheduling.coalescer.waiting.contains_key(hash))
    }

    /// A client's statement follows in that group again, behind those that do.
    pub(crate) fn follow_again(&mut self, key: ClientKey, hash: u64) {
        let follower = self.clients.ref_to(key);
        let Some(group) = self.scheduling.coalescer.waiting.get_mut(&hash) else { return };
        // It has kept its place where the group has stayed.
        if !group.followers.contains(&follower) {
            group.followers.push_back(follower);
        }
        self.clients[key].follow(group.number);
    }

    /// Says whether a read may run once for many: it means the same for all clients of a user, and its end tells all that it
    /// leaves behind.
    fn may_coalesce(&self, key: ClientKey, request: &Request) -> bool {
        let client = &self.clients[key];
        request.statement.repeatable
            && request.command == RequestKind::Query
            && request.answer == 1
            && request.attributes == QueryAttributes::None
            && request.held_for.is_none()
            && request.raw.len() <= LARGEST_TEXT
            && request.text().is_some_and(|text| !may_be_several(text))
            && client.backend.is_none()
            && client.session.status().contains(StatusFlags::AUTOCOMMIT)
            && !client.in_transaction()
            && client.session.unstarted().is_none()
            && client.session.pins().is_empty()
            && client
                .pins_of(request, self.parties.settings, self.servers, &self.parties.sessions.states)
                .is_empty()
            && !self.scheduling.history.is_large(request.statement.fingerprint)
    }

    /// True where text (to the byte), queue, user, session state, capabilities and trackers are those of the group's leader.
    fn belongs_to(&self, key: ClientKey, request: &Request, group: &CoalescedGroup) -> bool {
        let client = &self.clients[key];
        let Some(leader) = self.clients.get(group.leader) else { return false };
        group.lane == request.turn.lane()
            && client.session.id() == leader.session.id()
            && client.identity() == leader.identity()
            && client.capabilities == leader.capabilities
            && client.session.trackers == leader.session.trackers
            && leader.request.as_ref().is_some_and(|first| first.raw == request.raw)
    }

    /// Multiplied and rotated eight bytes at a time, with the multiplier of the fingerprints: good enough to look up what is
    /// compared then, and the same in every run.
    fn hash_of(&self, key: ClientKey, request: &Request) -> u64 {
        let client = &self.clients[key];
        let mut hash = u64::from(client.session.id().map_or(0, |session| session.number()));
        let mut fold = |bits: u64| hash = (hash.rotate_left(5) ^ bits).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fold(client.capabilities.0);
        fold(u64::from(client.identity().map_or(0, |identity| identity.number())));
        fold(request.turn.lane().map_or(0, |lane| 1 + lane as u64));
        for chunk in request.raw.chunks(8) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            fold(u64::from_le_bytes(eight));
        }
        hash ^ hash >> 32
    }

    /// A client is about to leave the queue without having its waiting statement run. A follower takes over its place.
    pub(crate) fn leave_group(&mut self, key: ClientKey) {
        if let Some(hash) = self.clients[key].request.as_mut().and_then(|request| request.turn.leave_group())
        {
            self.pass_on(hash);
        }
    }

    /// The leader of a group goes another way than its followers.
    pub(crate) fn pass_on(&mut self, hash: u64) {
        let Some(mut group) = self.scheduling.coalescer.waiting.remove(&hash) else { return };
        let Some(next) = group.next_follower(self.clients) else { return };
        self.take_place_of(next, hash);
        group.leader = next;
        self.scheduling.coalescer.waiting.insert(hash, group);
    }

    /// A follower leads from now on, and waits where it would have waited alone.
    fn take_place_of(&mut self, next: ClientKey, hash: u64) {
        let client = &mut self.clients[next];
        client.go_alone();
        let request = client.request.as_mut().expect("a follower that was not answered has a request");
        request.turn.lead(hash);
        let (lane, since) = (request.turn.lane().unwrap_or(Lane::Low), request.turn.arrived_at());
        self.queue_alone(next, lane, since);
    }

    /// Queues the statement of a client that holds nothing, and has waited since then.
    fn queue_alone(&mut self, key: ClientKey, lane: Lane, since: Instant) {
        let began = self.clients[key].transaction.began();
        let standing = Standing { in_transaction: false, holds_locks: false, blocks_others: false, began };
        let arriving = Arriving::new_work(since, key, lane, standing);
        self.scheduling.queue_for_share(&self.parties, self.clients, self.servers, &arriving);
    }

    /// The leader's statement goes to the server now: nobody joins any more. `None` where nobody follows.
    pub(crate) fn begin_group(&mut self, request: &mut Request) -> Option<Box<CoalescedGroup>> {
        let hash = request.turn.leave_group()?;
        let mut group = self.scheduling.coalescer.waiting.remove(&hash)?;
        group.followers.retain(|&follower| is_following(self.clients, follower, group.number));
        for follower in &group.followers {
            let key = follower.key;
            let Some(mut request) = self.clients[key].request.take() else { continue };
            // The whole wait is counted once the answer is known to be its own too.
            request.turn.waited_until(self.parties.now);
            self.scheduling.note_parts(self.parties.now, request.turn.arrival());
            self.scheduling.note_begun(
                self.parties.now,
                self.parties.settings,
                (key, &mut self.clients[key]),
                &request,
            );
            self.surroundings().note_slow_start(key, &mut request);
            let bytes = request.bytes();
            self.client_memory.statements.set(&mut request.bytes.counted, bytes);
            self.clients[key].request = Some(request);
        }
        (!group.followers.is_empty()).then(|| Box::new(group))
    }

    /// The wait of a follower that is answered with the leader is counted.
    pub(crate) fn count_wait(&mut self, key: ClientKey) {
        if let Some(request) = &self.clients[key].request {
            let queue = request.turn.lane().map_or(WaitReason::Urgent, WaitReason::of_lane);
            self.scheduling.waits.record(queue, request.turn.waited());
        }
    }

    /// The parts that are looked at where a statement may be worth a line of the slow log.
    fn surroundings(&self) -> Surroundings<'_> {
        let Parties { now, settings, pool, logins, sessions } = self.parties;
        let (clients, servers, scheduling) = (&*self.clients, &*self.servers, &*self.scheduling);
        Surroundings { now, settings, pool, clients, servers, logins, sessions, scheduling }
    }

    /// A client is about to let go of its statement in flight. Returns true where a follower has taken its place: the
    /// statement is that client's from now on, and so is the former one's hold on the backend.
    pub(crate) fn hand_over(&mut self, key: ClientKey) -> bool {
        let Some(backend_key) = self.clients[key].backend else { return false };
        let mut statements = self.servers[backend_key].in_flight.iter();
        let Some(place) = statements.position(|s| s.group().is_some() && s.owner.client() == Some(key))
        else {
            return false;
        };
        let backend = &mut self.servers[backend_key];
        let statement = &mut backend.in_flight[place];
        let Some(next) = statement.next_of_group(self.clients) else { return false };
        statement.end_by_itself();
        let settles = match &mut statement.owner {
            Owner::SaveDiagnostics { client } => {
                *client = next;
                true
            }
            owner => {
                *owner = Owner::Client { client: next, command: RequestKind::Query };
                false
            }
        };
        backend.hand_over(key, (next, self.clients[next].id));
        self.scheduling.shares.hand_over(key, next);
        self.clients[key].backend = None;
        self.clients.server_keeps_up(key, self.outbox);
        self.clients[next].backend = Some(backend_key);
        self.clients[next].take_over(settles);
        // Its text has been sent, so to say.
        if let Some(mut request) = self.client_memory.lift_request(&mut self.clients[next]) {
            request.forget_bytes();
            self.client_memory.put_request_back(&mut self.clients[next], request);
        }
        true
    }

    /// The reply has grown too large to be kept for all: the leader gets it as it comes, the others go by themselves.
    pub(crate) fn dissolve_group(&mut self, backend_key: BackendKey) {
        let Some(statement) = self.servers[backend_key].in_flight.front_mut() else { return };
        let Some(group) = statement.leaves_group() else { return };
        let (leader, fingerprint) = (statement.owner.client(), statement.fingerprint);
        self.scheduling.history.note_large(fingerprint);
        if let Some(leader) = leader {
            self.outbox.send(self.clients[leader].connection, &group.reply);
            if self.clients[leader].activity.stalled_since().is_some() {
                let client = (leader, &mut self.clients[leader]);
                let scheduler = &mut self.scheduling.scheduler;
                self.servers.client_stalled(self.parties.now, client, self.outbox, scheduler);
            }
        }
        for follower in followers_of(self.clients, &group) {
            self.goes_alone(follower);
        }
    }

    /// A follower goes back into the queue, to where it would stand if it had come alone.
    pub(crate) fn goes_alone(&mut self, key: ClientKey) {
        let Some(mut request) = self.clients[key].request.take() else { return };
        let (settings, workers) = (self.parties.settings, &self.parties.pool.workers);
        let long = self.scheduling.joins_long_lane(
            self.parties.now,
            settings,
            workers,
            &self.clients[key],
            &request,
        );
        let lane = if long { Lane::Long } else { request.turn.lane().unwrap_or(Lane::Low) };
        let since = request.turn.arrived_at();
        // What it has waited for up to now is counted.
        request.turn.moves_to(lane, &self.scheduling.holdups, self.parties.now, long);
        self.clients[key].request = Some(request);
        self.clients[key].go_alone();
        self.queue_alone(key, lane, since);
    }
}
