//! Limits of control groups, of either version. A group is held by its own limits and by those of all above it.
//!
//! Source: `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/` of Linux.

use super::files::{ENDLESS, Root};
use super::parse::field;

/// The tightest limits from this process's group upwards; `None` for no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    /// The memory below the limit that leaves least.
    pub(crate) memory: Option<MemoryRoom>,
    /// Threads that are left below the limit that leaves least.
    pub(crate) threads_left: Option<u64>,
    /// Hundredths of a core that may be used.
    pub(crate) cpu_hundredths: Option<u64>,
}

/// Memory below a limit, in bytes. Ordered by what is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemoryRoom {
    /// What may still be used, with what can be taken back from caches.
    pub(crate) left: u64,
    /// What is in use for good.
    pub(crate) used: u64,
}

/// The names of the same things in both versions.
struct Names {
    memory_limit: &'static str,
    memory_used: &'static str,
    /// In `memory.stat`: files that were not used lately, which the kernel gives up first.
    memory_inactive: &'static str,
}

const VERSION_1: Names = Names {
    memory_limit: "memory.limit_in_bytes",
    memory_used: "memory.usage_in_bytes",
    memory_inactive: "total_inactive_file ",
};
const VERSION_2: Names =
    Names { memory_limit: "memory.max", memory_used: "memory.current", memory_inactive: "inactive_file " };

/// Groups above each other. Deeper than the kernel's own tools go; a copied folder may hold any path.
const MOST_LEVELS: usize = 64;

impl ControlGroup {
    pub(super) fn read(root: &Root) -> Self {
        let mut group = Self::default();
        let lines = root.text("proc/self/cgroup").unwrap_or_default();
        for line in lines.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            // A path that leads upwards is a group outside of what this container sees.
            if path.split('/').any(|part| part == "..") {
                continue;
            }
            let (mounts, names): (&[&str], _) = match controllers {
                "" => (&["", "unified"], &VERSION_2),
                _ => (&[controllers], &VERSION_1),
            };
            for mount in mounts {
                for folder in upwards(path) {
                    group.tighten(root, &format!("sys/fs/cgroup/{mount}{folder}"), names);
                }
            }
        }
        group
    }

    fn tighten(&mut self, root: &Root, folder: &str, names: &Names) {
        let number = |name: &str| root.number(&format!("{folder}/{name}"));
        // Version 1 says "no limit" with the largest number of whole pages (`PAGE_COUNTER_MAX`).
        if let Some(limit) = number(names.memory_limit).filter(|limit| *limit < ENDLESS) {
            let statistics = root.text(&format!("{folder}/memory.stat")).unwrap_or_default();
            let inactive =
                field(&statistics, names.memory_inactive).and_then(|count| count.parse().ok()).unwrap_or(0);
            let used = number(names.memory_used).unwrap_or(0).saturating_sub(inactive);
            tighten(&mut self.memory, MemoryRoom { left: limit.saturating_sub(used), used });
        }
        if let Some(limit) = number("pids.max") {
            tighten(&mut self.threads_left, limit.saturating_sub(number("pids.current").unwrap_or(0)));
        }
        // Version 2 has both numbers in one file; in version 1 a quota of -1 is none.
        let quota = match root.numbers(&format!("{folder}/cpu.max"))[..] {
            [quota, period] => Some((quota, period)),
            _ => number("cpu.cfs_quota_us").zip(number("cpu.cfs_period_us")),
        };
        if let Some(hundredths) =
            quota.and_then(|(quota, period)| quota.saturating_mul(100).checked_div(period))
        {
            tighten(&mut self.cpu_hundredths, hundredths);
        }
    }
}

fn tighten<T: Ord + Copy>(limit: &mut Option<T>, other: T) {
    *limit = Some(limit.map_or(other, |limit| limit.min(other)));
}

/// `/a/b`, `/a` and the empty path of the top.
fn upwards(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    std::iter::successors(Some(path), |path| path.rfind('/').map(|at| &path[..at])).take(MOST_LEVELS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_above() {
        assert_eq!(upwards("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", ""]);
        assert_eq!(upwards("/").collect::<Vec<_>>(), [""]);
        assert_eq!(upwards("").collect::<Vec<_>>(), [""]);
        assert_eq!(upwards(&"/x".repeat(1000)).count(), MOST_LEVELS);
    }
}
