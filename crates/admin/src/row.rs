//! The parts of a table. Each is declared once, in [`crate::tables`]: from there follow the row that a [`crate::Pool`] fills in,
//! `SHOW CREATE TABLE`, `DESCRIBE` and the text that docs/ADMIN.md is held against.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, ToSql};

/// The schemas of the admin port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Schema {
    /// Onramp's own tables.
    Onramp,
    /// Where MariaDB keeps its `THREAD_POOL_*` tables, and every server its `PROCESSLIST`.
    InformationSchema,
    /// Where MySQL keeps its `tp_*` tables.
    PerformanceSchema,
}

impl Schema {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Onramp, Self::InformationSchema, Self::PerformanceSchema];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Onramp => "onramp",
            Self::InformationSchema => "information_schema",
            Self::PerformanceSchema => "performance_schema",
        }
    }

    /// The schema of this name, whatever its case.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|schema| schema.name().eq_ignore_ascii_case(name))
    }
}

/// A table: its name and what stands in it.
#[derive(Debug)]
pub struct Table {
    /// Where it belongs; its bare name is enough to find it.
    pub schema: Schema,
    /// Its name, unique among all schemas.
    pub name: &'static str,
    /// The meaning of a row.
    pub doc: &'static str,
    /// Its columns, in order.
    pub columns: &'static [Column],
    /// The table of which it has the rows of all Onramps, whose columns follow on the first of its own; see [`crate::tables::twins`].
    pub twin_of: Option<&'static Table>,
}

impl Table {
    /// The name of a column as the table's origin writes it: in capitals where it is a server's.
    pub fn column_name(&self, column: &Column) -> String {
        // As Rust writes a name that is a word of its own.
        let name = column.name.trim_start_matches("r#");
        match self.schema {
            Schema::Onramp => String::from(name),
            Schema::InformationSchema | Schema::PerformanceSchema => name.to_ascii_uppercase(),
        }
    }
}

/// A column of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name in Rust; [`Table::column_name`] is the one in SQL.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// True if a value may be missing.
    pub nullable: bool,
    /// The meaning of a value, with its unit.
    pub doc: &'static str,
}

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Integer,
    /// Numbers with a fraction.
    Real,
    /// Text.
    Text,
}

impl Kind {
    /// As MySQL writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "bigint",
            Self::Real => "double",
            Self::Text => "text",
        }
    }
}

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// Text.
    Text(&'a str),
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(number),
            Self::Real(number) => ValueRef::Real(number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

/// A type that a column can hold.
pub trait Field {
    /// The kind of value that it is to SQL.
    const KIND: Kind;
    /// True if it may be NULL.
    const NULLABLE: bool = false;

    /// Its value; a number beyond what SQL's 64 bits hold becomes the largest of them.
    fn value(&self) -> Value<'_>;
}

impl Field for u64 {
    const KIND: Kind = Kind::Integer;

    fn value(&self) -> Value<'_> {
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl Field for u32 {
    const KIND: Kind = Kind::Integer;

    fn value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl Field for bool {
    const KIND: Kind = Kind::Integer;

    fn value(&self) -> Value<'_> {
        Value::Integer(i64::from(*self))
    }
}

impl Field for f64 {
    const KIND: Kind = Kind::Real;

    fn value(&self) -> Value<'_> {
        Value::Real(*self)
    }
}

impl Field for String {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl Field for &'static str {
    const KIND: Kind = Kind::Text;

    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl<T: Field> Field for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Field::value)
    }
}

/// A row of one of the tables.
pub trait Row {
    /// The table.
    const TABLE: &'static Table;

    /// Appends the values, in the order of the columns.
    fn values<'a>(&'a self, into: &mut Vec<Value<'a>>);
}

/// A table that a statement reads.
pub(crate) struct Wanted {
    pub(crate) table: &'static Table,
    /// The columns, by their names in SQL.
    pub(crate) columns: BTreeSet<String>,
}

impl Wanted {
    /// Whether it has rows of this table: it is that, or its twin.
    fn has_rows_of(&self, table: &Table) -> bool {
        self.table.twin_of.unwrap_or(self.table).name == table.name
    }
}

/// Where rows go: the tables that one statement reads.
pub struct Rows<'c> {
    connection: &'c Connection,
    wanted: &'c [Wanted],
    inserts: BTreeMap<&'static str, Statement<'c>>,
    deadline: Instant,
    outcome: rusqlite::Result<()>,
    warnings: Vec<String>,
    /// Connections to the admin port.
    connections: u32,
    /// What this Onramp is called in tables of all of them.
    own_name: String,
}

impl<'c> Rows<'c> {
    pub(crate) fn new(connection: &'c Connection, wanted: &'c [Wanted], deadline: Instant) -> Self {
        Self {
            connection,
            wanted,
            inserts: BTreeMap::new(),
            deadline,
            outcome: Ok(()),
            warnings: Vec::new(),
            connections: 0,
            own_name: String::new(),
        }
    }

    /// Connections to the admin port now.
    pub fn connections(&self) -> u32 {
        self.connections
    }

    pub(crate) fn note_connections(&mut self, connections: u32) {
        self.connections = connections;
    }

    pub(crate) fn note_own_name(&mut self, name: String) {
        self.own_name = name;
    }

    /// Says whether the statement reads this table, or its twin.
    pub fn wants<R: Row>(&self) -> bool {
        self.wanted.iter().any(|wanted| wanted.has_rows_of(R::TABLE))
    }

    /// Tables of all Onramps that the statement reads.
    pub(crate) fn twins(&self) -> impl Iterator<Item = &'c Wanted> {
        self.wanted.iter().filter(|wanted| wanted.table.twin_of.is_some())
    }

    /// What there is to work with on the tables themselves, and where failures of that go.
    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Whether everything could be taken in so far.
    pub(crate) fn is_well(&self) -> bool {
        self.outcome.is_ok()
    }

    /// Something about the tables has failed: the statement does.
    pub(crate) fn fail(&mut self, error: rusqlite::Error) {
        if self.outcome.is_ok() {
            self.outcome = Err(error);
        }
    }

    /// Adds a row; one of a table that the statement does not read is left out. After a failure, such as memory that is
    /// used up, nothing more is taken in, and the statement fails.
    pub fn put<R: Row>(&mut self, row: &R) {
        let wanted = self.wanted;
        for Wanted { table, .. } in wanted.iter().filter(|wanted| wanted.has_rows_of(R::TABLE)) {
            if self.outcome.is_ok() {
                self.outcome = self.insert(table, row);
            }
        }
    }

    /// Something about the rows that the client has to know: its statement gets a warning.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(message.into());
    }

    /// When the statement is given up.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn finish(self) -> rusqlite::Result<Vec<String>> {
        self.outcome.map(|()| self.warnings)
    }

    fn insert<R: Row>(&mut self, table: &'static Table, row: &R) -> rusqlite::Result<()> {
        let mut values = Vec::with_capacity(table.columns.len());
        values.extend(table.twin_of.map(|_| Value::Text(&self.own_name)));
        row.values(&mut values);
        debug_assert_eq!(values.len(), table.columns.len(), "the macro makes both");
        let statement = match self.inserts.entry(table.name) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let places = vec!["?"; table.columns.len()].join(",");
                let text =
                    format!("INSERT INTO {}.\"{}\" VALUES ({places})", table.schema.name(), table.name);
                entry.insert(self.connection.prepare(&text)?)
            }
        };
        statement.execute(rusqlite::params_from_iter(values)).map(|_| ())
    }
}
