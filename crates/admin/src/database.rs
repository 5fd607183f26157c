//! One SELECT in a database of its own.
//!
//! The database is in memory, lives as long as the statement, and has all tables, empty. Preparing the statement tells which
//! of them it reads; those are filled, then it runs. An authorizer lets it read and call functions and nothing else, so
//! that there is no way to a file, a setting or another statement's data. Time is bounded by a progress handler, memory by
//! SQLite's hard heap limit, which holds for all statements of the admin port together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::functions::FunctionFlags;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode};

use crate::cluster::KNOWN;
use crate::errors::SqlError;
use crate::reply::{Cell, ResultSet};
use crate::row::Wanted;
use crate::tables;
use crate::{Rows, Schema};

/// How long a statement may take in all. Filling in 100,000 clients takes a fraction of a second.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The memory that SQLite may allocate for all statements that run now. 100,000 clients take about 40 MiB.
pub(crate) const MEMORY_LIMIT: usize = 256 << 20;

/// The largest result, in bytes. It is kept as a whole, so that a client that reads slowly holds no database.
const RESULT_LIMIT: usize = 64 << 20;

/// The largest value, in bytes, and the largest row: longer ones come from nothing but functions that repeat text.
/// Functions such as instr() and trim() take as long as one argument times the other.
pub(crate) const VALUE_LIMIT: i32 = 64 << 10;

/// The longest pattern of LIKE and GLOB, in bytes: they take as long as text times pattern, and nobody looks at the clock meanwhile.
const PATTERN_LIMIT: i32 = 256;

/// Instructions of SQLite between two looks at the clock: some ten microseconds.
const INSTRUCTIONS_PER_LOOK: i32 = 1000;

/// The answers of functions such as USER().
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) user: String,
    pub(crate) schema: Option<Schema>,
    pub(crate) connection: u32,
    pub(crate) version: &'static str,
}

/// A statement's rows, and what there is to say about them.
pub(crate) struct Selected {
    pub(crate) rows: ResultSet,
    pub(crate) warnings: Vec<String>,
}

/// Runs a SELECT in SQLite's dialect until `deadline`, which is [`TIME_LIMIT`] away; `fill` is asked for the rows of the
/// tables that it reads.
///
/// # Errors
/// What is wrong with the statement, or the bound that it reached.
pub(crate) fn select(
    text: &str,
    caller: &Caller,
    deprecate_eof: bool,
    deadline: Instant,
    fill: impl FnOnce(&mut Rows<'_>),
) -> Result<Selected, SqlError> {
    let (rows, warnings) =
        select_into(text, caller, deadline, fill, |columns| ResultSet::new(columns, deprecate_eof))?;
    Ok(Selected { rows, warnings })
}

/// What takes the rows of a statement, one after the other.
pub(crate) trait Taker {
    /// Takes a row, with a value for each column.
    fn take<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>);

    /// How much it has taken, in bytes.
    fn bytes(&self) -> usize;
}

impl Taker for ResultSet {
    fn take<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) {
        self.row(cells);
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

/// The same for any taker, which is made once the names of the columns are known. With it come the warnings.
///
/// # Errors
/// As [`select`].
pub(crate) fn select_into<T: Taker>(
    text: &str,
    caller: &Caller,
    deadline: Instant,
    fill: impl FnOnce(&mut Rows<'_>),
    taker: impl FnOnce(Vec<String>) -> T,
) -> Result<(T, Vec<String>), SqlError> {
    let database = open(text).map_err(|error| failure(&error))?;
    define_functions(&database, caller).map_err(|error| failure(&error))?;
    let access = Arc::new(Mutex::new(Access::Reads(BTreeMap::new())));
    guard(&database, &access, deadline).map_err(|error| failure(&error))?;
    let mut statement = database.prepare(text).map_err(|error| failure(&error))?;
    if statement.column_count() == 0 || !statement.readonly() {
        return Err(SqlError::only_selects());
    }
    // SQLite takes `?`, `:name` and `$name` for them. MySQL's own client asks `select $$` when it connects, and counts on an
    // error (client/mysql.cc).
    if statement.parameter_count() > 0 {
        return Err(SqlError::parameters());
    }
    let wanted = Access::tables_read(&access, text);
    let mut warnings = Vec::new();
    if !wanted.is_empty() {
        database.execute_batch("BEGIN").map_err(|error| failure(&error))?;
        let mut rows = Rows::new(&database, &wanted, deadline);
        fill(&mut rows);
        warnings = rows.finish().map_err(|error| failure(&error))?;
        database.execute_batch("COMMIT").map_err(|error| failure(&error))?;
    }
    let mut result = taker(statement.column_names().into_iter().map(String::from).collect());
    let columns = statement.column_count();
    let mut found = statement.raw_query();
    while let Some(row) = found.next().map_err(|error| failure(&error))? {
        result.take((0..columns).map(|column| row.get_ref(column).map_or(Cell::Null, cell)));
        if result.bytes() > RESULT_LIMIT {
            return Err(SqlError::too_much_memory("a result", RESULT_LIMIT));
        }
    }
    Ok((result, warnings))
}

/// Columns of tables, by name.
type Read = BTreeMap<String, BTreeSet<String>>;

/// SQLite does not ask about the columns by which NATURAL and USING join, nor about a table of which nothing else is read. So all that are
/// named in such a text count as read.
fn read_by_joins(text: &str, read: &mut Read) {
    let text = text.to_ascii_lowercase();
    if !["using", "natural"].iter().any(|word| text.contains(word)) {
        return;
    }
    for table in tables::ALL.into_iter().chain(tables::twins()) {
        if text.contains(&table.name.to_ascii_lowercase()) {
            let columns = table.columns.iter().map(|column| table.column_name(column));
            read.entry(String::from(table.name)).or_default().extend(columns);
        }
    }
}

/// The access that the authorizer lets through.
enum Access {
    /// The client's statement.
    Reads(Read),
    /// Our own.
    Fills,
}

impl Access {
    /// The tables that were read so far; from here on our own statements may write.
    fn tables_read(access: &Mutex<Self>, text: &str) -> Vec<Wanted> {
        let mut access = access.lock().unwrap_or_else(PoisonError::into_inner);
        let Self::Reads(mut read) = std::mem::replace(&mut *access, Self::Fills) else { return Vec::new() };
        read_by_joins(text, &mut read);
        let wanted = |(name, columns): (String, _)| Some(Wanted { table: tables::find(&name)?, columns });
        let mut wanted: Vec<_> = read.into_iter().filter_map(wanted).collect();
        let is_known = wanted.iter().any(|wanted| wanted.table.name == KNOWN.name);
        if !is_known && wanted.iter().any(|wanted| wanted.table.twin_of.is_some()) {
            wanted.push(Wanted { table: KNOWN, columns: BTreeSet::new() });
        }
        wanted
    }

    fn decide(&mut self, context: &AuthContext<'_>) -> Authorization {
        let Self::Reads(read) = self else { return Authorization::Allow };
        match context.action {
            AuthAction::Select | AuthAction::Recursive => Authorization::Allow,
            AuthAction::Read { table_name, column_name } if tables::find(table_name).is_some() => {
                let columns = read.entry(String::from(table_name)).or_default();
                // Where it reads none, as COUNT(*) does, it is asked about one without a name.
                columns.extend((!column_name.is_empty()).then(|| String::from(column_name)));
                Authorization::Allow
            }
            // Tables that functions make; and a part of the statement that has a name (WITH), which SQLite asks about where
            // none of its columns is read.
            AuthAction::Read { table_name: "json_each" | "json_tree", .. } => Authorization::Allow,
            AuthAction::Read { table_name, column_name: "" } if !table_name.starts_with("sqlite_") => {
                Authorization::Allow
            }
            AuthAction::Function { function_name }
                if !function_name.eq_ignore_ascii_case("load_extension") =>
            {
                Authorization::Allow
            }
            _ => Authorization::Deny,
        }
    }
}

/// An empty database with all tables that a statement may read, each in its schema. Twins double the work, and few statements read one:
/// they are there where their names may stand in the text.
fn open(statement: &str) -> rusqlite::Result<Connection> {
    let database = Connection::open_in_memory()?;
    let mut text = format!("PRAGMA hard_heap_limit={MEMORY_LIMIT};PRAGMA temp_store=MEMORY;");
    for schema in Schema::ALL {
        let name = schema.name();
        text.push_str(&format!("ATTACH ':memory:' AS {name};PRAGMA {name}.journal_mode=OFF;"));
    }
    let reads_twins = statement.to_ascii_lowercase().contains(tables::PREFIX);
    for table in tables::ALL.into_iter().chain(tables::twins().filter(|_| reads_twins)) {
        let columns: Vec<_> =
            table.columns.iter().map(|column| format!("\"{}\"", table.column_name(column))).collect();
        text.push_str(&format!(
            "CREATE TABLE {}.\"{}\" ({});",
            table.schema.name(),
            table.name,
            columns.join(",")
        ));
    }
    database.execute_batch(&text)?;
    Ok(database)
}

/// From here on nothing but reading, in bounded time.
fn guard(database: &Connection, access: &Arc<Mutex<Access>>, deadline: Instant) -> rusqlite::Result<()> {
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_LIMIT)?;
    database.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_LIMIT)?;
    // Its own threads would be outside of every bound.
    database.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
    let access = Arc::clone(access);
    database.authorizer(Some(move |context: AuthContext<'_>| {
        access.lock().unwrap_or_else(PoisonError::into_inner).decide(&context)
    }))?;
    database.progress_handler(INSTRUCTIONS_PER_LOOK, Some(move || Instant::now() > deadline))
}

/// The functions of MySQL that clients call of their own accord.
fn define_functions(database: &Connection, caller: &Caller) -> rusqlite::Result<()> {
    let constant = |name: &str, value: Option<String>| {
        database.create_scalar_function(name, 0, FunctionFlags::default(), move |_| Ok(value.clone()))
    };
    let schema = caller.schema.map(|schema| String::from(schema.name()));
    constant("version", Some(String::from(caller.version)))?;
    constant("user", Some(caller.user.clone()))?;
    constant("current_user", Some(caller.user.clone()))?;
    constant("session_user", Some(caller.user.clone()))?;
    constant("database", schema.clone())?;
    constant("schema", schema)?;
    constant("connection_id", Some(caller.connection.to_string()))?;
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    constant("now", Some(tables::time_text(seconds)))
}

fn cell(value: ValueRef<'_>) -> Cell<'_> {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(integer) => Cell::Integer(integer),
        ValueRef::Real(real) => Cell::Real(real),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cell::Text(bytes),
    }
}

fn failure(error: &rusqlite::Error) -> SqlError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => SqlError::took_too_long(TIME_LIMIT),
        Some(ErrorCode::OutOfMemory) => SqlError::too_much_memory("all statements", MEMORY_LIMIT),
        Some(ErrorCode::TooBig) => SqlError::too_much_memory("a value", VALUE_LIMIT as usize),
        _ => SqlError::sqlite(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Limit as LimitRow, Pin};

    fn caller() -> Caller {
        let user = String::from("admin@localhost");
        Caller { user, schema: Some(Schema::Onramp), connection: 7, version: "8.0.11-onramp" }
    }

    fn fill(rows: &mut Rows<'_>) {
        for (option, bound) in [("permits", 16), ("max_connections", 100)] {
            rows.put(&LimitRow {
                option,
                bounds: "",
                unit: "",
                scope: "",
                in_use: Some(bound / 2),
                bound: Some(bound),
                reached: 1,
            });
        }
        if rows.wants::<Pin>() {
            rows.warn("worker 1 does not answer");
        }
    }

    fn select_now(text: &str, deadline: Instant) -> Result<Selected, SqlError> {
        // The bound on memory is one for the process: a test that reaches it must be alone.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        select(text, &caller(), true, deadline, fill)
    }

    /// The values of the rows, or the error's code and message.
    fn ask(text: &str) -> Result<Vec<Vec<String>>, (u16, String)> {
        let selected = select_now(text, Instant::now() + 60 * TIME_LIMIT)
            .map_err(|error| (error.code, error.message))?;
        let mut bytes = Vec::new();
        selected.rows.put(&mut bytes, 0);
        let mut payloads = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let sequence = u8::try_from((payloads.len() + 1) % 256).unwrap();
            let message = wire::read_message(rest, sequence, usize::MAX).unwrap().unwrap();
            payloads.push(message.payload.to_vec());
            rest = &rest[message.consumed..];
        }
        let columns = usize::try_from(wire::parse_column_count(&payloads[0]).unwrap()).unwrap();
        let value =
            |value: Option<&[u8]>| value.map_or("NULL".into(), |text| String::from_utf8_lossy(text).into());
        let rows = &payloads[1 + columns..payloads.len() - 1];
        Ok(rows
            .iter()
            .map(|row| wire::parse_text_row(row).unwrap().into_iter().map(value).collect())
            .collect())
    }

    #[test]
    fn tables_are_filled_and_read_by_any_of_their_names() {
        for name in ["limits", "onramp.limits", "\"LIMITS\"", "Onramp.Limits"] {
            let rows = ask(&format!("SELECT option, bound + 1 FROM {name} ORDER BY bound")).unwrap();
            assert_eq!(rows, [["permits", "17"], ["max_connections", "101"]], "{name}");
        }
        assert_eq!(ask("SELECT COUNT(*) FROM information_schema.thread_pool_groups").unwrap(), [["0"]]);
        assert_eq!(ask("SELECT COUNT(*) FROM performance_schema.TP_CONNECTIONS").unwrap(), [["0"]]);
        let text = "WITH l AS (SELECT * FROM limits) SELECT a.option, COUNT(*) FROM l a JOIN l b GROUP BY 1 ORDER BY 1";
        assert_eq!(ask(text).unwrap(), [["max_connections", "2"], ["permits", "2"]]);
    }

    #[test]
    fn tables_are_filled_of_which_nothing_is_read_but_what_joins_them() {
        for join in ["JOIN limits b USING (option, bound)", "NATURAL JOIN LIMITS b", "CROSS JOIN limits b"] {
            let counted = if join.starts_with("CROSS") { "4" } else { "2" };
            assert_eq!(ask(&format!("SELECT COUNT(*) FROM limits a {join}")).unwrap(), [[counted]], "{join}");
        }
    }

    /// Each example of the manual is a statement that works.
    #[test]
    fn the_manuals_examples_are_understood() {
        let page = include_str!("../../../docs/ADMIN.md");
        let blocks: Vec<_> =
            page.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
        assert!(blocks.len() >= 4);
        for statement in
            blocks.iter().flat_map(|block| block.split(";\n")).filter(|text| !text.trim().is_empty())
        {
            let tokens = crate::tokens::tokens(statement).unwrap();
            let text = crate::dialect::to_sqlite(&tokens, |_| None).unwrap();
            ask(&text).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    }

    #[test]
    fn functions_of_mysql_answer() {
        let rows = ask("SELECT version(), user(), DATABASE(), connection_id(), length(now())").unwrap();
        assert_eq!(rows, [["8.0.11-onramp", "admin@localhost", "onramp", "7", "19"]]);
    }

    #[test]
    fn warnings_come_from_whoever_fills() {
        let selected = select_now("SELECT * FROM pins", Instant::now() + TIME_LIMIT).unwrap();
        assert_eq!(selected.warnings, ["worker 1 does not answer"]);
        assert!(select_now("SELECT * FROM limits", Instant::now() + TIME_LIMIT).unwrap().warnings.is_empty());
    }

    #[test]
    fn errors_are_mysqls() {
        let code = |text: &str| ask(text).unwrap_err().0;
        assert_eq!(code("SELECT * FROM missing"), 1146);
        assert_eq!(code("SELECT missing FROM limits"), 1054);
        assert_eq!(code("SELECT missing()"), 1305);
        assert_eq!(code("SELECT FROM"), 1064);
        assert_eq!(code("SELECT 1; SELECT 2"), 1064);
        assert_eq!(code("select $$"), 1064);
        assert_eq!(code("SELECT * FROM limits WHERE bound = ?"), 1064);
    }

    #[test]
    fn nothing_but_reading_is_allowed() {
        for text in [
            "ATTACH '/tmp/x.db' AS x",
            "PRAGMA user_version",
            "SELECT * FROM pragma_database_list",
            "SELECT * FROM sqlite_master",
            "CREATE TABLE onramp.x (y)",
            "DROP TABLE onramp.limits",
            "DELETE FROM limits",
            "INSERT INTO limits VALUES (1, 2, 3, 4)",
            "WITH a AS (SELECT 1) UPDATE limits SET bound = 0",
            "VACUUM INTO '/tmp/x.db'",
            "SELECT load_extension('x')",
            "BEGIN",
        ] {
            let (code, message) = ask(text).unwrap_err();
            assert!(code == 1142 || code == 1146, "{text}: {code} {message}");
        }
        assert!(ask("SELECT readfile('/etc/passwd')").unwrap_err().1.contains("does not exist"));
    }

    #[test]
    fn time_is_bounded() {
        let text = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s) SELECT COUNT(*) FROM s";
        let outcome = select_now(text, Instant::now());
        assert_eq!(outcome.map(|_| ()).unwrap_err().code, 3024);
    }

    /// A function is not interrupted.
    #[test]
    fn time_is_bounded_within_a_function() {
        for operator in ["LIKE", "GLOB"] {
            let text = format!("SELECT 'a' {operator} printf('%.*c', 257, 'a')");
            assert!(ask(&text).unwrap_err().1.contains("pattern too complex"));
        }
        assert_eq!(ask("SELECT 'abc' LIKE '%B%'").unwrap(), [["1"]]);
    }

    #[test]
    fn memory_is_bounded() {
        let (code, message) = ask("SELECT length(zeroblob(100000000))").unwrap_err();
        assert_eq!((code, message.contains("a value")), (1041, true), "{message}");
        let series = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s)";
        let (code, message) = ask(&format!("{series} SELECT hex(zeroblob(30000)) FROM s")).unwrap_err();
        assert_eq!((code, message.contains("a result")), (1041, true), "{message}");
        let (code, message) =
            ask(&format!("{series} SELECT hex(zeroblob(30000)) || n AS x FROM s ORDER BY x")).unwrap_err();
        assert_eq!((code, message.contains("all statements")), (1041, true), "{message}");
        assert_eq!(ask("SELECT 1").unwrap(), [["1"]], "the memory is free again");
    }
}
