//! The server's own limits, without which clients would get errors.

use crate::finding::{Amount, Check, Finding, Verdict, grouped};
use crate::{Machine, Remedy, Request, Role, ServerAnswer};

/// Where the server says how many backends there may be, fewer than twice the statements that run at a time to begin with are few.
const FEWEST_BACKENDS: u64 = 32;

/// A KILL's, the server's own administrators, and a few that are still closing. The service account's, one for each worker,
/// come on top.
const BESIDE_BACKENDS: u64 = 7;

/// `backend_idle_timeout`'s default, in seconds.
const BACKEND_IDLE_TIMEOUT: u64 = 60;

/// `wait_timeout`'s default on all servers, in seconds.
const USUAL_WAIT_TIMEOUT: u64 = 28_800;

pub(super) fn connections(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "max_connections of the server";
    if request.role == Role::Bench {
        machine.server.as_ref()?;
    }
    let needed = connections_needed(request);
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
            let found = answer.max_connections();
            let version = answer.word("version").unwrap_or("of an unknown version");
            let finding = Finding::at_least(Check::ServerConnections, SUBJECT, Some(found), needed)
                .because(format!("{} ({version})", who_connects(request)))
                .lifted_by(server_variable("max_connections", needed));
            let fitting = found.saturating_sub(BESIDE_BACKENDS + u64::from(request.workers));
            if request.role == Role::Bench || request.max_backends == 0 || fitting == 0 {
                return Some(finding);
            }
            Some(finding.lifted_by(Remedy::Advice(format!("or lower max_backends of Onramp to {fitting}"))))
        }
    }
}

pub(super) fn user_connections(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "max_user_connections of the server";
    let found = answer(machine)?.number("max_user_connections")?;
    // 0 is no limit.
    let limit = if found == 0 { u64::MAX } else { found };
    let finding =
        Finding::at_least(Check::ServerUserConnections, SUBJECT, Some(limit), backends_needed(request))
            .because(format!("each account may have so many; {}", who_connects(request)))
            .lifted_by(server_variable("max_user_connections", 0));
    Some(finding)
}

/// Both servers want as many as this at their start, and otherwise take fewer connections and keep fewer tables open
/// (`adjust_open_files_limit` in MySQL's `mysqld.cc`, `init_common_variables` in MariaDB's).
pub(super) fn open_files(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "open_files_limit of the server";
    const OF_ITS_OWN: u64 = 10;
    const FOR_A_TABLE: u64 = 2;
    let answer = answer(machine)?;
    // 0 where the server cannot tell.
    let found = answer.number("open_files_limit").filter(|&limit| limit > 0)?;
    let tables = answer.number("table_open_cache")?;
    let connections = answer.max_connections().max(connections_needed(request));
    let needed = OF_ITS_OWN + connections + FOR_A_TABLE * tables;
    let why = format!(
        "each of {} connections takes one, each of table_open_cache = {} tables up to two; the server starts with fewer of \
         both where it has not enough",
        grouped(connections),
        grouped(tables)
    );
    let finding = Finding::at_least(Check::ServerOpenFiles, SUBJECT, Some(found), needed)
        .because(why)
        .lifted_by(Remedy::Advice(format!(
            "LimitNOFILE={needed} in [Service] of the server's systemd unit and open_files_limit = {needed} under [mysqld] \
             in its option file, and start it again"
        )));
    Some(finding)
}

pub(super) fn back_log(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "back_log of the server";
    let found = answer(machine)?.number("back_log")?;
    let needed = backends_needed(request).min(u64::from(u16::MAX)); // the largest value it takes
    let why = "so many connections to the server may begin at the same time; one that finds its queue full comes a second later, \
               or not at all over a Unix socket";
    let finding = Finding::at_least(Check::ServerBackLog, SUBJECT, Some(found), needed)
        .because(why)
        .lifted_by(Remedy::Advice(format!(
            "back_log = {needed} under [mysqld] in the server's option file, net.core.somaxconn = {needed} or more on its \
             machine, and start it again"
        )));
    Some(finding)
}

pub(super) fn wait_timeout(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "wait_timeout of the server";
    if !request.role.serves() {
        return None;
    }
    let found = answer(machine)?.number("wait_timeout")?;
    let why = "in seconds: Onramp closes backends that were idle for backend_idle_timeout (60 s unless it is set); where the \
               server closes them first, a statement that is on its way then may be lost";
    let finding = Finding::at_least(Check::ServerWaitTimeout, SUBJECT, Some(found), BACKEND_IDLE_TIMEOUT + 1)
        .because(why)
        .lifted_by(server_variable("wait_timeout", USUAL_WAIT_TIMEOUT))
        .lifted_by(Remedy::Advice("or a backend_idle_timeout of Onramp that is below it".to_owned()));
    Some(finding)
}

/// What the server said, where it did.
pub(super) fn answer(machine: &Machine) -> Option<&ServerAnswer> {
    machine.server.as_ref()?.as_ref().ok()
}

/// Connections that clients' statements need there. A load generator on its own is aimed at the server itself, and opens them all there.
pub(super) fn backends_needed(request: &Request) -> u64 {
    match (request.role, request.max_backends) {
        (Role::Bench, _) => u64::from(request.connections),
        (_, 0) => FEWEST_BACKENDS,
        (_, given) => u64::from(given),
    }
}

fn connections_needed(request: &Request) -> u64 {
    let service = if request.role == Role::Bench { 1 } else { u64::from(request.workers) };
    backends_needed(request) + service + BESIDE_BACKENDS
}

fn who_connects(request: &Request) -> String {
    match (request.role, request.max_backends) {
        (Role::Bench, _) => {
            "the load generator opens all of them there, unless it goes through Onramp".to_owned()
        }
        (_, 0) => {
            "Onramp opens as many connections to the server as its statements need and the server allows"
                .to_owned()
        }
        (_, given) => format!(
            "Onramp opens max_backends = {} connections to the server, however many clients there are",
            grouped(given.into())
        ),
    }
}

/// Sets a variable of the server that can be set while it runs.
pub(super) fn server_variable(name: &str, value: u64) -> Remedy {
    Remedy::Command {
        now: format!("SET GLOBAL {name} = {value};"),
        lasting: format!("{name} = {value} under [mysqld] in the server's option file"),
    }
}
