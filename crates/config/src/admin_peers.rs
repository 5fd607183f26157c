//! The admin ports of other Onramps.

use std::fmt;
use std::path::PathBuf;

use zeroize::Zeroizing;

use crate::backend_url::{BackendTarget, BackendUrl, NoBackend};
use crate::listen_address::split_port;

/// How many there are at most: four times as many as there are slots for Onramps in front of a server.
const MOST: usize = 64;

/// Other Onramps' admin ports, in the order in which they were given, no two alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminPeers(Vec<AdminPeer>);

/// An admin port.
#[derive(Clone, PartialEq, Eq)]
pub struct AdminPeer {
    /// Where it is.
    pub target: BackendTarget,
    /// The user and the password, where they are not those of the own one. Shown by neither `Debug` nor `Display`, but for the user. The
    /// password has the form that it has in a [`BackendUrl`], which it comes from.
    pub account: Option<(String, Zeroizing<String>)>,
}

/// Why a text is no list of admin ports. Never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAdminPeers {
    /// What has a user and a password is none.
    Url(NoBackend),
    /// What has none is no address either.
    Address,
    /// One has no port.
    NoPort(String),
    /// One is there twice.
    Twice(String),
    /// There are so many.
    TooMany(usize),
}

impl fmt::Display for NoAdminPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(wrong) => wrong.fmt(f),
            Self::Address => f.write_str(
                "an admin port is given as host:port, [IPv6]:port or /path/of/a.socket, or with an account as \
                 mysql://user:password@host:port/ (a comma in the password as %2C)",
            ),
            Self::NoPort(host) => write!(f, "{host:?} has no port; did you mean {host}:33062?"),
            Self::Twice(name) => write!(f, "{name} is given twice; name each admin port once"),
            Self::TooMany(count) => write!(f, "{count} admin ports are given; at most {MOST} are asked"),
        }
    }
}

impl std::error::Error for NoAdminPeers {}

impl AdminPeers {
    /// Reads addresses and URLs with commas between them; nothing is none.
    ///
    /// # Errors
    /// What is wrong with the first that is none.
    pub(crate) fn parse(text: &str) -> Result<Self, NoAdminPeers> {
        let mut peers: Vec<AdminPeer> = Vec::new();
        for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let peer = AdminPeer::parse(one)?;
            let name = peer.target.to_string();
            // Names of machines have no case.
            if peers.iter().any(|known| known.target.to_string().eq_ignore_ascii_case(&name)) {
                return Err(NoAdminPeers::Twice(name));
            }
            peers.push(peer);
        }
        if peers.len() > MOST { Err(NoAdminPeers::TooMany(peers.len())) } else { Ok(Self(peers)) }
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &AdminPeer> {
        self.0.iter()
    }
}

impl AdminPeer {
    fn parse(text: &str) -> Result<Self, NoAdminPeers> {
        if text.starts_with("mysql://") {
            let BackendUrl { user, password, target } = BackendUrl::parse(text).map_err(NoAdminPeers::Url)?;
            return Ok(Self { target, account: Some((user, password)) });
        }
        if text.starts_with('/') {
            return Ok(Self { target: BackendTarget::Unix(PathBuf::from(text)), account: None });
        }
        // A password that stands in front of an @ must not be in an error.
        let (host, port) = split_port(text).filter(|_| !text.contains('@')).ok_or(NoAdminPeers::Address)?;
        let port = port.ok_or_else(|| NoAdminPeers::NoPort(String::from(text)))?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or(NoAdminPeers::Address)?;
        Ok(Self { target: BackendTarget::Tcp { host: String::from(host), port }, account: None })
    }
}

impl fmt::Debug for AdminPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for AdminPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.account {
            None => self.target.fmt(f),
            Some((user, _)) => {
                let (user, password, target) = (user.clone(), Zeroizing::default(), self.target.clone());
                BackendUrl { user, password, target }.fmt(f)
            }
        }
    }
}

impl fmt::Display for AdminPeers {
    /// As it was given, without passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        AdminPeers::parse(text).map(|peers| peers.to_string()).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn addresses_and_urls_stand_side_by_side() {
        let text = "db1:33062, [::1]:33063,/run/a.sock,mysql://op:hu%2Csh@db2:33062/";
        assert_eq!(shown(text).unwrap(), "db1:33062,[::1]:33063,/run/a.sock,mysql://op@db2:33062/");
        let peers = AdminPeers::parse(text).unwrap();
        let accounts: Vec<_> = peers.iter().map(|peer| peer.account.clone()).collect();
        assert_eq!(accounts[..3], [None, None, None]);
        assert_eq!(accounts[3], Some((String::from("op"), Zeroizing::new(String::from("hu,sh")))));
        assert_eq!((shown("").unwrap(), shown(" , ").unwrap()), (String::new(), String::new()));
        assert!(!format!("{peers:?}").contains("hu"));
    }

    #[test]
    fn what_is_wrong_is_said_without_a_password() {
        assert!(shown("db1").unwrap_err().contains("did you mean db1:33062?"));
        assert!(shown("a:1,b:2,A:1").unwrap_err().contains("A:1 is given twice"));
        assert!(shown("a:1,mysql://u:p@a:1/").unwrap_err().contains("a:1 is given twice"));
        for text in ["db1:0", "db1:x", ":1", "::1", "op:hush@db1:1", "db1:70000", "mysql://op:hu/sh@db1:1/"] {
            let wrong = shown(text).unwrap_err();
            assert!(!wrong.contains("hush") && !wrong.contains("hu/sh"), "{wrong}");
        }
        let many: Vec<_> = (1..=65).map(|port| format!("a:{port}")).collect();
        assert!(shown(&many.join(",")).unwrap_err().contains("at most 64"));
        assert!(shown(&many[..64].join(",")).is_ok());
    }
}
