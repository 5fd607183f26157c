//! The servers behind several addresses, their checks, and the changes of the primary; and the Onramps in front of them.

use std::time::Duration;

use admin::Rows;
use admin::tables::{Failover, Peer, Server, ServerCheck, time_text};
use engine::{Behind, FailoverView, PeerView, ServerCheckView, ServerRole, ServerState, ServerView};

use super::values::micros;
use crate::control::Control;

/// Adds a server to both tables.
pub(super) fn put(rows: &mut Rows<'_>, view: &ServerView) {
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
    });
    for check in &view.checks {
        rows.put(&check_row(&address, check, now));
    }
}

/// Adds the servers that could not be found at the start.
pub(super) fn put_missing(rows: &mut Rows<'_>, control: &Control) {
    for missing in &control.program.missing {
        rows.put(&Server {
            address: missing.server.clone(),
            identity: None,
            role: ServerRole::Unknown.name(),
            state: ServerState::Down.name(),
            writable: false,
            in_use: false,
            drained: false,
            reason: missing.warning(),
            lag_seconds: None,
            position: None,
            since: time_text(control.began),
            since_us: micros(control.started.elapsed()),
        });
    }
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
