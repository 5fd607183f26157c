//! Options that are limits: what each bounds, for the admin port's table of that name.

use crate::Configuration;
use crate::options::{OPTIONS, OptionSpec};

/// What an option bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Who counts that.
    pub counted: Counted,
    /// Of what it is a bound.
    pub bounds: &'static str,
    /// In what it counts.
    pub unit: Unit,
    /// Of what it holds.
    pub scope: Scope,
    /// Whether it has its row before anybody has come near.
    pub always: bool,
}

/// Who counts what a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The engine, at least how often the limit is reached.
    ByEngine(engine::Limit),
    /// The admin port: these are its clients.
    ByAdminPort,
    /// Nobody.
    Not,
}

/// A limit that is always in the table.
pub(crate) const fn always(
    counted: Counted,
    bounds: &'static str,
    unit: Unit,
    scope: Scope,
) -> Option<Limit> {
    Some(Limit { counted, bounds, unit, scope, always: true })
}

/// A limit that is there once it was reached: what it bounds is no number that is kept.
pub(crate) const fn when_reached(
    limit: engine::Limit,
    bounds: &'static str,
    unit: Unit,
    scope: Scope,
) -> Option<Limit> {
    Some(Limit { counted: Counted::ByEngine(limit), bounds, unit, scope, always: false })
}

/// In what a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Addresses of clients.
    Addresses,
    /// Connections to the server.
    Backends,
    /// Bytes.
    Bytes,
    /// Clients.
    Clients,
    /// Connections.
    Connections,
    /// Digests of statements.
    Digests,
    /// Milliseconds.
    Milliseconds,
    /// Percent.
    Percent,
    /// Permits.
    Permits,
    /// Seconds.
    Seconds,
    /// Statements.
    Statements,
}

impl Unit {
    /// As the table has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Addresses => "addresses",
            Self::Backends => "backends",
            Self::Bytes => "bytes",
            Self::Clients => "clients",
            Self::Connections => "connections",
            Self::Digests => "digests",
            Self::Milliseconds => "ms",
            Self::Percent => "percent",
            Self::Permits => "permits",
            Self::Seconds => "s",
            Self::Statements => "statements",
        }
    }
}

/// Of what a limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Of all workers together.
    Process,
    /// Of each worker.
    Worker,
    /// Of each backend.
    Backend,
    /// Of each client.
    Client,
    /// Of each user.
    User,
    /// Of each statement.
    Statement,
}

impl Scope {
    /// As the table has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Worker => "worker",
            Self::Backend => "backend",
            Self::Client => "client",
            Self::User => "user",
            Self::Statement => "statement",
        }
    }
}

/// A limit with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// The option.
    pub option: &'static str,
    /// What it bounds.
    pub limit: Limit,
    /// The bound, where it is a number of things or of bytes.
    pub bound: Option<u64>,
}

impl Configuration {
    /// All limits, in the order of the reference page.
    pub fn limits(&self) -> Vec<LimitRow> {
        let mut scratch = self.clone();
        let row = |option: &'static OptionSpec| {
            let bound = option.kind.number(&mut scratch);
            option.limit.map(|limit| LimitRow { option: option.name, limit, bound })
        };
        OPTIONS.iter().filter_map(row).collect()
    }
}
