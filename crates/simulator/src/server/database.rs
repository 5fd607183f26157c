//! What all sessions of the virtual server share: tables, named locks, accounts, and the record of what ran.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::kind::Kind;
use super::locks::Locks;
use super::member::{Committed, Member, ServerNumber};
use crate::token::{ClientKey, Token};

/// An account with `mysql_native_password`.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its name; the host is always `%`.
    pub user: String,
    /// Its password, empty for none.
    pub password: String,
    /// It may end everybody's sessions.
    pub may_kill: bool,
}

/// A table with ids that the server gives.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The id given last.
    pub last_id: u64,
    /// Values by id.
    pub rows: BTreeMap<u64, String>,
}

/// How to take one change back.
#[derive(Clone, Debug)]
pub struct Undo {
    /// The table.
    pub table: String,
    /// The row.
    pub id: u64,
    /// What it was; `None` where there was no row.
    pub before: Option<String>,
}

/// One statement that ran.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Which.
    pub token: Token,
    /// On which server, where there are several.
    pub server: Option<ServerNumber>,
    /// On which session.
    pub thread_id: u32,
    /// Where its command stood: the connection, and the place in the stream of bytes to the server.
    pub sent_at: (u32, u64),
    /// In which transaction.
    pub transaction: Option<u64>,
    /// Under which session state: [`super::session::Session::fingerprint`].
    pub fingerprint: String,
    /// Another client's state that lay in the session.
    pub foreign_state: Option<ClientKey>,
    /// It is a plain read outside of transactions: whether it runs once or twice makes no difference to anybody.
    pub harmless: bool,
    /// It has changed rows that all sessions see.
    pub writes: bool,
    /// It has committed what statements before it had changed.
    pub commits: bool,
}

/// What a KILL asked for.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// The session.
    pub thread_id: u32,
    /// Only its running statement.
    pub query_only: bool,
}

/// The shared part of a server.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// Whose server it is.
    pub kind: Kind,
    /// Tables by name; the schema plays no part in it.
    pub tables: BTreeMap<String, Table>,
    /// Named locks and the sessions that hold them.
    pub locks: Locks,
    /// Who may log in.
    pub accounts: Vec<Account>,
    /// Sessions that stand, for KILL.
    pub threads: Vec<u32>,
    /// And whose they are, once they have logged in.
    pub users: BTreeMap<u32, String>,
    /// What the server's clock shows, in microseconds since 1970; where there is one program in front of it, time stands still.
    pub clock: Option<u64>,
    /// How many sessions there may be, as the server says it.
    pub max_connections: u32,
    /// Statements that ran since somebody looked last.
    pub executions: Vec<Execution>,
    /// The session whose transaction has changed the row that everybody wants.
    pub hot_row: Option<u32>,
    /// Sessions that wait for it, or did and have been killed.
    pub hot_waiters: BTreeSet<u32>,
    /// Kills not yet carried out.
    pub kills: Vec<Kill>,
    /// Prepared statements of all sessions.
    pub prepared_statements: usize,
    /// How many of them there may be; `None` for any number.
    pub most_prepared_statements: Option<usize>,
    /// How many statements have run.
    pub moment: u64,
    /// Those of them that asked for that number.
    pub popular_runs: u64,
    /// What it is to others, where there are several.
    pub member: Option<Member>,
    /// The place of the program whose statement runs.
    pub asker: usize,
    /// What it has committed since somebody looked last.
    pub news: Vec<Rc<Committed>>,
    /// Rows that a statement has changed which is a transaction of its own.
    pub changed: Vec<(String, u64)>,
    /// How often something was committed that changes rows.
    pub commits: u64,
    /// Where there are several servers: rows as they are committed, which is what other sessions see of them.
    pub committed_rows: BTreeMap<(String, u64), String>,
    transactions: u64,
}

/// The schemas that exist.
pub const SCHEMAS: [&str; 3] = ["alpha", "beta", "gamma"];

impl Database {
    /// A server with these accounts and no tables.
    pub fn new(accounts: Vec<Account>) -> Self {
        Self { accounts, ..Self::default() }
    }

    /// A new transaction's id.
    pub fn next_transaction(&mut self) -> u64 {
        self.transactions += 1;
        self.transactions
    }

    /// Takes one change back.
    pub fn undo(&mut self, undo: Undo) {
        let table = self.tables.entry(undo.table).or_default();
        match undo.before {
            Some(value) => table.rows.insert(undo.id, value),
            None => table.rows.remove(&undo.id),
        };
    }
}
