//! Values that options give to servers by their addresses, and the names of zones.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use seam::Address;

/// A server by the address that `backend` has for it. Two texts of one address are one name: letters of a host in either case, all forms of
/// an IPv6 address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerName {
    /// A host and its port.
    Tcp {
        /// The host, or an address without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl ServerName {
    /// The name of a host, or of an address without brackets, and a port.
    pub fn tcp(host: &str, port: u16) -> Self {
        let host = match host.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => host.to_ascii_lowercase(),
        };
        Self::Tcp { host, port }
    }

    /// The name of the server at this address, which was found under the name of this host.
    pub(super) fn of(address: &Address, host: Option<&str>) -> Self {
        match (address, host) {
            (Address::Tcp { remote, .. }, Some(host)) => Self::tcp(host, remote.port()),
            (Address::Tcp { remote, .. }, None) => {
                Self::Tcp { host: remote.ip().to_string(), port: remote.port() }
            }
            (Address::Unix(path), _) => Self::Unix(path.clone()),
            (Address::NotFound { host, port }, _) => Self::tcp(host, *port),
        }
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A value for each of some servers, and one for all others. Empty: none for any. A copy shares what it holds, since each reader has one.
#[derive(Debug, PartialEq, Eq)]
pub struct ByServer<T> {
    named: Arc<BTreeMap<ServerName, T>>,
    others: Option<T>,
}

impl<T> ByServer<T> {
    /// Makes a list of these values.
    pub fn new(named: BTreeMap<ServerName, T>, others: Option<T>) -> Self {
        Self { named: Arc::new(named), others }
    }

    /// The value of a server, if there is one.
    pub fn of(&self, server: &ServerName) -> Option<&T> {
        self.named.get(server).or(self.others.as_ref())
    }

    /// The servers that have one of their own.
    pub fn names(&self) -> impl Iterator<Item = &ServerName> {
        self.named.keys()
    }
}

impl<T> Default for ByServer<T> {
    fn default() -> Self {
        Self::new(BTreeMap::new(), None)
    }
}

impl<T: Clone> Clone for ByServer<T> {
    fn clone(&self) -> Self {
        Self { named: Arc::clone(&self.named), others: self.others.clone() }
    }
}

impl<T: fmt::Display> fmt::Display for ByServer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.named.iter().map(|(server, value)| format!("{server}={value}"));
        let others = self.others.iter().map(|value| format!("*={value}"));
        f.write_str(&named.chain(others).collect::<Vec<_>>().join(","))
    }
}

/// The name of a zone: servers, and Onramps, that are near to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(Arc<str>);

/// A text is no [`Zone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoZone;

/// Names that clouds and Kubernetes give to zones have up to 63 characters (a label of Kubernetes).
const LONGEST: usize = 63;

impl Zone {
    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl FromStr for Zone {
    type Err = NoZone;

    fn from_str(text: &str) -> Result<Self, NoZone> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
        let is_one = (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_plain);
        if is_one { Ok(Self(Arc::from(text))) } else { Err(NoZone) }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NoZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a zone has 1 to {LONGEST} letters, digits and -_.:/")
    }
}

impl std::error::Error for NoZone {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_one_name_however_it_is_written() {
        let tcp = |address: &str| Address::Tcp { remote: address.parse().unwrap(), local: None };
        let same = [ServerName::tcp("::1", 3307), ServerName::tcp("0:0::1", 3307)];
        assert!(same.iter().all(|name| *name == ServerName::of(&tcp("[::1]:3307"), None)));
        assert_eq!(same[0].to_string(), "[::1]:3307");
        assert_eq!(ServerName::tcp("DB2", 1), ServerName::of(&tcp("10.0.0.2:1"), Some("db2")));
        assert_ne!(ServerName::tcp("db2", 1), ServerName::of(&tcp("10.0.0.2:2"), Some("db2")));
        let socket = Address::Unix("/run/a".into());
        assert_eq!(ServerName::of(&socket, Some("localhost")), ServerName::Unix("/run/a".into()));
    }

    #[test]
    fn who_is_not_named_has_the_value_of_all_others() {
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|host| ServerName::tcp(host, 3306));
        let named = BTreeMap::from([(one.clone(), 2)]);
        let alone = ByServer::new(named.clone(), None);
        assert_eq!((alone.of(&one), alone.of(&other)), (Some(&2), None));
        let with_others = ByServer::new(named, Some(0));
        assert_eq!((with_others.of(&one), with_others.of(&other)), (Some(&2), Some(&0)));
        assert_eq!(with_others.to_string(), "10.0.0.1:3306=2,*=0");
        assert_eq!(ByServer::<u32>::default().to_string(), "");
    }

    #[test]
    fn names_of_zones_are_short_and_plain() {
        for text in ["a", "eu-central-1a", "rack_7.row:3/left", &"z".repeat(63)] {
            assert_eq!(text.parse::<Zone>().unwrap().name(), text);
        }
        for text in ["", " a", "a,b", "a=b", "zürich", "a\n", "*", &"z".repeat(64)] {
            assert_eq!(text.parse::<Zone>(), Err(NoZone), "{text}");
        }
    }
}
