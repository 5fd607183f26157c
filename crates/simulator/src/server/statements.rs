//! The small language of the virtual server: SQL that real servers would take, with just enough meaning to tell whether
//! a statement ran on the right session, once, and under the right state.

use memchr::memmem;

use super::control;
use super::database::{Database, Execution, Kill, SCHEMAS, Undo};
use super::expression::{Parser, Source};
use super::lexer::{Lexeme, Piece, pieces};
use super::reply::{Answer, ServerError, Value};
use super::session::{Session, TemporaryTable};
use super::settings;
use crate::token::Token;

/// A table with one row that all clients change: whoever changes it in a transaction makes the others wait.
pub const HOT_TABLE: &str = "hot";

/// How tables begin in which there is a row of each number, and in each row the statement that wrote it last: its version.
pub const VERSIONS: &str = "versions_";

type Outcome = Result<Answer, ServerError>;

/// The texts of the statements in one COM_QUERY, cut at semicolons.
pub fn split(text: &str) -> Result<Vec<&str>, ServerError> {
    let pieces = pieces(text).ok_or_else(|| ServerError::syntax(text))?;
    let mut statements = Vec::new();
    let mut start = 0;
    for piece in pieces.iter().filter(|piece| piece.lexeme == Lexeme::Symbol(';')) {
        statements.push(&text[start..piece.start]);
        start = piece.end;
    }
    if pieces.last().is_some_and(|piece| piece.start >= start) {
        statements.push(&text[start..]);
    }
    Ok(statements)
}

/// Runs one statement. `parameters` are those of a prepared one, whose own text was named when it was prepared.
pub fn execute(
    session: &mut Session,
    database: &mut Database,
    text: &str,
    parameters: Option<&[Value]>,
) -> Result<Vec<Answer>, ServerError> {
    if let Some(refusal) = database.refusal(session, text) {
        return Err(refused(session, refusal, &tokens_of(text, parameters)));
    }
    let before = Before::of(session, database);
    database.moment += 1;
    database.popular_runs += u64::from(text.contains("SELECT moment"));
    let reads_variables = !is_plain_read(text.as_bytes()) || text.replace("@@", "").contains('@');
    match parameters {
        None => note_execution(session, database, text, text, reads_variables),
        Some(values) => {
            for value in values.iter().flatten() {
                note_execution(session, database, text, value, reads_variables);
            }
        }
    }
    let mut result = run(session, database, text, parameters.unwrap_or_default());
    before.note_changes(session, database, tokens_of(text, parameters));
    session.fresh.row_count =
        parameters.is_none() && !["KILL", "SHOW"].iter().any(|verb| text.starts_with(verb));
    // Whatever ended it: a COMMIT that was prepared bears no token, and the engine's own statements leave no state behind.
    session.holder = match Token::find_all(text.as_bytes()).last() {
        _ if !session.holds_state(database) => None,
        Some(token) => Some(token.key),
        None => session.holder,
    };
    if let Err(error) = &mut result {
        // Whoever sees it can tell whose it is.
        if let Some(token) = Token::find_all(text.as_bytes()).first() {
            error.message = format!("{} in {token}", error.message);
        }
        session.fail(error.code, &error.message);
    }
    result
}

/// The statements named in a text and in the parameters of a prepared one.
fn tokens_of(text: &str, parameters: Option<&[Value]>) -> Vec<Token> {
    let texts =
        std::iter::once(text).chain(parameters.unwrap_or_default().iter().flatten().map(String::as_str));
    texts.flat_map(|text| Token::find_all(text.as_bytes())).collect()
}

/// A server that takes no writes has refused it. Whoever sees the error can tell whose it is.
fn refused(session: &mut Session, mut refusal: ServerError, tokens: &[Token]) -> ServerError {
    if let Some(token) = tokens.first() {
        refusal.message = format!("{} in {token}", refusal.message);
    }
    session.begin_statement();
    session.fail(refusal.code, &refusal.message);
    refusal
}

/// What was before a statement, to tell what it has changed.
struct Before {
    executions: usize,
    undo: usize,
    commits: u64,
}

impl Before {
    fn of(session: &Session, database: &Database) -> Self {
        Self { executions: database.executions.len(), undo: undo_of(session), commits: database.commits }
    }

    /// Commits what is a transaction of its own.
    fn note_changes(self, session: &mut Session, database: &mut Database, tokens: Vec<Token>) {
        let commits = database.commits > self.commits;
        let changed = std::mem::take(&mut database.changed);
        let writes = !changed.is_empty() || undo_of(session) > self.undo;
        match &mut session.transaction {
            Some(transaction) if writes => transaction.tokens.extend(tokens),
            Some(_) => {}
            None => database.commit(changed, tokens),
        }
        for execution in &mut database.executions[self.executions..] {
            (execution.writes, execution.commits) = (writes, commits);
            // With autocommit off its first change begins it.
            execution.transaction = execution.transaction.or(session.transaction.as_ref().map(|it| it.id));
        }
    }
}

/// How many changes of the open transaction can be taken back.
fn undo_of(session: &Session) -> usize {
    session.transaction.as_ref().map_or(0, |transaction| transaction.undo.len())
}

/// Writes down that the statements named there run now, by this text, and under which state.
fn note_execution(
    session: &Session,
    database: &mut Database,
    text: &str,
    named: &str,
    reads_variables: bool,
) {
    let mut tokens = Token::find_all(named.as_bytes());
    tokens.dedup();
    for token in tokens {
        let foreign_state =
            session.holder.filter(|holder| *holder != token.key && session.holds_state(database));
        let execution = Execution {
            token,
            server: database.member.as_ref().map(|member| member.number),
            thread_id: session.thread_id,
            sent_at: (0, 0),
            transaction: session.transaction.as_ref().map(|transaction| transaction.id),
            fingerprint: session.fingerprint(text.starts_with("USE "), reads_variables),
            foreign_state,
            harmless: session.transaction.is_none() && is_plain_read(text.as_bytes()),
            writes: false,
            commits: false,
        };
        database.executions.push(execution);
    }
}

/// Whether a text only reads, by words that what does more would have.
pub fn is_plain_read(text: &[u8]) -> bool {
    const MORE: [&str; 8] = ["INTO", "FOR UPDATE", "LOCK", "SLEEP", "NEXTVAL", "CALC_FOUND_ROWS", ":=", ";"];
    let text = behind_comment(text).to_ascii_uppercase();
    text.starts_with(b"SELECT ") && MORE.iter().all(|word| memmem::find(&text, word.as_bytes()).is_none())
}

/// A text without the comment that it begins with.
pub(super) fn behind_comment(text: &[u8]) -> &[u8] {
    match text.strip_prefix(b"/*").and_then(|comment| Some((comment, memmem::find(comment, b"*/")?))) {
        Some((comment, end)) => comment[end + 2..].trim_ascii_start(),
        None => text,
    }
}

fn run(
    session: &mut Session,
    database: &mut Database,
    text: &str,
    parameters: &[Value],
) -> Result<Vec<Answer>, ServerError> {
    // The service account's limit on its questions: nothing takes time here.
    let text = text.strip_prefix("SET STATEMENT max_statement_time = 2 FOR ").unwrap_or(text);
    let pieces = pieces(text).ok_or_else(|| ServerError::syntax(text))?;
    let mut parser = Parser::new(text, &pieces, parameters);
    let Some(verb) = parser.word() else {
        return Err(ServerError::new(1065, "42000", "Query was empty"));
    };
    session.begin_statement();
    let answer = match verb.as_str() {
        "show" => return control::show(session, database, text, &mut parser).map(|answer| vec![answer]),
        "select" => return select(session, database, text, &mut parser).map(|answer| vec![answer]),
        "call" => return call(session, database, &mut parser),
        "insert" => insert(session, database, &mut parser),
        "update" => update(session, database, &mut parser),
        "delete" => delete(session, database, &mut parser),
        "begin" | "start" => begin(session, database, &mut parser),
        "commit" => Ok(commit(session, database)),
        "rollback" => Ok(roll_back(session, database)),
        "set" => settings::set(session, database, &mut parser),
        "use" => use_schema(session, &parser.name()?),
        "create" => create_temporary(session, &mut parser),
        "drop" => drop_temporary(session, &mut parser),
        "prepare" => prepare(session, &mut parser),
        "execute" => return execute_prepared(session, database, &mut parser),
        "deallocate" => deallocate(session, &mut parser),
        "kill" => kill(session, database, &mut parser),
        // Of a table, so that it replaces the list of warnings.
        "do" if text.contains("information_schema.ENGINES") => {
            session.clear_warnings();
            Ok(Answer::done())
        }
        "do" => parser.value(session, database, &Source::None).map(|_| Answer::done()),
        "load" => load(session, database, &mut parser),
        "lock" => lock_tables(session, database),
        "unlock" => unlock_tables(session),
        _ => Err(ServerError::syntax(text)),
    }?;
    session.row_count = match &answer {
        Answer::Ok { affected, .. } => i64::try_from(*affected).unwrap_or(i64::MAX),
        _ => -1,
    };
    Ok(vec![answer])
}

/// `SELECT item, ... [FROM source] [anything]`.
fn select(session: &mut Session, database: &mut Database, text: &str, parser: &mut Parser<'_>) -> Outcome {
    if let Some(answer) = control::select(session, database, text) {
        return answer;
    }
    let from = parser.find_word("from");
    let source = match from {
        None => Source::None,
        Some(place) => source(session, database, &parser.name_at(place + 1)?, parser)?,
    };
    match source {
        Source::Table { .. } | Source::Numbers { .. } | Source::Version { .. } => {
            session.touch(database, false);
        }
        Source::Temporary { .. } => session.clear_warnings(),
        Source::None | Source::Row { .. } => {}
    }
    let mut columns = Vec::new();
    let mut rows = Vec::new();
    let first_item = parser.place();
    for (row, context) in source.rows(database).enumerate() {
        parser.seek(first_item);
        let mut values = Vec::new();
        let mut names = Vec::new();
        loop {
            let (name, value) = parser.item(session, database, &context)?;
            names.push(name);
            values.push(value);
            if !parser.symbol(',') {
                break;
            }
        }
        if row == 0 {
            columns = names;
        }
        rows.push(values);
    }
    if rows.is_empty() {
        columns.push("empty".to_owned());
    }
    session.gave_rows();
    session.found_rows = rows.len() as u64;
    session.fresh.found_rows = true;
    session.row_count = -1;
    Ok(Answer::Rows { columns, rows })
}

/// Where a SELECT's rows come from.
fn source(
    session: &Session,
    database: &Database,
    table: &str,
    parser: &mut Parser<'_>,
) -> Result<Source, ServerError> {
    if let Some(temporary) = session.temporary_tables.get(table) {
        let rows = temporary.rows.iter().cloned().enumerate();
        return Ok(Source::Temporary { rows: rows.map(|(at, value)| (at as u64 + 1, value)).collect() });
    }
    if let Some(count) = table.strip_prefix("rows_").and_then(|count| count.parse().ok()) {
        return Ok(Source::Numbers { count });
    }
    if table.starts_with("ledger_") {
        let rows = database.tables.get(table).map(|table| table.rows.len()).unwrap_or_default();
        return Ok(Source::Table { rows: rows as u64 });
    }
    if table.starts_with(VERSIONS) {
        let place = parser.place();
        let id = row_id(parser)?;
        parser.seek(place);
        return Ok(Source::Version { number: database.version_for(session, table, id) });
    }
    if table == "dual" { Ok(Source::None) } else { Err(missing_table(session, table)) }
}

fn missing_table(session: &Session, table: &str) -> ServerError {
    let schema = session.schema.as_deref().unwrap_or("");
    ServerError::new(1146, "42S02", format!("Table '{schema}.{table}' doesn't exist"))
}

/// `CALL two_results('tok')`: two result sets and the OK of the CALL itself.
fn call(
    session: &mut Session,
    database: &mut Database,
    parser: &mut Parser<'_>,
) -> Result<Vec<Answer>, ServerError> {
    let procedure = parser.name()?;
    if procedure != "two_results" {
        return Err(ServerError::new(1305, "42000", format!("PROCEDURE {procedure} does not exist")));
    }
    parser.symbol('(');
    let (_, value) = parser.item(session, database, &Source::None)?;
    let set = |name: &str| Answer::Rows { columns: vec![name.to_owned()], rows: vec![vec![value.clone()]] };
    session.found_rows = 1;
    session.row_count = 0;
    Ok(vec![set("first"), set("second"), Answer::done()])
}

/// `INSERT INTO table (value) VALUES ('a'), ('b')`.
fn insert(session: &mut Session, database: &mut Database, parser: &mut Parser<'_>) -> Outcome {
    parser.word();
    let table = parser.name()?;
    let place = parser.find_word("values").ok_or_else(|| ServerError::syntax("values"))?;
    parser.seek(place + 1);
    let mut values = Vec::new();
    while parser.symbol('(') {
        values.push(parser.value(session, database, &Source::None)?);
        parser.symbol(')');
        parser.symbol(',');
    }
    if let Some(temporary) = session.temporary_tables.get_mut(&table) {
        let affected = values.len() as u64;
        temporary.rows.extend(values);
        session.clear_warnings();
        return Ok(Answer::Ok { affected, insert_id: 0, info: String::new() });
    }
    insert_rows(session, database, &table, values)
}

/// Gives each row the table's next id. As InnoDB does, ids are not given back by a rollback.
pub fn insert_rows(
    session: &mut Session,
    database: &mut Database,
    table: &str,
    values: Vec<Value>,
) -> Outcome {
    if !table.starts_with("ledger_") {
        return Err(missing_table(session, table));
    }
    session.touch(database, true);
    let affected = values.len() as u64;
    let mut first = 0;
    for value in values {
        let rows = database.tables.entry(table.to_owned()).or_default();
        rows.last_id += 1;
        let id = rows.last_id;
        rows.rows.insert(id, value.unwrap_or_default());
        if first == 0 {
            first = id;
        }
        note_change(session, database, Undo { table: table.to_owned(), id, before: None });
    }
    if first != 0 {
        session.last_insert_id = first;
    }
    let info =
        if affected > 1 { format!("Records: {affected}  Duplicates: 0  Warnings: 0") } else { String::new() };
    Ok(Answer::Ok { affected, insert_id: first, info })
}

/// `UPDATE table SET value = 'tok' WHERE id = n`.
fn update(session: &mut Session, database: &mut Database, parser: &mut Parser<'_>) -> Outcome {
    let table = parser.name()?;
    let place = parser.find_word("set").ok_or_else(|| ServerError::syntax("set"))?;
    parser.seek(place + 3); // SET value =
    let value = parser.value(session, database, &Source::None)?.unwrap_or_default();
    let affected = change_row(session, database, &table, &row_id(parser)?, Some(value))?;
    Ok(Answer::Ok {
        affected,
        insert_id: 0,
        info: format!("Rows matched: {affected}  Changed: {affected}  Warnings: 0"),
    })
}

/// `DELETE FROM table WHERE id = n`.
fn delete(session: &mut Session, database: &mut Database, parser: &mut Parser<'_>) -> Outcome {
    parser.word();
    let table = parser.name()?;
    let affected = change_row(session, database, &table, &row_id(parser)?, None)?;
    Ok(Answer::Ok { affected, insert_id: 0, info: String::new() })
}

fn row_id(parser: &mut Parser<'_>) -> Result<u64, ServerError> {
    let place = parser.find_word("id").ok_or_else(|| ServerError::syntax("id"))?;
    parser.seek(place + 2); // id =
    parser.number()
}

fn change_row(
    session: &mut Session,
    database: &mut Database,
    table: &str,
    id: &u64,
    value: Option<String>,
) -> Result<u64, ServerError> {
    if table == HOT_TABLE {
        session.touch(database, true);
        if session.transaction.is_some() {
            database.hot_row = Some(session.thread_id);
        }
        return Ok(1);
    }
    let is_versions = table.starts_with(VERSIONS);
    if !table.starts_with("ledger_") && !is_versions {
        return Err(missing_table(session, table));
    }
    session.touch(database, true);
    let rows = database.tables.entry(table.to_owned()).or_default();
    let before = rows.rows.remove(id);
    if before.is_none() && !is_versions {
        return Ok(0);
    }
    if let Some(value) = value {
        rows.rows.insert(*id, value);
    }
    note_change(session, database, Undo { table: table.to_owned(), id: *id, before });
    Ok(1)
}

/// A row has changed, in the open transaction or in one of its own.
fn note_change(session: &mut Session, database: &mut Database, undo: Undo) {
    match &mut session.transaction {
        Some(transaction) => transaction.undo.push(undo),
        None => database.changed.push((undo.table, undo.id)),
    }
}

fn begin(session: &mut Session, database: &mut Database, parser: &mut Parser<'_>) -> Outcome {
    if parser.word().is_some_and(|word| !matches!(word.as_str(), "work" | "transaction")) {
        return Err(ServerError::syntax("begin"));
    }
    session.locked_tables = false;
    session.begin(database, true);
    Ok(Answer::done())
}

fn commit(session: &mut Session, database: &mut Database) -> Answer {
    session.commit(database);
    // Also without a transaction (sql_parse.cc: trans_reset_one_shot_chistics).
    session.next_isolation = None;
    Answer::done()
}

fn roll_back(session: &mut Session, database: &mut Database) -> Answer {
    session.rollback(database);
    // Also without a transaction (sql_parse.cc: trans_reset_one_shot_chistics).
    session.next_isolation = None;
    Answer::done()
}

/// `USE name` and COM_INIT_DB.
pub fn use_schema(session: &mut Session, schema: &str) -> Outcome {
    if !SCHEMAS.contains(&schema) {
        return Err(ServerError::new(1049, "42000", format!("Unknown database '{schema}'")));
    }
    session.set_schema(schema);
    Ok(Answer::done())
}

fn create_temporary(session: &mut Session, parser: &mut Parser<'_>) -> Outcome {
    let place = parser.find_word("table").ok_or_else(|| ServerError::syntax("create"))?;
    let table = parser.name_at(place + 1)?;
    if session.temporary_tables.contains_key(&table) {
        return Err(ServerError::new(1050, "42S01", format!("Table '{table}' already exists")));
    }
    session.temporary_tables.insert(table, TemporaryTable::default());
    session.clear_warnings();
    session.mark_state();
    Ok(Answer::done())
}

fn drop_temporary(session: &mut Session, parser: &mut Parser<'_>) -> Outcome {
    let place = parser.find_word("table").ok_or_else(|| ServerError::syntax("drop"))?;
    let table = parser.name_at(place + 1)?;
    if session.temporary_tables.remove(&table).is_none() {
        return Err(ServerError::new(1051, "42S02", format!("Unknown table '{table}'")));
    }
    session.clear_warnings();
    session.mark_state();
    Ok(Answer::done())
}

/// `PREPARE name FROM 'text'`.
fn prepare(session: &mut Session, parser: &mut Parser<'_>) -> Outcome {
    let name = parser.name()?;
    parser.word();
    let Some(Lexeme::Text(text)) = parser.next_lexeme() else {
        return Err(ServerError::syntax("prepare"));
    };
    session.text_prepared.insert(name, text);
    session.mark_state();
    Ok(Answer::Ok { affected: 0, insert_id: 0, info: "Statement prepared".to_owned() })
}

/// `EXECUTE name`.
fn execute_prepared(
    session: &mut Session,
    database: &mut Database,
    parser: &mut Parser<'_>,
) -> Result<Vec<Answer>, ServerError> {
    let name = parser.name()?;
    let text = session.text_prepared.get(&name).cloned().ok_or_else(|| unknown_handler(&name, "EXECUTE"))?;
    run(session, database, &text, &[])
}

/// `DEALLOCATE PREPARE name`.
fn deallocate(session: &mut Session, parser: &mut Parser<'_>) -> Outcome {
    parser.word();
    let name = parser.name()?;
    session.text_prepared.remove(&name).ok_or_else(|| unknown_handler(&name, "DEALLOCATE PREPARE"))?;
    session.mark_state();
    Ok(Answer::done())
}

/// ER_UNKNOWN_STMT_HANDLER.
pub fn unknown_handler(name: &str, command: &str) -> ServerError {
    ServerError::new(1243, "HY000", format!("Unknown prepared statement handler ({name}) given to {command}"))
}

/// `KILL [CONNECTION | QUERY] id`.
fn kill(session: &mut Session, database: &mut Database, parser: &mut Parser<'_>) -> Outcome {
    let query_only = parser.find_word("query").is_some();
    while !parser.at_number() {
        parser.next_lexeme().ok_or_else(|| ServerError::syntax("kill"))?;
    }
    let id = parser.number()?;
    kill_thread(session, database, id, query_only)
}

/// One's own, or all with the right to it. Where there is one program in front of the server, that has looked before it asks.
fn may_kill(session: &Session, database: &Database, thread_id: u32) -> bool {
    let is_own = database.users.get(&thread_id) == Some(&session.user);
    let has_right = || database.accounts.iter().any(|it| it.user == session.user && it.may_kill);
    database.clock.is_none() || is_own || has_right()
}

/// Asks for the end of a session or of its statement.
pub fn kill_thread(session: &Session, database: &mut Database, id: u64, query_only: bool) -> Outcome {
    let thread_id = u32::try_from(id).ok().filter(|id| database.threads.contains(id));
    let Some(thread_id) = thread_id else {
        return Err(ServerError::new(1094, "HY000", format!("Unknown thread id: {id}")));
    };
    if !may_kill(session, database, thread_id) {
        return Err(ServerError::new(1095, "HY000", format!("You are not owner of thread {id}")));
    }
    if thread_id == session.thread_id {
        return Err(ServerError::new(1317, "70100", "Query execution was interrupted"));
    }
    database.kills.push(Kill { thread_id, query_only });
    Ok(Answer::done())
}

/// `LOAD DATA LOCAL INFILE 'name' INTO TABLE table`.
fn load(session: &mut Session, database: &mut Database, parser: &mut Parser<'_>) -> Outcome {
    let place = parser.find_word("infile").ok_or_else(|| ServerError::syntax("load"))?;
    parser.seek(place + 1);
    let name = parser.value(session, database, &Source::None)?.unwrap_or_default();
    Ok(Answer::LocalInfile(name))
}

/// The table that a LOAD DATA statement fills.
pub fn load_target(text: &str) -> Option<String> {
    let pieces: Vec<Piece> = pieces(text)?;
    Parser::new(text, &pieces, &[]).last_word()
}

fn lock_tables(session: &mut Session, database: &mut Database) -> Outcome {
    session.commit(database);
    session.clear_warnings();
    session.locked_tables = true;
    Ok(Answer::done())
}

fn unlock_tables(session: &mut Session) -> Outcome {
    session.locked_tables = false;
    Ok(Answer::done())
}
