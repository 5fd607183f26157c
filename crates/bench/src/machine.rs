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

/// Processor time that this process has used so far, user and system together.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
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
        let before = processor_time();
        let mut random = crate::distribution::Random::new(1);
        // Ten million numbers take some milliseconds on any machine; the clock counts nanoseconds.
        let sum = (0..10_000_000).fold(0_u64, |sum, _| sum.wrapping_add(random.next()));
        assert!(processor_time() > before, "{sum}");
    }
}
