//! The counts and measurements of a worker.

use seam::Instant;

use super::rows::{Snapshot, WorkerView};
use crate::backend::{Backend, Permit};
use crate::client::Client;
use crate::client::memory::bytes_held::ClientMemory;
use crate::cluster::following::Following;
use crate::engine::Engine;
use crate::ids::{ClientKey, Table};
use crate::outside::enum_map::EnumMap;
use crate::outside::holders::Holders;
use crate::outside::measures::Measures;
use crate::outside::named::{Limit, LongestWaits, Queue, Use};
use crate::outside::tallies::TalliesByName;
use crate::outside::totals::Totals;
use crate::outside::views::Views;
use crate::outside::waits::{WaitReason, Waits};
use crate::pool::Pool;
use crate::readers::Readers;
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::lane::Class;
use crate::servers::Servers;
use crate::session::SessionTables;
use crate::session::pin_counts::PinReport;
use crate::settings::{Settings, ThreadHandling};

/// Under one of these each statement that starts is counted.
const WHOLE_WAITS: [WaitReason; 4] =
    [WaitReason::HighQueue, WaitReason::LowQueue, WaitReason::LongQueue, WaitReason::Urgent];

/// The counts and measurements of a worker, on all servers. A look changes nothing.
pub struct Figures<'a> {
    pub(in crate::outside) now: Instant,
    pub(in crate::outside) settings: &'a Settings,
    pub(in crate::outside) pool: &'a Pool,
    pub(in crate::outside) clients: &'a Table<ClientKey, Client>,
    pub(in crate::outside) client_memory: &'a ClientMemory,
    pub(in crate::outside) sessions: &'a SessionTables,
    pub(in crate::outside) scheduling: &'a Scheduling,
    pub(in crate::outside) servers: &'a Servers,
    pub(in crate::outside) following: &'a Following,
    pub(in crate::outside) readers: &'a Readers,
    pub(in crate::outside) views: &'a Views,
    /// How many clients have come.
    pub(in crate::outside) connections: u32,
    /// How many backends have been opened, or have changed their account.
    pub(in crate::outside) names_given: u64,
    /// True while an operator has the pool rest.
    pub(in crate::outside) paused: bool,
}

impl Figures<'_> {
    /// How full the tables are now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            clients: self.clients.len(),
            backends: self.servers.backend_count(),
            running: self.scheduling.scheduler.running(),
            waiting: self.scheduling.scheduler.waiting()
                + self.scheduling.shares.waiting(Class::Short)
                + self.scheduling.shares.waiting(Class::Long),
            session_states: self.sessions.states.len(),
            buffered: self.client_memory.statements.bytes(),
        }
    }

    /// Why statements of this worker have waited.
    pub fn waits(&self) -> Waits {
        let mut waits = self.scheduling.waits.clone();
        self.readers.engines().for_each(|reader| waits += &reader.scheduling.waits);
        waits
    }

    /// The measurements on all servers.
    pub fn measures(&self) -> Measures {
        let mut measures = self.views.measures.clone();
        for reader in self.readers.engines() {
            measures += &reader.views.measures;
        }
        // Guests of readers are clients of this engine, and are among its own.
        measures.logged_in = self.views.measures.logged_in;
        measures
    }

    /// Statements and time by users and schemas, where they are counted.
    pub fn tallies(&self) -> TalliesByName {
        let mut tallies = self.views.tallies.clone();
        self.readers.engines().for_each(|reader| tallies += &reader.views.tallies);
        tallies
    }

    /// Backends and their holders, on all servers.
    pub fn holders(&self) -> Holders {
        let mut holders = Holders::of(self.now, self.servers, self.clients);
        holders.pin_times = self.views.pin_counts.times();
        self.readers.engines().for_each(|reader| holders += &reader.figures().holders());
        holders
    }

    /// Why statements were not multiplexed.
    pub fn pin_report(&self) -> PinReport {
        PinReport::new(&self.views.pin_counts, &self.scheduling.digests)
    }

    /// The worker as a whole.
    pub fn overview(&self) -> WorkerView {
        let mut view = self.own_overview();
        self.readers.engines().for_each(|reader| view.take_in(reader.figures().own_overview()));
        view
    }

    fn own_overview(&self) -> WorkerView {
        let backends = || self.servers.backends().map(|(_, backend)| backend);
        let queued = self.scheduling.queued();
        let in_transaction = |backend: &&Backend| backend.holds_transaction(self.clients);
        WorkerView {
            clients: self.clients.len(),
            backends: self.servers.backend_count(),
            idle_backends: self.servers.idle_count(),
            opening_backends: backends().filter(|backend| !backend.is_ready()).count(),
            transactions: backends().filter(in_transaction).count(),
            permits: self.scheduling.scheduler.running(),
            lent: backends().filter(|backend| backend.permit() == Permit::Lent).count(),
            queued,
            waiting_for_replicas: self.readers.reads_waiting(),
            held_up_by: self.scheduling.holdups.now(),
            oldest_queued: self.scheduling.scheduler.oldest_in_need().map(|(_, since)| self.now.since(since)),
            longest_waits: self.longest_waits(),
            is_stalled: self
                .pool
                .wants_permits_since()
                .is_some_and(|since| self.now.since(since) >= self.settings.stall_limit),
            session_states: self.sessions.states.len(),
            buffered: self.client_memory.statements.bytes(),
            connections: u64::from(self.connections),
            stored_code: self.pool.stored_code_view(self.servers.primary()),
            totals: Totals {
                opened_backends: self.names_given - self.views.totals.account_changes,
                kick_ups: self.scheduling.scheduler.kick_ups,
                newest_starts: self.scheduling.scheduler.newest_starts,
                would_refuse_by_queue_wait_limit: self.scheduling.new_work.would_refuse.queue_wait_limit,
                would_refuse_by_queue_delay_target: self.scheduling.new_work.would_refuse.queue_delay_target,
                would_refuse_by_long_queue_wait_limit: self
                    .scheduling
                    .new_work
                    .would_refuse
                    .long_queue_wait_limit,
                ..self.views.totals
            },
            longest_turn: self.views.measures.turn.told(&self.scheduling.digests),
            has_accounts: self.servers.primary().facts.is_some(),
            server_is_up: self.servers.primary().reachability.is_up(),
            paused: self.paused,
            leaves_server: self
                .following
                .leaves_server(self.settings.cluster.several, self.pool.workers.chosen.get()),
            statements: WHOLE_WAITS.iter().map(|&queue| self.scheduling.waits.of(queue).count()).sum(),
            waited_for_permit: self.scheduling.waits.of(WaitReason::Permit).count(),
            blockers: self
                .servers
                .iter()
                .flat_map(|server| &server.blockers)
                .map(|(&client, &blocker)| (client, blocker))
                .collect(),
            in_use: self.in_use(&queued),
            limits_reached: self
                .views
                .limits_reached
                .iter()
                .map(|(&option, reached)| (option, reached.limit, reached.times))
                .collect(),
            refused: self.views.refusals.iter().collect(),
            routed: self.readers.routing().all(),
        }
    }

    fn longest_waits(&self) -> LongestWaits {
        let mut longest = LongestWaits::default();
        let mut note = |queue: Queue, waited| longest[queue] = longest[queue].max(Some(waited));
        // Urgent ones are few: logins for a schema, and orders to end something.
        for (_, since) in &self.scheduling.urgent {
            note(Queue::Urgent, self.now.since(*since));
        }
        for (lane, since) in self.scheduling.scheduler.oldest_by_lane() {
            note(Queue::of(Some(lane)), self.now.since(since));
        }
        for class in Class::ALL {
            if let Some(since) = self.scheduling.shares.waits_since(class) {
                note(Queue::of(Some(class.lane())), self.now.since(since));
            }
        }
        longest
    }

    fn in_use(&self, queued: &EnumMap<Queue, usize>) -> [(Limit, u64); 10] {
        let long = queued[Queue::Long];
        [
            (Limit::StatementMemory, self.client_memory.statements.bytes() as u64),
            // Each of the two has the bound.
            (Limit::LoginMemory, self.client_memory.logins.bytes().max(self.client_memory.handshakes) as u64),
            (Limit::SessionMemory, self.client_memory.session_memory_held(self.sessions) as u64),
            (Limit::HeldAnswerMemory, self.servers.held_answers() as u64),
            (Limit::PreparedStatementMemory, self.sessions.definitions.text_bytes() as u64),
            (Limit::KeptWarningsMemory, self.client_memory.diagnostics as u64),
            (Limit::MaxPreparedStmtCount, u64::from(self.sessions.statement_count())),
            (Limit::DigestsSize, self.scheduling.digests.len() as u64),
            (Limit::QueueLimit, (queued.total() - long) as u64),
            (Limit::LongQueueLimit, long as u64),
        ]
    }

    /// Permits in use and how many there are; backends likewise; backends that short reads share, and how many statements may be in flight
    /// on each, as they are now where they are found; clients: of all workers together. All but clients are of the primary first, and then
    /// of each server that reads go to or are left on.
    pub fn shares(&self) -> Vec<Use> {
        let of_clients = Use {
            limit: Limit::MaxConnections,
            in_use: u64::from(self.pool.workers.clients()),
            bound: u64::from(self.settings.max_connections),
        };
        // Where no read may go, the permits that there would be are nobody's.
        let has_reads = |reader: &&Engine| reader.takes_guests() || !reader.clients.is_empty();
        let of_readers = self.readers.engines().filter(has_reads).map(|reader| reader.figures().own_shares());
        let of_servers = std::iter::once(self.own_shares()).chain(of_readers);
        std::iter::once(of_clients).chain(of_servers.flatten()).collect()
    }

    /// The use of limits at the one server of this engine.
    pub(crate) fn own_shares(&self) -> [Use; 4] {
        let pool = self.settings.thread_handling == ThreadHandling::PoolOfThreads;
        let most = |limit: u32| if pool { u64::from(limit) } else { u64::MAX };
        let in_flight = self.servers.sharing().map(|key| self.servers[key].in_flight.len());
        let most_in_flight = in_flight.max().unwrap_or(0);
        let of = |limit, in_use: u32, bound| Use { limit, in_use: u64::from(in_use), bound };
        let workers = &self.pool.workers;
        [
            of(Limit::Permits, workers.running(), most(workers.permits())),
            of(Limit::MaxBackends, workers.places.taken(), most(workers.places.most())),
            of(Limit::SharedBackends, workers.sharing(), u64::from(workers.all_shared_backends())),
            Use {
                limit: Limit::StatementsInFlight,
                in_use: most_in_flight as u64,
                bound: u64::from(workers.statements_in_flight()),
            },
        ]
    }
}
