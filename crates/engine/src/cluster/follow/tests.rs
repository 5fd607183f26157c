use wire::Expect;

use super::*;
use crate::cluster::testing::{two_servers, writes};
use crate::settings::Settings;

/// What the checks of a server would have said at this time.
fn seen(engine: &mut Engine, at: u64, place: usize, writable: bool) {
    engine.now = Instant::from_micros(at);
    engine.cluster.seen(engine.now, place, writes(place, writable));
}

#[test]
fn the_limit_of_a_new_primary_starts_low() {
    let settings = Settings { permits_min: 100, ..two_servers() };
    let mut engine = Engine::new(settings.clone());
    // What has been found stays, as far as it may.
    engine.change_settings(&Settings { permits_min: 4, ..settings });
    let permits = |engine: &Engine| engine.pool.workers.permits();
    seen(&mut engine, 1, 0, true);
    seen(&mut engine, 1, 1, false);
    engine.cluster_turn();
    assert_eq!(permits(&engine), 100, "the first one is what it was found on");
    seen(&mut engine, 2, 0, false);
    engine.cluster_turn();
    seen(&mut engine, 3, 0, true);
    engine.cluster_turn();
    assert_eq!(permits(&engine), 100, "it is the same one again");
    seen(&mut engine, 4, 0, false);
    seen(&mut engine, 4, 1, true);
    engine.cluster_turn();
    assert_eq!(permits(&engine), 16);
}

fn request(text: &str) -> Request {
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
    for text in ["SELECT 1", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "SAVEPOINT a", "ROLLBACK"] {
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
    for text in ["COMMIT; DO 1", "INSERT INTO t VALUES (1); COMMIT", "CALL p()", "XA COMMIT 'a'", "ROLLBACK"]
    {
        assert!(!is_commit_alone(&request(text)), "{text}");
    }
}

#[test]
fn what_was_refused_goes_elsewhere_only_where_nothing_of_it_has_run() {
    for text in ["INSERT INTO t VALUES (1)", "DELETE FROM t", "SELECT a FROM t FOR UPDATE", "DROP TABLE t"] {
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
