//! One session of the virtual server: its state, and the trackers that report changes of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::database::{Database, Undo};
use super::kind::Kind as ServerKind;
use super::reply::{Ending, ServerError, Value};
use super::variables::{self, Kind, Values, Variable};
use crate::protocol::{put_string, status};
use crate::token::{ClientKey, Token};

/// What a prepared statement keeps.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its text.
    pub text: String,
    /// How many parameters it has.
    pub parameters: usize,
    /// Parameter data sent ahead with COM_STMT_SEND_LONG_DATA.
    pub long_data: BTreeMap<u16, Vec<u8>>,
    /// The default schema when it was prepared.
    pub schema: Option<String>,
    /// The rest of what the session was then and decides what the text means.
    pub meaning: String,
    /// The types of its parameters, as the latest execution that named any has them.
    pub types: Option<Vec<u8>>,
    /// The rows of its open cursor that have not been fetched.
    pub cursor: Option<Vec<Vec<Value>>>,
}

/// An open transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Unique on this server.
    pub id: u64,
    /// Begun by a statement, not by autocommit=0.
    pub explicit: bool,
    /// The isolation level that it runs under.
    pub isolation: String,
    /// How to take its changes back, newest last.
    pub undo: Vec<Undo>,
    /// The statements that made them.
    pub tokens: Vec<Token>,
    /// What the transaction tracker says of it: read, written, gave a result set.
    seen: [bool; 3],
}

/// A table that only this session sees.
#[derive(Clone, Debug, Default)]
pub struct TemporaryTable {
    /// Its rows.
    pub rows: Vec<Value>,
}

/// What the latest statement has set. A question right behind the statement that it is about is what programs ask; what
/// other statements leave of it is a matter of the server's version.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fresh {
    /// ROW_COUNT().
    pub row_count: bool,
    /// FOUND_ROWS().
    pub found_rows: bool,
    /// SHOW WARNINGS.
    pub warnings: bool,
}

/// The state of one session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Whose server it is on.
    pub kind: ServerKind,
    /// The id that the greeting gave.
    pub thread_id: u32,
    /// The account.
    pub user: String,
    /// Negotiated capabilities.
    pub capabilities: u32,
    /// The default schema.
    pub schema: Option<String>,
    /// User variables.
    pub user_variables: BTreeMap<String, Value>,
    /// Temporary tables by name.
    pub temporary_tables: BTreeMap<String, TemporaryTable>,
    /// LOCK TABLES is in force.
    pub locked_tables: bool,
    /// Binary prepared statements.
    pub prepared: BTreeMap<u32, Prepared>,
    /// Counts the prepared statements, those of earlier users and before a reset included.
    pub prepared_count: u32,
    /// Of the prepared statement that is being executed: what `@@prepared_schema_and_state` shows.
    pub prepared_schema_and_state: Option<String>,
    /// Text prepared statements.
    pub text_prepared: BTreeMap<String, String>,
    /// The open transaction.
    pub transaction: Option<Transaction>,
    /// The level that SET TRANSACTION chose for the next transaction.
    pub next_isolation: Option<String>,
    /// LAST_INSERT_ID().
    pub last_insert_id: u64,
    /// ROW_COUNT().
    pub row_count: i64,
    /// FOUND_ROWS().
    pub found_rows: u64,
    /// The role that stands, by name.
    pub role: Option<&'static str>,
    /// What SHOW WARNINGS shows: level, code, text. Outlives statements that use no table and raise nothing.
    warnings: Vec<(&'static str, u16, String)>,
    /// How many of them the current statement raised: what its OK or EOF counts.
    raised: u16,
    /// Which questions about earlier statements are about the latest one.
    pub fresh: Fresh,
    /// Whose state lies here that no other client may see.
    pub holder: Option<ClientKey>,
    variables: Values,
    login_collation: u8,
    changed: Vec<&'static str>,
    schema_changed: bool,
    state_changed: bool,
    reported: Option<(String, String)>,
}

impl Session {
    /// A session right after its login.
    pub fn new(thread_id: u32, user: &str, capabilities: u32, schema: Option<String>, collation: u8) -> Self {
        let mut session = Self {
            kind: ServerKind::MariaDb,
            thread_id,
            user: user.to_owned(),
            capabilities,
            schema,
            user_variables: BTreeMap::new(),
            temporary_tables: BTreeMap::new(),
            locked_tables: false,
            prepared: BTreeMap::new(),
            prepared_count: 0,
            prepared_schema_and_state: None,
            text_prepared: BTreeMap::new(),
            transaction: None,
            next_isolation: None,
            last_insert_id: 0,
            row_count: 0,
            found_rows: 0,
            role: default_role(user),
            warnings: Vec::new(),
            raised: 0,
            fresh: Fresh::default(),
            holder: None,
            variables: Values::default(),
            login_collation: collation,
            changed: Vec::new(),
            schema_changed: false,
            state_changed: false,
            reported: None,
        };
        session.apply_collation(collation);
        session.schema_changed = session.schema.is_some();
        session
    }

    /// The same on a server of this kind.
    #[must_use]
    pub fn on(self, kind: ServerKind) -> Self {
        Self { kind, ..self }
    }

    /// COM_RESET_CONNECTION: everything but account and schema. The character set is the login's on MariaDB, the server's on MySQL.
    pub fn reset(&mut self, database: &mut Database) {
        self.end(database);
        let (schema, prepared_count) = (self.schema.take(), self.prepared_count);
        let login_collation = self.login_collation;
        let collation = match self.kind {
            ServerKind::MariaDb => login_collation,
            ServerKind::MySql => variables::COLLATION_OF_SERVER,
        };
        let fresh = Self::new(self.thread_id, &self.user, self.capabilities, schema, collation).on(self.kind);
        *self = Self { prepared_count, login_collation, ..fresh };
        self.schema_changed = false;
    }

    /// COM_CHANGE_USER once the account is proven, with nothing of the former one.
    pub fn change_user(
        &mut self,
        database: &mut Database,
        user: &str,
        schema: Option<String>,
        collation: u8,
    ) {
        self.end(database);
        let prepared_count = self.prepared_count;
        let fresh = Self::new(self.thread_id, user, self.capabilities, schema, collation).on(self.kind);
        *self = Self { prepared_count, ..fresh };
    }

    /// Gives back what the session holds on the server: its transaction and its locks.
    pub fn end(&mut self, database: &mut Database) {
        self.rollback(database);
        database.prepared_statements -= std::mem::take(&mut self.prepared).len();
        database.locks.end(self.thread_id);
    }

    /// A variable's value.
    pub fn variable(&self, name: &str) -> &str {
        self.variables.get(name).unwrap_or("")
    }

    /// The variable of this name.
    pub fn find(&self, name: &str) -> Result<&'static Variable, ServerError> {
        self.kind.known_as(name).and_then(variables::find).ok_or_else(|| unknown_variable(name))
    }

    /// A variable as SELECT shows it.
    pub fn shown_variable(&self, name: &str) -> Result<Value, ServerError> {
        if (self.kind, name) == (ServerKind::MySql, "proxy_user") {
            return Ok(None);
        }
        let variable = self.find(name)?;
        let value = self.variables.get(variable.name).map(str::to_owned);
        Ok(match variable.kind {
            Kind::Switch => value.map(|value| if value == "ON" { "1" } else { "0" }.to_owned()),
            _ => value,
        })
    }

    /// Sets a variable and tells the trackers.
    pub fn set_variable(&mut self, database: &mut Database, name: &'static str, value: Value) {
        let text = value.clone().unwrap_or_default();
        self.variables.set(name, value);
        match name {
            "character_set_connection" => {
                if let Some((charset, collation)) = variables::default_collation(&text) {
                    self.variables.set("character_set_connection", Some(charset.to_owned()));
                    self.variables.set("collation_connection", Some(collation.to_owned()));
                }
            }
            "collation_connection" => {
                if let Some((charset, _)) = variables::collation_by_name(&text) {
                    self.variables.set("character_set_connection", Some(charset.to_owned()));
                }
            }
            "autocommit" if text == "ON" => self.commit(database),
            "session_track_transaction_info" => self.reported = None,
            _ => {}
        }
        self.mark_variable(name);
    }

    /// SET NAMES: three variables are reported, the collation is not.
    pub fn set_names(&mut self, charset: &'static str, collation: &'static str) {
        for name in ["character_set_connection", "character_set_client", "character_set_results"] {
            self.variables.set(name, Some(charset.to_owned()));
            self.mark_variable(name);
        }
        self.variables.set("collation_connection", Some(collation.to_owned()));
    }

    /// USE and COM_INIT_DB.
    pub fn set_schema(&mut self, schema: &str) {
        self.schema = Some(schema.to_owned());
        self.schema_changed = true;
        self.state_changed = true;
    }

    /// Something changed that only STATE_CHANGE reports.
    pub fn mark_state(&mut self) {
        self.state_changed = true;
    }

    /// A statement begins.
    pub fn begin_statement(&mut self) {
        self.raised = 0;
        self.fresh = Fresh::default();
    }

    /// What SHOW WARNINGS shows.
    pub fn warnings(&self) -> &[(&'static str, u16, String)] {
        &self.warnings
    }

    /// Forgets the warnings of earlier statements: the current one uses a table.
    pub fn clear_warnings(&mut self) {
        self.warnings.clear();
        self.fresh.warnings = true;
    }

    /// The current statement raises a warning, or an error, which makes the earlier ones go.
    pub fn raise(&mut self, level: &'static str, code: u16, text: String) {
        if self.raised == 0 {
            self.warnings.clear();
        }
        self.raised += 1;
        self.fresh.warnings = true;
        self.warnings.push((level, code, text));
    }

    /// The current statement fails.
    pub fn fail(&mut self, code: u16, text: &str) {
        self.raised = 0;
        self.raise("Error", code, text.to_owned());
        self.raised = 0;
        self.row_count = -1;
        self.fresh = Fresh { warnings: true, ..Fresh::default() };
    }

    /// Whether autocommit is on.
    pub fn autocommit(&self) -> bool {
        self.variable("autocommit") == "ON"
    }

    /// Opens a transaction; an open one is committed first.
    pub fn begin(&mut self, database: &mut Database, explicit: bool) {
        self.commit(database);
        let isolation =
            self.next_isolation.take().unwrap_or_else(|| self.variable("tx_isolation").to_owned());
        let id = database.next_transaction();
        let (undo, tokens) = (Vec::new(), Vec::new());
        self.transaction = Some(Transaction { id, explicit, isolation, undo, tokens, seen: [false; 3] });
    }

    /// Ends the transaction, keeping its changes.
    pub fn commit(&mut self, database: &mut Database) {
        if let Some(transaction) = self.transaction.take() {
            let rows = transaction.undo.into_iter().map(|undo| (undo.table, undo.id)).collect();
            database.commit(rows, transaction.tokens);
        }
        database.hot_row.take_if(|holder| *holder == self.thread_id);
    }

    /// Ends the transaction, taking its changes back.
    pub fn rollback(&mut self, database: &mut Database) {
        for undo in self.transaction.take().into_iter().flat_map(|transaction| transaction.undo).rev() {
            database.undo(undo);
        }
        database.hot_row.take_if(|holder| *holder == self.thread_id);
    }

    /// A statement is about to use a table: opens the transaction that autocommit=0 asks for. Under autocommit, a
    /// statement is a transaction of its own and uses the next transaction's level up.
    pub fn touch(&mut self, database: &mut Database, writes: bool) {
        self.clear_warnings();
        if self.transaction.is_none() {
            if self.autocommit() {
                self.next_isolation = None;
                return;
            }
            self.begin(database, false);
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.seen[usize::from(writes)] = true;
        }
    }

    /// A result set is being sent.
    pub fn gave_rows(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.seen[2] = true;
        }
    }

    /// What decides what a statement means that is prepared now, as text.
    pub fn meaning(&self) -> String {
        const OF_EXECUTION: [&str; 12] = [
            "autocommit",
            "foreign_key_checks",
            "innodb_lock_wait_timeout",
            "interactive_timeout",
            "last_insert_id",
            "lock_wait_timeout",
            "session_track_schema",
            "session_track_state_change",
            "session_track_system_variables",
            "session_track_transaction_info",
            "tx_isolation",
            "wait_timeout",
        ];
        let mut out = String::new();
        for (name, value) in self.variables.changed().filter(|(name, _)| !OF_EXECUTION.contains(name)) {
            let _ = write!(out, " {name}={value:?}");
        }
        out
    }

    /// What decides how a statement runs, as text: equal for a client's own connection and the backend it was given.
    /// Leaves out what belongs to a connection to the server and not to its client, and the schema for a statement that
    /// chooses another one. `reads_variables`: it may look at user variables; NULL is what those are that nobody has set.
    pub fn fingerprint(&self, chooses_schema: bool, reads_variables: bool) -> String {
        const BACKENDS_OWN: [&str; 6] = [
            "interactive_timeout",
            "session_track_schema",
            "session_track_state_change",
            "session_track_system_variables",
            "session_track_transaction_info",
            "wait_timeout",
        ];
        let mut out = format!("user={} role={:?}", self.user, self.role);
        if !chooses_schema {
            let _ = write!(out, " schema={:?}", self.schema);
        }
        for (name, value) in self.variables.changed().filter(|(name, _)| !BACKENDS_OWN.contains(name)) {
            let _ = write!(out, " {name}={value:?}");
        }
        let seen = |(_, value): &(&String, &Value)| reads_variables && value.is_some();
        for (name, value) in self.user_variables.iter().filter(seen) {
            let _ = write!(out, " @{name}={value:?}");
        }
        for (name, table) in &self.temporary_tables {
            let _ = write!(out, " temporary {name}({} rows)", table.rows.len());
        }
        if self.locked_tables {
            out.push_str(" tables locked");
        }
        match (&self.transaction, &self.next_isolation) {
            (Some(transaction), _) => {
                let _ = write!(out, " in transaction at {}", transaction.isolation);
            }
            (None, Some(next)) => {
                let _ = write!(out, " next transaction at {next}");
            }
            (None, None) => {}
        }
        out
    }

    /// Whether anything lies here that cannot be moved to another session.
    pub fn holds_state(&self, database: &Database) -> bool {
        !self.temporary_tables.is_empty()
            || self.prepared.values().any(|prepared| prepared.cursor.is_some())
            || !self.text_prepared.is_empty()
            || self.locked_tables
            || self.transaction.is_some()
            || self.next_isolation.is_some()
            || database.locks.has_any(self.thread_id)
    }

    /// What the next OK or EOF says. The changes are reported once, and only in packets that can carry them.
    pub fn ending(&mut self, carries_changes: bool) -> Ending {
        let mut flags = 0;
        if self.autocommit() {
            flags |= status::AUTOCOMMIT;
        }
        if self.transaction.is_some() {
            flags |= status::IN_TRANS;
        }
        if self.variable("sql_mode").contains("NO_BACKSLASH_ESCAPES") {
            flags |= status::NO_BACKSLASH_ESCAPES;
        }
        let changes = if carries_changes { self.take_changes() } else { Vec::new() };
        Ending { status: flags, warnings: self.raised, changes }
    }

    fn apply_collation(&mut self, collation: u8) {
        let (charset, collation) = variables::collation_by_id(collation);
        for name in ["character_set_client", "character_set_connection", "character_set_results"] {
            self.variables.set(name, Some(charset.to_owned()));
        }
        self.variables.set("collation_connection", Some(collation.to_owned()));
    }

    fn mark_variable(&mut self, name: &'static str) {
        self.state_changed = true;
        if !self.changed.contains(&name) {
            self.changed.push(name);
        }
    }

    /// The items of the trackers in MariaDB's order: variables, schema, state, transaction state, characteristics.
    fn take_changes(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let tracked = self.variable("session_track_system_variables").to_owned();
        for name in std::mem::take(&mut self.changed) {
            let shown = self.kind.name_of(name);
            if tracked == "*" || tracked.split(',').any(|wanted| wanted == shown) {
                let mut item = Vec::new();
                put_string(&mut item, shown.as_bytes());
                put_string(&mut item, self.variable(name).as_bytes());
                put_item(&mut out, 0, &item);
            }
        }
        if std::mem::take(&mut self.schema_changed) && self.variable("session_track_schema") == "ON" {
            let mut item = Vec::new();
            put_string(&mut item, self.schema.as_deref().unwrap_or("").as_bytes());
            put_item(&mut out, 1, &item);
        }
        if std::mem::take(&mut self.state_changed) && self.variable("session_track_state_change") == "ON" {
            put_item(&mut out, 2, b"1");
        }
        self.put_transaction_items(&mut out);
        out
    }

    fn put_transaction_items(&mut self, out: &mut Vec<u8>) {
        let tracking = self.variable("session_track_transaction_info").to_ascii_uppercase();
        if tracking == "OFF" {
            return;
        }
        let now = (self.transaction_state(), self.transaction_characteristics());
        let (old_state, old_characteristics) = self.reported.clone().unzip();
        if old_state.as_ref() != Some(&now.0) {
            let mut item = Vec::new();
            put_string(&mut item, now.0.as_bytes());
            put_item(out, 5, &item);
        }
        if tracking == "CHARACTERISTICS" && old_characteristics.as_ref() != Some(&now.1) {
            let mut item = Vec::new();
            put_string(&mut item, now.1.as_bytes());
            put_item(out, 4, &item);
        }
        self.reported = Some(now);
    }

    fn transaction_state(&self) -> String {
        let mut state = *b"________";
        if let Some(transaction) = &self.transaction {
            state[0] = if transaction.explicit { b'T' } else { b'I' };
            for (seen, place, letter) in [(0, 2, b'R'), (1, 4, b'W'), (2, 6, b'S')] {
                if transaction.seen[seen] {
                    state[place] = letter;
                }
            }
        }
        if self.locked_tables {
            state[7] = b'L';
        }
        String::from_utf8_lossy(&state).into_owned()
    }

    /// The statements that would start an equal transaction elsewhere.
    fn transaction_characteristics(&self) -> String {
        let level = |level: &str| format!("SET TRANSACTION ISOLATION LEVEL {};", level.replace('-', " "));
        match (&self.transaction, &self.next_isolation) {
            (Some(transaction), _) if transaction.explicit => {
                let started = "START TRANSACTION;";
                if transaction.isolation == self.variable("tx_isolation") {
                    started.to_owned()
                } else {
                    format!("{} {started}", level(&transaction.isolation))
                }
            }
            (_, Some(next)) => level(next),
            _ => String::new(),
        }
    }
}

/// The role that an account has from its login on.
fn default_role(user: &str) -> Option<&'static str> {
    (user == "carol").then_some("auditor")
}

/// ER_UNKNOWN_SYSTEM_VARIABLE.
pub fn unknown_variable(name: &str) -> ServerError {
    ServerError::new(1193, "HY000", format!("Unknown system variable '{name}'"))
}

fn put_item(out: &mut Vec<u8>, kind: u8, data: &[u8]) {
    out.push(kind);
    put_string(out, data);
}
