//! Decides which statements belong to the long lane: when they arrive, and again when their turn comes, since their kind may have
//! turned out long or short meanwhile. Finds the long statement that starts without a permit, out of turn.

use std::time::Duration;

use seam::Instant;

use crate::backend::{Backend, InFlight};
use crate::client::Client;
use crate::ids::{BackendKey, ClientKey, Table};
use crate::outside::histogram::micros;
use crate::request::Request;
use crate::scheduling::Scheduling;
use crate::scheduling::learned::long_permits::LongEnd;
use crate::scheduling::scheduler::lane::Lane;
use crate::scheduling::shares::Parties;
use crate::servers::Servers;
use crate::settings::{Settings, ThreadHandling};
use crate::workers::Workers;

/// The fate of the first long statement, where it needs no permit.
pub(in crate::backend) enum NextLong {
    /// This client's statement starts.
    Starts(ClientKey),
    /// The first one waits in another queue now, so that another one is the first.
    Moved,
    /// No statement may start so.
    None,
}

impl Scheduling {
    /// Says whether a statement belongs to the long lane: its kind has been long lately, or is just now, and its client holds
    /// nothing that others may wait for. A client that holds locks has to go on.
    fn belongs_to_long_lane(&self, settings: &Settings, client: &Client, request: &Request) -> bool {
        let fingerprint = request.fingerprint();
        fingerprint != 0
            && !client.in_transaction()
            && !client.session.pins().may_hold_locks()
            && self.scheduler.is_native()
            && settings.thread_handling == ThreadHandling::PoolOfThreads
            && self.is_long_kind(settings, fingerprint)
    }

    /// Says whether statements of a kind have been long lately, or are just now.
    pub(crate) fn is_long_kind(&self, settings: &Settings, fingerprint: u64) -> bool {
        let limit = settings.long_statement_time;
        !limit.is_zero()
            && (self.digests.is_long(fingerprint, limit) || self.stalls.overdue_kinds.contains(&fingerprint))
    }

    /// Says whether a statement comes to the long lane now. One of a new kind may compute, so the lane begins with few again.
    pub(crate) fn joins_long_lane(
        &self,
        now: Instant,
        settings: &Settings,
        workers: &Workers,
        client: &Client,
        request: &Request,
    ) -> bool {
        let joins = self.belongs_to_long_lane(settings, client, request);
        if joins && !self.digests.knows_long_time(request.fingerprint()) {
            workers.begin_with_few_long(now);
        }
        joins
    }

    /// Moves a statement to the long lane, if that turns out as its turn comes. A backlog of a kind that nobody knew would take all
    /// permits otherwise. True where it moves.
    pub(crate) fn enter_long_lane(
        &mut self,
        now: Instant,
        settings: &Settings,
        workers: &Workers,
        key: ClientKey,
        clients: &mut Table<ClientKey, Client>,
    ) -> bool {
        let client = &mut clients[key];
        let request = client.request.as_ref().expect("a queued client has a request");
        let enters = !matches!(request.turn.lane(), Some(Lane::Long | Lane::Contended))
            && self.joins_long_lane(now, settings, workers, client, request);
        if enters {
            self.change_lane(now, key, client, Lane::Long);
            // Before it finds no room: another worker that makes some in between looks at who wants it.
            self.want_long(clients, true);
        }
        enters
    }

    /// Moves statements of the long lane that have turned out to be short to the others.
    pub(crate) fn leave_long_lane(
        &mut self,
        now: Instant,
        settings: &Settings,
        clients: &mut Table<ClientKey, Client>,
    ) {
        while let Some(key) = self.scheduler.peek_long() {
            if self.is_still_long(settings, &clients[key]) {
                break;
            }
            self.change_lane(now, key, &mut clients[key], Lane::Low);
        }
    }

    /// Tells other workers of the first long statement of this one.
    pub(in crate::backend) fn want_long(&self, clients: &Table<ClientKey, Client>, backend_free: bool) {
        let first = self.scheduler.first_long(backend_free);
        let keeps_time = first.is_some_and(|key| self.keeps_its_time(&clients[key]));
        self.scheduler.want_long(backend_free, keeps_time);
    }

    /// Says whether a waiting statement is of a kind that waits rather than computes, as far as is known.
    fn keeps_its_time(&self, client: &Client) -> bool {
        let request = client.request.as_ref().expect("a queued client has a request");
        self.digests.keeps_long_time(request.fingerprint())
    }

    /// Finds the first long statement, where it may start without a permit: its kind waits rather than computes, as far as is known. So it
    /// takes nothing from others that want a permit. A statement of another kind keeps to its place.
    pub(in crate::backend) fn next_long_without_permit(
        &mut self,
        parties: &Parties<'_>,
        clients: &mut Table<ClientKey, Client>,
        servers: &Servers,
        backend_free: bool,
    ) -> NextLong {
        let first = self.scheduler.peek_beyond(backend_free);
        let Some(key) = first.filter(|&key| self.keeps_its_time(&clients[key])) else {
            return NextLong::None;
        };
        if !self.is_still_long(parties.settings, &clients[key]) {
            self.change_lane(parties.now, key, &mut clients[key], Lane::Low);
            return NextLong::Moved;
        }
        let moved = self.enter_contended_lane(parties, clients, servers, key)
            || self.leaves_room_for_others(parties, clients, servers, key);
        if moved { NextLong::Moved } else { NextLong::Starts(key) }
    }

    /// Says whether a client's waiting statement of the long lane still belongs there.
    pub(crate) fn is_still_long(&self, settings: &Settings, client: &Client) -> bool {
        let request = client.request.as_ref().expect("a queued client has a request");
        self.belongs_to_long_lane(settings, client, request)
    }

    /// Learns from the time of a statement that has ended how well the long ones get on with each other and with the rest.
    pub(crate) fn note_long(
        &mut self,
        now: Instant,
        settings: &Settings,
        workers: &Workers,
        servers: &Servers,
        (key, statement): (BackendKey, &InFlight),
        time: Duration,
    ) {
        if statement.fingerprint == 0 || statement.summary.error.is_some() {
            return;
        }
        let few = workers.long_statements_have_been_few(now, time);
        if servers[key].runs_long.is_none() {
            let response = micros(statement.waited + time);
            let usual = self.digests.usual_response(statement.fingerprint, response, few);
            let limit = settings.long_statement_time;
            // Others do not slow down long ones that began before their kind was known.
            if time < limit || usual < micros(limit) {
                self.others_pace.add(response, usual);
            }
            return;
        }
        // Those that run for long outside of the lane are of kinds that were not known as long when they began.
        let unknown =
            |(_, backend): (_, &Backend)| backend.runs_long.is_none() && backend.is_overdue(now, settings);
        let few = few && !servers.backends().any(unknown);
        let usual = self.digests.usual_long_time(statement.fingerprint, time, few);
        let others = std::mem::take(&mut self.others_pace);
        workers.measure_long(&LongEnd { at: now, time, usual, others });
    }

    /// Moves a client's waiting statement to another lane.
    pub(crate) fn change_lane(&mut self, now: Instant, key: ClientKey, client: &mut Client, lane: Lane) {
        let turn = &mut client.request.as_mut().expect("a queued client has a request").turn;
        self.note_parts(now, turn.arrival());
        turn.moves_to(lane, &self.holdups, now, lane == Lane::Long);
        self.scheduler.change_lane(key, lane);
    }
}
