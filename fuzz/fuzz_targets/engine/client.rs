//! What clients say: their logins, and statements on which the engine's answer turns.

use arbitrary::Arbitrary;
use wire::{Capabilities, ChangeUser, CommandKind, LoginRequest, put_message};

use crate::server::ACCOUNTS;

/// Statements of all the kinds that the engine tells apart. `{}` is the id of some client.
const STATEMENTS: [&str; 57] = [
    "SELECT c FROM t WHERE id = 1",
    "SELECT c FROM t WHERE id = 1",
    "SELECT c FROM t WHERE id = 2",
    "SELECT c FROM u",
    "SELECT c FROM t FOR UPDATE",
    "INSERT INTO t VALUES (1)",
    "UPDATE t SET c = 1",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "START TRANSACTION READ ONLY",
    "SET TRANSACTION READ ONLY",
    "SET autocommit=0",
    "SET autocommit=1",
    "SET NAMES latin1",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET character_set_results = NULL",
    "SET collation_connection = utf8mb4_bin",
    "SET sql_mode = 'ANSI_QUOTES'",
    "SET @a = 1",
    "SELECT @a := 1",
    "SET GLOBAL x = 1",
    "USE beta",
    "SELECT ROW_COUNT()",
    "SELECT FOUND_ROWS(), 1",
    "SELECT CONNECTION_ID()",
    "SELECT LAST_INSERT_ID()",
    "SELECT @@warning_count, @@error_count",
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SHOW WARNINGS LIMIT 1",
    "GET DIAGNOSTICS @n = NUMBER",
    "SELECT GET_LOCK('a', 1)",
    "SELECT SLEEP(1)",
    "CREATE TEMPORARY TABLE x (a INT)",
    "LOCK TABLES t READ",
    "UNLOCK TABLES",
    "CALL p()",
    "LOAD DATA LOCAL INFILE 'x' INTO TABLE t",
    "SELECT 1; SELECT 2",
    "INSERT INTO t VALUES (1); BEGIN",
    "PREPARE p FROM 'SELECT 1'",
    "XA START 'a'",
    "COMMIT RELEASE",
    "SAVEPOINT a",
    "KILL {}",
    "KILL QUERY {}",
    "KILL CONNECTION_ID()",
    "KILL 101",
    "SELECT c FROM t WHERE id = ?",
    "SELECT c FROM t WHERE id = ? AND c = ?",
    "INSERT INTO t VALUES (?)",
    "SET STATEMENT sql_mode = '' FOR INSERT INTO t VALUES (1)",
    "SET @@lock_wait_timeout = 5",
    "/* 'unclosed",
    ";",
];

/// How a statement is sent.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Text,
    /// With query attributes, of which there are none.
    NoAttributes,
    /// With one.
    Attribute,
    Prepare,
}

/// COM_QUERY or COM_STMT_PREPARE with a statement, the client's mark, and so many bytes more.
pub fn statement(which: u8, form: Form, mark: &str, other: u32, filler: usize) -> Vec<u8> {
    let (kind, attributes): (_, &[u8]) = match form {
        Form::Prepare => (CommandKind::StmtPrepare, b""),
        Form::Text => (CommandKind::Query, b""),
        Form::NoAttributes => (CommandKind::Query, &[0, 1]),
        // Of TINYINT, with the name `a`.
        Form::Attribute => (CommandKind::Query, &[1, 1, 0, 1, 1, 0, 1, b'a', 7]),
    };
    let text = STATEMENTS[usize::from(which) % STATEMENTS.len()].replace("{}", &other.to_string());
    let mut payload = vec![kind as u8];
    payload.extend_from_slice(attributes);
    // In front of a text of several statements the mark would be on the first alone, behind it on the last: the kinds
    // of statement that lose their meaning with a comment behind them are sent without.
    payload.extend_from_slice(text.as_bytes());
    if text.starts_with("SELECT") {
        payload.extend_from_slice(format!(" /*{mark}*/").as_bytes());
    }
    payload.resize(payload.len() + filler, b' ');
    framed(0, &payload)
}

/// What is done with a prepared statement.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Use {
    Execute { flags: u8 },
    Bulk { flags: u8 },
    LongData,
    Fetch,
    Reset,
    Close,
}

/// A command about the client's statement of this number.
pub fn prepared(what: Use, number: u8, body: &[u8]) -> Vec<u8> {
    let number = u32::from(number).to_le_bytes();
    let (kind, between): (_, Vec<u8>) = match what {
        Use::Execute { flags } => (CommandKind::StmtExecute, vec![flags, 1, 0, 0, 0]),
        // Types, and results by unit: flags of two bytes.
        Use::Bulk { flags } => (CommandKind::StmtBulkExecute, vec![flags & 0xc0, 0]),
        Use::LongData => (CommandKind::StmtSendLongData, vec![0, 0]),
        Use::Fetch => (CommandKind::StmtFetch, vec![1, 0, 0, 0]),
        Use::Reset => (CommandKind::StmtReset, Vec::new()),
        Use::Close => (CommandKind::StmtClose, Vec::new()),
    };
    let body =
        if matches!(what, Use::Execute { .. } | Use::Bulk { .. } | Use::LongData) { body } else { b"" };
    framed(0, &[&[kind as u8], &number[..], &between, body].concat())
}

/// A replica asks for the binary log from a file with the client's mark as its name.
pub fn dump(gtid: bool, mark: &str) -> Vec<u8> {
    if gtid {
        let length = u32::try_from(mark.len()).expect("a few bytes").to_le_bytes();
        let head = [&[CommandKind::BinlogDumpGtid as u8, 4, 0], &[1, 0, 0, 0][..], &length].concat();
        return framed(0, &[&head, mark.as_bytes(), &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat());
    }
    let head = [CommandKind::BinlogDump as u8, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    framed(0, &[&head, mark.as_bytes()].concat())
}

/// It says who it is.
pub fn register_replica() -> Vec<u8> {
    framed(0, &[&[CommandKind::RegisterSlave as u8, 1, 0, 0, 0], &[0; 13][..]].concat())
}

/// One message.
pub fn framed(mut sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_message(&mut out, &mut sequence, payload);
    out
}

/// The answer to a greeting. Besides what all clients can do, `extra` chooses capabilities.
pub fn login(user: u8, extra: u8, schema: bool) -> Vec<u8> {
    let all = Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION | Capabilities::TRANSACTIONS;
    let chosen = [
        Capabilities::PLUGIN_AUTH,
        Capabilities::DEPRECATE_EOF,
        Capabilities::MULTI_STATEMENTS,
        Capabilities::SESSION_TRACK,
        Capabilities::LOCAL_FILES,
        Capabilities::FOUND_ROWS,
        Capabilities::CONNECT_ATTRS,
        Capabilities::PLUGIN_AUTH_LENENC_DATA,
    ];
    // The upper bits of the user's number choose from what one kind of server has.
    let own = [
        Capabilities::QUERY_ATTRIBUTES,
        Capabilities::BULK_OPERATIONS | Capabilities::BULK_UNIT_RESULTS,
        Capabilities::EXTENDED_METADATA,
        Capabilities::CACHE_METADATA,
        Capabilities::PROGRESS,
    ];
    let own = own.into_iter().enumerate().filter(|(bit, _)| user >> (3 + bit) & 1 != 0);
    let all = own.fold(all, |capabilities, (_, flag)| capabilities | flag);
    let capabilities = chosen
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| extra >> bit & 1 != 0)
        .fold(all, |capabilities, (_, flag)| capabilities | flag);
    let mut payload = Vec::new();
    LoginRequest {
        capabilities: if schema { capabilities | Capabilities::CONNECT_WITH_DB } else { capabilities },
        max_packet_size: 0,
        collation: if extra & 3 == 0 { 45 } else { 8 },
        user: user_name(user),
        auth_response: b"",
        schema: schema.then_some(b"alpha"),
        auth_plugin: (extra & 1 != 0).then_some(if extra & 2 == 0 {
            b"mysql_native_password"
        } else {
            b"other"
        }),
        attributes: if extra & 4 == 0 { b"" } else { b"\x0c_client_name\x0alibmariadb" },
    }
    .put(&mut payload);
    framed(1, &payload)
}

/// COM_CHANGE_USER, to be followed by an empty packet where the server asks for another answer.
pub fn change_user(user: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    ChangeUser {
        user: user_name(user),
        auth_response: b"",
        schema: (user & 4 != 0).then_some(b"beta"),
        collation: Some(45),
        auth_plugin: None,
        attributes: b"",
    }
    .put(&mut payload);
    framed(0, &payload)
}

/// An account, or nobody.
fn user_name(user: u8) -> &'static [u8] {
    ACCOUNTS.get(usize::from(user % 5)).map_or(b"nobody", |(name, _, _)| name.as_bytes())
}
