"""Several servers behind one Onramp: what each of them is, and how that is found out and shown."""

import signal

import pytest

from harness import admin, raw
from harness.admin import rows
from harness.cluster import Cluster
from harness.metrics import Metrics
from harness.server import ADMIN, SERVICE, free_port
from harness.waiting import stop_process, until


@pytest.fixture
def cluster(folder, template):
    cluster = Cluster(folder, template)
    yield cluster
    cluster.discard()


def grant(cluster):
    """The right to see from whom a server replicates."""
    for number in range(len(cluster.servers)):
        cluster.order(number, "SET sql_log_bin = 0", f"GRANT REPLICA MONITOR ON *.* TO '{SERVICE[0]}'@'%'")


@pytest.fixture
def through(cluster, own_onramp, monkeypatch):
    grant(cluster)
    return admin.start(own_onramp, monkeypatch, cluster.servers[0], backend=cluster.backends(*SERVICE))


def servers(onramp):
    return rows(onramp, "SELECT * FROM servers")


def seen(onramp, column="role"):
    return [row[column] for row in servers(onramp)]


def until_seen(onramp, column, values):
    until(lambda: seen(onramp, column) == values, lambda: f"not {values}: {servers(onramp)}\n{onramp.log_text()[-2000:]}")


def test_roles_are_found(cluster, through):
    until_seen(through, "role", ["primary", "replica"])
    until_seen(through, "state", ["up", "up"])
    first, second = servers(through)
    assert (first["writable"], second["writable"]) == (1, 0)
    assert first["address"] == f"127.0.0.1:{cluster.servers[0].port}" and first["reason"] == "read_only is off"
    assert second["reason"] == f"read_only is on, it replicates from 127.0.0.1:{cluster.servers[0].inner_port}"
    assert first["identity"] != second["identity"] and second["lag_seconds"] == 0
    cluster.order(0, "CREATE DATABASE onramp_new")
    # GTIDs of both are the same as soon as the replica has it.
    position = cluster.value(0, "SELECT @@global.gtid_current_pos").decode()
    until_seen(through, "position", [position] * 2)
    checks = rows(through, "SELECT address, COUNT(*) AS times, MAX(well) AS well FROM server_checks GROUP BY address")
    assert len(checks) == 2 and all(check["times"] > 1 and check["well"] == 1 for check in checks)


def test_a_stopped_replica_says_so_and_a_dead_one_is_down_until_it_is_back(cluster, through):
    until_seen(through, "role", ["primary", "replica"])
    cluster.order(1, "STOP SLAVE SQL_THREAD")
    until(lambda: "has stopped" in servers(through)[1]["reason"], "nobody hears of it")
    assert (servers(through)[1]["state"], servers(through)[1]["lag_seconds"]) == ("up", None)
    cluster.servers[1].kill()
    until_seen(through, "state", ["up", "down"])
    # What it was is still worth knowing.
    assert seen(through) == ["primary", "replica"] and servers(through)[1]["writable"] == 0
    assert rows(through, "SELECT reason FROM server_checks WHERE NOT well")
    cluster.start(1, read_only=True)
    until_seen(through, "state", ["up", "up"])
    with raw.connect(through) as client:
        assert client.value("SELECT 1") == b"1"


def test_a_server_that_hangs_is_given_up_by_the_deadline(cluster, through):
    until_seen(through, "state", ["up", "up"])
    process = cluster.servers[1].process
    stop_process(process.pid)
    try:
        until_seen(through, "state", ["up", "down"])
        assert servers(through)[1]["reason"] == "no answer within server_check_timeout"
        # The other one is checked as ever.
        assert servers(through)[0]["state"] == "up"
    finally:
        process.send_signal(signal.SIGCONT)
    until_seen(through, "state", ["up", "up"])


def test_a_wrong_password_on_one_server_is_that_servers_affair(cluster, through):
    until_seen(through, "state", ["up", "up"])
    cluster.order(1, "SET sql_log_bin = 0", f"SET PASSWORD FOR '{SERVICE[0]}'@'%' = PASSWORD('another')",
                  f"KILL USER {SERVICE[0]}")
    until_seen(through, "state", ["up", "down"])
    assert "refused the service account" in servers(through)[1]["reason"] and "1045" in servers(through)[1]["reason"]
    with raw.connect(through) as client:
        assert client.value("SELECT 1") == b"1"


def test_a_missing_right_is_named_and_the_role_still_found(cluster, own_onramp, monkeypatch):
    # What the service account of the page has: nothing that shows replication.
    cluster.order(0, "CREATE USER least@'%' IDENTIFIED BY 'least'", "GRANT SELECT ON mysql.* TO least@'%'")
    cluster.until_replicas_are_there(1)
    position = cluster.value(0, "SELECT @@global.gtid_current_pos")
    until(lambda: cluster.value(1, "SELECT @@global.gtid_current_pos") == position, "the replica does not follow")
    onramp = admin.start(own_onramp, monkeypatch, cluster.servers[0], backend=cluster.backends("least", "least"))
    until_seen(onramp, "role", ["primary", "replica"])
    assert "REPLICA MONITOR" in servers(onramp)[1]["reason"]


def test_one_server_alone_is_not_checked(own_server, own_onramp, monkeypatch):
    """Neither one more connection nor one more statement, also behind a time in which ten checks would have been due."""
    backend = f"mysql://{SERVICE[0]}:{SERVICE[1]}@{own_server.host}:{own_server.port}/"
    onramp = admin.start(own_onramp, monkeypatch, own_server, backend=[backend], workers=1, server_check_interval="100ms")
    with raw.connect(own_server, *ADMIN) as direct:
        def connections():
            return direct.query(f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{SERVICE[0]}'").rows

        before = connections()
        assert len(before) == 1
        for statement in ("SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = ON"):
            assert not isinstance(direct.query(statement), raw.Err)
        with raw.connect(onramp) as client:
            # Twice: what is due when the first is answered is done before the second is.
            for _ in range(2):
                assert client.value("SELECT SLEEP(0.5)") == b"0"
        assert connections() == before
        said = "SELECT COUNT(*) FROM mysql.general_log WHERE argument LIKE '%{}%' AND argument NOT LIKE '%general_log%'"
        assert direct.value(said.format("SLEEP")) == b"2", "what is said is not logged"
        # What every check asks for.
        assert direct.value(said.format("gtid_current_pos")) == b"0"
    assert servers(onramp) == rows(onramp, "SELECT * FROM server_checks") == ()


def test_two_addresses_of_one_server_are_known_as_one(own_server, own_onramp, monkeypatch):
    user, password = SERVICE
    backends = [f"mysql://{user}:{password}@127.0.0.1:{own_server.port}/",
                f"mysql://{user}:{password}@localhost/?socket={own_server.socket}"]
    onramp = admin.start(own_onramp, monkeypatch, own_server, backend=backends)
    until_seen(onramp, "state", ["up", "up"])
    assert len(set(seen(onramp, "identity"))) == 1
    assert servers(onramp)[1]["reason"].startswith(f"the same server as 127.0.0.1:{own_server.port}; "), servers(onramp)
    with raw.connect(onramp) as client:
        assert client.value("SELECT 1") == b"1"


def test_a_host_that_cannot_be_found_is_named_and_the_others_serve(cluster, own_onramp, monkeypatch):
    grant(cluster)
    user, password = SERVICE
    backends = [f"mysql://{user}:{password}@no-such-host.invalid:3306/", *cluster.backends(*SERVICE)]
    onramp = admin.start(own_onramp, monkeypatch, cluster.servers[0], backend=backends)
    onramp.says('the host "no-such-host.invalid" cannot be found')
    until(lambda: {row["role"] for row in servers(onramp)} == {"unknown", "primary", "replica"}, lambda: servers(onramp))
    # It is asked as any other, and down once two checks in a row have failed.
    found = lambda: rows(onramp, "SELECT * FROM servers WHERE address = 'no-such-host.invalid:3306' AND state = 'down'")
    [missing] = until(found, lambda: servers(onramp))
    assert (missing["state"], missing["writable"], missing["in_use"]) == ("down", 0, 0) and "cannot be found" in missing["reason"], missing
    with raw.connect(onramp) as client:
        assert client.value("SELECT 1") == b"1"


def test_metrics(cluster, own_onramp, monkeypatch):
    grant(cluster)
    port = free_port()
    onramp = admin.start(own_onramp, monkeypatch, cluster.servers[0], backend=cluster.backends(*SERVICE), http_listen=f"127.0.0.1:{port}")
    until_seen(onramp, "role", ["primary", "replica"])
    metrics = Metrics(port)
    for server, role in zip(cluster.servers, ("primary", "replica")):
        name = f"127.0.0.1:{server.port}"
        metrics.wait(1, "onramp_cluster_server_up", server=name)
        metrics.wait(1, "onramp_cluster_server_role", server=name, role=role)
        metrics.wait(1 if role == "primary" else 0, "onramp_cluster_server_writable", server=name)
        metrics.wait(1 if role == "primary" else 0, "onramp_cluster_server_in_use", server=name)
        metrics.wait(0, "onramp_cluster_server_drained", server=name)
    metrics.wait(0, "onramp_cluster_server_lag_seconds")
    assert metrics.get("onramp_missing_primaries_total") == metrics.get("onramp_failovers_total") == 0
    second = f"127.0.0.1:{cluster.servers[1].port}"
    for order, value in (("DRAIN", 1), ("UNDRAIN", 0)):
        rows(onramp, f"{order} '{second}'")
        metrics.wait(value, "onramp_cluster_server_drained", server=second)
    # Without the first as a primary there is none, and then the second is.
    cluster.order(0, "SET GLOBAL read_only = 1")
    metrics.wait(0, "onramp_cluster_server_in_use")
    metrics.wait(1, "onramp_missing_primaries_total")
    cluster.promote(1)
    metrics.wait(1, "onramp_cluster_server_in_use", server=f"127.0.0.1:{cluster.servers[1].port}")
    metrics.wait(1, "onramp_failovers_total")
    assert metrics.get("onramp_missing_primaries_total") == 1
