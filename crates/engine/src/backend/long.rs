//! Which statements belong to the long lane: decided when they arrive, and again when their turn comes, since their like may
//! have turned out long or short meanwhile.

use std::time::Duration;

use super::InFlight;
use crate::engine::Engine;
use crate::ids::{BackendKey, ClientKey};
use crate::learned::long_permits::LongEnd;
use crate::outside::histogram::micros;
use crate::request::Request;
use crate::scheduler::Lane;
use crate::settings::ThreadHandling;

impl Engine {
    /// Says whether a statement belongs to the long lane: its like has been long lately, or is just now, and its client holds
    /// nothing that others may wait for. A client that holds locks has to go on.
    fn belongs_to_long_lane(&self, key: ClientKey, request: &Request) -> bool {
        let client = &self.clients[key];
        let fingerprint = request.fingerprint();
        fingerprint != 0
            && !client.in_transaction()
            && !client.pins.may_hold_locks()
            && self.scheduling.scheduler.is_native()
            && self.settings.thread_handling == ThreadHandling::PoolOfThreads
            && self.is_long_kind(fingerprint)
    }

    /// Says whether statements of a kind have been long lately, or are just now.
    pub(crate) fn is_long_kind(&self, fingerprint: u64) -> bool {
        let limit = self.settings.long_statement_time;
        !limit.is_zero()
            && (self.scheduling.digests.is_long(fingerprint, limit)
                || self.scheduling.stalls.overdue_kinds.contains(&fingerprint))
    }

    /// The same for one that comes to the lane then. However many others get on with each other there: one of a new kind may compute.
    pub(crate) fn joins_long_lane(&self, key: ClientKey, request: &Request) -> bool {
        let joins = self.belongs_to_long_lane(key, request);
        if joins && !self.scheduling.digests.knows_long_time(request.fingerprint()) {
            self.pool.workers.begin_with_few_long(self.now);
        }
        joins
    }

    /// Moves a statement whose turn has come to the long lane, if it has turned out to belong there. A backlog of a kind
    /// that nobody knew would take all permits otherwise.
    pub(crate) fn enter_long_lane(&mut self, key: ClientKey) -> bool {
        let request = self.clients[key].request.as_ref().expect("a queued client has a request");
        let enters =
            !matches!(request.lane, Some(Lane::Long | Lane::Contended)) && self.joins_long_lane(key, request);
        if enters {
            self.change_lane(key, Lane::Long);
        }
        enters
    }

    /// Statements that wait for long ones to end go on with the others, if they have turned out to be short.
    pub(crate) fn leave_long_lane(&mut self) {
        while let Some(key) = self.scheduling.scheduler.peek_long() {
            if self.is_still_long(key) {
                break;
            }
            self.change_lane(key, Lane::Low);
        }
    }

    /// Says whether a waiting statement of the long lane still belongs there.
    pub(crate) fn is_still_long(&self, key: ClientKey) -> bool {
        let request = self.clients[key].request.as_ref().expect("a queued client has a request");
        self.belongs_to_long_lane(key, request)
    }

    /// A statement has ended on a backend: what it took says how well the long ones get on with each other and with the rest.
    pub(crate) fn note_long(&mut self, key: BackendKey, statement: &InFlight, time: Duration) {
        if statement.fingerprint == 0 || statement.summary.error.is_some() {
            return;
        }
        let few = self.pool.workers.long_statements_have_been_few(self.now, time);
        if !self.servers[key].runs_long {
            let response = micros(statement.waited + time);
            let usual = self.scheduling.digests.usual_response(statement.fingerprint, response, few);
            let limit = self.settings.long_statement_time;
            // Others do not slow down long ones that began before their kind was known.
            if time < limit || usual < micros(limit) {
                self.scheduling.others_pace.add(response, usual);
            }
            return;
        }
        let few = few && !self.has_unknown_long_ones();
        let usual = self.scheduling.digests.usual_long_time(statement.fingerprint, time, few);
        let others = std::mem::take(&mut self.scheduling.others_pace);
        self.pool.workers.measure_long(&LongEnd { at: self.now, time, usual, others });
    }

    /// Says whether statements run for long outside of the long lane: their kinds were not known as long when they began.
    fn has_unknown_long_ones(&self) -> bool {
        self.servers.backends().any(|(_, backend)| !backend.runs_long && self.is_overdue(backend))
    }

    pub(crate) fn change_lane(&mut self, key: ClientKey, lane: Lane) {
        let arrival = self.clients[key].request.as_ref().expect("a queued client has a request").arrival;
        self.scheduling.note_parts(self.now, &arrival);
        let arrival = self.scheduling.holdups.change_queue(&arrival, self.now, lane == Lane::Long);
        if let Some(request) = &mut self.clients[key].request {
            request.arrival = arrival;
            request.lane = Some(lane);
        }
        self.scheduling.scheduler.change_lane(key, lane);
    }
}
