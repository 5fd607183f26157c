//! How many files the process may have open: with epoll every client is one, and with io_uring the limit is also that of
//! a ring's table of clients.

use config::Configuration;
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
