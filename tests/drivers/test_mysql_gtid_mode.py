"""A MySQL and its replica whose GTIDs were turned off, as a managed server's are unless somebody turns them on: what they have from before says nothing."""

import pytest

from harness import mysql, raw, several
from harness.admin import rows
from harness.mysql_replicas import MySqlReplicas
from harness.raw import Ok
from harness.reads import server_of
from harness.server import SERVICE
from harness.several import until_in_use
from harness.waiting import until

pytestmark = mysql.needed

GIVES_NONE = "OFF_PERMISSIVE"


@pytest.fixture
def cluster(folder):
    cluster = MySqlReplicas(folder, count=2)
    try:
        cluster.order(0, f"GRANT REPLICATION CLIENT ON *.* TO '{SERVICE[0]}'@'%'",
                      "CREATE TABLE onramp_app.kept (id BIGINT PRIMARY KEY, value BIGINT) ENGINE=InnoDB", "INSERT INTO onramp_app.kept VALUES (1, 0)")
        cluster.until_followed()
        if cluster.is_lossless:
            cluster.order(0, "SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        cluster.order(1, "STOP REPLICA", "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 0", "START REPLICA")
        # Step by step, as the server wants it, and on both before the next.
        for mode in ("ON_PERMISSIVE", GIVES_NONE):
            for number in (0, 1):
                cluster.order(number, f"SET GLOBAL gtid_mode = {mode}")
        yield cluster
    finally:
        cluster.discard()


def test_what_was_written_without_them_is_not_taken_for_there(cluster, own_onramp, monkeypatch):
    onramp = several.start(own_onramp, monkeypatch, cluster, read_split="replicas")
    until_in_use(onramp, [1, 0])
    assert all(cluster.value(number, "SELECT @@global.gtid_executed") for number in (0, 1)), "they have none from before"
    until(lambda: rows(onramp, "SELECT unreadable_for FROM servers")[1]["unreadable_for"] == "no_position", lambda: rows(onramp, "SELECT * FROM servers"))
    cluster.order(1, "STOP REPLICA")
    with raw.connect(onramp, schema="onramp_app") as client:
        answer = client.query("INSERT INTO kept VALUES (2, 7)")
        assert isinstance(answer, Ok), answer
        assert [server_of(client) for _ in range(8)] == [1] * 8
    # Its checks have seen all that they can see.
    checked = int(rows(onramp, "SELECT COUNT(*) AS checks FROM server_checks")[0]["checks"])
    until(lambda: int(rows(onramp, "SELECT COUNT(*) AS checks FROM server_checks")[0]["checks"]) >= checked + 4, "no more checks")
    cluster.servers[0].kill()
    cluster.promote(1)
    until_in_use(onramp, [0, 1])
    assert rows(onramp, "SELECT lacks FROM failovers")[0]["lacks"] is None, "it lacks the second row"
    assert "their GTIDs cannot be compared" in onramp.log_text()
