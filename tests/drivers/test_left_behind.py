"""Two clients on a single backend: nothing of a client's session is left to the other, nor lost, where the server says nothing of it."""

import pytest

from conftest import site_through
from harness import raw
from harness.programs import prepare_schemas

site = site_through("single")


@pytest.fixture
def role(admin):
    """A role that `app` may take, without having it by itself."""
    for statement in ("CREATE OR REPLACE ROLE onramp_powers", "GRANT SELECT ON mysql.* TO onramp_powers", "GRANT onramp_powers TO app@'%'"):
        assert isinstance(admin.query(statement), raw.Ok), statement
    yield
    admin.query("DROP ROLE onramp_powers")


def see(clients, who, text):
    if text == "leaves":
        return clients.pop(who).close()
    connection = clients[who]
    if text == "is closed":
        return connection.at_end()
    if text == "COM_RESET_CONNECTION":
        return connection.reset()
    if text.startswith("unread "):
        connection.command(raw.QUERY, text.removeprefix("unread ").encode())
        return [len(connection.receive()) for _ in ("columns", "definition", "row", "end")]
    answers = connection.query_all(text.encode("latin-1") if who == "L" else text)
    answers = [answer.rows if isinstance(answer, raw.Rows) else answer for answer in answers]
    return answers[0] if len(answers) == 1 else answers


def play(client, note, program, schema="onramp_a", direct=None):
    # K's strings have another collation than those of A and B, L's texts are latin1, M may send several statements at a time, and
    # S is on the server whatever the site is.
    several = raw.USUAL | raw.MULTI_STATEMENTS
    clients = {"A": client(schema=schema), "B": client(schema=schema), "K": client(schema=schema, collation=46),
               "L": client(schema=schema, collation=8), "M": client(schema=schema, capabilities=several), "S": direct}
    for number, step in enumerate(program):
        who, text = step.split(": ", 1)
        note(f"{number} {step}", see(clients, who, text))


MINE = "A: SELECT CURRENT_ROLE()"
YOURS = "B: SELECT CURRENT_ROLE(), (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'mysql') > 1"

ROLES = {
    "taken": ["A: SET ROLE onramp_powers", MINE, "A: leaves", YOURS],
    "taken by name": ["A: EXECUTE IMMEDIATE 'SET ROLE onramp_powers'", MINE, "A: leaves", YOURS],
    "prepared in text": ["A: PREPARE s FROM 'SET ROLE onramp_powers'", "A: EXECUTE s", MINE, "A: DEALLOCATE PREPARE s", "A: leaves", YOURS],
    "taken in a block": ["A: BEGIN NOT ATOMIC SET ROLE onramp_powers; END", "A: leaves", YOURS],
    "taken by text outlives a reset": ["A: PREPARE s FROM 'SET ROLE onramp_powers'", "A: EXECUTE s", "A: COM_RESET_CONNECTION", MINE, "A: leaves", YOURS],
    "taken in a block outlives a reset": ["A: BEGIN NOT ATOMIC SET ROLE onramp_powers; END", "A: COM_RESET_CONNECTION", MINE, "A: leaves", YOURS],
    "outlives a reset": ["A: SET ROLE onramp_powers", "A: COM_RESET_CONNECTION", MINE, "A: SET ROLE NONE", "A: COM_RESET_CONNECTION", MINE, "A: leaves", YOURS],
}


@pytest.mark.parametrize("name", sorted(ROLES))
def test_roles(client, note, admin, role, name):
    prepare_schemas(admin, 2)
    play(client, note, ROLES[name])


ZONE = "B: SELECT @@time_zone"

NUMBERED = "S: CREATE TABLE onramp_a.numbered (id INT AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE) AUTO_INCREMENT = 70"
MY_ID = "A: SELECT LAST_INSERT_ID()"
YOUR_ID = "B: SELECT LAST_INSERT_ID()"
# The server gives a lock back a moment after its connection has gone.
LOCK_IS_FREE = ["S: SELECT GET_LOCK('onramp_left', 20)", "S: SELECT RELEASE_ALL_LOCKS()"]

LATIN = ["S: CREATE DATABASE onramp_latin CHARACTER SET latin1", "A: USE onramp_latin", "B: USE onramp_latin"]

# Of MySQL too.
LEFT_ON_BOTH = {
    "a collation set while its character set is in doubt": [
        "A: CREATE TEMPORARY TABLE kept (a INT)", "A: EXECUTE nothing", "A: SET collation_connection = utf8mb4_german2_ci", "A: DROP TEMPORARY TABLE kept",
        "B: SELECT @@collation_connection", "A: SELECT @@collation_connection"],
    "the schema of a procedure that fails": [
        "A: CREATE PROCEDURE onramp_a.fails() BEGIN SELECT 'a result'; SELECT missing FROM words; END", "A: USE onramp_b", "A: CALL onramp_a.fails()", "A: COM_RESET_CONNECTION",
        "B: SELECT * FROM nowhere", "A: SELECT * FROM nowhere", "A: leaves", "B: SELECT * FROM nowhere"],
    "a lock taken on the way to a table": ["A: CREATE TABLE made AS SELECT GET_LOCK('onramp_left', 0)", "A: leaves", *LOCK_IS_FREE],
    "a lock taken on the way to a temporary table": [
        "A: CREATE TEMPORARY TABLE made AS SELECT GET_LOCK('onramp_left', 0)", "A: DROP TEMPORARY TABLE made", "A: leaves", *LOCK_IS_FREE],
    "a lock taken while looking for a row": [
        "A: HANDLER words OPEN", "A: HANDLER words READ FIRST WHERE GET_LOCK('onramp_left', 0)", "A: HANDLER words CLOSE", "A: leaves", *LOCK_IS_FREE],
    "a schema's character set behind a reset": [
        *LATIN, "A: SELECT GET_LOCK('onramp_left', 0)", "A: COM_RESET_CONNECTION", "B: SELECT @@character_set_database, @@collation_database",
        "A: SELECT DATABASE()", "A: leaves", "B: SELECT @@character_set_database, DATABASE()", "S: DROP DATABASE onramp_latin"],
    "a schema's character set behind an error": [
        *LATIN, "A: INSERT INTO onramp_a.words VALUES (1, 'once more')", "B: SELECT @@character_set_database, @@collation_database",
        "A: SELECT @@character_set_database, DATABASE()", "S: DROP DATABASE onramp_latin"],
    "a lock behind what looks like a block": [
        "M: CREATE VIEW made AS SELECT 1 AS begin; DO GET_LOCK('onramp_left', 0); SELECT 1 AS end", "M: leaves", *LOCK_IS_FREE],
    "a connection that ends with its transaction": [
        "A: SET completion_type = 'RELEASE'", "A: BEGIN", "A: INSERT INTO words VALUES (9, 'nine')", "A: COMMIT", "A: is closed", "B: SELECT w FROM words WHERE id = 9",
        "M: SET completion_type = 2", "M: ROLLBACK", "M: is closed", "B: SELECT 1"],
    "a comment behind the last statement": ["M: SELECT 1; -- and no more", "B: SELECT 2", "M: DO 1; /* and no more */", "B: SELECT 3"],
    "a variable set behind another kind of blank": ["L: SELECT 9 INTO\xa0@x", "L: SELECT @x", "L: leaves", "B: SELECT @x"],
    "a variable that stays behind a hint": ["A: SET /*+ SET_VAR(sort_buffer_size = 100000) */ @@time_zone = '+05:00'", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "an id of a table that was not created": [
        "A: CREATE TABLE failing (id INT AUTO_INCREMENT PRIMARY KEY, v INT UNIQUE) AUTO_INCREMENT = 70 SELECT 1 AS v UNION ALL SELECT 1", YOUR_ID, MY_ID],
    "an id where no rows are wanted": [
        NUMBERED, "A: INSERT INTO numbered (v) VALUES (1)", "A: SET sql_select_limit = 0", "A: INSERT INTO numbered (id, v) VALUES (7, 7)", "A: SET @@time_zone = '+05:00'",
        "A: SET sql_select_limit = DEFAULT", "B: SELECT @@time_zone", "A: SELECT LAST_INSERT_ID(), @@time_zone"],
    "calls without blanks around them": [
        "A: SELECT@@warning_count", "A: SELECT ROW_COUNT()AS n", "A: SELECT 1 FROM words WHERE 1=ROW_COUNT()OR 1=0", "A: SELECT@@error_count FROM words LIMIT 1"],
    "rows found before a signal": [
        "A: SELECT w FROM words WHERE id = 77", "A: SIGNAL SQLSTATE '01234' SET MESSAGE_TEXT = 'a warning'", "A: SELECT FOUND_ROWS()", "A: DO 1", "A: SELECT ROW_COUNT()"],
    "warnings beside another's variables": [
        "A: SET @n = 1", "B: SET @n = 2", "A: BEGIN", "A: SELECT 1/0 FROM words", "A: SHOW COUNT(*) WARNINGS", "A: SELECT @n", "A: ROLLBACK",
        "B: SET @n = 3", "A: BEGIN", "A: SELECT 1/0 FROM words", "A: SHOW WARNINGS", "A: ROLLBACK",
        "B: SET @n = 4", "A: BEGIN", "A: SELECT 1/0 FROM words", "A: SELECT @@warning_count", "A: SHOW WARNINGS", "A: ROLLBACK",
        "B: SET @n = 5", "A: BEGIN", "A: SELECT 1/0 FROM words", "A: SELECT @n, @@warning_count", "A: ROLLBACK"],
    "a trigger's variables beside a count of warnings": [
        "S: CREATE TABLE onramp_a.triggered (n INT, seen INT)", "S: CREATE TRIGGER onramp_a.sees BEFORE INSERT ON onramp_a.triggered FOR EACH ROW SET NEW.seen = @n",
        "A: SET @n = 1", "B: SET @n = 2", "B: SELECT @n", "A: INSERT INTO triggered (n) VALUES (@@warning_count)", "A: SELECT seen FROM triggered",
        "S: CREATE FUNCTION onramp_a.n() RETURNS INT DETERMINISTIC RETURN @n", "S: CREATE VIEW onramp_a.of_n AS SELECT onramp_a.n() AS n",
        "B: SELECT @n", "A: SELECT n, @@error_count FROM of_n", "S: DROP FUNCTION onramp_a.n", "S: DROP TABLE onramp_a.triggered"],
    "warnings of what has to be asked for": [
        "A: BEGIN", "A: SELECT w FROM words WHERE id = 1", "A: SET CHARACTER SET utf8mb3", "A: SHOW WARNINGS", "A: SELECT @@character_set_client", "A: ROLLBACK"],
    "a string beside a name": ["A: SET session_track_system_variables = 'time_zone'", "A: SELECT @@session_track_system_variables 'name'"],
}

PROGRAMS = {
    "a variable set by name": ["A: EXECUTE IMMEDIATE \"SET @@time_zone = '+05:00'\"", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "a variable in a prepared text": [
        "A: PREPARE s FROM \"SET @@time_zone = '+05:00'\"", "A: EXECUTE s", "A: DEALLOCATE PREPARE s", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "a variable for one statement by name": [
        "A: EXECUTE IMMEDIATE \"SET STATEMENT time_zone = '+05:00' FOR SELECT @@time_zone\"", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "a lock that was not released": [
        "A: DO GET_LOCK('onramp_left', 0)", "A: SET sql_select_limit = 0", "A: SELECT RELEASE_LOCK('onramp_left')", "A: leaves", "B: DO GET_LOCK('onramp_left', 20)",
        "B: SELECT RELEASE_ALL_LOCKS()"],
    "a lock told of in another character set": [
        "A: SET character_set_results = 'utf16'", "A: unread SELECT GET_LOCK('onramp_left', 0)", "A: leaves", "B: DO GET_LOCK('onramp_left', 20)",
        "B: SELECT RELEASE_ALL_LOCKS()"],
    "strings of two collations": [
        "A: SET @a = 'x'", "K: SET @a = 'x'", "A: INSERT INTO t0 (v) VALUES (COLLATION(@a))", "A: SELECT v, @a = 'X' FROM t0 WHERE v = COLLATION(@a)"],
    "old and new name of an algorithm": [
        "A: SET old_alter_table = 1", "A: SET alter_algorithm = 'INPLACE'", "B: SELECT @@alter_algorithm", "A: SELECT @@alter_algorithm, @@old_alter_table", "B: SELECT @@alter_algorithm"],
    "old and new name of an engine": [
        "A: SET storage_engine = 'MyISAM'", "A: SET default_storage_engine = 'Aria'", "B: SELECT @@default_storage_engine", "A: SELECT @@default_storage_engine", "B: SELECT @@storage_engine"],
    "two names of a limit": [
        "A: SET min_examined_row_limit = 5", "A: SET log_slow_min_examined_row_limit = 7", "B: SELECT @@min_examined_row_limit", "A: SELECT @@min_examined_row_limit"],
    "a variable that sets another": [
        "A: SET max_join_size = 5", "A: SET sql_big_selects = 1", "B: SET sql_big_selects = 1", "B: SELECT @@max_join_size > 5", "A: SELECT @@max_join_size, @@sql_big_selects",
        "B: SELECT @@max_join_size > 5, @@sql_big_selects"],
    "a function named like one of MySQL's": [
        "A: CREATE FUNCTION bin_to_uuid(wait INT) RETURNS INT RETURN GET_LOCK('onramp_left', wait)", "A: SELECT bin_to_uuid(0)", "A: leaves", *LOCK_IS_FREE],
    "a name that is a number": ["A: SET default_master_connection = '1'", "B: SELECT @@default_master_connection", "A: SELECT @@default_master_connection"],
    "the optimizer's notes": [
        "A: SET optimizer_trace = 'enabled=on'", "A: SELECT 'A' FROM words LIMIT 1", "A: leaves", "B: SET optimizer_trace = 'enabled=on'", "B: SELECT QUERY FROM information_schema.OPTIMIZER_TRACE"],
    "the schema's character set": [
        "A: SET character_set_database = 'latin1'", "A: USE onramp_b", "A: SELECT @@character_set_database", "A: leaves", "B: USE onramp_b", "B: SET character_set_database = 'latin1'",
        "B: SELECT @@character_set_database"],
    "the schema of a procedure": [
        "A: USE information_schema", "A: CALL onramp_a.warn()", "A: SELECT DATABASE()", "A: COM_RESET_CONNECTION", "A: SELECT DATABASE()", "A: leaves", "B: SELECT DATABASE()",
        "B: SELECT w FROM words WHERE id = 1"],
    "the schema of a procedure called by name": [
        "A: USE information_schema", "A: EXECUTE IMMEDIATE 'CALL onramp_a.warn()'", "A: SELECT DATABASE()", "A: COM_RESET_CONNECTION", "A: SELECT DATABASE()", "A: leaves",
        "B: SELECT w FROM words WHERE id = 1"],
    "a schema chosen by name": [
        "A: USE information_schema", "A: EXECUTE IMMEDIATE 'USE onramp_b'", "A: SELECT DATABASE()", "A: COM_RESET_CONNECTION", "A: SELECT w FROM words WHERE id = 1", "A: leaves",
        "B: SELECT w FROM words WHERE id = 1"],
    "a null's type": [
        "A: SET @n = 5, @s = 'x', @f = 1e0", "A: SET @n = NULL, @s = NULL, @f = NULL, @b = NULL", "B: SET @n = 'y', @s = 5, @f = 'y', @b = 5",
        "A: CREATE TABLE typed AS SELECT @n AS n, @s AS s, @f AS f, @b AS b", "A: SHOW CREATE TABLE typed", "A: SELECT @n, @s, @f, @b", "B: SELECT @n, @s, @f, @b"],
    "a variable that stays behind SET STATEMENT": [
        "A: SET STATEMENT max_statement_time = 5 FOR SET @@time_zone = '+05:00'", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "a warning that the next statement takes away": [
        NUMBERED, "A: INSERT INTO numbered (v) VALUES (1) RETURNING v", "A: DROP TEMPORARY TABLE IF EXISTS nothing", "A: INSERT IGNORE INTO numbered VALUES (77, 3)",
        "A: SHOW COUNT(*) WARNINGS"],
    "a collation that another old_mode calls otherwise": [
        "A: SET old_mode = ''", "B: SET NAMES utf8 COLLATE utf8_general_ci", "A: SELECT @@old_mode", "B: SELECT @@collation_connection", "B: SELECT w FROM words WHERE id = 1"],
    "a collation by its name in old_mode": [
        "A: SET old_mode = ''", "A: SET NAMES utf8 COLLATE utf8_bin", "B: SELECT @@old_mode", "A: SELECT @@collation_connection", "A: SELECT w FROM words WHERE id = 1"],
    "the optimizer's notes on one statement": [
        "A: SET STATEMENT optimizer_trace = 'enabled=on' FOR SELECT 'A' FROM words LIMIT 1", "A: leaves", "B: SELECT QUERY FROM information_schema.OPTIMIZER_TRACE"],
    "lists that are empty": [
        "A: SET log_slow_filter = '', optimizer_adjust_secondary_key_costs = ''", "B: SELECT @@log_slow_filter, @@optimizer_adjust_secondary_key_costs",
        "A: SELECT @@log_slow_filter, @@optimizer_adjust_secondary_key_costs"],
    "a name that is empty": [
        "A: SET sql_mode = '', default_master_connection = ''", "B: SET sql_mode = 'EMPTY_STRING_IS_NULL'", "B: SELECT ''", "A: SELECT @@sql_mode, @@default_master_connection"],
    "an id of an analyzed insert": [NUMBERED, "A: ANALYZE INSERT INTO numbered (v) VALUES (1)", YOUR_ID, MY_ID],
    **LEFT_ON_BOTH,
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_two_clients(client, note, admin, name):
    prepare_schemas(admin, 2)
    play(client, note, PROGRAMS[name], direct=admin)


def answers(client, prepared, values=()):
    answer, = client.execute(prepared.statement, values)
    return [(column.name, column.kind, column.charset) for column in answer.columns], answer.rows


def test_a_statement_that_the_server_prepares_again(client, note, admin):
    """It does so behind DDL, in the character sets of the one who executes it."""
    prepare_schemas(admin, 2)
    assert isinstance(admin.query("INSERT INTO onramp_a.t0 (v) VALUES ('x')"), raw.Ok)
    text = "SELECT '\u00e4' AS l, CHAR_LENGTH('\u00e4') AS n FROM t0"
    first, second = client(schema="onramp_a"), client(schema="onramp_a")
    prepared = [connection.prepare(text) for connection in (first, second)]
    note("before", [answers(first, prepared[0]), answers(second, prepared[1])])
    first.query("SET NAMES latin1")
    assert isinstance(admin.query("ALTER TABLE onramp_a.t0 ADD COLUMN more INT"), raw.Ok)
    for _ in range(2):
        answers(first, prepared[0])  # what it means to the first one is not always as direct, see DIFFERENCES.md
        note("second", answers(second, prepared[1]))
