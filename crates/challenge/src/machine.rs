//! What a run happens on, and when.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};

use crate::process_usage::kilobytes;
use crate::report::Machine;

impl Machine {
    /// This one.
    pub(crate) fn describe() -> Self {
        let system = rustix::system::uname();
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: processor_name(&cpuinfo).unwrap_or_default().to_owned(),
            memory: kilobytes(&meminfo, "MemTotal:").unwrap_or(0),
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            open_files: getrlimit(Resource::Nofile).maximum,
        }
    }
}

fn processor_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// The moment, in UTC: `2026-11-22 00:15:00`.
pub(crate) fn now_in_utc() -> String {
    utc(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// The Gregorian calendar counts in cycles of 400 years, which begin here with a March, so that leap days come last.
fn utc(seconds: u64) -> String {
    const DAYS_IN_CYCLE: u64 = 146_097;
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    // Days from the first of March of the year 0 to 1970.
    let day = day + 719_468;
    let (cycle, day) = (day / DAYS_IN_CYCLE, day % DAYS_IN_CYCLE);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * cycle + year + next_year;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_709_251_199, "2024-02-29 23:59:59"),
            (1_795_219_200, "2026-11-21 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }

    #[test]
    fn the_machine_is_described() {
        let machine = Machine::describe();
        assert!(
            machine.cores > 0 && machine.memory > 0 && machine.kernel.starts_with("Linux "),
            "{machine:?}"
        );
        assert_eq!(processor_name("model name\t: EPYC\n"), Some("EPYC"));
        assert_eq!(processor_name("processor: 0\n"), None);
    }
}
