"""Distributed transactions: branches that one client prepares and another ends."""

import pytest

from harness import raw
from harness.server import ADMIN
from harness.waiting import until


@pytest.fixture
def table(admin, schema):
    admin.query(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB")
    yield "t"
    # No branch may outlive its test: it would hold its locks.
    for row in admin.query("XA RECOVER").rows:
        admin.query(b"XA ROLLBACK '" + row[3] + b"'")


def all_of(note, connection, *texts):
    for text in texts:
        note(text, connection.query(text))


def open_all(client, count):
    """May see and end others' branches: MariaDB asks for no right to that, MySQL does."""
    return [client(*ADMIN, schema="onramp_test") for _ in range(count)]


def test_by_one_client(client, note, table):
    connection, other = open_all(client, 2)
    for end in ("XA COMMIT 'one'", "XA ROLLBACK 'one'"):
        all_of(note, connection, "XA START 'one'", "INSERT INTO t VALUES (1, 1)", "XA END 'one'", "XA PREPARE 'one'", "XA RECOVER", end,
               "SELECT * FROM t")
        note("of another", other.query("SELECT * FROM t"))
        all_of(note, connection, "DELETE FROM t")
    all_of(note, connection, "XA START 'one', 'branch', 7", "INSERT INTO t VALUES (1, 1)", "XA END 'one', 'branch', 7", "XA COMMIT 'one', 'branch', 7 ONE PHASE",
           "SELECT * FROM t")


def test_in_the_wrong_state(client, note, table):
    connection, other = open_all(client, 2)
    all_of(note, connection, "XA END 'one'", "XA PREPARE 'one'", "XA COMMIT 'one'", "XA START 'one'", "XA START 'two'", "BEGIN", "COMMIT", "ROLLBACK",
           "SET autocommit = 0", "CREATE TABLE x (i INT)", "XA PREPARE 'one'", "XA END 'two'", "XA END 'one'", "INSERT INTO t VALUES (1, 1)",
           "SELECT 1", "BEGIN", "XA COMMIT 'one'", "XA PREPARE 'one'", "SELECT 1", "XA START 'two'")
    note("the same by another", other.query("XA START 'one'"))
    note("ended by another", other.query("XA COMMIT 'one'"))
    all_of(note, connection, "XA ROLLBACK 'one'", "BEGIN", "XA START 'one'", "ROLLBACK", "SET autocommit = 0", "XA START 'one'", "XA END 'one'", "XA ROLLBACK 'one'")


def test_ended_by_another(client, note, table, admin):
    for number, end in enumerate(("XA COMMIT 'shared'", "XA ROLLBACK 'shared'")):
        first, second = open_all(client, 2)
        all_of(note, first, "XA START 'shared'", f"INSERT INTO t VALUES ({number}, 1)", "XA END 'shared'", "XA PREPARE 'shared'")
        first.quit()
        # The branch is nobody's once the server has seen its client go.
        def answered():
            answer = second.query(end)
            return None if isinstance(answer, raw.Err) and answer.code == 1397 else answer

        note(end, until(answered, "the branch stays its client's"))
        note("recover", second.query("XA RECOVER"))
        note("rows", second.query("SELECT * FROM t"))


def test_a_client_that_goes_in_the_middle(client, note, table):
    """A branch that is not prepared ends with its client."""
    for ends in (False, True):
        first, second = open_all(client, 2)
        all_of(note, first, "XA START 'lost'", "INSERT INTO t VALUES (1, 1)")
        if ends:
            note("end", first.query("XA END 'lost'"))
        first.close()
        # Waits for the row as long as the branch has it.
        note("insert", second.query("INSERT INTO t VALUES (1, 2)"))
        note("recover", second.query("XA RECOVER"))
        note("delete", second.query("DELETE FROM t"))


def test_reset(client, note, table):
    connection, other = open_all(client, 2)
    all_of(note, connection, "XA START 'reset'", "INSERT INTO t VALUES (1, 1)")
    note("reset", connection.reset())
    all_of(note, connection, "XA RECOVER", "XA START 'reset'", "XA END 'reset'", "XA ROLLBACK 'reset'", "INSERT INTO t VALUES (1, 3)", "DELETE FROM t")
    note("others go on", other.query("INSERT INTO t VALUES (1, 4)"))


def test_many_clients(client, note, table):
    """More branches than backends, one after the other; each is prepared and ended by its own client."""
    connections = open_all(client, 8)
    for number, connection in enumerate(connections):
        all_of(note, connection, f"XA START 'many {number}'", f"INSERT INTO t VALUES ({number}, 1)", f"XA END 'many {number}'", f"XA PREPARE 'many {number}'",
               f"XA COMMIT 'many {number}'")
        note(f"reset {number}", connection.reset())
    note("rows", connections[0].query("SELECT COUNT(*) FROM t"))
