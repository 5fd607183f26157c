//! The server's own limit of connections.

use crate::finding::{Amount, Check, Finding, Verdict, grouped};
use crate::{Machine, Remedy, Request, Role};

/// Where the server says how many backends there may be, fewer than twice the statements that run at a time to begin with are few.
const FEWEST_BACKENDS: u64 = 32;

/// A KILL's, the server's own administrators, and a few that are still closing. The service account's, one for each worker,
/// come on top.
const BESIDE_BACKENDS: u64 = 7;

pub(super) fn connections(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "max_connections of the server";
    // A load generator on its own is aimed at the server itself, and opens them all there.
    let (needed, why) = if request.role == Role::Bench {
        machine.server.as_ref()?;
        let why = "the load generator opens all of them there, unless it goes through Onramp".to_owned();
        (u64::from(request.connections) + BESIDE_BACKENDS + 1, why)
    } else {
        let (backends, why) = match u64::from(request.max_backends) {
            0 => {
                let why = "Onramp opens as many connections to the server as its statements need and the server allows";
                (FEWEST_BACKENDS, why.to_owned())
            }
            given => {
                let given_as = grouped(given);
                let why = format!(
                    "Onramp opens max_backends = {given_as} connections to the server, however many clients there are"
                );
                (given, why)
            }
        };
        (backends + u64::from(request.workers) + BESIDE_BACKENDS, why)
    };
    match &machine.server {
        None => {
            let ask = "give --backend mysql://user:password@host:port/ to have it asked";
            let finding = Finding::new(Check::ServerConnections, SUBJECT, Verdict::Unknown, ask);
            Some(finding.amounts(Amount::Unread, Amount::Count(needed)))
        }
        Some(Err(reason)) => {
            let why = format!("the server cannot be asked: {reason}");
            let finding = Finding::new(Check::ServerConnections, SUBJECT, Verdict::Unknown, why);
            Some(finding.amounts(Amount::Unread, Amount::Count(needed)))
        }
        Some(Ok(answer)) => {
            let finding =
                Finding::at_least(Check::ServerConnections, SUBJECT, Some(answer.max_connections), needed)
                    .because(format!("{why} ({})", answer.version))
                    .lifted_by(Remedy::Command {
                        now: format!("SET GLOBAL max_connections = {needed};"),
                        lasting: format!(
                            "max_connections = {needed} under [mysqld] in the server's option file"
                        ),
                    });
            let fitting = answer.max_connections.saturating_sub(BESIDE_BACKENDS + u64::from(request.workers));
            if request.role == Role::Bench || request.max_backends == 0 || fitting == 0 {
                return Some(finding);
            }
            Some(finding.lifted_by(Remedy::Advice(format!("or lower max_backends of Onramp to {fitting}"))))
        }
    }
}
