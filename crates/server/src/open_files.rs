//! How many files the process may have open: every client is one.

use config::Configuration;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as is needed and allowed, and says what to do where that is not enough.
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
    if let Some(current) = getrlimit(Resource::Nofile).current.filter(|current| *current < needed) {
        tracing::warn!("{}", shortage(configuration.engine.max_connections, current, needed));
    }
}

fn shortage(max_connections: u32, current: u64, needed: u64) -> String {
    format!(
        "max_connections = {max_connections} needs {needed} open files and the limit (RLIMIT_NOFILE) is {current}: \
         run `ulimit -n {needed}` as root before the start, set LimitNOFILE={needed} in the systemd unit, or lower \
         max_connections"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_names_the_limit_the_number_and_the_commands() {
        assert_eq!(
            shortage(100_000, 1024, 100_192),
            "max_connections = 100000 needs 100192 open files and the limit (RLIMIT_NOFILE) is 1024: run `ulimit -n \
             100192` as root before the start, set LimitNOFILE=100192 in the systemd unit, or lower max_connections"
        );
    }
}
