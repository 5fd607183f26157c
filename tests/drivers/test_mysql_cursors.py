"""Cursors, of clients and of stored functions, with one connection to a MySQL server.

As test_mysql: skipped without a server.
"""

import pymysql
import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.onramp import Onramp
from harness.server import ADMIN, APP
from harness.waiting import PATIENCE, until
from test_mysql import server  # noqa: F401 (fixture)

pytestmark = private_mysql.needed

CURSOR = 1  # CURSOR_TYPE_READ_ONLY
OTHER_CURSORS = pytest.mark.parametrize("flags", [2, 4, 6])  # CURSOR_TYPE_FOR_UPDATE, CURSOR_TYPE_SCROLLABLE: none is opened
BOTH = pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
OPENS = "CREATE FUNCTION opens(x INT) RETURNS INT READS SQL DATA BEGIN DECLARE v INT; DECLARE c CURSOR FOR SELECT id FROM k; OPEN c; FETCH c INTO v; CLOSE c; RETURN v; END"
READS_ALL = ("CREATE FUNCTION reads_all(x INT) RETURNS INT READS SQL DATA BEGIN DECLARE v, e INT DEFAULT 0; DECLARE c CURSOR FOR SELECT id FROM k; "
        "DECLARE CONTINUE HANDLER FOR NOT FOUND SET e = 1; OPEN c; WHILE e = 0 DO FETCH c INTO v; END WHILE; CLOSE c; RETURN v; END")


@pytest.fixture(scope="module")
def onramp(folder, server):
    onramp = Onramp(server, folder, max_backends=1)
    onramp.start()
    yield onramp
    assert onramp.stop() == 0


@pytest.fixture(scope="module")
def schema(server):
    with raw.connect(server, *ADMIN) as admin:
        for statement in ("CREATE DATABASE onramp_cursors", "USE onramp_cursors", "CREATE TABLE k (id INT PRIMARY KEY)", "INSERT INTO k VALUES (1), (2), (3)",
                          OPENS, READS_ALL, "CREATE TABLE fired (id INT)",
                          "CREATE TRIGGER fires BEFORE INSERT ON fired FOR EACH ROW SET NEW.id = opens(NEW.id)"):
            assert isinstance(admin.query(statement), raw.Ok), statement
    return "onramp_cursors"


@BOTH
@pytest.mark.parametrize("end", ["fetched", "reset", "closed"])
def test_a_cursor_leaves_others_their_statement(client, note, schema, end, capabilities):
    """Behind a cursor the server answers an execution without one by an OK in the place of rows."""
    text = "SELECT id FROM k"
    other, own = (client(schema=schema, capabilities=capabilities) for _ in range(2))
    others, prepared = other.prepare(text), own.prepare(text)
    for turn in range(2):
        note(f"other {turn}", other.execute(others.statement))
        note(f"opened {turn}", own.execute(prepared.statement, (), CURSOR))
        if end == "fetched":
            note(f"rows {turn}", own.fetch(prepared.statement, 10, prepared.columns))
        elif end == "reset":
            note(f"reset {turn}", own.simple(raw.STMT_RESET, prepared.statement.to_bytes(4, "little")))
        else:
            own.forget(prepared.statement)
            prepared = own.prepare(text)
        note(f"other behind it {turn}", other.execute(others.statement))


def test_one_statement_with_a_cursor_and_without(onramp, schema):
    """The server answers the second execution wrongly, so that there is nothing to compare with."""
    with raw.connect(onramp, schema=schema) as connection:
        prepared = connection.prepare("SELECT id FROM k WHERE id < ?")
        for _ in range(3):
            [opened] = connection.execute(prepared.statement, (b"3",), CURSOR)
            assert opened.status & raw.CURSOR_EXISTS
            [whole] = connection.execute(prepared.statement, (b"3",))
            assert len(whole.rows) == 2


@OTHER_CURSORS
def test_one_statement_with_a_cursor_and_with_another_type(onramp, schema, flags):
    """As without a cursor: the server answers wrongly behind one."""
    with raw.connect(onramp, schema=schema) as connection, raw.connect(onramp, schema=schema) as other:
        prepared = connection.prepare("SELECT id FROM k")
        [opened] = connection.execute(prepared.statement, (), CURSOR)
        assert opened.status & raw.CURSOR_EXISTS
        [whole] = connection.execute(prepared.statement, (), flags)
        assert len(whole.rows) == 3
        assert len(other.query("SELECT id FROM k").rows) == 3


@BOTH
@OTHER_CURSORS
def test_a_function_with_a_cursor_and_another_type(client, note, schema, capabilities, flags):
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT id FROM k WHERE opens(id) = 999")
    note("executed", connection.execute(prepared.statement, (), flags))
    note("usable", connection.query("SELECT 1"))


@private_mysql.since(9, 0, 0)
def test_rows_that_came_at_once_have_no_cursor(onramp, schema):
    """The server says that they have, and crashes when it is asked for more; 8.0.31 crashes at once."""
    with raw.connect(onramp, schema=schema) as connection:
        prepared = connection.prepare("EXPLAIN SELECT 1")
        [explained] = connection.execute(prepared.statement, (), CURSOR)
        assert len(explained.rows) == 1
        assert connection.fetch(prepared.statement, 1, prepared.columns).code == 1421
        assert len(connection.query("SELECT 5").rows) == 1


@BOTH
@pytest.mark.parametrize("text", ["SELECT id FROM k WHERE opens(id) = 999", "SELECT id FROM k WHERE opens(id) = 1"])
def test_functions_with_cursors(client, note, schema, text, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    note("text", connection.query(text))
    prepared = connection.prepare(text)
    note("prepared", connection.execute(prepared.statement))
    note("usable", connection.query("SELECT 1"))


def test_functions_with_cursors_by_a_library(site, schema):
    """One that looks at the packets alone, not at the flags in them."""
    with pymysql.connect(host=site.host, port=site.port, user=APP[0], password=APP[1], database=schema, read_timeout=PATIENCE) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM k WHERE opens(id) = 999")
            assert cursor.fetchall() == ()


@BOTH
def test_a_cursor_over_a_function_that_ends_one(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT id, reads_all(id) FROM k")
    note("opened", [type(result) for result in connection.execute(prepared.statement, (), CURSOR)])
    note("two", connection.fetch(prepared.statement, 2, prepared.columns).rows)
    note("the rest", connection.fetch(prepared.statement, 2, prepared.columns).rows)
    note("usable", connection.query("SELECT 1"))


def test_a_trigger_with_a_cursor_pins_nobody(client, note, schema):
    connection, other = (client(schema=schema) for _ in range(2))
    prepared = connection.prepare("INSERT INTO fired VALUES (?)")
    note("inserted", type(connection.execute(prepared.statement, (b"1",), CURSOR)[0]))
    note("other", other.query("SELECT 1"))


@BOTH
def test_a_failed_cursor_leaves_others_their_statement(client, note, schema, capabilities):
    text = "SELECT id FROM k WHERE id = (SELECT id FROM k WHERE id >= @@lock_wait_timeout)"
    other, own = (client(schema=schema, capabilities=capabilities) for _ in range(2))
    for connection in (other, own):
        connection.query("SET lock_wait_timeout = 1")
    others, prepared = other.prepare(text), own.prepare(text)
    note("two rows in a subquery", own.execute(prepared.statement, (), CURSOR))
    other.query("SET lock_wait_timeout = 3")
    note("one row", other.execute(others.statement))
    note("usable", other.query("SELECT 5"))


@BOTH
def test_a_cursor_whose_client_has_gone_leaves_others_their_statement(client, admin, note, schema, capabilities):
    """Both clients have the same number for their statement."""
    text = "SELECT id FROM k WHERE SLEEP(0.2) = 0"
    other, own = (client(schema=schema, capabilities=capabilities) for _ in range(2))
    others, prepared = other.prepare(text), own.prepare(text)
    own.command(raw.STMT_EXECUTE, raw.execute_body(prepared.statement, (), CURSOR))
    running = "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE '%SLEEP(0.2)%'"
    until(lambda: own.has_answer() or admin.query(running).rows, "it never ran")
    own.close()
    note("behind it", other.execute(others.statement))
    note("usable", other.query("SELECT 5"))


@BOTH
def test_long_data_for_nothing_and_the_last_row(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT id FROM k")
    note("open", connection.execute(prepared.statement, (), CURSOR))
    connection.command(raw.STMT_SEND_LONG_DATA, prepared.statement.to_bytes(4, "little") + b"\2\0nowhere")
    note("all", connection.fetch(prepared.statement, 5, prepared.columns))
    note("wrong", connection.execute(prepared.statement, (), CURSOR))
    note("again", connection.execute(prepared.statement, (), CURSOR))
    note("usable", connection.query("SELECT 1"))
