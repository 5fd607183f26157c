//! Statements and what is said about them.

use sql::{
    CharsetSetting, Classification, Effects, KillTarget, Kind, LexMode, Reads, SessionFunction,
    TrackerVariable, Whom, classify,
};

fn plain(text: &str) -> Classification {
    classify(text.as_bytes(), LexMode::default())
}

/// Checks the kind, the names of the effects and of the reads, and whether the statement stands alone.
#[track_caller]
fn check(text: &str, kind: Kind, effects: &str, reads: &str) -> Classification {
    let found = plain(text);
    assert_eq!(found.kind, kind, "{text}");
    assert_eq!(found.effects.names().collect::<Vec<_>>().join(" "), effects, "{text}");
    assert_eq!(found.reads.names().collect::<Vec<_>>().join(" "), reads, "{text}");
    assert!(!found.several, "{text}");
    found
}

#[track_caller]
fn kinds(kind: Kind, texts: &[&str]) {
    for text in texts {
        check(text, kind, "", "");
    }
}

#[track_caller]
fn effects(effects: &str, kind: Kind, texts: &[&str]) {
    for text in texts {
        assert!(!check(text, kind, effects, "").plain_read, "{text}");
    }
}

#[track_caller]
fn reads(reads: &str, kind: Kind, texts: &[&str]) {
    for text in texts {
        assert!(!check(text, kind, "", reads).plain_read, "{text}");
    }
}

#[test]
fn kinds_without_effects() {
    kinds(Kind::Empty, &["", " \n", "-- x", "/* x */", "# x"]);
    kinds(
        Kind::Insert,
        &[
            "INSERT INTO t VALUES (1)",
            "insert t(a,b) select 1,2",
            "INSERT IGNORE `d`.`t` (a) VALUES (1)",
            "INSERT INTO d.t(a) VALUES (ABS(1)) ON DUPLICATE KEY UPDATE a=VALUES(a)",
            "INSERT INTO t(a) VALUES (1) AS new(m) ON DUPLICATE KEY UPDATE a=m",
            "INSERT LOW_PRIORITY IGNORE INTO t PARTITION (p0) (a) VALUE (1)",
        ],
    );
    kinds(Kind::Replace, &["REPLACE INTO t(a) VALUES (1)", "REPLACE t (a) VALUES (REPLACE('a','b','c'))"]);
    kinds(Kind::Update, &["UPDATE t SET a=1 WHERE b IN (1,2)", "WITH x AS (SELECT 1) UPDATE t SET a=1"]);
    kinds(Kind::Delete, &["DELETE FROM t WHERE a=1", "WITH x(a) AS (SELECT 1) DELETE FROM t"]);
    kinds(Kind::Do, &["DO 1", "DO SLEEP(1)"]);
    kinds(Kind::Use, &["USE d", "use `d`"]);
    kinds(
        Kind::Show,
        &["SHOW TABLES", "SHOW GRANTS FOR root@localhost", "SHOW GRANTS FOR 'a'@'b'", "SHOW COUNT"],
    );
    kinds(
        Kind::Explain,
        &[
            "EXPLAIN SELECT 1",
            "DESC t",
            "DESCRIBE t a",
            "ANALYZE SELECT 1",
            "EXPLAIN INSERT INTO t(a) VALUES (1)",
        ],
    );
    kinds(Kind::Begin, &["BEGIN", "begin work;", "START TRANSACTION", "START TRANSACTION READ ONLY"]);
    kinds(Kind::Commit, &["COMMIT", "COMMIT WORK AND CHAIN", "COMMIT RELEASE"]);
    kinds(Kind::Rollback, &["ROLLBACK", "rollback work"]);
    kinds(
        Kind::Savepoint,
        &["SAVEPOINT a", "RELEASE SAVEPOINT a", "ROLLBACK TO a", "ROLLBACK WORK TO SAVEPOINT a"],
    );
    kinds(Kind::UnlockTables, &["UNLOCK TABLES", "UNLOCK INSTANCE"]);
    kinds(Kind::Load, &["LOAD DATA LOCAL INFILE 'a' INTO TABLE t (a, b) SET c = NOW()"]);
    kinds(
        Kind::Admin,
        &[
            "ANALYZE TABLE t",
            "ANALYZE LOCAL TABLE t",
            "ANALYZE TABLE t PERSISTENT FOR COLUMNS (a) INDEXES (b)",
            "OPTIMIZE TABLE t",
            "GRANT SELECT (a, b), INSERT (c) ON d.t TO u@h, 'u'@'h', `u`@`h`",
            "REVOKE ALL ON *.* FROM root@localhost",
            "FLUSH PRIVILEGES",
            "FLUSH TABLES",
            "RESET MASTER",
            "START SLAVE",
            "CHANGE MASTER TO MASTER_HOST='x'",
            "INSTALL PLUGIN a SONAME 'b'",
            "LOAD INDEX INTO CACHE t",
            "HELP 'x'",
        ],
    );
}

#[test]
fn definitions() {
    kinds(
        Kind::Ddl,
        &[
            "CREATE TABLE t (a INT(11), b my_type(3), KEY k (a), CHECK (f(a) > 1))",
            "CREATE TABLE t (a int) SELECT ABS(1)",
            "ALTER TABLE t ADD KEY k (a)",
            "DROP TABLE t",
            "DROP TEMPORARY TABLE t",
            "TRUNCATE TABLE t",
            "RENAME TABLE a TO b",
            "CREATE USER u@h IDENTIFIED BY 'x', 'u'@'h'",
            "DROP USER u@h",
            "ALTER USER 'u' @'h' ACCOUNT LOCK",
            "CREATE DEFINER=`u`@`h` VIEW v AS SELECT f(a), GET_LOCK('a', 1) FROM t",
            "CREATE DEFINER = root@localhost PROCEDURE p() SELECT @x := GET_LOCK('a', 1)",
            "CREATE OR REPLACE FUNCTION f() RETURNS INT RETURN f(1)",
            "CREATE TRIGGER r BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DO GET_LOCK('a', 1)",
            "CREATE INDEX i ON t (a)",
        ],
    );
    effects("user_variable", Kind::Ddl, &["CREATE TABLE t AS SELECT @a", "CREATE TABLE t AS SELECT@a"]);
    effects("routine", Kind::Ddl, &["CREATE TABLE t (a int, key k (a)) SELECT f(1)"]);
    effects(
        "temporary_table",
        Kind::Ddl,
        &[
            "CREATE TEMPORARY TABLE t (a int)",
            "CREATE OR REPLACE TEMPORARY TABLE t SELECT 1",
            "/*!40101 CREATE TEMPORARY TABLE t (a int) */",
        ],
    );
    let body = plain(
        "CREATE PROCEDURE p() BEGIN IF a THEN SELECT @x; END IF; SELECT CASE a WHEN 1 THEN f(2) END; END",
    );
    assert_eq!((body.kind, body.effects), (Kind::Ddl, Effects::NONE));
    let two = plain("CREATE PROCEDURE p() BEGIN SELECT 1; END; SELECT GET_LOCK('a', 1)");
    assert_eq!((two.effects, two.several), (Effects::NAMED_LOCK, true));
    assert!(plain("CREATE PROCEDURE p() BEGIN SELECT 1").effects.contains(Effects::UNKNOWN));
}

#[test]
fn bodies_end_where_they_are_sure_to() {
    for text in [
        "CREATE DEFINER = `root`@`%` PROCEDURE a.p(IN a INT, OUT b DECIMAL(5, 2)) SQL SECURITY INVOKER COMMENT 'begin' \
         BEGIN DECLARE x INT; DECLARE EXIT HANDLER FOR SQLSTATE '23000', NOT FOUND BEGIN SET @a = 1; END; \
         l: LOOP IF a THEN BEGIN SET b = 1; END; ELSEIF c THEN LEAVE l; ELSE SET d = 2; END IF; END LOOP l; \
         REPEAT SET a = CASE WHEN a THEN NULL ELSE 1 END; UNTIL a > 1 END REPEAT; \
         WHILE a DO CASE a WHEN 1 THEN BEGIN END; ELSE SELECT 1; END CASE; END WHILE; SELECT GET_LOCK('a', 1); END",
        "CREATE FUNCTION f(a INT) RETURNS VARCHAR(9) CHARACTER SET utf8 COLLATE utf8_bin DETERMINISTIC x: BEGIN RETURN 1; END x",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW FOLLOWS h BEGIN SET NEW.a = 1; END",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY STARTS NOW() + INTERVAL 1 HOUR DO BEGIN SELECT 1; SELECT 2; END",
        "ALTER EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN SELECT 1; SELECT 2; END",
        "CREATE VIEW v AS SELECT GET_LOCK('a', 1), 1 AS begin",
    ] {
        check(text, Kind::Ddl, "", "");
    }
    let hidden = "LOCK TABLES t WRITE; SELECT 1 AS end";
    for text in [
        "CREATE VIEW v AS SELECT 1 AS begin",
        "CREATE PROCEDURE p() SELECT 1 AS begin",
        "CREATE PROCEDURE p(begin INT) SELECT 1",
        "CREATE FUNCTION f() RETURNS INT RETURN (SELECT 1 begin)",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW FOLLOWS begin SET @a = 1",
        "CREATE EVENT do ON SCHEDULE EVERY 1 DAY DO SELECT 1 AS begin",
        "CREATE PROCEDURE p() BEGIN SELECT 1; END",
        "CREATE PROCEDURE p() BEGIN SELECT 1 begin; END",
        "CREATE PROCEDURE p() BEGIN SELECT t.begin, do begin FROM t; END",
        "CREATE PROCEDURE p() BEGIN DECLARE CONTINUE HANDLER FOR NOT FOUND SELECT 1 begin; END",
        "CREATE PROCEDURE p() BEGIN SELECT CASE WHEN end THEN begin WHEN 1 THEN begin END FROM t; END",
        "CREATE PROCEDURE p() BEGIN IF CASE WHEN end THEN begin WHEN 1 THEN begin END THEN DO 1; END IF; END",
        "CREATE PROCEDURE p() BEGIN FOR i IN (SELECT do begin FROM t) DO SELECT 1; END FOR; END",
    ] {
        let effects = plain(&format!("{text}; {hidden}")).effects;
        let seen = effects.contains(Effects::LOCK_TABLES) || effects.contains(Effects::UNKNOWN);
        assert!(seen, "{text}: {effects:?}");
    }
    // What an event's times are is worked out at once.
    check("CREATE EVENT e ON SCHEDULE AT GET_LOCK('a', 1) DO DO 0", Kind::Ddl, "named_lock", "");
    check("ALTER EVENT e ON SCHEDULE EVERY f() DAY", Kind::Ddl, "routine", "");
}

#[test]
fn a_variable_is_no_account() {
    for text in ["KILL QUERY@a:=1", "KILL@a", "CREATE EVENT e ON SCHEDULE EVERY@a:=3 DAY DO DO 0"] {
        assert!(plain(text).effects.contains(Effects::USER_VARIABLE), "{text}");
    }
    for text in [
        "DROP USER a@b, 'c'@'d'",
        "GRANT SELECT ON t TO a@b",
        "SET PASSWORD FOR a@b = 'x'",
        "SHOW GRANTS FOR `a`@b",
        "CREATE DEFINER=a@b VIEW v AS SELECT 1",
        "RENAME USER a@b TO c@d",
        "SHOW CREATE USER a@b",
    ] {
        assert!(plain(text).effects.is_empty(), "{text}");
    }
}

#[test]
fn a_character_set_that_changes_within_a_text_is_doubtful() {
    let doubtful = |text: &[u8]| classify(text, LexMode::default()).effects.contains(Effects::UNKNOWN);
    assert!(doubtful(b"SET NAMES gbk; SELECT '\xbf\\', GET_LOCK('a', 0) -- '"));
    assert!(doubtful(b"SET NAMES swe7; SELECT {a('x')"));
    assert!(doubtful(b"SET CHARACTER SET DEFAULT; SELECT 1"));
    assert!(doubtful(b"SELECT 1; SET character_set_client = @a"));
    for named in
        ["CHARACTER SET x", "CHARSET 'x'", "@@session.character_set_client := x", "NAMES x, autocommit = 1"]
    {
        let text = |rest: &str| format!("SET {named}; SELECT {rest}");
        assert!(!doubtful(text("1").as_bytes()), "{named}");
        assert!(doubtful(text("'ä'").as_bytes()), "{named}");
        assert!(doubtful(text("{a('x')").replace('x', "swe7").as_bytes()), "{named}");
    }
    for hidden in [
        r"NAMES 'swe\7'",
        r"CHARSET 'swe\7'",
        r"character_set_client = 'swe\7'",
        "character_set_client = x'73776537'",
    ] {
        assert!(doubtful(format!("SET {hidden}; SELECT {{a('x')").as_bytes()), "{hidden}");
    }
    assert!(doubtful(b"SET collation_connection = @a, character_set_client = @b; SELECT 1"));
    // The servers' lexers do not go by these.
    assert!(!doubtful(
        "SET collation_connection = @a, character_set_results = DEFAULT; SELECT 'ä'".as_bytes()
    ));
    assert!(!doubtful(b"SET NAMES utf8mb4; SET time_zone = '+00:00'; SELECT 1"));
    assert!(!doubtful("SET NAMES utf8mb4 COLLATE utf8mb4_bin; SELECT 1".as_bytes()));
    assert!(!doubtful("SET NAMES utf8mb4 /* \u{e4} */".as_bytes()));
    assert!(!doubtful("SET NAMES 'UTF8'; SELECT '\u{e4}'".as_bytes()));
    assert!(doubtful(b"SET NAMES cp1251; SELECT\xa0GET_LOCK('a', 1)"), "a blank there");
    assert!(doubtful("SET NAMES utf8mb4; SELECT '\u{e4}'; SET NAMES latin1".as_bytes()));
    let blank = LexMode { high_blank: Some(0xa0), ..LexMode::default() };
    let found = classify(b"SET NAMES utf8mb4; SELECT\xa0GET_LOCK('a', 1)", blank);
    assert!(found.effects.contains(Effects::UNKNOWN), "a blank before, and a name then");
}

#[test]
fn plain_reads() {
    for text in [
        "SELECT c FROM sbtest1 WHERE id=5000",
        "select count(*), f from t where a in (1,2) and (b or not (c)) group by d having max(e) > 1;",
        "(SELECT 1) UNION (SELECT 2)",
        "VALUES ROW(1,2)",
        "TABLE t",
        "WITH RECURSIVE a(n) AS (SELECT 1), b (m) AS (SELECT 2) SELECT * FROM a JOIN b USING (n)",
        "WITH a AS (SELECT 1) (SELECT 2)",
        "SELECT * FROM t USE INDEX (i) FORCE INDEX FOR JOIN (j) WHERE MATCH(a) AGAINST ('x')",
        "SELECT CAST(a AS CHAR(10)), CONVERT(b, DECIMAL(10,2)) FROM (SELECT 1) AS d(a, b)",
        "SELECT a FROM (SELECT 1) d (a)",
        "SELECT SUM(a) OVER (PARTITION BY b), ROW_NUMBER() OVER w FROM t WINDOW w AS (ORDER BY a)",
        "SELECT @@version, @@session.sql_mode, @@global.identity",
        "SELECT /*+ MAX_EXECUTION_TIME(1000) */ 1",
        "SELECT '@a', \"get_lock('a',1)\", `@b` -- @c\n FROM t # @d",
        "SELECT 'a;b'",
        "SELECT a.select, b.for, c.update FROM t",
        "SELECT EXISTS(SELECT 1), INTERVAL(1,2), IF(a,b,c), DATABASE(), NOW(6), LEFT('a',1)",
        "SELECT a FROM t WHERE b = ANY (SELECT 1) LIMIT 1 OFFSET 2",
        "SELECT N'a', x'41', _utf8mb4'b' COLLATE utf8mb4_bin, 1e5, .5",
    ] {
        assert!(check(text, Kind::Select, "", "").plain_read, "{text}");
    }
    for text in [
        "SELECT 1 FOR UPDATE",
        "SELECT 1 FOR SHARE SKIP LOCKED",
        "SELECT 1 LOCK IN SHARE MODE",
        "SELECT 1 INTO OUTFILE 'a'",
        "SELECT 1 INTO DUMPFILE 'a'",
        "SELECT 1 FROM t PROCEDURE ANALYSE()",
        "SELECT SLEEP(1)",
        "SELECT BENCHMARK(1, 2)",
        "SELECT IS_FREE_LOCK('a')",
        "SELECT LOAD_FILE('a')",
        "SELECT MASTER_POS_WAIT('a', 1)",
        "SELECT * FROM (SELECT 1 FROM t FOR UPDATE) d",
        "SELECT * FROM information_schema.`USER_VARIABLES`",
        "SELECT * FROM performance_schema.user_variables_by_thread",
    ] {
        assert!(!check(text, Kind::Select, "", "").plain_read, "{text}");
    }
}

#[test]
fn reasons_to_pin() {
    effects(
        "user_variable",
        Kind::Select,
        &[
            "SELECT @a",
            "SELECT@a",
            "SELECT @a := 1",
            "SELECT 1 INTO @a",
            "SELECT @'a', @`b`, @\"c\"",
            "WITH a AS (SELECT 1) SELECT 1 INTO @b",
        ],
    );
    effects("user_variable", Kind::Set, &["SET @a = 1", "SET @a := 1, time_zone = 'UTC'", "SET x = @y"]);
    effects("user_variable", Kind::Load, &["LOAD DATA INFILE 'a' INTO TABLE t (a, @b)"]);
    effects(
        "lock_tables",
        Kind::LockTables,
        &["LOCK TABLES t READ", "LOCK TABLE t WRITE", "LOCK INSTANCE FOR BACKUP"],
    );
    effects(
        "lock_tables",
        Kind::Admin,
        &[
            "FLUSH TABLES WITH READ LOCK",
            "flush local tables t with read lock",
            "FLUSH TABLES t FOR EXPORT",
            "BACKUP STAGE START",
            "BACKUP LOCK t",
        ],
    );
    effects(
        "named_lock",
        Kind::Select,
        &[
            "SELECT GET_LOCK('a', 1)",
            "SELECT get_lock /* x */ ('a', 1)",
            "SELECT `get_lock`('a', 1)",
            "SELECT 1 FROM t WHERE RELEASE_LOCK('a')",
            "SELECT RELEASE_ALL_LOCKS()",
            "SELECT service_get_write_locks('a', 'b', 1)",
            "SELECT version_tokens_lock_shared('a', 1)",
            "TABLE t ORDER BY GET_LOCK('a', 1)",
            "VALUES ROW(GET_LOCK('a', 1))",
            "SELECT 1e1union select get_lock('a', 1)",
        ],
    );
    effects("named_lock", Kind::Do, &["DO GET_LOCK('a', 1)"]);
}

#[test]
fn some_syntax_errors_come_late() {
    let late = [
        "BEGIN NOT ATOMIC EXECUTE IMMEDIATE GET_LOCK('a', 0); END",
        "IF 1 THEN DO GET_LOCK('a', 0); PREPARE s FROM 'nonsense'; END IF",
        "SELECT 1; CALL p()",
        "SELECT GET_LOCK('a', 0) FROM t WHERE MATCH (a) AGAINST (@a IN BOOLEAN MODE)",
        "LOOP /*!execute*/ IMMEDIATE 'nonsense'; END LOOP",
    ];
    for text in late {
        assert!(plain(text).parses_while_it_runs, "{text}");
    }
    let early =
        ["SELEC GET_LOCK('a', 0)", "SELECT 'execute', `call`, t.against", "CREATE PROCEDURE p() EXECUTE s"];
    for text in early {
        assert!(!plain(text).parses_while_it_runs, "{text}");
    }
    assert!(plain("WITH execute (a) AS (SELECT 1) SELECT a FROM execute").effects.is_empty());
    assert!(
        plain("WITH execute (a) AS (SELECT 1), prepare (b) AS (SELECT 2) SELECT a, b FROM execute, prepare")
            .effects
            .is_empty()
    );
}

#[test]
fn more_reasons_to_pin() {
    effects("text_prepare", Kind::Prepare, &["PREPARE s FROM 'SELECT 1'"]);
    effects("text_prepare", Kind::Execute, &["EXECUTE s", "EXECUTE IMMEDIATE 'SELECT 1'"]);
    effects(
        "text_prepare role",
        Kind::Prepare,
        &["PREPARE s FROM 'SET ROLE r'", "PREPARE s FROM 'set/**/Role none'"],
    );
    assert!(plain("IF 1 THEN SET ROLE r; END IF").effects.contains(Effects::ROLE));
    let of_columns = [
        "PREPARE s FROM 'SELECT role FROM users'",
        "PREPARE s FROM 'UPDATE users SET role = ?, role_id = 1'",
        "PREPARE s FROM 'UPDATE users SET parole = (SELECT 1 FROM user_roles)'",
    ];
    effects("text_prepare", Kind::Prepare, &of_columns);
    effects("text_prepare", Kind::Deallocate, &["DEALLOCATE PREPARE s", "DROP PREPARE s"]);
    effects("handler", Kind::Handler, &["HANDLER t OPEN"]);
    effects("found_rows", Kind::Select, &["SELECT SQL_CALC_FOUND_ROWS * FROM t LIMIT 1"]);
    effects("role", Kind::Set, &["SET ROLE r", "set role none"]);
    effects("xa", Kind::Xa, &["XA START 'a'", "XA RECOVER"]);
    effects(
        "sequence",
        Kind::Select,
        &[
            "SELECT NEXTVAL(s)",
            "SELECT LASTVAL(d.s)",
            "SELECT SETVAL(s, 5)",
            "SELECT NEXT VALUE FOR s",
            "SELECT PREVIOUS VALUE FOR s",
            "SELECT s.nextval",
        ],
    );
    effects(
        "unknown",
        Kind::Other,
        &[
            "BEGIN NOT ATOMIC SELECT 1",
            "IF 1 THEN SELECT 1",
            "WITH a AS (SELECT 1) INSERT t SELECT 1",
            "xyz",
            "123",
        ],
    );
    effects("unknown", Kind::Admin, &["BINLOG 'abc'"]);
}

#[test]
fn functions_that_are_not_built_in() {
    effects(
        "routine",
        Kind::Select,
        &[
            "SELECT f(1)",
            "SELECT d.f(1)",
            "SELECT `d` . `f` (1)",
            "SELECT `f`()",
            "SELECT `if`(1)",
            "SELECT d.concat('a')",
            "SELECT 1 FROM t ORDER BY 1, f(2)",
            "SELECT count (1)",
            "SELECT (1), f(2)",
            "SELECT 1 FROM t WHERE (a) AND f(b)",
            "WITH a AS (SELECT 1) SELECT 1, f(2)",
            "WITH a AS (SELECT 1) (SELECT 2) ORDER BY 1, f(2)",
            "SELECT wsrep_last_written_gtid()",
            "SELECT 1f(1)",
            "SELECT t.1f(1)",
        ],
    );
    effects("routine", Kind::Insert, &["INSERT INTO t (a) VALUES (f(1))", "INSERT t SELECT f(1)"]);
    effects("routine", Kind::Call, &["CALL p", "CALL p(1)", "CALL d.p()"]);
    effects("routine", Kind::Set, &["SET time_zone = f(1)"]);
    effects("routine", Kind::Update, &["UPDATE t SET a = REPLACE(f(1), 'a', 'b')"]);
    effects("user_variable routine", Kind::Call, &["CALL p(@a)"]);
}

#[test]
fn what_the_last_statement_left() {
    reads(
        "last_insert_id",
        Kind::Select,
        &["SELECT LAST_INSERT_ID()", "SELECT @@identity", "SELECT @@local.last_insert_id"],
    );
    reads("last_insert_id", Kind::Insert, &["INSERT INTO t VALUES (LAST_INSERT_ID( ))"]);
    reads("row_count", Kind::Select, &["SELECT ROW_COUNT()"]);
    reads(
        "wait_timeout",
        Kind::Select,
        &[
            "SELECT @@wait_timeout",
            "SELECT @@session.`Wait_Timeout` + 1",
            "SELECT * FROM information_schema.SESSION_VARIABLES",
            "SELECT * FROM performance_schema.`session_variables`",
            "SELECT 1 FROM information_schema.system_variables, performance_schema.variables_by_thread",
        ],
    );
    reads(
        "wait_timeout",
        Kind::Show,
        &["SHOW VARIABLES LIKE 'w%'", "show local variables", "SHOW SESSION VARIABLES"],
    );
    reads("wait_timeout", Kind::Set, &["SET lock_wait_timeout = @@wait_timeout"]);
    reads("", Kind::Show, &["SHOW GLOBAL VARIABLES", "SHOW STATUS LIKE 'wait_timeout'"]);
    reads("", Kind::Set, &["SET wait_timeout = 5", "SET @@session.wait_timeout = 5"]);
    reads("found_rows", Kind::Select, &["SELECT FOUND_ROWS ()"]);
    reads("connection_id", Kind::Select, &["SELECT CONNECTION_ID()", "SELECT @@pseudo_thread_id"]);
    reads("diagnostics", Kind::Select, &["SELECT @@warning_count, @@`error_count`"]);
    reads("diagnostics", Kind::ShowWarnings, &["SHOW WARNINGS", "show warnings;"]);
    reads(
        "diagnostics",
        Kind::ShowDiagnostics,
        &["SHOW ERRORS", "SHOW WARNINGS LIMIT 1", "SHOW COUNT(*) WARNINGS", "GET DIAGNOSTICS a = ROW_COUNT"],
    );
    let sets = plain("UPDATE t SET a = LAST_INSERT_ID(a + 1)");
    assert!(sets.sets_last_insert_id && sets.reads.is_empty() && sets.calls.is_empty());
    assert!(!plain("SELECT LAST_INSERT_ID(1)").plain_read);
    assert!(plain("SELECT @@session . identity").effects.contains(Effects::UNKNOWN));
}

#[track_caller]
fn calls(text: &str, expected: &[(SessionFunction, &str, &str)]) {
    let found = plain(text).calls;
    let item = |call: &sql::SessionCall| call.names_item.clone().map_or("", |item| &text[item]);
    let found: Vec<_> =
        found.iter().map(|call| (call.function, &text[call.span.clone()], item(call))).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn what_an_earlier_statement_of_the_text_leaves_only_the_server_knows() {
    let left = |text| plain(text).calls.iter().map(|call| call.left_by_text).collect::<Vec<_>>();
    assert_eq!(left("SELECT ROW_COUNT(), FOUND_ROWS(); SELECT 1"), [false, false]);
    assert_eq!(left("INSERT INTO t VALUES (1); SELECT ROW_COUNT(), LAST_INSERT_ID()"), [true, false]);
    assert_eq!(left("INSERT INTO t VALUES (1);SELECT a FROM t WHERE ROW_COUNT() = 1"), [true]);
    // An INSERT finds nothing, so to say; a SET leaves the list of warnings as it was.
    assert_eq!(left("INSERT INTO t VALUES (1);SELECT FOUND_ROWS(), @@warning_count"), [false, true]);
    assert_eq!(left("SELECT * FROM t;SET @a = 1;SELECT FOUND_ROWS(), @@error_count"), [true, true]);
    assert_eq!(left("SET sql_notes = 1;SELECT @@warning_count, CONNECTION_ID()"), [false, false]);
    assert_eq!(left("SELECT ROW_COUNT();SELECT ROW_COUNT()"), [false, true]);
}

#[test]
fn calls_have_their_place() {
    use SessionFunction::{ConnectionId, FoundRows, LastInsertId, RowCount, WarningCount};
    calls("SELECT last_insert_id()", &[(LastInsertId, "last_insert_id()", "last_insert_id()")]);
    calls(
        "SELECT DISTINCT ROW_COUNT( ), FOUND_ROWS() ;",
        &[(RowCount, "ROW_COUNT( )", "ROW_COUNT( )"), (FoundRows, "FOUND_ROWS()", "FOUND_ROWS()")],
    );
    calls("SELECT @@identity FROM DUAL", &[(LastInsertId, "@@identity", "@@identity")]);
    calls("SELECT CONNECTION_ID() LIMIT 1", &[(ConnectionId, "CONNECTION_ID()", "CONNECTION_ID()")]);
    calls(
        "SELECT @@warning_count AS w, 1+ROW_COUNT()",
        &[(WarningCount, "@@warning_count", ""), (RowCount, "ROW_COUNT()", "1+ROW_COUNT()")],
    );
    calls("SELECT ROW_COUNT() a", &[(RowCount, "ROW_COUNT()", "")]);
    calls("SELECT ROW_COUNT()+1", &[(RowCount, "ROW_COUNT()", "ROW_COUNT()+1")]);
    calls("SELECT (ROW_COUNT())", &[(RowCount, "ROW_COUNT()", "(ROW_COUNT())")]);
    calls("SELECT hex(concat(row_count())) , 2", &[(RowCount, "row_count()", "hex(concat(row_count()))")]);
    let both = "FOUND_ROWS() = ROW_COUNT()";
    calls(
        "SELECT ALL FOUND_ROWS() = ROW_COUNT() INTO @a",
        &[(FoundRows, "FOUND_ROWS()", both), (RowCount, "ROW_COUNT()", both)],
    );
    // What may be an alias, or no part of the item.
    for end in ["x", "'x'", "`x`", "AS x", "+ x", "IS NULL", "ON DUPLICATE KEY UPDATE a = VALUES(a)"] {
        calls(&format!("SELECT ROW_COUNT() {end}"), &[(RowCount, "ROW_COUNT()", "")]);
    }
    calls("SELECT ROW_COUNT() IN (1, 2)", &[(RowCount, "ROW_COUNT()", "ROW_COUNT() IN (1, 2)")]);
    calls("SELECT 1 FROM t WHERE a=1 ORDER BY b, ROW_COUNT()", &[(RowCount, "ROW_COUNT()", "")]);
    calls("INSERT INTO t VALUES (1, LAST_INSERT_ID())", &[(LastInsertId, "LAST_INSERT_ID()", "")]);
    calls("SELECT ROW_COUNT(1), LAST_INSERT_ID(5)", &[]);
    calls("SET @@identity = 5", &[]);
}

#[test]
fn assignments() {
    kinds(
        Kind::Set,
        &[
            "SET autocommit=0",
            "SET SESSION sql_mode = '', @@session.time_zone := 'UTC'",
            "SET GLOBAL timestamp = 5",
            "SET @@global.server_id = 5, PERSIST gtid_mode = ON",
            "SET sql_mode = (SELECT CONCAT(@@sql_mode, ',ANSI'))",
            "SET PASSWORD = 'x'",
            "SET PASSWORD FOR u@h = PASSWORD('x')",
            "SET PASSWORD FOR 'u'@'h' TO RANDOM",
            "SET DEFAULT ROLE r@h TO u@h",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET GLOBAL TRANSACTION READ ONLY",
            "SET SESSION transaction_isolation = 'SERIALIZABLE'",
            "SET transaction_isolation = 'SERIALIZABLE'",
            "SET sql_auto_is_null = 0",
            "SET hot.key_buffer_size = 1",
        ],
    );
    effects(
        "session_variable",
        Kind::Set,
        &[
            "SET timestamp = 5",
            "SET @@timestamp = DEFAULT",
            "SET @@hot.key_buffer_size = 1",
            "SET autocommit = 1, `insert_id` = 5",
            "SET LOCAL pseudo_thread_id = 5",
            "SET gtid_next = 'AUTOMATIC'",
            "SET sql_auto_is_null = 1",
            "SET optimizer_trace = 'enabled=on'",
            "SET SESSION character_set_database = latin1",
            "SET GLOBAL a = 1, debug = 'x'",
        ],
    );
    let unread =
        ["SET session_track_system_variables", "SET (a, b) = (1, 2)", "SET a", "SET a = 1 b = 2, c", "SET"];
    effects("unknown", Kind::Set, &unread);
    effects("role unknown", Kind::Set, &["SET a = 1, ROLE r"]);
    let blind = "SET STATEMENT session_track_system_variables = '' FOR SET time_zone = '+05:00'";
    assert!(plain(blind).effects.contains(Effects::SESSION_VARIABLE));
    assert!(plain("SET STATEMENT time_zone = '+05:00' FOR SELECT 1").effects.is_empty());
    for text in ["SET SESSION AUTHORIZATION u@h", "SET RESOURCE GROUP g"] {
        assert!(plain(text).effects.contains(Effects::SESSION_VARIABLE.union(Effects::ROLE)), "{text}");
    }
    effects(
        "next_transaction",
        Kind::Set,
        &[
            "SET TRANSACTION READ ONLY",
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SET @@transaction_isolation = 'SERIALIZABLE'",
            "SET @@tx_isolation = 'SERIALIZABLE'",
            "SET autocommit = 1, @@transaction_read_only = 1",
        ],
    );
    check("SIGNAL SQLSTATE '45000'", Kind::Do, "", "");
}

#[test]
fn trackers_of_a_client() {
    for text in [
        "set autocommit=1, session_track_schema=1, session_track_state_change = ON",
        "SET @@session.session_track_schema = OFF",
        "SET session_track_transaction_info = 'STATE', SESSION session_track_gtids = 'OWN_GTID'",
        "SET SESSION session_track_system_variables = lower('A'), a = 1",
        "SET GLOBAL session_track_system_variables = 'a'",
    ] {
        check(text, Kind::Set, "", "");
    }
    let found = plain("SET @@session_track_schema = OFF, Session_Track_System_Variables = 'a'");
    assert_eq!(
        found.variables.all,
        [&b"session_track_schema"[..], b"session_track_system_variables"].map(Box::from).into()
    );
    assert_eq!(
        found.variables.unreported,
        [Box::<[u8]>::from(&b"session_track_schema"[..])].into(),
        "the other one has no at signs"
    );
    check("SET session_track_system_variables", Kind::Set, "unknown", "");
    // What stands behind them is not reported.
    let pins = |text: &str| !plain(text).effects.is_empty();
    assert!(
        pins("SET session_track_system_variables = 'a'; SELECT 1")
            && pins("SET session_track_schema = 0; USE a")
    );
    assert!(!pins("SET session_track_schema = 1; USE a"));
}

#[test]
fn a_client_reads_its_own_trackers() {
    let variable = SessionFunction::Tracker(TrackerVariable::SystemVariables);
    let schema = SessionFunction::Tracker(TrackerVariable::Schema);
    calls(
        "SELECT @@session_track_schema, @@GLOBAL.session_track_schema, @@Session.session_track_system_variables",
        &[
            (schema, "@@session_track_schema", "@@session_track_schema"),
            (
                variable,
                "@@Session.session_track_system_variables",
                "@@Session.session_track_system_variables",
            ),
        ],
    );
    calls(
        "SET session_track_system_variables = CONCAT(@@session_track_system_variables, ',autocommit')",
        &[(variable, "@@session_track_system_variables", "")],
    );
    let found = plain("SET session_track_schema = 0; SELECT @@session_track_schema");
    assert!(found.calls[0].left_by_text && found.reads == Reads::TRACKER);
}

#[test]
fn the_last_gtid_is_a_clients_own() {
    let gtid = SessionFunction::LastGtid;
    calls("SELECT @@last_gtid, @@GLOBAL.last_gtid", &[(gtid, "@@last_gtid", "@@last_gtid")]);
    calls("SET @a = @@session.Last_GTID", &[(gtid, "@@session.Last_GTID", "")]);
    for (before, left) in
        [("SELECT 1", false), ("USE a", false), ("COMMIT", true), ("INSERT INTO t VALUES (1)", true)]
    {
        let found = plain(&format!("{before}; SELECT @@last_gtid"));
        assert_eq!(found.calls[0].left_by_text, left, "{before}");
    }
}

#[test]
fn a_set_names_the_session_variables_that_it_assigns_to() {
    let assigned = |text: &str| -> Vec<String> {
        plain(text).variables.all.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    };
    assert_eq!(
        assigned(
            "SET Autocommit = 0, @@session.sql_notes = 1, SESSION `unique_checks` = 0, @@foreign_key_checks = 1, @a = 2"
        ),
        ["autocommit", "foreign_key_checks", "sql_notes", "unique_checks"]
    );
    assert_eq!(assigned("SET GLOBAL sql_notes = 1, NAMES utf8mb4, hot.key_buffer_size = 8"), [""; 0]);
    assert_eq!(assigned("SELECT 1; SET sql_notes = 0"), ["sql_notes"]);
}

#[test]
fn what_the_server_does_not_report() {
    let unreported = |text: &str| -> Vec<String> {
        let names = plain(text).variables.unreported;
        names.iter().map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
    };
    check("SET @@sql_mode = ''", Kind::Set, "", "");
    assert_eq!(unreported("SET @@SQL_mode = ''"), ["sql_mode"]);
    assert_eq!(
        unreported("SET SESSION time_zone = 'UTC', @@autocommit = 0, @@`wait_timeout` := 5"),
        ["autocommit", "wait_timeout"]
    );
    assert_eq!(unreported("SET @@session.sql_mode = '', sql_notes = 0, @@global.x = 1"), [""; 0]);
    assert_eq!(unreported("SET @@timestamp = 1"), [""; 0]);
    let read = "SET STATEMENT max_statement_time=1, `sql_mode` = IF(1, 'a', 'b') FOR SELECT 1";
    assert_eq!(unreported(read), ["max_statement_time", "sql_mode"]);
    let found = check(read, Kind::Select, "", "");
    assert!(!found.plain_read && found.variables.for_its_duration);
    assert!(!plain("SET STATEMENT sql_mode = '' FOR SELECT 1; SELECT 2").variables.for_its_duration);
    check("SET STATEMENT timestamp = 5 FOR UPDATE t SET a = 1", Kind::Update, "", "");
    check("SET STATEMENT optimizer_trace = 'enabled=on' FOR SELECT 1", Kind::Select, "session_variable", "");
    check("SET STATEMENT 0 = 5 FOR SELECT 1", Kind::Select, "session_variable", ""); // no name of a variable
    check("SET system_versioning_asof = '2021-06-01 00:00:00'", Kind::Set, "session_variable", "");
    check("SET default_collation_for_utf8mb4 = utf8mb4_general_ci", Kind::Set, "session_variable", "");
    check("SELECT /*+ SET_VAR(timestamp = 4) */ NOW()", Kind::Select, "session_variable", "");
    check("SELECT /*+ SET_VAR(sort_buffer_size = 65536) */ 1", Kind::Select, "", "");
    check("SET STATEMENT a.b = 5 FOR CALL p()", Kind::Call, "routine", "");
    check("SET STATEMENT max_statement_time = 5", Kind::Other, "unknown", "");
}

#[test]
fn hints_that_set_variables() {
    let unreported = |text: &str| -> Vec<String> {
        plain(text)
            .variables
            .unreported
            .iter()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    };
    let read =
        "SELECT /*+ MAX_EXECUTION_TIME(9) SET_VAR(SQL_mode = 'ANSI') set_var(`sort_buffer_size`=5) */ 1";
    assert_eq!(unreported(read), ["sort_buffer_size", "sql_mode"]);
    let found = check(read, Kind::Select, "", "");
    assert!(!found.plain_read && found.variables.for_its_duration);
    let of_several = plain("INSERT /*+ SET_VAR(sql_mode = '') */ INTO t VALUES (1); SELECT 2");
    assert!(!of_several.variables.for_its_duration && of_several.variables.unreported.len() == 1);
    // Who could not be asked for it keeps its session where it is.
    check("SELECT /*+ SET_VAR(a.b = 5) */ 1", Kind::Select, "session_variable", "");
    let other = plain("SELECT /*+ NO_MERGE(t) */ 1 FROM t");
    assert!(other.plain_read && !other.variables.for_its_duration && other.variables.unreported.is_empty());
}

#[test]
fn whose_the_last_rows_of_a_text_are() {
    for text in
        ["SELECT 1", "SHOW TABLES; (SELECT 2)", "INSERT INTO t VALUES (1); SELECT 1; SET @a = 1; COMMIT"]
    {
        assert!(plain(text).rows_of_select, "{text}");
    }
    for text in [
        "SELECT 1; SHOW TABLES",
        "SELECT 1; CALL p()",
        "SELECT 1; INSERT INTO t VALUES (1) RETURNING a",
        "DO 1",
    ] {
        assert!(!plain(text).rows_of_select, "{text}");
    }
}

#[test]
fn inserts_in_any_statement_of_a_text() {
    for text in
        ["INSERT INTO t VALUES (1)", "SELECT 1; REPLACE t VALUES (1)", "LOAD DATA INFILE 'f' INTO TABLE t"]
    {
        assert!(plain(text).inserts, "{text}");
    }
    assert!(!plain("UPDATE t SET a = 1; DELETE FROM t").inserts);
}

#[test]
fn charsets() {
    let charset = |text: &str| plain(text).charset;
    let names = |text: &str| match charset(text) {
        CharsetSetting::Names { collation, .. } => collation.map(|span| text[span].to_owned()),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(names("SET NAMES utf8mb4"), None);
    assert_eq!(names("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin';").as_deref(), Some("utf8mb4_bin"));
    assert_eq!(names("/*!40101 SET NAMES utf8 collate utf8_bin */").as_deref(), Some("utf8_bin"));
    assert_eq!(names("SET NAMES utf8 COLLATE DEFAULT"), None);
    assert_eq!(charset("SET collation_connection = 'utf8mb4_bin'"), CharsetSetting::CollationConnection);
    assert_eq!(
        charset("SET @@session.collation_connection = utf8mb4_bin"),
        CharsetSetting::CollationConnection
    );
    for unsure in [
        "SET character_set_client = CONCAT('latin', '1')",
        "SET collation_connection = DEFAULT, character_set_client = DEFAULT",
        "SET character_set_client = DEFAULT, collation_connection = DEFAULT",
        "SET NAMES DEFAULT",
        "SET CHARACTER SET DEFAULT",
        "SET CHARSET",
        "SET autocommit = 1, CHARSET utf8 + 1",
        "SET NAMES utf8; SELECT 1",
        "SET NAMES",
        "SET character_set_results = NULL; SELECT 1",
    ] {
        assert_eq!(charset(unsure), CharsetSetting::Unsure, "{unsure}");
    }
    for named in [
        "SET character_set_client = latin1",
        "SET CHARACTER SET utf8",
        "SET CHARSET 'utf8'",
        "SET autocommit = 1, NAMES utf8",
        "SET NAMES utf8, autocommit = 1",
        "SET NAMES utf8, collation_connection = utf8_bin",
    ] {
        assert_eq!(charset(named), CharsetSetting::Named, "{named}");
    }
    for conversion in [
        "SET character_set_results = NULL",
        "SET character_set_connection = gbk",
        "SET @@collation_connection = @@collation_server",
        "SET collation_connection = CONCAT('a', 'b')",
        "SET collation_connection = utf8_bin, autocommit = 1",
        "SET autocommit = 1, character_set_results = DEFAULT",
    ] {
        assert_eq!(charset(conversion), CharsetSetting::UnsureConversion, "{conversion}");
    }
    for untouched in ["SET autocommit = 1", "SET GLOBAL collation_connection = x", "SELECT 'SET NAMES utf8'"]
    {
        assert_eq!(charset(untouched), CharsetSetting::Untouched, "{untouched}");
    }
}

#[test]
fn targets_of_kill() {
    let target = |query_only, whom| Kind::Kill(KillTarget { query_only, whom });
    check("KILL 5", target(false, Whom::Id(5)), "", "");
    check("KILL CONNECTION 5;", target(false, Whom::Id(5)), "", "");
    check("kill query 18446744073709551615", target(true, Whom::Id(u64::MAX)), "", "");
    check("KILL HARD QUERY 7", target(true, Whom::Id(7)), "", "");
    check("KILL QUERY ID 7", target(true, Whom::Other), "", "");
    check("KILL USER root@localhost", target(false, Whom::Other), "", "");
    check("KILL 5+1", target(false, Whom::Other), "", "");
    check("KILL 1.5", target(false, Whom::Other), "", "");
    check("KILL", target(false, Whom::Other), "", "");
    check("KILL ?", target(false, Whom::Parameter), "", "");
    check("KILL QUERY ID ?", target(true, Whom::Other), "", "");
    check("KILL ? + 1", target(false, Whom::Other), "", "");
    check("KILL CONNECTION_ID()", target(false, Whom::Oneself), "", "connection_id");
    check("KILL SOFT QUERY /* a */ connection_id( ) ;", target(true, Whom::Oneself), "", "connection_id");
    check("KILL @@pseudo_thread_id", target(false, Whom::Oneself), "", "connection_id");
    check("KILL CONNECTION_ID()+1", target(false, Whom::Other), "", "connection_id");
    check("KILL QUERY 1 + CONNECTION_ID()", target(true, Whom::Other), "", "connection_id");
    check("KILL QUERY ID CONNECTION_ID()", target(true, Whom::Other), "", "connection_id");
    check("KILL -CONNECTION_ID()", target(false, Whom::Other), "", "connection_id");
    check("KILL ROW_COUNT()", target(false, Whom::Other), "", "row_count");
}

#[test]
fn several_statements() {
    let both = plain("SELECT 1; SET @a = 1");
    assert_eq!((both.kind, both.effects, both.several), (Kind::Select, Effects::USER_VARIABLE, true));
    assert!(!plain("SELECT 1; SELECT 2").plain_read);
    assert!(!plain("SELECT 1 ; -- x\n ;").several);
    assert!(plain(";SELECT 1").several);
    assert!(plain("SET sql_mode = 'ANSI_QUOTES'; SELECT 1").effects.contains(Effects::UNKNOWN));
    assert!(plain("COMMIT; SELECT 1").without_tables && !plain("COMMIT; SELECT 1 FROM t").without_tables);
}

#[test]
fn doubt_pins() {
    for text in [
        "SELECT 'a",
        "SELECT 1 /* a",
        "SELECT /*!80000 1 */",
        "SELECT 1 /*M!100100 */",
        "SELECT `a",
        "SELECT \0 1",
    ] {
        let found = plain(text);
        assert!(found.effects.contains(Effects::UNKNOWN) && found.several && !found.plain_read, "{text}");
    }
}

#[test]
fn the_lex_mode_matters() {
    let ansi = LexMode { ansi_quotes: true, ..LexMode::default() };
    assert!(classify(br#"SELECT "\" , @a FROM "t""#, ansi).effects.contains(Effects::USER_VARIABLE));
    assert!(classify(br#"SELECT "f"(1)"#, ansi).effects.contains(Effects::ROUTINE));
    let no_escapes = LexMode { no_backslash_escapes: true, ..LexMode::default() };
    assert_eq!(classify(br"SELECT '\', @a, '\'", no_escapes).effects, Effects::USER_VARIABLE);
    assert_eq!(classify(br"SELECT '\', @a, \''", LexMode::default()).effects, Effects::NONE);
}

#[test]
fn a_blank_beyond_ascii_hides_no_word() {
    let latin1 = LexMode { high_blank: Some(0xa0), ..LexMode::default() };
    for text in
        [&b"CREATE TEMPORARY\xa0TABLE t (a INT)"[..], b"SELECT a INTO\xa0@b", b"SELECT 1\xa0FOR UPDATE"]
    {
        let found = classify(text, latin1);
        assert!(found.effects.contains(Effects::UNKNOWN) && !found.plain_read);
        assert_eq!(sql::variable_use(text, latin1), None);
    }
    // In strings and names in quotes it is nothing special, and in UTF-8 it is half of a letter.
    assert_eq!(classify(b"SELECT 'a\xa0b' AS `\xa0`", latin1).effects, Effects::NONE);
    assert_eq!(plain("SELECT voil\u{e0} FROM t").effects, Effects::NONE);
}

#[test]
fn a_comment_behind_the_last_semicolon_is_seen() {
    for text in ["SELECT 1; -- a", "SELECT 1 ;; /* a */ ", "DO 1; # a", "SELECT 1; SELECT 2; /* a */"] {
        assert!(plain(text).comment_at_end, "{text}");
    }
    for text in ["SELECT 1; \n", "SELECT 1 -- a", "/* a */; SELECT 1 /* b */", "SELECT 1;;", ""] {
        assert!(!plain(text).comment_at_end, "{text}");
    }
}

#[test]
fn what_numbers_rows_is_seen() {
    for (text, kind) in [
        ("ANALYZE INSERT INTO t(a) VALUES (1)", Kind::Insert),
        ("analyze format=json replace t values (1)", Kind::Replace),
        ("LOAD DATA INFILE 'x' INTO TABLE t", Kind::Load),
        ("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY) SELECT 1 AS a", Kind::Ddl),
    ] {
        let found = plain(text);
        assert!(found.inserts && found.kind == kind, "{text}");
    }
    for text in ["CREATE TABLE t (a INT)", "CREATE VIEW v AS SELECT 1", "ANALYZE TABLE t", "SELECT 1"] {
        assert!(!plain(text).inserts, "{text}");
    }
    kinds(Kind::Update, &["ANALYZE FORMAT=JSON UPDATE t SET a=1"]);
    kinds(Kind::Delete, &["ANALYZE DELETE FROM t"]);
}

#[test]
fn rows_without_select_call_functions() {
    effects(
        "named_lock",
        Kind::Ddl,
        &["CREATE TABLE t AS VALUES (GET_LOCK('a', 0))", "CREATE TABLE t VALUES ROW(GET_LOCK('a', 0))"],
    );
    kinds(Kind::Ddl, &["CREATE TABLE t (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN (f(1)))"]);
}

#[test]
fn what_set_sets_for_good_is_told_from_what_goes_back() {
    let found = plain("SET /*+ SET_VAR(sort_buffer_size = 1) */ @@time_zone = '+05:00'");
    assert!(!found.variables.for_its_duration && found.variables.unreported.contains(&b"time_zone"[..]));
    effects(
        "session_variable",
        Kind::Set,
        &["SET STATEMENT max_statement_time = 5 FOR SET @@time_zone = '+05:00'"],
    );
    let found = plain("SELECT /*+ SET_VAR(sort_buffer_size = 1) */ 1");
    assert!(found.variables.for_its_duration);
}

#[test]
fn tables_and_releases() {
    for text in [
        "BEGIN",
        "SAVEPOINT a",
        "SET autocommit=1; BEGIN",
        "USE d",
        "SET @a = (SELECT 1)",
        "SET STATEMENT sql_mode = '' FOR SELECT 1",
    ] {
        assert!(plain(text).without_tables, "{text}");
    }
    for text in [
        "SELECT 1 FROM t",
        "SET @a = (SELECT a FROM v)",
        "SET @a = (TABLE v)",
        "SET NAMES utf8mb4; SELECT a FROM v",
        "INSERT t VALUES (1)",
        "SET STATEMENT sql_mode = '' FOR DELETE FROM t",
        "(TABLE t)",
        "DO (SELECT a FROM v)",
        "CALL p()",
    ] {
        assert!(!plain(text).without_tables, "{text}");
    }
    for text in ["COMMIT RELEASE", "ROLLBACK WORK AND NO CHAIN RELEASE", "SELECT 1; COMMIT RELEASE"] {
        assert!(plain(text).releases_connection, "{text}");
    }
    for text in ["COMMIT", "COMMIT NO RELEASE", "RELEASE SAVEPOINT a"] {
        assert!(!plain(text).releases_connection, "{text}");
    }
}

#[test]
fn fingerprints() {
    let same = |a: &str, b: &str| assert_eq!(plain(a).fingerprint, plain(b).fingerprint, "{a} | {b}");
    let differ = |a: &str, b: &str| assert_ne!(plain(a).fingerprint, plain(b).fingerprint, "{a} | {b}");
    same("SELECT c FROM t WHERE id=1", "select  c from t /* x */ where ID = -2;");
    same("SELECT 1 WHERE a IN (1,2,3)", "SELECT 'a' WHERE a IN (?)");
    same("INSERT INTO t VALUES (1,2),(3,4)", "INSERT INTO t VALUES (5,6)");
    differ("SELECT a FROM t", "SELECT b FROM t");
    differ("SELECT a FROM t", "SELECT a FROM tt");
    differ("SELECT a", "SELECT `a`");
}

#[test]
fn length_hides_nothing() {
    // Beyond every size at which other proxies stop looking (2 KiB of digest, 16 KB, 65,000 bytes of query).
    let long = format!("SELECT '{}', GET_LOCK('a', 1)", "x".repeat(200_000));
    check(&long, Kind::Select, "named_lock", "");
    let many = format!("INSERT INTO t VALUES {}(@a)", "(1, 'x'),".repeat(20_000));
    check(&many, Kind::Insert, "user_variable", "");
}

#[test]
fn repeatable_reads() {
    for text in [
        "SELECT c FROM sbtest1 WHERE id=5000",
        "SELECT COUNT(*), MAX(a), UPPER(b), JSON_EXTRACT(c, '$.a') FROM t GROUP BY d HAVING SUM(e) > 1 ORDER BY 1 LIMIT 3",
        "(SELECT 1) UNION (SELECT `now` FROM t)",
        "WITH x AS (SELECT a FROM t) SELECT * FROM x WHERE a IN (SELECT b FROM u)",
        "SELECT DATE_ADD(a, INTERVAL 1 DAY), IF(a, b, c), DATABASE() FROM t",
        "VALUES (1), (2)",
    ] {
        assert!(plain(text).repeatable, "{text}");
    }
    for text in [
        "SELECT NOW()",
        "SELECT a FROM t WHERE b > CURRENT_TIMESTAMP",
        "SELECT a FROM t WHERE b > current_date - INTERVAL 1 DAY",
        "SELECT UTC_DATE",
        "SELECT RAND()",
        "SELECT a FROM t ORDER BY RAND() LIMIT 1",
        "SELECT UUID()",
        "SELECT UNIX_TIMESTAMP()",
        "SELECT CURRENT_USER",
        "SELECT USER()",
        "SELECT SLEEP(1)",
        "SELECT BENCHMARK(10, 1)",
        "SELECT @a",
        "SELECT @@sql_mode",
        "SELECT @@global.max_connections",
        "SELECT @@thread_pool_priority",
        "SELECT CONNECTION_ID()",
        "SELECT LAST_INSERT_ID()",
        "SELECT FOUND_ROWS()",
        "SELECT ROW_COUNT()",
        "SELECT my_function(1)",
        "SELECT d.abs(1)",
        "SELECT count (*) FROM t",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t LOCK IN SHARE MODE",
        "SELECT a FROM t INTO OUTFILE 'x'",
        "SELECT SQL_CALC_FOUND_ROWS a FROM t",
        "SELECT NEXT VALUE FOR s",
        "SELECT GET_LOCK('a', 1)",
        "SELECT 1; SELECT 2",
        "INSERT INTO t (a) VALUES (1)",
        "SHOW TABLES",
        "CALL p()",
        "DO 1",
    ] {
        assert!(!plain(text).repeatable, "{text}");
    }
}

/// What is kept of a text does not grow with what it repeats, and has a bound where it does not.
#[test]
fn names_of_variables_are_kept_once_and_up_to_a_bound() {
    let sets = |names: &mut dyn Iterator<Item = String>| {
        let list: Vec<_> = names.map(|name| format!("@@{name}=1")).collect();
        plain(&format!("SET {}", list.join(",")))
    };
    let repeated = sets(&mut (0..100_000).map(|_| "sql_notes".into()));
    assert_eq!((repeated.variables.all.len(), repeated.variables.unreported.len()), (1, 1));
    assert!(!repeated.effects.contains(Effects::UNKNOWN));
    let mut others = (0..100_000).map(|number| format!("v{number}"));
    let many = sets(&mut others.by_ref().chain(["session_track_system_variables".into()]));
    assert!(many.variables.all.len() < 2000 && many.variables.unreported.len() < 2000);
    assert!(many.effects.contains(Effects::UNKNOWN));
    assert!(many.variables.all.contains(&b"session_track_system_variables"[..]));
}

#[test]
fn statements_are_counted_as_far_as_that_is_sure() {
    for (text, statements) in [
        ("SELECT 1", 1),
        ("SELECT 1;", 1),
        ("SELECT ';'; ; SELECT 2; -- the end", 2),
        ("CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END; SELECT 3", 2),
        ("SELECT 1; SELECT 'unterminated", 2),
        ("SELECT 1 /* unterminated ; SELECT 2", 1),
        ("SET sql_mode = 'ANSI'; SELECT 1", 1),
        ("SELECT 1; SET NAMES utf8mb4; SELECT 2; SET @@sql_mode = ''; SELECT 3", 4),
        ("SELECT 1; SET NAMES swe7; SELECT 2; SELECT 3", 2),
        ("SET collation_connection = DEFAULT; SHOW VARIABLES; SELECT 3", 3),
        ("", 0),
    ] {
        assert_eq!(plain(text).statements, statements, "{text}");
    }
}
