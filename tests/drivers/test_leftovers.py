"""What a statement leaves on its backend is for its own client only, and every statement of a text is run."""

import struct

import pytest

from harness import raw
from harness.raw import Err, Ok, Rows

SECRET = "SECRET of somebody else"

# Each asks the server itself for what the statement before has left.
ASKING = [
    "SELECT 1; SHOW WARNINGS", "SHOW WARNINGS; SELECT 1", "SHOW ERRORS; SELECT 1", "EXECUTE IMMEDIATE 'SHOW WARNINGS'",
    "PREPARE z FROM 'SHOW WARNINGS'; EXECUTE z", "BEGIN NOT ATOMIC SHOW WARNINGS; END", "CALL show_warnings()",
    "CALL read_diagnostics()", "SET @a = 1; SHOW WARNINGS",
]


@pytest.fixture
def table(admin, schema):
    for statement in [
        f"USE {schema}", "CREATE TABLE s (id INT, v VARCHAR(50))", f"INSERT INTO s VALUES (1, '{SECRET}'), (2, 'x'), (3, 'y')",
        "CREATE PROCEDURE show_warnings() SHOW WARNINGS",
        "CREATE PROCEDURE read_diagnostics() BEGIN GET DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT; SELECT @m; END",
    ]:
        assert isinstance(admin.query(statement), Ok), statement
    return schema


def leave_warnings(client, schema, times=6):
    """On every backend, by clients who are there or gone."""
    for number in range(times):
        other = client(schema=schema)
        assert other.query("SELECT v + 0 FROM s").warnings == 3
        assert isinstance(other.query(f"SELECT * FROM `{SECRET}`"), Err)
        other.query("SELECT v + 0 FROM s")
        if number % 2:
            other.close()


def seen(results):
    return [result.rows if isinstance(result, Rows) else result[:2] for result in results]


@pytest.mark.parametrize("statement", ASKING)
def test_nobody_sees_the_warnings_of_others(client, note, table, statement):
    leave_warnings(client, table)
    fresh = client(schema=table, capabilities=raw.USUAL | raw.MULTI_STATEMENTS)
    note("as a text", seen(fresh.query_all(statement)))
    pinned = client(schema=table, capabilities=raw.USUAL | raw.MULTI_STATEMENTS)
    note("pins", pinned.query("SET @pins = 1"))
    note("afterwards", seen(pinned.query_all(statement)))


@pytest.mark.parametrize("statement", ["SHOW WARNINGS", "SHOW ERRORS", "CALL show_warnings()", "CALL read_diagnostics()"])
def test_nobody_sees_them_by_a_prepared_statement(client, note, table, statement):
    leave_warnings(client, table)
    fresh = client(schema=table)
    prepared = fresh.prepare(statement)
    note("executed", seen(fresh.execute(prepared.statement)))


@pytest.mark.parametrize("first", ["SHOW WARNINGS", "SHOW ERRORS", "SHOW COUNT(*) WARNINGS"])
def test_what_stands_behind_is_run(client, note, table, first):
    connection = client(schema=table, capabilities=raw.USUAL | raw.MULTI_STATEMENTS)
    note("both", [type(result).__name__ for result in connection.query_all(f"{first}; DELETE FROM s")])
    note("rows left", connection.value("SELECT COUNT(*) FROM s"))


def test_what_stands_behind_a_kill_is_not_dropped_in_silence(client, table):
    victim = client(schema=table)
    number = int(victim.value("SELECT CONNECTION_ID()"))
    connection = client(schema=table, capabilities=raw.USUAL | raw.MULTI_STATEMENTS)
    results = connection.query_all(f"KILL QUERY {number}; DELETE FROM s")
    left = int(client(schema=table).value("SELECT COUNT(*) FROM s"))
    assert (isinstance(results[0], Err) and left == 3) or (len(results) == 2 and left == 0), (results, left)


# MariaDB warns of each unknown table in one note, MySQL of each in a note of its own; both warn of each value.
LEAVING = ["SELECT v + 0 FROM s", "SELECT missing FROM s", "DROP TABLE IF EXISTS x1, x2, x3", "INSERT INTO s (id) SELECT 'x' FROM s", "SELECT 1"]
SHOWING = ["SHOW ERRORS", "SHOW WARNINGS LIMIT 2", "SHOW ERRORS LIMIT 1", "SHOW WARNINGS LIMIT 1, 1", "SHOW WARNINGS LIMIT 5 OFFSET 1", "show warnings limit 0;",
           "SHOW WARNINGS LIMIT 9, 9", "SHOW COUNT(*) WARNINGS", "SHOW COUNT(*) ERRORS"]


@pytest.mark.parametrize("statement", LEAVING)
def test_some_of_the_warnings(client, note, table, statement):
    connection = client(schema=table)
    for showing in SHOWING:
        connection.query(statement)
        note(showing, connection.query(showing))
        note("rows", connection.query("SELECT ROW_COUNT()").rows)


def test_rows_found_by_definitions(client, note, table):
    connection = client(schema=table)
    for definition in ["CREATE TABLE copied SELECT id FROM s", "ALTER TABLE copied ADD COLUMN n INT, ALGORITHM = COPY", "CREATE TABLE empty SELECT id FROM s WHERE id > 9",
                       "CREATE TABLE constant SELECT 1", "CREATE TABLE failed SELECT missing FROM s", "DROP TABLE copied, empty, constant"]:
        connection.query("SELECT 1 FROM s WHERE id < 3")
        connection.query(definition)
        note(definition, connection.query("SELECT FOUND_ROWS()").rows)


LIMITED = [
    "SELECT * FROM n ORDER BY c LIMIT 2,1", "SELECT * FROM n LIMIT 1 OFFSET 2", "SELECT * FROM n LIMIT 7,1", "SELECT * FROM n LIMIT 2,0",
    "SELECT 5 LIMIT 1,1", "SELECT id FROM n LIMIT 3", "SELECT id FROM n LIMIT 0", "SELECT id FROM n UNION ALL SELECT c FROM n LIMIT 1",
    "SELECT id FROM n UNION SELECT c FROM n LIMIT 2,2", "(SELECT id FROM n LIMIT 3) UNION ALL (SELECT c FROM n LIMIT 1)",
    "SELECT COUNT(*) FROM n LIMIT 1,1", "VALUES (1),(2)", "SELECT c FROM n GROUP BY c LIMIT 1,2;", "SET @a = 1; SELECT c FROM n LIMIT 1,1",
]


@pytest.fixture
def numbers(admin, schema):
    for statement in (f"USE {schema}", "CREATE TABLE n (id INT PRIMARY KEY, c INT)", "INSERT INTO n VALUES (1, 3), (2, 2), (3, 1), (4, 4)"):
        assert isinstance(admin.query(statement), Ok), statement
    return schema


@pytest.mark.parametrize("begin", ["", "BEGIN"])
@pytest.mark.parametrize("text", LIMITED)
def test_found_rows_count_what_was_passed_over(client, note, numbers, text, begin):
    connection, other = client(schema=numbers), client(schema=numbers)
    connection.query("SELECT id FROM n WHERE id < 3")
    if begin:
        connection.query(begin)
    note("answer", connection.query_all(text))
    if not begin:
        # In a transaction the backend is nobody else's, and where it is the only one they would wait.
        other.query("SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6")
    note("found", connection.value("SELECT FOUND_ROWS()"))
    note("found again", connection.value("SELECT FOUND_ROWS()"))


LIMITED_BY_PARAMETERS = {
    "LIMIT ?, ?": (2, 1), "LIMIT ? OFFSET ?": (1, 2), "LIMIT ?": (3,), "LIMIT ?, 2": (1,), "LIMIT 1, ?": (2,), "LIMIT 2 OFFSET ?": (7,), "LIMIT ?, 1": (0,),
}


@pytest.mark.parametrize("kinds", ["q", "i", "B", "text"])
@pytest.mark.parametrize("limit", LIMITED_BY_PARAMETERS)
def test_found_rows_count_what_parameters_pass_over(client, note, numbers, limit, kinds):
    connection, other = client(schema=numbers), client(schema=numbers)
    statement = connection.prepare(f"SELECT c FROM n WHERE id > ? ORDER BY c {limit}")
    for values in ((0, *LIMITED_BY_PARAMETERS[limit]), (1, *LIMITED_BY_PARAMETERS[limit])):
        if kinds == "text":
            note("rows", connection.execute(statement.statement, [str(value).encode() for value in values]))
        else:
            code = {"q": b"\x08\0", "i": b"\x03\0", "B": b"\x01\x80"}[kinds]  # BIGINT, INT, TINYINT UNSIGNED
            nulls = bytes((len(values) + 7) // 8)
            body = nulls + b"\x01" + code * len(values) + b"".join(struct.pack("<" + kinds, value) for value in values)
            connection.command(raw.STMT_EXECUTE, struct.pack("<IBI", statement.statement, 0, 1) + body)
            note("rows", connection.results(binary=True))
        other.query("SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6")
        note("found", connection.value("SELECT FOUND_ROWS()"))


def test_found_rows_behind_a_reset(client, note):
    """Behind a reset, which leaves them as they were. What MariaDB says in a new session differs from run to run."""
    connection = client()
    connection.query("SELECT 1 UNION SELECT 2 UNION SELECT 3")
    connection.simple(raw.RESET_CONNECTION)
    note("as before", connection.value("SELECT FOUND_ROWS()"))
    connection.query("SELECT 1 UNION SELECT 2 UNION SELECT 3")
    connection.change_user("other", "other-secret")
    note("as another user", connection.value("SELECT FOUND_ROWS()"))
