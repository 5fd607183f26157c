"""Three nodes of one Galera behind one Onramp: one of them writes at a time, and the next one where it is lost."""

import pytest

from harness import galera, several
from harness.admin import rows
from harness.galera import CLUSTER, Galera
from harness.raw import Closed, Err
from harness.several import CLIENTS, Load, until_in_use, until_seen
from harness.waiting import until

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
def onramp(cluster, own_onramp, monkeypatch):
    """In front of all, of which the first writes; nothing is in the table."""
    onramp = several.start(own_onramp, monkeypatch, cluster)
    until_in_use(onramp, only(cluster.first()))
    cluster.order(cluster.first(), "TRUNCATE onramp_app.markers")
    return onramp


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
