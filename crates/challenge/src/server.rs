//! The server under test: a private one, which runs only while it is needed, or a given one.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use config::{BackendTarget, BackendUrl};
use private_server::{Access, PrivateServer, Report, Settings, ThreadHandling};
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use crate::child::LOOK;
use crate::cpu_share::CpuShare;
use crate::interrupts::Interrupts;
use keys::Secret;

use crate::options::Options;

/// Connections beside those of a step: the load generator's look before a run, Onramp's service account.
const OTHER_CONNECTIONS: u32 = 100;
/// The tables are a tenth of it, and memory is left for 100,000 sockets.
const BUFFER_POOL: u64 = 512 << 20;

/// Where clients connect and who they are.
pub(crate) struct Target {
    /// Where.
    pub(crate) place: Place,
    /// The account's name.
    pub(crate) user: String,
    /// Its password.
    pub(crate) password: Zeroizing<String>,
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

/// A server that was created for the run.
pub(crate) struct Private {
    settings: Settings,
    port: u16,
    /// To what it is held.
    share: Option<CpuShare>,
    running: Option<Running>,
}

struct Running {
    handling: ThreadHandling,
    server: PrivateServer,
    reports: Receiver<Report>,
    access: Access,
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
    pub(crate) fn new(options: &Options, folder: &Path) -> Result<Self, String> {
        match &options.backend {
            Some(url) => Given::new(url, options).map(Self::Given),
            None => Private::new(options, folder).map(|private| Self::Private(Box::new(private))),
        }
    }

    /// Sees to a server that shares its threads this way; a given one is as it is.
    ///
    /// # Errors
    /// Why it does not come up.
    pub(crate) fn ensure(&mut self, handling: ThreadHandling, interrupts: &Interrupts) -> Result<(), String> {
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
    pub(crate) fn target(&self) -> Result<Target, String> {
        match self {
            Self::Private(private) => {
                let access = private.access()?;
                Ok(Target {
                    place: Place::Tcp(Ipv4Addr::LOCALHOST.to_string(), private.port),
                    user: access.admin_user.clone(),
                    password: access.admin_password.clone(),
                })
            }
            Self::Given(given) => Ok(Target {
                place: given.target.place.clone(),
                user: given.target.user.clone(),
                password: given.target.password.clone(),
            }),
        }
    }

    /// The URL for Onramp.
    pub(crate) fn url(&self) -> Result<Zeroizing<String>, String> {
        match self {
            Self::Private(private) => {
                let access = private.access()?;
                Ok(Zeroizing::new(format!(
                    "mysql://{}:{}@localhost/?socket={}",
                    access.service_user,
                    access.service_password.as_str(),
                    percent_encoded(&access.socket)
                )))
            }
            Self::Given(given) => Ok(Zeroizing::new(given.url.reveal().to_owned())),
        }
    }

    /// The server's process, where it is ours.
    pub(crate) fn process(&self) -> Option<u32> {
        match self {
            Self::Private(private) => private.access().ok().map(|access| access.process),
            Self::Given(_) => None,
        }
    }

    /// Its name and version, where they are known before the first connection.
    pub(crate) fn version(&self) -> Option<String> {
        match self {
            Self::Private(private) => private.access().ok().map(|access| access.version.clone()),
            Self::Given(_) => None,
        }
    }
}

impl Private {
    fn new(options: &Options, folder: &Path) -> Result<Self, String> {
        let port = free_port().map_err(|error| no_free_port(&error))?;
        let most_direct = if options.find_knee { options.most_clients() } else { options.most_direct() };
        let settings = Settings {
            programs: options.server_directory.clone().unwrap_or_default(),
            max_connections: most_direct.saturating_add(OTHER_CONNECTIONS).max(1_000),
            buffer_pool: Some(BUFFER_POOL),
            port: Some(port),
            arguments: vec![
                // Thousands connect at once: what Onramp has too.
                String::from("--back-log=4096"),
                // Nothing here is worth keeping, and a disk's flushes would be measured rather than the server.
                String::from("--innodb-flush-log-at-trx-commit=0"),
            ],
            ..Settings::new(folder.join("server"))
        };
        let share = options.server_cpus.map(CpuShare::create).transpose()?;
        Ok(Self { settings, port, share, running: None })
    }

    fn ensure(&mut self, handling: ThreadHandling, interrupts: &Interrupts) -> Result<(), String> {
        if self.running.as_ref().is_some_and(|running| running.handling == handling) {
            return Ok(());
        }
        self.stop();
        for _ in 0..PORTS_TRIED {
            match self.start(handling, interrupts) {
                Err(reason) if reason.contains(PORT_TAKEN) => {
                    self.port = free_port().map_err(|error| no_free_port(&error))?;
                    self.settings.port = Some(self.port);
                }
                outcome => return outcome,
            }
        }
        self.start(handling, interrupts)
    }

    fn start(&mut self, handling: ThreadHandling, interrupts: &Interrupts) -> Result<(), String> {
        let (sender, reports) = channel();
        let settings = Settings { thread_handling: handling, ..self.settings.clone() };
        let server = PrivateServer::start(settings, move |report| {
            let _ = sender.send(report);
        })
        .map_err(|error| error.to_string())?;
        loop {
            match reports.recv_timeout(LOOK) {
                Ok(Report::Ready(access)) => {
                    let held = self.share.as_ref().map_or(Ok(()), |share| share.hold(access.process));
                    self.running = Some(Running { handling, server, reports, access });
                    return held;
                }
                Ok(Report::Failed(reason)) => return Err(reason.to_string()),
                Ok(Report::Stopped) => return Err(String::from("interrupted")),
                Err(RecvTimeoutError::Timeout) if interrupts.came() => server.stop(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(String::from("the private server's thread has gone"));
                }
            }
        }
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.server.stop();
            while matches!(running.reports.recv(), Ok(Report::Ready(_))) {}
        }
    }

    fn access(&self) -> Result<&Access, String> {
        self.running
            .as_ref()
            .map(|running| &running.access)
            .ok_or_else(|| String::from("the server does not run"))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Given {
    fn new(url: &Secret, options: &Options) -> Result<Self, String> {
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
fn parse(url: &Secret) -> Result<BackendUrl, String> {
    let arguments = [String::from("--backend"), url.reveal().to_owned()];
    let configuration = config::load(&arguments, std::iter::empty()).map_err(|error| error.to_string())?;
    configuration.backends.into_iter().next().ok_or_else(|| String::from("--backend is empty"))
}

/// What a server says whose port somebody took before it: `network_init` in sql/mysqld.cc of MariaDB and MySQL.
const PORT_TAKEN: &str = "Bind on TCP/IP port";

/// Ports that are tried when the one before was taken in the moment between the look and the server's start. Twice in a
/// row is no accident, and one more costs a second.
const PORTS_TRIED: usize = 3;

fn no_free_port(error: &std::io::Error) -> String {
    format!("no free port on 127.0.0.1: {error}")
}

/// A port that is free now. It may be taken until the server starts, which then says so. It lies below those that the
/// system gives to connections (32768 and on, ip-sysctl in the kernel's documentation): while the server is away, one of
/// 100,000 clients would take it.
fn free_port() -> std::io::Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u32 = 12_000;
    let mut random = [0; 4];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let start = u32::from_ne_bytes(random) % COUNT;
    let ports = (0..COUNT).map(|offset| FIRST + ((start + offset) % COUNT) as u16);
    let mut last = None;
    for port in ports {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
}

fn percent_encoded(path: &Path) -> String {
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

    fn given(words: &[&str]) -> Result<Target, String> {
        let words = std::iter::once("onramp challenge").chain(words.iter().copied());
        let options = Options::try_parse_from(words).unwrap();
        Server::new(&options, Path::new("/nowhere"))?.target()
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
    fn a_free_port_can_be_listened_on() {
        let port = free_port().unwrap();
        assert!((20_000..32_000).contains(&port), "{port}");
        // Another test may take it at the same moment, but not all of these.
        assert!((0..5).any(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, free_port().unwrap())).is_ok()));
    }

    #[test]
    fn a_url_that_cannot_be_read_is_said_without_its_password() {
        let error = given(&["--backend", "mysql://onramp:hidden@db:port/"]).err().unwrap();
        assert!(error.contains("port") && !error.contains("hidden"), "{error}");
    }

    #[test]
    fn a_path_comes_back_from_a_url() {
        let path = Path::new("/tmp/a b/50%#é/server.sock");
        let url = format!("mysql://a@localhost/?socket={}", percent_encoded(path));
        assert_eq!(given(&["--backend", &url]).unwrap().place, Place::Unix(path.into()));
    }
}
