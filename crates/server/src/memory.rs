//! The answer to SIGUSR1: how much memory is held, and what for.

use drivers::Counters;
use engine::Memory;

/// The reports of the workers since the last question for them.
pub(crate) struct Reports {
    workers: Vec<Report>,
}

/// One worker's answer.
#[derive(Clone, Copy)]
enum Report {
    /// Nobody has asked, or it has been logged.
    None,
    Awaited,
    Given(Memory),
    /// The worker has ended.
    Ended,
}

impl Reports {
    pub(crate) fn of(workers: usize) -> Self {
        Self { workers: vec![Report::None; workers] }
    }

    /// All workers are being asked.
    pub(crate) fn begin(&mut self) {
        for report in self.workers.iter_mut().filter(|report| !matches!(report, Report::Ended)) {
            *report = Report::Awaited;
        }
    }

    /// A worker has ended and will not answer.
    pub(crate) fn ended(&mut self, worker: usize) {
        self.workers[worker] = Report::Ended;
    }

    /// A worker has answered; once all have, the sum is logged.
    pub(crate) fn take(&mut self, worker: usize, memory: Memory, drivers: &[Counters]) {
        // The admin port asks too, and gets its answer by another way.
        if !matches!(self.workers[worker], Report::Awaited) {
            return;
        }
        self.workers[worker] = Report::Given(memory);
        if self.workers.iter().any(|report| matches!(report, Report::Awaited)) {
            return;
        }
        let given = self.workers.iter().zip(drivers).filter_map(|(report, counters)| match report {
            Report::Given(memory) => Some((*memory, *counters)),
            _ => None,
        });
        let (engines, drivers): (Vec<_>, Vec<_>) = given.unzip();
        log(&engines, &drivers);
        for report in self.workers.iter_mut().filter(|report| matches!(report, Report::Given(_))) {
            *report = Report::None;
        }
    }
}

/// Logs what workers hold together, and each one's share of the clients.
fn log(engines: &[Memory], drivers: &[Counters]) {
    let mut engine = Memory::default();
    engines.iter().for_each(|one| engine += *one);
    let sum = |figure: fn(&Counters) -> u64| drivers.iter().map(figure).sum::<u64>();
    let clients: Vec<_> = engines.iter().map(|memory| memory.clients.to_string()).collect();
    tracing::info!(
        "memory: {} clients by worker; engine {}: client tables {}, statements {}, logins {}, handshakes {}, kept warnings {}, backends {}, \
         {} session states {}, digests {}, outputs {}, compression {}; driver {}: connection tables {}, receive buffers {}, send buffers {}, rings {} \
         ({}); resident {}",
        clients.join(" + "),
        kilobytes(engine.total() as u64),
        kilobytes(engine.client_tables as u64),
        kilobytes(engine.statements as u64),
        kilobytes(engine.logins as u64),
        kilobytes(engine.handshakes as u64),
        kilobytes(engine.diagnostics as u64),
        kilobytes(engine.backends as u64),
        engine.session_state_count,
        kilobytes(engine.session_states as u64),
        kilobytes(engine.digests as u64),
        kilobytes(engine.outputs as u64),
        kilobytes(engine.compression as u64),
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
pub(crate) fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// In units of 1024 bytes, as top(1) and /proc show memory.
fn kilobytes(bytes: u64) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}
