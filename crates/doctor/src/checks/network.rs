//! Queues, ports, buffers and tables of the network.

use super::with_room;
use crate::finding::{Amount, Check, Finding, Verdict, grouped};
use crate::{Machine, Remedy, Request};

pub(super) fn accept_queue(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "net.core.somaxconn";
    if !request.role.serves() {
        return None;
    }
    let needed = u64::from(request.back_log.min(request.connections));
    let finding = Finding::at_least(Check::AcceptQueue, SUBJECT, machine.network.somaxconn, needed)
        .because(format!(
            "back_log asks for a queue of {} and the kernel caps it to this; where a storm of logins overflows it, \
             clients try again only after a second or more",
            grouped(u64::from(request.back_log))
        ))
        .lifted_by(Remedy::sysctl(SUBJECT, needed));
    Some(finding)
}

pub(super) fn syn_queue(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "net.ipv4.tcp_max_syn_backlog";
    if !request.role.serves() {
        return None;
    }
    let network = &machine.network;
    let found = network.max_syn_backlog.map_or(Amount::Unread, Amount::Count);
    match network.syncookies {
        None => {
            let why = "whether it matters depends on net.ipv4.tcp_syncookies, which cannot be read";
            Some(Finding::new(Check::SynQueue, SUBJECT, Verdict::Unknown, why).amounts(found, Amount::Unread))
        }
        // `tcp_conn_request`, Linux `net/ipv4/tcp_input.c`: the limit counts only without cookies.
        Some(1..) => {
            let why =
                "with net.ipv4.tcp_syncookies nothing is dropped here, and the accept queue is the limit";
            Some(
                Finding::new(Check::SynQueue, SUBJECT, Verdict::Ok, why).amounts(found, Amount::words("any")),
            )
        }
        Some(0) => {
            // The last quarter is kept for peers that are known already.
            let needed = u64::from(request.back_log.min(request.connections)) * 4 / 3 + 1;
            let finding = Finding::at_least(Check::SynQueue, SUBJECT, network.max_syn_backlog, needed)
                .because(
                    "without net.ipv4.tcp_syncookies, connections beyond three quarters of this are dropped",
                )
                .lifted_by(Remedy::sysctl(SUBJECT, needed));
            Some(finding)
        }
    }
}

/// The widest range that makes sense: what lies below is for servers of the system.
const WIDEST_RANGE: (u64, u64) = (1024, 65_535);

pub(super) fn local_ports(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "room in net.ipv4.ip_local_port_range";
    let network = &machine.network;
    let ports = network.port_range.map(|(low, high)| (high - low + 1) - network.reserved_in_range);
    if !request.role.connects() {
        // The service account's connections come on top, one for each worker.
        let needed = request.backends(machine) + u64::from(request.workers);
        let why = format!(
            "backends over TCP; the clients' ports are those of their own machines, each of which can reach one \
             address here {} times with the same range",
            ports.map_or("?".to_owned(), grouped)
        );
        let finding = Finding::at_least(Check::LocalPorts, SUBJECT, ports, needed).because(why);
        return Some(widened(finding, network.port_range));
    }
    let needed = u64::from(request.connections);
    let widest = dependable((WIDEST_RANGE.1 - WIDEST_RANGE.0 + 1).saturating_sub(network.reserved_in_range));
    let ports = ports.map(dependable);
    let pairs_with = |ports: u64| needed.div_ceil(ports.max(1));
    let now = ports.map_or(1, pairs_with);
    let pairs = match request.address_pairs {
        Some(pairs) => u64::from(pairs.max(1)),
        None if request.role.serves() => now,
        None => 1,
    };
    let finding = Finding::at_least(Check::LocalPorts, SUBJECT, ports.map(|ports| ports * pairs), needed)
        .because(format!(
            "each pair of a local and a remote address has {} ports that can be counted on, and the load generator uses \
             {}",
            ports.map_or("?".to_owned(), grouped),
            if pairs == 1 { "one pair".to_owned() } else { format!("{} pairs", grouped(pairs)) },
        ));
    // Nothing is gained by a wider range where it saves no address.
    let finding = if pairs_with(widest) < now { widened(finding, network.port_range) } else { finding };
    if pairs_with(widest) <= pairs {
        return Some(finding);
    }
    Some(finding.lifted_by(Remedy::Advice(format!(
        "give the load generator {} local addresses with the range {} {}, or {now} with the present one \
         (--local-address A,B; on the loopback device all of 127.0.0.0/8 are there)",
        pairs_with(widest),
        WIDEST_RANGE.0,
        WIDEST_RANGE.1
    ))))
}

/// The last tenth is found slowly: the kernel tries ports one after the other, and some are others' or in TIME_WAIT.
fn dependable(ports: u64) -> u64 {
    ports - ports / 10
}

fn widened(finding: Finding, range: Option<(u64, u64)>) -> Finding {
    if range == Some(WIDEST_RANGE) {
        return finding;
    }
    let (low, high) = WIDEST_RANGE;
    finding
        .lifted_by(Remedy::sysctl("net.ipv4.ip_local_port_range", format!("{low} {high}")))
        .lifted_by(Remedy::Advice(
            "keep the ports of this machine's own servers out of it: net.ipv4.ip_local_reserved_ports = 3306,33060"
                .to_owned(),
        ))
}

pub(super) fn tcp_memory(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "net.ipv4.tcp_mem";
    // The defaults, where they cannot be read (`tcp_init`, Linux `net/ipv4/tcp.c`).
    const LEAST: u64 = 4096;
    let network = &machine.network;
    let receive = network.tcp_rmem_least.unwrap_or(LEAST);
    let send = network.tcp_wmem_least.unwrap_or(LEAST);
    // A client's statement is on its way, or the reply to it, not both. Where both ends are here it is counted twice: with
    // the sender until it is acknowledged, and with the receiver until it is read.
    let (each, words) = match request.role.ends() {
        2 => (receive.saturating_add(send), "the least of both ends"),
        _ => (receive.max(send), "the least"),
    };
    let connections = u64::from(request.connections);
    let needed = connections.saturating_mul(each).div_ceil(machine.page_size.max(1));
    let why = format!(
        "idle sockets hold none; if all {} clients have a statement or a reply on its way at once, {words} for each is {} \
         bytes (tcp_rmem, tcp_wmem); counted in pages",
        grouped(connections),
        grouped(each)
    );
    let Some([low, pressure, high]) = network.tcp_mem else {
        return Some(Finding::at_least(Check::TcpMemory, SUBJECT, None, needed).because(why));
    };
    // Beyond the second number buffers shrink, beyond the third bytes are dropped.
    let mut finding = Finding::at_least(Check::TcpMemory, SUBJECT, Some(high), needed).because(why);
    if finding.verdict == Verdict::Ok {
        finding.found = Amount::Count(pressure);
        finding.verdict = if pressure < needed { Verdict::Hint } else { Verdict::Ok };
    }
    // In the kernel's own proportions (`tcp_init_mem`): three quarters, one, one and a half.
    let value = format!("{} {needed} {}", low.max(needed / 4 * 3), high.max(needed / 2 * 3));
    Some(finding.lifted_by(Remedy::sysctl(SUBJECT, value)))
}

pub(super) fn packet_queue(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "net.core.netdev_max_backlog";
    let found = machine.network.max_backlog?;
    // Each of a full accept queue brings a packet and its acknowledgement.
    let needed = 2 * u64::from(request.back_log);
    let dropped = machine.network.packets_dropped.unwrap_or(0);
    let verdict = if dropped > 0 && found < needed { Verdict::Hint } else { Verdict::Ok };
    let why = format!(
        "packets that wait for a core, those of the loopback device too; {} were dropped here since the start of the \
         machine",
        grouped(dropped)
    );
    let needed_amount = if dropped > 0 { Amount::Count(needed) } else { Amount::words("any") };
    let finding = Finding::new(Check::PacketQueue, SUBJECT, verdict, why)
        .amounts(Amount::Count(found), needed_amount)
        .lifted_by(Remedy::sysctl(SUBJECT, needed));
    Some(finding)
}

/// Entries that the firewall's table has to hold. One on the loopback device stands for both ends.
fn entries_needed(machine: &Machine, request: &Request) -> u64 {
    let backends = if request.role.serves() { request.backends(machine) } else { 0 };
    let others = machine.network.conntrack_count.unwrap_or(0);
    others.saturating_add(u64::from(request.connections) + backends)
}

pub(super) fn conntrack(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "net.netfilter.nf_conntrack_max";
    if machine.network.conntrack_max.is_none() {
        let finding =
            Finding::new(Check::Conntrack, SUBJECT, Verdict::Ok, "no firewall tracks connections here");
        return Some(finding.amounts(Amount::words("not in use"), Amount::Unread));
    }
    let needed = entries_needed(machine, request);
    let finding = Finding::at_least(Check::Conntrack, SUBJECT, machine.network.conntrack_max, needed)
        .because(format!(
            "a firewall that tracks connections drops new ones once its table is full; it holds {} now",
            grouped(machine.network.conntrack_count.unwrap_or(0))
        ))
        .lifted_by(Remedy::sysctl(SUBJECT, with_room(needed)))
        .lifted_by(Remedy::Advice(
            "or leave the connections to Onramp's port untracked: notrack rules for both directions in the raw table"
                .to_owned(),
        ));
    Some(finding)
}

pub(super) fn conntrack_buckets(machine: &Machine, request: &Request) -> Option<Finding> {
    const SUBJECT: &str = "net.netfilter.nf_conntrack_buckets";
    // Each entry is in the table twice, once for each direction; chains longer than this cost every packet.
    const LONGEST_CHAIN: u64 = 8;
    machine.network.conntrack_max?;
    let found = machine.network.conntrack_buckets?;
    let needed = (2 * entries_needed(machine, request)).div_ceil(LONGEST_CHAIN);
    let verdict = if found < needed { Verdict::Hint } else { Verdict::Ok };
    let why = "with fewer buckets every packet walks a longer chain of the firewall's table";
    let finding = Finding::new(Check::ConntrackBuckets, SUBJECT, verdict, why)
        .amounts(Amount::Count(found), Amount::Count(needed))
        .lifted_by(Remedy::sysctl(SUBJECT, needed.next_power_of_two()));
    Some(finding)
}
