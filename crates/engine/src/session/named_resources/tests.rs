use super::*;

const TOOK: Ending = Ending::Succeeded { took: true };
const TOOK_NOT: Ending = Ending::Succeeded { took: false };

impl NamedResources {
    fn run(&mut self, text: &str, ending: Ending) -> Vec<&'static str> {
        let statement = sql::classify(text.as_bytes(), LexMode::default());
        let change = whole_resource_change(&statement, text.as_bytes(), LexMode::default());
        self.note(&statement, change.as_ref(), Some(b"db"), ending);
        self.effects().names().collect()
    }
}

#[test]
fn the_last_temporary_table_ends_the_pin() {
    let mut held = NamedResources::default();
    assert_eq!(held.run("CREATE TEMPORARY TABLE a (x INT)", TOOK), ["temporary_table"]);
    assert_eq!(held.run("CREATE TEMPORARY TABLE b (x INT)", TOOK), ["temporary_table"]);
    assert_eq!(held.run("DROP TEMPORARY TABLE a, b", Ending::Failed), ["temporary_table"]);
    assert_eq!(held.run("DROP TABLE db.a", TOOK), ["temporary_table"]);
    assert_eq!(held.run("DROP TABLE other.b", TOOK), ["temporary_table"]);
    assert_eq!(held.run("DROP TABLE `b`", TOOK), [""; 0]);
}

#[test]
fn a_table_that_may_have_another_name_stays() {
    let mut held = NamedResources::default();
    held.run("CREATE TEMPORARY TABLE a (x INT)", TOOK);
    held.run("ALTER TABLE a ADD y INT", TOOK);
    assert_eq!(held.nameless, Effects::NONE);
    held.run("RENAME TABLE a TO b", TOOK);
    assert_eq!(held.run("DROP TABLE a", TOOK), ["temporary_table"]);
}

#[test]
fn locks_that_a_form_does_not_tell_of_stay() {
    for (text, also) in [
        ("CREATE TABLE t AS SELECT GET_LOCK('a', 1)", ""),
        ("CREATE TEMPORARY TABLE t AS SELECT GET_LOCK('a', 1)", "temporary_table"),
        ("HANDLER t READ FIRST WHERE GET_LOCK('a', 1)", "handler"),
    ] {
        let mut held = NamedResources::default();
        held.run("CREATE TEMPORARY TABLE t (x INT)", TOOK);
        held.run(text, TOOK);
        let left = held.run("DROP TABLE t", TOOK);
        assert!(left.contains(&"named_lock"), "{text}");
        assert!(also.is_empty() || left.contains(&also), "{text}");
    }
    assert_eq!(NamedResources::default().run("HANDLER t READ FIRST", TOOK), [""; 0]);
}

#[test]
fn locks_are_counted_and_stay_in_doubt() {
    let mut held = NamedResources::default();
    assert_eq!(held.run("SELECT GET_LOCK('a', 1)", TOOK_NOT), [""; 0]);
    held.run("SELECT GET_LOCK('a', 1)", TOOK);
    held.run("SELECT GET_LOCK('a', 1)", TOOK);
    assert_eq!(held.run("SELECT RELEASE_LOCK('a')", TOOK), ["named_lock"]);
    assert_eq!(held.run("SELECT RELEASE_LOCK('b')", TOOK), ["named_lock"]);
    assert_eq!(held.run("DO RELEASE_LOCK('a')", TOOK), [""; 0]);
    held.run("SELECT GET_LOCK('c', 1)", Ending::Failed);
    assert_eq!(held.run("SELECT RELEASE_ALL_LOCKS()", TOOK), [""; 0]);
    held.run("SELECT GET_LOCK(CONCAT('a'), 1)", TOOK);
    assert_eq!(held.run("SELECT RELEASE_ALL_LOCKS()", TOOK), ["named_lock"], "nobody knows which");
}

#[test]
fn table_locks_end_with_what_ends_them() {
    let mut held = NamedResources::default();
    held.run("LOCK TABLES t READ", TOOK);
    assert_eq!(held.run("BEGIN", TOOK), [""; 0]);
    held.run("FLUSH TABLES WITH READ LOCK", TOOK);
    assert_eq!(held.run("BEGIN", TOOK), ["lock_tables"], "a global read lock outlives it");
    assert_eq!(held.run("UNLOCK TABLES", TOOK), [""; 0]);
    held.run("LOCK INSTANCE FOR BACKUP", TOOK);
    assert_eq!(held.run("UNLOCK TABLES", TOOK), ["lock_tables"]);
    assert_eq!(held.run("UNLOCK INSTANCE", TOOK), [""; 0]);
}

#[test]
fn executing_what_leaves_something_keeps_the_pin() {
    let mut held = NamedResources::default();
    held.run("PREPARE s FROM 'SELECT 1'", TOOK);
    held.run("EXECUTE S", TOOK);
    assert_eq!(held.run("DEALLOCATE PREPARE s", TOOK), [""; 0]);
    held.run("PREPARE s FROM 'SET @a = 1'", TOOK);
    assert_eq!(held.run("DROP PREPARE s", TOOK), [""; 0], "it has not been executed");
    held.run("PREPARE s FROM 'SET @a = 1'", TOOK);
    held.run("EXECUTE s", TOOK);
    assert_eq!(held.run("DROP PREPARE s", TOOK), ["text_prepare"]);
}

#[test]
fn texts_that_are_executed_by_name_are_kept_and_bounded() {
    let mut held = NamedResources::default();
    held.run("PREPARE s FROM 'INSERT INTO t VALUES (1)'", TOOK);
    assert_eq!(&*held.text(b"s").unwrap().text, b"INSERT INTO t VALUES (1)");
    held.run("PREPARE s FROM @text", TOOK);
    assert_eq!(held.text(b"s"), None, "it has another text now");
    for name in ["a", "b"] {
        held.run(&format!("PREPARE {name} FROM 'SELECT {}'", "1".repeat(MOST_TEXT - 100)), TOOK);
    }
    assert!(held.text(b"a").is_some() && held.text(b"b").is_none());
    held.run("EXECUTE b", TOOK);
    held.run("DEALLOCATE PREPARE s", TOOK);
    held.run("DEALLOCATE PREPARE a", TOOK);
    assert_eq!(held.texts(), 0);
    assert_eq!(held.run("DEALLOCATE PREPARE b", TOOK), ["text_prepare"], "it is not known what it was");
    let mut held = NamedResources::default();
    let prepares = "PREPARE s FROM 'SELECT 1'";
    let statement = sql::classify(prepares.as_bytes(), LexMode::default());
    let change = sql::resource_change(prepares.as_bytes(), LexMode::default());
    held.note(&statement, change.as_ref(), Some(b"SYS"), TOOK);
    assert_eq!(held.text(b"s"), None, "it is of that schema wherever it is executed");
}

#[test]
fn handlers_by_name() {
    let mut held = NamedResources::default();
    held.run("HANDLER t OPEN AS h", TOOK);
    assert_eq!(held.run("HANDLER h READ FIRST", TOOK), ["handler"]);
    assert_eq!(held.run("HANDLER t CLOSE", Ending::Failed), ["handler"]);
    assert_eq!(held.run("HANDLER h CLOSE", TOOK), [""; 0]);
}

#[test]
fn names_are_bounded() {
    let mut held = NamedResources::default();
    for number in 0..=MOST_NAMES {
        held.run(&format!("SELECT GET_LOCK('{number}', 1)"), TOOK);
    }
    assert_eq!(held.names(), 0);
    assert_eq!(held.run("SELECT RELEASE_ALL_LOCKS()", TOOK), ["named_lock"]);
}
