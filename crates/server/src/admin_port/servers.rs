//! The servers behind several addresses, their checks, and the changes of the primary; and the Onramps in front of them.

use std::time::Duration;

use admin::Rows;
use admin::tables::{Failover, Peer, Route, Server, ServerCheck, time_text};
use engine::{Behind, FailoverView, PeerView, RoutedView, ServerCheckView, ServerView};

use super::values::{digest_name, micros};
use crate::reads::ReadServer;

/// Adds a server to both tables, with what reads do there where they go to replicas.
pub(super) fn put(rows: &mut Rows<'_>, view: &ServerView, reads: Option<&ReadServer>) {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let address = view.address.to_string();
    rows.put(&Server {
        address: address.clone(),
        identity: (!view.identity.is_empty()).then(|| view.identity.clone()),
        role: view.role.name(),
        state: view.state.name(),
        writable: view.is_writable,
        in_use: view.is_primary,
        drained: view.is_drained,
        reason: view.reason.clone(),
        lag_seconds: view.lag.map(|lag| lag.as_secs()),
        position: (!view.position.is_empty()).then(|| view.position.clone()),
        since: time_text(now.saturating_sub(view.since)),
        since_us: micros(view.since),
        readable: reads.map(ReadServer::is_readable),
        unreadable_for: reads.filter(|reads| !reads.is_readable()).map(|reads| reads.readable.name()),
        weight: reads.map(|reads| reads.weight),
        zone: reads.and_then(|reads| reads.zone.as_ref()).map(ToString::to_string),
        data_age_us: reads.and_then(|reads| reads.age).map(micros),
        permits_in_use: reads.map(|reads| reads.permits.0),
        permits: reads.and_then(ReadServer::permits),
        backends: reads.map(|reads| reads.backend_count),
        reads_waiting: reads.map(|reads| reads.waiting),
        reads_running: reads.map(|reads| reads.running),
        reads: reads.map(|reads| reads.sent),
        read_mean_us: reads.and_then(ReadServer::mean).map(micros),
        read_p99_us: reads
            .filter(|reads| reads.times.count() > 0)
            .map(|reads| micros(reads.times.quantile(0.99))),
    });
    for check in &view.checks {
        rows.put(&check_row(&address, check, now));
    }
}

/// Adds where the statements of a digest went.
pub(super) fn put_route(rows: &mut Rows<'_>, view: &RoutedView) {
    let reason = view.routed.reason();
    rows.put(&Route {
        digest: view.digest.map(digest_name),
        text: view.text.clone(),
        to_replicas: view.routed.sent,
        waited: view.routed.waited,
        came_back: view.routed.returned(),
        to_primary: view.routed.primary(),
        reason: reason.map(|(why, _)| why.name()),
        for_reason: reason.map_or(0, |(_, times)| times),
        explanation: reason.map(|(why, _)| why.says()),
    });
}

/// Adds a change of the primary.
pub(super) fn put_failover(rows: &mut Rows<'_>, view: &FailoverView) {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    rows.put(&Failover {
        time: time_text(now.saturating_sub(view.age)),
        age_us: micros(view.age),
        from_server: view.from.to_string(),
        to_server: view.to.as_ref().map(ToString::to_string),
        took_us: view.took.map(micros),
        lacks: match &view.behind {
            Behind::Nothing => Some(String::new()),
            Behind::Lacks(what) => Some(what.clone()),
            Behind::Unknown => None,
        },
        held: view.held,
        longest_hold_us: micros(view.longest_hold),
        rolled_back: view.rolled_back,
        unknown: view.unknown,
    });
}

/// Adds an Onramp.
pub(super) fn put_peer(rows: &mut Rows<'_>, view: &PeerView) {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    rows.put(&Peer {
        slot: view.slot,
        own: view.is_own,
        connection_id: view.connection,
        host: (!view.host.is_empty()).then(|| view.host.clone()),
        at_work: view.at_work,
        since: time_text(now.saturating_sub(view.since)),
        since_us: micros(view.since),
    });
}

fn check_row(address: &str, check: &ServerCheckView, now: Duration) -> ServerCheck {
    ServerCheck {
        address: String::from(address),
        time: time_text(now.saturating_sub(check.age)),
        age_us: micros(check.age),
        took_us: micros(check.took),
        role: check.role.name(),
        well: check.is_well,
        reason: check.reason.clone(),
    }
}
