//! Memory for the clients while they do nothing.

use super::open_files::rings;
use crate::finding::{Amount, Check, Finding, Verdict, grouped};
use crate::{Machine, Remedy, Request};

/// What Onramp promises for an idle client; about 500 bytes were measured (docs/BENCHMARKS.md). The load generator keeps
/// less for each of its connections.
const OURS_PER_CLIENT: u64 = 1024;

/// What the kernel keeps for an idle TCP socket, where its own figures cannot be read. Measured on Linux 6.18 (x86-64) with
/// 9,000 connections that had exchanged a few bytes: 8,153 bytes of its caches for both ends of each. Debug options and
/// security modules add some.
const KERNEL_PER_SOCKET: u64 = 4608;

/// 256 receive buffers of 8 KiB, two queues, and a table of up to 16,384 places.
const OURS_PER_RING: u64 = 3 << 20;

/// One of our processes without clients: 5 MB were measured, and its receive buffers come on top.
const OURS_AT_REST: u64 = 64 << 20;

pub(super) fn memory(machine: &Machine, request: &Request) -> Option<Finding> {
    let per_socket = machine.memory.socket.unwrap_or(KERNEL_PER_SOCKET);
    let each = OURS_PER_CLIENT.saturating_add(per_socket);
    let at_rest = OURS_AT_REST + OURS_PER_RING * rings(machine, request);
    let needed = request
        .role
        .ends()
        .saturating_mul(u64::from(request.connections).saturating_mul(each).saturating_add(at_rest));
    let available = machine.memory.available;
    // The control group's limit, where it leaves less than there is.
    let group = machine.group.memory.filter(|group| available.is_none_or(|available| group.left < available));
    let (subject, found) = match group {
        Some(group) => ("room below memory.max", Some(group.left)),
        None => ("MemAvailable", available),
    };
    let verdict = match found {
        None => Verdict::Unknown,
        Some(found) if found < needed => Verdict::Short,
        Some(_) => Verdict::Ok,
    };
    let why = format!(
        "idle clients: {} bytes of ours and {} of the kernel's for each end{}; statements on their way come on top, up \
         to statement_memory",
        grouped(OURS_PER_CLIENT),
        grouped(per_socket),
        if request.role.ends() == 2 { ", and both ends are here" } else { "" }
    );
    let mut finding = Finding::new(Check::Memory, subject, verdict, why)
        .amounts(found.map_or(Amount::Unread, Amount::Bytes), Amount::Bytes(needed));
    if let Some(group) = group {
        let mebibytes = group.used.saturating_add(needed).div_ceil(1 << 20);
        finding = finding
            .lifted_by(Remedy::unit(
                format!("MemoryMax={mebibytes}M"),
                format!("systemctl set-property --runtime UNIT MemoryMax={mebibytes}M"),
            ))
            .lifted_by(Remedy::Advice(format!("for a container: --memory {mebibytes}m")));
    }
    let fitting = found.unwrap_or(0).saturating_sub(request.role.ends() * at_rest)
        / each.saturating_mul(request.role.ends()).max(1);
    Some(finding.lifted_by(Remedy::Advice(format!(
        "add memory, or lower max_connections: about {} clients fit",
        grouped(fitting)
    ))))
}
