"""Reads on replicas of other kinds than MariaDB's: MySQL's, members of a group, and nodes of Galera. What they see, and what becomes of them when a server fails."""

import contextlib
import signal
import time

import pytest

from harness import galera, group, mysql, raw, several
from harness.admin import count, rows
from harness.galera import Galera
from harness.group import Group
from harness.mysql_replicas import MySqlReplicas
from harness.raw import Err, Ok
from harness.reads import BEHIND_IS_READ, SERVER, Sessions, holding, server_of, until_split, until_waiting
from harness.server import ADMIN, SERVICE
from harness.several import in_use
from harness.waiting import in_background, stop_process, until

pytestmark = [pytest.mark.slow, pytest.mark.once]

KINDS = [
    pytest.param("replicas", marks=[mysql.needed, mysql.since(8, 0, 26)]),
    pytest.param("group", marks=[mysql.needed, pytest.mark.skipif(group.missing() is not None, reason=str(group.missing()))]),
    pytest.param("galera", marks=pytest.mark.skipif(galera.provider() is None, reason="Galera's library is not installed (Debian, Ubuntu: apt install galera-4)")),
]

# Of a write in flight as its server is lost, nobody knows whether it ran; the rest is what nodes and members say of those that were on
# their way to the others.
OF_A_FAILOVER = (1180, 1213, 2013, 3101)


class Kind:
    """Three servers of a kind, of which one takes writes."""

    def __init__(self, name, folder, template):
        self.name = name
        made = {"replicas": lambda: MySqlReplicas(folder), "group": lambda: Group(folder), "galera": lambda: Galera(folder, template)}
        self.cluster = made[name]()
        self.servers, self.order, self.value, self.backends = (
            self.cluster.servers, self.cluster.order, self.cluster.value, self.cluster.backends)

    def primary(self):
        """The number of the one that takes writes through Onramp; of servers that run."""
        if self.name == "galera":
            return self.cluster.first()
        return self.cluster.primary() if self.name == "group" else 0

    def others(self):
        primary = self.primary()
        return [number for number in range(3) if number != primary]

    def prepare(self):
        primary = self.primary()
        if self.name == "galera":
            for number in range(3):
                # The others go on writing while one is held up.
                self.order(number, "SET GLOBAL wsrep_provider_options = 'gcs.fc_limit=100000'")
        if self.name == "replicas":
            self.order(primary, f"GRANT REPLICATION CLIENT ON *.* TO '{SERVICE[0]}'@'%'")
        self.order(primary, "CREATE TABLE onramp_app.kept (id BIGINT PRIMARY KEY, value BIGINT) ENGINE=InnoDB",
                   "INSERT INTO onramp_app.kept VALUES (1, 0)")
        self.until_everywhere("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'kept'", 1)
        self.until_everywhere("SELECT COUNT(*) FROM onramp_app.kept", 1)

    def until_everywhere(self, statement, value):
        for number in range(3):
            until(lambda: int(self.value(number, statement)) == value, f"{statement} on {number}")

    @contextlib.contextmanager
    def apart(self, number):
        """While a server is behind, or no part of the others, as its administrator has it."""
        away, back = {
            "replicas": (["STOP REPLICA SQL_THREAD", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 1", "START REPLICA SQL_THREAD"],
                         ["STOP REPLICA SQL_THREAD", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0", "START REPLICA SQL_THREAD"]),
            "group": (["STOP GROUP_REPLICATION"], []),
            "galera": (["SET GLOBAL wsrep_desync = ON"], ["SET GLOBAL wsrep_desync = OFF"])}[self.name]
        self.order(number, *away)
        yield
        if self.name == "group":
            self.cluster.join(number)
        else:
            self.order(number, *back)

    def discard(self):
        self.cluster.discard()


@pytest.fixture(params=KINDS)
def kind(request, folder, template):
    kind = Kind(request.param, folder, template)
    try:
        kind.prepare()
        yield kind
    finally:
        kind.discard()


@pytest.fixture
def start(kind, own_onramp, monkeypatch):
    """In front of all, with reads on those that do not write."""
    def start(**options):
        onramp = several.start(own_onramp, monkeypatch, kind, **{"workers": 2, "read_split": "replicas", **options})
        primary = kind.primary()
        several.until_in_use(onramp, [int(number == primary) for number in range(3)])
        return onramp
    return start


@pytest.fixture
def others(kind):
    """As servers name themselves."""
    return [number + 1 for number in kind.others()]


def test_sessions_read_what_they_have_written_whatever_servers_are_late(kind, start, others):
    onramp = start(read_wait_limit="300ms")
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, others)
    sessions = Sessions(onramp)
    try:
        sessions.until_more(100)
        for _ in range(3):
            for number in kind.others():
                with holding(kind.servers[number]):
                    sessions.until_more(20)
                sessions.until_more(20)
        for number in kind.others():
            with kind.apart(number):
                sessions.until_more(20)
            sessions.until_more(20)
        before = count(onramp, "Replica_reads")
        sessions.until_more(50)
        assert count(onramp, "Replica_reads") > before
    finally:
        sessions.stop()
    assert (sessions.stale, sessions.errors) == ([], [])
    assert count(onramp, "Replica_reads_waited") > 0
    assert all(row["reads"] > 0 for row in rows(onramp, "SELECT * FROM servers WHERE NOT in_use"))


def test_a_read_waits_for_a_server_and_goes_to_the_primary_in_the_end(kind, start, others):
    onramp = start(**BEHIND_IS_READ)
    first, second = kind.others()
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as reader:
        # On whatever worker each of them is.
        until_split(client, others)
        until_split(reader, others)
        with holding(kind.servers[first]):
            with holding(kind.servers[second]):
                assert isinstance(client.query("UPDATE kept SET value = 7"), Ok)
                # Who has written nothing reads what is there.
                server, value = reader.query(SERVER).rows[0]
                assert int(server) in others and value == b"0"
                waiting = in_background(client.query, SERVER)
                until_waiting(onramp)
            assert waiting().rows == [(str(second + 1).encode(), b"7")]
            with holding(kind.servers[second]):
                assert isinstance(client.query("UPDATE kept SET value = 8"), Ok)
                rows(onramp, "SET GLOBAL read_wait_limit = '10ms'")
                assert client.query(SERVER).rows == [(str(kind.primary() + 1).encode(), b"8")]
                assert count(onramp, "Replica_reads_returned") == 1


def test_executions_read_what_their_session_has_written(kind, start, others):
    onramp = start(**BEHIND_IS_READ)
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, others)
        write = client.prepare("UPDATE kept SET value = ? WHERE id = 1").statement
        read = client.prepare("SELECT @@global.server_id, value FROM kept WHERE id > ?").statement
        servers = set()
        for number in range(1, 300):
            assert isinstance(client.execute(write, [str(number).encode()])[0], Ok)
            server, value = (int.from_bytes(field, "little") for field in client.execute(read, [b"0"])[0].rows[0])
            assert value == number, server
            servers.add(server)
        assert servers <= set(others) and count(onramp, "Replica_reads") > 290


def test_only_reads_leave_the_primary(kind, start, others):
    onramp = start()
    primary = kind.primary()
    writes = "SELECT COUNT(*) FROM onramp_app.called WHERE server <> 0"
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, others)
        for statement, ends in (("BEGIN", "COMMIT"), ("SET autocommit = 0", "SET autocommit = 1"), ("CREATE TEMPORARY TABLE own (id INT)", "DROP TEMPORARY TABLE own"),
                                ("LOCK TABLES kept READ", "UNLOCK TABLES")):
            assert isinstance(client.query(statement), Ok), statement
            assert server_of(client) == primary + 1, statement
            assert isinstance(client.query(ends), Ok), ends
        for lock in ("FOR UPDATE", "LOCK IN SHARE MODE"):
            assert int(client.query(f"{SERVER} {lock}").rows[0][0]) == primary + 1, lock
        until_split(client, others)
        # One that a view calls, and whose definer may write in spite of read_only. Onramp has not heard of it yet.
        if kind.name != "galera":
            for number in range(3):
                kind.order(number, "SET GLOBAL log_bin_trust_function_creators = ON")
        kind.order(primary, "USE onramp_app", "CREATE TABLE called (id INT AUTO_INCREMENT PRIMARY KEY, server INT)",
                   "CREATE FUNCTION writes() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO called (server) VALUES (@@global.server_id); RETURN 1; END",
                   "CREATE VIEW calls AS SELECT id, writes() AS written FROM kept")
        kind.until_everywhere("SELECT COUNT(*) FROM information_schema.VIEWS WHERE TABLE_NAME = 'calls'", 1)
        for number in range(1, 5):
            assert client.query("SELECT * FROM calls").rows == [(b"1", b"1")]
            assert int(client.value("SELECT COUNT(*) FROM called")) == number
    kind.until_everywhere(writes, 4)
    kind.until_everywhere(f"{writes} AND server = {primary + 1}", 4)


def test_what_a_session_keeps_from_the_others_it_reads_where_it_has_written_it(kind, start, others):
    """As an administrator may. Nothing of it gets to any other server, whatever positions say."""
    onramp = start()
    name = "wsrep_on" if kind.name == "galera" else "sql_log_bin"
    with raw.connect(onramp, *ADMIN, schema="onramp_app") as client:
        until_split(client, others)
        for number in range(1, 4):
            for statement in (f"SET SESSION {name} = OFF", f"UPDATE kept SET value = {number}"):
                assert isinstance(client.query(statement), Ok), statement
            assert client.query(SERVER).rows == [(str(kind.primary() + 1).encode(), str(number).encode())]
            # So that nodes are the same again.
            for statement in ("UPDATE kept SET value = 0", f"SET SESSION {name} = ON"):
                assert isinstance(client.query(statement), Ok), statement


@pytest.mark.parametrize("kind", [KINDS[2]], indirect=True)
def test_a_session_may_wait_for_all_that_others_have_written(kind, start, others):
    """By the variable of Galera, on whatever node its reads are."""
    onramp = start()
    with raw.connect(onramp, schema="onramp_app") as writer, raw.connect(onramp, schema="onramp_app") as reader:
        until_split(reader, others)
        assert isinstance(reader.query("SET SESSION wsrep_sync_wait = 1"), Ok)
        for number in range(1, 200):
            assert isinstance(writer.query(f"UPDATE kept SET value = {number}"), Ok)
            server, value = reader.query(SERVER).rows[0]
            assert int(value) == number, server


@pytest.mark.parametrize("kind", [KINDS[2]], indirect=True)
def test_what_a_node_counts_a_moment_before_it_is_to_be_seen_is_waited_for(kind, start, others):
    """As nodes with a binary log do, too seldom to be seen in each run: that they are asked to catch up is."""
    waits = lambda: [int(kind.cluster.status(number, "wsrep_causal_reads")) for number in kind.others()]
    before = waits()
    onramp = start()
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, others)
    sessions = Sessions(onramp)
    try:
        sessions.until_more(300)
    finally:
        sessions.stop()
    assert (sessions.stale, sessions.errors) == ([], [])
    assert all(now > then for now, then in zip(waits(), before)), "they are not asked to catch up"


@pytest.mark.parametrize("kind", [KINDS[2]], indirect=True)
def test_a_node_that_catches_up_for_long_is_not_taken_for_lost(kind, start, others):
    onramp = start(backend_connect_timeout="2s", read_wait_limit="50ms")
    late = kind.others()[0]
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, others)
        with holding(kind.servers[late]):
            # Longer than any other answer may take.
            ends = time.monotonic() + 5
            while time.monotonic() < ends:
                assert isinstance(client.query("UPDATE kept SET value = value + 1"), Ok)
                assert int(client.query(SERVER).rows[0][0]) != late + 1, "it is stale"
            # Whoever needs nothing of what is new reads from it.
            until(lambda: int(client.query(f"/* onramp: eventual */ {SERVER}").rows[0][0]) == late + 1, "it is not read from")
        until_split(client, others)


@pytest.mark.parametrize("kind", [KINDS[2]], indirect=True)
def test_a_node_that_is_to_wait_with_each_answer_is_not_taken_for_lost(kind, start, others):
    """Where wsrep_sync_wait is on for all, a node that is behind answers nobody who has not turned it off."""
    late = kind.others()[0]
    try:
        for number in range(3):
            kind.order(number, "SET GLOBAL wsrep_sync_wait = 15")
        onramp = start(server_check_timeout="3s", server_check_interval="100ms")
        address = f"address LIKE '%:{kind.servers[late].port}'"
        checks = f"SELECT well FROM server_checks WHERE age_us < {{}} AND {address}"
        with raw.connect(onramp, schema="onramp_app") as client:
            until_split(client, others)
            with holding(kind.servers[late]):
                assert isinstance(client.query("UPDATE kept SET value = value + 1"), Ok)
                began = time.monotonic()
                found = lambda: rows(onramp, checks.format(int((time.monotonic() - began) * 1_000_000)))
                until(lambda: len(found()) >= 12, "it is not asked")
                assert all(check["well"] == 1 for check in found())
                assert rows(onramp, f"SELECT state FROM servers WHERE {address}")[0]["state"] == "up"
            until_split(client, others)
    finally:
        for number in range(3):
            kind.order(number, "SET GLOBAL wsrep_sync_wait = 0")


def test_errors_are_those_of_the_primary(kind, start, others):
    onramp = start()
    first, second = kind.others()
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, others)
        for statement in ("SELECT * FROM never", "SELECT never FROM kept", "SELECT value FROM forbidden.kept", "SELECT FROM kept",
                          "SELECT value FROM kept WHERE id = (SELECT 1 UNION SELECT 2)"):
            wanted, found = client.query(f"/* onramp: primary */ {statement}"), client.query(statement)
            assert isinstance(found, Err) and (found.code, found.state, found.message) == (wanted.code, wanted.state, wanted.message), statement
        # A table that has not come yet.
        with holding(kind.servers[first]), holding(kind.servers[second]):
            for statement in ("UPDATE kept SET value = 1", "CREATE TABLE late (id INT PRIMARY KEY)", "INSERT INTO late VALUES (1)"):
                assert isinstance(client.query(statement), Ok), statement
            rows(onramp, "SET GLOBAL read_wait_limit = '10ms'")
            assert client.query("/* onramp: eventual */ SELECT * FROM late").rows == [(b"1",)]
            assert client.query("SELECT * FROM late").rows == [(b"1",)]
        until_split(client, others)


def test_a_read_is_killed(kind, start, others):
    kind.order(kind.primary(), "CREATE TABLE onramp_app.many (id INT AUTO_INCREMENT PRIMARY KEY)", "INSERT INTO onramp_app.many VALUES (), (), (), (), (), (), (), ()",
               *["INSERT INTO onramp_app.many SELECT NULL FROM onramp_app.many"] * 7)
    kind.until_everywhere("SELECT COUNT(*) FROM onramp_app.many", 1024)
    onramp = start()
    # Without a condition MySQL multiplies what it has counted, and is done.
    long = "SELECT COUNT(*) FROM many AS a, many AS b, many AS c, many AS d WHERE a.id + b.id + c.id + d.id > 0"
    state = "SELECT id FROM clients WHERE state = 'on_replica' AND running_us IS NOT NULL"
    ran = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT COUNT(*) FROM many%'"
    running = lambda: sum(int(kind.value(number, ran)) for number in kind.others())
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as killer:
        until_split(client, others)
        reading = in_background(client.query, long)
        until(lambda: rows(onramp, state) and running() == 1, "it does not run on a replica")
        assert isinstance(killer.query(f"KILL QUERY {rows(onramp, state)[0]['id']}"), Ok)
        answer = reading()
        assert isinstance(answer, Err) and answer.code == 1317, answer
        until(lambda: running() == 0, "it goes on")
        until_split(client, others)
        # And with its client.
        client.command(raw.QUERY, long.encode())
        until(lambda: rows(onramp, state) and running() == 1, "it does not run on a replica")
        assert isinstance(killer.query(f"KILL {rows(onramp, state)[0]['id']}"), Ok)
        until(lambda: running() == 0, "it goes on")
        assert client.at_end()


def test_the_primary_is_lost_in_the_middle(kind, start, others):
    onramp = start(read_wait_limit="200ms")
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, others)
    sessions = Sessions(onramp)
    lost, (first, second) = kind.primary(), kind.others()
    try:
        sessions.until_more(50)
        if kind.name == "replicas":
            if not kind.cluster.is_lossless:
                # What has been acknowledged is to be on the next one.
                kind.order(lost, "SET GLOBAL super_read_only = ON")
                kind.cluster.until_followed(first, lost)
            kind.servers[lost].kill()
            if kind.cluster.is_lossless:
                kind.order(first, "SET GLOBAL rpl_semi_sync_source_enabled = 0")
            kind.cluster.promote(first)
            kind.cluster.follow(second, first)
        else:
            kind.servers[lost].kill()

        def another():
            used = in_use(onramp)
            return used if sum(used) == 1 and used[lost] == 0 else None

        new = until(another, lambda: several.state(onramp)).index(1)
        reads = [number + 1 for number in (first, second) if number != new]
        with raw.connect(onramp, schema="onramp_app") as client:
            until_split(client, reads)
        before = count(onramp, "Replica_reads")
        sessions.until_more(100)
        assert count(onramp, "Replica_reads") > before
    finally:
        sessions.stop()
    assert sessions.stale == []
    assert all(error.code in OF_A_FAILOVER for error in sessions.errors), sessions.errors


def test_one_that_is_read_from_is_lost_in_the_middle(kind, start, others):
    onramp = start(read_wait_limit="200ms")
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, others)
    first, second = kind.others()
    sessions = Sessions(onramp)
    try:
        sessions.until_more(50)
        stop_process(kind.servers[first].process.pid)
        sessions.until_more(20)
        kind.servers[first].process.send_signal(signal.SIGCONT)
        kind.servers[first].kill()
        sessions.until_more(50)
        with raw.connect(onramp, schema="onramp_app") as client:
            until_split(client, [second + 1])
    finally:
        sessions.stop()
    assert (sessions.stale, sessions.errors) == ([], [])
