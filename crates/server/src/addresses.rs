//! From names to addresses, and from addresses to listening sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use config::{BackendTarget, BackendUrl, ListenAddress};
use drivers::{InheritedSocket, ListenSocket};
use seam::Address;

use crate::Failure;
use crate::names::Name;

/// What the names of servers have led to.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// All addresses, in order, each with the host that its certificate has to be for.
    pub(crate) found: Vec<(Address, Arc<str>)>,
    /// The names among them, which may lead elsewhere later.
    pub(crate) names: Vec<Name>,
    /// For each of those that lead nowhere yet, while others do: which host, why, and what to do.
    pub(crate) not_found: Vec<String>,
}

/// The addresses of all backends. One name that leads nowhere is no reason to serve nobody, where others lead to servers of the same
/// cluster.
///
/// # Errors
/// A line that names the hosts, where none can be found.
pub(crate) fn resolve(backends: &[BackendUrl]) -> Result<Resolved, Failure> {
    let mut resolved = Resolved::default();
    for backend in backends {
        match &backend.target {
            BackendTarget::Unix(path) => {
                resolved.found.push((Address::Unix(path.clone()), Arc::from("localhost")));
            }
            BackendTarget::Tcp { host, port } => match look_up(host, *port) {
                Ok(addresses) => {
                    if host.parse::<IpAddr>().is_err() {
                        let first = resolved.found.len();
                        resolved.names.push(Name::new(host, *port, first, &addresses));
                    }
                    let named = |remote| (Address::Tcp { remote, local: None }, Arc::from(host.as_str()));
                    resolved.found.extend(addresses.into_iter().map(named));
                }
                Err(error) => {
                    resolved.not_found.push(format!(
                        "the host {host:?} cannot be found: {error}; check the name, or give an IP address"
                    ));
                    resolved.names.push(Name::not_found(host, *port, resolved.found.len()));
                    let host: Arc<str> = Arc::from(host.as_str());
                    let address = Address::NotFound { host: Arc::clone(&host), port: *port };
                    resolved.found.push((address, host));
                }
            },
        }
    }
    if !backends.is_empty() && resolved.not_found.len() == backends.len() {
        return Err(format!("backend: {}", resolved.not_found.join("; ")).into());
    }
    Ok(resolved)
}

impl Resolved {
    /// Lines that warn of what was not found.
    pub(crate) fn warnings(&self, lookup_interval: Duration) -> Vec<String> {
        let until = if lookup_interval.is_zero() {
            String::from("it is started anew, since backend_lookup_interval is 0")
        } else {
            format!("it is found: it is looked for every {lookup_interval:?} (backend_lookup_interval)")
        };
        let warning =
            |reason: &String| format!("backend: {reason}; Onramp does without this server until {until}");
        self.not_found.iter().map(warning).collect()
    }
}

/// An address that is listened on.
pub(crate) struct Listening {
    /// As it came about.
    pub(crate) actual: drivers::ListenAddress,
    /// As it was asked for; a name may stand for several.
    pub(crate) given: ListenAddress,
}

/// Listens on each address; returns the sockets of each worker, and the addresses with the ports that the system chose
/// where they were 0.
///
/// # Errors
/// A line that names the address, the option and what may be in the way.
pub(crate) fn listen(
    addresses: &[ListenAddress],
    back_log: u32,
    workers: usize,
) -> Result<(Vec<Vec<ListenSocket>>, Vec<Listening>), Failure> {
    let mut listening = Vec::new();
    let mut sockets: Vec<Vec<ListenSocket>> = (0..workers).map(|_| Vec::new()).collect();
    for address in addresses {
        let before = listening.len();
        let mut missing = None;
        for one in listen_addresses(address)? {
            match ListenSocket::open(&one, back_log, workers) {
                Ok((shares, actual)) => {
                    sockets.iter_mut().zip(shares).for_each(|(sockets, share)| sockets.push(share));
                    listening.push(Listening { actual, given: address.clone() });
                }
                // A name may stand for an IPv6 address on a machine without IPv6; one that works is enough.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => missing = Some(error),
                Err(error) => return Err(refusal("listen", address, &error).into()),
            }
        }
        if let Some(error) = missing.filter(|_| listening.len() == before) {
            return Err(refusal("listen", address, &error).into());
        }
    }
    Ok((sockets, listening))
}

/// As [`listen`], with sockets that were handed over, each for one of the addresses, in this order.
///
/// # Errors
/// A line that names the address and what the system says.
pub(crate) fn take_over(
    addresses: &[ListenAddress],
    handed_over: Vec<InheritedSocket>,
    back_log: u32,
    workers: usize,
) -> Result<(Vec<Vec<ListenSocket>>, Vec<Listening>), Failure> {
    let mut listening = Vec::new();
    let mut sockets: Vec<Vec<ListenSocket>> = (0..workers).map(|_| Vec::new()).collect();
    for (given, socket) in addresses.iter().zip(handed_over) {
        listening.push(Listening { actual: socket.address().clone(), given: given.clone() });
        let shares = socket.share(back_log, workers).map_err(|error| {
            format!("listen: {given}, which was handed over, cannot be listened on: {error}")
        })?;
        sockets.iter_mut().zip(shares).for_each(|(sockets, share)| sockets.push(share));
    }
    Ok((sockets, listening))
}

/// How a client on this machine reaches a listening address: as `host` and `port`, or `None` for a Unix socket.
pub(crate) fn reachable(address: &drivers::ListenAddress) -> Option<SocketAddr> {
    let drivers::ListenAddress::Tcp(address) = address else { return None };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    Some(SocketAddr::new(ip, address.port()))
}

fn listen_addresses(address: &ListenAddress) -> Result<Vec<drivers::ListenAddress>, Failure> {
    match address {
        ListenAddress::Unix(path) => Ok(vec![drivers::ListenAddress::Unix(path.clone())]),
        ListenAddress::Tcp { host, port, .. } => {
            let found = look_up(host, *port)
                .map_err(|reason| format!("listen: the host {host:?} cannot be found: {reason}"))?;
            Ok(found.into_iter().map(drivers::ListenAddress::Tcp).collect())
        }
    }
}

/// The addresses of a host, each once.
///
/// # Errors
/// What the system says.
pub(crate) fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in (host, port).to_socket_addrs().map_err(|error| error.to_string())? {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    if found.is_empty() { Err("it has no address".into()) } else { Ok(found) }
}

/// Why an address of this option cannot be listened on, and what to do.
pub(crate) fn refusal(option: &str, address: &ListenAddress, error: &io::Error) -> String {
    let flag = format!("--{}", option.replace('_', "-"));
    let hint = match (error.kind(), address) {
        (io::ErrorKind::AddrInUse, ListenAddress::Tcp { port, .. }) => format!(
            "somebody listens there already, most likely a MySQL or MariaDB server or another onramp; \
             `ss -ltnp 'sport = :{port}'` shows who. Choose another address with {flag}"
        ),
        (io::ErrorKind::AddrInUse, ListenAddress::Unix(_)) => {
            format!("a process serves this socket already. Choose another path with {flag}")
        }
        (io::ErrorKind::AddrNotAvailable, _) => {
            format!("this machine has no such address; `ip address` lists those it has. See {flag}")
        }
        (io::ErrorKind::PermissionDenied, ListenAddress::Tcp { .. }) => {
            format!("ports below 1024 are for root. Choose another with {flag}")
        }
        (io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound, ListenAddress::Unix(_)) => {
            format!("the folder has to exist and allow us to write. Choose another path with {flag}")
        }
        _ => format!("{error}. See {flag}"),
    };
    format!("{option}: cannot listen on {address}: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unspecified_address_is_reached_by_loopback() {
        let reach = |text: &str| {
            reachable(&drivers::ListenAddress::Tcp(text.parse().unwrap())).map(|address| address.to_string())
        };
        assert_eq!(reach("0.0.0.0:3306").as_deref(), Some("127.0.0.1:3306"));
        assert_eq!(reach("[::]:3306").as_deref(), Some("[::1]:3306"));
        assert_eq!(reach("192.0.2.1:3306").as_deref(), Some("192.0.2.1:3306"));
        assert_eq!(reachable(&drivers::ListenAddress::Unix("/a".into())), None);
    }

    #[test]
    fn a_host_that_cannot_be_found_is_missing_where_there_are_others() {
        let backend = |host: &str| BackendUrl {
            user: String::from("onramp"),
            password: String::new().into(),
            target: BackendTarget::Tcp { host: String::from(host), port: 3306 },
        };
        let nowhere = backend("no-such-host.invalid");
        let resolved = resolve(&[nowhere.clone(), backend("192.0.2.1")]).unwrap();
        let [missing, there] = &resolved.found[..] else { panic!("{resolved:?}") };
        assert_eq!((there.0.to_string().as_str(), &*there.1), ("192.0.2.1:3306", "192.0.2.1"));
        assert_eq!(missing.0.to_string(), "no-such-host.invalid:3306");
        assert!(matches!(missing.0, Address::NotFound { .. }) && resolved.names.len() == 1, "{resolved:?}");
        let said = |interval| resolved.warnings(Duration::from_secs(interval)).join("");
        assert!(said(5).contains("\"no-such-host.invalid\" cannot be found") && said(5).contains("every 5s"));
        assert!(said(0).ends_with("backend_lookup_interval is 0"), "{}", said(0));
        let error = resolve(&[nowhere.clone(), nowhere.clone()]).unwrap_err().to_string();
        assert!(error.starts_with("backend: the host \"no-such-host.invalid\" cannot be found: "), "{error}");
        assert!(resolve(&[nowhere]).is_err());
    }

    #[test]
    fn addresses_stand_for_themselves_and_keep_their_order() {
        assert_eq!(look_up("::1", 3306).unwrap(), ["[::1]:3306".parse().unwrap()]);
        assert!(look_up("no-such-host.invalid", 3306).is_err());
    }
}
