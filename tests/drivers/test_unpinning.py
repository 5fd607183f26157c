"""Two clients on a single backend: a client that has given back what it held lets the other one on, and leaves it nothing."""

import select

import pytest

from conftest import site_through
from harness import raw
from harness.programs import prepare_schemas
from harness.server import ADMIN

site = site_through("single")

# Where B says something, A's pin must have ended: else B waits for the backend in vain.
PROGRAMS = {
    "savepoints without autocommit": [
        "A: SET autocommit = 0", "A: INSERT INTO t0 (v) VALUES ('a')", "A: SAVEPOINT s", "A: INSERT INTO t0 (v) VALUES ('b')", "A: ROLLBACK TO s", "A: SELECT COUNT(*) FROM t0",
        "A: RELEASE SAVEPOINT s", "A: COMMIT", "B: SELECT COUNT(*) FROM t1", "A: SAVEPOINT s", "A: SELECT COUNT(*) FROM t0", "A: ROLLBACK TO s", "A: SAVEPOINT r", "A: ROLLBACK TO r",
        "A: ROLLBACK", "B: INSERT INTO t1 (v) VALUES ('b')", "A: ROLLBACK TO r"],
    "trackers of a driver": [
        "A: set autocommit=1, session_track_schema=1, sql_mode = concat(@@sql_mode,',STRICT_TRANS_TABLES')", "B: SELECT @@sql_mode",
        "A: SET autocommit=1,tx_isolation='READ-COMMITTED',session_track_schema=1,session_track_system_variables=CONCAT(@@session_track_system_variables,',autocommit,tx_isolation'), names UTF8MB4",
        "A: SET sql_mode = 'ANSI'", "B: SELECT @@sql_mode, @@tx_isolation", "A: SELECT @@sql_mode, @@tx_isolation, @@autocommit", "A: USE onramp_b", "B: SELECT DATABASE()",
        "A: SET session_track_system_variables='auto_increment_increment'", "A: SET time_zone = '+05:00'", "B: SELECT @@time_zone", "A: SELECT @@time_zone, DATABASE()"],
    "temporary table": [
        "A: CREATE TEMPORARY TABLE x (a INT)", "A: INSERT INTO x VALUES (1), (2)", "A: SELECT SUM(a) FROM x", "A: DROP TEMPORARY TABLE x",
        "B: SELECT * FROM x", "B: CREATE TEMPORARY TABLE x AS SELECT 5 AS a", "B: SELECT * FROM x", "B: DROP TABLE x", "A: SELECT * FROM x"],
    "two temporary tables": [
        "A: CREATE TEMPORARY TABLE IF NOT EXISTS x LIKE t0", "A: CREATE TEMPORARY TABLE onramp_b.`y` (a INT)", "A: DROP TABLE x",
        "A: ALTER TABLE onramp_b.y ADD b INT", "A: USE onramp_b", "A: DROP TABLE IF EXISTS y", "B: SELECT * FROM onramp_b.y", "A: SELECT DATABASE()"],
    "temporary table in a transaction": [
        "A: BEGIN", "A: CREATE TEMPORARY TABLE x (a INT)", "A: INSERT INTO t0 (v) SELECT 'x'", "A: DROP TEMPORARY TABLE x", "A: COMMIT",
        "B: SELECT COUNT(*) FROM t0", "A: SELECT LAST_INSERT_ID() > 0"],
    "temporary table that failed": ["A: CREATE TEMPORARY TABLE x AS SELECT * FROM missing", "B: SELECT 1", "A: SELECT * FROM x"],
    "temporary table under an error": [
        "A: CREATE TEMPORARY TABLE x (a INT)", "A: CREATE TEMPORARY TABLE x (a INT)", "A: DROP TABLE x", "B: SELECT 1"],
    "temporary table over a table": [
        "A: CREATE TEMPORARY TABLE words (a INT)", "A: DROP TABLE words", "B: SELECT COUNT(*) FROM words", "A: SELECT COUNT(*) FROM words"],
    "named lock": [
        "A: SELECT GET_LOCK('one', 0)", "A: SELECT GET_LOCK('one', 0) AS again", "A: SELECT RELEASE_LOCK('one')", "A: DO RELEASE_LOCK('one')",
        "B: SELECT GET_LOCK('one', 0)", "B: SELECT RELEASE_LOCK('one')", "A: SELECT IS_FREE_LOCK('one')"],
    "all named locks": ["A: DO GET_LOCK('one', 0)", "A: SELECT GET_LOCK('two', 0)", "A: SELECT RELEASE_ALL_LOCKS()", "B: SELECT GET_LOCK('two', 0)", "B: DO RELEASE_LOCK('two')"],
    "named lock not got": ["A: SELECT GET_LOCK('taken', 0)", "A: SELECT RELEASE_LOCK('never')", "B: SELECT 1"],
    "table locks": ["A: LOCK TABLES t0 WRITE", "A: SELECT COUNT(*) FROM t1", "A: UNLOCK TABLES", "B: INSERT INTO t0 (v) VALUES ('b')"],
    "table locks and a transaction": [
        "A: LOCK TABLES t0 READ", "A: BEGIN", "A: SELECT COUNT(*) FROM words", "A: COMMIT", "B: INSERT INTO t0 (v) VALUES ('b')"],
    "table lock that failed": ["A: LOCK TABLES missing WRITE", "B: INSERT INTO t0 (v) VALUES ('b')"],
    "prepared in text": [
        "A: PREPARE s FROM 'SELECT ? + 1'", "A: EXECUTE S USING 2", "A: DEALLOCATE PREPARE s", "B: EXECUTE s USING 2",
        "B: PREPARE s FROM 'INSERT INTO t1 (v) VALUES (1)'", "B: EXECUTE s", "B: DROP PREPARE s", "A: EXECUTE s", "B: SELECT LAST_INSERT_ID() = MAX(id) FROM t1"],
    "variables that are listed": [
        "A: SET @secret = 's3cret', @number = 5", "B: SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.USER_VARIABLES WHERE VARIABLE_VALUE IS NOT NULL",
        "A: SELECT VARIABLE_NAME, VARIABLE_VALUE FROM `information_schema`.`user_variables` ORDER BY VARIABLE_NAME"],
    "executed at once": ["A: EXECUTE IMMEDIATE 'SELECT w FROM words WHERE id = ?' USING 1", "B: SELECT FOUND_ROWS() >= 0", "A: SELECT FOUND_ROWS()"],
    "what cannot be prepared": ["A: PREPARE s FROM 'SELEC'", "B: SELECT 1", "A: EXECUTE s"],
    "handler": [
        "A: HANDLER words OPEN AS h", "A: HANDLER h READ `PRIMARY` FIRST", "A: HANDLER h READ `PRIMARY` NEXT", "A: HANDLER h CLOSE", "B: HANDLER h READ FIRST",
        "A: SELECT 1"],
    "rows counted": [
        "A: SELECT SQL_CALC_FOUND_ROWS id FROM words LIMIT 1", "B: SELECT id FROM words LIMIT 2", "A: SELECT FOUND_ROWS()", "B: SELECT FOUND_ROWS()"],
    "rows counted and warnings": [
        "A: SELECT SQL_CALC_FOUND_ROWS CAST('x' AS INT) FROM words LIMIT 2", "B: SELECT 1", "A: SELECT FOUND_ROWS()"],
    "id of an insert under a pin": [
        "A: CREATE TEMPORARY TABLE x (a INT)", "A: INSERT INTO t0 (v) VALUES ('a')", "A: DROP TEMPORARY TABLE x", "B: INSERT INTO t1 (v) VALUES ('b')",
        "A: SELECT LAST_INSERT_ID() = MAX(id) FROM t0", "B: SELECT LAST_INSERT_ID() = MAX(id) FROM t1"],
    "rows found before a pin": [
        "A: SELECT id FROM words LIMIT 3", "A: LOCK TABLES words READ", "A: UNLOCK TABLES", "B: SELECT 1", "A: SELECT FOUND_ROWS()",
        "A: CREATE TEMPORARY TABLE x (a INT)", "A: SELECT FOUND_ROWS()", "A: SELECT FOUND_ROWS()", "A: DROP TABLE x", "B: SELECT FOUND_ROWS()"],
    "rows found before a pin by text": [
        "B: SELECT id FROM words LIMIT 2", "A: SELECT id FROM words LIMIT 3", "A: EXECUTE IMMEDIATE 'SET @x = 9'", "A: SELECT FOUND_ROWS()"],
    "rows of a selection into variables": [
        "A: SELECT id FROM words LIMIT 3", "A: SELECT 7 INTO @x", "A: SELECT FOUND_ROWS()", "A: SELECT id INTO @x FROM words LIMIT 1", "A: SELECT FOUND_ROWS()"],
    "warnings and a function with a word in its name": [
        "A: SELECT CAST('x' AS INT)", "A: SELECT FROM_UNIXTIME(0) > 0", "A: SELECT @@warning_count", "B: SELECT 1"],
    "rows of a selection under a pin": [
        "A: CREATE TEMPORARY TABLE x AS SELECT id FROM words", "A: DROP TEMPORARY TABLE x", "B: SELECT 1", "A: SELECT FOUND_ROWS()"],
    "settings under a pin": [
        "A: SELECT GET_LOCK('one', 0)", "A: SET sql_mode = 'ANSI', time_zone = '+03:00'", "A: USE onramp_b", "A: SELECT RELEASE_LOCK('one')",
        "B: SELECT @@sql_mode, @@time_zone, DATABASE()", "A: SELECT @@sql_mode, @@time_zone, DATABASE()"],
    "user variables": [
        "A: SET @a = 1, @b = 'x'", "B: SELECT @a, @b", "B: SET @a := -2.5", "A: SELECT @a, @b, @a + 1, COLLATION(@b), COERCIBILITY(@b)", "B: SELECT @A, @b",
        "A: SET @b = NULL", "B: SELECT @b", "A: SELECT @a, @b", "B: INSERT INTO t1 (v) VALUES (@a)", "B: SELECT v FROM t1", "A: SELECT @a"],
    "user variables in a transaction": [
        "A: SET @a = 'one'", "B: SET @a = 'two'", "A: BEGIN", "A: INSERT INTO t0 (v) VALUES (@a)", "A: SET @a = 'three'", "A: INSERT INTO t0 (v) VALUES (@a)", "A: COMMIT",
        "B: SELECT v FROM t0 ORDER BY id", "B: SELECT @a"],
    "user variables and USING": [
        "A: SET @a = 3", "A: PREPARE s FROM 'SELECT ? * 2'", "A: EXECUTE s USING @a", "A: DEALLOCATE PREPARE s", "B: SELECT @a", "A: SELECT @a"],
    "user variables in a trigger": [
        "A: SET @on = 1", "B: INSERT INTO watched (a) VALUES (1)", "A: INSERT INTO watched (a) VALUES (2)", "B: SET @on = 2", "A: UPDATE watched SET a = a + 10", "B: SELECT * FROM watched ORDER BY a"],
    "user variables in a function": ["A: SET @on = 'a'", "B: SELECT 1", "A: SELECT on_is()"],
    "user variables under another character set": [
        "A: SET @n = 1", "A: SET NAMES latin1", "B: SELECT @n", "A: SELECT @n, CHARSET(@n)", "A: SET @s = 'x'", "B: SELECT @s", "A: SELECT CHARSET(@s), COLLATION(@s)"],
    "variables set with two signs": [
        "A: SET @@sql_mode = 'ANSI'", "B: SELECT @@sql_mode", "A: SELECT @@sql_mode", "A: SET @@time_zone = '+03:00', @@session.lc_time_names = 'de_DE', @@innodb_tmpdir = NULL",
        "B: SELECT @@time_zone", "A: SELECT @@time_zone, DATE_FORMAT('2026-05-04', '%W')", "A: SET @@time_zone = 'nowhere'", "A: SET @@sql_mode = DEFAULT", "B: SELECT @@sql_mode", "A: SELECT @@sql_mode"],
    "variables under a character set of two bytes": [
        "A: SET character_set_results = utf16, @@sql_mode = 'ANSI'", "B: SELECT @@sql_mode", "A: SET @@max_join_size = 100000", "B: SELECT 1", "A: SET NAMES utf8mb4",
        "A: SELECT @@sql_mode, @@max_join_size, @@character_set_results"],
    "variables of one statement": [
        "A: SET STATEMENT sql_mode = '', time_zone = '+02:00' FOR SELECT @@sql_mode, @@time_zone", "B: SELECT @@sql_mode, @@time_zone", "A: SELECT @@sql_mode, @@time_zone",
        "A: SET STATEMENT sql_mode = '' FOR SELECT missing", "B: SELECT @@sql_mode", "A: SELECT @@sql_mode", "A: SELECT @@warning_count"],
    "escapes in one statement": [
        "A: SET STATEMENT sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES' FOR SELECT 1", "A: SELECT 'a\\'; SELECT 2 -- ', \"x\"", "B: SELECT 'a\\'; SELECT 2 -- '"],
    "a global variable in a text that fails": ["A: SET @@sql_notes = 0, @@max_connections = 5; SELECT 1", "A: SET @@sql_notes = 0; SET @@missing = 1", "B: SELECT @@sql_notes", "A: SELECT @@sql_notes"],
    "a limit that sets another variable": ["A: SET sql_big_selects = 1", "A: SET max_join_size = 10", "B: SELECT @@sql_big_selects", "A: SELECT @@sql_big_selects, @@max_join_size"],
    "character set under a pin": [
        "A: SELECT GET_LOCK('one', 0)", "A: SET CHARACTER SET latin1", "A: SELECT RELEASE_LOCK('one')", "B: SELECT @@character_set_client, @@collation_connection",
        "A: SELECT @@character_set_client, @@character_set_connection, @@collation_connection"],
    "character set in a text that fails": [
        "A: SET NAMES utf8mb3 COLLATE utf8mb3_unicode_ci; SELECT missing", "B: SELECT @@collation_connection", "A: SELECT @@character_set_client, @@collation_connection"],
    "savepoint without autocommit": ["A: SET autocommit = 0", "A: SAVEPOINT s", "A: SET autocommit = DEFAULT", "B: SELECT 1", "A: SELECT @@autocommit"],
    "savepoint without autocommit and a definition": ["A: SET autocommit = 0", "A: SAVEPOINT s", "A: CREATE TABLE y (a INT)", "B: SELECT 1", "A: DROP TABLE y"],
    "id of an insert among others": [
        "A: DO 1; INSERT INTO t0 (v) VALUES ('a') RETURNING v; SELECT 1", "B: SELECT 1", "A: SELECT LAST_INSERT_ID() = MAX(id) FROM t0"],
    "id of an insert before a transaction": [
        "A: INSERT INTO t0 (v) VALUES ('a')", "A: SET autocommit = 0", "A: DO 1; INSERT INTO t0 VALUES (500, 'explicit', 1)", "A: SAVEPOINT s", "A: COMMIT", "A: SET autocommit = 1",
        "A: SELECT LAST_INSERT_ID() = MIN(id) FROM t0"],
    "rows found among others": [
        "A: SET @@sql_notes = 0; SELECT id FROM words WHERE id IS NULL; DO 1", "B: SELECT 1", "A: SELECT FOUND_ROWS()", "A: SELECT id FROM words LIMIT 2; SET @@sql_notes = 1",
        "B: SELECT 1", "A: SELECT FOUND_ROWS()"],
    "counts of conditions under a pin": [
        "A: SELECT GET_LOCK('one', 0)", "A: SELECT CAST('x' AS INT), (SELECT 1 UNION SELECT 2)", "A: SELECT @@warning_count, @@error_count", "A: DO 0", "A: SELECT @@warning_count, @@error_count",
        "A: SELECT RELEASE_LOCK('one')", "B: SELECT 1", "A: SHOW WARNINGS", "A: SELECT @@error_count"],
    "counts of conditions": ["A: SELECT CAST('x' AS INT), (SELECT 1 UNION SELECT 2)", "B: SELECT 1", "A: SELECT @@warning_count, @@error_count", "A: SET max_error_count = 1", "A: SELECT CAST('x' AS INT), CAST('y' AS INT)", "A: SELECT @@warning_count"],
    "status behind an error under a pin": [
        "A: SELECT GET_LOCK('one', 0)", "A: BEGIN", "A: INSERT INTO t0 (v) VALUES ('a')", "A: DROP DATABASE missing", "A: SELECT RELEASE_LOCK('one')", "B: SELECT COUNT(*) FROM t0"],
    "a trigger's work before an error": [
        "A: INSERT INTO counted VALUES (1)", "B: SELECT @counted, @@sql_safe_updates", "B: SELECT * FROM onramp_a.kept",
        "A: SET time_zone = '+02:00'", "A: INSERT INTO counted VALUES (1)", "B: SELECT @counted, @@time_zone", "A: SELECT @@time_zone"],
    "a trigger's work before an error in a transaction": [
        "A: BEGIN", "A: INSERT INTO counted VALUES (1)", "A: INSERT INTO t0 (v) VALUES ('a')", "A: COMMIT", "B: SELECT @counted, @@sql_safe_updates",
        "B: SELECT * FROM onramp_a.kept", "B: SELECT COUNT(*) FROM t0"],
    "next transaction": [
        "A: SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "A: SELECT GET_LOCK('one', 0)", "A: BEGIN", "A: COMMIT", "A: SELECT RELEASE_LOCK('one')", "B: SELECT @@tx_isolation"],
}


def prepare_triggers(admin):
    """Code on the server that reads and writes user variables."""
    for statement in (
            "CREATE TABLE onramp_a.watched (a INT, seen VARCHAR(20))",
            "CREATE TRIGGER onramp_a.watch BEFORE INSERT ON onramp_a.watched FOR EACH ROW SET NEW.seen = @on",
            "CREATE TRIGGER onramp_a.sum BEFORE DELETE ON onramp_a.watched FOR EACH ROW SET @sum = @sum + OLD.a",
            "CREATE TRIGGER onramp_a.again BEFORE UPDATE ON onramp_a.watched FOR EACH ROW SET NEW.seen = CONCAT(OLD.seen, @on)",
            "CREATE FUNCTION onramp_a.on_is() RETURNS VARCHAR(20) RETURN @on",
            "CREATE TABLE onramp_a.counted (a INT PRIMARY KEY)",
            "INSERT INTO onramp_a.counted VALUES (1)",
            "CREATE PROCEDURE onramp_a.keep(a INT) BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS onramp_a.kept (a INT); INSERT INTO onramp_a.kept VALUES (a); END",
            "CREATE TRIGGER onramp_a.count BEFORE INSERT ON onramp_a.counted FOR EACH ROW BEGIN SET @counted = NEW.a; SET sql_safe_updates = 1; CALL onramp_a.keep(NEW.a); END",
            "CREATE TABLE onramp_a.zoned (a INT)",
            "CREATE TRIGGER onramp_a.zone BEFORE INSERT ON onramp_a.zoned FOR EACH ROW BEGIN SET @zone = @@time_zone; SET time_zone = '+00:00'; SET time_zone = @zone; END"):
        assert isinstance(admin.query(statement), raw.Ok), statement


@pytest.mark.parametrize("deprecate_eof", [True, False])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_given_back(site, client, admin, note, name, deprecate_eof):
    prepare_schemas(admin, 2)
    admin.query("SELECT GET_LOCK('taken', 0)")
    prepare_triggers(admin)
    capabilities = raw.USUAL | raw.MULTI_STATEMENTS
    capabilities = capabilities if deprecate_eof else capabilities & ~raw.DEPRECATE_EOF
    clients = {who: client(schema="onramp_a", capabilities=capabilities) for who in "AB"}
    for number, step in enumerate(PROGRAMS[name]):
        who, text = step.split(": ", 1)
        answers = clients[who].query_all(text)
        seen = [answer.rows if isinstance(answer, raw.Rows) else answer for answer in answers]
        note(f"{number} {step}", seen)


# What nobody can be sure of keeps the pin: others get no backend.
IN_DOUBT = {
    "renamed table": ["CREATE TEMPORARY TABLE x (a INT)", "ALTER TABLE x RENAME TO y", "CREATE TABLE x (a INT)", "DROP TABLE x"],
    "a lock by an expression": ["SELECT GET_LOCK(CONCAT('o', 'ne'), 0)", "SELECT RELEASE_LOCK('one')"],
    "a lock taken twice": ["SELECT GET_LOCK('one', 0)", "SELECT GET_LOCK('one', 0)", "SELECT RELEASE_LOCK('one')"],
    "one table of two": ["CREATE TEMPORARY TABLE x (a INT)", "CREATE TEMPORARY TABLE y (a INT)", "DROP TABLE x"],
    "a global lock": ["FLUSH TABLES words WITH READ LOCK", "UNLOCK TABLES", "FLUSH TABLES WITH READ LOCK", "BEGIN", "COMMIT"],
    "executed": ["PREPARE s FROM 'SET @a = 1'", "EXECUTE s", "DEALLOCATE PREPARE s"],
    "a variable of an expression": ["SET @a = 1 + 1"],
    "a variable in a selection": ["SET @a = 1", "SELECT @a := @a + 1"],
    "a variable in a trigger": ["SET @sum = 0", "INSERT INTO watched VALUES (1, ''), (2, '')", "DELETE FROM watched"],
    "a variable in a trigger under SET STATEMENT": [
        "SET @sum = 0", "INSERT INTO watched VALUES (1, '')", "SET STATEMENT max_statement_time = 50 FOR DELETE FROM watched"],
    "a system variable and another one in a trigger": ["INSERT INTO zoned VALUES (1)"],
    "trackers of one statement": ["SET STATEMENT session_track_system_variables = '' FOR SET time_zone = '+05:00'"],
    "an empty string": ["SET @a = ''"],
    "variables that are forgotten": ["SET @a = 1", "FLUSH USER_VARIABLES"],
    "a savepoint and a temporary table": ["SET autocommit = 0", "SAVEPOINT s", "CREATE TEMPORARY TABLE x (a INT)", "DROP TEMPORARY TABLE x"],
    "a savepoint and a temporary table that is dropped like any": ["SET autocommit = 0", "SAVEPOINT s", "CREATE TEMPORARY TABLE x (a INT)", "TRUNCATE x", "DROP TABLE x"],
    "a string and another character set": ["SET @a = 'x'", "SET NAMES latin1"],
    "several": ["CREATE TEMPORARY TABLE x (a INT); CREATE TEMPORARY TABLE y (a INT)", "DROP TABLE x"],
}


@pytest.mark.parametrize("name", sorted(IN_DOUBT))
def test_kept_in_doubt(single, admin, name):
    prepare_schemas(admin, 2)
    prepare_triggers(admin)
    capabilities = raw.USUAL | raw.MULTI_STATEMENTS
    with (raw.connect(single, *ADMIN, schema="onramp_a", capabilities=capabilities) as holder,
          raw.connect(single, *ADMIN, schema="onramp_a") as other):
        assert isinstance(other.query("SELECT 1"), raw.Rows)
        for step in IN_DOUBT[name]:
            for answer in holder.query_all(step):
                assert not isinstance(answer, raw.Err), (step, answer)
        other.command(raw.QUERY, b"SELECT 1")
        # Time enough for an answer, of which there is none however long one waits.
        assert not select.select([other.socket], [], [], 0.3)[0], other.result()
        holder.reset()
        assert isinstance(other.result(), raw.Rows)
