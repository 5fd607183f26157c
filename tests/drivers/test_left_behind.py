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
    if text == "COM_RESET_CONNECTION":
        return connection.reset()
    if text.startswith("unread "):
        connection.command(raw.QUERY, text.removeprefix("unread ").encode())
        return [len(connection.receive()) for _ in ("columns", "definition", "row", "end")]
    answers = [answer.rows if isinstance(answer, raw.Rows) else answer for answer in connection.query_all(text)]
    return answers[0] if len(answers) == 1 else answers


def play(client, note, program, schema="onramp_a"):
    # K's strings have another collation than those of A and B.
    clients = {"A": client(schema=schema), "B": client(schema=schema), "K": client(schema=schema, collation=46)}
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
    "outlives a reset": ["A: SET ROLE onramp_powers", "A: COM_RESET_CONNECTION", MINE, "A: SET ROLE NONE", "A: COM_RESET_CONNECTION", MINE, "A: leaves", YOURS],
}


@pytest.mark.parametrize("name", sorted(ROLES))
def test_roles(client, note, admin, role, name):
    prepare_schemas(admin, 2)
    play(client, note, ROLES[name])


ZONE = "B: SELECT @@time_zone"

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
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_two_clients(client, note, admin, name):
    prepare_schemas(admin, 2)
    play(client, note, PROGRAMS[name])
