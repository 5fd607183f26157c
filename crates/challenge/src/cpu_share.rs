//! A process that is held to a part of the processors, by a control group of either version.
//!
//! On a machine that a server shares with the load generator, what the latter takes is taken from the server. Held to less than the rest of
//! the machine can do, the server is what is short, as in front of a real one.
//!
//! Sources: `Documentation/scheduler/sched-bwc.rst` and `Documentation/admin-guide/cgroup-v2.rst` of Linux.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Lack};

/// In microseconds. With the usual 100 ms a server that has used up its part stands still for most of that, which would be measured.
const PERIOD: u64 = 10_000;

/// As much as fits into a period and the kernel takes (1 ms), and more than any machine has.
pub(crate) const RANGE: std::ops::RangeInclusive<f64> = 0.1..=1_024.0;

/// A group that allows its processes so much, and is gone with this.
#[derive(Debug)]
pub(crate) struct CpuShare {
    folder: PathBuf,
    cores: f64,
}

/// Below which group another one can be made.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Of the first version of control groups.
    One(PathBuf),
    /// Of the second.
    Two(PathBuf),
}

/// Why there is no such group.
#[derive(Debug)]
pub(crate) enum NoGroup {
    /// No control groups are mounted.
    NotMounted,
    /// No group from this one upwards hands out the controller of processors.
    NoController(PathBuf),
    /// A file or folder of the groups cannot be used.
    File {
        /// Which one.
        path: PathBuf,
        /// In the system's words.
        error: io::Error,
    },
}

impl NoGroup {
    fn of(path: impl AsRef<Path>, error: io::Error) -> Self {
        Self::File { path: path.as_ref().to_owned(), error }
    }
}

impl fmt::Display for NoGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMounted => f.write_str("no control groups are mounted"),
            Self::NoController(group) => write!(
                f,
                "no group from {} upwards hands out the cpu controller (cgroup.subtree_control)",
                group.display()
            ),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl CpuShare {
    /// A group without a process yet, for the server with this number.
    ///
    /// # Errors
    /// There can be none.
    pub(crate) fn create(cores: f64, server: u32) -> Result<Self, Error> {
        Self::try_to_create(cores, server).map_err(|fault| Error::Machine(Lack::CpuShare { cores, fault }))
    }

    fn try_to_create(cores: f64, server: u32) -> Result<Self, NoGroup> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(|error| NoGroup::of(path, error));
        let place = Place::find(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?, |folder| {
            std::fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default()
        })?;
        let name = match server {
            1 => format!("onramp-challenge-{}", std::process::id()),
            _ => format!("onramp-challenge-{}-{server}", std::process::id()),
        };
        let (Place::One(parent) | Place::Two(parent)) = &place;
        let folder = parent.join(name);
        std::fs::create_dir(&folder).map_err(|error| NoGroup::of(&folder, error))?;
        let share = Self { folder, cores };
        let quota = (cores * PERIOD as f64).round() as u64;
        match place {
            Place::One(_) => {
                share.write("cpu.cfs_period_us", &PERIOD.to_string())?;
                share.write("cpu.cfs_quota_us", &quota.to_string())?;
            }
            Place::Two(_) => share.write("cpu.max", &format!("{quota} {PERIOD}"))?,
        }
        Ok(share)
    }

    /// Puts a process in, with all its threads.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(crate) fn hold(&self, process: u32) -> Result<(), Error> {
        self.write("cgroup.procs", &process.to_string())
            .map_err(|fault| Error::Machine(Lack::CpuShare { cores: self.cores, fault }))
    }

    fn write(&self, file: &str, value: &str) -> Result<(), NoGroup> {
        let path = self.folder.join(file);
        std::fs::write(&path, value).map_err(|error| NoGroup::of(&path, error))
    }
}

impl Drop for CpuShare {
    fn drop(&mut self) {
        // A process that has just ended is still in it for a moment.
        const TRIES: u32 = 50;
        for _ in 0..TRIES {
            match std::fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}

impl Place {
    /// The group of this process with version 1; with version 2 the nearest above it that may hand out the controller, which one with
    /// processes of its own may not. From what `/proc` says, and what each group of version 2 hands out.
    fn find(mounts: &str, groups: &str, hands_out: impl Fn(&Path) -> String) -> Result<Self, NoGroup> {
        let own = |controller: &str| {
            groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                controllers.split(',').any(|one| one == controller).then_some(path)
            })
        };
        let mounts: Vec<_> = mounts.lines().filter_map(Mount::parse).collect();
        if let Some(path) = own("cpu")
            && let Some(mount) = mounts.iter().find(|mount| mount.has_controller("cpu"))
        {
            return Ok(Self::One(mount.folder_of(path)));
        }
        let mount = mounts.iter().find(|mount| mount.kind == "cgroup2").ok_or(NoGroup::NotMounted)?;
        let group = mount.folder_of(own("").unwrap_or("/"));
        let above = group.ancestors().take_while(|folder| folder.starts_with(&mount.point));
        let may = |folder: &&Path| hands_out(folder).split_whitespace().any(|controller| controller == "cpu");
        let found = above.into_iter().find(may);
        let found = found.map(|folder| Self::Two(folder.to_owned()));
        found.ok_or(NoGroup::NoController(group))
    }
}

/// A line of `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).
struct Mount {
    /// What of the hierarchy is mounted.
    root: String,
    point: PathBuf,
    kind: String,
    options: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let (root, point) = (front.next()?.to_owned(), front.next()?.into());
        let mut back = back.split(' ');
        let kind = back.next()?.to_owned();
        Some(Self { root, point, kind, options: back.nth(1)?.to_owned() })
    }

    fn has_controller(&self, controller: &str) -> bool {
        self.kind == "cgroup" && self.options.split(',').any(|option| option == controller)
    }

    /// The folder of a group, or the uppermost one where the group is outside of what is mounted.
    fn folder_of(&self, group: &str) -> PathBuf {
        let below = Path::new(group).strip_prefix(&self.root).ok();
        let below = below.filter(|below| !below.components().any(|part| part.as_os_str() == ".."));
        below.map_or_else(|| self.point.clone(), |below| self.point.join(below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "\
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
32 30 0:28 /box /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct";
    const TWO: &str = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

    fn find(mounts: &str, groups: &str, handing_out: &[&str]) -> Result<Place, NoGroup> {
        Place::find(mounts, groups, |folder| {
            let hands_out = handing_out.iter().any(|one| Path::new(one) == folder);
            String::from(if hands_out { "cpuset cpu io" } else { "cpuset io" })
        })
    }

    #[test]
    fn the_first_version_makes_groups_below_that_of_the_process() {
        let place = |groups| find(ONE, groups, &[]).unwrap();
        let of = |path: &str| Place::One(path.into());
        assert_eq!(place("4:cpuset:/\n3:cpu,cpuacct:/box/a\n"), of("/sys/fs/cgroup/cpu,cpuacct/a"));
        assert_eq!(place("3:cpu,cpuacct:/elsewhere\n"), of("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(place("3:cpu,cpuacct:/box/../../x\n"), of("/sys/fs/cgroup/cpu,cpuacct"));
    }

    #[test]
    fn the_second_version_makes_them_where_the_controller_is_handed_out() {
        let groups = "0::/user.slice/user-0.slice/session-1.scope\n";
        let place = find(TWO, groups, &["/sys/fs/cgroup", "/sys/fs/cgroup/user.slice"]);
        assert_eq!(place.unwrap(), Place::Two("/sys/fs/cgroup/user.slice".into()));
        let refused = find(TWO, groups, &[]).unwrap_err().to_string();
        assert!(refused.contains("session-1.scope upwards hands out"), "{refused}");
        // Where both are mounted, the controller is with the first.
        assert!(matches!(find(&format!("{TWO}\n{ONE}"), "3:cpu:/box\n0::/\n", &[]), Ok(Place::One(_))));
        assert!(matches!(find("", groups, &[]), Err(NoGroup::NotMounted)));
    }
}
