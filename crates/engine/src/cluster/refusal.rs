//! The meaning of a server's refusal of a statement, and the part of a refused or lost statement that can have run.

use sql::{Effects, Kind};

use crate::request::{Request, RequestKind};

/// ER_OPTION_PREVENTS_STATEMENT, with which a server refuses writes under `read_only`. Below, ER_READ_ONLY_MODE, under `innodb_read_only`.
const PREVENTED: u16 = 1290;
const READ_ONLY_MODE: u16 = 1836;
/// ER_UNKNOWN_COM_ERROR. A node of Galera that is out of the primary component refuses every command with it, before it begins with the
/// command (mysql_execute_command in sql_parse.cc of MariaDB).
const UNKNOWN_COMMAND: u16 = 1047;

/// Says whether a server's error means that it takes no writes now, or nothing at all.
pub(crate) fn is_refusal_by_role(code: u16, message: &[u8]) -> bool {
    let names = |words: &[u8]| message.windows(words.len()).any(|part| part == words);
    match code {
        READ_ONLY_MODE => true,
        // Also for other options that forbid a statement; both servers write --read-only, MySQL --super-read-only too.
        PREVENTED => names(b"read-only") || names(b"read_only"),
        UNKNOWN_COMMAND => names(b"WSREP has not yet prepared node"),
        _ => false,
    }
}

/// Says whether the request is a COMMIT and nothing else. A server that refuses one for `read_only` has rolled the transaction back
/// (ha_commit_trans in handler.cc of both), and no routine or trigger speaks in its place.
pub(super) fn is_commit_alone(request: &Request) -> bool {
    request.statement.kind == Kind::Commit && !request.statement.several
}

/// Says whether a statement leaves an open transaction open in any case. One that commits, by itself or in a routine, does not.
pub(super) fn cannot_commit(request: &Request) -> bool {
    let statement = &request.statement;
    let commits_nothing = matches!(
        statement.kind,
        Kind::Select
            | Kind::Insert
            | Kind::Replace
            | Kind::Update
            | Kind::Delete
            | Kind::Do
            | Kind::Show
            | Kind::ShowWarnings
            | Kind::ShowDiagnostics
            | Kind::Explain
            | Kind::Savepoint
            | Kind::Rollback
    );
    commits_nothing && !statement.several && !statement.effects.contains(Effects::UNKNOWN)
}

/// Says whether nothing of a statement has run that was refused for `read_only`. That is so for one statement alone, outside of routines,
/// since a part of several, or of a routine, may have been let through.
pub(super) fn may_be_sent_again(request: &Request) -> bool {
    let statement = &request.statement;
    let is_one = matches!(
        statement.kind,
        Kind::Select | Kind::Insert | Kind::Replace | Kind::Update | Kind::Delete | Kind::Ddl
    );
    is_one
        && !statement.several
        && statement.effects.intersection(Effects::UNKNOWN.union(Effects::ROUTINE)).is_empty()
        && (request.command == RequestKind::Query || request.is_plain_execution())
}

#[cfg(test)]
pub(super) mod tests {
    use wire::Expect;

    use super::*;

    pub(in crate::cluster) fn request(text: &str) -> Request {
        let mode = sql::LexMode::default();
        let classified = sql::classify(text.as_bytes(), mode);
        let mut request = Request::plain(text.into(), Expect::ResultSets, RequestKind::Query);
        request.statement.kind = classified.kind;
        request.statement.effects = classified.effects;
        request.statement.several = classified.several;
        request
    }

    #[test]
    fn what_may_commit_is_never_told_to_be_rolled_back() {
        for text in ["SELECT 1", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "SAVEPOINT a", "ROLLBACK"]
        {
            assert!(cannot_commit(&request(text)), "{text}");
        }
        for text in [
            "COMMIT",
            "INSERT INTO t VALUES (1); COMMIT",
            "CALL p()",
            "CREATE TABLE t (a INT)",
            "BEGIN",
            "SET autocommit = 1",
            "XA COMMIT 'a'",
            "EXECUTE s",
            "LOCK TABLES t WRITE",
        ] {
            assert!(!cannot_commit(&request(text)), "{text}");
        }
    }

    #[test]
    fn a_commit_that_was_refused_is_no_more_than_that() {
        assert!(is_commit_alone(&request("COMMIT")) && is_commit_alone(&request("commit and chain")));
        for text in
            ["COMMIT; DO 1", "INSERT INTO t VALUES (1); COMMIT", "CALL p()", "XA COMMIT 'a'", "ROLLBACK"]
        {
            assert!(!is_commit_alone(&request(text)), "{text}");
        }
    }

    #[test]
    fn what_was_refused_goes_elsewhere_only_where_nothing_of_it_has_run() {
        for text in
            ["INSERT INTO t VALUES (1)", "DELETE FROM t", "SELECT a FROM t FOR UPDATE", "DROP TABLE t"]
        {
            assert!(may_be_sent_again(&request(text)), "{text}");
        }
        for text in
            ["CALL p()", "INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)", "SET GLOBAL a = 1", "DO f()"]
        {
            assert!(!may_be_sent_again(&request(text)), "{text}");
        }
    }

    #[test]
    fn other_options_that_forbid_a_statement_are_the_clients_affair() {
        let read_only =
            b"The MariaDB server is running with the --read-only option so it cannot execute this statement";
        assert!(is_refusal_by_role(1290, read_only));
        assert!(is_refusal_by_role(1290, b"The MySQL server is running with the --super-read-only option"));
        assert!(is_refusal_by_role(1836, b"Running in read-only mode"));
        assert!(!is_refusal_by_role(1290, b"The MySQL server is running with the --secure-file-priv option"));
        assert!(is_refusal_by_role(1047, b"WSREP has not yet prepared node for application use"));
        assert!(!is_refusal_by_role(1047, b"Unknown command"));
        assert!(!is_refusal_by_role(1792, b"Cannot execute statement in a READ ONLY transaction"));
    }
}
