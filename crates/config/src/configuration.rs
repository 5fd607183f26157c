//! The checked result.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drivers::DriverChoice;
use engine::{ClientTls, ServerTls, Settings, settings};
use proxy_protocol::Networks;
use zeroize::Zeroizing;

use crate::live::Chosen;
use crate::{AdminPeers, BackendUrl, ListenAddress};

/// Open files of the program itself: standard streams, an event queue or rings, eventfd, locks, log, listeners and one connection of the service account,
/// about 20.
pub const OWN_FILES: u32 = 64;

/// So many backends at most: more threads than a server runs well with, idle ones included.
pub const MOST_BACKENDS: u32 = 16_384;

settings! {
    /// Everything that `onramp serve` was told, with every value in its range; by default what holds where nobody says anything.
    #[derive(Clone)]
    pub struct Configuration / ConfigurationChange {
        /// The server's addresses, in the order in which they are tried; empty for a private server.
        pub backends: Vec<BackendUrl> = Vec::new(), start;
        /// Where clients connect; never empty.
        pub listen: Vec<ListenAddress> = vec![ListenAddress::Tcp { host: String::from("127.0.0.1"), port: 3306, tls: None }], start;
        /// Who is trusted to say for whom it connects.
        pub proxy_protocol_networks: Networks = Networks::default(), start;
        /// Encryption.
        pub tls: TlsOptions = TlsOptions::default(), parts;
        /// Where the admin port is; empty for none.
        pub admin_listen: Vec<ListenAddress> = Vec::new(), start;
        /// Who may log in there.
        pub admin_user: String = String::from("admin"), start;
        /// With what password; empty where the private server's is to be taken.
        pub admin_password: Zeroizing<String> = Zeroizing::default(), start;
        /// Connections to it at the same time, from 1.
        pub admin_max_connections: u32 = 10, start;
        /// The admin ports of other Onramps, for statements about all of them.
        pub admin_peers: AdminPeers = AdminPeers::default(), live;
        /// The authorities of their certificates; empty where nothing is verified.
        pub admin_peers_ca: PathBuf = PathBuf::new(), live;
        /// See [`Self::admin_peers`].
        pub admin_peers_timeout: Duration = Duration::from_secs(5), live;
        /// Where HTTP is answered; `None` for nowhere.
        // Beside the ports of Prometheus' exporters, from 9100 on, and not that of MySQL's (9104), which often runs on the same machine.
        pub http_listen: Option<ListenAddress> = Some(ListenAddress::Tcp { host: String::from("127.0.0.1"), port: 9126, tls: None }), start;
        /// The password that HTTP asks for; empty where it asks for none.
        pub http_password: Zeroizing<String> = Zeroizing::default(), start;
        /// Connections to it at the same time, from 1.
        pub http_max_connections: u32 = 64, start;
        /// Whether a private server is started where there is no backend.
        pub private_server: bool = true, start;
        /// Where the private server keeps its data.
        pub data_dir: PathBuf = PathBuf::from("./onramp-data"), start;
        /// The folder that holds the private server's programs; empty for those of the system.
        pub server_directory: PathBuf = PathBuf::new(), start;
        /// How often the names of servers are looked up anew; zero for at the start alone.
        // As long as the names of managed servers may be remembered (RDS, Aurora).
        pub lookup_interval: Duration = Duration::from_secs(5), live;
        /// The program that changes the roles of servers in a planned switchover; empty where there is none.
        pub switchover_command: PathBuf = PathBuf::new(), start;
        /// How long a switchover waits for transactions to end, and for the new primary to have what the former one has.
        // With that of the command less than failover_hold: nobody's statement is given up in between.
        pub switchover_wait: Duration = Duration::from_secs(5), live;
        /// How long its command may take, with the servers' word of how far they are, and the servers to have changed after that.
        pub switchover_timeout: Duration = Duration::from_secs(10), live;
        /// Connections that the kernel holds for us until they are accepted.
        // The kernel caps it to net.core.somaxconn, 4096 since Linux 5.4.
        pub back_log: u32 = 4096, start;
        /// How many event loops there are, from 1.
        pub workers: u32 = 1, start;
        /// What they run on.
        pub driver: DriverChoice = DriverChoice::Auto, start;
        /// Whether the kernel may write the process's memory to a file.
        pub core_dumps: bool = false, start;
        /// The least important line that is still logged.
        pub log_level: LogLevel = LogLevel::Info, live;
        /// How long clients are served as before, once the end has been asked for and `/readyz` says so.
        pub drain_wait: Duration = Duration::ZERO, start;
        /// How lines of the log look.
        pub log_format: LogFormat = LogFormat::Text, live;
        /// The file of the slow log; `stderr`, or empty, for the standard error stream.
        pub slow_log: PathBuf = PathBuf::from("stderr"), start;
        /// New connections that a worker takes from each listener in one turn, from 1.
        // 20,000 logins at once cost running statements 2 ms then, and 5 ms with 64, in docs/SCHEDULING.md's scenario.
        pub logins_per_turn: u32 = 16, start;
        /// Bytes that one receive may bring.
        pub receive_buffer: usize = 64 << 10, start;
        /// Unsent bytes of one connection from which on its sender is paused.
        pub client_output_buffer: usize = 256 << 10, start;
        /// The engine's part. `server`, the service account and `entropy` are filled in once names are resolved and the
        /// private server stands.
        pub engine: Settings = Settings::default(), parts;
        /// The file that was read; empty for none.
        pub(crate) file: PathBuf = PathBuf::new(), start;
        /// What somebody chose, by the option's name.
        pub(crate) chosen: BTreeMap<&'static str, Chosen> = BTreeMap::new(), found;
    }
}

settings! {
    /// Encryption: who is to use it, and the files that it needs. An empty path is none.
    #[derive(Clone, Debug)]
    pub struct TlsOptions / TlsChange {
        /// Whether clients may or must use it, where their address does not say otherwise.
        pub clients: ClientTls = ClientTls::Allowed, start;
        /// The certificate that clients see, and its chain.
        pub certificate: PathBuf = PathBuf::new(), start;
        /// Its key.
        pub key: PathBuf = PathBuf::new(), start;
        /// The authorities of clients' certificates.
        pub client_ca: PathBuf = PathBuf::new(), start;
        /// How much is asked of the server.
        pub backend: BackendTls = BackendTls::Preferred, start;
        /// The authorities of its certificate.
        pub backend_ca: PathBuf = PathBuf::new(), start;
        /// Its RSA public key, or those of several servers.
        pub backend_public_key: PathBuf = PathBuf::new(), start;
        /// The certificate that it is shown, and its chain.
        pub backend_certificate: PathBuf = PathBuf::new(), start;
        /// Its key.
        pub backend_key: PathBuf = PathBuf::new(), start;
    }
}

/// TLS to the server, by the words of MySQL's `ssl-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendTls {
    /// None.
    Disabled,
    /// Where it is offered and anybody could read along.
    #[default]
    Preferred,
    /// Always.
    Required,
    /// And the certificate comes from one of our authorities.
    VerifyCa,
    /// And it is for the host that we connect to.
    VerifyFull,
}

impl BackendTls {
    /// As the engine needs to know it.
    pub(crate) fn of_engine(self) -> ServerTls {
        match self {
            Self::Disabled => ServerTls::Disabled,
            Self::Preferred => ServerTls::Preferred,
            Self::Required => ServerTls::Required,
            Self::VerifyCa | Self::VerifyFull => ServerTls::Verified,
        }
    }
}

/// How much is logged: everything at least as important as this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Errors that stop the program or a part of it.
    Error,
    /// Lines that somebody should look at: limits, refused logins, a lost server.
    Warn,
    /// Start, stop, and clients that were closed.
    Info,
    /// More about the same.
    Debug,
    /// Everything.
    Trace,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level and message, for people.
    Text,
    /// An object of JSON, for programs.
    Json,
}

impl Configuration {
    /// Whether somebody has said what this option is to be, whatever it is.
    pub fn is_chosen(&self, option: &str) -> bool {
        self.chosen.contains_key(option)
    }

    /// Whether clients of a listening address may or must use TLS.
    pub fn tls_of(&self, address: &ListenAddress) -> ClientTls {
        match address {
            ListenAddress::Tcp { tls: Some(tls), .. } => *tls,
            _ => self.tls.clients,
        }
    }

    /// The backends that one worker may hold and the clients, in open files, with those that the program itself needs.
    pub fn open_files_needed(&self) -> u64 {
        let backends = if self.engine.max_backends == 0 { MOST_BACKENDS } else { self.engine.max_backends };
        let own = u64::from(OWN_FILES) + u64::from(self.http_files());
        u64::from(self.engine.max_connections) + u64::from(backends) + own
    }

    /// Connections by HTTP, each a file.
    pub fn http_files(&self) -> u32 {
        if self.http_listen.is_some() { self.http_max_connections } else { 0 }
    }

    /// How long a clean stop may take once `drain_wait` is over, the private server aside.
    pub fn shutdown_timeout(&self) -> Duration {
        self.engine.shutdown_timeout
    }
}
