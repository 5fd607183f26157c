//! Open files: of this process, as far as it may go, and of the whole system.

use drivers::{DriverChoice, DriverKind};

use super::uring::driver;
use crate::finding::{Check, Finding, grouped};
use crate::{Machine, Remedy, Request};

/// Standard streams, an event queue or rings, listeners, locks, the log and the service account's connection: about 20.
const OWN_FILES: u64 = 64;

/// What each further worker adds: its event queue or rings, its wake-up, its share of each listener.
const FILES_PER_WORKER: u64 = 8;

/// What one table of direct descriptors may hold however high the limit is (`IORING_MAX_FIXED_FILES`, Linux
/// `io_uring/rsrc.c`).
const LARGEST_TABLE: u64 = 1 << 20;

/// Descriptors of one of our processes beside its clients.
fn beside_clients(request: &Request) -> u64 {
    let backends = if request.role.serves() { u64::from(request.max_backends) } else { 0 };
    OWN_FILES + FILES_PER_WORKER * u64::from(request.workers.saturating_sub(1)) + backends
}

/// Descriptors of one of our processes.
fn of_one_process(machine: &Machine, request: &Request) -> u64 {
    match driver(machine, request) {
        DriverKind::Uring => beside_clients(request),
        DriverKind::Epoll => u64::from(request.connections) + beside_clients(request),
    }
}

pub(super) fn of_the_process(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "RLIMIT_NOFILE";
    let needed = of_one_process(machine, request);
    // Programs raise the soft limit by themselves, and with the right to it (CAP_SYS_RESOURCE) the hard one, too.
    let attainable = machine.process.open_files.map(|limit| match machine.nr_open {
        Some(nr_open) if machine.process.may_raise_limits => limit.hard.max(nr_open),
        _ => limit.hard,
    });
    let finding = Finding::at_least(Check::OpenFiles, SUBJECT, attainable, needed);
    let soft = machine.process.open_files.map_or(0, |limit| limit.soft);
    let why = match driver(machine, request) {
        DriverKind::Epoll => format!(
            "with epoll each client is an open file; the soft limit of {} is raised at the start",
            grouped(soft)
        ),
        DriverKind::Uring => {
            let table = attainable.unwrap_or(needed).clamp(1, LARGEST_TABLE);
            let tables = u64::from(request.connections).div_ceil(table);
            format!(
                "with io_uring clients take no open files, and the limit only sizes the tables of direct descriptors: \
                 {tables} for all clients"
            )
        }
    };
    let finding = finding
        .because(why)
        .lifted_by(Remedy::unit(
            format!("LimitNOFILE={needed}"),
            format!("ulimit -Hn {needed} && ulimit -n {needed}"),
        ))
        .lifted_by(Remedy::Advice(format!("for a container: --ulimit nofile={needed}")));
    if request.driver == DriverChoice::Auto && driver(machine, request) == DriverKind::Epoll {
        return Some(finding.lifted_by(Remedy::Advice(
            "where the limit is fixed: make io_uring usable (see there), with which clients take no open files"
                .to_owned(),
        )));
    }
    Some(finding)
}

pub(super) fn ceiling(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "fs.nr_open";
    let needed = of_one_process(machine, request);
    let finding = Finding::at_least(Check::OpenFilesCeiling, SUBJECT, machine.nr_open, needed)
        .because("no process may be given a higher limit of open files than this")
        .lifted_by(Remedy::sysctl(SUBJECT, needed));
    Some(finding)
}

pub(super) fn of_the_system(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "fs.file-max";
    // Direct descriptors count here like all others (`alloc_empty_file`, Linux `fs/file_table.c`).
    let ours = request.role.ends() * (u64::from(request.connections) + beside_clients(request));
    let others = machine.files_open.unwrap_or(0);
    let needed = ours + others;
    let finding = Finding::at_least(Check::OpenFilesSystem, SUBJECT, machine.file_max, needed)
        .because(format!("every socket is an open file of the system; {} are open now", grouped(others)))
        .lifted_by(Remedy::sysctl(SUBJECT, needed));
    Some(finding)
}
