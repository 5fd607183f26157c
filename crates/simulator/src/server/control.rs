//! What is asked of a server about itself: SHOW, the account table, collations.

use super::database::{Database, SCHEMAS};
use super::expression::Parser;
use super::kind::Kind;
use super::locks;
use super::reply::{Answer, ServerError, Value};
use super::session::Session;
use super::variables::{COLLATIONS, VARIABLES, Variable};
use crate::protocol::stored_text;

/// `SHOW ...` behind the verb. Leaves the diagnostics as they are.
pub fn show(
    session: &mut Session,
    database: &mut Database,
    text: &str,
    parser: &mut Parser<'_>,
) -> Result<Answer, ServerError> {
    if session.user == super::SERVICE_USER
        && let Some(answer) = database.show_member(session, text)
    {
        return Ok(answer);
    }
    match parser.word().as_deref() {
        Some("warnings") => {
            let rows = session
                .warnings()
                .iter()
                .map(|(level, code, text)| {
                    [(*level).to_owned(), code.to_string(), text.clone()].map(Some).to_vec()
                })
                .collect();
            session.row_count = -1;
            Ok(Answer::Diagnostics(rows))
        }
        Some("global") if session.user == super::SERVICE_USER => {
            if let Some(counters) = database.show_counters(text).filter(|_| database.kind == Kind::MySql) {
                return Ok(counters);
            }
            let columns = ["Variable_name", "Value"].map(str::to_owned).to_vec();
            if parser.word().as_deref() == Some("variables") {
                // The global values never change, so that who reads from nobody else needs to know of one only.
                let is_asked = |it: &&Variable| match database.member {
                    Some(_) => text.contains(&format!("'{}'", database.kind.name_of(it.name))),
                    None => it.name == "autocommit",
                };
                let asked = VARIABLES.iter().filter(is_asked);
                let row = |it: &Variable| {
                    [database.kind.name_of(it.name), it.initial].map(|text| Some(text.to_owned())).to_vec()
                };
                return Ok(Answer::Rows { columns, rows: asked.map(row).collect() });
            }
            let name = "Innodb_row_lock_current_waits".to_owned();
            let row = vec![Some(name), Some(lock_waits(database).len().to_string())];
            Ok(Answer::Rows { columns, rows: vec![row] })
        }
        _ => Err(ServerError::syntax("show")),
    }
}

/// Who waits for whom: threads in pairs.
pub(super) fn lock_waits(database: &Database) -> Vec<Vec<Value>> {
    let Some(holder) = database.hot_row else { return Vec::new() };
    let waiters = database.hot_waiters.iter().filter(|waiter| **waiter != holder);
    waiters.map(|waiter| [waiter.to_string(), holder.to_string()].map(Some).to_vec()).collect()
}

/// Answers SELECTs from the server's own tables, known by the table's name; `None` for all others.
pub fn select(
    session: &mut Session,
    database: &mut Database,
    text: &str,
) -> Option<Result<Answer, ServerError>> {
    if let Some(answer) = database.select_group(session, text).filter(|_| session.user == super::SERVICE_USER)
    {
        return Some(Ok(answer));
    }
    let position = database.select_position(text).filter(|_| session.user == super::SERVICE_USER);
    let rows: Vec<Vec<Value>> = if let Some(position) = position {
        vec![vec![Some(position)]]
    } else if let Some(rows) = database.select_of_mysql(text).filter(|_| database.kind == Kind::MySql) {
        rows
    } else if text.contains("information_schema.COLLATIONS") {
        COLLATIONS
            .iter()
            .map(|(id, name, charset)| {
                [id.to_string(), name.to_string(), charset.to_string()].map(Some).to_vec()
            })
            .collect()
    } else if text.contains("mysql.func") {
        // Nothing stored, nothing loaded.
        vec![vec![Some("0".to_owned())]]
    } else if text.contains("Com_create_trigger") {
        // Nothing is ever defined.
        vec![vec![Some("0".to_owned()), Some("0".to_owned())]]
    } else if text.contains("THREADS_CONNECTED") {
        vec![vec![Some(database.max_connections.to_string()), Some(database.threads.len().to_string())]]
    } else if text.starts_with("SELECT CASE WHEN GET_LOCK(") {
        vec![vec![locks::first_free(session, database, text), Some(session.thread_id.to_string())]]
    } else if text.contains("CURRENT_USER(), '@', -1)") {
        // The service account's rights: SELECT, SHOW VIEW, not MySQL's SHOW_ROUTINE, TRIGGER.
        vec![["1", "1", "0", "1"].map(|right| Some(right.to_owned())).to_vec()]
    } else if text.contains("information_schema.SCHEMATA") {
        SCHEMAS.iter().map(|&schema| vec![Some(schema.to_owned())]).collect()
    } else if text.contains("Com_grant") {
        // Accounts never change.
        vec![vec![Some("0".to_owned())]]
    } else if text.contains("FROM mysql.global_priv") {
        database
            .accounts
            .iter()
            .map(|account| {
                let plugin = "mysql_native_password".to_owned();
                let may_kill = u8::from(account.may_kill).to_string();
                let stored = stored_text(account.password.as_bytes());
                let fields = [account.user.clone(), "%".to_owned(), plugin, stored, "0".to_owned(), may_kill];
                // Nothing of TLS is required.
                fields.map(Some).into_iter().chain([const { None }; 4]).collect()
            })
            .collect()
    } else if text.contains("information_schema.INNODB_LOCK_WAITS") {
        lock_waits(database)
    } else if ["mysql.proc", ".ROUTINES", ".TRIGGERS", ".VIEWS", ".COLUMNS"]
        .iter()
        .any(|table| text.contains(table))
    {
        // No code is stored here.
        let columns = ["name", "parameters", "body", "mode"].map(str::to_owned).to_vec();
        return Some(Ok(Answer::Rows { columns, rows: Vec::new() }));
    } else if text.starts_with("SELECT ID, USER, HOST FROM information_schema.PROCESSLIST") {
        locks::own_threads(session, database, text)
    } else if text.contains("information_schema.PROCESSLIST") || text.contains("performance_schema.threads") {
        // The only lock here that is waited for in the server is that row's.
        let columns = vec!["ID".to_owned()];
        return Some(Ok(Answer::Rows { columns, rows: Vec::new() }));
    } else {
        return None;
    };
    if session.user != super::SERVICE_USER && text.contains("mysql.") {
        let message = format!("SELECT command denied to user '{}'@'%'", session.user);
        return Some(Err(ServerError::new(1142, "42000", message)));
    }
    session.found_rows = rows.len() as u64;
    session.row_count = -1;
    let width = rows.first().map_or(0, Vec::len);
    Some(Ok(Answer::Rows { columns: (0..width).map(|column| format!("column_{column}")).collect(), rows }))
}
