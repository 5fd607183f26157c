use sql::LexMode;

use super::*;

#[test]
fn mysql_forgets_diagnostics_sooner() {
    let leaves = |text: &str, is_mariadb| {
        let mut request = Request::query(text);
        request.statement = sql::classify(text.as_bytes(), LexMode::default());
        request.leaves_diagnostics(is_mariadb)
    };
    for text in ["SET autocommit = 1", "BEGIN", "USE a", "UNLOCK TABLES", "DEALLOCATE PREPARE p"] {
        assert!(leaves(text, true) && !leaves(text, false), "{text}");
    }
    assert!(!leaves("DELETE FROM t", true));
    let other = Request::plain(Vec::new(), Expect::Simple, RequestKind::Other);
    assert!(other.leaves_diagnostics(true) && other.leaves_diagnostics(false));
}

#[test]
fn only_a_semicolon_at_the_end_is_surely_one_statement() {
    assert!(!may_be_several(b"SELECT 1"));
    assert!(!may_be_several(b"SELECT 1; \n;"));
    assert!(may_be_several(b"SELECT 1; SELECT 2"));
    assert!(may_be_several(b"SELECT ';'"));
    assert!(!may_be_several(b";"));
}
