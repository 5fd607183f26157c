//! The things that the workers of one pool share: permits, and the counts that have a bound.
//!
//! Each worker is an [`crate::Engine`] on a driver of its own, with its own clients and backends. The limits of the server's work
//! are common, so that no worker keeps permits while another has statements waiting: permits go by the order in which statements
//! arrived, on whatever worker. A worker that finds none says so here ([`Workers::want`]), and the worker that gives one back
//! wakes it.
//!
//! All of it is a few atomic numbers, a few tables that only logins look into, and what is known of stored code, which seldom
//! changes. With one worker, or several on one thread as in the simulator, it is deterministic.

pub(crate) mod account_connections;
mod frozen;
pub(crate) mod full_accounts;
pub(crate) mod letter;
mod names;
pub(crate) mod onramps;
mod permits;
pub(crate) mod place;
pub(crate) mod places;
pub(crate) mod serving;
pub(crate) mod users;

pub(crate) use permits::Extra;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use seam::Instant;

use crate::accounts::failed_logins::FailedLogins;
use crate::accounts::secret::KnownPasswords;
use crate::cluster::chosen::Chosen;
use crate::readers::replicas::Replicas;
use crate::scheduling::learned::limit::{Division, Meter, Range, Served};
use crate::scheduling::learned::long_permits::{Allowed, LongEnd, LongPermits};
use crate::scheduling::learned::way::Way;
use crate::scheduling::overload::queue_lengths::QueueLengths;
use crate::server::stored_code::SharedCode;
use crate::settings::{Settings, ThreadHandling};
use crate::workers::onramps::Onramps;
use crate::workers::permits::Permits;
use crate::workers::place::QueuePlace;
use crate::workers::places::{FIRST, Places};
use crate::workers::serving::Serving;
use crate::workers::users::Users;

/// The state that the workers of one pool share.
#[derive(Debug)]
pub struct Workers {
    /// How many statements may execute at the same time, and how many do.
    permits: Permits,
    pub(crate) way: Way,
    /// How many of them long statements may have.
    long: LongPermits,
    /// The places: how many backends each worker may have.
    pub(crate) places: Places,
    pub(crate) users: Users,
    pub(crate) serving: Serving,
    pub(crate) queue_lengths: QueueLengths,
    pub(crate) passwords: KnownPasswords,
    pub(crate) failed_logins: FailedLogins,
    pub(crate) stored_code: Arc<SharedCode>,
    pub(crate) chosen: Chosen,
    /// The same for all servers of an Onramp.
    pub(crate) onramps: Arc<Onramps>,
    pub(crate) replicas: Replicas,
    connections: Connections,
    shared_reads: SharedReads,
    /// The time when the server was last asked for lock waits, in microseconds.
    lock_waits_asked: AtomicU64,
    /// The time until which users have shares, because one crowds out another, in microseconds.
    crowded_until: AtomicU64,
    /// The time until which a user who has nothing under way waits for permits that other workers hold, in microseconds.
    shut_out_until: AtomicU64,
    /// Counts statements that had to queue: the order of all queues.
    arrivals: AtomicU64,
    seats: Box<[Seat]>,
}

/// Short reads that follow each other on backends.
#[derive(Debug)]
struct SharedReads {
    /// Backends that may be shared.
    backends: AtomicU32,
    /// Statements that may be in flight on each of these.
    in_flight: AtomicU32,
    /// How many both should be, where that is to be found.
    meter: Meter<2>,
}

/// Clients' connections, of which there is a most.
#[derive(Debug)]
struct Connections {
    most: u32,
    clients: AtomicU32,
}

/// A worker's word about itself.
#[derive(Debug)]
struct Seat {
    /// The place of its first statement that waits for nothing but a permit; [`NOBODY`] where there is none.
    wants: AtomicU64,
    /// Bytes of its waiting statements.
    bytes: AtomicUsize,
    /// The number of backends that it runs shared reads on.
    sharing: AtomicU32,
    /// True where short reads wait for room on these.
    is_full: AtomicBool,
    /// True if the worker has been woken and has not looked yet.
    woken: AtomicBool,
}

/// No statement waits for a permit.
const NOBODY: u64 = u64::MAX;

/// The divisor of the permits up to which their use is small: what runs is hardly held up by what runs beside it.
const MANY: u32 = 4;

impl Workers {
    /// The common ground of `count` workers with the same settings.
    ///
    /// # Panics
    ///
    /// If a bound or `count` is zero: the table of options does not let that through.
    pub fn new(settings: &Settings, count: u32) -> Arc<Self> {
        Self::among(Arc::default(), settings, count)
    }

    /// The same where these Onramps are in front of the servers.
    pub(crate) fn among(onramps: Arc<Onramps>, settings: &Settings, count: u32) -> Arc<Self> {
        assert!(count > 0, "somebody has to work");
        assert!(settings.max_connections > 0, "the bound is at least one");
        let backends = match (settings.thread_handling, settings.max_backends) {
            (ThreadHandling::OneThreadPerConnection, _) => u32::MAX - 1,
            (_, 0) => FIRST.min(settings.most_backends).max(count),
            (_, given) => given,
        };
        let seat = || Seat {
            wants: AtomicU64::new(NOBODY),
            bytes: AtomicUsize::new(0),
            sharing: AtomicU32::new(0),
            is_full: AtomicBool::new(false),
            woken: AtomicBool::new(false),
        };
        let workers = Self {
            permits: Permits::new(settings, backends),
            way: Way::new(),
            long: LongPermits::new(settings.long_permits, settings.most_long_statements(backends), count),
            places: Places::new(backends, count),
            users: Users::new(count),
            serving: Serving::default(),
            queue_lengths: QueueLengths::new(count),
            passwords: KnownPasswords::default(),
            failed_logins: FailedLogins::default(),
            stored_code: Arc::default(),
            chosen: Chosen::default(),
            replicas: Replicas::new(&onramps, settings, count),
            onramps,
            connections: Connections { most: settings.max_connections, clients: AtomicU32::new(0) },
            shared_reads: SharedReads {
                backends: AtomicU32::new(settings.shared_backends.max(1)),
                in_flight: AtomicU32::new(settings.statements_in_flight.max(1)),
                meter: Meter::new([
                    settings.shared_backends_range(Division::NONE),
                    settings.in_flight_range(),
                ]),
            },
            lock_waits_asked: AtomicU64::new(0),
            crowded_until: AtomicU64::new(0),
            shut_out_until: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            seats: (0..count).map(|_| seat()).collect(),
        };
        workers.take_up_limits(workers.permits.meter.limits(), workers.shared_reads.meter.limits());
        Arc::new(workers)
    }

    /// The number of workers.
    pub fn count(&self) -> u32 {
        u32::try_from(self.seats.len()).expect("made from a u32")
    }

    /// The time until which users have shares ([`crate::scheduling::shares`]).
    pub(crate) fn crowded_until(&self) -> Instant {
        Instant::from_micros(self.crowded_until.load(SeqCst))
    }

    /// Users have shares until then, or longer.
    pub(crate) fn prolong_crowding(&self, until: Instant) {
        self.crowded_until.fetch_max(until.as_micros(), SeqCst);
    }

    /// Says whether a user who has nothing under way waits on some worker that has no permit to lend.
    pub(crate) fn shut_a_user_out(&self, now: Instant) -> bool {
        now.as_micros() < self.shut_out_until.load(SeqCst)
    }

    /// Prolongs that until then. Returns true where nobody has said so lately.
    pub(crate) fn prolong_shutting_out(&self, now: Instant, until: Instant) -> bool {
        self.shut_out_until.fetch_max(until.as_micros(), SeqCst) <= now.as_micros()
    }

    /// How many permits there are.
    pub(crate) fn permits(&self) -> u32 {
        self.permits.all()
    }

    /// Changes how many permits there are. With fewer, those beyond them are not given again once they come back.
    pub(crate) fn change_permits(&self, settings: &Settings) {
        let backends = self.places.most();
        let division = self.onramps.division();
        let permits_range = settings.permits_range(backends, division);
        let shared_backends_range = settings.shared_backends_range(division);
        self.permits.meter.change([permits_range]);
        self.permits.change_most(settings.most_permits(backends));
        self.shared_reads.meter.change([shared_backends_range, settings.in_flight_range()]);
        // What is to be found stays as it is until it is found otherwise: other workers may be looking.
        let given = |limit: &AtomicU32, range: Option<Range>, number: u32| {
            if range.is_none() {
                limit.store(number, SeqCst);
            }
        };
        if permits_range.is_none() {
            self.permits.set(settings.given_permits(backends));
        }
        given(&self.shared_reads.backends, shared_backends_range, settings.shared_backends.max(1));
        given(&self.shared_reads.in_flight, settings.in_flight_range(), settings.statements_in_flight.max(1));
        self.permits.forget_before();
        self.take_up_limits(self.permits.meter.limits(), self.shared_reads.meter.limits());
        self.long.change(settings.long_permits, settings.most_long_statements(backends));
    }

    /// Sets the number of backends that there may be from now on, where no number is given.
    pub(crate) fn change_places(&self, settings: &Settings, most: u32) {
        self.places.change_most(most);
        self.change_permits(settings);
    }

    /// Another server is the one that statements go to: what was found on the former one says nothing of it. Its caches may be cold, and
    /// all that has waited comes at once.
    pub(crate) fn begin_elsewhere(&self, now: Instant) {
        self.permits.meter.begin_elsewhere(now);
        self.shared_reads.meter.begin_elsewhere(now);
        self.take_up_limits(self.permits.meter.limits(), self.shared_reads.meter.limits());
        // Nothing that began there runs on.
        self.permits.forget_before();
    }

    /// Takes up the limits that have been found.
    fn take_up_limits(&self, [permits]: [Option<u32>; 1], [shared_backends, in_flight]: [Option<u32>; 2]) {
        // What is found is how many may be at the server.
        if let Some(found) = permits {
            let found = found.max(self.permits_of_shared(shared_backends));
            self.permits.take_up(found.saturating_add(self.way.on_the_way()));
        }
        let change = |limit: &AtomicU32, found: Option<u32>| {
            if let Some(found) = found
                && found != limit.load(SeqCst)
            {
                limit.store(found, SeqCst);
            }
        };
        change(&self.shared_reads.backends, shared_backends);
        change(&self.shared_reads.in_flight, in_flight);
    }

    /// How many permits the backends need that are shared, where it is found how many of these there should be: one each, while half of them or
    /// more are at work. Reads that follow each other keep their backend's permit for as long as any come. With fewer permits than such
    /// backends a trial of still fewer would change nothing, and a trial of more backends would find no permit for them: both limits would
    /// stay where they are, on a server that can do twice as much.
    fn permits_of_shared(&self, backends: Option<u32>) -> u32 {
        backends.filter(|&backends| 2 * self.sharing() >= backends).unwrap_or(0)
    }

    /// Says whether a statement that ends now tells something about a limit that is to be found.
    pub(crate) fn measures_limits(&self) -> bool {
        self.permits.meter.counts() || self.shared_reads.meter.counts()
    }

    /// Takes in what this worker has served, and changes limits where that says so.
    pub(crate) fn adapt_limits(&self, now: Instant, served: &mut Served) {
        let (served, nothing) = (std::mem::take(served), Served::default());
        let of = |counts: bool| if counts { &served } else { &nothing };
        self.way.count(now);
        let may_try = self.onramps.may_try(now);
        let for_a_permit = self.for_a_permit();
        let alone =
            self.permits.meter.take(now, of(self.permits.meter.counts()), &self.way, for_a_permit, may_try);
        let shared =
            self.shared_reads.meter.take(now, of(self.shared_reads.meter.counts()), &self.way, 1.0, may_try);
        self.take_up_limits(alone.unwrap_or_default(), shared.unwrap_or_default());
    }

    /// Notes what a worker's statements wait for at the end of its turn: a permit, which it has said with [`Self::want`] too, or
    /// room on backends that they share.
    pub(crate) fn note_saturation(&self, worker: usize, now: Instant, wanting: bool, full: bool) {
        let seat = &self.seats[worker].is_full;
        if seat.load(SeqCst) != full {
            seat.store(full, SeqCst);
        }
        if wanting || full {
            self.onramps.wait();
        }
        let wanting = wanting || self.seats.iter().any(|seat| seat.wants.load(SeqCst) != NOBODY);
        let full = !wanting && self.seats.iter().any(|seat| seat.is_full.load(SeqCst));
        self.permits.meter.saturated(now, wanting);
        self.shared_reads.meter.saturated(now, full);
    }

    /// Microseconds for which statements have waited for a permit, or for room on backends that they share: at the server,
    /// and at each of those that are read from.
    pub(crate) fn saturated_for(&self, now: Instant) -> Vec<u64> {
        let at = |workers: &Self| {
            workers.permits.meter.saturated_for(now) + workers.shared_reads.meter.saturated_for(now)
        };
        let replicas = self.replicas.shared().iter().map(|workers| at(workers));
        std::iter::once(at(self)).chain(replicas).collect()
    }

    /// How many statements may be in flight on a backend that is shared.
    pub(crate) fn statements_in_flight(&self) -> u32 {
        self.shared_reads.in_flight.load(SeqCst)
    }

    /// Clients of all workers.
    pub(crate) fn clients(&self) -> u32 {
        self.connections.clients.load(SeqCst)
    }

    /// Statements that run with a permit.
    pub fn running(&self) -> u32 {
        self.permits.running()
    }

    /// Permits in use while so many statements run with one.
    fn in_use(&self, running: u32) -> u32 {
        self.permits.in_use(running, self.way.on_the_way())
    }

    /// Statements that run for each permit in use, from 1 to [`crate::scheduling::learned::waiting::FOR_A_PERMIT`].
    fn for_a_permit(&self) -> f64 {
        let running = self.running();
        f64::from(running.max(1)) / f64::from(self.in_use(running).max(1))
    }

    /// Says whether most permits are free, so that what runs is hardly held up by others.
    pub(crate) fn are_permits_free(&self) -> bool {
        self.running() <= self.permits() / MANY
    }

    /// The parts of their permits that running statements leave to others, in parts of [`crate::scheduling::learned::waiting::WHOLE`].
    pub(crate) fn spared(&self) -> u32 {
        self.permits.spared()
    }

    /// A statement that has just taken a permit leaves so much of it to others.
    pub(crate) fn spare(&self, part: u32) {
        self.permits.spare(part);
    }

    /// The next place in the order of arrival.
    pub(crate) fn arrival(&self) -> u64 {
        self.arrivals.fetch_add(1, SeqCst)
    }

    /// How many statements have arrived: the next place in their order.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals.load(SeqCst)
    }

    /// Takes a permit for the statement at `place`. Returns false where all are in use, or promised to statements of other
    /// workers that have waited longer.
    pub(crate) fn take_permit(&self, worker: usize, place: QueuePlace, extra: Extra) -> bool {
        self.permits.take_if(|running| self.may_take(worker, place, extra, running))
    }

    /// Lets the long statement at `place` start, with a permit where it needs one; `None` where it may not, or none is free.
    /// [`Self::give_long_permit`] is due at its end.
    pub(crate) fn take_long_permit(&self, worker: usize, place: QueuePlace) -> Option<Allowed> {
        let allowed = self.long.take(worker, place, self.permits())?;
        if allowed == Allowed::WithPermit && !self.take_permit(worker, place, Extra::None) {
            self.long.give(allowed);
            return None;
        }
        Some(allowed)
    }

    /// Says whether so few long statements have run for so long that a statement that ends now has taken its usual time.
    pub(crate) fn long_statements_have_been_few(&self, now: Instant, time: Duration) -> bool {
        self.long.have_been_few(now, time)
    }

    /// Has long statements run with few beside them first, where their times with few are not known.
    pub(crate) fn begin_with_few_long(&self, now: Instant) {
        self.long.begin_with_few(now);
    }

    /// A long statement has run to its end.
    pub(crate) fn measure_long(&self, end: &LongEnd) {
        self.long.measure(end, self.permits());
    }

    /// Says whether the long statement at `place` may start, as far as others of its kind are concerned.
    pub(crate) fn has_long_permit(&self, worker: usize, place: QueuePlace) -> bool {
        self.long.may_have(worker, place, self.permits())
    }

    /// Lets the statement at `place` start without a permit. Returns false where it may not.
    pub(crate) fn take_beyond(&self, worker: usize, place: QueuePlace) -> bool {
        self.long.take_beyond(worker, place, self.permits())
    }

    /// Says whether [`Self::take_beyond`] would succeed now.
    pub(crate) fn may_start_beyond(&self, worker: usize, place: QueuePlace) -> bool {
        self.long.may_have_beyond(worker, place, self.permits())
    }

    /// A long statement has ended, which had started by this right.
    pub(crate) fn give_long_permit(&self, allowed: Allowed) {
        self.long.give(allowed);
    }

    /// Long statements that may still start.
    pub(crate) fn free_long_permits(&self) -> u32 {
        self.long.free(self.permits())
    }

    /// Says which is the first long statement of this worker, wherever it stands with regard to permits, and whether it could start
    /// without one. A worker says it before it finds no room: another that makes some in between looks at who wants it.
    pub(crate) fn want_long(&self, worker: usize, place: Option<QueuePlace>, without_permit: bool) {
        self.long.want(worker, place, without_permit);
    }

    /// Says whether [`Self::take_permit`] would succeed now.
    pub(crate) fn has_permit(&self, worker: usize, place: QueuePlace, extra: Extra) -> bool {
        self.may_take(worker, place, extra, self.running())
    }

    fn may_take(&self, worker: usize, place: QueuePlace, extra: Extra, running: u32) -> bool {
        if extra == Extra::Any {
            return true;
        }
        let older = self.others(worker).filter(|(_, seat)| {
            let wants = seat.wants.load(SeqCst);
            wants != NOBODY && wants.saturating_add(self.slack()) < place.0
        });
        let promised = u32::try_from(older.count()).expect("fewer than workers");
        self.is_one_free(running, promised, extra)
    }

    /// Says whether a permit is free while so many statements run, beside the permits that are promised.
    fn is_one_free(&self, running: u32, promised: u32, extra: Extra) -> bool {
        let permits = self.permits.with(extra);
        self.in_use(running).saturating_add(promised) < permits
            && running < self.permits.most_running(permits)
    }

    /// A worker leaves a permit to an older statement of another only where that is older by more than so many arrivals.
    /// Handing over costs a turn in which the permit is idle; within what runs at once, order means nothing.
    fn slack(&self) -> u64 {
        u64::from(self.permits()) * 4
    }

    /// Takes a permit whether or not one is free.
    pub(crate) fn force_permit(&self) {
        self.permits.force();
    }

    /// Gives a permit back, of which so much had been left to others.
    pub(crate) fn give_permit(&self, spared: u32) {
        self.permits.give(spared);
    }

    /// Permits not in use.
    pub(crate) fn free_permits(&self) -> u32 {
        let (permits, running) = (self.permits(), self.running());
        let more = self.permits.most_running(permits).saturating_sub(running);
        permits.saturating_sub(self.in_use(running)).min(more)
    }

    /// Says which statement of this worker is the first to wait for nothing but a permit.
    pub(crate) fn want(&self, worker: usize, place: Option<QueuePlace>) {
        self.seats[worker].wants.store(place.map_or(NOBODY, |place| place.0), SeqCst);
    }

    /// Says whether another worker waits for a permit.
    pub(crate) fn others_want(&self, worker: usize) -> bool {
        self.others(worker).any(|(_, seat)| seat.wants.load(SeqCst) != NOBODY)
    }

    /// The worker, other than this one, that has waited longest for a permit, if one is free and that worker has not been
    /// woken yet. One that waited for a long statement to end, and for no permit, does not know yet that it does now.
    pub(crate) fn next_to_wake(&self, worker: usize) -> Option<usize> {
        let (running, permits) = (self.running(), self.permits());
        let could_start = |(other, seat): (usize, &Seat)| {
            let wants = match seat.wants.load(SeqCst) {
                NOBODY => self.long.could_use(other, permits),
                wants if self.is_one_free(running, 0, QueuePlace(wants).extra()) => Some(wants),
                _ => self.long.could_use_beyond(other, permits),
            };
            wants.map(|wants| (wants, other))
        };
        let (_, first) = self.others(worker).filter_map(could_start).min()?;
        self.wake(first).then_some(first)
    }

    /// Says whether a worker has to be woken; false where that is under way.
    pub(crate) fn wake(&self, worker: usize) -> bool {
        !self.seats[worker].woken.swap(true, SeqCst)
    }

    /// Notes that this worker looks at everything now.
    pub(crate) fn awake(&self, worker: usize) {
        // Most of the time nobody has woken it, and reading leaves the cache line with all of them.
        if self.seats[worker].woken.load(SeqCst) {
            self.seats[worker].woken.store(false, SeqCst);
        }
    }

    /// Returns the time when the server may be asked again for lock waits.
    pub(crate) fn lock_waits_due(&self, interval: Duration) -> Instant {
        Instant::from_micros(self.lock_waits_asked.load(SeqCst)) + interval
    }

    /// Says whether this worker is the one to ask now.
    pub(crate) fn may_ask_for_lock_waits(&self, now: Instant, interval: Duration) -> bool {
        let asked = self.lock_waits_asked.load(SeqCst);
        let due = Instant::from_micros(asked) + interval <= now;
        due && self.lock_waits_asked.compare_exchange(asked, now.as_micros(), SeqCst, SeqCst).is_ok()
    }

    /// Counts one more client in. Returns false where there are `max_connections`.
    pub(crate) fn take_client(&self) -> bool {
        let limit = self.connections.most;
        self.connections
            .clients
            .fetch_update(SeqCst, SeqCst, |clients| (clients < limit).then(|| clients + 1))
            .is_ok()
    }

    /// A client has gone.
    pub(crate) fn give_client(&self) {
        let before = self.connections.clients.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a client goes once");
    }

    /// The number of backends on which a worker may run shared reads: `shared_backends` less those of the others, but at
    /// least its even share.
    pub(crate) fn shared_backends(&self, worker: usize) -> u32 {
        let others: u32 = self.others(worker).map(|(_, seat)| seat.sharing.load(SeqCst)).sum();
        let all = self.shared_reads.backends.load(SeqCst);
        all.saturating_sub(others).max(all.div_ceil(self.count()))
    }

    /// The number of backends on which all workers run shared reads.
    pub(crate) fn sharing(&self) -> u32 {
        self.seats.iter().map(|seat| seat.sharing.load(SeqCst)).sum()
    }

    /// The number of backends on which all workers may run shared reads.
    pub(crate) fn all_shared_backends(&self) -> u32 {
        self.shared_reads.backends.load(SeqCst)
    }

    /// Says on how many backends this worker runs shared reads.
    pub(crate) fn shares(&self, worker: usize, backends: usize) {
        let backends = u32::try_from(backends).unwrap_or(u32::MAX);
        let seat = &self.seats[worker].sharing;
        if seat.load(SeqCst) != backends {
            seat.store(backends, SeqCst);
        }
    }

    /// Says how many bytes of statements this worker holds.
    pub(crate) fn holds_bytes(&self, worker: usize, bytes: usize) {
        let held = &self.seats[worker].bytes;
        if self.count() > 1 && held.load(SeqCst) != bytes {
            held.store(bytes, SeqCst);
        }
    }

    /// The number of bytes that the other workers hold.
    pub(crate) fn others_hold_bytes(&self, worker: usize) -> usize {
        self.others(worker).map(|(_, seat)| seat.bytes.load(SeqCst)).sum()
    }

    /// All workers but this one.
    fn others(&self, worker: usize) -> impl Iterator<Item = (usize, &Seat)> {
        self.seats.iter().enumerate().filter(move |&(other, _)| other != worker)
    }
}

#[cfg(test)]
mod tests;
