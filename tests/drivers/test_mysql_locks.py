"""The lock tests with a MySQL server, whose other tables say who waits: what `test_locks` tests, and MySQL's own locks.

As test_mysql: skipped without a server.
"""

from types import SimpleNamespace

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.raw import Ok
from harness.server import ADMIN, free_port
from harness.waiting import until
import test_locks
from test_locks import (  # noqa: F401 (fixtures, and tests that run here once more)
    PERMITS, client, everybody, pool, table, test_behind_a_definition, test_flush_tables_with_read_lock, test_get_lock, test_lock_tables,
    test_row_lock, wait_until_waiting)

pytestmark = [private_mysql.needed, pytest.mark.slow]

PASSWORD = "admin-secret"


@pytest.fixture(scope="module", params=["performance_schema", "without performance_schema"])
def mysql_server(request, folder):
    server = private_mysql.MySqlServer(folder)
    server.tells_holders = request.param == "performance_schema"
    server.start(*([] if server.tells_holders else ["--performance-schema=OFF"]))
    yield server
    server.discard()


@pytest.fixture
def own_server(mysql_server):
    """One for all tests, since it takes seconds to make; each finds it without tables."""
    yield mysql_server
    with raw.connect(mysql_server, *ADMIN) as admin:
        assert isinstance(admin.query("DROP TABLE IF EXISTS onramp_app.locked, onramp_app.free"), Ok)


@private_mysql.since(8, 0, 20)
def test_reads_behind_one_that_meets_a_lock(own_server, own_onramp):
    """Older servers have no right to see whether there are functions, without which nothing is sent twice."""
    test_locks.test_reads_behind_one_that_meets_a_lock(own_server, own_onramp)


def test_who_is_waited_for_is_told(mysql_server, own_server, own_onramp, monkeypatch):
    """The holder and those who wait for it, by the server's own word."""
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    place = SimpleNamespace(host="127.0.0.1", port=free_port())
    pool = own_onramp(own_server, permits=1, workers=1, max_backends=64, admin_listen=f"{place.host}:{place.port}")
    with client(pool) as connection:
        assert isinstance(connection.query("CREATE TABLE locked (id INT PRIMARY KEY, n INT)"), Ok)
        assert isinstance(connection.query("INSERT INTO locked VALUES (1, 0)"), Ok)
    with raw.connect(place, "admin", PASSWORD) as operator:
        holder = client(pool)
        assert isinstance(holder.query("BEGIN"), Ok)
        assert isinstance(holder.query("UPDATE locked SET n = n + 1 WHERE id = 1"), Ok)
        joins = everybody(pool, "UPDATE locked SET n = n + 1 WHERE id = 1")
        holders, waiters = ("SELECT id FROM clients WHERE blocks_others = 1", "SELECT DISTINCT waits_for_client FROM clients WHERE waits_for_client IS NOT NULL")
        told = [(str(holder.id).encode(),)]
        if mysql_server.tells_holders:
            # InnoDB says of those who ask for the lock, too, that they block who asked for it later.
            until(lambda: told[0] in operator.query(holders).rows and operator.query(waiters).rows == told, "it is not told")
        else:
            # That they wait is known all the same: somebody else gets the only permit.
            assert client(pool).value("SELECT n FROM locked WHERE id = 1") == b"0"
        assert isinstance(holder.query("COMMIT"), Ok)
        assert all(isinstance(join(), Ok) for join in joins)
    assert "lock waits are not looked for" not in pool.log_text()


@private_mysql.since(8, 0)
def test_instance_lock(pool, own_server, table):  # noqa: F811
    """Definitions wait for a backup's lock, and nobody else does."""
    holder = client(pool, *ADMIN)
    assert isinstance(holder.query("LOCK INSTANCE FOR BACKUP"), Ok)
    definition = "ALTER TABLE locked COMMENT 'waited'"
    joins = everybody(pool, definition)
    wait_until_waiting(own_server, definition, PERMITS - 1)
    if pool.options["thread_pool_profile"] == "native":
        assert client(pool).value("SELECT 1") == b"1"
    assert isinstance(holder.query("UNLOCK INSTANCE"), Ok)
    assert all(isinstance(join(), Ok) for join in joins)
