//! What a process uses, from /proc (proc_pid_stat(5), proc_pid_status(5)).

use std::time::Instant;

use crate::report::Usage;

/// What a process has used at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// When it was read.
    at: Instant,
    user: f64,
    system: f64,
    /// Bytes resident now.
    pub(crate) resident: u64,
    /// The most bytes that ever were.
    resident_peak: u64,
}

impl Reading {
    /// Of the process with this number; `None` where it is gone.
    pub(crate) fn of(process: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let (user, system) = processor_ticks(&stat)?;
        Some(Self {
            at: Instant::now(),
            user: user as f64 / ticks,
            system: system as f64 / ticks,
            resident: kilobytes(&status, "VmRSS:")?,
            resident_peak: kilobytes(&status, "VmHWM:")?,
        })
    }

    /// Cores that were busy with it from `begin` to `end`.
    pub(crate) fn cores(begin: &Self, end: &Self) -> f64 {
        let over = end.at.duration_since(begin.at).as_secs_f64();
        if over > 0.0 { (end.user + end.system - begin.user - begin.system) / over } else { 0.0 }
    }

    /// From `begin` to `end`, while `queries_per_second` were answered.
    pub(crate) fn usage(begin: &Self, end: &Self, queries_per_second: f64) -> Usage {
        let over = end.at.duration_since(begin.at).as_secs_f64();
        let (user, system) = (end.user - begin.user, end.system - begin.system);
        let queries = queries_per_second * over;
        let per_query = |seconds: f64| if queries > 0.0 { seconds * 1e6 / queries } else { 0.0 };
        Usage {
            resident: end.resident,
            resident_peak: end.resident_peak,
            user,
            system,
            over,
            user_per_query: per_query(user),
            system_per_query: per_query(system),
        }
    }
}

/// What the whole machine has used at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineReading {
    at: Instant,
    busy: f64,
}

impl MachineReading {
    /// Now; `None` where the system does not say.
    pub(crate) fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let busy = busy_ticks(&stat)? as f64 / rustix::param::clock_ticks_per_second() as f64;
        Some(Self { at: Instant::now(), busy })
    }

    /// Cores that were busy from `begin` to `end`.
    pub(crate) fn cores(begin: &Self, end: &Self) -> Option<f64> {
        let over = end.at.duration_since(begin.at).as_secs_f64();
        (over > 0.0).then(|| (end.busy - begin.busy) / over)
    }
}

/// The first line of /proc/stat but for its idle time and what follows from virtual machines: user, nice, system, irq,
/// softirq (proc_stat(5)). Time that a hypervisor took (steal) is nobody's here.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = fields[..] else { return None };
    Some(user + nice + system + irq + softirq)
}

/// `utime` and `stime`, the 14th and 15th field. The second one, the program's name in parentheses, may hold anything.
fn processor_ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// A line such as `VmRSS:      5120 kB`, in bytes.
pub(crate) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 731 269 0 0 20 0 3 0 12345 1000 200";
        assert_eq!(processor_ticks(stat), Some((731, 269)));
        assert_eq!(processor_ticks("42 (cut) S 1"), None);
    }

    #[test]
    fn the_machine_is_busy_where_it_is_not_idle() {
        let stat = "cpu  100 20 30 9999 88 4 6 77 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(160));
        assert_eq!(busy_ticks("cpu0 1 1 1 1 1 1 1\n"), None);
        let reading = MachineReading::now().unwrap();
        assert_eq!(MachineReading::cores(&reading, &reading), None);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(kilobytes("VmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n", "VmRSS:"), Some(1 << 20));
        assert_eq!(kilobytes("VmHWM:\t 2048 kB\n", "VmRSS:"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let reading = Reading::of(std::process::id()).unwrap();
        assert!(reading.resident > 0 && reading.resident_peak >= reading.resident);
        let usage = Reading::usage(&reading, &reading, 1000.0);
        assert_eq!((usage.over, usage.per_query()), (0.0, 0.0));
    }
}
