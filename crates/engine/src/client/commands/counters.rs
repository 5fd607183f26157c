//! A client's counts of its commands about prepared statements, and its TLS, as SHOW STATUS tells them of a session.
//!
//! The server counts for its own sessions, which are backends. Drivers and their authors look there at what becomes of
//! their statements. The rules of counting have been tried on MariaDB 10.11 and MySQL 8.0 and 9.7. Counted are: preparing
//! with or without success, closing what is there, and executing what is there with all its values. Fetching, resetting
//! and sending ahead count with MariaDB in any case, and with MySQL where the statement (and the parameter) is there.

use sql::{Kind, ResourceChange};

use crate::backend::Summary;
use crate::client::Client;
use crate::client::commands::statement_counters::{Counter, Counters};
use crate::request::{Request, RequestKind};
use crate::server::Server;

/// ER_WRONG_ARGUMENTS, ER_UNSUPPORTED_PS of a bulk execution, and ER_MALFORMED_PACKET.
const WRONG_ARGUMENTS: u16 = 1210;
const NOT_EXECUTED: [u16; 2] = [1295, 1835];

/// ER_UNKNOWN_STMT_HANDLER.
const UNKNOWN_STATEMENT: u16 = 1243;

/// The values of a client itself that SHOW STATUS tells.
#[derive(Default)]
pub(in crate::client) struct Own {
    counters: Counters,
    /// `Ssl_version` and `Ssl_cipher` of its connection; without TLS empty, as the servers have it.
    version: String,
    cipher: &'static str,
}

impl Own {
    pub(in crate::client) fn of(client: &Client) -> Self {
        let tls = client.tls();
        Self {
            counters: client
                .session
                .statements
                .as_ref()
                .map(|statements| statements.counters)
                .unwrap_or_default(),
            version: tls.map(|session| session.version.to_string()).unwrap_or_default(),
            cipher: tls.map(|session| session.cipher).unwrap_or_default(),
        }
    }

    fn value(&self, name: &[u8]) -> Option<String> {
        match name {
            b"Ssl_version" => Some(self.version.clone()),
            b"Ssl_cipher" => Some(self.cipher.to_owned()),
            _ => {
                let counted = name.strip_prefix(b"Com_stmt_")?;
                self.counters.by_name(counted).map(|count| count.to_string())
            }
        }
    }
}

/// Returns a row of SHOW STATUS with the client's own value in it. `None` where the row shows something else. The
/// packets that end the rows do not begin with a name.
pub(in crate::client) fn row_of_client(row: &[u8], own: &Own) -> Option<Vec<u8>> {
    let fields = wire::parse_text_row(row).ok()?;
    let [Some(name), Some(_)] = fields[..] else { return None };
    let value = own.value(name)?;
    let mut out = Vec::with_capacity(row.len() + value.len());
    wire::put_lenenc_bytes(&mut out, name);
    wire::put_lenenc_bytes(&mut out, value.as_bytes());
    Some(out)
}

impl Client {
    /// Counts one more.
    pub(crate) fn count(&mut self, counter: Counter) {
        let count = self.session.statements.get_or_insert_default().counters.of(counter);
        *count = count.wrapping_add(1);
    }

    /// Counts one more where the server is a MariaDB, which counts before it looks whether the statement is there. Says whether it is one.
    pub(super) fn count_if_mariadb(&mut self, server: &Server, counter: Counter) -> bool {
        let is_mariadb = server.is_mariadb();
        if is_mariadb {
            self.count(counter);
        }
        is_mariadb
    }

    /// Counts by a command that has ended. Its text may have prepared, executed or closed something. An execution that
    /// was none is taken off again.
    pub(crate) fn count_ended(&mut self, request: &Request, summary: &Summary) {
        let error = summary.error.as_ref();
        let code = error.map(|error| error.code);
        if request.command == RequestKind::Execute {
            let none = error.is_some_and(|error| {
                let lacks =
                    error.code == WRONG_ARGUMENTS && error.message.windows(7).any(|part| part == b"mysqld_");
                lacks || NOT_EXECUTED.contains(&error.code)
            });
            if let Some(statements) = self.session.statements.as_mut().filter(|_| none) {
                let count = statements.counters.of(Execute);
                *count = count.wrapping_sub(1);
            }
            return;
        }
        if request.command != RequestKind::Query || request.statement.several {
            return;
        }
        let replaces =
            |name| self.session.named_resources.as_ref().is_some_and(|held| held.has_prepared(name));
        use Counter::{Close, Execute, Prepare};
        let counted: &[Counter] = match (request.statement.kind, request.changes.named_resource.as_deref()) {
            (Kind::Prepare, Some(ResourceChange::Prepares { name, .. })) if replaces(name) => {
                &[Close, Prepare]
            }
            (Kind::Prepare, _) => &[Prepare],
            (Kind::Execute, Some(ResourceChange::Executes(_))) => match code {
                Some(UNKNOWN_STATEMENT | WRONG_ARGUMENTS) => &[],
                _ => &[Execute],
            },
            // EXECUTE IMMEDIATE.
            (Kind::Execute, _) if error.is_none() => &[Prepare, Execute, Close],
            (Kind::Deallocate, _) if error.is_none() => &[Close],
            _ => &[],
        };
        for &counter in counted {
            self.count(counter);
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::{Capabilities, Column, ResultSetWriter, StatusFlags};

    use super::*;
    use crate::client::answers::buffered_answer::with_rows;

    fn answer(rows: &[(&str, &str)], capabilities: Capabilities) -> Vec<u8> {
        let (mut out, mut sequence) = (Vec::new(), 1);
        let columns = [Column::text("Variable_name"), Column::text("Value")];
        let status = StatusFlags::AUTOCOMMIT;
        let mut writer = ResultSetWriter::begin(&mut out, &mut sequence, &columns, status, capabilities);
        for (name, value) in rows {
            writer.row(&[Some(name.as_bytes()), Some(value.as_bytes())]);
        }
        writer.finish();
        out
    }

    #[test]
    fn counters_and_tls_are_the_clients_own() {
        let mut own =
            Own { version: "TLSv1.3".to_owned(), cipher: "TLS_AES_256_GCM_SHA384", ..Own::default() };
        *own.counters.of(Counter::Close) = u64::MAX;
        *own.counters.of(Counter::Fetch) = 3;
        let rewritten = |answer: &[u8]| with_rows(answer, |row| row_of_client(row, &own));
        for capabilities in [Capabilities::NONE, Capabilities::DEPRECATE_EOF, Capabilities::CACHE_METADATA] {
            let others =
                [("Com_stmt_reprepare", "5"), ("Com_stmt_closed", "6"), ("Uptime", "7"), ("Com_stmt_", "8")];
            let counted = [
                ("Com_stmt_close", "1"),
                ("Com_stmt_fetch", "12"),
                ("Com_stmt_prepare", "345"),
                ("Ssl_version", ""),
                ("Ssl_cipher", "ECDHE-RSA-AES128-GCM-SHA256"),
            ];
            let theirs = [
                ("Com_stmt_close", "18446744073709551615"),
                ("Com_stmt_fetch", "3"),
                ("Com_stmt_prepare", "0"),
                ("Ssl_version", "TLSv1.3"),
                ("Ssl_cipher", "TLS_AES_256_GCM_SHA384"),
            ];
            let before = answer(&[&counted[..], &others].concat(), capabilities);
            assert_eq!(rewritten(&before), answer(&[&theirs[..], &others].concat(), capabilities));
            for cut in 0..before.len() {
                rewritten(&before[..cut]);
            }
        }
        let mut error = Vec::new();
        wire::put_message(&mut error, &mut 1, b"\xff\x48\x04#HY000no");
        assert_eq!(rewritten(&error), error);
    }
}
