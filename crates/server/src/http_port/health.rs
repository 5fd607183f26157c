//! Probes. What they ask for is ours alone: a server that is away is no reason to start Onramp again, nor to send its clients
//! elsewhere, who would find the same server away.

use web::Answer;

use crate::control::answers::have;
use crate::control::glance::Glances;

/// Whether the workers' loops turn.
pub(super) fn live(glances: &Glances) -> Answer {
    if glances.control.is_ending() {
        // Workers end one by one.
        return Answer::line(200, "live: it ends");
    }
    match glances.now().silent.as_slice() {
        [] => Answer::line(200, "live"),
        silent => Answer::line(503, &format!("{} not answered: their loops do not turn", have(silent))),
    }
}

/// Whether new clients are served: every worker has read the server's accounts, and nothing ends.
pub(super) fn ready(glances: &Glances) -> Answer {
    if glances.control.is_ending() {
        return Answer::line(503, "not ready: it ends, and new clients should go elsewhere");
    }
    let glance = glances.now();
    if !glance.silent.is_empty() {
        return Answer::line(503, &format!("not ready: {} not answered", have(&glance.silent)));
    }
    let unread: Vec<_> = glance
        .wholes
        .iter()
        .filter(|(_, whole)| !whole.view.has_accounts)
        .map(|(&worker, _)| worker)
        .collect();
    match unread.as_slice() {
        [] => Answer::line(200, "ready"),
        unread => {
            Answer::line(503, &format!("not ready: {} not read the server's accounts yet", have(unread)))
        }
    }
}
