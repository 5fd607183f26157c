"""Many clients wait for what one holds: everybody else goes on, and the holder never waits behind those who wait for it."""

import pytest

from harness import raw
from harness.raw import Ok, Rows
from harness.waiting import in_background, until

# Few permits and many who wait: with a pool that does not tell them apart, the first statements to wait take them all.
PERMITS = 4
WAITING = 24


@pytest.fixture(params=["native", "percona", "mariadb", "mysql"])
def pool(request, own_server, own_onramp):
    limits = {"native": {"permits": PERMITS}, "mysql": {"thread_pool_max_transactions_limit": 0, "thread_pool_query_threads_per_group": 3}}
    options = limits.get(request.param, {"thread_pool_oversubscribe": PERMITS - 1})
    return own_onramp(own_server, thread_pool_profile=request.param, max_backends=64, thread_pool_stall_limit="60", **options)


def client(pool, *account):
    return raw.connect(pool, *account, schema="onramp_app")


@pytest.fixture
def table(pool):
    with client(pool) as connection:
        assert isinstance(connection.query("CREATE TABLE locked (id INT PRIMARY KEY, n INT) ENGINE=InnoDB"), Ok)
        assert isinstance(connection.query("INSERT INTO locked VALUES (1, 0), (2, 0)"), Ok)
    return "locked"


def everybody(pool, statement):
    """Clients who all send the same statement; the end of each."""
    clients = [client(pool) for _ in range(WAITING)]
    return [in_background(connection.query, statement) for connection in clients]


def wait_until_waiting(own_server, statement, at_least):
    """Until so many of these statements are with the server."""
    with raw.connect(own_server, "admin", "admin-secret") as admin:
        def waiting():
            rows = admin.query("SELECT INFO FROM information_schema.PROCESSLIST WHERE COMMAND = 'Query'").rows
            return sum(row[0] == statement.encode() for row in rows) >= at_least

        until(waiting, f"{statement} does not wait")


def test_row_lock(pool, own_server, table):
    holder = client(pool)
    assert isinstance(holder.query("BEGIN"), Ok)
    assert isinstance(holder.query("UPDATE locked SET n = n + 1 WHERE id = 1"), Ok)
    joins = everybody(pool, "UPDATE locked SET n = n + 1 WHERE id = 1")
    wait_until_waiting(own_server, "UPDATE locked SET n = n + 1 WHERE id = 1", PERMITS - 1)
    assert isinstance(holder.query("UPDATE locked SET n = n + 1 WHERE id = 2"), Ok)
    if pool.options["thread_pool_profile"] == "native":
        # While the lock stands: somebody who needs none of it.
        assert client(pool).value("SELECT n FROM locked WHERE id = 1") == b"0"
    assert isinstance(holder.query("COMMIT"), Ok)
    assert all(isinstance(join(), Ok) for join in joins)
    assert client(pool).value("SELECT n FROM locked WHERE id = 1") == str(WAITING + 1).encode()


def test_flush_tables_with_read_lock(pool, own_server, table):
    holder = client(pool, "admin", "admin-secret")
    assert isinstance(holder.query("FLUSH TABLES WITH READ LOCK"), Ok)
    joins = everybody(pool, "UPDATE locked SET n = n + 1 WHERE id = 2")
    wait_until_waiting(own_server, "UPDATE locked SET n = n + 1 WHERE id = 2", PERMITS - 1)
    assert isinstance(holder.query("SELECT COUNT(*) FROM locked"), Rows)
    assert isinstance(holder.query("UNLOCK TABLES"), Ok)
    assert all(isinstance(join(), Ok) for join in joins)


def test_lock_tables(pool, own_server, table):
    holder = client(pool)
    assert isinstance(holder.query("LOCK TABLES locked WRITE"), Ok)
    joins = everybody(pool, "SELECT SUM(n) FROM locked")
    wait_until_waiting(own_server, "SELECT SUM(n) FROM locked", PERMITS - 1)
    assert isinstance(holder.query("UPDATE locked SET n = 5 WHERE id = 1"), Ok)
    assert isinstance(holder.query("UNLOCK TABLES"), Ok)
    answers = [join() for join in joins]
    assert all(answer.rows == [(b"5",)] for answer in answers), answers[:3]


def test_behind_a_definition(pool, own_server, table):
    """A transaction that has read a table, a definition that waits for its end, and everybody who comes behind that."""
    reader, definition = client(pool), "ALTER TABLE locked ADD COLUMN more INT"
    assert isinstance(reader.query("BEGIN"), Ok)
    assert reader.value("SELECT COUNT(*) FROM locked") == b"2"
    altered = in_background(client(pool).query, definition)
    with raw.connect(own_server, "admin", "admin-secret") as admin:
        waiting = f"SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for %' AND INFO = '{definition}'"
        until(lambda: admin.query(waiting).rows, "it does not wait")
    joins = everybody(pool, "SELECT SUM(n) FROM locked")
    wait_until_waiting(own_server, "SELECT SUM(n) FROM locked", PERMITS - 2)
    assert reader.value("SELECT COUNT(*) FROM locked") == b"2"
    if pool.options["thread_pool_profile"] == "native":
        assert client(pool).value("SELECT 'free'") == b"free"
    assert isinstance(reader.query("COMMIT"), Ok)
    assert isinstance(altered(), Ok)
    answers = [join() for join in joins]
    assert all(answer.rows == [(b"0",)] for answer in answers), answers[:3]


def test_get_lock(pool, own_server, table):
    holder = client(pool)
    assert holder.value("SELECT GET_LOCK('onramp', 1)") == b"1"
    joins = everybody(pool, "SELECT GET_LOCK('onramp', 1000) + RELEASE_LOCK('onramp')")
    wait_until_waiting(own_server, "SELECT GET_LOCK('onramp', 1000) + RELEASE_LOCK('onramp')", PERMITS - 1)
    assert holder.value("SELECT 'still here'") == b"still here"
    assert holder.value("SELECT RELEASE_LOCK('onramp')") == b"1"
    answers = [join() for join in joins]
    assert all(answer.rows == [(b"2",)] for answer in answers), answers[:3]


def test_reads_behind_one_that_meets_a_lock(own_server, own_onramp):
    """With one permit short reads share a backend. Those of a table that nobody has locked are answered while another one is."""
    pool = own_onramp(own_server, permits=1, workers=1, shared_backends=1, max_backends=64)
    with client(pool) as connection:
        for name in ("locked", "free"):
            assert isinstance(connection.query(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT) ENGINE=InnoDB"), Ok)
            assert isinstance(connection.query(f"INSERT INTO {name} VALUES (1, 0)"), Ok)
        # Short ones again and again: they may share from then on.
        for name in ("locked", "free"):
            for _ in range(30):
                assert connection.value(f"SELECT n FROM {name} WHERE id = 1") == b"0"
    clients = [client(pool) for _ in range(WAITING)]
    holder = client(pool)
    assert isinstance(holder.query("LOCK TABLES locked WRITE"), Ok)
    names = ["locked", "free"] * (WAITING // 2)
    joins = [in_background(each.query, f"SELECT n FROM {name} WHERE id = 1") for each, name in zip(clients, names, strict=True)]
    assert all(join().rows == [(b"0",)] for join, name in zip(joins, names, strict=True) if name == "free")
    assert isinstance(holder.query("UPDATE locked SET n = 1"), Ok)
    assert isinstance(holder.query("UNLOCK TABLES"), Ok)
    assert all(join().rows == [(b"1",)] for join, name in zip(joins, names, strict=True) if name == "locked")
