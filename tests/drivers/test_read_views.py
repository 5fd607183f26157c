"""What operators see of reads on replicas (`read_split`): tables of the admin port, and metrics."""

import pytest

from harness import raw, several
from harness.admin import count, rows
from harness.counted import load
from harness.metrics import Metrics
from harness.raw import Err, Ok
from harness.reads import BEHIND_IS_READ, SERVER, address, cluster, holding, until_both_are_read, until_split  # noqa: F401 (fixtures among them)
from harness.server import ADMIN, free_port
from harness.several import until_in_use
from harness.waiting import in_background, until

# It runs until somebody ends it.
LONG = "SELECT COUNT(*) FROM kept AS a, seq_1_to_1000000000 AS b"

pytestmark = pytest.mark.once


@pytest.fixture
def start(cluster, own_onramp, monkeypatch):
    def start(**options):
        onramp = several.start(own_onramp, monkeypatch, cluster, **{"workers": 2, "read_split": "replicas", "server_check_timeout": "30s", **options})
        until_in_use(onramp, [1, 0, 0])
        return onramp
    return start


@pytest.fixture
def connect():
    """Clients that are closed in the end."""
    clients = []

    def connect(onramp):
        clients.append(raw.connect(onramp, schema="onramp_app"))
        return clients[-1]
    yield connect
    for client in clients:
        client.close()


def one(onramp, statement):
    return rows(onramp, statement)[0]


def server(onramp, cluster, number):
    return one(onramp, f"SELECT * FROM servers WHERE address = '{address(cluster, number)}'")


def until_unreadable(onramp, cluster, number, why):
    # Both columns of one answer: between two, a replica at the edge of its lag may change sides.
    def is_so():
        row = server(onramp, cluster, number)
        assert row["readable"] == (row["unreadable_for"] is None), row
        return row["unreadable_for"] == why
    until(is_so, lambda: server(onramp, cluster, number))


def route(onramp, text):
    """Where the statements with this in their text went."""
    found = rows(onramp, f"SELECT * FROM routing WHERE text LIKE '%{text}%'")
    assert len(found) == 1, (text, rows(onramp, "SELECT * FROM routing"))
    return found[0]


def test_a_statement_and_a_backend_are_counted_once_on_whatever_server(cluster, start, connect):
    onramp = start()
    client = connect(onramp)
    until_both_are_read(onramp, client)
    client.query("SELECT value AS counted FROM kept")
    statements = int(one(onramp, "SHOW STATUS LIKE 'Queries'")["Value"])
    reads = count(onramp, "Replica_reads")
    for _ in range(49):
        assert client.query("SELECT value AS counted FROM kept").rows == [(b"0",)]
    assert int(one(onramp, "SHOW STATUS LIKE 'Queries'")["Value"]) == statements + 49
    assert count(onramp, "Replica_reads") == reads + 49
    kind = one(onramp, "SELECT * FROM statements WHERE text LIKE '%AS counted%'")
    assert (kind["count"], kind["errors"], kind["rows_sent"]) == (50, 0, 50)
    went = route(onramp, "AS counted")
    assert (went["digest"], went["to_replicas"], went["to_primary"], went["reason"]) == (kind["digest"], 50, 0, None)
    assert one(onramp, "SELECT SUM(count) AS all_of_them FROM waits WHERE reason LIKE '%queue' OR reason = 'urgent'")["all_of_them"] == statements + 49
    shown = rows(onramp, "SELECT * FROM servers")
    assert [row["unreadable_for"] for row in shown] == ["primary", None, None]
    assert [row["readable"] for row in shown] == [0, 1, 1]
    assert sum(row["reads"] for row in shown) == count(onramp, "Replica_reads") and shown[0]["reads"] == 0
    for row in shown[1:]:
        assert row["data_age_us"] < 10_000_000 and 0 < row["read_mean_us"] <= row["read_p99_us"] * 2, row
        assert row["permits"] > 0 and (row["reads_waiting"], row["reads_running"]) == (0, 0), row
    counted = one(onramp, "SELECT (SELECT SUM(backends) FROM workers) AS of_workers, (SELECT SUM(backends) FROM servers) AS of_servers, "
                          "(SELECT COUNT(*) FROM backends) AS all_of_them, (SELECT COUNT(DISTINCT server) FROM backends) AS different")
    assert counted["of_workers"] == counted["of_servers"] == counted["all_of_them"] and counted["different"] == 3, counted
    for number in range(3):
        ids = {row["thread_id"] for row in rows(onramp, f"SELECT thread_id FROM backends WHERE server = '{address(cluster, number)}'")}
        there = {int(row[0]) for row in cluster.order(number, "SELECT ID FROM information_schema.PROCESSLIST").rows}
        assert ids and ids <= there, number
    assert not rows(onramp, "SELECT * FROM refusals") and count(onramp, "Cancelled") == 0


def test_a_client_whose_read_runs_or_waits_on_a_replica_is_shown_by_that(cluster, start, connect):
    # A permit for each server, which nobody lends.
    onramp = start(workers=1, permits=1, thread_pool_stall_limit=600_000)
    until_both_are_read(onramp, connect(onramp))
    answers = []
    state = "SELECT * FROM clients WHERE state = 'on_replica'"
    runs, waits = [], []
    # Reads go where they are answered sooner, so that it may take more than three until both servers have one and another waits.
    while not (len(runs) == 2 and waits):
        answers.append(in_background(connect(onramp).query, LONG))
        settled = lambda: [row for row in rows(onramp, state) if row["running_us"] is not None or row["queued_us"] is not None]
        until(lambda: len(settled()) == len(answers), "it is not there")
        shown = settled()
        runs = [row for row in shown if row["running_us"] is not None]
        waits = [row for row in shown if row["running_us"] is None]
    assert all(row["statement"] == LONG and row["digest"] and row["server"] for row in shown), shown
    assert {row["server"] for row in runs} == {address(cluster, number) for number in (1, 2)}
    assert all(row["queue"] and row["server"] in {run["server"] for run in runs} for row in waits)
    queued = rows(onramp, "SELECT * FROM queues")
    assert {(row["client"], row["waits_for"]) for row in queued} == {(row["id"], "permit") for row in waits}
    for row in runs:
        number = next(number for number in (1, 2) if address(cluster, number) == row["server"])
        there = cluster.value(number, f"SELECT INFO FROM information_schema.PROCESSLIST WHERE ID = {row['backend']}")
        assert there.decode().startswith("SELECT COUNT(*) FROM kept"), there
        assert one(onramp, f"SELECT server FROM backends WHERE client = {row['id']}")["server"] == row["server"]
        columns = "command AS command, state AS state, info AS info"
        process = one(onramp, f"SELECT {columns} FROM information_schema.PROCESSLIST WHERE id = {row['id']}")
        assert (process["command"], process["state"], process["info"]) == ("Query", f"on replica {row['server']}", LONG)
    busy = [server(onramp, cluster, number) for number in range(3)]
    assert [row["permits_in_use"] for row in busy] == [0, 1, 1] and [row["reads_running"] for row in busy] == [0, 1, 1]
    assert sum(row["reads_waiting"] for row in busy) == len(waits)
    assert count(onramp, "permits_in_use") == 2 and count(onramp, "permits") == 3
    limit = one(onramp, "SELECT * FROM limits WHERE option = 'permits'")
    assert (limit["in_use"], limit["bound"]) == (1, 1), "the server that is nearest to its bound"
    assert one(onramp, "SELECT COUNT(*) AS clients FROM clients")["clients"] == len(answers) + 1
    # What waits is answered by Onramp, and what runs by the servers.
    for row in [*waits, *runs]:
        rows(onramp, f"KILL QUERY {row['id']}")
    for answer in answers:
        assert isinstance(answer(), Err) and answer().code == 1317
    assert count(onramp, "Cancelled") == len(waits)
    assert one(onramp, "SELECT errors FROM statements WHERE text LIKE '%seq_1_to%'")["errors"] == 2


def test_a_read_that_waits_for_a_replica_is_shown_as_waiting(cluster, start, connect):
    onramp = start(**BEHIND_IS_READ)
    client = connect(onramp)
    until_both_are_read(onramp, client)
    with holding(cluster.servers[1]), holding(cluster.servers[2]):
        assert isinstance(client.query("UPDATE kept SET value = 7"), Ok)
        waiting = in_background(client.query, "SELECT value AS awaited FROM kept")
        until(lambda: count(onramp, "Replica_reads_waiting") == 1, "it does not wait")
        shown = one(onramp, "SELECT * FROM clients WHERE state = 'on_replica'")
        assert shown["queued_us"] is not None and shown["queue"] is shown["server"] is shown["backend"] is None
        assert shown["statement"] == "SELECT value AS awaited FROM kept"
        process = one(onramp, f"SELECT state AS state FROM information_schema.PROCESSLIST WHERE id = {shown['id']}")
        assert process["state"] == "waiting for a replica"
        rows(onramp, f"KILL QUERY {shown['id']}")
        assert isinstance(waiting(), Err) and count(onramp, "Replica_reads_waiting") == 0
        rows(onramp, "SET GLOBAL read_wait_limit = '10ms'")
        assert client.query("SELECT value AS awaited FROM kept").rows == [(b"7",)]
    went = route(onramp, "AS awaited")
    assert (went["waited"], went["came_back"], went["to_primary"], went["to_replicas"]) == (2, 1, 1, 0)
    assert (went["reason"], went["for_reason"]) == ("not_in_time", 1) and "read_wait_limit" in went["explanation"]


def test_each_kind_has_the_reason_for_which_it_is_read_on_the_primary(cluster, start, connect):
    onramp = start()
    client = connect(onramp)
    until_both_are_read(onramp, client)

    def reason(text, name):
        assert not isinstance(answer := client.query(text), Err), answer
        return route(onramp, name)["reason"]

    assert reason("/* onramp: primary */ SELECT value AS wanted FROM kept", "AS wanted") == "as_wanted"
    assert reason("SELECT value AS locked FROM kept FOR UPDATE", "AS locked") == "no_plain_read"
    assert reason("SELECT 1 AS alone", "AS alone") == "of_session"
    assert reason("SELECT COUNT(*) AS tables_there FROM information_schema.TABLES", "AS tables_there") == "of_server"
    client.execute(client.prepare("SELECT value AS prepared FROM kept").statement)
    # The preparation is no execution.
    prepared = route(onramp, "AS prepared")
    assert (prepared["to_replicas"], prepared["to_primary"]) == (1, 0), prepared
    assert client.query("BEGIN") and reason("SELECT value AS inside FROM kept", "AS inside") == "transaction"
    assert isinstance(client.query("COMMIT"), Ok)
    assert isinstance(client.query("CREATE TEMPORARY TABLE own (id INT)"), Ok)
    assert reason("SELECT value AS holding FROM kept", "AS holding") == "holds_state"
    assert isinstance(client.query("DROP TEMPORARY TABLE own"), Ok)
    for number in (1, 2):
        rows(onramp, f"DRAIN '{address(cluster, number)}'")
        until_unreadable(onramp, cluster, number, "drained")
    assert reason("SELECT value AS drained FROM kept", "AS drained") == "no_replica"
    metrics = {row["reason"]: row["times"] for row in rows(onramp, "SELECT reason, SUM(for_reason) AS times FROM routing GROUP BY reason")}
    assert metrics["of_session"] > 0 and metrics["no_replica"] >= 1


def test_a_server_says_why_it_is_not_read_from(cluster, start, connect):
    onramp = start(server_check_interval="100ms", replica_max_lag="1s")
    until_both_are_read(onramp, connect(onramp))
    cluster.order(1, "STOP SLAVE SQL_THREAD")
    until_unreadable(onramp, cluster, 1, "apart")
    cluster.order(1, "START SLAVE SQL_THREAD")
    until_unreadable(onramp, cluster, 1, None)
    rows(onramp, f"DRAIN '{address(cluster, 1)}'")
    until_unreadable(onramp, cluster, 1, "drained")
    rows(onramp, f"UNDRAIN '{address(cluster, 1)}'")
    until_unreadable(onramp, cluster, 1, None)
    # It takes part, and does not get on: a lock keeps what it has got from being carried out.
    with raw.connect(cluster.servers[1], *ADMIN) as holder:
        holder.query("LOCK TABLES onramp_app.kept WRITE")
        cluster.order(0, "UPDATE onramp_app.kept SET value = 1")
        until_unreadable(onramp, cluster, 1, "too_old")
        assert server(onramp, cluster, 1)["data_age_us"] > 1_000_000
    until_unreadable(onramp, cluster, 1, None)
    cluster.servers[1].kill()
    until_unreadable(onramp, cluster, 1, "unfit")
    assert server(onramp, cluster, 1)["data_age_us"] is None or server(onramp, cluster, 1)["reads"] > 0


def test_metrics_of_reads_on_replicas(cluster, start, connect):
    port = free_port()
    onramp = start(http_listen=f"127.0.0.1:{port}")
    client = connect(onramp)
    until_both_are_read(onramp, client)
    metrics = Metrics(port)
    reads = count(onramp, "Replica_reads")
    metrics.wait(reads, "onramp_replica_reads_sent_total")
    assert metrics.get("onramp_replica_read_seconds_count") == reads
    assert metrics.get("onramp_replica_reads_total") == reads
    primary, replica = address(cluster, 0), address(cluster, 1)
    assert (metrics.get("onramp_replica_readable", server=primary), metrics.get("onramp_replica_readable", server=replica)) == (0, 1)
    assert metrics.get("onramp_replica_data_age_seconds", server=primary) is None
    assert 0 <= metrics.get("onramp_replica_data_age_seconds", server=replica) < 10
    assert metrics.get("onramp_server_permits", server=primary) > 0 and metrics.get("onramp_server_permits", server=replica) > 0
    assert metrics.get("onramp_server_permits_in_use", server=replica) == 0
    assert metrics.get("onramp_replica_backends", server=replica, state="idle") >= 1
    assert metrics.get("onramp_replica_reads_present", server=replica, state="running") == 0
    statements = metrics.get("onramp_statements_total", result="ok")
    assert metrics.get("onramp_statement_seconds_count") == statements > reads
    before = metrics.get("onramp_unsplit_statements_total", reason="transaction")
    client.query("BEGIN")
    client.query(SERVER)
    client.query("COMMIT")
    metrics.wait(before + 1, "onramp_unsplit_statements_total", reason="transaction")
    running = in_background(client.query, LONG)
    metrics.wait(1, "onramp_replica_reads_present", state="running")
    assert metrics.get("onramp_clients", state="running") == 1 and metrics.get("onramp_server_permits_in_use") == 1
    rows(onramp, f"KILL QUERY {one(onramp, 'SELECT id FROM clients WHERE digest IS NOT NULL')['id']}")
    assert isinstance(running(), Err)
    assert metrics.get("onramp_replica_reads_waiting") == 0
    rows(onramp, "SET GLOBAL read_wait_limit = '10ms'")
    rows(onramp, "SET GLOBAL replica_max_lag = '1h'")
    with holding(cluster.servers[1]), holding(cluster.servers[2]):
        client.query("UPDATE kept SET value = 3")
        client.query(SERVER)
        metrics.wait(1, "onramp_replica_reads_returned_total")
    assert metrics.get("onramp_replica_reads_waited_total") >= 1


def test_without_a_split_there_is_nothing_to_see_of_it(cluster, start, connect):
    port = free_port()
    onramp = start(read_split="off", http_listen=f"127.0.0.1:{port}")
    client = connect(onramp)
    assert client.query(SERVER).rows == [(b"1", b"0")]
    assert not rows(onramp, "SELECT * FROM routing")
    for row in rows(onramp, "SELECT * FROM servers"):
        assert row["readable"] is row["unreadable_for"] is row["permits"] is row["reads"] is None, row
    assert {row["server"] for row in rows(onramp, "SELECT server FROM backends")} == {address(cluster, 0)}
    metrics = Metrics(port)
    assert metrics.get("onramp_replica_readable") is None and metrics.get("onramp_unsplit_statements_total") is None


def test_permits_of_replicas_are_divided_among_onramps_at_work(start):
    one, two = (start(read_split="all", workers=1, permits_min=8, permits_max=8) for _ in range(2))

    def divided(onramp):
        replicas = rows(onramp, "SELECT permits FROM servers WHERE readable AND NOT in_use")
        return len(replicas) == 2 and all(4 <= row["permits"] <= 7 for row in replicas)

    with load(one), load(two):
        for onramp in (one, two):
            until(lambda: divided(onramp), lambda: rows(onramp, "SELECT address, readable, in_use, permits FROM servers"))
