//! The answer to SIGUSR1: how much memory is held, and what for.

use drivers::Counters;
use engine::Memory;

/// Logs what all workers hold together, and each worker's share of the clients.
pub(crate) fn log(engines: &[Memory], drivers: &[Counters]) {
    let mut engine = Memory::default();
    engines.iter().for_each(|one| engine += *one);
    let sum = |figure: fn(&Counters) -> u64| drivers.iter().map(figure).sum::<u64>();
    let clients: Vec<_> = engines.iter().map(|memory| memory.clients.to_string()).collect();
    tracing::info!(
        "memory: {} clients by worker; engine {}: client tables {}, statements {}, kept warnings {}, backends {}, {} session \
         states {}, outputs {}; driver {}: connection tables {}, receive buffers {}, send buffers {}, rings {} ({}); \
         resident {}",
        clients.join(" + "),
        kilobytes(engine.total() as u64),
        kilobytes(engine.client_tables as u64),
        kilobytes(engine.statements as u64),
        kilobytes(engine.diagnostics as u64),
        kilobytes(engine.backends as u64),
        engine.session_state_count,
        kilobytes(engine.session_states as u64),
        kilobytes(engine.outputs as u64),
        kilobytes(sum(Counters::memory_bytes)),
        kilobytes(sum(|counters| counters.connection_table_bytes)),
        kilobytes(sum(|counters| counters.receive_buffer_bytes)),
        kilobytes(sum(|counters| counters.send_buffer_bytes)),
        kilobytes(sum(|counters| counters.ring_bytes)),
        sum(|counters| counters.rings),
        resident().map_or_else(|| String::from("unknown"), kilobytes),
    );
}

/// The process's resident memory as the kernel counts it (proc(5), statm), in bytes.
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// In units of 1024 bytes, as top(1) and /proc show memory.
fn kilobytes(bytes: u64) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}
