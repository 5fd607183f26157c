use super::*;

fn read(text: &str) -> Option<ResourceChange> {
    resource_change(text.as_bytes(), LexMode::default())
}

fn table(name: &str) -> TableName {
    match name.split_once('.') {
        Some((schema, table)) => {
            TableName { schema: Some(schema.as_bytes().into()), table: table.as_bytes().into() }
        }
        None => TableName { schema: None, table: name.as_bytes().into() },
    }
}

#[test]
fn temporary_tables_by_name() {
    let created = |name: &str| Some(ResourceChange::CreatesTable(table(name)));
    assert_eq!(read("CREATE TEMPORARY TABLE t (a INT)"), created("t"));
    assert_eq!(read("create /* x */ or replace temporary table `db` . `t` as select 1;"), created("db.t"));
    assert_eq!(read("CREATE TEMPORARY TABLE IF NOT EXISTS t LIKE u"), created("t"));
    let dropped =
        |names: &[&str]| Some(ResourceChange::DropsTables(names.iter().map(|name| table(name)).collect()));
    assert_eq!(read("DROP TABLE t"), dropped(&["t"]));
    assert_eq!(read("DROP TEMPORARY TABLE IF EXISTS t, db.u CASCADE"), dropped(&["t", "db.u"]));
    for other in
        ["CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT", "TRUNCATE TABLE t", "DROP INDEX i ON t"]
    {
        assert_eq!(read(other), Some(ResourceChange::Unchanged), "{other}");
    }
}

#[test]
fn what_may_rename_or_is_not_plain_is_not_understood() {
    for text in [
        "ALTER TABLE t ADD b INT, RENAME TO u",
        "RENAME TABLE t TO u",
        "CREATE TEMPORARY TABLE `t``u` (a INT)",
        "CREATE TEMPORARY TABLE tä (a INT)",
        "CREATE TEMPORARY SEQUENCE s",
        "CREATE TEMPORARY TABLE t (a INT); SELECT 1",
        "DROP TEMPORARY SEQUENCE s",
        "DROP TABLE t WAIT 1",
        "DROP TABLE t/*!50000 , u */",
        "DROP TABLE `t",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn named_locks_in_the_plain_form() {
    let name = || b"a.b".as_slice().into();
    assert_eq!(read("SELECT GET_LOCK('a.b', 10)"), Some(ResourceChange::TakesLock(name())));
    assert_eq!(read("select get_lock(\"a.b\", -1) as l;"), Some(ResourceChange::TakesLock(name())));
    assert_eq!(read("DO RELEASE_LOCK('a.b')"), Some(ResourceChange::FreesLock(name())));
    assert_eq!(read("SELECT RELEASE_ALL_LOCKS()"), Some(ResourceChange::FreesAllLocks));
    for text in [
        "SELECT GET_LOCK('a', 1), GET_LOCK('b', 1)",
        "SELECT GET_LOCK('a' 'b', 1)",
        "SELECT GET_LOCK('it''s', 1)",
        "SELECT GET_LOCK(@a, 1)",
        "SELECT GET_LOCK('a', 1) FROM t",
        "SELECT GET_LOCK('a', 1) = 1",
        "SELECT RELEASE_LOCK('a') FROM t WHERE b",
        "SELECT 1 + RELEASE_ALL_LOCKS()",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn table_locks() {
    assert_eq!(read("LOCK TABLES t READ, u WRITE"), Some(ResourceChange::LocksTables));
    assert_eq!(read("LOCK TABLE t AS x READ LOCAL"), Some(ResourceChange::LocksTables));
    assert_eq!(read("FLUSH TABLES WITH READ LOCK"), Some(ResourceChange::LocksAllTables));
    assert_eq!(read("FLUSH LOCAL TABLES t, db.u WITH READ LOCK"), Some(ResourceChange::LocksTables));
    assert_eq!(read("FLUSH TABLES t FOR EXPORT"), Some(ResourceChange::LocksTables));
    assert_eq!(read("LOCK INSTANCE FOR BACKUP"), Some(ResourceChange::LocksInstance));
    assert_eq!(read("UNLOCK TABLES"), Some(ResourceChange::UnlocksTables));
    assert_eq!(read("UNLOCK INSTANCE"), Some(ResourceChange::UnlocksInstance));
    assert_eq!(read("BACKUP STAGE START"), None);
    assert_eq!(read("FLUSH TABLES WITH READ LOCK AND DISABLE CHECKPOINT"), None);
}

#[test]
fn prepared_statements_by_name_and_by_what_they_do() {
    let literal = |text: &str| PreparedText { text: text.as_bytes().into(), mode: LexMode::default() };
    let prepared = |text| Some(ResourceChange::Prepares { name: b"s".as_slice().into(), text });
    assert_eq!(read("PREPARE S FROM 'SELECT ?'"), prepared(Some(literal("SELECT ?"))));
    let insert = "INSERT INTO t VALUES (?, 'x')";
    assert_eq!(read(&format!("PREPARE s FROM \"{insert}\"")), prepared(Some(literal(insert))));
    for text in
        ["'SET @a = 1'", "'CALL p()'", "'ALTER TABLE t RENAME u'", "'SELECT f()'", "'SET NAMES latin1'"]
    {
        assert_eq!(read(&format!("PREPARE s FROM {text}")), prepared(None), "{text}");
    }
    for text in ["@a", "'SELECT' ' 1'", r"'SELECT \'a\''", "CONCAT('a')", "'SELECT 1' || @a"] {
        assert_eq!(read(&format!("PREPARE s FROM {text}")), prepared(None), "{text}");
    }
    for text in ["SET time_zone = '+01:00'", "SET @@session.sql_mode = 4"] {
        assert_eq!(read(&format!("PREPARE s FROM \"{text}\"")), prepared(Some(literal(text))), "{text}");
    }
    for text in ["SET @@time_zone = '+01:00'", "SET STATEMENT time_zone = '+01:00' FOR SELECT 1"] {
        assert_eq!(read(&format!("PREPARE s FROM \"{text}\"")), prepared(None), "{text}");
        assert_eq!(read(&format!("EXECUTE IMMEDIATE \"{text}\"")), None, "{text}");
    }
    assert_eq!(read("EXECUTE s USING @a"), Some(ResourceChange::Executes(b"s".as_slice().into())));
    assert_eq!(
        read("EXECUTE IMMEDIATE 'SELECT 1'"),
        Some(ResourceChange::ExecutesHarmless(literal("SELECT 1")))
    );
    assert_eq!(read("EXECUTE IMMEDIATE 'DO GET_LOCK(1,1)'"), None);
    assert_eq!(read("DEALLOCATE PREPARE S"), Some(ResourceChange::Deallocates(b"s".as_slice().into())));
    assert_eq!(read("DROP PREPARE `s`"), Some(ResourceChange::Deallocates(b"s".as_slice().into())));
}

#[test]
fn handlers_by_alias() {
    let name = |name: &str| name.as_bytes().into();
    assert_eq!(read("HANDLER t OPEN"), Some(ResourceChange::OpensHandler(name("t"))));
    assert_eq!(read("HANDLER db.t OPEN AS h"), Some(ResourceChange::OpensHandler(name("h"))));
    assert_eq!(read("HANDLER db.t OPEN h"), Some(ResourceChange::OpensHandler(name("h"))));
    assert_eq!(read("HANDLER h READ `PRIMARY` = (1) LIMIT 2"), Some(ResourceChange::Unchanged));
    assert_eq!(read("HANDLER h CLOSE"), Some(ResourceChange::ClosesHandler(name("h"))));
    assert_eq!(read("HANDLER db.h CLOSE"), None);
}
