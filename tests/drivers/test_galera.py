"""Three nodes of one Galera behind one Onramp: one of them writes at a time, and the next one where it is lost or drained."""

import pymysql
import pytest

from harness import galera, raw, several
from harness.admin import rows
from harness.galera import CLUSTER, Galera
from harness.raw import Closed, Err, Ok
from harness.several import CLIENTS, Load, in_use, until_in_use, until_seen
from harness.waiting import in_background, until

pytestmark = pytest.mark.skipif(galera.provider() is None, reason="Galera's library is not installed (Debian, Ubuntu: apt install galera-4)")

# What a node says of a commit that was on its way to the others as it lost them: a deadlock, or an error during COMMIT.
UNDECIDED = (1180, 1213)


@pytest.fixture(scope="module")
def cluster(folder, template):
    cluster = Galera(folder, template)
    try:
        cluster.order(0, "CREATE TABLE onramp_app.markers (id BIGINT PRIMARY KEY) ENGINE=InnoDB")
        yield cluster
    finally:
        cluster.discard()


@pytest.fixture
def start(cluster, own_onramp, monkeypatch):
    """In front of all, of which the first writes; nothing is in the table."""
    def start(**options):
        onramp = several.start(own_onramp, monkeypatch, cluster, **options)
        until_in_use(onramp, only(cluster.first()))
        cluster.order(cluster.first(), "TRUNCATE onramp_app.markers")
        return onramp

    return start


@pytest.fixture
def onramp(start):
    return start()


def only(number):
    return [int(each == number) for each in range(3)]


def check(load, cluster, number, changes=1):
    """The ledger, and that clients outside of transactions hear only of what was on its way: of each client a transaction of two
    markers at most, in each change of the writer."""
    load.balance(cluster, number)
    assert load.errors["read"] == [] and load.reads > 0
    allowed = {2013, *UNDECIDED}
    assert all(isinstance(error, Err) and error.code in allowed for error in load.errors["write"]), load.errors["write"]
    assert all(isinstance(error, Closed) or error.code in allowed for error in load.errors["transaction"]), load.errors["transaction"]
    assert len(load.unknown) <= 2 * CLIENTS * changes, (len(load.unknown), load.errors)


def test_a_node_that_has_lost_the_others_writes_no_more_until_it_is_back(cluster, onramp):
    until_seen(onramp, "role", ["node"] * 3)
    until_seen(onramp, "state", ["up"] * 3)
    positions = lambda: {row["position"] for row in rows(onramp, "SELECT position FROM servers")}
    until(lambda: len(positions()) == 1, lambda: several.state(onramp))
    assert positions().pop().startswith(f"{CLUSTER}:")
    writer = cluster.first()
    load = Load(onramp, undecided=UNDECIDED)
    load.until_acknowledged(200)
    cluster.isolate(writer)
    until(lambda: rows(onramp, "SELECT in_use FROM servers")[writer]["in_use"] == 0, lambda: several.state(onramp))
    load.until_acknowledged(200)
    state = rows(onramp, "SELECT * FROM servers")[writer]
    assert (state["state"], state["writable"]) == ("unfit", 0) and "primary component" in state["reason"], state
    cluster.isolate(writer, False)
    until(lambda: cluster.is_synced(writer), "it does not come back")
    until_in_use(onramp, only(cluster.first()))
    load.until_acknowledged(200)
    load.stop()
    check(load, cluster, cluster.first(), changes=len(rows(onramp, "SELECT * FROM failovers")))


def order(onramp, cluster, what, number):
    """None, or the error."""
    try:
        rows(onramp, f"{what} '127.0.0.1:{cluster.servers[number].port}'")
    except pymysql.err.MySQLError as error:
        return str(error.args[1])
    return None


def drained(onramp):
    return [row["drained"] for row in rows(onramp, "SELECT drained FROM servers")]


def test_a_drain_rolls_back_nothing_that_a_pause_keeps_open(cluster, start):
    onramp = start(switchover_wait="1s")
    writer = cluster.first()
    with raw.connect(onramp, schema="onramp_app") as client:
        for statement in ("BEGIN", "INSERT INTO markers VALUES (1)"):
            assert isinstance(client.query(statement), Ok)
        rows(onramp, "PAUSE")
        try:
            assert "RESUME first" in order(onramp, cluster, "DRAIN", writer)
        finally:
            rows(onramp, "RESUME")
        assert isinstance(client.query("COMMIT"), Ok)
    # A drain that has failed leaves it to the next checks who the primary is.
    until_in_use(onramp, only(writer))
    assert drained(onramp) == [0] * 3


def test_the_writer_is_drained_and_started_anew_and_nobody_has_an_error(cluster, start):
    # Nothing here is to take part of it but what a test leaves open.
    onramp = start(switchover_wait="60s", switchover_timeout="60s")
    writer = cluster.first()
    load = Load(onramp, clients=50, undecided=UNDECIDED)
    load.until_acknowledged(200)
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp) as reader:
        for statement in ("BEGIN", "INSERT INTO markers VALUES (1000000)"):
            assert isinstance(client.query(statement), Ok)
        outcome = in_background(order, onramp, cluster, "DRAIN", writer)
        onramp.says("new transactions wait")
        # What is open goes on, and what is new waits for it.
        waiting = in_background(reader.value, "SELECT @@wsrep_node_name")
        for statement in ("INSERT INTO markers VALUES (1000001)", "COMMIT"):
            assert isinstance(client.query(statement), Ok)
        load.acknowledged |= {1000000, 1000001}
        assert outcome() is None
        assert waiting() != f"node-{writer}".encode()
    assert drained(onramp) == only(writer) and in_use(onramp)[writer] == 0
    assert rows(onramp, "SELECT reason FROM servers")[writer]["reason"].startswith("drained by an operator")
    load.until_acknowledged(200)
    # It has the lowest place as ever, and is the first again.
    assert cluster.first() == writer
    assert order(onramp, cluster, "UNDRAIN", writer) is None
    # A drain that has failed leaves it to the next checks who the primary is.
    until_in_use(onramp, only(writer))
    assert drained(onramp) == [0] * 3
    load.until_acknowledged(200)
    assert order(onramp, cluster, "DRAIN", writer) is None
    # Whatever was to be done with it: nobody is there any more.
    cluster.servers[writer].stop()
    until(lambda: rows(onramp, "SELECT state FROM servers")[writer]["state"] == "down", lambda: several.state(onramp))
    load.until_acknowledged(200)
    cluster.start(writer)
    until(lambda: cluster.is_synced(writer), "it does not come back")
    until_seen(onramp, "state", ["up"] * 3)
    load.until_acknowledged(200)
    assert in_use(onramp)[writer] == 0
    assert order(onramp, cluster, "UNDRAIN", writer) is None
    until_in_use(onramp, only(cluster.first()))
    load.until_acknowledged(200)
    load.stop()
    load.balance(cluster, cluster.first())
    assert load.errors == {"read": [], "write": [], "transaction": []} and load.unknown == set()
    changes = rows(onramp, "SELECT * FROM failovers")
    assert len(changes) >= 3 and all((change["rolled_back"], change["unknown"], change["lacks"]) == (0, 0, "") for change in changes), changes


def test_a_transaction_that_does_not_end_is_rolled_back_and_the_writer_drained(cluster, start):
    onramp = start(switchover_wait="1s")
    writer = cluster.first()
    with raw.connect(onramp, schema="onramp_app") as client:
        for statement in ("BEGIN", "INSERT INTO markers VALUES (1)"):
            assert isinstance(client.query(statement), Ok)
        assert order(onramp, cluster, "DRAIN", writer) is None
        answer = client.query("INSERT INTO markers VALUES (2)")
        assert isinstance(answer, Err) and (answer.code, answer.state) == (1213, "40001"), answer
        assert isinstance(client.query("INSERT INTO markers VALUES (3)"), Ok)
    assert in_use(onramp)[writer] == 0
    assert [row[0] for row in cluster.order(writer, "SET wsrep_sync_wait = 1", "SELECT id FROM onramp_app.markers").rows] == [b"3"]


def test_a_writer_without_another_one_and_the_last_node_are_not_drained(cluster, onramp):
    writer = cluster.first()
    others = [number for number in range(3) if number != writer]
    for number in others:
        cluster.order(number, "SET GLOBAL read_only = 1")
    until(lambda: [row["writable"] for row in rows(onramp, "SELECT writable FROM servers")] == only(writer), lambda: several.state(onramp))
    assert "no other server that is not drained takes writes" in order(onramp, cluster, "DRAIN", writer)
    for number in others:
        cluster.order(number, "SET GLOBAL read_only = 0")
    until(lambda: all(row["writable"] for row in rows(onramp, "SELECT writable FROM servers")), lambda: several.state(onramp))
    for number in others:
        assert order(onramp, cluster, "DRAIN", number) is None
    assert "last server" in order(onramp, cluster, "DRAIN", writer)
    assert (in_use(onramp), drained(onramp)) == (only(writer), [int(number in others) for number in range(3)])
    with raw.connect(onramp, schema="onramp_app") as client:
        assert isinstance(client.query("INSERT INTO markers VALUES (1)"), Ok)


def test_the_writer_is_killed(cluster, onramp):
    writer = cluster.first()
    load = Load(onramp, undecided=UNDECIDED)
    load.until_acknowledged(200)
    cluster.servers[writer].kill()
    load.until_acknowledged(200)
    until_in_use(onramp, only(cluster.first()))
    load.stop()
    check(load, cluster, cluster.first())
    # To the next one and no further, although all have other places from then on.
    assert len(rows(onramp, "SELECT * FROM failovers")) == 1, several.state(onramp)
