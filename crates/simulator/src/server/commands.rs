//! One command on a session, from its payload to the packets of its reply.

use super::database::Database;
use super::prepared;
use super::reply::{Answer, ReplyWriter, ServerError, Value};
use super::session::{Fresh, Session};
use super::statements::{self, split};
use crate::protocol::{Cursor, capability, command, put_length, status};

/// What a command leads to.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The whole reply.
    Packets(Vec<u8>),
    /// Nothing: COM_STMT_CLOSE and COM_STMT_SEND_LONG_DATA are not answered.
    Silence,
    /// The client must send a file first.
    WantsFile {
        /// The request.
        packets: Vec<u8>,
        /// Where the lines go.
        table: String,
    },
    /// COM_CHANGE_USER: the caller holds the scrambles.
    ChangeUser,
    /// COM_QUIT.
    Quit,
}

/// Runs a command.
pub fn run(session: &mut Session, database: &mut Database, payload: &[u8]) -> Reply {
    session.begin_statement();
    let Some((&kind, body)) = payload.split_first() else {
        return error(session, &unknown_command());
    };
    let mut cursor = Cursor(body);
    match kind {
        command::QUIT => Reply::Quit,
        command::CHANGE_USER => Reply::ChangeUser,
        command::QUERY => query(session, database, &String::from_utf8_lossy(body)),
        command::INIT_DB => {
            let result = statements::use_schema(session, &String::from_utf8_lossy(body));
            answers(session, false, vec![result])
        }
        command::PING => ok(session, 0x00),
        command::DEBUG => ok(session, 0xfe),
        command::SET_OPTION => set_option(session, cursor.short()),
        command::STATISTICS => {
            let text = format!("Uptime: 1  Threads: {}  Questions: 1", database.threads.len());
            Reply::Packets(crate::protocol::packet(1, text.as_bytes()))
        }
        command::PROCESS_KILL => {
            let id = u64::from(cursor.long().unwrap_or(0));
            let result = statements::kill_thread(session, database, id, false);
            answers(session, false, vec![result])
        }
        command::RESET_CONNECTION => {
            session.reset(database);
            ok(session, 0x00)
        }
        command::STMT_PREPARE => prepared::prepare(session, database, &String::from_utf8_lossy(body)),
        command::STMT_EXECUTE => prepared::execute(session, database, body),
        command::STMT_FETCH => prepared::fetch(session, body),
        command::STMT_SEND_LONG_DATA => {
            prepared::send_long_data(session, cursor);
            Reply::Silence
        }
        command::STMT_CLOSE => {
            let closed = session.prepared.remove(&cursor.long().unwrap_or(0));
            database.prepared_statements -= usize::from(closed.is_some());
            if !session.holds_state(database) {
                session.holder = None;
            }
            Reply::Silence
        }
        command::STMT_RESET => match session.prepared.get_mut(&cursor.long().unwrap_or(0)) {
            Some(prepared) => {
                prepared.long_data.clear();
                prepared.cursor = None;
                ok(session, 0x00)
            }
            None => prepared::unknown_statement(session, body, "mysqld_stmt_reset"),
        },
        command::FIELD_LIST => {
            let mut writer = ReplyWriter::new(1, session.capabilities, false);
            let ending = session.ending(writer.deprecate_eof());
            writer.end_of_rows(&ending);
            Reply::Packets(writer.out)
        }
        _ => error(session, &unknown_command()),
    }
}

/// The reply once the client has sent its file: `lines` rows went into the table.
pub fn finish_load(
    session: &mut Session,
    database: &mut Database,
    table: &str,
    contents: &[u8],
    sequence: u8,
) -> Vec<u8> {
    let lines = String::from_utf8_lossy(contents);
    let values: Vec<Value> = lines.lines().map(|line| Some(line.to_owned())).collect();
    let count = values.len();
    // What a member of a group may not commit any more.
    let refusal = database.seat().is_some().then(|| database.refusal(session, "load")).flatten();
    let inserted = match refusal {
        Some(refusal) => Err(refusal),
        None => statements::insert_rows(session, database, table, values),
    };
    let result = inserted.map(|answer| match answer {
        Answer::Ok { affected, insert_id, .. } => {
            let info = format!("Records: {count}  Deleted: 0  Skipped: 0  Warnings: 0");
            Answer::Ok { affected, insert_id, info }
        }
        other => other,
    });
    if session.transaction.is_none() {
        let changed = std::mem::take(&mut database.changed);
        database.commit(changed, Vec::new());
    }
    session.row_count = i64::try_from(count).unwrap_or(i64::MAX);
    let mut writer = ReplyWriter::new(sequence, session.capabilities, false);
    write_answers(session, &mut writer, vec![result]);
    writer.out
}

/// COM_QUERY: the statements in order, up to the first that fails.
fn query(session: &mut Session, database: &mut Database, text: &str) -> Reply {
    let mut texts = match split(text) {
        Ok(texts) => texts,
        Err(syntax) => return error(session, &syntax),
    };
    if texts.is_empty() {
        texts.push("");
    }
    if texts.len() > 1 && session.capabilities & capability::MULTI_STATEMENTS == 0 {
        return error(session, &ServerError::syntax(texts[1]));
    }
    let mut writer = ReplyWriter::new(1, session.capabilities, false);
    let last = texts.len() - 1;
    for (place, text) in texts.iter().enumerate() {
        let results = match statements::execute(session, database, text, None) {
            Ok(found) => found.into_iter().map(Ok).collect(),
            Err(failed) => vec![Err(failed)],
        };
        if let [Ok(Answer::LocalInfile(name))] = results.as_slice() {
            let table = statements::load_target(text).unwrap_or_default();
            writer.answer(&Answer::LocalInfile(name.clone()), &Default::default());
            return Reply::WantsFile { packets: writer.out, table };
        }
        let failed = results.iter().any(Result::is_err);
        write_more_answers(session, &mut writer, results, place < last);
        if failed {
            break;
        }
    }
    Reply::Packets(writer.out)
}

fn write_answers(session: &mut Session, writer: &mut ReplyWriter, results: Vec<Result<Answer, ServerError>>) {
    write_more_answers(session, writer, results, false);
}

/// Writes the results of one statement; `more` where another statement follows.
fn write_more_answers(
    session: &mut Session,
    writer: &mut ReplyWriter,
    results: Vec<Result<Answer, ServerError>>,
    more: bool,
) {
    let last = results.len().saturating_sub(1);
    for (place, result) in results.into_iter().enumerate() {
        match result {
            Ok(answer) => {
                let carries_changes = writer.deprecate_eof() || matches!(answer, Answer::Ok { .. });
                let tracked = session.capabilities & capability::SESSION_TRACK != 0;
                let mut ending = session.ending(carries_changes && tracked);
                if more || place < last {
                    ending.status |= status::MORE_RESULTS;
                }
                writer.answer(&answer, &ending);
            }
            Err(failed) => writer.packet(&failed.payload()),
        }
    }
}

pub(super) fn answers(
    session: &mut Session,
    binary: bool,
    results: Vec<Result<Answer, ServerError>>,
) -> Reply {
    match results.first() {
        Some(Err(failed)) => session.fail(failed.code, &failed.message),
        Some(Ok(Answer::Ok { .. })) => session.row_count = 0,
        _ => {}
    }
    let mut writer = ReplyWriter::new(1, session.capabilities, binary);
    write_answers(session, &mut writer, results);
    Reply::Packets(writer.out)
}

fn ok(session: &mut Session, header: u8) -> Reply {
    let mut writer = ReplyWriter::new(1, session.capabilities, false);
    if header == 0xfe {
        session.row_count = -1;
        let ending = session.ending(writer.deprecate_eof());
        writer.end_of_rows(&ending);
    } else {
        session.row_count = 0;
        let ending = session.ending(true);
        writer.ok(header, 0, 0, "", &ending);
    }
    Reply::Packets(writer.out)
}

pub(super) fn error(session: &mut Session, failed: &ServerError) -> Reply {
    session.fail(failed.code, &failed.message);
    session.fresh = Fresh::default();
    let mut writer = ReplyWriter::new(1, session.capabilities, false);
    writer.packet(&failed.payload());
    Reply::Packets(writer.out)
}

/// ER_UNKNOWN_COM_ERROR.
fn unknown_command() -> ServerError {
    ServerError::new(1047, "08S01", "Unknown command")
}

fn set_option(session: &mut Session, option: Option<u16>) -> Reply {
    match option {
        Some(0) => session.capabilities |= capability::MULTI_STATEMENTS,
        Some(1) => session.capabilities &= !capability::MULTI_STATEMENTS,
        _ => return error(session, &unknown_command()),
    }
    ok(session, 0xfe)
}

/// The payload of COM_CHANGE_USER.
pub fn change_user_payload(user: &str, token: &[u8], schema: &str, collation: u8) -> Vec<u8> {
    let mut out = vec![command::CHANGE_USER];
    out.extend_from_slice(user.as_bytes());
    out.push(0);
    put_length(&mut out, token.len() as u64);
    out.extend_from_slice(token);
    out.extend_from_slice(schema.as_bytes());
    out.push(0);
    out.extend_from_slice(&u16::from(collation).to_le_bytes());
    out.extend_from_slice(b"mysql_native_password\0");
    out
}
