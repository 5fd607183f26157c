use super::*;
use crate::{Defines, Definitions, MOST_TOKENS, QualifiedName, definitions};

const REPORTED: CodeEffects = CodeEffects::REPORTED;
const SILENT: CodeEffects = CodeEffects::SILENT;
const READS: CodeEffects = CodeEffects::READS_VARIABLES;
const NONE: CodeEffects = CodeEffects::NONE;

fn of(body: &str) -> CodeEffects {
    stored_code(CodeKind::Routine, b"", body.as_bytes(), LexMode::default()).effects
}

fn of_view(text: &str) -> CodeEffects {
    stored_code(CodeKind::Expression, b"", text.as_bytes(), LexMode::default()).effects
}

#[test]
fn what_triggers_usually_do_changes_nothing_of_the_session() {
    for body in [
        "SET NEW.changed = NOW()",
        "SET NEW.a = 1, new.`b` = CASE WHEN OLD.a THEN (1, 2) ELSE f(3, 4) END, NEW.c = OLD.c",
        "INSERT INTO audit (who, what) VALUES (CURRENT_USER(), NEW.id)",
        "INSERT INTO audit SET who = 1, what = 'SET @a = 1'",
        "UPDATE totals SET n = n + 1, m = 2 WHERE id = NEW.id",
        "INSERT INTO t SELECT 1 ON DUPLICATE KEY UPDATE n = n + 1",
        "BEGIN DECLARE done, more INT DEFAULT 0; DECLARE EXIT HANDLER FOR NOT FOUND SET done = 1; SET more = 2; END",
        "BEGIN DECLARE n INT; SELECT COUNT(*) INTO n FROM t WHERE x = REPLACE(NEW.y, 'a', 'b'); SET n = 1; END",
        "IF NEW.a < 0 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'below', MYSQL_ERRNO = 5; END IF",
        "BEGIN DECLARE c CURSOR FOR SELECT a FROM t; DECLARE a INT; OPEN c; FETCH c INTO a; CLOSE c; END",
        "RETURN CONVERT(x USING utf8mb4)",
        "RETURN (SELECT MAX(a) FROM t WHERE b = @@time_zone)",
        "BEGIN REPLACE INTO t SET a = 1; REPLACE t (a) VALUES (1); END",
        "SET NEW.a = REPEAT('x', 3)",
        "SET NEW.a = LASTVAL(s)",
        "SELECT `get_lock`, `GET_LOCK` AS `nextval` FROM t",
        "BEGIN DECLARE s VARCHAR(9) CHARACTER SET latin1; SET s = RELEASE_LOCK('x'); END",
    ] {
        assert_eq!(of(body), NONE, "{body}");
    }
}

#[test]
fn what_the_servers_report_is_told_apart() {
    for body in [
        "SET time_zone = '+01:00'",
        "SET @@session.time_zone = '+01:00'",
        "SET @a = 1",
        "SET NEW.a = 1, @b = 2",
        "SET NEW.a = (SELECT 1, 2), SESSION sql_mode = ''",
        "BEGIN UPDATE t SET a = 1; SET sql_safe_updates = 1; END",
        "IF x THEN SET sql_notes = 0; ELSE SET NEW.a = 1; END IF",
        "DROP TEMPORARY TABLE IF EXISTS x",
        "SET STATEMENT sql_mode = '' FOR INSERT INTO t VALUES (1)",
        "SET NAMES latin1",
        "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION SET @failed = 1; INSERT INTO t VALUES (1); END",
    ] {
        assert_eq!(of(body), REPORTED, "{body}");
    }
}

#[test]
fn what_nobody_reports_is_found() {
    for body in [
        "SET @@time_zone = '+01:00'",
        "SET NEW.a = 1, @@timestamp = 5",
        "SET @@ time_zone = '+01:00'",
        "DO GET_LOCK('x', 0)",
        "DO `GET_LOCK`('x', 0)",
        "DO `get_lock` /* too */ ('x', 0)",
        "SET NEW.a = NEXTVAL(s)",
        "SET NEW.a = NEXT VALUE FOR s",
        "SET NEW.a = s.nextval",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "HANDLER t OPEN",
        "time_zone := '+01:00'",
        "`time_zone` := '+01:00'",
    ] {
        assert_eq!(of(body), SILENT, "{body}");
    }
    for body in [
        "SELECT 1 INTO @a",
        "SELECT a, b FROM t FOR UPDATE INTO x, @a",
        "FETCH c INTO a, b.c, @d",
        "INSERT INTO t VALUES (@a := 1)",
        "UPDATE t SET a = (@b := a)",
        "CALL p(1, @a)",
        "CALL p(CASE WHEN 1 THEN 2 ELSE 3 END, @a)",
        "GET CURRENT DIAGNOSTICS @n = NUMBER",
        "/*!50000 SELECT 1 INTO @a */",
    ] {
        assert_eq!(of(body), SILENT | READS, "{body}");
    }
    for body in ["SET ROLE admin", "BEGIN set role none; END", "IF x THEN SET /* no */ Role DEFAULT; END IF"]
    {
        assert_eq!(of(body), SILENT | CodeEffects::ROLE, "{body}");
    }
    assert_eq!(of("SELECT 'without an end"), CodeEffects::ALL);
}

#[test]
fn reading_is_told_apart() {
    assert_eq!(of("INSERT INTO t SELECT @a, b FROM u"), READS);
    assert_eq!(of("SET NEW.a = @on"), READS);
    assert_eq!(of("SET NEW.a = LAST_INSERT_ID()"), CodeEffects::READS_INSERT_ID);
    assert_eq!(of("SET NEW.a = @@identity"), CodeEffects::READS_INSERT_ID);
    assert_eq!(of("UPDATE n SET id = LAST_INSERT_ID(id + 1)"), CodeEffects::READS_INSERT_ID);
    assert_eq!(of_view("select last_insert_id(5)"), CodeEffects::READS_INSERT_ID | SILENT);
    assert_eq!(of_view("select get_lock('a',1) AS `get_lock('a',1)`"), SILENT);
    assert_eq!(of_view("nextval(`d`.`s`)"), SILENT);
    assert_eq!(of_view("'a@b.c'"), NONE);
}

#[test]
fn parameters_are_no_system_variables() {
    let effects = |parameters: &str, body: &str| {
        stored_code(CodeKind::Routine, parameters.as_bytes(), body.as_bytes(), LexMode::default()).effects
    };
    assert_eq!(effects("OUT sql_notes INT, b DECIMAL(5, 2)", "SET sql_notes = 1, b = 2"), NONE);
    assert_eq!(effects("a TIMESTAMP", "SET timestamp = 1"), REPORTED);
    assert_eq!(effects("", "SET sql_notes = 1"), REPORTED);
}

#[test]
fn names_are_folded() {
    let code = stored_code(CodeKind::Routine, b"", b"CALL `My``Proc`(A.\"B c\", 2x)", LexMode::default());
    for name in ["my`proc", "a", "b c", "2x"] {
        assert!(code.names.contains(name.as_bytes()), "{name}: {:?}", code.names);
    }
    let mut found = Vec::new();
    names("SELECT 1 FROM Ä, `ö`".as_bytes(), LexMode::default(), |name| found.push(name.to_vec()));
    assert_eq!(found[2..], [b"from".to_vec(), vec![0x80], vec![0x80]]);
}

#[test]
fn the_letters_of_a_word_are_found_wherever_they_stand() {
    for text in ["sys", "SELECT 1 FROM `SyS`.x", "ssys", "sysdate()", "s sYs"] {
        assert!(has_letters_of(b"sys", text.as_bytes()), "{text}");
    }
    for text in ["", "s", "sy", "SELECT s.y FROM s", "s ys", "ss"] {
        assert!(!has_letters_of(b"sys", text.as_bytes()), "{text}");
    }
    assert!(has_letters_of(b"", b"x"));
}

fn these(text: &str) -> Option<Definitions> {
    match definitions(text.as_bytes(), LexMode::default()) {
        Defines::These(found) => Some(found),
        Defines::Nothing => None,
        Defines::TooMuch => panic!("{text} is short"),
    }
}

#[test]
fn texts_that_would_take_too_much_memory_are_not_looked_into() {
    let mode = LexMode::default();
    let long = |begin: &str| definitions(format!("{begin}{}", ",".repeat(MOST_TOKENS)).as_bytes(), mode);
    assert_eq!(long("CREATE VIEW v AS "), Defines::TooMuch);
    for defines_nothing in ["SELECT ", "SHOW CREATE VIEW v", "SELECT 'create view v'"] {
        assert_eq!(long(defines_nothing), Defines::Nothing, "{defines_nothing}");
    }
    let strings = format!("CREATE VIEW v AS SELECT '{}'", "x".repeat(2 * MOST_TOKENS));
    assert!(these(&strings).is_some(), "few tokens, however long they are");
}

#[test]
fn definitions_say_in_which_schemas() {
    let found = |text: &str| these(text).expect(text);
    let named = |text: &str| {
        let found = found(text);
        let all = found.relations.iter().chain(&found.triggered).chain(&found.routines);
        all.map(|name| (name.schema.as_deref().map(<[u8]>::to_vec), name.name.to_vec())).collect::<Vec<_>>()
    };
    let (inside, here) = ([(Some(b"a b".to_vec()), b"v".to_vec())], [(None, b"v".to_vec())]);
    for text in [
        "CREATE VIEW `A b` . `V` AS SELECT 1",
        "CREATE TRIGGER x BEFORE INSERT ON `a b`.v FOR EACH ROW DO 1",
        "CREATE FUNCTION `a b`.v() RETURNS INT RETURN 1",
    ] {
        assert_eq!(named(text), inside, "{text}");
    }
    for text in [
        "CREATE VIEW .v AS SELECT 1",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "CREATE TRIGGER x.y BEFORE INSERT ON v FOR EACH ROW DO 1",
    ] {
        assert_eq!(named(text), here, "{text}");
    }
    let uses = found("USE a; CREATE VIEW v AS SELECT 1; USE `B`").uses;
    assert_eq!(uses.iter().map(|name| &**name).collect::<Vec<_>>(), [b"a", b"b"]);
}

#[test]
fn definitions_say_what_they_define() {
    let defined = |text: &str| {
        these(text).map(|found| {
            let all = found.relations.iter().chain(&found.triggered).chain(&found.routines);
            let parts = |found: &QualifiedName| {
                let parts = found.schema.iter().chain([&found.name]);
                parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect::<Vec<_>>().join(".")
            };
            let names: Vec<_> = all.map(parts).collect();
            (names.join(" "), found.only_tables, found.code.effects)
        })
    };
    let one = |name: &str, only_tables, effects| Some((name.to_owned(), only_tables, effects));
    assert_eq!(
        defined(
            "CREATE OR REPLACE DEFINER = `a`@`b` TRIGGER d.tr BEFORE INSERT ON d.T FOR EACH ROW SELECT 1 INTO @a"
        ),
        one("d.t", false, SILENT | READS)
    );
    assert_eq!(defined("CREATE OR REPLACE FUNCTION f() RETURNS INT RETURN 1"), one("f", false, NONE));
    assert_eq!(defined("create or replace procedure p() set @a = 1"), one("p", false, REPORTED));
    assert_eq!(
        defined("CREATE ALGORITHM = MERGE VIEW IF NOT EXISTS `v` AS SELECT GET_LOCK('a', 0)"),
        one("v", false, SILENT)
    );
    assert_eq!(defined("CREATE TABLE a.t (x INT DEFAULT NEXTVAL(s))").map(|found| found.2), Some(SILENT));
    assert_eq!(defined("ALTER TABLE t ALTER x SET DEFAULT 5"), one("t", true, NONE));
    assert_eq!(defined("RENAME TABLE t TO u, v TO b.w"), one("t u v b.w", true, NONE));
    assert_eq!(defined("SET a := 1; CREATE TABLE t (x INT); SET @@b = 2"), one("t", true, NONE));
    assert_eq!(defined("DO 1; CREATE TABLE t (x INT DEFAULT NEXTVAL(s)); DO 2"), one("t", true, SILENT));
    assert_eq!(defined("SHOW CREATE TABLE t; SET @@character_set_client := latin1"), None);
    for text in
        ["ALTER TABLE t RENAME u", "ALTER TABLE t RENAME AS u", "ALTER TABLE t ADD x INT, RENAME TO u"]
    {
        assert_eq!(defined(text), one("t u", true, NONE), "{text}");
    }
    // Neither columns nor what is selected are names of tables, or all statements with SELECT would count as such.
    assert_eq!(defined("CREATE TABLE t AS SELECT GET_LOCK('a', 0) AS u, v"), one("t", true, SILENT));
    assert_eq!(defined("CREATE TABLE t (x INT DEFAULT NEXTVAL(s), y INT)"), one("t", true, SILENT));
    assert_eq!(
        defined("DO 1; CREATE VIEW v AS SELECT 1; CREATE VIEW w AS SELECT 1"),
        one("v w", false, NONE)
    );
    for text in ["SELECT 1", "DROP TRIGGER t", "CREATE USER u", "INSERT INTO t VALUES ('CREATE VIEW v AS')"] {
        assert_eq!(defined(text), None, "{text}");
    }
}
