//! What clients say: their logins, and statements on which the engine's answer turns.

use wire::{Capabilities, ChangeUser, CommandKind, LoginRequest, put_message};

use crate::server::ACCOUNTS;

/// Statements of all the kinds that the engine tells apart. `{}` is the id of some client.
const STATEMENTS: [&str; 52] = [
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
    "/* 'unclosed",
    ";",
];

/// COM_QUERY or COM_STMT_PREPARE with a statement, the client's mark, and so many bytes more.
pub fn statement(which: u8, prepare: bool, mark: &str, other: u32, filler: usize) -> Vec<u8> {
    let kind = if prepare { CommandKind::StmtPrepare } else { CommandKind::Query };
    let text = STATEMENTS[usize::from(which) % STATEMENTS.len()].replace("{}", &other.to_string());
    let mut payload = vec![kind as u8];
    // In front of a text of several statements the mark would be on the first alone, behind it on the last: the kinds
    // of statement that lose their meaning with a comment behind them are sent without.
    payload.extend_from_slice(text.as_bytes());
    if text.starts_with("SELECT") {
        payload.extend_from_slice(format!(" /*{mark}*/").as_bytes());
    }
    payload.resize(payload.len() + filler, b' ');
    framed(0, &payload)
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
