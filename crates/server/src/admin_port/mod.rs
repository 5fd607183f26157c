//! The admin port's view of the program, and what it can do to it. Everything here runs on threads of admin connections.

mod answers;
mod counters;
mod fill;
mod limits;
mod people;
mod pins;
mod status;
mod values;

use std::io;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{SyncSender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use admin::tables::Setting;
use admin::{Encryption, Listener, Pool, Refusal, Rows};
use config::{Configuration, ListenAddress, NotSet};
use engine::ClientTls;
use private_server::Access;
use seam::Signal;

use crate::addresses;
use crate::arguments::Arguments;
use crate::ask::{Ask, Sight};
use crate::happening::Happening;
use crate::logging::Log;
use crate::slow_log::SlowLog;
use crate::tls_files::TlsFiles;
use crate::workers::Reach;
use answers::Answers;

/// Says where the admin port is.
const OPTION: &str = "admin_listen";

/// Sockets that listen for admin connections; the kernel holds those that come before [`AdminPort::open`].
pub(crate) struct AdminPort {
    listeners: Vec<Listener>,
    names: Vec<String>,
}

/// What the admin port needs of the running program.
pub(crate) struct Program {
    pub(crate) configuration: Configuration,
    /// Where the configuration came from, to read it again.
    pub(crate) arguments: Arguments,
    pub(crate) reach: Reach,
    pub(crate) driver: drivers::DriverKind,
    pub(crate) happenings: SyncSender<Happening>,
    pub(crate) log: Log,
    pub(crate) slow_log: SlowLog,
    pub(crate) tls: Arc<TlsFiles>,
}

/// The program as the admin port sees it.
struct Control {
    program: Program,
    configuration: Mutex<Configuration>,
    started: Instant,
}

impl AdminPort {
    /// Listens, where the configuration says so.
    ///
    /// # Errors
    /// A line that names the address and what may be in the way.
    pub(crate) fn listen(configuration: &Configuration) -> Result<Self, String> {
        let mut port = Self { listeners: Vec::new(), names: Vec::new() };
        for address in &configuration.admin_listen {
            port.add(address, configuration)?;
        }
        Ok(port)
    }

    fn add(&mut self, address: &ListenAddress, configuration: &Configuration) -> Result<(), String> {
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
                let encryption = match configuration.tls_of(address) {
                    ClientTls::Off => Encryption::Off,
                    ClientTls::Allowed => Encryption::Allowed,
                    ClientTls::Required => Encryption::Required,
                };
                self.listeners.push(Listener::Tcp(tcp, encryption));
            }
        }
        Ok(())
    }

    /// Serves from here on, where there are listeners. The private server's administrator's password counts where none is
    /// configured.
    ///
    /// # Errors
    /// Where the system has no more threads.
    pub(crate) fn open(self, program: Program, access: Option<&Access>) -> Result<(), String> {
        if self.listeners.is_empty() {
            return Ok(());
        }
        let configuration = program.configuration.clone();
        let password = match access {
            Some(access) if configuration.admin_password.is_empty() => access.admin_password.clone(),
            _ => configuration.admin_password.clone(),
        };
        if password.is_empty() {
            return Err(String::from("admin_listen is given without admin_password"));
        }
        let settings = admin::Settings {
            user: configuration.admin_user.clone(),
            password,
            tls: program.tls.acceptor(),
            max_connections: configuration.admin_max_connections,
        };
        let user = settings.user.clone();
        let control = Control { program, configuration: Mutex::new(configuration), started: Instant::now() };
        admin::serve(self.listeners, settings, Arc::new(control))
            .map_err(|error| format!("no thread for the admin port: {error}"))?;
        tracing::info!("admin port: listening on {} for the user {user}", self.names.join(", "));
        Ok(())
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

impl Control {
    fn configuration(&self) -> MutexGuard<'_, Configuration> {
        self.configuration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks all workers; `ask` makes the question from where to answer.
    fn ask(
        &self,
        signal: Signal,
        ask: impl Fn(std::sync::mpsc::Sender<crate::ask::Answer>) -> Ask,
    ) -> Answers {
        let (answer, answers) = channel();
        for (asks, signaller) in &self.program.reach {
            // A worker that has ended does not answer, which is seen by whoever waits for it.
            if asks.send(ask(answer.clone())).is_ok() {
                signaller.send(signal);
            }
        }
        Answers::new(answers, self.program.reach.len())
    }

    /// Has all workers do something, and waits until they have.
    fn order(&self, ask: impl Fn(std::sync::mpsc::Sender<crate::ask::Answer>) -> Ask) -> Result<(), Refusal> {
        let mut answers = self.ask(Signal::Wake, ask);
        while answers.next().is_some() {}
        match answers.missing().as_slice() {
            [] => Ok(()),
            missing => Err(Refusal::Failed { reason: format!("{} not answered", answers::have(missing)) }),
        }
    }

    /// What changed in the configuration holds from here on.
    fn take_effect(&self, configuration: &Configuration) -> Result<(), Refusal> {
        (self.program.log.change_level)(configuration.log_level);
        self.program.log.lines.change_format(configuration.log_format);
        let settings = Arc::new(configuration.engine.clone());
        self.order(|answer| Ask::Change { settings: Arc::clone(&settings), answer })
    }
}

impl Pool for Control {
    fn fill(&self, rows: &mut Rows<'_>) {
        fill::fill(self, rows);
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
        if found { Ok(()) } else { Err(Refusal::NoSuchClient) }
    }

    fn pause(&self) -> Result<(), Refusal> {
        self.order(|answer| Ask::Pause { on: true, answer })
    }

    fn resume(&self) -> Result<(), Refusal> {
        self.order(|answer| Ask::Pause { on: false, answer })
    }

    fn reload(&self) -> Result<Vec<String>, Refusal> {
        let read = self.program.arguments.load();
        let fresh = read.map_err(|error| Refusal::Failed { reason: error.to_string() })?;
        // Files that have changed hold whatever else does not.
        self.program.slow_log.reopen();
        self.program.tls.read_again().map_err(|reason| Refusal::Failed { reason })?;
        // Held to the end, so that two changes do not cross.
        let mut configuration = self.configuration();
        let left = configuration.take_up(&fresh);
        self.take_effect(&configuration)?;
        Ok(left)
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
            NotSet::Wrong(reason) => Refusal::WrongValue { reason },
        })?;
        self.take_effect(&configuration)
    }

    fn statistics(&self) -> String {
        status::line(self)
    }

    fn shutdown(&self, immediate: bool) {
        for _ in 0..1 + usize::from(immediate) {
            // The queue is full only for moments; the order must not be lost.
            let _ = self.program.happenings.send(Happening::AskedToEnd);
        }
    }
}
