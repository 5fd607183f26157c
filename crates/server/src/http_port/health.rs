//! Probes. What they ask for is ours alone: a server that is away is no reason to start Onramp again, nor to send its clients
//! elsewhere, who would find the same server away.

use std::time::Instant;

use web::Answer;

use crate::control::Control;
use crate::control::answers::have;
use crate::control::glance::{Glance, Glances};

/// Whether the workers' loops turn.
pub(super) fn live(glances: &Glances) -> Answer {
    if glances.control.is_ending() {
        return Answer::line(200, "live: it ends");
    }
    let glance = glances.now();
    if is_live(&glances.control, &glance) {
        return Answer::line(200, "live");
    }
    Answer::line(503, &format!("{} not answered: their loops do not turn", have(&glance.silent)))
}

/// The answer of /livez, as yes or no.
pub(super) fn is_live(control: &Control, glance: &Glance) -> bool {
    // At the end workers end one by one.
    control.is_ending() || glance.silent.is_empty()
}

/// That of /readyz likewise.
pub(super) fn is_ready(control: &Control, glance: &Glance) -> bool {
    !control.is_ending() && glance.silent.is_empty() && unread(glance).is_empty()
}

/// Workers that have not read the server's accounts.
fn unread(glance: &Glance) -> Vec<usize> {
    let unread = glance.wholes.iter().filter(|(_, whole)| !whole.view.has_accounts);
    unread.map(|(&worker, _)| worker).collect()
}

/// Whether new clients are served: every worker has read the server's accounts, and nothing ends.
pub(super) fn ready(glances: &Glances) -> Answer {
    if glances.control.is_ending() {
        return Answer::line(503, "not ready: it ends, and new clients should go elsewhere");
    }
    let began = Instant::now();
    let mut glance = glances.now();
    if !(glance.silent.is_empty() && unread(&glance).is_empty()) {
        // Whoever waits for this one has clients waiting, and workers without clients have the time to say it again.
        glance = glances.since(began);
    }
    if !glance.silent.is_empty() {
        return Answer::line(503, &format!("not ready: {} not answered", have(&glance.silent)));
    }
    match unread(&glance).as_slice() {
        [] => Answer::line(200, "ready"),
        unread => {
            Answer::line(503, &format!("not ready: {} not read the server's accounts yet", have(unread)))
        }
    }
}
