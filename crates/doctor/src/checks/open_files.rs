//! Open files: of this process, as far as it may go, and of the whole system.

use config::OWN_FILES;
use drivers::{DriverChoice, DriverKind};

use super::uring::driver;
use super::with_room;
use crate::finding::{Amount, Check, Finding, Verdict, grouped};
use crate::{Machine, Remedy, Request};

/// What each further worker adds: its event queue or rings, its wake-up, its share of each listener.
const FILES_PER_WORKER: u64 = 8;

/// Places in a ring's table of direct descriptors, where the limit of open files allows as many.
const LARGEST_TABLE: u64 = 1 << 14;

/// A ring and what wakes it.
const FILES_PER_RING: u64 = 2;

/// Descriptors of one of our processes beside its clients.
fn beside_clients(machine: &Machine, request: &Request) -> u64 {
    let backends = if request.role.serves() { request.backends(machine) } else { 0 };
    u64::from(OWN_FILES) + FILES_PER_WORKER * u64::from(request.workers.saturating_sub(1)) + backends
}

/// Descriptors of one of our processes.
fn of_one_process(machine: &Machine, request: &Request) -> u64 {
    match driver(machine, request) {
        DriverKind::Uring => beside_clients(machine, request) + FILES_PER_RING * rings(machine, request),
        DriverKind::Epoll => u64::from(request.connections) + beside_clients(machine, request),
    }
}

/// As far as the limit can be raised. Programs do that with the soft limit by themselves, and with the right to it
/// (CAP_SYS_RESOURCE) with the hard one, too.
fn attainable(machine: &Machine) -> Option<u64> {
    let hard = machine.process.open_files?.hard;
    match machine.nr_open {
        Some(nr_open) if machine.process.may_raise_limits => Some(hard.max(nr_open)),
        _ => Some(hard),
    }
}

/// Rings of one process: the kernel gives none a table with more places than the limit of open files. None with epoll.
pub(super) fn rings(machine: &Machine, request: &Request) -> u64 {
    if driver(machine, request) == DriverKind::Epoll {
        return 0;
    }
    let table = attainable(machine).unwrap_or(LARGEST_TABLE).clamp(1, LARGEST_TABLE);
    u64::from(request.connections).div_ceil(table).max(u64::from(request.workers))
}

pub(super) fn of_the_process(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "RLIMIT_NOFILE";
    let needed = of_one_process(machine, request);
    let found = attainable(machine);
    let finding = Finding::at_least(Check::OpenFiles, SUBJECT, found, needed);
    if driver(machine, request) == DriverKind::Uring {
        return Some(lifted(of_rings(finding, machine, request)));
    }
    let soft = machine.process.open_files.map_or(0, |limit| limit.soft);
    let finding = lifted(finding.because(format!(
        "with epoll each client is an open file; the soft limit of {} is raised at the start",
        grouped(soft)
    )));
    if request.driver == DriverChoice::Auto {
        return Some(finding.lifted_by(Remedy::Advice(
            "where the limit is fixed: make io_uring usable (see there), with which clients take no open files"
                .to_owned(),
        )));
    }
    Some(finding)
}

/// With io_uring a low limit means many small rings rather than refused clients.
fn of_rings(mut finding: Finding, machine: &Machine, request: &Request) -> Finding {
    let wanted = LARGEST_TABLE.min(u64::from(request.connections));
    if finding.verdict == Verdict::Ok && attainable(machine).is_some_and(|found| found < wanted) {
        finding.verdict = Verdict::Hint;
        finding.needed = Amount::Count(wanted);
    }
    finding.because(format!(
        "with io_uring clients take no open files, but a ring has places for as many clients as this limit, {} at most: \
         rings needed here: {}",
        grouped(LARGEST_TABLE),
        grouped(rings(machine, request))
    ))
}

fn lifted(finding: Finding) -> Finding {
    let needed = finding.needed.number().unwrap_or(0);
    finding
        .lifted_by(Remedy::unit(
            format!("LimitNOFILE={needed}"),
            format!("ulimit -Hn {needed} && ulimit -n {needed}"),
        ))
        .lifted_by(Remedy::Advice(format!("for a container: --ulimit nofile={needed}")))
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
    let rings = FILES_PER_RING * rings(machine, request);
    let ours =
        request.role.ends() * (u64::from(request.connections) + beside_clients(machine, request) + rings);
    let others = machine.files_open.unwrap_or(0);
    let needed = ours + others;
    let finding = Finding::at_least(Check::OpenFilesSystem, SUBJECT, machine.file_max, needed)
        .because(format!("every socket is an open file of the system; {} are open now", grouped(others)))
        .lifted_by(Remedy::sysctl(SUBJECT, with_room(needed)));
    Some(finding)
}
