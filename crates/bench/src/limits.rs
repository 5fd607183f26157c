//! What the machine allows, looked at before a run begins: each limit with its value, what is needed, and the command
//! that lifts it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors beside the connections: standard streams, epoll, event and signal descriptors, the JSON file, name
/// look-ups.
const OTHER_FILES: u64 = 32;

/// Sees to enough descriptors for `connections`, raising the soft limit where the hard one allows it.
///
/// # Errors
/// What stands in the way, and what to do.
pub fn allow_open_files(connections: u32) -> Result<(), String> {
    let needed = u64::from(connections) + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    // No limit is said by `None`.
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_none_or(|maximum| maximum >= needed) {
        let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
        return setrlimit(Resource::Nofile, raised)
            .map_err(|errno| format!("open files: raising the limit to {needed} failed: {errno}"));
    }
    let maximum = limit.maximum.unwrap_or(0);
    Err(format!(
        "open files: {connections} connections need {needed}, the hard limit of this process is {maximum}. As root, \
         `ulimit -Hn {needed}` before the start lifts it (LimitNOFILE={needed} in a systemd unit, --ulimit \
         nofile={needed} for a container) unless fs.nr_open is lower; where the limit is fixed, use at most \
         {} connections, or several processes",
        maximum.saturating_sub(OTHER_FILES)
    ))
}

/// Sees to enough local ports: each pair of a local and a remote address has its own.
///
/// # Errors
/// What stands in the way, and what to do.
pub fn check_local_ports(connections: u32, remotes: usize, locals: usize) -> Result<(), String> {
    let text = std::fs::read_to_string(PORT_RANGE).unwrap_or_default();
    // Where the range cannot be read, connecting will tell.
    let Some(ports) = ports_in(&text) else { return Ok(()) };
    let pairs = remotes as u64 * locals.max(1) as u64;
    let needed = u64::from(connections);
    if needed <= pairs * ports {
        return Ok(());
    }
    let addresses = needed.div_ceil(remotes as u64 * ports);
    Err(format!(
        "local ports: {connections} connections, but {PORT_RANGE} allows {ports} for each pair of a local and a remote \
         address, {} in all. Give {addresses} addresses of this machine with --local-address (on the loopback device \
         127.0.0.1,127.0.0.2 and on work at once), several --host, or widen the range: \
         sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"",
        pairs * ports
    ))
}

const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

fn ports_in(range: &str) -> Option<u64> {
    let mut words = range.split_whitespace();
    let low: u64 = words.next()?.parse().ok()?;
    let high: u64 = words.next()?.parse().ok()?;
    high.checked_sub(low).map(|span| span + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_range_includes_both_ends() {
        assert_eq!(ports_in("32768\t60999\n"), Some(28_232));
        assert_eq!(ports_in("60999 32768"), None);
        assert_eq!(ports_in(""), None);
    }

    #[test]
    fn too_many_connections_name_what_helps() {
        let error = check_local_ports(1_000_000, 1, 0).unwrap_err();
        assert!(error.contains("--local-address") && error.contains("ip_local_port_range"), "{error}");
        assert!(check_local_ports(1_000_000, 10, 100).is_ok());
        assert!(check_local_ports(1, 1, 0).is_ok());
        let limit = getrlimit(Resource::Nofile);
        if limit.maximum.is_some_and(|maximum| maximum < u64::from(u32::MAX)) {
            assert!(allow_open_files(u32::MAX).unwrap_err().contains("ulimit -Hn"));
        }
        assert!(allow_open_files(1).is_ok());
    }
}
