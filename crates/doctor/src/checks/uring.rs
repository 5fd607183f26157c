//! io_uring, and the memory that its rings had to lock once.

use std::fmt;

use drivers::{DriverChoice, DriverKind, NoUring};

use crate::finding::{Amount, Check, Finding, Verdict};
use crate::machine::ENDLESS;
use crate::{Machine, Remedy, Request};

/// Up to Linux 6.12 a ring releases what it has closed only behind all that began before (io_uring/rsrc.c, `io_rsrc_node_ref_zero`).
const OLDEST_KERNEL: (u64, u64) = (6, 13);

/// Since then rings are charged to the control group's memory (Linux 5.12, `io_uring/memmap.c` today).
const RINGS_LOCK_NO_MEMORY: (u64, u64) = (5, 12);

/// What the sockets are driven with here.
pub(super) fn driver(machine: &Machine, request: &Request) -> DriverKind {
    match request.driver {
        DriverChoice::Epoll => DriverKind::Epoll,
        DriverChoice::Uring => DriverKind::Uring,
        DriverChoice::Auto if usable(machine).is_ok() => DriverKind::Uring,
        DriverChoice::Auto => DriverKind::Epoll,
    }
}

/// Why io_uring is not used.
#[derive(Debug, PartialEq, Eq)]
enum NotUsable {
    /// io_uring was tried out.
    Tried(NoUring),
    /// io_uring was not tried out, and nobody knows of which version the kernel is.
    UnknownKernel,
    /// io_uring was not tried out, and this kernel is older than [`OLDEST_KERNEL`].
    OldKernel(String),
    /// io_uring was not tried out, where it may be filtered.
    Untried,
    /// The settings forbid it to this process: `kernel.io_uring_disabled`.
    Disabled(u64),
}

impl fmt::Display for NotUsable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tried(reason) => reason.fmt(f),
            Self::UnknownKernel => f.write_str("the version of the kernel cannot be read"),
            Self::OldKernel(release) => {
                let (version, patch) = OLDEST_KERNEL;
                write!(f, "Linux {release} is older than {version}.{patch}")
            }
            Self::Untried => {
                f.write_str("system calls are filtered here, and it was not tried whether these are")
            }
            Self::Disabled(value) => write!(f, "kernel.io_uring_disabled is {value}"),
        }
    }
}

/// Says why io_uring cannot be used: as it was tried out, else as far as the settings tell.
fn usable(machine: &Machine) -> Result<(), NotUsable> {
    match &machine.uring {
        Some(probe) => probe.clone().map_err(NotUsable::Tried),
        None => by_settings(machine),
    }
}

fn by_settings(machine: &Machine) -> Result<(), NotUsable> {
    match machine.kernel {
        None => return Err(NotUsable::UnknownKernel),
        Some(kernel) if kernel < OLDEST_KERNEL => return Err(NotUsable::OldKernel(machine.release.clone())),
        Some(_) => {}
    }
    // Documentation/admin-guide/sysctl/kernel.rst: 1 leaves it to CAP_SYS_ADMIN and the group io_uring_group, 2 to nobody.
    match machine.uring_disabled {
        0 if machine.process.is_filtered => Err(NotUsable::Untried),
        0 => Ok(()),
        1 if machine.process.is_administrator => Ok(()),
        value => Err(NotUsable::Disabled(value)),
    }
}

pub(super) fn io_uring(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "io_uring";
    let state = usable(machine);
    let (verdict, why) = match (request.driver, &state) {
        (DriverChoice::Epoll, _) => (Verdict::Ok, "epoll was asked for".to_owned()),
        (_, Ok(())) => (Verdict::Ok, "clients take no open files".to_owned()),
        (DriverChoice::Uring, Err(reason)) => {
            (Verdict::Short, format!("io_uring was asked for and cannot be used: {reason}"))
        }
        (DriverChoice::Auto, Err(reason)) => {
            (Verdict::Hint, format!("epoll is used, and each client takes an open file: {reason}"))
        }
    };
    let found = Amount::words(if state.is_ok() { "usable" } else { "not usable" });
    let needed = match request.driver {
        DriverChoice::Uring => Amount::words("usable"),
        DriverChoice::Epoll | DriverChoice::Auto => Amount::Unread,
    };
    let finding = Finding::new(Check::IoUring, SUBJECT, verdict, why).amounts(found, needed);
    match remedy(machine) {
        Some(remedy) => Some(finding.lifted_by(remedy)),
        None => Some(finding),
    }
}

/// Where neither the kernel's age nor a setting is the reason, and no filter either, the probe's own words have to do.
fn remedy(machine: &Machine) -> Option<Remedy> {
    let too_old = machine.kernel.is_some_and(|kernel| kernel < OLDEST_KERNEL);
    let closed =
        machine.uring_disabled > 1 || machine.uring_disabled == 1 && !machine.process.is_administrator;
    if too_old {
        let (version, patch) = OLDEST_KERNEL;
        Some(Remedy::Advice(format!("use Linux {version}.{patch} or newer")))
    } else if closed {
        Some(Remedy::sysctl("kernel.io_uring_disabled", 0))
    } else if machine.process.is_filtered {
        Some(Remedy::Advice(
            "system calls are filtered here (seccomp): allow io_uring_setup, io_uring_enter and io_uring_register (for \
             a container: --security-opt seccomp=PROFILE.json)"
                .to_owned(),
        ))
    } else {
        None
    }
}

pub(super) fn locked_memory(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "RLIMIT_MEMLOCK";
    let found = machine.process.locked_memory?;
    let needs_none = machine.kernel.is_some_and(|kernel| kernel >= RINGS_LOCK_NO_MEMORY);
    let (verdict, why) = if needs_none {
        (Verdict::Ok, "rings lock no memory since Linux 5.12")
    } else if driver(machine, request) == DriverKind::Epoll {
        (Verdict::Ok, "epoll locks no memory")
    } else {
        (Verdict::Hint, "before Linux 5.12 the rings of io_uring are locked memory")
    };
    let hard = if found.hard == ENDLESS { Amount::Unlimited } else { Amount::Bytes(found.hard) };
    let finding = Finding::new(Check::LockedMemory, SUBJECT, verdict, why)
        .amounts(hard, Amount::Unread)
        .lifted_by(Remedy::unit("LimitMEMLOCK=infinity", "ulimit -l unlimited"));
    // Without a limit there is nothing to lift.
    if found.hard == ENDLESS {
        return Some(Finding { verdict: Verdict::Ok, remedies: Vec::new(), ..finding });
    }
    Some(finding)
}
