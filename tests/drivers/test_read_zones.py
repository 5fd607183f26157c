"""Weights and zones of servers that are read from (`read_weights`, `zone`, `server_zones`): with real replicas, some of which go and come back."""

import pymysql
import pytest

from harness import raw, several
from harness.admin import count, rows
from harness.metrics import Metrics
from harness.raw import Ok
from harness.reads import BEHIND_IS_READ, SERVER, address, cluster, holding, server_of, start, until_both_are_read, until_split, until_waiting  # noqa: F401 (fixtures among them)
from harness.server import ADMIN, free_port
from harness.several import until_in_use
from harness.waiting import in_background, until


def named(cluster, *values):
    """An option's value for each server, in their order; none where it is None."""
    pairs = zip(range(len(values)), values)
    return ",".join(f"{address(cluster, number)}={value}" for number, value in pairs if value is not None)


def unreadable_for(onramp):
    return [row["unreadable_for"] for row in rows(onramp, "SELECT unreadable_for FROM servers")]


def until_unreadable(onramp, *reasons):
    until(lambda: unreadable_for(onramp) == list(reasons), lambda: f"not {reasons}: {several.state(onramp)}")


def assert_read_from(client, *wanted):
    """Reads go to these servers alone."""
    found = {server_of(client) for _ in range(60)}
    assert found <= set(wanted), found


def reason_of(onramp, text):
    return rows(onramp, f"SELECT reason FROM routing WHERE text LIKE '%{text}%'")[0]["reason"]


def test_a_server_of_weight_0_is_not_read_from_whatever_happens_to_others(cluster, start):
    port = free_port()
    onramp = start(read_weights=named(cluster, None, 0), http_listen=f"127.0.0.1:{port}")
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, [3])
        until_unreadable(onramp, "primary", "no_weight", None)
        assert_read_from(client, 3)
        assert [row["weight"] for row in rows(onramp, "SELECT weight FROM servers")] == [1, 0, 1]
        metrics = Metrics(port)
        weights = [metrics.get("onramp_server_read_weight", server=address(cluster, number), zone="") for number in (1, 2)]
        assert weights == [0, 1]
        cluster.servers[2].kill()
        until_split(client, [1])
        assert client.query("SELECT value AS kept_free FROM kept").rows
        assert reason_of(onramp, "kept_free") == "no_weight"
        rows(onramp, "SET GLOBAL read_weights = ''")
        until_split(client, [2])
        rows(onramp, "SET GLOBAL read_weights = '*=0'")
        assert_read_from(client, 1)
        with pytest.raises(pymysql.err.Error, match=f"127.0.0.1:1, which is no server of backend; those are {address(cluster, 0)}, "):
            rows(onramp, "SET GLOBAL read_weights = '127.0.0.1:1=2'")
        rows(onramp, f"SET GLOBAL read_weights = '*=0,{address(cluster, 1)}=7'")
        until_split(client, [2])


def test_servers_of_unlike_weights_are_all_read_from(cluster, start):
    onramp = start(read_weights=named(cluster, None, 1, 3))
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_both_are_read(onramp, client)
        until_unreadable(onramp, "primary", None, None)


def test_reads_stay_in_the_zone_while_a_server_there_takes_them(cluster, start):
    onramp = start(zone="a", server_zones=named(cluster, "b", "a", "b"), **BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, [2])
        until_unreadable(onramp, "primary", None, "other_zone")
        assert [row["zone"] for row in rows(onramp, "SELECT zone FROM servers")] == ["b", "a", "b"]
        assert_read_from(client, 2)
        cluster.servers[1].kill()
        until_split(client, [3])
        until_unreadable(onramp, "primary", "unfit", None)
        assert isinstance(client.query("UPDATE kept SET value = 1"), Ok)
        assert client.query(SERVER).rows == [(b"3", b"1")]
        cluster.start(1, read_only=True)
        cluster.order(1, "START SLAVE")
        until_split(client, [2])
        until_unreadable(onramp, "primary", None, "other_zone")
        assert_read_from(client, 2)
        # Weights are looked at first: this one takes no reads, so that no server of the zone does.
        rows(onramp, f"SET GLOBAL read_weights = '{named(cluster, None, 0)}'")
        assert_read_from(client, 3)
        until_unreadable(onramp, "primary", "no_weight", None)
        rows(onramp, "SET GLOBAL read_weights = ''")
        assert_read_from(client, 2)
        rows(onramp, "SET GLOBAL zone = 'b'")
        assert_read_from(client, 3)
        rows(onramp, f"SET GLOBAL server_zones = '{named(cluster, 'a', 'b', 'a')}'")
        assert_read_from(client, 2)
        rows(onramp, "SET GLOBAL zone = ''")
        until_both_are_read(onramp, client)
        with pytest.raises(pymysql.err.Error, match="the name of a zone has 1 to 63 letters, digits"):
            rows(onramp, "SET GLOBAL zone = 'a b'")


def test_a_read_waits_for_its_zone_for_a_moment_and_then_for_anybody(cluster, start):
    # Whoever waited for the zone alone would wait for ever.
    onramp = start(zone="a", server_zones=named(cluster, "b", "a", "b"), **BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, [2])
        # It takes part, and does not get on.
        with raw.connect(cluster.servers[1], *ADMIN) as holder:
            holder.query("LOCK TABLES onramp_app.kept WRITE")
            for value in range(1, 20):
                assert isinstance(client.query(f"UPDATE kept SET value = {value}"), Ok)
                assert client.query(SERVER).rows == [(b"3", str(value).encode())]
            assert count(onramp, "Replica_reads_returned") == 0
            # Nobody has it, and then nobody is to take reads any more.
            with holding(cluster.servers[2]):
                assert isinstance(client.query("UPDATE kept SET value = 77"), Ok)
                waiting = in_background(client.query, SERVER)
                until_waiting(onramp)
                rows(onramp, "SET GLOBAL read_weights = '*=0'")
                assert waiting().rows == [(b"1", b"77")]
            rows(onramp, "SET GLOBAL read_weights = ''")
        until_split(client, [2])
        server, value = client.query(SERVER).rows[0]
        assert (server, value) == (b"2", b"77")


def test_the_primary_has_a_weight_and_a_zone_where_all_are_read_from(cluster, start):
    onramp = start(read_split="all", zone="b", server_zones=named(cluster, "b", "a", "a"), **BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_unreadable(onramp, "primary", "other_zone", "other_zone")
        assert_read_from(client, 1)
        assert client.query("SELECT value AS near FROM kept").rows
        assert reason_of(onramp, "AS near") == "other_zone"
        # Without a weight it takes part no more, and the zone has nobody.
        rows(onramp, f"SET GLOBAL read_weights = '{named(cluster, 0)}'")
        assert_read_from(client, 2, 3)
        until_unreadable(onramp, "primary", None, None)
        for number in range(1, 50):
            assert isinstance(client.query(f"UPDATE kept SET value = {number}"), Ok)
            server, value = client.query(SERVER).rows[0]
            assert (server in (b"2", b"3"), int(value)) == (True, number), server
        rows(onramp, "SET GLOBAL zone = 'a'")
        rows(onramp, "SET GLOBAL read_weights = ''")
        assert_read_from(client, 2, 3)
        for number in (1, 2):
            cluster.servers[number].kill()
        until_split(client, [1])
