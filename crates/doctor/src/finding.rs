//! What a check says about one limit.

use std::fmt;

use crate::Remedy;
use crate::machine::ENDLESS;

/// The judgement of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which limit.
    pub check: Check,
    /// The system's own name of what was looked at (`net.core.somaxconn`), or of the tightest of several.
    pub subject: String,
    /// Whether it is enough.
    pub verdict: Verdict,
    /// What is there.
    pub found: Amount,
    /// What is needed.
    pub needed: Amount,
    /// What it is needed for, as one sentence.
    pub why: String,
    /// What lifts it. Each stands for itself unless its words say otherwise; system settings go together.
    pub remedies: Vec<Remedy>,
}

impl Finding {
    pub(crate) fn new(check: Check, subject: &str, verdict: Verdict, why: impl Into<String>) -> Self {
        Self {
            check,
            subject: subject.to_owned(),
            verdict,
            found: Amount::Unread,
            needed: Amount::Unread,
            why: why.into(),
            remedies: Vec::new(),
        }
    }

    /// Compares a number that has to be reached. What could not be read is unknown.
    pub(crate) fn at_least(check: Check, subject: &str, found: Option<u64>, needed: u64) -> Self {
        let verdict = match found {
            None => Verdict::Unknown,
            Some(found) if found < needed => Verdict::Short,
            Some(_) => Verdict::Ok,
        };
        let mut finding = Self::new(check, subject, verdict, "");
        finding.found = match found {
            None => Amount::Unread,
            Some(ENDLESS..) => Amount::Unlimited,
            Some(found) => Amount::Count(found),
        };
        finding.needed = Amount::Count(needed);
        finding
    }

    #[must_use]
    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    #[must_use]
    pub(crate) fn amounts(mut self, found: Amount, needed: Amount) -> Self {
        self.found = found;
        self.needed = needed;
        self
    }

    /// What is needed, as the end of a sentence about what was found.
    pub(crate) fn comparison(&self) -> String {
        match (self.verdict, &self.needed) {
            (Verdict::Ok | Verdict::Unknown, _) | (_, Amount::Unread) => String::new(),
            (Verdict::Hint, needed) => format!("; {needed} is better"),
            (Verdict::Short, needed) => format!(", {needed} needed"),
        }
    }

    /// Adds a remedy, unless there is nothing to lift.
    #[must_use]
    pub(crate) fn lifted_by(mut self, remedy: Remedy) -> Self {
        if matches!(self.verdict, Verdict::Short | Verdict::Hint) {
            self.remedies.push(remedy);
        }
        self
    }
}

impl fmt::Display for Finding {
    /// One line: the limit, what is there, what is needed, and the first thing to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict {
            Verdict::Unknown => write!(f, "{} is unknown", self.subject)?,
            _ => write!(f, "{} is {}{}", self.subject, self.found, self.comparison())?,
        }
        match self.remedies.first() {
            Some(remedy) => write!(f, ": {}", remedy.now()),
            None => Ok(()),
        }
    }
}

/// How a limit compares with what is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Clients will be refused, or wait for what the machine could do.
    Short,
    /// It works, and something better is a command away.
    Hint,
    /// It cannot be read here.
    Unknown,
    /// Enough.
    Ok,
}

impl Verdict {
    /// Its word in the table and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Hint => "hint",
            Self::Unknown => "unknown",
            Self::Ok => "ok",
        }
    }
}

/// A number with its unit, or what stands in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Count(u64),
    /// So many bytes.
    Bytes(u64),
    /// There is no limit.
    Unlimited,
    /// It could not be read, or nothing is needed.
    Unread,
    /// What is no number.
    Words(String),
}

impl Amount {
    pub(crate) fn words(text: &str) -> Self {
        Self::Words(text.to_owned())
    }

    /// The number, where it is one: bytes in bytes.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Count(number) | Self::Bytes(number) => Some(*number),
            Self::Unlimited | Self::Unread | Self::Words(_) => None,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Count(count) => grouped(*count),
            Self::Bytes(bytes) => in_bytes(*bytes),
            Self::Unlimited => "unlimited".to_owned(),
            Self::Unread => "-".to_owned(),
            Self::Words(words) => words.clone(),
        };
        f.pad(&text)
    }
}

/// Digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn in_bytes(bytes: u64) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    const GIBIBYTE: u64 = 1 << 30;
    // One digit behind the point is as exact as anything here is known.
    let tenths = |unit: u64| (u128::from(bytes) * 10 / u128::from(unit)) as u64;
    let text = |unit, name| format!("{}.{} {name}", grouped(tenths(unit) / 10), tenths(unit) % 10);
    match bytes {
        0..MEBIBYTE => format!("{} KiB", bytes.div_ceil(1024)),
        MEBIBYTE..GIBIBYTE => text(MEBIBYTE, "MiB"),
        _ => text(GIBIBYTE, "GiB"),
    }
}

/// The limits that are looked at, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// How sockets are driven: io_uring or epoll.
    IoUring,
    /// Descriptors of one process.
    OpenFiles,
    /// As far as a process may raise its descriptors.
    OpenFilesCeiling,
    /// Open files of the whole system.
    OpenFilesSystem,
    /// Locked memory of one process.
    LockedMemory,
    /// Connections that wait to be accepted.
    AcceptQueue,
    /// Connections in the middle of TCP's three-way handshake.
    SynQueue,
    /// Local ports of connections that are opened here.
    LocalPorts,
    /// Memory for bytes that are in flight.
    TcpMemory,
    /// Packets that a core has not looked at yet.
    PacketQueue,
    /// Entries of the firewall's table of connections.
    Conntrack,
    /// Hash buckets of that table.
    ConntrackBuckets,
    /// Memory for the clients while they do nothing.
    Memory,
    /// Threads.
    Threads,
    /// Memory mappings of one process.
    MemoryMaps,
    /// The server's own limit of connections.
    ServerConnections,
    /// Its limit for each account.
    ServerUserConnections,
    /// Its open files.
    ServerOpenFiles,
    /// Connections that wait to be accepted by it.
    ServerBackLog,
    /// Threads that it keeps for connections to come.
    ServerThreads,
    /// Its own limit of statements at work.
    ServerConcurrency,
    /// Its limit of prepared statements.
    ServerPreparedStatements,
    /// When it closes idle connections.
    ServerWaitTimeout,
    /// Tables that it keeps open.
    ServerTables,
    /// Transparent huge pages.
    HugePages,
    /// The share of the cores that the control group allows.
    CpuQuota,
    /// Readiness to swap.
    Swap,
}

impl Check {
    /// Its name in JSON. Never changes.
    pub fn key(self) -> &'static str {
        self.names().0
    }

    /// Its name in the table.
    pub fn title(self) -> &'static str {
        self.names().1
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::IoUring => ("io_uring", "io_uring"),
            Self::OpenFiles => ("open_files", "open files"),
            Self::OpenFilesCeiling => ("open_files_ceiling", "open files, ceiling"),
            Self::OpenFilesSystem => ("open_files_system", "open files, system"),
            Self::LockedMemory => ("locked_memory", "locked memory"),
            Self::AcceptQueue => ("accept_queue", "accept queue"),
            Self::SynQueue => ("syn_queue", "handshake queue"),
            Self::LocalPorts => ("local_ports", "local ports"),
            Self::TcpMemory => ("tcp_memory", "TCP memory"),
            Self::PacketQueue => ("packet_queue", "packet queue"),
            Self::Conntrack => ("conntrack", "conntrack entries"),
            Self::ConntrackBuckets => ("conntrack_buckets", "conntrack buckets"),
            Self::Memory => ("memory", "memory"),
            Self::Threads => ("threads", "threads"),
            Self::MemoryMaps => ("memory_maps", "memory maps"),
            Self::ServerConnections => ("server_connections", "server connections"),
            Self::ServerUserConnections => ("server_user_connections", "server, each account"),
            Self::ServerOpenFiles => ("server_open_files", "server open files"),
            Self::ServerBackLog => ("server_back_log", "server accept queue"),
            Self::ServerThreads => ("server_threads", "server thread cache"),
            Self::ServerConcurrency => ("server_concurrency", "server concurrency"),
            Self::ServerPreparedStatements => ("server_prepared_statements", "server statements"),
            Self::ServerWaitTimeout => ("server_wait_timeout", "server idle timeout"),
            Self::ServerTables => ("server_tables", "server table cache"),
            Self::HugePages => ("huge_pages", "huge pages"),
            Self::CpuQuota => ("cpu_quota", "CPU quota"),
            Self::Swap => ("swap", "swap"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_for_people() {
        for (amount, text) in [
            (Amount::Count(0), "0"),
            (Amount::Count(999), "999"),
            (Amount::Count(1_000), "1,000"),
            (Amount::Count(1_048_576), "1,048,576"),
            (Amount::Bytes(1), "1 KiB"),
            (Amount::Bytes(8 << 20), "8.0 MiB"),
            (Amount::Bytes((23 << 30) + (1 << 29)), "23.5 GiB"),
            (Amount::Bytes(u64::MAX), "17,179,869,183.9 GiB"),
            (Amount::Unlimited, "unlimited"),
        ] {
            assert_eq!(amount.to_string(), text);
        }
    }

    #[test]
    fn one_line_says_what_to_do() {
        let finding = Finding::at_least(Check::AcceptQueue, "net.core.somaxconn", Some(128), 4096)
            .lifted_by(Remedy::sysctl("net.core.somaxconn", 4096_u64));
        assert_eq!(
            finding.to_string(),
            "net.core.somaxconn is 128, 4,096 needed: sysctl -w net.core.somaxconn=4096"
        );
        let unread = Finding::at_least(Check::AcceptQueue, "net.core.somaxconn", None, 1);
        assert_eq!(unread.to_string(), "net.core.somaxconn is unknown");
    }
}
