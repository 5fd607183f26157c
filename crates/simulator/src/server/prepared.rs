//! Binary prepared statements: COM_STMT_PREPARE, EXECUTE, FETCH and SEND_LONG_DATA.

use super::commands::{Reply, answers, error};
use super::database::Database;
use super::kind::Kind;
use super::reply::{Answer, ReplyWriter, ServerError, Value};
use super::session::{Prepared, Session};
use super::statements::{self, unknown_handler};
use crate::protocol::{Cursor, command, put_string, status};

/// MYSQL_TYPE_STRING and MYSQL_TYPE_BLOB: what clients say their parameters are. Values of the latter are shown as such.
pub const TYPES: [u8; 2] = [0xfe, 0xfc];

/// CURSOR_TYPE_READ_ONLY.
pub const READ_ONLY_CURSOR: u8 = 1;

pub(super) fn unknown_statement(session: &mut Session, body: &[u8], function: &str) -> Reply {
    let id = Cursor(body).long().unwrap_or(0);
    // MySQL looks all of them up in one place.
    let function = if session.kind == Kind::MySql { "mysql_stmt_precheck" } else { function };
    error(session, &unknown_handler(&id.to_string(), function))
}

/// COM_STMT_PREPARE: one parameter per question mark; the simulation puts none into strings.
pub(super) fn prepare(session: &mut Session, database: &mut Database, text: &str) -> Reply {
    const VERBS: [&str; 8] = ["select", "insert", "update", "delete", "begin", "commit", "rollback", "set"];
    session.prepared_count += 1; // failures count too
    let lower = String::from_utf8_lossy(statements::behind_comment(text.as_bytes())).to_ascii_lowercase();
    if !VERBS.iter().any(|verb| lower.starts_with(verb)) {
        return error(session, &ServerError::syntax(text));
    }
    // As a statement on tables: what is prepared without a schema means the same in all, and shows none.
    if session.schema.is_none() && lower.contains("@@prepared_schema_and_state") {
        return error(session, &ServerError::new(1046, "3D000", "No database selected"));
    }
    if database.most_prepared_statements.is_some_and(|most| database.prepared_statements >= most) {
        let message = "Can't create more than max_prepared_stmt_count statements";
        return error(session, &ServerError::new(1461, "42000", message));
    }
    database.prepared_statements += 1;
    let parameters = text.matches('?').count();
    let id = session.prepared_count;
    let prepared = Prepared {
        text: text.to_owned(),
        parameters,
        long_data: Default::default(),
        schema: session.schema.clone(),
        meaning: session.meaning(),
        types: None,
        cursor: None,
    };
    session.prepared.insert(id, prepared);
    let columns = u16::from(lower.starts_with("select"));
    let count = u16::try_from(parameters).unwrap_or(u16::MAX);
    let mut writer = ReplyWriter::new(1, session.capabilities, true);
    let mut head = vec![0];
    head.extend_from_slice(&id.to_le_bytes());
    head.extend_from_slice(&columns.to_le_bytes());
    head.extend_from_slice(&count.to_le_bytes());
    head.extend_from_slice(&[0, 0, 0]); // filler, warnings
    writer.packet(&head);
    let ending = session.ending(false);
    if parameters > 0 {
        writer.definitions(&vec!["?".to_owned(); parameters], &ending);
    }
    if columns > 0 {
        writer.definitions(&["column".to_owned()], &ending);
    }
    Reply::Packets(writer.out)
}

/// COM_STMT_EXECUTE: id, flags, iterations, NULL bitmap, bound, types, values.
pub(super) fn execute(session: &mut Session, database: &mut Database, body: &[u8]) -> Reply {
    let id = Cursor(body).long().unwrap_or(0);
    let Some(prepared) = session.prepared.get_mut(&id) else {
        return unknown_statement(session, body, "mysqld_stmt_execute");
    };
    let parameters = parameters(prepared, body);
    prepared.long_data.clear();
    prepared.cursor = None;
    let prepared = prepared.clone();
    let Some(parameters) = parameters else {
        return error(session, &ServerError::new(1835, "HY000", "Malformed communication packet"));
    };
    session.prepared_schema_and_state = Some(format!("{:?}{}", prepared.schema, prepared.meaning));
    let result = statements::execute(session, database, &prepared.text, Some(&parameters));
    session.prepared_schema_and_state = None;
    let wants_cursor = body.get(4).is_some_and(|flags| flags & READ_ONLY_CURSOR != 0);
    match result {
        Ok(found) => match <[Answer; 1]>::try_from(found) {
            Ok([Answer::Rows { columns, rows }]) if wants_cursor => open_cursor(session, id, &columns, rows),
            Ok([answer]) => answers(session, true, vec![Ok(answer)]),
            Err(found) => answers(session, true, found.into_iter().map(Ok).collect()),
        },
        Err(failed) => error(session, &failed),
    }
}

/// Column definitions, and one packet that says that there is a cursor.
fn open_cursor(session: &mut Session, id: u32, columns: &[String], rows: Vec<Vec<Value>>) -> Reply {
    let mut writer = ReplyWriter::new(1, session.capabilities, true);
    let mut ending = session.ending(writer.deprecate_eof());
    ending.status |= status::CURSOR_EXISTS;
    writer.column_count(columns.len());
    writer.definitions(columns, &ending);
    if writer.deprecate_eof() {
        writer.end_of_rows(&ending);
    }
    if let Some(prepared) = session.prepared.get_mut(&id) {
        prepared.cursor = Some(rows);
    }
    session.found_rows = 0;
    session.fresh.found_rows = false;
    Reply::Packets(writer.out)
}

/// COM_STMT_FETCH: id, how many rows.
pub(super) fn fetch(session: &mut Session, body: &[u8]) -> Reply {
    let mut cursor = Cursor(body);
    let (id, count) = (cursor.long().unwrap_or(0), cursor.long().unwrap_or(0) as usize);
    let Some(prepared) = session.prepared.get_mut(&id) else {
        return unknown_statement(session, body, "mysqld_stmt_fetch");
    };
    let Some(mut rows) = prepared.cursor.take() else {
        let end = if session.kind == Kind::MySql { "." } else { "" };
        let message = format!("The statement ({id}) has no open cursor{end}");
        return error(session, &ServerError::new(1421, "HY000", message));
    };
    let rest = rows.split_off(count.min(rows.len()));
    let last = rest.is_empty();
    prepared.cursor = (!last).then_some(rest);
    if last {
        // sql_prepare.cc of both servers: mysqld_stmt_fetch, reset_stmt_params.
        prepared.long_data.clear();
    }
    let mut writer = ReplyWriter::new(1, session.capabilities, true);
    for row in &rows {
        writer.row(row);
    }
    let mut ending = session.ending(writer.deprecate_eof());
    ending.status |= if last { status::LAST_ROW_SENT } else { status::CURSOR_EXISTS };
    writer.end_of_rows(&ending);
    Reply::Packets(writer.out)
}

fn parameters(prepared: &mut Prepared, body: &[u8]) -> Option<Vec<Value>> {
    let mut cursor = Cursor(body);
    cursor.take(4 + 1 + 4)?;
    if prepared.parameters == 0 {
        return Some(Vec::new());
    }
    let nulls = cursor.take(prepared.parameters.div_ceil(8))?;
    if cursor.byte()? != 0 {
        prepared.types = Some(cursor.take(2 * prepared.parameters)?.to_vec());
    }
    let types = prepared.types.as_ref()?;
    let mut values = Vec::new();
    for place in 0..prepared.parameters {
        let value = if let Some(data) = prepared.long_data.get(&u16::try_from(place).ok()?) {
            Some(String::from_utf8_lossy(data).into_owned())
        } else if nulls[place / 8] & (1 << (place % 8)) != 0 {
            None
        } else {
            Some(String::from_utf8_lossy(cursor.string()?).into_owned())
        };
        let is_blob = types[2 * place] == TYPES[1];
        values.push(if is_blob { value.map(|value| format!("blob {value}")) } else { value });
    }
    Some(values)
}

/// The payload of a COM_STMT_EXECUTE with parameters of one type, as clients write it; `named` where it says which type.
pub fn execute_payload(statement: u32, flags: u8, parameters: &[Value], kind: u8, named: bool) -> Vec<u8> {
    let mut out = vec![command::STMT_EXECUTE];
    out.extend_from_slice(&statement.to_le_bytes());
    out.push(flags);
    out.extend_from_slice(&1u32.to_le_bytes());
    if parameters.is_empty() {
        return out;
    }
    let mut nulls = vec![0u8; parameters.len().div_ceil(8)];
    let mut values = Vec::new();
    for (place, parameter) in parameters.iter().enumerate() {
        match parameter {
            Some(text) => put_string(&mut values, text.as_bytes()),
            None => nulls[place / 8] |= 1 << (place % 8),
        }
    }
    out.extend(nulls);
    out.push(u8::from(named));
    if named {
        out.extend([kind, 0].repeat(parameters.len()));
    }
    out.extend(values);
    out
}

pub(super) fn send_long_data(session: &mut Session, mut cursor: Cursor<'_>) {
    if let (Some(statement), Some(parameter)) = (cursor.long(), cursor.short()) {
        if let Some(prepared) = session.prepared.get_mut(&statement) {
            prepared.long_data.entry(parameter).or_default().extend_from_slice(cursor.0);
        }
    }
}

/// The payload of COM_STMT_SEND_LONG_DATA.
pub fn long_data_payload(statement: u32, parameter: u16, data: &[u8]) -> Vec<u8> {
    let mut out = vec![command::STMT_SEND_LONG_DATA];
    out.extend_from_slice(&statement.to_le_bytes());
    out.extend_from_slice(&parameter.to_le_bytes());
    out.extend_from_slice(data);
    out
}
