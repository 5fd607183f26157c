"""Several servers, and the primary changes: what clients hear of it, and where each write is afterwards."""

import itertools
import signal
import threading

import pymysql
import pytest

from harness import raw
from harness.cluster import Cluster
from harness.raw import Closed, Err, Ok
from harness.server import SERVICE, free_port
from harness.waiting import PATIENCE, in_background, until

PASSWORD = "admin-secret"
CLIENTS = 40


@pytest.fixture
def cluster(folder, template):
    cluster = Cluster(folder, template)
    cluster.order(0, f"GRANT REPLICA MONITOR ON *.* TO '{SERVICE[0]}'@'%'")
    cluster.order(0, "CREATE TABLE onramp_app.markers (id BIGINT PRIMARY KEY) ENGINE=InnoDB")
    cluster.until_followed()
    yield cluster
    cluster.discard()


@pytest.fixture
def start(cluster, own_onramp, monkeypatch):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)

    def start(**options):
        port = free_port()
        onramp = own_onramp(
            cluster.servers[0], backend=options.pop("backend", cluster.backends(*SERVICE)), admin_listen=f"127.0.0.1:{port}",
            **{"max_backends": 16, "workers": 2, "failover_hold": f"{PATIENCE}s", **options})
        onramp.admin = pymysql.connect(host="127.0.0.1", port=port, user="admin", password=PASSWORD)
        return onramp

    return start


def rows(onramp, statement):
    with onramp.admin.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def in_use(onramp):
    return [row["in_use"] for row in rows(onramp, "SELECT in_use FROM servers")]


def until_in_use(onramp, values):
    until(lambda: in_use(onramp) == values,
          lambda: f"not {values}: {rows(onramp, 'SELECT * FROM servers')}\n{onramp.log_text()[-3000:]}")


class Load:
    """Clients of three kinds, each of which goes on until it is told to stop, and what became of their markers."""

    def __init__(self, onramp, clients=CLIENTS):
        self.onramp = onramp
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.acknowledged, self.refused, self.unknown = set(), set(), set()
        self.errors = {"read": [], "write": [], "transaction": []}
        self.reads = 0
        self.ends = threading.Event()
        kinds = itertools.cycle(("read", "write", "write", "transaction"))
        self.threads = [threading.Thread(target=self.run, args=(kind,), daemon=True) for kind, _ in zip(kinds, range(clients))]
        for thread in self.threads:
            thread.start()

    def run(self, kind):
        connection = raw.connect(self.onramp, schema="onramp_app")
        while not self.ends.is_set():
            try:
                getattr(self, kind)(connection)
            except (Closed, ConnectionError) as error:
                self.note_error(kind, error)
                connection = raw.connect(self.onramp, schema="onramp_app")
        connection.close()

    def note_error(self, kind, error):
        with self.lock:
            self.errors[kind].append(error)

    def read(self, connection):
        answer = connection.query("SELECT COUNT(*) FROM markers")
        if isinstance(answer, Err):
            self.note_error("read", answer)
        with self.lock:
            self.reads += 1

    def write(self, connection):
        with self.lock:
            number = next(self.numbers)
        outcome = self.unknown
        try:
            answer = connection.query(f"INSERT INTO markers VALUES ({number})")
            if isinstance(answer, Ok):
                outcome = self.acknowledged
            else:
                self.note_error("write", answer)
                outcome = self.unknown if answer.code == 2013 else self.refused
        finally:
            with self.lock:
                outcome.add(number)

    def transaction(self, connection):
        with self.lock:
            numbers = [next(self.numbers), next(self.numbers)]
        steps = ["BEGIN", *(f"INSERT INTO markers VALUES ({number})" for number in numbers), "COMMIT"]
        outcome = self.refused
        try:
            for step in steps:
                # Only what is in flight at the COMMIT is in doubt.
                outcome = self.unknown if step == "COMMIT" else self.refused
                answer = connection.query(step)
                if isinstance(answer, Err):
                    self.note_error("transaction", answer)
                    outcome = self.unknown if answer.code == 2013 and step == "COMMIT" else self.refused
                    return
            outcome = self.acknowledged
        finally:
            with self.lock:
                outcome.update(numbers)

    def until_acknowledged(self, more):
        """Until so many more writes were."""
        target = len(self.acknowledged) + more
        until(lambda: len(self.acknowledged) >= target,
              lambda: f"{len(self.acknowledged)} of {target}, {self.errors}\n{self.onramp.log_text()[-3000:]}")

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), self.onramp.log_text()[-3000:]

    def balance(self, cluster, number):
        """The ledger against what the server has in the end."""
        stored = {int(row[0]) for row in cluster.order(number, "SELECT id FROM onramp_app.markers").rows}
        assert self.acknowledged <= stored, f"lost: {sorted(self.acknowledged - stored)[:10]}"
        assert not self.refused & stored, f"refused, and there: {sorted(self.refused & stored)[:10]}"
        assert stored <= self.acknowledged | self.unknown


def test_the_primary_is_killed_and_a_script_promotes_the_replica(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    load = Load(onramp)
    load.until_acknowledged(200)
    cluster.servers[0].kill()
    cluster.promote(1)
    until_in_use(onramp, [0, 1])
    load.until_acknowledged(200)
    load.stop()
    load.balance(cluster, 1)
    # Whoever only reads has noticed nothing. What was in flight is in doubt, and nothing else: of each client one statement at most, which
    # is two markers in a transaction.
    assert load.errors["read"] == [] and load.reads > 0
    assert all(isinstance(error, Err) and error.code == 2013 for error in load.errors["write"]), load.errors["write"]
    assert all(isinstance(error, Err) and error.code in (1213, 2013) or isinstance(error, Closed)
               for error in load.errors["transaction"]), load.errors["transaction"]
    assert len(load.unknown) <= 2 * CLIENTS
    change = rows(onramp, "SELECT * FROM failovers")[0]
    assert change["from_server"].endswith(str(cluster.servers[0].port)) and change["to_server"].endswith(str(cluster.servers[1].port))
    assert change["took_us"] > 0 and change["held"] > 0
    # A client may have been told that a transaction is rolled back of which no server knew any more.
    assert change["unknown"] > 0 or not load.unknown


def test_a_planned_switchover_is_no_error_for_anybody_outside_of_transactions(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    load = Load(onramp)
    load.until_acknowledged(200)
    cluster.order(0, "SET GLOBAL read_only = 1")
    cluster.until_followed()
    cluster.promote(1)
    until_in_use(onramp, [0, 1])
    load.until_acknowledged(200)
    load.stop()
    load.balance(cluster, 1)
    assert load.errors["read"] == [] and load.errors["write"] == [] and load.unknown == set()
    assert all(isinstance(error, Err) and error.code == 1213 for error in load.errors["transaction"]), load.errors["transaction"]
    assert rows(onramp, "SELECT * FROM failovers")[0]["unknown"] == 0


def test_an_open_transaction_is_rolled_back_and_its_client_goes_on(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as pinned:
        for statement in ("BEGIN", "INSERT INTO markers VALUES (1)"):
            assert isinstance(client.query(statement), Ok)
        assert isinstance(pinned.query("CREATE TEMPORARY TABLE mine (id INT)"), Ok)
        cluster.servers[0].kill()
        cluster.promote(1)
        until_in_use(onramp, [0, 1])
        answer = client.query("INSERT INTO markers VALUES (2)")
        assert isinstance(answer, Err) and (answer.code, answer.state) == (1213, "40001"), answer
        assert client.query("SELECT id FROM markers").rows == []
        for statement in ("BEGIN", "INSERT INTO markers VALUES (3)", "COMMIT"):
            assert isinstance(client.query(statement), Ok)
        # What cannot be had again is not pretended to be there.
        answer = pinned.query("SELECT * FROM mine")
        assert isinstance(answer, Err) and answer.code == 2013, answer
        assert pinned.at_end()
    assert cluster.order(1, "SELECT id FROM onramp_app.markers").rows == [(b"3",)]


def test_two_that_take_writes_are_none_until_one_of_them_does_not(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        assert isinstance(client.query("INSERT INTO markers VALUES (1)"), Ok)
        cluster.order(1, "SET GLOBAL read_only = 0")
        until_in_use(onramp, [0, 0])
        onramp.says("take writes: which of them is the primary is not to be guessed")
        waiting = in_background(client.query, "INSERT INTO markers VALUES (2)")
        until(lambda: rows(onramp, "SELECT * FROM clients WHERE state = 'queued'"), "it does not wait")
        cluster.order(1, "SET GLOBAL read_only = 1")
        assert isinstance(waiting(), Ok)
    assert cluster.order(0, "SELECT id FROM onramp_app.markers").rows == [(b"1",), (b"2",)]


def test_the_old_primary_comes_back_and_takes_writes(cluster, start):
    """Nothing goes there, nor anywhere, until somebody has said which of both it is."""
    onramp = start()
    until_in_use(onramp, [1, 0])
    cluster.servers[0].kill()
    cluster.promote(1)
    until_in_use(onramp, [0, 1])
    with raw.connect(onramp, schema="onramp_app") as client:
        assert isinstance(client.query("INSERT INTO markers VALUES (1)"), Ok)
        cluster.start(0, read_only=False)
        until_in_use(onramp, [0, 0])
        waiting = in_background(client.query, "INSERT INTO markers VALUES (2)")
        until(lambda: rows(onramp, "SELECT * FROM clients WHERE state = 'queued'"), "it does not wait")
        cluster.order(0, "SET GLOBAL read_only = 1")
        assert isinstance(waiting(), Ok)
        until_in_use(onramp, [0, 1])
    assert cluster.order(0, "SELECT id FROM onramp_app.markers").rows == []
    assert cluster.order(1, "SELECT id FROM onramp_app.markers").rows == [(b"1",), (b"2",)]


def test_nothing_is_written_on_a_primary_that_hung_and_comes_to(cluster, start):
    """A check that hangs has failed at its deadline, and backends of that server are closed with the choice of another one."""
    onramp = start()
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as holder:
        assert isinstance(holder.query("CREATE TEMPORARY TABLE mine (id INT)"), Ok)
        cluster.servers[0].process.send_signal(signal.SIGSTOP)
        try:
            cluster.promote(1)
            until_in_use(onramp, [0, 1])
            assert isinstance(client.query("INSERT INTO markers VALUES (1)"), Ok)
        finally:
            cluster.servers[0].process.send_signal(signal.SIGCONT)
        # It takes writes, as before: two of them.
        until_in_use(onramp, [0, 0])
        cluster.order(0, "SET GLOBAL read_only = 1")
        until_in_use(onramp, [0, 1])
        assert isinstance(client.query("INSERT INTO markers VALUES (2)"), Ok)
        answer = holder.query("INSERT INTO markers VALUES (3)")
        assert isinstance(answer, Err) and answer.code == 2013, answer
    assert cluster.order(0, "SELECT id FROM onramp_app.markers").rows == []
    assert cluster.order(1, "SELECT id FROM onramp_app.markers").rows == [(b"1",), (b"2",)]


def test_without_a_new_primary_the_wait_ends_with_an_error_that_says_so(cluster, start):
    onramp = start(failover_hold="1s")
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        cluster.order(0, "SET GLOBAL read_only = 1")
        answer = client.query("INSERT INTO markers VALUES (1)")
        assert isinstance(answer, Err) and answer.code in (1158, 1290), answer
        assert "failover_hold" in answer.message or answer.code == 1290, answer
        until_in_use(onramp, [0, 0])
        answer = client.query("SELECT 1")
        assert isinstance(answer, Err) and answer.code == 1158 and "failover_hold" in answer.message, answer
        cluster.order(0, "SET GLOBAL read_only = 0")
        until_in_use(onramp, [1, 0])
        assert isinstance(client.query("INSERT INTO markers VALUES (2)"), Ok)


def test_a_server_that_comes_and_goes_is_taken_for_a_primary_once_it_stays(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        for number in range(1, 4):
            cluster.servers[0].kill()
            until_in_use(onramp, [0, 0])
            cluster.start(0, read_only=False)
            cluster.order(1, "START SLAVE")
            assert isinstance(client.query(f"INSERT INTO markers VALUES ({number})"), Ok)
    assert len(cluster.order(0, "SELECT id FROM onramp_app.markers").rows) == 3


def test_thirty_addresses(cluster, start):
    """Most of them of nobody."""
    nobody = [f"mysql://{SERVICE[0]}:{SERVICE[1]}@127.0.0.1:{free_port()}/" for _ in range(28)]
    onramp = start(backend=nobody[:14] + cluster.backends(*SERVICE) + nobody[14:])
    until_in_use(onramp, [0] * 14 + [1, 0] + [0] * 14)
    with raw.connect(onramp) as client:
        assert client.value("SELECT 1") == b"1"
    assert len(rows(onramp, "SELECT * FROM servers WHERE state = 'down'")) == 28
