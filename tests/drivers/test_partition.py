"""The network between a primary, its replica and Onramp is cut, by network namespaces, and both servers take writes for a time."""

import pytest

from harness import network, partition, raw, several
from harness.partition import Parted
from harness.raw import Closed, Err
from harness.several import CLIENTS, Load, until_in_use

pytestmark = pytest.mark.skipif(network.missing() is not None, reason=str(network.missing()))


@pytest.fixture
def cluster(folder, template):
    cluster = Parted(folder, template)
    try:
        yield cluster
    finally:
        cluster.discard()


@pytest.fixture
def onramp(cluster, own_onramp, monkeypatch):
    onramp = several.start(own_onramp, monkeypatch, cluster, workers=2)
    until_in_use(onramp, [1, 0])
    return onramp


def check(load, *codes):
    """Whoever only reads has noticed nothing; others hear of what was in flight or open, and of nothing else."""
    assert load.errors["read"] == [] and load.reads > 0
    assert all(isinstance(error, Err) and error.code in codes for error in load.errors["write"]), load.errors["write"]
    assert all(isinstance(error, Closed) or error.code in {1213, *codes} for error in load.errors["transaction"]), load.errors["transaction"]
    assert len(load.unknown) <= 2 * CLIENTS


def test_nothing_is_written_on_a_primary_that_was_cut_off_and_is_back(cluster, onramp):
    load = Load(onramp)
    load.until_acknowledged(partition.MORE)
    parting = partition.lose_primary(cluster, onramp, load, in_time=False)
    load.stop()
    acknowledged, _ = cluster.balance(load, parting.mark)
    assert acknowledged == set(), "the new primary lacks it"
    assert parting.late == set(), "carried out on the former primary behind the choice of the new one"
    check(load, 2013)


def test_locks_on_a_primary_that_was_cut_off_and_is_it_again_are_freed(cluster, onramp):
    cluster.order(0, "INSERT INTO onramp_app.markers VALUES (1)")
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as other:
        lock = "SELECT id FROM markers WHERE id = 1 FOR UPDATE"
        for statement in ["BEGIN", lock]:
            assert not isinstance(client.query(statement), Err)
        cluster.network.cut_off(0)
        # Does not arrive.
        error = client.query("INSERT INTO markers VALUES (2)")
        assert isinstance(error, Err) and error.code == 1213, error
        cluster.network.cut_off(0, off=False)
        until_in_use(onramp, [1, 0])
        # Nobody is left on the server who has locked it; a lock that stays is waited for for 50 seconds.
        for locker in [other, client]:
            assert not isinstance(locker.query(lock), Err)


def test_what_an_old_primary_acknowledged_alone_is_given_up_by_nobody_but_an_operator(cluster, onramp):
    load = Load(onramp)
    load.until_acknowledged(partition.MORE)
    parting = partition.keep_primary(cluster, onramp, load)
    load.stop()
    acknowledged, _ = cluster.balance(load, parting.mark)
    assert len(acknowledged) >= partition.MORE
    check(load)
