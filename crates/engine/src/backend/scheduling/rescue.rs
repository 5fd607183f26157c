//! Rescues short reads that stand behind a stuck one, on a backend that they share (`rescue_reads`).
//!
//! A read that has never met a lock is sent behind others like any, and others behind it. Where it meets one (LOCK TABLES), the reads
//! behind it would wait for that lock too, since the server reads commands in order. So after a while they go back to their places in
//! the queue, and from there to other backends. The server's later answers to the first sending are thrown away. Nothing is killed: the
//! stuck read keeps its place in the server's queue for the lock.
//!
//! With one server this is the one case in which a statement is sent twice. The server has not begun with it at that time, since it has
//! not answered the one before it. Later it runs the statement once more, for nobody. That is harmless for reads that may be in flight
//! behind others at all: plain SELECTs outside of transactions, without a stored function, that lock nothing and leave nothing behind.
//! The text does not show a view that calls a function. So the service account asks first, each time, whether there is any stored or
//! loaded function. Where there is one, or that cannot be seen, nothing is sent again, and the reads behind the stuck one wait.

pub(crate) mod allowance;

use seam::Instant;

use crate::backend::{Backend, Ends, InFlight, Owner};
use crate::client::{Client, Phase, Running};
use crate::ids::{BackendKey, ClientKey, Table};
use crate::request::RequestKind;
use crate::scheduling::Scheduling;
use crate::scheduling::coalescing::group::CoalescedGroup;
use crate::scheduling::learned::history::STUCK;
use crate::scheduling::scheduler::Need;
use crate::scheduling::scheduler::lane::Standing;
use crate::server::Server;
use crate::servers::Servers;
use crate::settings::Settings;

/// A read that was taken off the backend on which it stood behind a stuck one.
pub(in crate::backend) struct Rescued {
    pub(in crate::backend) client: ClientKey,
    /// Order to end the read, as it stood.
    pub(in crate::backend) ends: Ends,
    /// Clients that wait for its answer.
    pub(in crate::backend) group: Option<Box<CoalescedGroup>>,
}

impl Servers {
    /// Returns the backends on which reads stand behind a stuck one.
    pub(in crate::backend) fn with_stuck_reads(
        &self,
        now: Instant,
        settings: &Settings,
        clients: &Table<ClientKey, Client>,
    ) -> Vec<BackendKey> {
        let is_due =
            |&key: &BackendKey| self.of(key).rescue_due(settings, clients, key).is_some_and(|due| due <= now);
        self.sharing().filter(is_due).collect()
    }

    /// Returns the time at which [`Self::with_stuck_reads`] finds another.
    pub(crate) fn next_rescue(
        &self,
        now: Instant,
        settings: &Settings,
        clients: &Table<ClientKey, Client>,
    ) -> Option<Instant> {
        // What is due has been done, or waits for an answer of the server, which makes a turn.
        let due = self.sharing().filter_map(|key| self.of(key).rescue_due(settings, clients, key));
        due.filter(|&due| due > now).min()
    }
}

impl Server {
    /// Returns the time at which the first statement on a backend will count as stuck, so that others behind it go elsewhere.
    fn rescue_due(
        &self,
        settings: &Settings,
        clients: &Table<ClientKey, Client>,
        key: BackendKey,
    ) -> Option<Instant> {
        let backend = &self.backends[key];
        let others = || backend.in_flight.iter().skip(1).any(|other| backend.may_lose(clients, other));
        (settings.rescue_reads && self.rescues.may_have_one() && others())
            .then(|| backend.first.since + STUCK)
    }

    /// Takes the reads off a backend that stand behind the stuck one, as many as may be sent again.
    pub(in crate::backend) fn rescue(
        &mut self,
        key: BackendKey,
        clients: &Table<ClientKey, Client>,
    ) -> Vec<Rescued> {
        let backend = &mut self.backends[key];
        // By then all had been sent that are behind it.
        if !self.rescues.are_harmless(backend.first.since + STUCK) {
            return Vec::new();
        }
        let mut rescued = Vec::new();
        for place in 1..backend.in_flight.len() {
            if !backend.may_lose(clients, &backend.in_flight[place]) || !self.rescues.take_one() {
                continue;
            }
            let statement = &mut backend.in_flight[place];
            let Some(client) = statement.owner.client() else { continue };
            // What the server says to it is for nobody, and counts nowhere.
            statement.owner = Owner::Abandoned;
            statement.fingerprint = 0;
            rescued.push(Rescued { client, ends: statement.ends, group: statement.group.take() });
        }
        rescued
    }
}

impl Backend {
    /// Says whether a read may leave the backend: one of another kind or state than the first. The first one's kind would meet the same lock.
    fn may_lose(&self, clients: &Table<ClientKey, Client>, statement: &InFlight) -> bool {
        let Owner::Client { client, command: RequestKind::Query | RequestKind::Execute } = statement.owner
        else {
            return false;
        };
        let client = &clients[client];
        let in_its_state = |other: ClientKey| clients[other].session.id() == client.session.id();
        let of_its_kind = self.in_flight.front().is_some_and(|first| {
            first.fingerprint == statement.fingerprint && first.owner.client().is_none_or(in_its_state)
        });
        let has_text = client.request.as_ref().is_some_and(|request| !request.raw.is_empty());
        statement.shared
            && !of_its_kind
            && matches!(client.phase(), Phase::Running(Running::OnServer))
            && !client.loss.killed
            && has_text
    }
}

impl Scheduling {
    /// Notes that the first statement on a backend is stuck.
    pub(in crate::backend) fn note_stuck(&mut self, now: Instant, backend: &Backend) {
        // Not where it is its client that is slow, in taking the answer.
        if let Some(first) = backend.in_flight.front().filter(|first| first.summary.relayed == 0) {
            self.digests.note_stuck(now, first.fingerprint);
        }
    }

    /// Puts a client's statement back to its place in its queue.
    pub(in crate::backend) fn queue_again(&mut self, now: Instant, key: ClientKey, client: &mut Client) {
        client.backend = None;
        client.queue_again();
        let began = client.transaction.began();
        let request = client.request.as_mut().expect("looked at by the caller");
        request.prepared = false;
        request.turn.starts_anew();
        let lane = request.turn.waits_again(&self.holdups, now);
        let since = request.turn.arrived_at();
        let standing = Standing { began, ..Standing::default() };
        self.scheduler.enqueue(since, key, lane, Need::Any, standing);
    }
}
