//! The tables of an Onramp that a report is made from.

use std::collections::BTreeMap;

use crate::questions;
use crate::table::{NoTable, Row, Source, Table};

/// How `thread_handling` says that backends are shared.
pub(crate) const POOL: &str = "pool-of-threads";

/// Whose backends are, while it is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backends {
    /// Each client has one of its own: what is told is what a pool would do.
    Own,
    /// Clients share them: what is told is what the pool does.
    Pool,
}

/// The tables that a report is made from.
pub(crate) struct Tables {
    pub(crate) status: BTreeMap<String, u64>,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) pins: Table,
    pub(crate) causes: Table,
    pub(crate) limits: Table,
    pub(crate) totals: Table,
    pub(crate) statements: Table,
}

impl Tables {
    pub(crate) fn ask(source: &mut dyn Source) -> Result<Self, NoTable> {
        let status = source.ask(questions::STATUS)?;
        let options = source.ask(questions::OPTIONS)?;
        let pair = |row: Row<'_>| Some((row.text("name")?.to_owned(), row.text("value")?.to_owned()));
        let number =
            |row: Row<'_>| Some((row.text("variable_name")?.to_owned(), row.number("variable_value")));
        Ok(Self {
            status: status.rows().filter_map(number).collect(),
            options: options.rows().filter_map(pair).collect(),
            pins: source.ask(questions::PINS)?,
            causes: source.ask(&questions::causes())?,
            limits: source.ask(questions::LIMITS)?,
            totals: source.ask(questions::TOTALS)?,
            statements: source.ask(&questions::statements())?,
        })
    }

    pub(crate) fn counted(&self, name: &str) -> u64 {
        self.status.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn option(&self, name: &str) -> u64 {
        self.options.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn ends_idle_transactions(&self) -> bool {
        self.options.get("idle_transaction_timeout").is_some_and(|time| time != "0s")
    }

    pub(crate) fn backends(&self) -> Backends {
        match self.options.get("thread_handling").map(String::as_str) {
            Some(POOL) => Backends::Pool,
            _ => Backends::Own,
        }
    }
}

impl Backends {
    /// Which of two words or sentences holds: what would be, or what is.
    pub(crate) fn word(self, would: &'static str, is: &'static str) -> &'static str {
        match self {
            Self::Own => would,
            Self::Pool => is,
        }
    }
}
