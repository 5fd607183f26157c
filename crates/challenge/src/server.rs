//! The server under test: a private one, which runs only while it is needed, or a given one.

use std::path::{Path, PathBuf};

use config::{BackendTarget, BackendUrl};
use keys::Secret;
use private_server::ThreadHandling;
use zeroize::Zeroizing;

use crate::error::{Error, WrongOptions};
use crate::interrupts::Interrupts;
use crate::options::Options;
use crate::private::{LARGE_BUFFER_POOL, Private};

/// Where clients connect and who they are.
#[derive(Clone)]
pub(crate) struct Target {
    /// Where.
    pub(crate) place: Place,
    /// The account's name.
    pub(crate) user: String,
    /// Its password.
    pub(crate) password: Zeroizing<String>,
}

impl Target {
    /// Of a server that has never run.
    pub(crate) fn nowhere() -> Self {
        Self { place: Place::Unix(PathBuf::new()), user: String::new(), password: Zeroizing::default() }
    }
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host and a port.
    Tcp(String, u16),
    /// A socket.
    Unix(PathBuf),
}

/// The server under test.
pub(crate) enum Server {
    /// Created for the run.
    Private(Box<Private>),
    /// Somebody's.
    Given(Given),
}

/// A server that was there before.
pub(crate) struct Given {
    url: Secret,
    target: Target,
}

impl Server {
    /// Reads what the options say about it. Starts nothing.
    ///
    /// # Errors
    /// What is wrong with the options, or the machine.
    pub(crate) fn new(options: &Options, folder: &Path) -> Result<Self, Error> {
        let Some(url) = &options.backend else {
            let most_direct = if options.find_knee { options.most_clients() } else { options.most_direct() };
            let private = Private::new(options, folder, 1, most_direct, LARGE_BUFFER_POOL)?;
            return Ok(Self::Private(Box::new(private)));
        };
        Given::new(url, options).map(Self::Given)
    }

    /// Sees to a server that shares its threads this way; a given one is as it is.
    ///
    /// # Errors
    /// Why it does not come up.
    pub(crate) fn ensure(&mut self, handling: ThreadHandling, interrupts: &Interrupts) -> Result<(), Error> {
        match self {
            Self::Private(private) => private.ensure(handling, interrupts),
            Self::Given(_) => Ok(()),
        }
    }

    /// Stops a private one.
    pub(crate) fn stop(&mut self) {
        if let Self::Private(private) = self {
            private.stop();
        }
    }

    /// Where clients reach the server itself.
    pub(crate) fn target(&self) -> Target {
        match self {
            Self::Private(private) => private.target(),
            Self::Given(given) => Target {
                place: given.target.place.clone(),
                user: given.target.user.clone(),
                password: given.target.password.clone(),
            },
        }
    }

    /// The URL for Onramp.
    pub(crate) fn url(&self) -> Zeroizing<String> {
        match self {
            Self::Private(private) => private.url(),
            Self::Given(given) => Zeroizing::new(given.url.reveal().to_owned()),
        }
    }

    /// The server's process, where it is ours.
    pub(crate) fn process(&self) -> Option<u32> {
        match self {
            Self::Private(private) => private.access().map(|access| access.process),
            Self::Given(_) => None,
        }
    }

    /// Its name and version, where they are known before the first connection.
    pub(crate) fn version(&self) -> Option<String> {
        match self {
            Self::Private(private) => private.access().map(|access| access.version.clone()),
            Self::Given(_) => None,
        }
    }
}

impl Given {
    fn new(url: &Secret, options: &Options) -> Result<Self, Error> {
        let parsed = parse(url)?;
        let place = match parsed.target {
            BackendTarget::Tcp { host, port } => Place::Tcp(host, port),
            BackendTarget::Unix(path) => Place::Unix(path),
        };
        let password = match (&options.password, &options.user) {
            (Some(password), _) => Zeroizing::new(password.reveal().to_owned()),
            // Another account's password is not this one's.
            (None, Some(user)) if *user != parsed.user => Zeroizing::default(),
            (None, _) => parsed.password,
        };
        let user = options.user.clone().unwrap_or(parsed.user);
        Ok(Self { url: url.clone(), target: Target { place, user, password } })
    }
}

/// As `onramp serve` reads it.
fn parse(url: &Secret) -> Result<BackendUrl, Error> {
    let wrong = |reason| Error::Options(WrongOptions::Backend(reason));
    let arguments = [String::from("--backend"), url.reveal().to_owned()];
    let configuration =
        config::load(&arguments, std::iter::empty()).map_err(|error| wrong(error.to_string()))?;
    configuration.backends.into_iter().next().ok_or_else(|| wrong(String::from("--backend is empty")))
}

pub(crate) fn percent_encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                text.push(char::from(*byte));
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn given(words: &[&str]) -> Result<Target, Error> {
        let words = std::iter::once("onramp challenge").chain(words.iter().copied());
        let options = Options::try_parse_from(words).unwrap();
        Ok(Server::new(&options, Path::new("/nowhere"))?.target())
    }

    #[test]
    fn clients_are_the_service_account_or_who_was_named() {
        let url = "mysql://onramp:one@db.example:3307/";
        let target = given(&["--backend", url]).unwrap();
        assert_eq!(target.place, Place::Tcp(String::from("db.example"), 3307));
        assert_eq!((target.user.as_str(), target.password.as_str()), ("onramp", "one"));
        let target = given(&["--backend", url, "--user", "app"]).unwrap();
        assert_eq!((target.user.as_str(), target.password.as_str()), ("app", ""));
        let target = given(&["--backend", url, "--user", "app", "--password", "two"]).unwrap();
        assert_eq!((target.user.as_str(), target.password.as_str()), ("app", "two"));
    }

    #[test]
    fn a_url_that_cannot_be_read_is_said_without_its_password() {
        let error = given(&["--backend", "mysql://onramp:hidden@db:port/"]).err().unwrap().to_string();
        assert!(error.contains("port") && !error.contains("hidden"), "{error}");
    }

    #[test]
    fn a_path_comes_back_from_a_url() {
        let path = Path::new("/tmp/a b/50%#é/server.sock");
        let url = format!("mysql://a@localhost/?socket={}", percent_encoded(path));
        assert_eq!(given(&["--backend", &url]).unwrap().place, Place::Unix(path.into()));
    }
}
