"""SHOW STATUS: a session's counts of commands about prepared statements are the client's own.

There are two backends, on which another client prepares and executes between any two commands.
"""

import struct

import pytest

from conftest import site_through
from harness import raw
from harness.onramp import Onramp
from harness.raw import Prepared

site = site_through("two_backends")

UNKNOWN = 999
LAST = 0xFFFFFFFF


def number(statement):
    return struct.pack("<I", statement)


@pytest.fixture(scope="module")
def two_backends(folder, server):
    onramp = Onramp(server, folder, max_backends=2).start()
    yield onramp
    onramp.stop()


@pytest.fixture
def pair(client, schema):
    """A client, and what it is told of its counters while another one is at work."""
    own, other = client(schema=schema), client(schema=schema)

    def told(like="SHOW SESSION STATUS LIKE 'Com_stmt%'"):
        statement = other.prepare("SELECT ? + 1").statement
        other.execute(statement, [b"1"])
        other.simple(raw.STMT_RESET, number(statement))
        other.forget(statement)
        return sorted(row for row in own.query(like).rows if row[0] != b"Com_stmt_reprepare")

    return own, told


def send_long_data(client, statement, parameter):
    client.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", statement, parameter) + b"piece")


def open_cursor(client, statement):
    client.command(raw.STMT_EXECUTE, raw.execute_body(statement, flags=1))
    client.receive(), client.receive(), client.receive()


def test_commands(pair, note):
    own, told = pair
    note("at first", told())
    for text in ("SELEC", "SELECT * FROM missing.missing", "PREPARE p FROM 'SELECT 1'", ""):
        note(f"failed: {text}", (own.prepare(text).code, told()))
    statement = own.prepare("SELECT ?").statement
    failing = own.prepare("SELECT (SELECT 1 UNION SELECT 2)").statement
    two = own.prepare("SELECT 1 UNION SELECT ?")
    note("prepared", told())
    for what, run in {
            "execute": lambda: own.execute(statement, [b"1"]),
            "execute what fails": lambda: own.execute(failing),
            "execute what is unknown": lambda: own.execute(UNKNOWN),
            "execute without values": lambda: (own.command(raw.STMT_EXECUTE, struct.pack("<IBI", statement, 0, 1)), own.results()),
            "send ahead": lambda: send_long_data(own, statement, 0),
            "execute that": lambda: own.execute(statement, [b"1"]),
            "send ahead for no parameter": lambda: send_long_data(own, statement, 7),
            "execute that then": lambda: own.execute(statement, [b"1"]),
            "send ahead to what is unknown": lambda: send_long_data(own, UNKNOWN, 0),
            "reset": lambda: own.simple(raw.STMT_RESET, number(statement)),
            "reset what is unknown": lambda: own.simple(raw.STMT_RESET, number(UNKNOWN)),
            "fetch without cursor": lambda: own.fetch(statement, 1, []),
            "fetch what is unknown": lambda: own.fetch(UNKNOWN, 1, []),
            "close": lambda: own.forget(statement),
            "close again": lambda: own.forget(statement)}.items():
        run()
        note(what, told())
    columns = own.prepare("SELECT 1 UNION SELECT 2")
    open_cursor(own, columns.statement)
    note("cursor", (own.fetch(columns.statement, 1, columns.columns).rows, told()))
    own.simple(raw.STMT_RESET, number(columns.statement))
    note("cursor is closed", told())
    own.forget(two.statement)
    note("closed", told())


@pytest.mark.parametrize("show", ["SHOW STATUS", "show local status where Variable_name LIKE 'com\\_stmt\\_%'",
                                  "SHOW STATUS LIKE 'Com_stmt_close';", "SHOW SESSION\nSTATUS LIKE 'Com_stmt_prepare'"])
@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF])
def test_forms(client, note, show, capabilities):
    own, other = client(capabilities=capabilities), client()
    for _ in range(12):
        other.forget(other.prepare("SELECT 1").statement)
    for _ in range(11):
        own.forget(own.prepare("SELECT 2").statement)
    answer = own.query(show)
    names = (b"Com_stmt_prepare", b"Com_stmt_close", b"Com_stmt_execute")
    note("rows", (answer.columns, [row for row in answer.rows if row[0] in names], answer.status, answer.warnings))
    note("goes on", own.query("SELECT 1").rows)


def test_texts(pair, note):
    own, told = pair
    for text in ("PREPARE p FROM 'SELECT ?'", "EXECUTE p USING @a", "EXECUTE missing", "EXECUTE p", "DEALLOCATE PREPARE missing",
                 "PREPARE p FROM 'SELECT 2'", "PREPARE q FROM 'SELEC'", "PREPARE q FROM 'SELECT (SELECT 1 UNION SELECT 2)'",
                 "EXECUTE q", "DROP PREPARE q", "DEALLOCATE PREPARE p", "EXECUTE IMMEDIATE 'SELECT 1'",
                 "EXECUTE IMMEDIATE 'SET @a = 1'"):
        own.query(text)
        note(text, told())


def test_what_ends_counting(client, pair, note):
    own, told = pair
    own.execute(own.prepare("SELECT 1").statement)
    note("counted", told())
    own.reset()
    note("reset", told())
    own.execute(own.prepare("SELECT 1").statement)
    own.change_user("app", "app-secret")
    note("another user", told())
    operator = client("admin", "admin-secret")
    operator.execute(operator.prepare("SELECT 1").statement)
    for text in ("FLUSH STATUS", "FLUSH LOCAL STATUS"):
        note("flush", operator.query(text))
        note("flushed", sorted(operator.query("SHOW STATUS LIKE 'Com_stmt_%'").rows))
        operator.execute(operator.prepare("SELECT 1").statement)
    own.execute(own.prepare("SELECT 1").statement)
    before = told()
    note("refused", (own.query("FLUSH STATUS").code, told() == before))


def test_each_its_own_at_once(client, note):
    """The same text of many clients at the same time: reads of one text may be answered together, these are not."""
    clients = [client() for _ in range(8)]
    for count, one in enumerate(clients):
        for _ in range(count):
            one.forget(one.prepare("SELECT 3").statement)
    for _ in range(5):
        for one in clients:
            one.command(raw.QUERY, b"SHOW STATUS LIKE 'Com_stmt_close'")
        note("counts", [one.result().rows for one in clients])


def test_the_latest_by_its_name(pair, note):
    """MariaDB's -1."""
    own, told = pair
    assert isinstance(own.prepare("SELECT ?"), Prepared)
    own.execute(LAST, [b"1"])
    send_long_data(own, LAST, 0)
    note("latest", told())
    own.prepare("SELEC")
    own.execute(LAST, [b"1"])
    own.forget(LAST)
    note("none", told())


def test_bulk_executions(client, schema, note):
    own = client(schema=schema, capabilities=raw.USUAL | raw.BULK_OPERATIONS)
    own.query("CREATE TABLE t (a VARCHAR(9) PRIMARY KEY)")
    statement = own.prepare("INSERT INTO t VALUES (?)").statement
    unfit = own.prepare("DO ?").statement
    for what in (statement, statement, unfit, UNKNOWN):
        own.execute_bulk(what, [[b"1"], [b"2"]], b"\xfd\0", 128)
        note("executed", own.query("SHOW STATUS LIKE 'Com_stmt_execute'").rows)
