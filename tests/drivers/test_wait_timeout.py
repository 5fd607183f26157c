"""wait_timeout: a client's own is heeded by Onramp, shown to the client alone, and never ends a backend that others use."""

import pytest

from conftest import site_through
from harness import raw
from harness.raw import Closed, Err, Ok

site = site_through("single")


def end_of(client, sequence=0):
    """How a client sees its end when it has been idle for too long: what the server says, if anything, then the close."""
    client.sequence = sequence
    try:
        said = client.result()
    except Closed:
        return "closed"
    return said, "closed" if client.at_end() else "open"


def rows(answer):
    return answer.rows if isinstance(answer, raw.Rows) else answer


SHOWN = ("SELECT @@wait_timeout", "SELECT @@session.wait_timeout + 0, @@lock_wait_timeout", "SHOW VARIABLES LIKE 'wait_timeout'",
         "SHOW SESSION VARIABLES WHERE Variable_name = 'wait_timeout'", "SHOW GLOBAL VARIABLES LIKE 'wait_timeout'",
         "SELECT VARIABLE_VALUE FROM information_schema.SESSION_VARIABLES WHERE VARIABLE_NAME = 'WAIT_TIMEOUT'",
         "SELECT SESSION_VALUE FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME = 'WAIT_TIMEOUT'")

SETS = {
    "plain": ["SET wait_timeout = 770"],
    "session": ["SET SESSION wait_timeout = 771, lock_wait_timeout = 100"],
    "at signs": ["SET @@wait_timeout = 772"],
    "at signs and scope": ["SET @@local.wait_timeout = 773"],
    "expression": ["SET wait_timeout = 1000", "SET wait_timeout = @@wait_timeout / 2 + 3", "SET @@wait_timeout = @@wait_timeout * 2"],
    "default": ["SET wait_timeout = 1000", "SET wait_timeout = DEFAULT"],
    "of several": ["SET wait_timeout = 774; SELECT 5"],
    "cut down": ["SET wait_timeout = 999999999", "SHOW WARNINGS"],
    "not a number": ["SET wait_timeout = 1000", "SET wait_timeout = 'x'", "SET wait_timeout = 1.5"],
    "for one statement": ["SET wait_timeout = 1000", "SET STATEMENT wait_timeout = 2000 FOR SELECT @@wait_timeout"],
    "in a transaction": ["BEGIN", "SET wait_timeout = 775", "SELECT @@wait_timeout", "COMMIT"],
    "pinned": ["SET wait_timeout = 776", "SET @a = CONCAT('x', 1)", "SELECT @@wait_timeout, @a", "SET wait_timeout = 777", "SELECT @@wait_timeout"],
    "by a statement's name": ["PREPARE p FROM 'SET wait_timeout = ?'", "SET @a = 778", "EXECUTE p USING @a"],
    "of another kind": ["SET interactive_timeout = 779, net_read_timeout = 500, net_write_timeout = 501"],
    "reads in between": ["SET wait_timeout = 780", "SELECT 1", "SELECT @@wait_timeout", "SELECT 2", "SET wait_timeout = 781"],
}


# They hold the only backend to their end.
HOLDERS = ("in a transaction", "pinned", "by a statement's name")


@pytest.mark.parametrize("name", sorted(SETS))
def test_set_and_shown(client, note, name):
    """Twice, since what a SET does is known from the second time on; the other client shares the backend."""
    for turn in ("first", "second"):
        own, other = client(capabilities=raw.USUAL | raw.MULTI_STATEMENTS), client()
        for number, text in enumerate(SETS[name]):
            note(f"{turn} {number} {text}", [rows(answer) for answer in own.query_all(text)])
            if name not in HOLDERS:
                note(f"{turn} {number} other", rows(other.query("SELECT @@wait_timeout")))
        for text in SHOWN:
            note(f"{turn} {text}", rows(own.query(text)))
            if name not in HOLDERS:
                note(f"{turn} other: {text}", rows(other.query(text)))
        own.close()
        for text in SHOWN:
            note(f"{turn} behind it: {text}", rows(other.query(text)))


def test_prepared(client, note, schema):
    own, other = client(schema=schema), client(schema=schema)
    texts = ("SELECT @@wait_timeout", "SHOW VARIABLES LIKE 'wait_timeout'", "SELECT VARIABLE_VALUE FROM information_schema.SESSION_VARIABLES"
             " WHERE VARIABLE_NAME = 'WAIT_TIMEOUT'")
    statements = [(connection, connection.prepare(text).statement) for connection in (own, other) for text in texts]
    own_set = own.prepare("SET wait_timeout = 770").statement
    note("set", own.execute(own_set))
    for turn in range(2):
        for number, (connection, statement) in enumerate(statements):
            note(f"{turn} {number}", [rows(answer) for answer in connection.execute(statement)])


def test_behind_a_reset(client, note):
    own, other = client(), client()
    for reset in (own.reset, lambda: own.change_user("app", "app-secret")):
        note("set", own.query("SET wait_timeout = 770"))
        note("other", other.value("SELECT @@wait_timeout"))
        note("reset", reset())
        note("shown", own.value("SELECT @@wait_timeout"))
    note("set in a transaction", own.query("BEGIN") and own.query("SET wait_timeout = 771"))
    note("reset in a transaction", own.reset())
    note("shown behind it", own.value("SELECT @@wait_timeout"))


def test_idle_client_ends(client, note):
    """Those that have set less are ended, and nobody else; a ping is no statement, and counts all the same."""
    short, by_name, other, longer = client(), client(), client(), client()
    note("others", [other.query("SELECT 1").rows, longer.query("SET wait_timeout = 1000")])
    note("at signs", by_name.query("SET @@wait_timeout = 1"))
    note("set", short.query("SET SESSION wait_timeout = 1"))
    note("end", end_of(short))
    note("end with at signs", end_of(by_name))
    note("others are there", [other.query("SELECT 2").rows, longer.query("SELECT 3").rows, other.ping()])


# Where a client stops: within a header, and within a payload. The pieces of long packets are in the engine's own tests.
HALVES = {"header": b"\x10\0", "payload": b"\x10\0\0\0\x03SEL"}


def set_and_stop(client, half):
    """Says SET wait_timeout and half a command in one go, so that the time begins with both there; gives the answer to the SET."""
    client.sequence = 0
    client.send_bytes(client.packets(bytes([raw.QUERY]) + b"SET SESSION wait_timeout = 1") + half)
    return client.result()


@pytest.mark.parametrize("half", sorted(HALVES))
def test_half_a_command_ends(client, note, half):
    """The servers read the whole of a command with wait_timeout; net_read_timeout is for what they read behind it."""
    short, other = client(), client()
    note("set", [short.query("SET net_read_timeout = 500"), set_and_stop(short, HALVES[half])])
    note("end", end_of(short))
    note("others are there", other.query("SELECT 2").rows)


def test_half_a_file_ends(client, note, schema):
    """LOAD DATA LOCAL, whose reads the server bounds by the client's own net_read_timeout: once for the file, once for its end."""
    loader, other = client(schema=schema, capabilities=raw.USUAL | raw.LOCAL_FILES), client(schema=schema)
    loader.query("CREATE TABLE t (id INT PRIMARY KEY)")
    note("set", loader.query("SET SESSION net_read_timeout = 1"))
    note("asked", loader.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t"))
    # Whether the server gets to say something, and what, depends on its version; it may even have ended before the bytes come.
    with pytest.raises((Closed, ConnectionError)):
        loader.send_bytes(b"\x10\0\0\x02" + b"1\n2\n")
        while True:
            loader.receive()
    note("another", other.query("INSERT INTO t VALUES (1)"))


def test_open_transaction_ends(client, note, schema):
    idle, other = client(schema=schema), client(schema=schema)
    other.query("CREATE TABLE t (id INT PRIMARY KEY)")
    idle.query("BEGIN")
    idle.query("INSERT INTO t VALUES (1)")
    note("set", idle.query("SET SESSION wait_timeout = 1"))
    note("end", end_of(idle))
    note("rolled back", other.query("INSERT INTO t VALUES (1)"))


def test_held_state_ends(client, note):
    idle, other = client(), client()
    idle.query("SELECT GET_LOCK('onramp_wait', 0)")
    note("set", idle.query("SET SESSION wait_timeout = 1"))
    note("end", end_of(idle))
    note("given back", other.value("SELECT GET_LOCK('onramp_wait', 100)"))


def test_ping_reaches_a_backend_that_the_client_holds(client, note):
    """What the server counts as idle has to be what Onramp counts."""
    own = client()
    own.query("BEGIN")
    own.query("SET wait_timeout = 770")
    note("pings", [own.ping(), own.ping()])
    note("goes on", own.value("SELECT @@wait_timeout"))


def test_backends_outlive_it(own_server, own_onramp):
    """The backend of a client that may be idle for a second is there for others after that."""
    onramp = own_onramp(own_server, max_backends=1, backend_idle_timeout="1h")
    own_backend = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%own_backend%'"
    with raw.connect(onramp) as other, raw.connect(onramp) as idle:
        before = other.value(own_backend)
        assert isinstance(idle.query("SET wait_timeout = 1"), Ok)
        assert end_of(idle) == "closed"
        assert other.value(own_backend) == before
        assert not isinstance(other.query("SELECT @@wait_timeout"), Err)
