"""A MariaDB and its replica that stand for two of RDS (harness/rds.py): whom the replica follows only a procedure tells, and reads go there by that."""

import pytest

from harness import raw, several
from harness.admin import rows
from harness.rds import EXECUTE, Instances
from harness.reads import server_of, until_split
from harness.server import SERVICE
from harness.several import until_in_use
from harness.waiting import until

FROM_NOBODY = "read_only is on, it does not say from whom it replicates (grant EXECUTE ON PROCEDURE mysql.rds_replica_status, on MySQL REPLICATION CLIENT)"


@pytest.fixture
def instances(folder, template):
    instances = Instances(folder, template)
    try:
        yield instances
    finally:
        instances.discard()


@pytest.fixture
def onramp(instances, own_onramp, monkeypatch):
    onramp = several.start(own_onramp, monkeypatch, instances, read_split="replicas")
    until_in_use(onramp, [1, 0])
    return onramp


def replica(onramp):
    return rows(onramp, "SELECT * FROM servers")[1]


def until_reason(onramp, begins):
    until(lambda: replica(onramp)["reason"].startswith(begins), lambda: rows(onramp, "SELECT * FROM servers"))


def test_a_read_replica_is_read_from_by_what_the_procedure_says(instances, onramp):
    source = instances.servers[0]
    until_reason(onramp, f"read_only is on, it replicates from {source.host}:{source.inner_port}")
    assert (replica(onramp)["role"], replica(onramp)["writable"], replica(onramp)["lag_seconds"]) == ("replica", 0, 0)
    assert rows(onramp, "SELECT * FROM servers")[0]["reason"] == "read_only is off"
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, wanted=(2,))
        # What it has is asked as of any replica.
        assert not isinstance(client.query("UPDATE kept SET value = 7"), raw.Err)
        assert client.query("SELECT value FROM kept").rows == [(b"7",)]
        instances.order(1, "STOP SLAVE")
        until_reason(onramp, f"read_only is on, replication from {source.host}:{source.inner_port} has stopped")
        until(lambda: not replica(onramp)["readable"], lambda: replica(onramp))
        assert [server_of(client) for _ in range(8)] == [1] * 8


def test_without_the_right_to_call_it_the_reason_says_what_to_grant(instances, onramp):
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client, wanted=(2,))
        instances.order(0, f"REVOKE {EXECUTE} FROM '{SERVICE[0]}'@'%'")
        until_reason(onramp, FROM_NOBODY)
        assert "execute command denied" in replica(onramp)["reason"]
        until(lambda: not replica(onramp)["readable"], lambda: replica(onramp))
        assert [server_of(client) for _ in range(8)] == [1] * 8
        instances.order(0, f"GRANT {EXECUTE} TO '{SERVICE[0]}'@'%'")
        until_split(client, wanted=(2,))
