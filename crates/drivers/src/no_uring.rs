//! Why io_uring cannot be used.

use std::error::Error;
use std::fmt;
use std::io;

use rustix::io::Errno;

/// Why io_uring cannot be used, by what is to be lifted. Shown as one sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoUring {
    /// The system's settings: it is switched off for everybody (kernel.io_uring_disabled=2).
    SwitchedOff,
    /// The system's settings: it is for others than this process (kernel.io_uring_disabled=1).
    ForPrivileged,
    /// A filter of system calls forbids it, as containers have one.
    Filtered,
    /// The kernel has none, or a filter hides it.
    Absent,
    /// The kernel: it has none of the ring's features that are needed.
    TooOld,
    /// The kernel: it lacks this operation, named as in the manual.
    NoOperation(&'static str),
    /// The limits of the process: there is no memory that a ring may lock.
    NoMemory,
    /// The limits of the process: no file descriptor is left.
    NoDescriptor,
    /// The system refuses a ring with another number than those that are told apart here.
    Refused(i32),
    /// The library has no ring, in words of its own.
    NotSetUp(String),
    /// A ring was made, and carries no echo over 127.0.0.1.
    NoEcho(EchoFault),
}

/// What became of the echo by which io_uring was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EchoFault {
    /// Nothing could be listened on, in the system's words.
    NoListener(String),
    /// Listening on a TCP address gave a Unix socket.
    UnixSocket,
    /// Waiting failed, in the system's words.
    NoWait(String),
    /// Nobody had come in at the end of the time for it.
    NobodyCame,
    /// Somebody came in, and said nothing.
    NoWord,
    /// The word came in, and no echo came back.
    NoAnswer,
    /// The echo came back, and of the connection's end nobody heard.
    NoEnd,
    /// Who came in was somebody else.
    OtherPeer(String),
    /// Connecting failed with this number of the system's.
    NoConnection(i32),
    /// So many bytes came in that nobody had sent.
    OtherBytes(usize),
    /// The connection was closed for this reason.
    Closed(String),
}

/// `FIXED_FD_INSTALL` came with Linux 6.8, and the other needs with 6.7 at the latest; but up to 6.12 a ring releases what it has closed in
/// the order in which requests began (io_uring/rsrc.c, `io_rsrc_node_ref_zero`), behind those that wait for hours.
const OLDEST_KERNEL: &str = "Linux 6.13 and later have all that is needed";

impl NoUring {
    /// Out of what making a ring has failed with. `disabled` is `kernel.io_uring_disabled`
    /// (Documentation/admin-guide/sysctl/kernel.rst), where there is such a thing.
    pub(crate) fn of(error: &io::Error, disabled: Option<&str>) -> Self {
        match Errno::from_io_error(error) {
            Some(errno) => Self::of_errno(errno, disabled),
            None => {
                let known = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>());
                known.cloned().unwrap_or_else(|| Self::NotSetUp(error.to_string()))
            }
        }
    }

    fn of_errno(errno: Errno, disabled: Option<&str>) -> Self {
        match (errno, disabled) {
            (Errno::PERM, Some("2")) => Self::SwitchedOff,
            (Errno::PERM, Some("1")) => Self::ForPrivileged,
            (Errno::PERM | Errno::ACCESS, _) => Self::Filtered,
            (Errno::NOSYS, _) => Self::Absent,
            (Errno::INVAL, _) => Self::TooOld,
            (Errno::NOMEM, _) => Self::NoMemory,
            (Errno::MFILE | Errno::NFILE, _) => Self::NoDescriptor,
            (errno, _) => Self::Refused(errno.raw_os_error()),
        }
    }
}

impl fmt::Display for NoUring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SwitchedOff => {
                f.write_str("io_uring is switched off (sysctl kernel.io_uring_disabled=2; 0 allows it)")
            }
            Self::ForPrivileged => f.write_str(
                "io_uring is for privileged processes only (sysctl kernel.io_uring_disabled=1; \
                 join the group kernel.io_uring_group, or set it to 0)",
            ),
            Self::Filtered => f.write_str(
                "io_uring is forbidden by a system-call filter, as containers have one \
                 (seccomp; Docker: --security-opt seccomp=...)",
            ),
            Self::Absent => {
                write!(f, "this kernel has no io_uring, or a system-call filter hides it; {OLDEST_KERNEL}")
            }
            Self::TooOld => {
                write!(f, "this kernel's io_uring is too old for the ring that is needed; {OLDEST_KERNEL}")
            }
            Self::NoOperation(name) => {
                write!(f, "io_uring lacks the operation {name} in this kernel; {OLDEST_KERNEL}")
            }
            Self::NoMemory => f.write_str(
                "io_uring found no memory for a ring that it may lock (ulimit -l, LimitMEMLOCK of \
                 systemd, or the memory limit of the container)",
            ),
            Self::NoDescriptor => {
                f.write_str("there is no file descriptor left for a ring of io_uring (ulimit -n)")
            }
            Self::Refused(number) => {
                write!(f, "io_uring cannot be set up: {}", Errno::from_raw_os_error(*number))
            }
            Self::NotSetUp(reason) => f.write_str(reason),
            Self::NoEcho(fault) => {
                write!(f, "io_uring was tried with an echo over 127.0.0.1 and {fault}")
            }
        }
    }
}

impl Error for NoUring {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NoEcho(fault) => Some(fault),
            _ => None,
        }
    }
}

impl From<EchoFault> for NoUring {
    fn from(fault: EchoFault) -> Self {
        Self::NoEcho(fault)
    }
}

impl fmt::Display for EchoFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoListener(reason) => write!(f, "could not listen: {reason}"),
            Self::UnixSocket => f.write_str("got a Unix socket"),
            Self::NoWait(reason) => write!(f, "failed while waiting: {reason}"),
            Self::NobodyCame => f.write_str("failed: nobody came in"),
            Self::NoWord => f.write_str("failed: no word came in"),
            Self::NoAnswer => f.write_str("failed: no echo came back"),
            Self::NoEnd => f.write_str(
                "failed: nobody heard of its end (Linux 6.8 to 6.12 close a connection only when all others that were there have had \
                 something to do; 6.13 and later do not)",
            ),
            Self::OtherPeer(peer) => write!(f, "failed: the peer was {peer}"),
            Self::NoConnection(number) => {
                write!(f, "failed: connecting: {}", Errno::from_raw_os_error(*number))
            }
            Self::OtherBytes(count) => write!(f, "failed: {count} other bytes came in"),
            Self::Closed(reason) => write!(f, "failed: closed: {reason}"),
        }
    }
}

impl Error for EchoFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_what_an_operator_can_change() {
        for (errno, disabled, reason, part) in [
            (Errno::PERM, Some("2"), NoUring::SwitchedOff, "kernel.io_uring_disabled=2"),
            (Errno::PERM, Some("1"), NoUring::ForPrivileged, "kernel.io_uring_group"),
            (Errno::PERM, Some("0"), NoUring::Filtered, "seccomp"),
            (Errno::PERM, None, NoUring::Filtered, "seccomp"),
            (Errno::NOSYS, None, NoUring::Absent, "6.13"),
            (Errno::NOMEM, Some("0"), NoUring::NoMemory, "ulimit -l"),
            (Errno::MFILE, Some("0"), NoUring::NoDescriptor, "ulimit -n"),
        ] {
            let found = NoUring::of(&io::Error::from(errno), disabled);
            assert_eq!(found, reason);
            assert!(found.to_string().contains(part), "{found}");
        }
    }

    #[test]
    fn what_an_error_carries_is_kept() {
        let lacking = NoUring::NoOperation("SOCKET");
        let error = io::Error::new(io::ErrorKind::Unsupported, lacking.clone());
        assert_eq!(NoUring::of(&error, Some("2")), lacking);
        let other = io::Error::new(io::ErrorKind::InvalidInput, "no such ring");
        assert_eq!(NoUring::of(&other, None).to_string(), "no such ring");
    }
}
