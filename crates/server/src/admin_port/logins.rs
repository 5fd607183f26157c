//! The stages of logins: how many clients are at each, and how long it has taken.

use std::collections::BTreeMap;

use admin::Rows;
use admin::tables::Login;
use engine::{Histogram, LoginStage, Measures};

use super::counters::Wholes;
use super::values::micros;

/// A row for each, and one for the whole. `logging_in` is how many clients are at each now.
pub(super) fn put(rows: &mut Rows<'_>, logging_in: &BTreeMap<LoginStage, u64>, wholes: &Wholes) {
    if !rows.wants::<Login>() {
        return;
    }
    let mut together = Measures::default();
    wholes.values().filter_map(|whole| whole.measures.as_ref()).for_each(|(own, _)| together += own);
    for &stage in LoginStage::ALL {
        let clients = logging_in.get(&stage).copied().unwrap_or(0);
        rows.put(&row(stage.name(), clients, together.login_stage(stage), what(stage)));
    }
    let whole = "from the connection to the end of the login";
    rows.put(&row("whole", logging_in.values().sum(), &together.logins, whole));
}

fn row(stage: &'static str, clients: u64, times: &Histogram, what: &'static str) -> Login {
    let quantile = |share| micros(times.quantile(share));
    Login {
        stage,
        clients,
        count: times.count(),
        p50_us: quantile(0.5),
        p95_us: quantile(0.95),
        p99_us: quantile(0.99),
        max_us: micros(times.max()),
        what,
    }
}

/// What happens in a stage, for people.
pub(crate) fn what(stage: LoginStage) -> &'static str {
    match stage {
        LoginStage::Greeting => {
            "from the connection to Onramp's greeting; it waits for the server's accounts at the start"
        }
        LoginStage::Tls => "the handshake of TLS, with those that wait for their turn",
        LoginStage::Request => {
            "from the connection to the client's name: the network and the client itself, with TLS"
        }
        LoginStage::Password => "from there to where the password is known to be right",
        LoginStage::FirstBackend => "what the first statement waits for until it has a backend",
    }
}
