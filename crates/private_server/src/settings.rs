//! What is asked of a private server.

use std::path::PathBuf;

/// What is asked of a private server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where its data, its log and the passwords of its accounts lie. Created where it is missing.
    pub folder: PathBuf,
    /// The folder with the server's programs; empty for those of the system.
    pub programs: PathBuf,
    /// Connections that it has to allow, those of people and of the service account aside.
    pub max_connections: u32,
    /// The largest statement, in bytes.
    pub max_allowed_packet: usize,
    /// Bytes of memory for InnoDB's pages; `None` for a quarter of the machine's memory, within bounds.
    pub buffer_pool: Option<u64>,
    /// The port on 127.0.0.1 where it listens beside its socket; `None` for the socket alone.
    pub port: Option<u16>,
    /// How it shares its threads among connections.
    pub thread_handling: ThreadHandling,
    /// Its place among servers that replicate; `None` for one that stands alone, and writes no binary log.
    pub replication: Option<Replication>,
    /// More arguments, after all others: of a setting that is given twice the server takes the last.
    pub arguments: Vec<String>,
}

/// A server that others can replicate from, by GTIDs. Of the one that takes writes, a commit is acknowledged when a replica has received
/// it, however long that takes (semi-synchronous, AFTER_SYNC): so what was acknowledged outlives it. From whom a replica replicates is
/// said by statements once it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// By which the servers tell each other apart, from 1: `server_id`.
    pub server_id: u32,
    /// Whether it begins as one that takes no writes but those that it replicates, and an administrator's.
    pub read_only: bool,
}

/// `thread_handling` of MariaDB and MySQL.
/// <https://mariadb.com/docs/server/ha-and-performance/optimization-and-tuning/buffers-caches-and-threads/thread-pool/thread-pool-in-mariadb>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadHandling {
    /// A thread for each connection: the servers' own default.
    #[default]
    OneThreadPerConnection,
    /// The server's own thread pool. MariaDB has it; of MySQL only some builds, as a plugin that has to be loaded too.
    PoolOfThreads,
}

impl ThreadHandling {
    /// The word that the server knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneThreadPerConnection => "one-thread-per-connection",
            Self::PoolOfThreads => "pool-of-threads",
        }
    }
}

impl Settings {
    /// A server with its data in `folder`, reached by its socket alone, with the programs of the system and the servers'
    /// own limits: 151 connections and statements of 64 MiB, the defaults of `max_connections` and (in MySQL)
    /// `max_allowed_packet`.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            programs: PathBuf::new(),
            max_connections: 151,
            max_allowed_packet: 64 << 20,
            buffer_pool: None,
            port: None,
            thread_handling: ThreadHandling::default(),
            replication: None,
            arguments: Vec::new(),
        }
    }
}
