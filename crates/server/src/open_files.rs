//! How many files the process may have open: with epoll every client is one, and with io_uring the limit is also that of
//! a ring's table of clients.

use config::{Configuration, MOST_BACKENDS, OWN_FILES};
use drivers::DriverKind;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as is needed and allowed. Where that is not enough for the driver, the doctor says what to do.
pub(crate) fn raise(configuration: &Configuration) {
    let needed = configuration.open_files_needed();
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return;
    }
    // Beyond the hard limit only with the right to (CAP_SYS_RESOURCE); otherwise as far as the hard limit goes.
    let beyond = maximum.map(|maximum| maximum.max(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: beyond, maximum: beyond })
        .or_else(|_| setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }));
    if let Err(error) = raised {
        tracing::warn!("the limit of open files (RLIMIT_NOFILE) cannot be raised: {error}");
    }
}

/// How many backends the limit leaves room for where `max_backends` gives no number.
pub(crate) fn backends(configuration: &Configuration, driver: DriverKind) -> u32 {
    let current = getrlimit(Resource::Nofile).current;
    let current = current.map_or(u32::MAX, |current| u32::try_from(current).unwrap_or(u32::MAX));
    // With epoll clients are files as well. Where both cannot have all that they may, neither takes everything from the other.
    let clients = match driver {
        DriverKind::Epoll => configuration.engine.max_connections.min(current / 2),
        DriverKind::Uring => 0,
    };
    let own = OWN_FILES + configuration.http_files();
    current.saturating_sub(clients).saturating_sub(own).clamp(1, MOST_BACKENDS)
}
