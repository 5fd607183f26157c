//! Everything that is read from the system, once. What cannot be read, or makes no sense, is `None`.
//!
//! Source of what the files hold: proc(5), cgroups(7), and `Documentation/admin-guide/sysctl` of Linux.

mod cgroup;
mod files;
mod parse;

use std::path::Path;

use drivers::NoUring;

use crate::NoAnswer;
use crate::ServerAnswer;
use cgroup::ControlGroup;
pub(crate) use files::ENDLESS;
use files::Root;

/// A machine as it was when it was looked at.
#[derive(Clone, Debug)]
pub struct Machine {
    /// As `uname -r` says it; empty where it cannot be read.
    pub(crate) release: String,
    /// The kernel's version and patch level: 6 and 18.
    pub(crate) kernel: Option<(u64, u64)>,
    /// Cores that this process may use.
    pub(crate) cores: Option<u64>,
    /// Bytes of a page, the unit of `tcp_mem`.
    pub(crate) page_size: u64,
    /// What this process may do and use.
    pub(crate) process: Process,
    /// `fs.nr_open`: the highest limit of open files that a process may be given.
    pub(crate) nr_open: Option<u64>,
    /// `fs.file-max`: open files of the whole system.
    pub(crate) file_max: Option<u64>,
    /// Open files of the whole system right now.
    pub(crate) files_open: Option<u64>,
    /// `kernel.threads-max`.
    pub(crate) threads_max: Option<u64>,
    /// `kernel.pid_max`: threads have numbers of their own.
    pub(crate) pid_max: Option<u64>,
    /// `vm.max_map_count`.
    pub(crate) max_map_count: Option<u64>,
    /// `kernel.io_uring_disabled`; 0 where the kernel does not know it.
    pub(crate) uring_disabled: u64,
    /// What trying out io_uring gave; `None` where it was not tried.
    pub(crate) uring: Option<Result<(), NoUring>>,
    /// The settings of the network.
    pub(crate) network: Network,
    /// Memory.
    pub(crate) memory: Memory,
    /// Limits of the control group and all above it.
    pub(crate) group: ControlGroup,
    /// What the server said; `None` where it was not asked.
    pub(crate) server: Option<Result<ServerAnswer, NoAnswer>>,
}

/// A soft and a hard limit; [`ENDLESS`] for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

/// Limits and rights of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    /// RLIMIT_NOFILE.
    pub(crate) open_files: Option<Limit>,
    /// RLIMIT_NPROC.
    pub(crate) threads: Option<Limit>,
    /// RLIMIT_MEMLOCK, in bytes.
    pub(crate) locked_memory: Option<Limit>,
    /// CAP_SYS_RESOURCE: may raise its own hard limits, and is not held by some others.
    pub(crate) may_raise_limits: bool,
    /// CAP_SYS_ADMIN.
    pub(crate) is_administrator: bool,
    /// System calls are filtered (seccomp), as in most containers.
    pub(crate) is_filtered: bool,
}

/// Settings of the network. Those of a network namespace: a container has its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Network {
    pub(crate) somaxconn: Option<u64>,
    pub(crate) max_syn_backlog: Option<u64>,
    pub(crate) syncookies: Option<u64>,
    /// Lowest and highest.
    pub(crate) port_range: Option<(u64, u64)>,
    /// How many ports of the range are kept for servers.
    pub(crate) reserved_in_range: u64,
    /// `tcp_mem`, in pages: below the first there is no limit, from the second on buffers shrink, the third is the end.
    pub(crate) tcp_mem: Option<[u64; 3]>,
    /// The least that a socket may receive under pressure, in bytes.
    pub(crate) tcp_rmem_least: Option<u64>,
    /// The least that a socket may send under pressure, in bytes.
    pub(crate) tcp_wmem_least: Option<u64>,
    pub(crate) max_backlog: Option<u64>,
    /// Packets dropped since the start because `max_backlog` was reached.
    pub(crate) packets_dropped: Option<u64>,
    /// `None` where the kernel does not track connections.
    pub(crate) conntrack_max: Option<u64>,
    pub(crate) conntrack_count: Option<u64>,
    pub(crate) conntrack_buckets: Option<u64>,
}

/// Memory, in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) total: Option<u64>,
    pub(crate) available: Option<u64>,
    pub(crate) swap: Option<u64>,
    pub(crate) swappiness: Option<u64>,
    /// The word in brackets of `transparent_hugepage/enabled`.
    pub(crate) huge_pages: Option<String>,
    /// What an idle TCP socket takes from the kernel's caches; `None` where they cannot be read (root only).
    pub(crate) socket: Option<u64>,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        Self::read(Path::new("/"))
    }

    /// One whose `proc` and `sys` lie below `root`. Whatever is missing there or makes no sense stays unknown.
    pub fn read(root: &Path) -> Self {
        let root = Root::new(root);
        let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let status = root.text("proc/self/status").unwrap_or_default();
        Self {
            kernel: parse::release(&release),
            release,
            cores: parse::field(&status, "Cpus_allowed_list:").and_then(parse::list_length),
            // Of this machine also where `root` is a copy of another: all that Onramp is built for have 4 KiB.
            page_size: rustix::param::page_size() as u64,
            process: Process::read(&root, &status),
            nr_open: root.number("proc/sys/fs/nr_open"),
            file_max: root.number("proc/sys/fs/file-max"),
            files_open: root.numbers("proc/sys/fs/file-nr").first().copied(),
            threads_max: root.number("proc/sys/kernel/threads-max"),
            pid_max: root.number("proc/sys/kernel/pid_max"),
            max_map_count: root.number("proc/sys/vm/max_map_count"),
            uring_disabled: root.number("proc/sys/kernel/io_uring_disabled").unwrap_or(0),
            uring: None,
            network: Network::read(&root),
            memory: Memory::read(&root),
            group: ControlGroup::read(&root),
            server: None,
        }
    }

    /// With what trying out io_uring gave.
    #[must_use]
    pub fn with_uring(mut self, probe: Result<(), NoUring>) -> Self {
        self.uring = Some(probe);
        self
    }

    /// With what the server said.
    #[must_use]
    pub fn with_server(mut self, answer: Result<ServerAnswer, NoAnswer>) -> Self {
        self.server = Some(answer);
        self
    }
}

impl Process {
    fn read(root: &Root, status: &str) -> Self {
        // Bits of `linux/capability.h`.
        const CAP_SYS_ADMIN: u64 = 21;
        const CAP_SYS_RESOURCE: u64 = 24;
        let limits = root.text("proc/self/limits").unwrap_or_default();
        let rights = parse::field(status, "CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let may = |bit: u64| rights.is_some_and(|rights| rights >> bit & 1 == 1);
        Self {
            open_files: parse::limit(&limits, "Max open files"),
            threads: parse::limit(&limits, "Max processes"),
            locked_memory: parse::limit(&limits, "Max locked memory"),
            may_raise_limits: may(CAP_SYS_RESOURCE),
            is_administrator: may(CAP_SYS_ADMIN),
            // SECCOMP_MODE_FILTER of `linux/seccomp.h`.
            is_filtered: parse::field(status, "Seccomp:") == Some("2"),
        }
    }
}

impl Network {
    fn read(root: &Root) -> Self {
        let core = |name: &str| root.number(&format!("proc/sys/net/core/{name}"));
        let ipv4 = |name: &str| root.numbers(&format!("proc/sys/net/ipv4/{name}"));
        let netfilter = |name: &str| root.number(&format!("proc/sys/net/netfilter/{name}"));
        let port_range = match ipv4("ip_local_port_range")[..] {
            [low, high] if low <= high && high <= 65_535 => Some((low, high)),
            _ => None,
        };
        let reserved = root.text("proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
        Self {
            somaxconn: core("somaxconn"),
            max_syn_backlog: ipv4("tcp_max_syn_backlog").first().copied(),
            syncookies: ipv4("tcp_syncookies").first().copied(),
            port_range,
            reserved_in_range: port_range.map_or(0, |range| parse::overlap(&reserved, range)),
            tcp_mem: ipv4("tcp_mem").try_into().ok(),
            tcp_rmem_least: ipv4("tcp_rmem").first().copied(),
            tcp_wmem_least: ipv4("tcp_wmem").first().copied(),
            max_backlog: core("netdev_max_backlog"),
            packets_dropped: root.text("proc/net/softnet_stat").as_deref().and_then(parse::packets_dropped),
            conntrack_max: netfilter("nf_conntrack_max"),
            conntrack_count: netfilter("nf_conntrack_count"),
            conntrack_buckets: netfilter("nf_conntrack_buckets"),
        }
    }
}

impl Memory {
    fn read(root: &Root) -> Self {
        let text = root.text("proc/meminfo").unwrap_or_default();
        let kibibytes = |name: &str| -> Option<u64> {
            let words = parse::field(&text, name)?;
            Some(files::number(words.split_whitespace().next()?)?.saturating_mul(1024).min(ENDLESS))
        };
        Self {
            total: kibibytes("MemTotal:"),
            available: kibibytes("MemAvailable:"),
            swap: kibibytes("SwapTotal:"),
            swappiness: root.number("proc/sys/vm/swappiness"),
            huge_pages: root
                .text("sys/kernel/mm/transparent_hugepage/enabled")
                .as_deref()
                .and_then(parse::chosen_word),
            socket: root.text("proc/slabinfo").as_deref().and_then(parse::socket_size),
        }
    }
}
