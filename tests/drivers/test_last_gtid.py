"""MariaDB's @@last_gtid is a client's own: two clients that commit in turns, on a single backend."""

import re

import pytest

from conftest import site_through
from harness import raw
from harness.counted import Reading
from harness.server import ADMIN, SERVICE
from test_replication import server  # noqa: F401 (a fixture)

site = site_through("single_with_log")


@pytest.fixture(scope="module")
def single_with_log(folder, server):  # noqa: F811
    # Where stored code cannot be read, a text that begins with SET and writes keeps its backend, of which there is one.
    with raw.connect(server, *ADMIN) as admin:
        assert isinstance(admin.query(f"GRANT SELECT, SHOW VIEW, TRIGGER ON *.* TO '{SERVICE[0]}'@'%'"), raw.Ok)
    onramp = Reading(server, folder, max_backends=1).start_reading()
    yield onramp
    assert onramp.stop() == 0


@pytest.fixture
def log(admin, schema):
    """The number of the latest GTID, with a table in the schema."""
    assert isinstance(admin.query(f"CREATE TABLE {schema}.t (id INT PRIMARY KEY)"), raw.Ok)
    return int(admin.value("SELECT @@gtid_binlog_pos").split(b"-")[2])


MINE = "A: SELECT @@last_gtid"
YOURS = "B: SELECT @@last_gtid"
YOU_WRITE = "B: INSERT INTO t VALUES (1)"

PROGRAMS = {
    "nothing committed": [MINE, YOU_WRITE, MINE, "A: SELECT * FROM t", "A: UPDATE t SET id = 1", MINE],
    "in turns": ["A: INSERT INTO t VALUES (5)", YOU_WRITE, MINE, YOURS, "A: DELETE FROM t WHERE id = 5", YOURS, MINE],
    "a transaction": ["A: BEGIN", "A: INSERT INTO t VALUES (5)", MINE, "A: COMMIT", YOU_WRITE, MINE, "A: BEGIN", MINE, "A: DELETE FROM t", "A: ROLLBACK", MINE],
    "autocommit": ["A: SET autocommit = 0", "A: INSERT INTO t VALUES (5)", MINE, "A: SET autocommit = 1", YOU_WRITE, MINE],
    "rows": ["A: INSERT INTO t VALUES (5) RETURNING id", YOU_WRITE, MINE, YOURS],
    "definitions": ["A: CREATE TABLE made (id INT)", YOU_WRITE, MINE, "A: DROP TABLE made", YOURS, MINE],
    "expressions": ["A: INSERT INTO t VALUES (5)", YOU_WRITE, "A: SELECT CONCAT(@@session.last_gtid, 'x'), @@last_gtid AS g", "A: SET @a = @@last_gtid", "A: SELECT @a", "A: SELECT@@last_gtid'name'"],
    "several statements": [YOU_WRITE, "M: SELECT 1; SELECT @@last_gtid", "M: INSERT INTO t VALUES (5); SELECT @@last_gtid", "B: DELETE FROM t WHERE id = 1", "M: SELECT @@last_gtid",
                           "M: SET sql_notes = 0; DELETE FROM t", YOU_WRITE, "M: SELECT @@last_gtid"],
    "a reset": ["A: INSERT INTO t VALUES (5)", "A: COM_RESET_CONNECTION", MINE, YOURS],
    "prepared": ["A: prepares", "A: executes", "A: INSERT INTO t VALUES (5)", YOU_WRITE, "A: executes", "A: DELETE FROM t WHERE id = 5", "A: executes", YOURS],
    "no scope": ["A: SELECT @@global.last_gtid"],
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_two_clients(client, note, schema, log, name):
    several = raw.USUAL | raw.MULTI_STATEMENTS
    clients = {"A": client(schema=schema), "B": client(schema=schema), "M": client(schema=schema, capabilities=several)}
    prepared = None
    for number, step in enumerate(PROGRAMS[name]):
        who, text = step.split(": ", 1)
        connection = clients[who]
        if text == "prepares":
            prepared, answer = connection.prepare("SELECT @@last_gtid AS g"), None
        elif text == "executes":
            answer = connection.execute(prepared.statement)
        else:
            answer = [connection.reset()] if text == "COM_RESET_CONNECTION" else connection.query_all(text)
        seen = [part.rows if isinstance(part, raw.Rows) else part for part in answer or []]
        # Counted from the beginning of the test.
        note(f"{number} {step}", re.sub(r"0-1-(\d+)", lambda found: f"+{int(found[1]) - log}", repr(seen)))
