//! What is about to run.

use std::fmt;

use config::MOST_BACKENDS;
use drivers::DriverChoice;

use crate::Machine;

/// What the machine is judged for. [`Default`] is what `onramp serve` does without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Clients at the same time, from 1.
    pub connections: u32,
    /// Which side of them is on this machine.
    pub role: Role,
    /// How sockets are driven. Whoever has opened a driver already names what it got.
    pub driver: DriverChoice,
    /// Event loops of one process, from 1.
    pub workers: u32,
    /// Connections to the server, as the option of this name: 0 for as many as it allows.
    pub max_backends: u32,
    /// Connections that wait to be accepted, per address, as the option of this name.
    pub back_log: u32,
    /// Pairs of a local and a remote address over which a load generator spreads its connections, from 1; `None` for one
    /// pair, or as many as it takes where both ends are on this machine (all of 127.0.0.0/8 are).
    pub address_pairs: Option<u32>,
}

/// A server's `max_connections` where it has not been asked: the default of both.
const USUAL_CONNECTIONS: u64 = 151;

impl Request {
    /// Connections to the server at most.
    pub(crate) fn backends(&self, machine: &Machine) -> u64 {
        match (self.max_backends, &machine.server) {
            (0, Some(Ok(answer))) => answer.max_connections().min(MOST_BACKENDS.into()),
            (0, _) => USUAL_CONNECTIONS,
            (given, _) => given.into(),
        }
    }
}

impl Default for Request {
    fn default() -> Self {
        Self {
            connections: 100_000,
            role: Role::Serve,
            driver: DriverChoice::Auto,
            workers: 1,
            max_backends: 0,
            back_log: 4096,
            address_pairs: None,
        }
    }
}

/// Which side of the clients' connections is on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Onramp: it accepts them.
    Serve,
    /// The load generator: it opens them.
    Bench,
    /// Both, as two processes.
    Both,
}

impl Role {
    /// Whether Onramp runs here.
    pub(crate) fn serves(self) -> bool {
        self != Self::Bench
    }

    /// Whether a load generator runs here.
    pub(crate) fn connects(self) -> bool {
        self != Self::Serve
    }

    /// Ends of one client's connection on this machine.
    pub(crate) fn ends(self) -> u64 {
        if self == Self::Both { 2 } else { 1 }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Serve => "serve",
            Self::Bench => "bench",
            Self::Both => "both",
        })
    }
}
