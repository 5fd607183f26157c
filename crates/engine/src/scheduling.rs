//! The parts that decide which statement runs next.

pub(crate) mod coalescing;
mod frozen;
pub(crate) mod learned;
pub(crate) mod overload;
pub(crate) mod scheduler;
pub(crate) mod shares;

use std::sync::Arc;

use seam::Instant;
use sql::LexMode;

use crate::backend::pool::reserved_backends::record::Reserve;
use crate::backend::scheduling::stall::record::Stalls;
use crate::backend::{Backend, Permit};
use crate::client::Client;
use crate::client::delay::DelayedStatements;
use crate::ids::{BackendKey, ClientKey, ClientRef, Table};
use crate::outside::waits::{Arrival, Holdups, Lack, WaitReason, Waits};
use crate::pool::Pool;
use crate::request::{Request, RequestKind};
use crate::scheduling::coalescing::group::Coalescer;
use crate::scheduling::learned::digests::{self, Digests};
use crate::scheduling::learned::history::History;
use crate::scheduling::learned::limit::Served;
use crate::scheduling::learned::long_permits::Pace;
use crate::scheduling::overload::abandoned::ToBeEnded;
use crate::scheduling::overload::new_work::NewWork;
use crate::scheduling::scheduler::lane::Lane;
use crate::scheduling::scheduler::{Grant, Scheduler};
use crate::scheduling::shares::table::Shares;
use crate::servers::Servers;
use crate::settings::Settings;
use crate::workers::Workers;

/// Statements that wait, in the order of the places in which they do, and what has been learned of those that have run.
pub(crate) struct Scheduling {
    /// Statements that are not in a queue yet.
    pub(crate) delayed: DelayedStatements,
    pub(crate) shares: Shares,
    pub(crate) scheduler: Scheduler,
    /// KILLs that wait for a backend, and since when.
    pub(crate) urgent: Vec<(ClientRef, Instant)>,
    /// The time since which statements have waited for a backend without a break.
    pub(crate) lacking_since: Option<Instant>,
    /// Statements that take longer than their like.
    pub(crate) stalls: Stalls,
    /// The kinds that stand where most backends are in use.
    pub(crate) reserve: Reserve,
    pub(crate) coalescer: Coalescer,
    pub(crate) new_work: NewWork,
    /// Statements that are to be ended as soon as that can be.
    pub(crate) to_be_ended: ToBeEnded,
    pub(crate) history: History,
    pub(crate) digests: Digests,
    /// This turn's figures for limits that are to be found.
    pub(crate) served: Served,
    /// Times of statements since the last long one ended.
    pub(crate) others_pace: Pace,
    pub(crate) waits: Waits,
    pub(crate) holdups: Holdups,
}

impl Scheduling {
    pub(crate) fn new(settings: &Settings, workers: Arc<Workers>, worker: usize) -> Self {
        Self {
            delayed: DelayedStatements::default(),
            shares: Shares::default(),
            scheduler: Scheduler::new(settings, workers, worker),
            urgent: Vec::new(),
            lacking_since: None,
            stalls: Stalls::default(),
            reserve: Reserve::default(),
            coalescer: Coalescer::default(),
            new_work: NewWork::default(),
            to_be_ended: ToBeEnded::default(),
            history: History::default(),
            digests: Digests::new(settings.digests_size),
            served: Served::default(),
            others_pace: Pace::default(),
            waits: Waits::default(),
            holdups: Holdups::default(),
        }
    }

    /// Takes a permit for a waiting statement, or tells the other workers that it waits for nothing else. This tells
    /// first and then tries again, since a worker that gives a permit back in between looks at who wants one.
    pub(crate) fn take_permit_or_want_it(&mut self, key: ClientKey) -> Option<Grant> {
        self.scheduler.take_permit(key).or_else(|| {
            self.scheduler.want(Some(key));
            self.scheduler.take_permit(key)
        })
    }

    /// Lets one client that holds locks go on at a time, while a statement that has waited too long waits for a permit
    /// before those: all permits may be with statements that wait for such a client.
    pub(crate) fn next_holder(
        &mut self,
        clients: &Table<ClientKey, Client>,
        servers: &Servers,
    ) -> Option<(ClientKey, BackendKey, Grant)> {
        let holder = self.scheduler.passed_over()?;
        let backend = clients[holder].backend?;
        let runs = |client: ClientKey| {
            let request = clients[client].request.as_ref();
            request.is_some_and(|request| request.turn.lane() == Some(Lane::Holding))
        };
        let is_one =
            |backend: &Backend| backend.permit() == Permit::Held && backend.holder().is_some_and(runs);
        if servers.backends().any(|(_, backend)| is_one(backend)) {
            return None;
        }
        Some((holder, backend, self.scheduler.take_permit(holder)?))
    }

    /// The part of its permit that a client's statement leaves to others.
    pub(crate) fn spared_by(&self, settings: &Settings, client: &Client, grant: Grant) -> u32 {
        match (&client.request, grant) {
            (Some(request), Grant::Permit) => self.spared_by_kind(settings, request.statement.fingerprint),
            _ => 0,
        }
    }

    /// The part of its permit that a statement of this kind leaves to others, because its kind mostly waits, in parts of
    /// [`crate::scheduling::learned::waiting::WHOLE`]. Nothing where the number of permits is given: that is a number of statements.
    pub(crate) fn spared_by_kind(&self, settings: &Settings, fingerprint: u64) -> u32 {
        if !settings.finds_permits() {
            return 0;
        }
        self.digests.spares(fingerprint)
    }

    /// True where a backend that was opened for a statement of ours runs one before it goes to another worker. Otherwise
    /// workers that have less than one each would hand it round for ever.
    pub(crate) fn keeps_for_us(&self, backend: &Backend) -> bool {
        backend.opened.fresh && self.scheduler.in_need() > 0
    }
}

impl Scheduling {
    /// Counts what a statement has waited for since its arrival, or since it came into its present lane.
    pub(crate) fn note_parts(&mut self, now: Instant, arrival: &Arrival) {
        if now > arrival.at {
            for (reason, waited) in self.holdups.parts_since(arrival, now) {
                self.waits.record(reason, waited);
            }
        }
    }

    /// A statement starts: counts what it has waited for.
    pub(crate) fn note_start(&mut self, now: Instant, request: &mut Request) {
        request.turn.waited_until(now);
        let queue = request.turn.lane().map_or(WaitReason::Urgent, WaitReason::of_lane);
        self.waits.record(queue, request.turn.waited());
        self.note_parts(now, request.turn.arrival());
    }

    /// Makes a place for a statement's digest. Also of one that is only prepared now: its executions come without a text.
    pub(crate) fn note_digest(
        &mut self,
        now: Instant,
        request: &mut Request,
        mode: impl FnOnce() -> LexMode,
    ) {
        let fingerprint = request.statement.fingerprint;
        let has_text = matches!(request.command, RequestKind::Query | RequestKind::Prepare);
        if fingerprint == 0 || !has_text || !self.digests.is_news(fingerprint) {
            return;
        }
        let statement =
            request.changes.template.as_ref().map_or(&request.statement, |found| &found.statement);
        let text = match request.found_ahead.as_mut() {
            Some(ahead) => ahead.digest.take(),
            None => request.text().and_then(|text| digests::text::shown(text, statement, mode())),
        };
        self.digests.add(now, fingerprint, text);
    }

    /// Notes what the waiting statements lack after a round of dispatching: the thing that stopped it, else a permit, else a
    /// backend.
    pub(crate) fn note_holdup(
        &mut self,
        now: Instant,
        (servers, pool): (&Servers, &Pool),
        stopped: Option<Lack>,
        wanting: bool,
        backend_free: bool,
    ) {
        let lacking = || match (wanting, backend_free) {
            (true, _) => Some(Lack::Permit),
            (false, true) => None,
            (false, false) if servers.primary().reachability.is_up() && pool.workers.places.are_full() => {
                Some(Lack::MaxBackends)
            }
            (false, false) => Some(Lack::BackendConnect),
        };
        let others = stopped.or_else(lacking);
        let long = self.scheduler.peek_long().is_some();
        self.holdups.note(now, others, if long { Some(Lack::LongPermits) } else { others });
    }
}
