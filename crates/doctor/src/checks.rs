//! The judgement: a pure function of the machine and of what is about to run.

mod hints;
mod memory;
mod network;
mod open_files;
mod server;
mod server_hints;
mod threads;
mod uring;

use crate::{Finding, Machine, Request};

/// Judges every limit that matters for `request`, in the order of the table. Looks at nothing but its arguments.
pub fn examine(machine: &Machine, request: &Request) -> Vec<Finding> {
    let checks: [Check; 27] = [
        uring::io_uring,
        open_files::of_the_process,
        open_files::ceiling,
        open_files::of_the_system,
        uring::locked_memory,
        network::accept_queue,
        network::syn_queue,
        network::local_ports,
        network::tcp_memory,
        network::packet_queue,
        network::conntrack,
        network::conntrack_buckets,
        memory::memory,
        threads::threads,
        threads::memory_maps,
        server::connections,
        server::user_connections,
        server::open_files,
        server::back_log,
        server::wait_timeout,
        server_hints::prepared_statements,
        server_hints::threads,
        server_hints::concurrency,
        server_hints::tables,
        hints::huge_pages,
        hints::cpu_quota,
        hints::swap,
    ];
    checks.iter().filter_map(|check| check(machine, request)).collect()
}

/// `None` where the limit does not matter for what is about to run.
type Check = fn(&Machine, &Request) -> Option<Finding>;

/// What to set a limit to that others use, too: they will not stay as they are now.
fn with_room(needed: u64) -> u64 {
    needed.saturating_add(needed / 4)
}
