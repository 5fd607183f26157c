"""As test_session_track, with a MySQL server behind Onramp, and GTIDs, which MariaDB does not tell of.

As test_mysql: skipped without a server.
"""

import contextlib
from pathlib import Path

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.trackers import told
from test_session_track import (  # noqa: F401 (fixtures and tests)
    shown, tables, test_login, test_other_commands, test_prepared_statements, test_programs, test_without_packets_for_ends, tracked)

pytestmark = private_mysql.needed

# To an account without a password every method's answer is nothing.
OPEN = {"plugin": "caching_sha2_password", "token": b""}
ACCOUNT = "CREATE USER 'tracked'@'%' IDENTIFIED BY '';\nGRANT ALL ON *.* TO 'tracked'@'%' WITH GRANT OPTION;\n"


@pytest.fixture(scope="module")
def server(folder):
    account = Path(folder) / "account-that-is-tracked.sql"
    account.write_text(ACCOUNT)
    server = private_mysql.MySqlServer(folder).start(
        f"--init-file={account}", "--log-bin=binlog", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin-trust-function-creators=1")
    yield server
    server.discard()


@pytest.fixture(scope="module")
def onramp(folder, server):
    from harness.onramp import Onramp
    onramp = Onramp(server, folder, max_backends=4)
    onramp.start()
    yield onramp
    assert onramp.stop() == 0


@pytest.fixture
def admin(server):
    with raw.connect(server, "tracked", "", **OPEN) as connection:
        yield connection


@pytest.fixture
def client(site):
    """Whatever account a test asks for, it is the one without a password."""
    opened = []

    def open_client(*_, **options):
        connection = raw.connect(site, "tracked", "", **OPEN, **options)
        opened.append(connection)
        return connection

    yield open_client
    for connection in opened:
        connection.close()


def without_numbers(answer):
    """The servers count on from one run to the next."""
    results, packets = shown(answer)
    return results, [[item.partition(":")[0] if item.startswith("gtids") else item for item in items] for items in packets]


@pytest.mark.parametrize("wish", ["OFF", "OWN_GTID"])
def test_gtids(tracked, note, wish):  # noqa: F811
    other = tracked()
    connections = [tracked(), tracked()]
    for connection in connections:
        note("set", without_numbers(told(connection, lambda: connection.query_all(f"SET session_track_gtids = '{wish}'"))))
    for number, connection in enumerate(connections * 2):
        for text in ("INSERT INTO t VALUES (NULL)", "SELECT COUNT(*) > 0 FROM t", "BEGIN", "INSERT INTO t VALUES (NULL)", "COMMIT", "BEGIN", "COMMIT", "DELETE FROM t",
                     "SELECT @@session_track_gtids", "CREATE TABLE u (id INT)", "DROP TABLE u"):
            answer = without_numbers(told(connection, lambda: connection.query_all(text)))
            note(f"{number}: {text}", answer)
            assert wish != "OFF" or not any(item.startswith("gtids") for items in answer[1] for item in items)
            other.query("INSERT INTO t VALUES (NULL)")
    note("reset", connections[0].reset())
    note("nothing", without_numbers(told(connections[0], lambda: connections[0].query_all("DELETE FROM t"))))


def test_gtids_are_told_to_who_wants_them(site, server, own_onramp, tables, note):  # noqa: F811
    """By turns on one backend."""
    if site.through:
        site = own_onramp(server, max_backends=1)
    with contextlib.ExitStack() as stack:
        wants, other = [stack.enter_context(raw.connect(site, "tracked", "", **OPEN, schema="onramp_test", capabilities=raw.USUAL | raw.SESSION_TRACK)) for _ in range(2)]
        wants.query("SET session_track_gtids = 'OWN_GTID'")
        for turn in range(3):
            for name, connection in (("wants", wants), ("other", other)):
                note(f"{turn}: {name}", without_numbers(told(connection, lambda: connection.query_all("INSERT INTO t VALUES (NULL)"))))
        wants.reset()
        note("reset", without_numbers(told(wants, lambda: wants.query_all("INSERT INTO t VALUES (NULL)"))))
