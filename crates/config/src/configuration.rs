//! The checked result.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drivers::DriverChoice;
use engine::{ClientTls, ServerTls, Settings};
use proxy_protocol::Networks;
use zeroize::Zeroizing;

use crate::live::Chosen;
use crate::{BackendUrl, ListenAddress};

/// Open files of the program itself: standard streams, an event queue or rings, eventfd, locks, log, listeners and one connection of the service account,
/// about 20.
pub const OWN_FILES: u32 = 64;

/// So many backends at most: more threads than a server runs well with, idle ones included.
pub const MOST_BACKENDS: u32 = 16_384;

/// Everything that `onramp serve` was told, with every value in its range.
#[derive(Clone)]
pub struct Configuration {
    /// The server's addresses, in the order in which they are tried; empty for a private server.
    pub backends: Vec<BackendUrl>,
    /// Where clients connect; never empty.
    pub listen: Vec<ListenAddress>,
    /// Who is trusted to say for whom it connects.
    pub proxy_protocol_networks: Networks,
    /// Encryption.
    pub tls: TlsOptions,
    /// Where the admin port is; empty for none.
    pub admin_listen: Vec<ListenAddress>,
    /// Who may log in there.
    pub admin_user: String,
    /// With what password; empty where the private server's is to be taken.
    pub admin_password: Zeroizing<String>,
    /// Connections to it at the same time, from 1.
    pub admin_max_connections: u32,
    /// Where the private server keeps its data.
    pub data_dir: PathBuf,
    /// The folder that holds the private server's programs; empty for those of the system.
    pub server_directory: PathBuf,
    /// Connections that the kernel holds for us until they are accepted.
    pub back_log: u32,
    /// How many event loops there are, from 1.
    pub workers: u32,
    /// What they run on.
    pub driver: DriverChoice,
    /// Whether the kernel may write the process's memory to a file.
    pub core_dumps: bool,
    /// The least important line that is still logged.
    pub log_level: LogLevel,
    /// How lines of the log look.
    pub log_format: LogFormat,
    /// The file of the slow log; `stderr`, or empty, for the standard error stream.
    pub slow_log: PathBuf,
    /// New connections that a worker takes from each listener in one turn, from 1.
    pub logins_per_turn: u32,
    /// Bytes that one receive may bring.
    pub receive_buffer: usize,
    /// Unsent bytes of one connection from which on its sender is paused.
    pub client_output_buffer: usize,
    /// The engine's part. `server`, the service account and `entropy` are filled in once names are resolved and the
    /// private server stands.
    pub engine: Settings,
    /// The file that was read; empty for none.
    pub(crate) file: PathBuf,
    /// What somebody chose, by the option's name.
    pub(crate) chosen: BTreeMap<&'static str, Chosen>,
}

/// Encryption: who is to use it, and the files that it needs. An empty path is none.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Whether clients may or must use it, where their address does not say otherwise.
    pub clients: ClientTls,
    /// The certificate that clients see, and its chain.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities of clients' certificates.
    pub client_ca: PathBuf,
    /// How much is asked of the server.
    pub backend: BackendTls,
    /// The authorities of its certificate.
    pub backend_ca: PathBuf,
    /// Its RSA public key, or those of several servers.
    pub backend_public_key: PathBuf,
    /// The certificate that it is shown, and its chain.
    pub backend_certificate: PathBuf,
    /// Its key.
    pub backend_key: PathBuf,
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

/// How much is logged: everything at least as important as this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// What stops the program or a part of it.
    Error,
    /// What somebody should look at: limits, refused logins, a lost server.
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
    /// Nothing chosen yet: [`crate::load()`] starts from here and applies the table's defaults.
    pub(crate) fn blank() -> Self {
        Self {
            backends: Vec::new(),
            listen: Vec::new(),
            proxy_protocol_networks: Networks::default(),
            tls: TlsOptions::default(),
            admin_listen: Vec::new(),
            admin_user: String::new(),
            admin_password: Zeroizing::default(),
            admin_max_connections: 1,
            data_dir: PathBuf::new(),
            server_directory: PathBuf::new(),
            back_log: 0,
            workers: 1,
            driver: DriverChoice::Auto,
            core_dumps: false,
            log_level: LogLevel::Info,
            log_format: LogFormat::Text,
            slow_log: PathBuf::new(),
            receive_buffer: 0,
            logins_per_turn: 1,
            client_output_buffer: 0,
            engine: Settings::default(),
            file: PathBuf::new(),
            chosen: BTreeMap::new(),
        }
    }

    /// What holds for the server, for its files and for the engine.
    pub(crate) fn choose_backend_tls(&mut self, backend: BackendTls) {
        self.tls.backend = backend;
        self.engine.server_tls = match backend {
            BackendTls::Disabled => ServerTls::Disabled,
            BackendTls::Preferred => ServerTls::Preferred,
            BackendTls::Required => ServerTls::Required,
            BackendTls::VerifyCa | BackendTls::VerifyFull => ServerTls::Verified,
        };
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
        u64::from(self.engine.max_connections) + u64::from(backends) + u64::from(OWN_FILES)
    }

    /// How long a clean stop may take from the first signal on, the private server aside.
    pub fn shutdown_timeout(&self) -> Duration {
        self.engine.shutdown_timeout
    }
}
