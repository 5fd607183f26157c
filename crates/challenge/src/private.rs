//! A server that is created for the run, and runs only while it is needed.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use private_server::{Access, PrivateServer, Replication, Report, Settings, ThreadHandling};
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use crate::child::LOOK;
use crate::cpu_share::CpuShare;
use crate::error::{Error, Lack};
use crate::interrupts::Interrupts;
use crate::options::Options;
use crate::server::{Place, Target, percent_encoded};

/// Connections beside those of a step: the load generator's look before a run, Onramp's service account.
const OTHER_CONNECTIONS: u32 = 100;
/// Of one server alone: the tables are a tenth of it, and memory is left for 100,000 sockets.
pub(crate) const LARGE_BUFFER_POOL: u64 = 512 << 20;
/// Of one among several: InnoDB's own default. All accounts are in it several times over.
pub(crate) const SMALL_BUFFER_POOL: u64 = 128 << 20;

/// A server that was created for the run.
pub(crate) struct Private {
    settings: Settings,
    port: u16,
    target: Target,
    url: Zeroizing<String>,
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

impl Private {
    /// The server with this number, from 1, in a folder below `folder`. Starts nothing.
    ///
    /// # Errors
    /// What the machine does not have.
    pub(crate) fn new(
        options: &Options,
        folder: &Path,
        number: u32,
        connections: u32,
        buffer_pool: u64,
    ) -> Result<Self, Error> {
        let port = free_port()?;
        let settings = Settings {
            programs: options.server_directory.clone().unwrap_or_default(),
            max_connections: connections.saturating_add(OTHER_CONNECTIONS).max(1_000),
            buffer_pool: Some(buffer_pool),
            port: Some(port),
            arguments: vec![
                // Thousands connect at once: what Onramp has too.
                String::from("--back-log=4096"),
                // Nothing here is worth keeping, and a disk's flushes would be measured rather than the server.
                String::from("--innodb-flush-log-at-trx-commit=0"),
                String::from("--sync-binlog=0"),
            ],
            ..Settings::new(folder.join(format!("server-{number}")))
        };
        let share = options.server_cpus.map(|cores| CpuShare::create(cores, number)).transpose()?;
        let (target, url) = (Target::nowhere(), Zeroizing::default());
        Ok(Self { settings, port, target, url, share, running: None })
    }

    /// Sees to a server that shares its threads this way.
    ///
    /// # Errors
    /// It does not come up.
    pub(crate) fn ensure(&mut self, handling: ThreadHandling, interrupts: &Interrupts) -> Result<(), Error> {
        if self.running.as_ref().is_some_and(|running| running.handling == handling) {
            return Ok(());
        }
        self.stop();
        for _ in 0..PORTS_TRIED {
            match self.start(handling, interrupts) {
                Err(error) if error.to_string().contains(PORT_TAKEN) => {
                    self.port = free_port()?;
                    self.settings.port = Some(self.port);
                }
                outcome => return outcome,
            }
        }
        self.start(handling, interrupts)
    }

    /// From the next start on it is one of several.
    pub(crate) fn replicate(&mut self, replication: Replication) {
        self.settings.replication = Some(replication);
    }

    fn start(&mut self, handling: ThreadHandling, interrupts: &Interrupts) -> Result<(), Error> {
        let (sender, reports) = channel();
        let settings = Settings { thread_handling: handling, ..self.settings.clone() };
        let server = PrivateServer::start(settings, move |report| {
            let _ = sender.send(report);
        })?;
        loop {
            match reports.recv_timeout(LOOK) {
                Ok(Report::Ready(access)) => {
                    let held = self.share.as_ref().map_or(Ok(()), |share| share.hold(access.process));
                    self.reached_by(&access);
                    self.running = Some(Running { handling, server, reports, access });
                    return held;
                }
                Ok(Report::Failed(reason)) => return Err(reason.into()),
                // Its thread goes without a word only as this program does.
                Ok(Report::Stopped) | Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
                Err(RecvTimeoutError::Timeout) if interrupts.came() => server.stop(),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn reached_by(&mut self, access: &Access) {
        self.target = Target {
            place: Place::Tcp(Ipv4Addr::LOCALHOST.to_string(), self.port),
            user: access.admin_user.clone(),
            password: access.admin_password.clone(),
        };
        self.url = Zeroizing::new(format!(
            "mysql://{}:{}@localhost/?socket={}",
            access.service_user,
            access.service_password.as_str(),
            percent_encoded(&access.socket)
        ));
    }

    /// Stops it in order, and waits for that.
    pub(crate) fn stop(&mut self) {
        self.end(PrivateServer::stop);
    }

    /// Kills it, as `kill -9` does, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.end(PrivateServer::kill);
    }

    fn end(&mut self, how: impl FnOnce(&PrivateServer)) {
        if let Some(running) = self.running.take() {
            how(&running.server);
            while matches!(running.reports.recv(), Ok(Report::Ready(_))) {}
        }
    }

    /// How it is reached; `None` where it does not run.
    pub(crate) fn access(&self) -> Option<&Access> {
        self.running.as_ref().map(|running| &running.access)
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.settings.folder
    }

    /// Its port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Where clients reach it, as it came up last.
    pub(crate) fn target(&self) -> Target {
        self.target.clone()
    }

    /// The URL for Onramp, as it came up last.
    pub(crate) fn url(&self) -> Zeroizing<String> {
        self.url.clone()
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What a server says whose port somebody took before it: `network_init` in sql/mysqld.cc of MariaDB and MySQL.
const PORT_TAKEN: &str = "Bind on TCP/IP port";

/// Ports that are tried when the one before was taken in the moment between the look and the server's start. Twice in a
/// row is no accident, and one more costs a second.
const PORTS_TRIED: usize = 3;

/// A port that is free now. It may be taken until the server starts, which then says so. It lies below those that the
/// system gives to connections (32768 and on, ip-sysctl in the kernel's documentation): while the server is away, one of
/// 100,000 clients would take it.
pub(crate) fn free_port() -> Result<u16, Error> {
    const FIRST: u16 = 20_000;
    const COUNT: u32 = 12_000;
    let mut random = [0; 4];
    getrandom(&mut random, GetRandomFlags::empty())
        .map_err(|error| Error::Machine(Lack::RandomBytes(error.into())))?;
    let start = u32::from_ne_bytes(random) % COUNT;
    let ports = (0..COUNT).map(|offset| FIRST + ((start + offset) % COUNT) as u16);
    let mut last = None;
    for port in ports {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = Some(error),
        }
    }
    Err(Error::Machine(Lack::Port(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_listened_on() {
        let port = free_port().unwrap();
        assert!((20_000..32_000).contains(&port), "{port}");
        // Another test may take it at the same moment, but not all of these.
        assert!((0..5).any(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, free_port().unwrap())).is_ok()));
    }
}
