//! Clients that hang up on what they have asked for, and what that says about the order of the queues ([`crate::scheduling::scheduler::order::Order`]).

use std::time::Duration;

use seam::Instant;

use crate::client::{Client, Phase, Running};
use crate::ids::ClientKey;
use crate::request::Request;
use crate::scheduling::Scheduling;
use crate::scheduling::scheduler::lane::{Class, Lane};
use crate::settings::Settings;

impl Scheduling {
    /// How long the oldest new work has waited before which a statement has gone, where the newest go first.
    pub(super) fn passed_over_for(&self, now: Instant, settings: &Settings, request: &Request) -> Duration {
        let turned = request.turn.lane().is_some_and(|lane| self.scheduler.is_newest_first(lane))
            || (self.newest_of_share_may_go_first(settings) && self.shares.is_newest_first(now));
        let oldest = turned.then(|| self.oldest_new(Class::Short)).flatten();
        oldest.map_or(Duration::ZERO, |(_, since)| now.since(since))
    }

    /// A client does not want its statement any more, which waits in a queue.
    pub(crate) fn note_abandoned_wait(
        &mut self,
        now: Instant,
        settings: &Settings,
        key: ClientKey,
        client: &Client,
    ) {
        let (Phase::Queued, Some(request)) = (client.phase(), &client.request) else { return };
        // What was not in a queue yet waited for nobody.
        let waited = now.since(request.turn.arrived_at()).saturating_sub(settings.transaction_delay);
        if client.backend.is_none() {
            self.shares.abandoned(now, key, waited);
        }
        self.scheduler.note_abandoned_wait(now, key);
    }

    /// A client does not want its statement any more, which has been sent to the server. Where it had waited for longer than it has
    /// run, it was the wait that was too long.
    pub(crate) fn note_abandoned_start(&mut self, now: Instant, key: ClientKey, client: &Client) {
        let Some(request) = client.request.as_ref().filter(|request| request.turn.has_started()) else {
            return;
        };
        let since_arrival = now.since(request.turn.arrived_at());
        let starts = matches!(client.phase(), Phase::Preparing | Phase::Running(Running::OnServer));
        let new = !client.in_transaction() && client.session.pins().is_empty();
        if !starts || !new || since_arrival > 2 * request.turn.waited() {
            return;
        }
        let (lane, waited) = (request.turn.lane().unwrap_or(Lane::Blocking), request.turn.waited());
        self.shares.abandoned(now, key, waited);
        self.scheduler.note_abandoned(now, lane, waited);
    }
}
