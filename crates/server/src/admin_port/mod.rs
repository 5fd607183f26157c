//! The admin port, and what it can do to the program. Everything here runs on threads of admin connections.

pub(crate) mod counters;
mod fill;
pub(crate) mod limits;
pub(crate) mod logins;
mod peers;
mod people;
mod pins;
mod servers;
mod status;
pub(crate) mod values;

pub(crate) use values::digest_name;

use std::io;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use admin::tables::Setting;
use admin::{Encryption, Listener, Peers, Pool, Refusal, Rows};
use config::{Configuration, ListenAddress, NotSet};
use drivers::InheritedSocket;
use engine::{ClientTls, KILL_AT_PEER_TIMEOUT, KilledAtPeer};
use private_server::Access;
use seam::Signal;

use crate::Failure;
use crate::addresses;
use crate::ask::{Answer, Ask, Sight};
use crate::control::Control;
use crate::control::no_change::NotAnswered;

/// Says where the admin port is.
const OPTION: &str = "admin_listen";

/// Sockets that listen for admin connections; the kernel holds those that come before [`AdminPort::open`].
pub(crate) struct AdminPort {
    listeners: Vec<Listener>,
    names: Vec<String>,
}

impl AdminPort {
    /// Listens, where the configuration says so, unless sockets were handed over in the place of that.
    ///
    /// # Errors
    /// A line that names the address and what may be in the way.
    pub(crate) fn listen(
        configuration: &Configuration,
        handed_over: Vec<InheritedSocket>,
    ) -> Result<Self, Failure> {
        let mut port = Self { listeners: Vec::new(), names: Vec::new() };
        if !handed_over.is_empty() {
            for (address, socket) in configuration.admin_listen.iter().zip(handed_over) {
                port.take_over(address, socket, configuration)
                    .map_err(|error| addresses::refusal(OPTION, address, &error))?;
            }
            return Ok(port);
        }
        for address in &configuration.admin_listen {
            port.add(address, configuration)?;
        }
        Ok(port)
    }

    fn take_over(
        &mut self,
        address: &ListenAddress,
        socket: InheritedSocket,
        configuration: &Configuration,
    ) -> io::Result<()> {
        self.names.push(socket.address().to_string());
        self.listeners.push(match address {
            ListenAddress::Unix(_) => Listener::Unix(socket.blocking()?.into()),
            ListenAddress::Tcp { .. } => {
                Listener::Tcp(socket.blocking()?.into(), encryption(configuration, address))
            }
        });
        Ok(())
    }

    fn add(&mut self, address: &ListenAddress, configuration: &Configuration) -> Result<(), Failure> {
        let refused = |error: io::Error| addresses::refusal(OPTION, address, &error);
        match address {
            ListenAddress::Unix(path) => {
                self.listeners.push(Listener::Unix(bind_unix(path).map_err(refused)?));
                self.names.push(path.display().to_string());
            }
            ListenAddress::Tcp { host, port, .. } => {
                let found = addresses::look_up(host, *port)
                    .map_err(|reason| format!("{OPTION}: the host {host:?} cannot be found: {reason}"))?;
                let tcp = TcpListener::bind(found.as_slice()).map_err(refused)?;
                let actual = tcp.local_addr().map_err(refused)?;
                self.names.push(actual.to_string());
                self.listeners.push(Listener::Tcp(tcp, encryption(configuration, address)));
            }
        }
        Ok(())
    }

    /// Whether it listens anywhere.
    pub(crate) fn is_there(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Serves from here on, where there are listeners. The private server's administrator's password counts where none is
    /// configured.
    ///
    /// # Errors
    /// Where the system has no more threads.
    pub(crate) fn open(self, control: Arc<Control>, access: Option<&Access>) -> Result<(), Failure> {
        if !self.is_there() {
            return Ok(());
        }
        let configuration = control.configuration().clone();
        let password = match access {
            Some(access) if configuration.admin_password.is_empty() => access.admin_password.clone(),
            _ => configuration.admin_password.clone(),
        };
        if password.is_empty() {
            return Err("admin_listen is given without admin_password".into());
        }
        let settings = admin::Settings {
            user: configuration.admin_user.clone(),
            password,
            tls: control.program.tls.acceptor(),
            max_connections: configuration.admin_max_connections,
        };
        let user = settings.user.clone();
        admin::serve(self.listeners, settings, control)
            .map_err(|error| format!("no thread for the admin port: {error}"))?;
        tracing::info!("admin port: listening on {} for the user {user}", self.names.join(", "));
        Ok(())
    }
}

/// Whether TLS is spoken there.
fn encryption(configuration: &Configuration, address: &ListenAddress) -> Encryption {
    match configuration.tls_of(address) {
        ClientTls::Off => Encryption::Off,
        ClientTls::Allowed => Encryption::Allowed,
        ClientTls::Required => Encryption::Required,
    }
}

/// Takes the place of a socket that nobody serves any more.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    if path
        .symlink_metadata()
        .is_ok_and(|found| std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()))
    {
        let _ = std::fs::remove_file(path);
    }
    UnixListener::bind(path)
}

/// What is said of an order that was not carried out.
fn failed(error: impl std::error::Error) -> Refusal {
    Refusal::Failed { reason: error.to_string() }
}

impl Control {
    /// No worker has this client. Another Onramp in front of the server may.
    fn kill_at_peer(&self, id: u32, query_only: bool) -> Result<(), Refusal> {
        let mut answers = self
            .ask(Signal::Wake, |answer| Ask::KillAtPeer { id, query_only, answer })
            .with_time_for_others(KILL_AT_PEER_TIMEOUT);
        let mut outcome = KilledAtPeer::NoSuchClient;
        while let Some((_, sight)) = answers.next() {
            if let Sight::Killed(of_peer) = sight {
                outcome = of_peer;
            }
        }
        match (outcome, answers.missing().as_slice()) {
            (KilledAtPeer::Done, _) => Ok(()),
            (KilledAtPeer::Failed(reason), _) => Err(Refusal::Failed { reason }),
            (KilledAtPeer::NoSuchClient, []) => Err(Refusal::NoSuchClient),
            (KilledAtPeer::NoSuchClient, missing) => Err(failed(NotAnswered(missing.to_vec()))),
        }
    }

    /// As [`Self::order`], said as the admin port says it.
    fn order_all(&self, ask: impl Fn(Sender<Answer>) -> Ask) -> Result<(), Refusal> {
        self.order(ask).map_err(failed)
    }
}

impl Pool for Control {
    fn fill(&self, rows: &mut Rows<'_>) {
        fill::fill(self, rows);
    }

    fn peers(&self) -> Peers {
        let configuration = self.configuration().clone();
        peers::of(&configuration)
    }

    fn settings(&self) -> Vec<Setting> {
        let settings = self.configuration().settings();
        let setting = |setting: config::Setting| Setting {
            name: setting.name,
            value: setting.value,
            default_value: setting.default,
            scope: if setting.live { "live" } else { "start" },
            source: setting.source.name(),
        };
        settings.into_iter().map(setting).collect()
    }

    fn other_names(&self) -> &'static [(&'static str, &'static str)] {
        Configuration::other_names()
    }

    fn kill(&self, id: u64, query_only: bool) -> Result<(), Refusal> {
        let id = u32::try_from(id).map_err(|_| Refusal::NoSuchClient)?;
        let mut answers = self.ask(Signal::Wake, |answer| Ask::Kill { id, query_only, answer });
        let mut found = false;
        while let Some((_, sight)) = answers.next() {
            found |= matches!(sight, Sight::Done);
        }
        match answers.missing().as_slice() {
            _ if found => Ok(()),
            [] => self.kill_at_peer(id, query_only),
            missing => Err(failed(NotAnswered(missing.to_vec()))),
        }
    }

    fn pause(&self) -> Result<(), Refusal> {
        self.order_all(|answer| Ask::Pause { on: true, answer })
    }

    fn switch_over(&self, to: &str) -> Result<String, Refusal> {
        Control::switch_over(self, to).map_err(failed)
    }

    fn drain_server(&self, address: &str, drains: bool) -> Result<String, Refusal> {
        Control::drain_server(self, address, drains).map_err(failed)
    }

    fn resume(&self) -> Result<(), Refusal> {
        self.order_all(|answer| Ask::Pause { on: false, answer })
    }

    fn reload(&self) -> Result<Vec<String>, Refusal> {
        Control::reload(self).map_err(failed)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), Refusal> {
        let mut configuration = self.configuration();
        configuration.set(name, value).map_err(|not_set| match not_set {
            NotSet::Unknown => Refusal::UnknownOption,
            NotSet::NotLive => Refusal::NotLive {
                advice: String::from(
                    "it is fixed at the start; change it in the file and start Onramp again",
                ),
            },
            NotSet::Wrong(fault) => Refusal::WrongValue { reason: fault.to_string() },
        })?;
        self.take_effect(&configuration).map_err(failed)
    }

    fn statistics(&self) -> String {
        status::line(self)
    }

    fn shutdown(&self, immediate: bool) {
        for _ in 0..1 + usize::from(immediate) {
            self.end();
        }
    }
}
