//! What the supervisor hears from time to time: how it stands, and that every worker turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Supervisor, status_line};
use crate::Failure;
use crate::control::answers::have;
use crate::control::glance::{Glance, Glances};

/// How often the status is looked at. Who reads it asks for it by hand.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// Looks within the time of the watchdog: one that comes late, as on a machine that has stood still, leaves two more.
const LOOKS_PER_WATCHDOG: u32 = 3;

/// No look follows the last sooner, however short the watchdog's time: each wakes every worker.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Tells a supervisor, if there is one, on a thread of its own and for as long as the process is there.
///
/// # Errors
/// Where the system has no more threads.
pub(crate) fn watch(supervisor: &Supervisor, glances: Arc<Glances>) -> Result<(), Failure> {
    if supervisor.line.is_none() {
        return Ok(());
    }
    let watch =
        Watch { supervisor: supervisor.clone(), glances, told: String::new(), looked: Instant::now() };
    std::thread::Builder::new()
        .name(String::from("supervisor"))
        .spawn(move || watch.run())
        .map(|_| ())
        .map_err(|error| format!("no thread for the supervisor: {error}").into())
}

struct Watch {
    supervisor: Supervisor,
    glances: Arc<Glances>,
    /// The status that it knows.
    told: String,
    /// When the workers last were asked whether they turn.
    looked: Instant,
}

impl Watch {
    fn run(mut self) {
        let interval = match self.supervisor.watchdog {
            Some(watchdog) => (watchdog / LOOKS_PER_WATCHDOG).clamp(SHORTEST_INTERVAL, STATUS_INTERVAL),
            None => STATUS_INTERVAL,
        };
        loop {
            self.look();
            std::thread::sleep(interval);
        }
    }

    fn look(&mut self) {
        let ending = self.glances.control.is_ending();
        let glance = self.glances.since(self.looked);
        self.looked = Instant::now();
        let mut message = Vec::new();
        let status = status(&glance, ending);
        if status != self.told {
            message.push(status_line(&status));
            self.told = status;
        }
        // Workers end one by one: from then on the supervisor's own time for that counts, and not theirs.
        if self.supervisor.watchdog.is_some() && (ending || glance.silent.is_empty()) {
            message.push(String::from("WATCHDOG=1"));
        }
        if !message.is_empty() {
            self.supervisor.tell(&message.join("\n"));
        }
    }
}

/// How it stands, in one line.
fn status(glance: &Glance, ending: bool) -> String {
    let views = || glance.wholes.values().map(|whole| &whole.view);
    let clients: usize = views().map(|view| view.clients).sum();
    let permits: u32 = views().map(|view| view.permits).sum();
    let queued: usize = views().map(|view| view.queued.total()).sum();
    let load = format!("clients: {clients}, statements that run: {permits}, that wait: {queued}");
    if ending {
        format!("ending; {load}")
    } else if !glance.silent.is_empty() {
        format!("{} not answered: their loops do not turn; {load}", have(&glance.silent))
    } else if !views().all(|view| view.has_accounts) {
        format!("the server's accounts have not been read yet; {load}")
    } else if !views().all(|view| view.server_is_up) {
        format!("the server does not answer; {load}")
    } else if views().any(|view| view.paused) {
        format!("paused; {load}")
    } else {
        load
    }
}
