"""The binary protocol: prepared statements, long data, cursors."""

import struct

import pytest

from harness import raw
from harness.raw import Err, Ok, Rows

BOTH = pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])

# CURSOR_TYPE_READ_ONLY in COM_STMT_EXECUTE.
CURSOR = 1


@BOTH
def test_prepare_shapes(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    connection.query("CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50), n INT)")
    for text, values in [
        ("SELECT 1", []), ("SELECT ?", [b"x"]), ("SELECT ?, ?, ?", [b"a", None, b""]), ("DO 1", []),
        ("INSERT INTO p (v, n) VALUES (?, ?)", [b"one", b"1"]), ("UPDATE p SET n = n + ? WHERE v = ?", [b"2", b"one"]),
        ("SELECT * FROM p WHERE id = ?", [b"1"]), ("SELECT * FROM p WHERE id = ?", [b"99"]), ("DELETE FROM p", []),
        ("INSERT INTO p (v) VALUES (?)", [b"two"]), ("SELECT LAST_INSERT_ID()", []), ("SHOW TABLES", []),
        ("SELECT ? + 1", [b"not a number"]), ("INSERT INTO p VALUES (2, ?, 1)", [b"duplicate"]),
    ]:
        prepared = connection.prepare(text)
        note(f"prepare {text}", prepared[1:])
        note(f"execute {text} {values}", connection.execute(prepared.statement, values))
        connection.command(raw.STMT_CLOSE, struct.pack("<I", prepared.statement))
    note("usable", connection.query("SELECT 1"))


def test_prepare_errors(client, note, schema):
    connection = client(schema=schema)
    for text in ["SELEC", "SELECT * FROM missing", "SELECT 1; SELECT 2", "", "PREPARE x FROM 'SELECT 1'"]:
        note(text, connection.prepare(text))
    note("unknown statement", connection.execute(4711))
    note("unknown statement reset", connection.simple(raw.STMT_RESET, struct.pack("<I", 4711)))
    connection.command(raw.STMT_CLOSE, struct.pack("<I", 4711))  # has no reply
    note("usable", connection.query("SELECT 1"))


def test_execute_many_times(client, schema):
    """Statement ids belong to the client, however its backends change."""
    clients = [client(schema=schema) for _ in range(3)]
    prepared = [connection.prepare("SELECT ?, 'text of client'") for connection in clients]
    for count in range(20):
        for number, connection in enumerate(clients):
            value = b"%d-%d" % (number, count)
            rows = connection.execute(prepared[number].statement, [value])[0]
            assert rows.rows[0][0] == value


def test_clients_prepare_different_statements(client):
    """The same id means another statement for another client."""
    first, second = client(), client()
    one, two = first.prepare("SELECT 'first', ?"), second.prepare("SELECT 'second', ?")
    for _ in range(5):
        assert first.execute(one.statement, [b"a"])[0].rows == [(b"first", b"a")]
        assert second.execute(two.statement, [b"b"])[0].rows == [(b"second", b"b")]
        assert first.value("SELECT 'text'") == b"text"


def test_send_long_data(client, note, schema):
    connection = client(schema=schema)
    connection.query("CREATE TABLE l (b LONGBLOB)")
    prepared = connection.prepare("INSERT INTO l VALUES (?)")
    for piece in (b"x" * 100_000, b"y" * 100_000):
        connection.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", prepared.statement, 0) + piece)
    # The parameter's type is sent, its value is not: it came before.
    body = struct.pack("<IBI", prepared.statement, 0, 1) + b"\x00\x01\xfc\x00"
    connection.command(raw.STMT_EXECUTE, body)
    note("insert", connection.results(binary=True))
    note("stored", connection.query("SELECT LENGTH(b), MD5(b) FROM l"))
    note("reset", connection.simple(raw.STMT_RESET, struct.pack("<I", prepared.statement)))


@BOTH
def test_cursor(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT seq, REPEAT('x', seq) FROM seq_1_to_10")
    note("open", connection.execute(prepared.statement, flags=CURSOR))
    note("three", connection.fetch(prepared.statement, 3, prepared.columns))
    note("other statement between", connection.query("SELECT 'between'"))
    note("the rest", connection.fetch(prepared.statement, 100, prepared.columns))
    note("past the end", connection.fetch(prepared.statement, 1, prepared.columns)[:2])
    note("open again", connection.execute(prepared.statement, flags=CURSOR))
    note("reset closes it", connection.simple(raw.STMT_RESET, struct.pack("<I", prepared.statement)))
    note("fetch without a cursor", connection.fetch(prepared.statement, 1, prepared.columns)[:2])
    note("usable", connection.query("SELECT 1"))


@BOTH
def test_cursor_without_rows(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT 1 WHERE FALSE")
    note("open", connection.execute(prepared.statement, flags=CURSOR))
    note("fetch", connection.fetch(prepared.statement, 5, prepared.columns))


def test_reset_connection_forgets_statements(client):
    connection = client()
    prepared = connection.prepare("SELECT 1")
    assert isinstance(connection.reset(), Ok)
    answer = connection.execute(prepared.statement)[0]
    assert isinstance(answer, Err) and answer[:2] == (1243, "HY000")


def test_many_statements(client):
    connection = client()
    prepared = [connection.prepare(f"SELECT {n}, ?") for n in range(200)]
    for number in range(0, 200, 7):
        rows = connection.execute(prepared[number].statement, [b"v"])[0]
        assert isinstance(rows, Rows)
        assert rows.rows[0][0] == struct.pack("<i", number)
    assert len({each.statement for each in prepared}) == 200


def test_prepared_cursor_of_connector_python(site, note, schema, driver):
    if driver.name != "connector":
        pytest.skip("PyMySQL has no prepared statements")
    connection = driver(database=schema)
    cursor = connection.cursor(prepared=True)
    cursor.execute("CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50), d DATETIME(6), f DOUBLE, n DECIMAL(20,5))")
    for number in range(10):
        cursor.execute("INSERT INTO p (v, d, f, n) VALUES (?, ?, ?, ?)", (f"välue {number}", "2026-01-02 03:04:05.000006", 0.5, None))
        note("insert", (cursor.rowcount, cursor.lastrowid))
    connection.commit()
    cursor.execute("SELECT * FROM p WHERE id > ?", (3,))
    note("rows", cursor.fetchall())
    cursor.execute("SELECT * FROM p WHERE id > ?", (8,))
    note("again", cursor.fetchall())


def test_bulk_inserts(driver, note, schema):
    connection = driver(database=schema)
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50))")
    cursor.executemany("INSERT INTO p (v) VALUES (%s)", [(f"row {n}",) for n in range(1000)])
    note("count", (cursor.rowcount, cursor.lastrowid))
    connection.commit()
    cursor.execute("SELECT COUNT(*), MIN(id), MAX(id) FROM p")
    note("content", cursor.fetchall())
