//! Where the other Onramps are that statements about all of them ask.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use admin::{Peer, Peers};
use admin_client::{Encryption, Names, Place, Target};
use config::{AdminPeer, BackendTarget, Configuration, ListenAddress};
use tls::{Authorities, Connector, Pem, ServerCheck};

/// The option that says so.
const OPTION: &str = "admin_peers";

const NAMES: Names = Names { host: OPTION, socket: OPTION, all: OPTION };

/// The option with the authorities of their certificates.
const AUTHORITIES: &str = "admin_peers_tls_ca";

/// Why other Onramps cannot be asked.
#[derive(Debug)]
enum NoPeers {
    /// The file of the authorities cannot be read.
    File { name: String, error: io::Error },
    /// Nothing in it can be used, or TLS as such cannot.
    Tls(tls::Error),
}

impl fmt::Display for NoPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, error } => write!(f, "{name}: {error}"),
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NoPeers {}

pub(super) fn of(configuration: &Configuration) -> Peers {
    let names: Vec<_> = configuration.admin_peers.iter().map(|peer| peer.target.to_string()).collect();
    Peers {
        own_name: own_name(configuration, &names),
        others: others(configuration).map_err(Into::into),
        patience: configuration.admin_peers_timeout,
    }
}

fn others(configuration: &Configuration) -> Result<Vec<Peer>, NoPeers> {
    if configuration.admin_peers.iter().next().is_none() {
        return Ok(Vec::new());
    }
    let encryption = encryption(&configuration.admin_peers_ca)?;
    let peer = |peer: &AdminPeer| {
        let own = (&configuration.admin_user, &configuration.admin_password);
        let (user, password) = peer.account.as_ref().map_or(own, |(user, password)| (user, password));
        let target = match &peer.target {
            BackendTarget::Tcp { host, port } => Target::Tcp(host.clone(), *port),
            BackendTarget::Unix(path) => Target::Socket(path.clone()),
        };
        let place = Place::new(target, user, password, encryption.clone(), NAMES);
        Peer { name: peer.target.to_string(), place }
    };
    Ok(configuration.admin_peers.iter().map(peer).collect())
}

/// Made anew for each statement, of the file as it is now.
fn encryption(path: &Path) -> Result<Encryption, NoPeers> {
    let connector = |check, authorities: Option<&Authorities>| {
        Connector::new(check, authorities, None).map(Arc::new).map_err(NoPeers::Tls)
    };
    if path.as_os_str().is_empty() {
        return Ok(Encryption::WhereOffered(connector(ServerCheck::None, None)?));
    }
    let name = format!("{AUTHORITIES} {}", path.display());
    let text = config::content(path).map_err(|error| NoPeers::File { name: name.clone(), error })?;
    let authorities = Authorities::from_pem(&Pem { name, text }).map_err(NoPeers::Tls)?;
    Ok(Encryption::Always(connector(ServerCheck::Name, Some(&authorities))?))
}

/// The first address that is listened on. One that stands for all of the machine says nothing elsewhere: the machine's name does, unless
/// another Onramp is called so.
fn own_name(configuration: &Configuration, others: &[String]) -> String {
    let Some(first) = configuration.admin_listen.first() else { return String::new() };
    let ListenAddress::Tcp { host, port, .. } = first else { return first.to_string() };
    let as_given = ListenAddress::Tcp { host: host.clone(), port: *port, tls: None }.to_string();
    if !matches!(host.as_str(), "0.0.0.0" | "::") {
        return as_given;
    }
    let of_machine = format!("{}:{port}", rustix::system::uname().nodename().to_string_lossy());
    if others.contains(&of_machine) { as_given } else { of_machine }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(words: &[&str]) -> Configuration {
        let usual = ["--backend", "mysql://u@db/", "--admin-password", "own-password"];
        let words: Vec<_> = usual.iter().chain(words).map(|word| String::from(*word)).collect();
        config::load(&words, []).unwrap()
    }

    fn own(words: &[&str]) -> String {
        of(&configured(words)).own_name
    }

    #[test]
    fn who_listens_everywhere_is_called_as_the_machine() {
        assert_eq!(own(&["--admin-listen", "10.0.0.1:5?tls=required"]), "10.0.0.1:5");
        assert_eq!(own(&["--admin-listen", "/run/a", "--admin-listen", "10.0.0.1:5"]), "/run/a");
        let machine = own(&["--admin-listen", "0.0.0.0:5"]);
        assert!(machine.ends_with(":5") && !machine.starts_with("0.0.0.0"), "{machine}");
        assert_eq!(own(&["--admin-listen", "[::]:5", "--admin-peers", &machine]), "[::]:5");
    }

    #[test]
    fn authorities_that_cannot_be_read_are_named() {
        let words = ["--admin-peers", "b:1", "--admin-peers-tls-ca", "/nowhere/ca.pem"];
        let failure = of(&configured(&words)).others.err().unwrap();
        assert!(failure.to_string().starts_with("admin_peers_tls_ca /nowhere/ca.pem: "), "{failure}");
        assert_eq!(of(&configured(&words[..2])).others.ok().unwrap().len(), 1);
    }
}
