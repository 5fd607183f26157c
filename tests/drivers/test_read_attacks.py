"""Reads on replicas that are not what the primary is: that differ, lack something, let functions write, or hang."""

import os
import signal

import pytest

from harness import raw
from harness.admin import count, rows
from harness.raw import Err, Ok
from harness.reads import BEHIND_IS_READ, SERVER, address, cluster, holding, server_of, start, until_split, until_waiting  # noqa: F401 (fixtures among them)
from harness.server import ADMIN
from harness.several import until_in_use
from harness.waiting import in_background, stop_process, until


def on_replicas(cluster, *statements):
    for number in (1, 2):
        cluster.order(number, *statements)


def test_no_function_writes_on_a_replica(cluster, start):
    """One that a view calls, and whose definer may write in spite of read_only. Onramp does not hear of it: its session reads what it has written all the same."""
    onramp = start(accounts_refresh="1h", read_wait_limit="100ms", replica_max_lag="1h")
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        cluster.order(0, "USE onramp_app", "CREATE TABLE called (number INT)",
                      "CREATE FUNCTION writes() RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO called VALUES (1); RETURN 1; END",
                      "CREATE VIEW calls AS SELECT id, writes() AS written FROM kept")
        for number in (1, 2):
            cluster.until_followed(number)
        with holding(cluster.servers[1], "called"), holding(cluster.servers[2], "called"):
            for number in range(1, 5):
                assert client.query("SELECT * FROM calls").rows == [(b"1", b"1")]
                assert client.value("SELECT COUNT(*) FROM called") == str(number).encode()
        assert count(onramp, "Replica_reads_returned") == 8
    for number in (1, 2):
        cluster.until_followed(number)
    assert [int(cluster.value(number, "SELECT COUNT(*) FROM onramp_app.called WHERE number = 1")) for number in range(3)] == [4, 4, 4]


def test_reads_on_a_replica_with_other_defaults_are_as_on_the_primary(cluster, start):
    on_replicas(cluster, "SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "SET GLOBAL time_zone = '+07:00'",
                "SET GLOBAL group_concat_max_len = 8")
    onramp = start()
    until_in_use(onramp, [1, 0, 0])
    asked = r"""SELECT "a", 'b\'', @@time_zone, GROUP_CONCAT('0123456789') FROM kept"""
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as other:
        wanted = client.query("/* onramp: primary */ " + asked)
        until(lambda: server_of(client) in (2, 3), "reads do not go to replicas")
        before = count(onramp, "Replica_reads_returned")
        found = client.query(asked)
        assert (found.rows, found.status) == (wanted.rows, wanted.status)
        assert count(onramp, "Replica_reads_returned") == before
        # Where a backslash were taken for a letter, the call would be part of a string.
        assert client.query(r"SELECT '\'', GET_LOCK('ours', 0), '\''").rows == [(b"'", b"1", b"'")]
        for _ in range(20):
            assert other.value("SELECT GET_LOCK('ours', 0)") == b"0"


def test_what_a_replica_lacks_is_read_on_the_primary(cluster, start):
    cluster.order(0, "CREATE DATABASE IF NOT EXISTS onramp_other", "USE onramp_app", "CREATE TABLE lacking (id INT, other INT)", "INSERT INTO lacking VALUES (1, 2)",
                  "CREATE TABLE gone (id INT)", "INSERT INTO gone VALUES (1)")
    for number in (1, 2):
        cluster.until_followed(number)
    on_replicas(cluster, "SET sql_log_bin = 0", "DROP TABLE onramp_app.gone", "ALTER TABLE onramp_app.lacking DROP COLUMN other")
    onramp = start(coalesce_reads="on", max_backends=2)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        assert client.query("SELECT * FROM gone").rows == [(b"1",)]
        assert client.query("SELECT other FROM lacking").rows == [(b"2",)]
        assert count(onramp, "Replica_reads_returned") == 2
        assert server_of(client) in (2, 3)
        refused = client.query("SELECT * FROM never")
        assert isinstance(refused, Err) and refused.code == 1146
    # Others that wait for the same answer, too; and each in the schema that its client is in.
    clients = [raw.connect(onramp, schema=schema) for schema in ("onramp_app", "onramp_app", "onramp_other", "onramp_app") * 4]
    try:
        for _ in range(20):
            answers = [in_background(client.query, "SELECT * FROM onramp_app.gone") for client in clients]
            assert all(answer().rows == [(b"1",)] for answer in answers)
    finally:
        for client in clients:
            client.close()


def test_what_is_written_in_the_name_of_another_server_is_seen(cluster, start):
    """As by `mysqlbinlog | mysql`. The primary has been a replica before."""
    cluster.order(0, "CREATE TABLE onramp_app.before_that (id INT)")
    for number in (1, 2):
        cluster.until_followed(number)
    cluster.order(0, "SET GLOBAL gtid_slave_pos = '0-9-1'")
    # That SET pins the writer to the primary, so that another session reads.
    onramp = start(read_consistency="global", **BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, *ADMIN, schema="onramp_app") as writer, raw.connect(onramp, schema="onramp_app") as reader:
        until_split(reader)
        assert isinstance(writer.query("SET server_id = 99"), Ok)
        assert isinstance(writer.query("UPDATE kept SET value = 1"), Ok)
        with holding(cluster.servers[1]), holding(cluster.servers[2]):
            assert isinstance(writer.query("UPDATE kept SET value = 2"), Ok)
            reading = in_background(reader.query, SERVER)
            until_waiting(onramp)
        server, value = reading().rows[0]
        assert int(server) in (2, 3) and value == b"2"


@pytest.mark.parametrize("drained", [False, True])
def test_reads_on_a_replica_that_hangs_are_answered_by_the_primary(cluster, start, drained):
    """Also where it had been taken out before, so that nobody else is sent there."""
    onramp = start(failover_hold="2s", server_check_timeout="2s")
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        cluster.order(1, "STOP SLAVE SQL_THREAD")
        assert isinstance(client.query("UPDATE kept SET value = 5"), Ok)
        until(lambda: server_of(client) == 3, "the other one is not read from")
        stopped = cluster.servers[2].process.pid
        with raw.connect(cluster.servers[2], *ADMIN, schema="onramp_app") as holder:
            assert isinstance(holder.query("LOCK TABLES kept WRITE"), Ok)
            reading = in_background(client.query, "SELECT COUNT(*) FROM kept AS a")
            ran = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT COUNT(*) FROM kept AS a%'"
            until(lambda: int(cluster.value(2, ran)) == 1, "it is not on the replica")
            if drained:
                rows(onramp, f"DRAIN '{address(cluster, 2)}'")
            stop_process(stopped)
            try:
                assert reading().rows == [(b"1",)]
            finally:
                os.kill(stopped, signal.SIGCONT)


def test_who_would_keep_a_backend_reads_on_the_primary(cluster, start):
    """A client that logs in with gbk, whose texts the server may read otherwise: what a read leaves is on its backend, and is asked for there."""
    onramp = start(workers=1)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app", collation=28) as other:
        until_split(client)
        for _ in range(4):
            found = other.query("SELECT @@global.server_id, id + 'x' FROM kept")
            assert (found.warnings, len(other.query("SHOW WARNINGS").rows)) == (1, 1), found
            assert found.rows[0][0] == b"1"
