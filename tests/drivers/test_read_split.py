"""Reads on replicas (`read_split`): which go there, what they see, and what becomes of them when a server fails."""

import signal
import threading

from harness import raw, several
from harness.admin import count, rows
from harness.raw import Err, Ok
from harness.reads import BEHIND_IS_READ, SERVER, Sessions, cluster, holding, server_of, start, until_split, until_waiting  # noqa: F401 (fixtures among them)
from harness.server import SERVICE
from harness.several import until_in_use
from harness.waiting import in_background, stop_process, until


def test_reads_go_to_replicas_and_all_else_to_the_primary(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        for statement in ("BEGIN", "SET autocommit = 0"):
            assert isinstance(client.query(statement), Ok)
            assert server_of(client) == 1, statement
            for end in ("COMMIT", "SET autocommit = 1"):
                assert isinstance(client.query(end), Ok)
        assert int(client.query(SERVER + " FOR UPDATE").rows[0][0]) == 1
        assert isinstance(client.query("CREATE TEMPORARY TABLE own (id INT)"), Ok)
        assert server_of(client) == 1, "it holds a table there"
        assert isinstance(client.query("DROP TEMPORARY TABLE own"), Ok)
        until_split(client)
        before = count(onramp, "Replica_reads")
        assert client.query("SELECT 1 FROM kept").rows == [(b"1",)]
        assert count(onramp, "Replica_reads") == before + 1


def test_a_session_reads_what_it_has_written(cluster, start):
    onramp = start(**BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        for number in range(1, 500):
            assert isinstance(client.query(f"UPDATE kept SET value = {number}"), Ok)
            server, value = client.query(SERVER).rows[0]
            assert int(value) == number, server
        assert count(onramp, "Replica_reads_waited") > 0
        assert count(onramp, "Replica_reads_returned") == 0


def test_a_read_waits_for_a_replica_and_goes_to_the_primary_in_the_end(cluster, start):
    onramp = start(**BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        with holding(cluster.servers[1]):
            with holding(cluster.servers[2]):
                assert isinstance(client.query("UPDATE kept SET value = 7"), Ok)
                waiting = in_background(client.query, SERVER)
                until_waiting(onramp)
            assert waiting().rows == [(b"3", b"7")]
            with holding(cluster.servers[2]):
                assert isinstance(client.query("UPDATE kept SET value = 8"), Ok)
                rows(onramp, "SET GLOBAL read_wait_limit = '10ms'")
                assert client.query(SERVER).rows == [(b"1", b"8")]
                assert count(onramp, "Replica_reads_returned") == 1


def test_what_others_have_written_is_seen_where_that_is_asked_for(cluster, start):
    onramp = start(read_consistency="global")
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as writer, raw.connect(onramp, schema="onramp_app") as reader:
        until_split(reader)
        for number in range(1, 200):
            assert isinstance(writer.query(f"UPDATE kept SET value = {number}"), Ok)
            server, value = reader.query(SERVER).rows[0]
            assert int(value) == number, server


def test_a_replica_that_is_killed_is_no_error_for_reads(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0, 0])
    stop, errors, reads = threading.Event(), [], [0] * 8

    def read(place):
        # Half of them with a library whose connections end with a lost statement, where that is told.
        attributes = {"_client_name": "libmariadb"} if place % 2 else None
        with raw.connect(onramp, schema="onramp_app", attributes=attributes) as client:
            while not stop.is_set():
                answer = client.query(SERVER)
                if isinstance(answer, Err):
                    errors.append(answer)
                reads[place] += 1

    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        threads = [threading.Thread(target=read, args=(place,)) for place in range(len(reads))]
        for thread in threads:
            thread.start()
        try:
            until(lambda: min(reads) > 100, "they do not read")
            cluster.servers[1].kill()
            before = list(reads)
            until(lambda: all(now > then + 100 for now, then in zip(reads, before)), "they do not go on")
            until_split(client, [3])
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert errors == []


def test_a_replica_that_hangs_holds_up_reads_until_it_is_known_to_be_down(cluster, start):
    onramp = start(server_check_timeout="2s")
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        stop_process(cluster.servers[1].process.pid)
        try:
            for _ in range(20):
                assert not isinstance(client.query(SERVER), Err)
            several.until_seen(onramp, "state", ["up", "down", "up"])
            until_split(client, [3])
        finally:
            cluster.servers[1].process.send_signal(signal.SIGCONT)
        until(lambda: server_of(client) == 2, "it is not read from again")


def test_killing_a_read_on_a_replica_ends_it(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as killer:
        until_split(client)
        long = "SELECT COUNT(*) FROM kept AS a, seq_1_to_1000000000 AS b"
        running = in_background(client.query, long)
        state = "SELECT id FROM clients WHERE state = 'on_replica'"
        until(lambda: rows(onramp, state), "it does not run")
        ran = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT COUNT(*) FROM kept AS a%'"
        until(lambda: sum(int(cluster.value(number, ran)) for number in (1, 2)) == 1, "it is not on a replica")
        assert isinstance(killer.query(f"KILL QUERY {rows(onramp, state)[0]['id']}"), Ok)
        answer = running()
        assert isinstance(answer, Err) and answer.code == 1317, answer
        gone = lambda: sum(int(cluster.value(number, ran)) for number in (1, 2)) == 0
        until(gone, "it goes on")
        assert server_of(client) in (2, 3)
        # And with its client.
        client.command(raw.QUERY, long.encode())
        until(lambda: not gone(), "it is not on a replica")
        assert isinstance(killer.query(f"KILL {rows(onramp, state)[0]['id']}"), Ok)
        until(gone, "it goes on")
        assert client.at_end()


def test_no_session_sees_less_than_it_has_written_whatever_fails(cluster, start):
    onramp = start(read_wait_limit="200ms")
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
    sessions = Sessions(onramp)
    try:
        sessions.until_more(100)
        for _ in range(3):
            # Late, and soon back.
            cluster.order(1, "STOP SLAVE SQL_THREAD")
            sessions.until_more(5)
            cluster.order(1, "START SLAVE SQL_THREAD")
            sessions.until_more(20)
        cluster.servers[2].kill()
        sessions.until_more(50)
        cluster.servers[0].kill()
        cluster.order(1, "SET GLOBAL rpl_semi_sync_master_enabled = 0")
        cluster.promote(1)
        until_in_use(onramp, [0, 1, 0])
        sessions.until_more(50)
        # The former primary comes back as a replica.
        cluster.start(0, read_only=True)
        cluster.follow(0, 1)
        with raw.connect(onramp, schema="onramp_app") as client:
            until_split(client, [1])
        sessions.until_more(100)
    finally:
        sessions.stop()
    assert sessions.stale == []
    assert all(error.code in (1205, 1213, 2013) for error in sessions.errors), sessions.errors
    assert count(onramp, "Replica_reads") > 0


def test_a_former_primary_that_follows_nobody_is_not_read_from(cluster, start):
    """It has a transaction that nobody else has, and so a greater number than the new primary."""
    onramp = start(failover_behind="allow")
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        cluster.order(0, "SET GLOBAL rpl_semi_sync_master_enabled = 0")
        for number in (1, 2):
            cluster.order(number, "STOP SLAVE IO_THREAD")
        for value in range(1, 6):
            assert isinstance(client.query(f"UPDATE kept SET value = {value}"), Ok)
        cluster.servers[0].kill()
        cluster.order(1, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0", "SET GLOBAL rpl_semi_sync_master_enabled = 0")
        cluster.order(2, "STOP SLAVE")
        until_in_use(onramp, [0, 1, 0])
        cluster.start(0, read_only=True)
        several.until_seen(onramp, "state", ["up", "up", "up"])
        for value in range(11, 14):
            assert isinstance(client.query(f"UPDATE kept SET value = {value}"), Ok)
            for _ in range(20):
                server, found = client.query(SERVER).rows[0]
                assert (int(server), int(found)) == (2, value)


def test_a_replica_that_has_lost_something_is_not_believed(cluster, start):
    """It comes up again with less than it had: as after a loss of power."""
    onramp = start(**BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        cluster.servers[2].kill()
        until_split(client, [2])
        assert isinstance(client.query("UPDATE kept SET value = 1"), Ok)
        assert server_of(client) == 2
        position = cluster.value(1, "SELECT @@global.gtid_slave_pos").decode()
        cluster.servers[1].kill()
        cluster.start(1, read_only=True)
        # As if that write had never come, and would not come again.
        before = position.rsplit("-", 1)
        cluster.order(1, "UPDATE onramp_app.kept SET value = 0",
                      f"SET GLOBAL gtid_slave_pos = '{before[0]}-{int(before[1]) - 1}'")
        cluster.start(2, read_only=True)
        cluster.order(2, "START SLAVE")
        until_split(client, [3])
        for _ in range(50):
            server, value = client.query(SERVER).rows[0]
            assert (int(server), int(value)) == (3, 1)


def test_what_each_server_has_of_its_own_is_read_on_the_primary(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        before = count(onramp, "Replica_reads")
        for table in ("information_schema.SCHEMATA", "`mysql`.`user`", "mysql . user"):
            answer = client.query(f"SELECT @@global.server_id FROM {table} LIMIT 1")
            assert isinstance(answer, Err) or answer.rows == [(b"1",)], answer
        assert client.query("SELECT @@global.server_id").rows == [(b"1",)]
        assert count(onramp, "Replica_reads") == before


def test_statements_that_wait_for_a_replica_end_with_onramp_in_order(cluster, start):
    onramp = start(**BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as other:
        until_split(client)
        with holding(cluster.servers[1]), holding(cluster.servers[2]):
            assert isinstance(client.query("UPDATE kept SET value = 1"), Ok)
            waiting = in_background(client.query, SERVER)
            until_waiting(onramp)
            rows(onramp, "PAUSE")
            paused = in_background(other.query, "/* onramp: eventual */ " + SERVER)
            until_waiting(onramp, 2)
            assert onramp.stop() == 0
        for answer in (waiting(), paused()):
            assert isinstance(answer, Err) and answer.code == 1053, answer


def test_a_client_and_a_statement_say_where_reads_go(cluster, start):
    onramp = start(**BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        shown = lambda: client.query("SELECT @@onramp_reads").rows
        assert shown() == [(b"session",)]
        assert int(client.query("/* onramp: primary */ " + SERVER).rows[0][0]) == 1
        assert isinstance(client.query("SET onramp_reads = 'primary'"), Ok)
        assert shown() == [(b"primary",)] and server_of(client) == 1
        with holding(cluster.servers[1]), holding(cluster.servers[2]):
            assert isinstance(client.query("UPDATE kept SET value = 9"), Ok)
            server, value = client.query("/* onramp: eventual */ " + SERVER).rows[0]
            assert int(server) in (2, 3) and value == b"0"
        answer = client.query("SET onramp_reads = 'somewhere'")
        assert isinstance(answer, Err) and answer.code == 1231 and "onramp_reads" in answer.message, answer
        assert isinstance(client.query("SET SESSION onramp_reads = DEFAULT"), Ok)
        assert shown() == [(b"session",)]
        answer = client.query("SET GLOBAL onramp_reads = 'primary'")
        assert isinstance(answer, Err) and answer.code == 1227 and "read_consistency" in answer.message, answer


def test_executions_of_prepared_statements_go_to_replicas(cluster, start):
    onramp = start(**BEHIND_IS_READ)
    until_in_use(onramp, [1, 0, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        until_split(client)
        write = client.prepare("UPDATE kept SET value = ? WHERE id = 1").statement
        read = client.prepare("SELECT @@global.server_id, value FROM kept WHERE id > ?").statement

        def found():
            server, value = client.execute(read, [b"0"])[0].rows[0]
            return tuple(int.from_bytes(number, "little") for number in (server, value))

        servers = set()
        for number in range(1, 200):
            assert isinstance(client.execute(write, [str(number).encode()])[0], Ok)
            server, value = found()
            assert value == number
            servers.add(server)
        assert servers <= {2, 3} and count(onramp, "Replica_reads") > 190
        assert isinstance(client.query("BEGIN"), Ok)
        assert found() == (1, 199)
        assert isinstance(client.query("COMMIT"), Ok)
        # Both replicas go: the same execution runs on the primary.
        for number in (1, 2):
            cluster.servers[number].kill()
        assert found() == (1, 199)
