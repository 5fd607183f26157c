"""LOAD DATA LOCAL INFILE in its less usual forms."""

import pytest

from harness import raw
from harness.raw import LOCAL_FILES, MORE_RESULTS, MULTI_STATEMENTS, USUAL, Err, LocalInfile, Ok, Rows

LOAD = "LOAD DATA LOCAL INFILE '{}' INTO TABLE loaded FIELDS TERMINATED BY ','"


@pytest.fixture
def table(admin, schema):
    admin.query(f"CREATE TABLE {schema}.loaded (id INT PRIMARY KEY, v VARCHAR(100))")


@pytest.fixture
def loader(client, table):
    return lambda: client(schema="onramp_test", capabilities=USUAL | LOCAL_FILES | MULTI_STATEMENTS)


def send_file(connection, *pieces):
    """Packets that go on counting, and the empty one."""
    for piece in (*pieces, b""):
        connection.send(piece)


def answer_all(connection, files):
    """All results of a text; each file that is asked for is sent."""
    found = []
    while True:
        result = connection.result()
        found.append(result)
        if isinstance(result, LocalInfile):
            send_file(connection, *files[result.file])
        elif isinstance(result, Err) or not result.status & MORE_RESULTS:
            return found


def run(connection, text, **files):
    connection.command(raw.QUERY, text.encode())
    return answer_all(connection, files)


def test_several_in_one_text(loader, note):
    connections = [loader() for _ in range(6)]
    for number, connection in enumerate(connections):
        text = ";".join([LOAD.format("a"), f"SELECT COUNT(*) FROM loaded", LOAD.format("b"), "SELECT * FROM loaded ORDER BY id", "DELETE FROM loaded"])
        note(f"all {number}", run(connection, text, a=[b"1,one\n", b"2,two\n"], b=[b"3,three\n"]))
        note(f"charset {number}", connection.query(f"SET NAMES {('latin1', 'utf8mb4')[number % 2]}"))
        note(f"again {number}", run(connection, text, a=[b"1,", b"one\n2", b",two"], b=[]))


def test_one_that_fails_ends_the_text(loader, note):
    connection = loader()
    text = ";".join([LOAD.format("a"), LOAD.format("b"), "SELECT 1"])
    note("a key twice", run(connection, text, a=[b"1,one\n"], b=[b"2,two\n1,one again\n"]))
    note("rows", connection.query("SELECT * FROM loaded"))
    note("warnings", connection.query("SHOW WARNINGS"))
    note("not a table", run(connection, "SELECT 1;LOAD DATA LOCAL INFILE 'c' INTO TABLE nowhere;SELECT 2", c=[b"1,x\n"]))
    note("in strict mode", connection.query("SET sql_mode = 'STRICT_ALL_TABLES'"))
    note("not a number", run(connection, LOAD.format("d"), d=[b"x,one\n", b"4,four\n"]))
    note("warnings", connection.query("SHOW WARNINGS"))


def test_refused_by_the_client(loader, note):
    """The file is not there, or may not be read: libraries send the empty packet alone."""
    connection = loader()
    for turn in range(2):
        note(f"refused {turn}", run(connection, LOAD.format("a"), a=[]))
        note(f"rows {turn}", connection.query("SELECT * FROM loaded"))


def test_in_a_transaction(loader, note):
    connection, other = loader(), loader()
    note("begin", connection.query("BEGIN"))
    note("load", run(connection, LOAD.format("a"), a=[b"1,one\n"]))
    note("others", other.query("SELECT * FROM loaded"))
    note("rollback", connection.query("ROLLBACK"))
    note("nothing", other.query("SELECT * FROM loaded"))
    note("without autocommit", connection.query("SET autocommit = 0"))
    note("load", run(connection, LOAD.format("a"), a=[b"2,two\n"]))
    note("commit", connection.query("COMMIT"))
    note("all", other.query("SELECT * FROM loaded"))


def test_packets_of_every_size(loader, note):
    connection = loader()
    lines = b"".join(b"%d,line %d\n" % (number, number) for number in range(3000))
    for size in (1, 7, 4096, 1 << 20):
        pieces = [lines[at:at + size] for at in range(0, 4000 if size == 1 else len(lines), size)]
        note(f"pieces of {size}", run(connection, LOAD.format("a"), a=pieces))
        note(f"deleted {size}", connection.query("DELETE FROM loaded"))


def test_a_client_that_goes_in_the_middle(loader, note, admin):
    for number in range(6):
        connection = loader()
        connection.command(raw.QUERY, LOAD.format("a").encode())
        note(f"asked {number}", connection.result())
        connection.send(b"%d,one\n" % (10 * number))
        connection.close()
    # The server takes the end of the connection for the end of the file or for an error: which, depends on the moment.
    other = loader()
    note("others go on", run(other, "DELETE FROM loaded WHERE id = 1;" + LOAD.format("a"), a=[b"1,one\n"])[1:])
    note("one of them", other.query("SELECT * FROM loaded WHERE id = 1"))


def test_prepared(loader, note):
    connection = loader()
    note("refused", connection.prepare(LOAD.format("a"))[1:])  # its number depends on who had the server's thread before
    assert isinstance(connection.query("SELECT 1"), Rows) and isinstance(connection.ping(), Ok)


def test_packets_out_of_order(site, loader):
    """MariaDB ends the statement, and takes what follows for commands: through Onramp the connection ends."""
    if site.name == "direct":
        return
    for turn in range(6):
        connection, other = loader(), loader()
        connection.command(raw.QUERY, LOAD.format("a").encode())
        assert isinstance(connection.result(), LocalInfile)
        out = b""
        for sequence, payload in ((99, b"1,one\n"), (0, b"\x03SELECT 'forged'"), (0, b"\x0e"), (2, b"")):
            out += len(payload).to_bytes(3, "little") + bytes([sequence]) + payload
        connection.send_bytes(out)
        assert connection.at_end()
        for number in range(3):
            assert other.value(f"SELECT 'answer {turn} {number}'") == f"answer {turn} {number}".encode()
