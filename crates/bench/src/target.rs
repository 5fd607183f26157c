//! From names to addresses, and from addresses to the one that each connection uses.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

use seam::Address;

use crate::options::ServerOptions;

/// One `--host` (or the `--socket`) with the addresses that its name has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As it was given.
    pub name: String,
    /// At least one; the first that answers is used.
    pub candidates: Vec<Address>,
}

/// Why there is nothing to connect to.
#[derive(Debug)]
pub enum NoTarget {
    /// Nobody knows a `--host`.
    UnknownHost {
        /// The name of the host.
        host: String,
        /// In the system's words.
        error: io::Error,
    },
    /// This `--host` has no address that can be connected to from a `--local-address`.
    OtherFamily(String),
    /// This target has no address.
    NoAddress(String),
}

impl fmt::Display for NoTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHost { host, error } => write!(f, "unknown host {host:?}: {error}; see --host"),
            Self::OtherFamily(host) => {
                write!(f, "host {host:?} has no address of the family of --local-address")
            }
            Self::NoAddress(name) => write!(f, "{name} has no address"),
        }
    }
}

impl std::error::Error for NoTarget {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::UnknownHost { error, .. } => Some(error),
            Self::OtherFamily(_) | Self::NoAddress(_) => None,
        }
    }
}

/// The targets of the options, their names resolved.
///
/// # Errors
/// Names that are not known.
pub fn resolve(options: &ServerOptions) -> Result<Vec<Target>, NoTarget> {
    if let Some(path) = &options.socket {
        let candidates = vec![Address::Unix(path.clone())];
        return Ok(vec![Target { name: path.display().to_string(), candidates }]);
    }
    options.host.iter().map(|host| resolve_host(host, options.port, &options.local_address)).collect()
}

fn resolve_host(host: &str, port: u16, locals: &[IpAddr]) -> Result<Target, NoTarget> {
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| NoTarget::UnknownHost { host: host.to_owned(), error })?;
    let mut candidates: Vec<Address> = Vec::new();
    for remote in addresses {
        // A local address of the other family cannot be connected from.
        let fits = locals.is_empty() || locals.iter().any(|local| local.is_ipv4() == remote.is_ipv4());
        let address = Address::Tcp { remote, local: None };
        if fits && !candidates.contains(&address) {
            candidates.push(address);
        }
    }
    if candidates.is_empty() {
        return Err(NoTarget::OtherFamily(host.to_owned()));
    }
    Ok(Target { name: format!("{host}:{port}"), candidates })
}

/// The addresses over which connections are spread, one after the other: first over the remote addresses, then over the
/// local ones.
pub fn spread(remotes: &[Address], locals: &[IpAddr]) -> Vec<Address> {
    if locals.is_empty() {
        return remotes.to_vec();
    }
    locals.iter().flat_map(|local| remotes.iter().filter_map(|remote| bound(remote, *local))).collect()
}

fn bound(address: &Address, local: IpAddr) -> Option<Address> {
    match address {
        Address::Tcp { remote, .. } => {
            fits(remote, local).then_some(Address::Tcp { remote: *remote, local: Some(local) })
        }
        Address::Unix(_) | Address::NotFound { .. } => Some(address.clone()),
    }
}

fn fits(remote: &SocketAddr, local: IpAddr) -> bool {
    remote.is_ipv4() == local.is_ipv4()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(remote: &str, local: Option<&str>) -> Address {
        Address::Tcp { remote: remote.parse().unwrap(), local: local.map(|local| local.parse().unwrap()) }
    }

    #[test]
    fn numbers_need_no_look_up() {
        let target = resolve_host("127.0.0.1", 3307, &[]).unwrap();
        assert_eq!(target.candidates, [tcp("127.0.0.1:3307", None)]);
        assert_eq!(resolve_host("::1", 3307, &[]).unwrap().candidates, [tcp("[::1]:3307", None)]);
        assert!(resolve_host("::1", 3307, &["127.0.0.2".parse().unwrap()]).is_err());
    }

    #[test]
    fn unknown_names_are_said() {
        // The top-level domain is reserved for names that never exist (RFC 6761).
        assert!(
            resolve_host("server.invalid", 3306, &[]).unwrap_err().to_string().contains("server.invalid")
        );
    }

    #[test]
    fn connections_go_over_all_pairs() {
        let remotes = [tcp("10.0.0.1:1", None), tcp("10.0.0.2:1", None)];
        assert_eq!(spread(&remotes, &[]), remotes);
        let locals = ["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()];
        assert_eq!(
            spread(&remotes, &locals),
            [
                tcp("10.0.0.1:1", Some("127.0.0.2")),
                tcp("10.0.0.2:1", Some("127.0.0.2")),
                tcp("10.0.0.1:1", Some("127.0.0.3")),
                tcp("10.0.0.2:1", Some("127.0.0.3")),
            ]
        );
    }
}
