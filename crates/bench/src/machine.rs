//! What the load generator runs on, and what it uses of it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The machine, as named in a report.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// System and release.
    pub kernel: String,
    /// Of the processor, where the system says.
    pub processor: String,
}

impl Machine {
    /// This one.
    pub fn describe() -> Self {
        let system = rustix::system::uname();
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            processor: processor_name(&cpuinfo).unwrap_or_default().to_owned(),
        }
    }
}

fn processor_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// Processor time of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// All of it.
    pub total: Duration,
    /// In this program, to a hundredth of a second.
    pub user: Duration,
    /// In the kernel on its behalf, to a hundredth of a second.
    pub system: Duration,
}

impl ProcessorTime {
    /// Used so far.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let total =
            Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let ticks = user_and_system_ticks(&stat).unwrap_or_default();
        let per_second = rustix::param::clock_ticks_per_second().max(1) as f64;
        let [user, system] = ticks.map(|ticks| Duration::from_secs_f64(f64::from(ticks) / per_second));
        Self { total, user, system }
    }

    /// Used since then.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            total: self.total.saturating_sub(earlier.total),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Fields 14 and 15 of `/proc/self/stat` (proc_pid_stat(5)). The second field, a name in parentheses, may hold anything.
fn user_and_system_ticks(stat: &str) -> Option<[u32; 2]> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    Some([fields.next()?.parse().ok()?, fields.next()?.parse().ok()?])
}

/// Bytes of this process that are in memory. 0 where the system does not say.
pub fn resident_memory() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    resident_pages(&statm).unwrap_or(0) * rustix::param::page_size() as u64
}

/// Field 2 of `/proc/self/statm` (proc_pid_statm(5)).
fn resident_pages(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_found() {
        assert_eq!(
            processor_name("processor\t: 0\nmodel name\t: AMD EPYC 7B12\nflags: x\n"),
            Some("AMD EPYC 7B12")
        );
        assert_eq!(processor_name("processor\t: 0\n"), None);
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = ProcessorTime::now();
        let mut random = crate::distribution::Random::new(1);
        // Ten million numbers take some milliseconds on any machine; the clock counts nanoseconds.
        let sum = (0..10_000_000).fold(0_u64, |sum, _| sum.wrapping_add(random.next()));
        assert!(ProcessorTime::now().since(before).total > Duration::ZERO, "{sum}");
    }

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "7 (a) R (b) S 1 7 7 0 -1 4194304 250 0 0 0 1234 567 0 0 20 0 1 0 5 1 1";
        assert_eq!(user_and_system_ticks(stat), Some([1234, 567]));
        assert_eq!(user_and_system_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn resident_memory_is_the_second_field() {
        assert_eq!(resident_pages("5000 321 20 1 0 400 0\n"), Some(321));
        assert_eq!(resident_pages(""), None);
        // A running program has its code in memory.
        assert!(resident_memory() > 0);
    }
}
