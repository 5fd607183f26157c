//! What the machine allows, looked at before a run begins: each limit with its value, what is needed, and the command
//! that lifts it.

use std::fmt;

use drivers::{DriverKind, NoUring};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors beside the connections: standard streams, epoll, event and signal descriptors, the JSON file, name
/// look-ups.
const OTHER_FILES: u64 = 32;

/// Raises the soft limit on open files to the hard one, before a driver is opened: io_uring's tables of connections may be as
/// long as the soft limit, and the longer they are the fewer rings there are to look after. Without success things go on
/// as they are.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // The call fails only where somebody else lowers the hard limit in between.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Looks for enough descriptors for `connections`, after [`raise_open_files`]. With io_uring a connection takes none.
///
/// # Errors
/// Where there are too few. `no_uring` says why io_uring cannot be used, which would lift the limit.
pub fn allow_open_files(
    connections: u32,
    driver: DriverKind,
    no_uring: impl FnOnce() -> Option<NoUring>,
) -> Result<(), TooFewFiles> {
    let of_connections = match driver {
        DriverKind::Epoll => u64::from(connections),
        DriverKind::Uring => 0,
    };
    let needed = of_connections + OTHER_FILES;
    // No limit is said by `None`.
    let Some(maximum) = getrlimit(Resource::Nofile).current.filter(|current| *current < needed) else {
        return Ok(());
    };
    let uring = match (driver, no_uring()) {
        (DriverKind::Uring, _) => Uring::Used,
        (DriverKind::Epoll, None) => Uring::Usable,
        (DriverKind::Epoll, Some(reason)) => Uring::Not(reason),
    };
    Err(TooFewFiles { connections, needed, maximum, uring })
}

/// The process may not open as many files as it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooFewFiles {
    connections: u32,
    needed: u64,
    /// The limit: RLIMIT_NOFILE.
    maximum: u64,
    uring: Uring,
}

/// What io_uring does about the lack: with it connections take no descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Uring {
    /// Connections take none already.
    Used,
    /// Connections would take none.
    Usable,
    /// io_uring cannot be used.
    Not(NoUring),
}

impl fmt::Display for TooFewFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, needed, maximum, uring } = self;
        write!(
            f,
            "open files: {connections} connections need {needed}, the limit of this process is {maximum}. "
        )?;
        match uring {
            Uring::Used => {}
            Uring::Usable => f.write_str("With --driver uring a connection takes no descriptor. ")?,
            Uring::Not(reason) => {
                write!(
                    f,
                    "io_uring, with which a connection takes no descriptor, cannot be used: {reason}. "
                )?;
            }
        }
        write!(
            f,
            "As root, `ulimit -Hn {needed}` before the start lifts it (LimitNOFILE={needed} in a systemd unit, --ulimit \
             nofile={needed} for a container) unless fs.nr_open is lower; where the limit is fixed, use at most \
             {} connections, or several processes",
            maximum.saturating_sub(OTHER_FILES)
        )
    }
}

impl std::error::Error for TooFewFiles {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_connections_name_what_helps() {
        raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        if limit.maximum.is_some_and(|maximum| maximum < u64::from(u32::MAX)) {
            let error = allow_open_files(u32::MAX, DriverKind::Epoll, || None).unwrap_err().to_string();
            assert!(error.contains("ulimit -Hn") && error.contains("--driver uring"), "{error}");
            let reason = || Some(NoUring::SwitchedOff);
            let error = allow_open_files(u32::MAX, DriverKind::Epoll, reason).unwrap_err().to_string();
            assert!(error.contains("io_uring_disabled=2; 0 allows it). As root"), "{error}");
        }
        assert_eq!(allow_open_files(1, DriverKind::Epoll, || None), Ok(()));
        assert_eq!(allow_open_files(u32::MAX, DriverKind::Uring, || None), Ok(()));
    }
}
