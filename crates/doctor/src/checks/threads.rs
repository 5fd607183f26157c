//! What Onramp hardly needs, and a server with a thread for each connection very much.

use crate::finding::{Check, Finding, grouped};
use crate::{Machine, Remedy, Request};

/// Beside the workers: signals, name look-ups, the log, metrics.
const OTHER_THREADS: u64 = 16;

/// Program, libraries, heap and rings of a process, and what each of its workers adds (a stack, its guard, its rings).
const OWN_MAPS: u64 = 512;
const MAPS_PER_WORKER: u64 = 16;

/// A thread's stack and the page that guards it.
const MAPS_PER_THREAD: u64 = 2;

/// A limit on threads: where it is, how many it leaves, what lifts it.
struct Bound {
    subject: &'static str,
    left: Option<u64>,
    remedy: fn(u64) -> Remedy,
}

pub(super) fn threads(machine: &Machine, request: &Request) -> Option<Finding> {
    let needed = request.role.ends() * (u64::from(request.workers) + OTHER_THREADS);
    let bounds = [
        Bound {
            subject: "kernel.threads-max",
            left: machine.threads_max,
            remedy: |needed| Remedy::sysctl("kernel.threads-max", needed),
        },
        Bound {
            subject: "kernel.pid_max",
            left: machine.pid_max,
            remedy: |needed| Remedy::sysctl("kernel.pid_max", needed),
        },
        Bound {
            subject: "pids.max",
            left: machine.group.threads_left,
            remedy: |needed| {
                Remedy::unit(
                    format!("TasksMax={needed}"),
                    format!("systemctl set-property --runtime UNIT TasksMax={needed}"),
                )
            },
        },
        Bound {
            subject: "RLIMIT_NPROC",
            // Not held against those who may raise it (`copy_process`, Linux `kernel/fork.c`).
            left: machine.process.threads.map(|limit| limit.hard).filter(|_| !exempt(machine)),
            remedy: |needed| Remedy::unit(format!("LimitNPROC={needed}"), format!("ulimit -u {needed}")),
        },
    ];
    let tightest = bounds.iter().filter(|bound| bound.left.is_some()).min_by_key(|bound| bound.left);
    let (subject, left) = tightest.map_or(("kernel.threads-max", None), |bound| (bound.subject, bound.left));
    let mut finding =
        Finding::at_least(Check::Threads, subject, left, needed).because(compared(request, left, needed));
    // Some of the others may be short as well.
    for bound in bounds.iter().filter(|bound| bound.left.is_some_and(|left| left < needed)) {
        finding = finding.lifted_by((bound.remedy)(rounded(needed)));
    }
    Some(finding)
}

fn exempt(machine: &Machine) -> bool {
    machine.process.may_raise_limits || machine.process.is_administrator
}

/// What lies below is fewer than any system starts with, and `kernel.pid_max` is refused below 301.
fn rounded(needed: u64) -> u64 {
    needed.max(4096)
}

fn compared(request: &Request, left: Option<u64>, needed: u64) -> String {
    let connections = u64::from(request.connections);
    let verdict = match left {
        Some(left) if left < connections => "which does not fit here",
        Some(_) => "which fits here",
        None => "of which nothing is known here",
    };
    format!(
        "Onramp needs about {}, however many clients there are; a server with a thread for each of them would need {}, \
         {verdict}",
        grouped(needed),
        grouped(connections)
    )
}

pub(super) fn memory_maps(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "vm.max_map_count";
    let needed = OWN_MAPS + MAPS_PER_WORKER * u64::from(request.workers);
    let servers = u64::from(request.connections) * MAPS_PER_THREAD;
    let finding = Finding::at_least(Check::MemoryMaps, SUBJECT, machine.max_map_count, needed)
        .because(format!(
            "a server with a thread for each client would need {} for their stacks; Onramp has few threads",
            grouped(servers)
        ))
        .lifted_by(Remedy::sysctl(SUBJECT, needed.max(65_530))); // the kernel's default
    Some(finding)
}
