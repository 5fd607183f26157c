"""Three members of one group (MySQL's Group Replication) behind one Onramp: statements follow the primary that they elect."""

import contextlib
import signal
import threading

import pytest

from harness import group, mysql, several
from harness.admin import rows
from harness.faults import Fault, Faults
from harness.group import Group
from harness.raw import Closed, Err
from harness.server import SERVICE
from harness.several import Load, until_in_use, until_seen
from harness.waiting import stop_process, until

pytestmark = [mysql.needed, pytest.mark.skipif(group.missing() is not None, reason=str(group.missing()))]

# ER_TRANSACTION_ROLLBACK_DURING_COMMIT, of what a member had on its way to the others as they left it out.
UNDECIDED = (3101,)


@pytest.fixture(scope="module")
def cluster(folder):
    cluster = Group(folder)
    try:
        cluster.order(0, "CREATE TABLE onramp_app.markers (id BIGINT PRIMARY KEY)")
        yield cluster
    finally:
        cluster.discard()


@pytest.fixture
def onramp(cluster, own_onramp, monkeypatch):
    return several.start(own_onramp, monkeypatch, cluster)


def check(load, cluster, number):
    load.balance(cluster, number)
    assert load.errors["read"] == [] and load.reads > 0
    allowed = {2013, *UNDECIDED}
    assert all(isinstance(error, Err) and error.code in allowed for error in load.errors["write"]), load.errors["write"]
    assert all(isinstance(error, Closed) or error.code in {1213, *allowed} for error in load.errors["transaction"]), load.errors["transaction"]


def test_statements_follow_the_primary_that_the_group_elects(cluster, onramp):
    until_seen(onramp, "role", ["primary", "replica", "replica"])
    until_in_use(onramp, [1, 0, 0])
    assert rows(onramp, "SELECT reason FROM servers")[0]["reason"] == "primary of a group of 3"
    load = Load(onramp)
    load.until_acknowledged(200)
    # It hangs, and the others go on without it.
    stop_process(cluster.servers[0].process.pid)
    try:
        until(lambda: sum(several.in_use(onramp)[1:]) == 1, lambda: several.state(onramp))
        second = several.in_use(onramp).index(1)
        load.until_acknowledged(200)
    finally:
        cluster.servers[0].process.send_signal(signal.SIGCONT)
    # It comes to and takes itself for the primary, until it hears that the others have left it out. Nothing is held for that.
    until(lambda: rows(onramp, "SELECT state FROM servers")[0]["state"] != "up", lambda: several.state(onramp))
    load.until_acknowledged(200)
    load.stop()
    check(load, cluster, second)
    # Under load it would not catch up.
    cluster.come_back(0)
    until_seen(onramp, "state", ["up"] * 3)
    assert several.in_use(onramp).index(1) == second and len(rows(onramp, "SELECT * FROM failovers")) == 1, several.state(onramp)
    assert "take writes" not in onramp.log_text()


def test_a_primary_that_is_back_at_once_and_in_no_group_gets_nothing(cluster, own_onramp, monkeypatch):
    # It is back before a second check is due.
    onramp = several.start(own_onramp, monkeypatch, cluster, server_check_interval="5s")
    until(lambda: sum(several.in_use(onramp)) == 1, lambda: several.state(onramp))
    primary = several.in_use(onramp).index(1)
    cluster.order(primary, "TRUNCATE onramp_app.markers")
    load = Load(onramp, undecided=UNDECIDED)
    load.until_acknowledged(200)
    cluster.servers[primary].kill()
    cluster.start(primary)
    assert cluster.value(primary, "SELECT @@super_read_only") == b"0", "it takes writes"
    load.until_acknowledged(200)
    load.stop()
    assert several.in_use(onramp)[primary] == 0, several.state(onramp)
    assert rows(onramp, "SELECT reason FROM servers")[primary]["reason"].startswith("OFFLINE, not in its group"), several.state(onramp)
    check(load, cluster, several.in_use(onramp).index(1))
    # It would be refused if it had anything that the others have not.
    cluster.join(primary)


# On the ways to all three. Of the check: what it hears is late, that a server has hung up is, both, or its connection is cut again and again.
# Of all others: the same of the end.
FAULTS = {
    "late checks": {"check": Fault(late=0.2)}, "late ends of checks": {"check": Fault(end_late=4)},
    "late ends of backends": {"data": Fault(end_late=4)}, "late backends": {"data": Fault(late=0.3)},
    "late checks with late ends": {"check": Fault(late=0.2, end_late=4), "data": Fault(late=0.05)}, "cut checks": {"cuts": True}}


@pytest.fixture
def relays(cluster):
    """One in front of each server."""
    relays = [Faults(server) for server in cluster.servers]
    yield relays
    for relay in relays:
        relay.close()


@pytest.mark.slow
@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS.keys())
def test_a_primary_that_is_back_at_once_gets_nothing_whatever_is_late(cluster, relays, own_onramp, monkeypatch, faults):
    backends = [f"mysql://{':'.join(SERVICE)}@{relay.host}:{relay.port}/" for relay in relays]
    onramp = several.start(own_onramp, monkeypatch, cluster, backend=backends)
    until(lambda: sum(several.in_use(onramp)) == 1, lambda: several.state(onramp))
    primary = several.in_use(onramp).index(1)
    cluster.order(primary, "TRUNCATE onramp_app.markers")
    load = Load(onramp, undecided=UNDECIDED)
    load.until_acknowledged(200)
    assert all(relay.has_seen_a_check() for relay in relays), "what happens to checks alone happens to nobody"
    for relay in relays:
        relay.check, relay.data = faults.get("check", Fault()), faults.get("data", Fault())
    with cutting(relays) if faults.get("cuts") else contextlib.nullcontext():
        cluster.servers[primary].kill()
        cluster.start(primary)
        load.until_acknowledged(200)
    load.stop()
    check(load, cluster, several.in_use(onramp).index(1))
    # It would be refused if it had anything that the others have not.
    cluster.join(primary)


@contextlib.contextmanager
def cutting(relays):
    """Meanwhile the connections of checks are cut three times a second."""
    ends = threading.Event()

    def cut():
        while not ends.wait(0.3):
            for relay in relays:
                relay.cut(of_check=True)

    cutter = threading.Thread(target=cut, daemon=True)
    cutter.start()
    try:
        yield
    finally:
        ends.set()
        cutter.join()


def test_the_primary_is_killed(cluster, onramp):
    until(lambda: sum(several.in_use(onramp)) == 1, lambda: several.state(onramp))
    primary = several.in_use(onramp).index(1)
    cluster.order(primary, "TRUNCATE onramp_app.markers")
    load = Load(onramp, undecided=UNDECIDED)
    load.until_acknowledged(200)
    cluster.servers[primary].kill()
    load.until_acknowledged(200)
    load.stop()
    check(load, cluster, several.in_use(onramp).index(1))
