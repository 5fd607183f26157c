"""Metrics move by what has happened, and HTTP is no way to hold up anybody."""

import socket
import struct
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import raw
from harness.metrics import Growth, Metrics, ask, total
from harness.onramp import Onramp
from harness.server import free_port
from harness.waiting import PATIENCE, in_background, until

# More than ten times as many would be too many for a Prometheus with many Onramps.
MOST_SERIES = 1000


@pytest.fixture(scope="module")
def onramp(folder, server):
    port = free_port()
    onramp = Onramp(server, folder, max_backends=12, http_listen=f"127.0.0.1:{port}", http_password="secret", permits=1)
    onramp.http_port = port
    onramp.start()
    yield onramp
    onramp.stop()


@pytest.fixture
def metrics(onramp):
    return Metrics(onramp.http_port)


@pytest.fixture
def growth(metrics):
    return Growth(metrics)


@pytest.fixture
def connect(onramp, metrics):
    """Opens clients of that Onramp, and closes them; figures of the next test have none of them."""
    opened, growth = [], Growth(metrics)

    def open_one(**options):
        opened.append(raw.connect(onramp, **options))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()
    # Figures of before they came have none of them either.
    growth.wait_for_more(len(opened), "onramp_connections_total")
    metrics.wait(0, "onramp_clients")


def test_statements_are_counted_by_command_and_result(connect, growth):
    client = connect()
    for number in range(5):
        assert client.value(f"SELECT {number}") == str(number).encode()
    assert client.query("SELECT * FROM mysql.nothing").code == 1142
    assert client.query("SELEC").code == 1064
    assert client.query("SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31001").code == 31001
    statement = client.prepare("SELECT ?").statement
    for value in (b"1", b"2", b"3"):
        client.execute(statement, [value])
    growth.wait(5, "onramp_statements_total", command="query", result="ok")
    growth.wait(3, "onramp_statements_total", command="query", result="error")
    growth.wait(1, "onramp_statements_total", command="prepare", result="ok")
    growth.wait(3, "onramp_statements_total", command="execute", result="ok")
    for code, count in (("1142", 1), ("1064", 1), ("other", 1), ("1062", 0)):
        growth.wait(count, "onramp_statement_errors_total", code=code)
    growth.wait(8, "onramp_statement_seconds_count", command="query")
    growth.wait(8, "onramp_statement_seconds_bucket", command="query", le="+Inf")
    growth.wait(3, "onramp_statement_seconds_count", command="execute")


def test_times_fall_into_their_buckets(connect, growth):
    connect().value("SELECT SLEEP(0.6)")
    growth.wait(1, "onramp_statement_seconds_count", command="query")
    assert growth.of("onramp_statement_seconds_bucket", command="query", le="0.524288") == 0
    assert growth.of("onramp_statement_seconds_sum", command="query") >= 0.6


def test_logins_and_those_that_fail(onramp, connect, metrics, growth):
    # Those of other tests have gone.
    metrics.wait(0, "onramp_clients")
    client = connect()
    growth.wait(1, "onramp_connections_total")
    growth.wait(1, "onramp_login_seconds_count")
    metrics.wait(1, "onramp_clients", state="idle")
    with raw.Connection(onramp) as stranger:
        metrics.wait(1, "onramp_clients", state="logging_in")
        assert stranger.login("app", "wrong").code == 1045
    growth.wait(1, "onramp_logins_refused_total")
    growth.wait(1, "onramp_logins_refused_total", reason="denied")
    metrics.wait(0, "onramp_clients", state="logging_in")
    assert client.change_user("app", "app-secret")
    growth.wait(2, "onramp_login_seconds_count")


def test_logins_are_refused_for_something(onramp, admin, growth):
    accounts = {"locked": "IDENTIFIED BY 'x' ACCOUNT LOCK", "encrypted": "IDENTIFIED BY 'x' REQUIRE SSL"}
    for name, rest in accounts.items():
        assert isinstance(admin.query(f"CREATE OR REPLACE USER {name} {rest}"), raw.Ok)
    try:
        # The first login of each reads the accounts anew.
        for user in (*accounts, "nobody", "nobody"):
            with raw.Connection(onramp) as stranger:
                assert isinstance(stranger.login(user, "x"), raw.Err), user
        for reason, times in (("locked", 1), ("tls", 1), ("denied", 2), ("method", 0), ("server", 0)):
            growth.wait(times, "onramp_logins_refused_total", reason=reason)
        growth.wait(4, "onramp_logins_refused_total")
    finally:
        admin.query(f"DROP USER {', '.join(accounts)}")


def test_clients_are_closed_for_something(server, own_onramp):
    port = free_port()
    onramp = own_onramp(server, http_listen=f"127.0.0.1:{port}", idle_transaction_timeout="1s", shutdown_timeout="0s")
    growth = Growth(Metrics(port))

    def closed(reason):
        growth.wait(1, "onramp_client_closed_total", reason=reason)

    with raw.connect(onramp) as killer, raw.connect(onramp) as victim:
        killer.query(f"KILL {victim.id}")
        closed("killed")
        victim = raw.connect(onramp)
        victim.query("SET wait_timeout = 1")
        closed("wait_timeout")
        victim.close()
        victim = raw.connect(onramp)
        victim.query("BEGIN")
        victim.query("SELECT * FROM mysql.global_priv")
        victim.query("SELECT COUNT(*) FROM information_schema.SCHEMATA")
        # The backend is taken away, and the next command is told.
        onramp.says("idle_transaction_timeout")
        assert isinstance(victim.query("SELECT 1"), raw.Err)
        closed("idle_transaction_timeout")
        victim.close()
    with raw.Connection(onramp) as stranger:
        stranger.send(b"no login")
        closed("protocol")
    growth.wait(4, "onramp_client_closed_total")


def test_who_holds_what(connect, metrics, growth, schema):
    writer = connect(schema=schema)
    writer.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    writer.query("INSERT INTO t VALUES (1, 0)")
    writer.query("BEGIN")
    writer.query("UPDATE t SET v = 1 WHERE id = 1")
    metrics.wait(1, "onramp_lock_holders")
    metrics.wait(1, "onramp_clients", state="holding")
    metrics.wait(1, "onramp_backends", state="held")
    until(lambda: metrics.get("onramp_oldest_transaction_seconds") > 0, "no transaction is open")
    # Where many wait and permits are short, the server is asked for whom. They are more than there are backends.
    waiting = [in_background(connect(schema=schema).query, "UPDATE t SET v = v + 1 WHERE id = 1") for _ in range(16)]
    # Those at the front of the server's own line are in the way of those behind, too.
    until(lambda: metrics.get("onramp_blocking_clients") >= 1, metrics.text)

    def all_are_seen():
        """In the figures of one moment: those who run, with their backends, and those who wait."""
        series = metrics.all()
        running, queued = (total(series, "onramp_clients", state=state) for state in ("running", "queued"))
        return (running + queued == 16 and total(series, "onramp_queue_statements") == queued > 0
                and total(series, "onramp_backends", state="running") == running)

    until(all_are_seen, metrics.text)
    writer.query("COMMIT")
    assert all(isinstance(answer(), raw.Ok) for answer in waiting)
    metrics.wait(0, "onramp_lock_holders")
    metrics.wait(0, "onramp_blocking_clients")
    metrics.wait(0, "onramp_oldest_transaction_seconds")
    growth.wait(1, "onramp_statements_by_backend_total", how="transaction")


def test_pins_by_reason(connect, metrics, growth):
    client = connect()
    assert client.value("SELECT GET_LOCK('metrics', 10)") == b"1"
    metrics.wait(1, "onramp_pinned_clients", reason="named_lock")
    metrics.wait(1, "onramp_pinned_clients_all")
    growth.wait(1, "onramp_pins_total", reason="named_lock")
    client.query("DO 1")
    growth.wait(1, "onramp_statements_by_backend_total", how="pinned")
    assert client.value("SELECT RELEASE_LOCK('metrics')") == b"1"
    metrics.wait(0, "onramp_pinned_clients_all")


def test_permits_and_what_waits_for_them(connect, metrics, growth):
    assert metrics.get("onramp_permits") == 1
    sleeper, waiting = connect(), connect()
    asleep = in_background(sleeper.query, "SELECT SLEEP(600)")
    metrics.wait(1, "onramp_clients", state="running")
    # What runs long lends its permit, so that this one starts all the same.
    waiting.query("DO 1")
    growth.wait(2, "onramp_statements_started_total")
    queues = ("high_queue", "low_queue", "long_queue", "urgent")
    until(lambda: sum(growth.of("onramp_wait_seconds_count", reason=reason) for reason in queues) == 2, growth.metrics.text)
    growth.wait(1, "onramp_stalls_total")
    waiting.query(f"KILL QUERY {sleeper.id}")
    asleep()
    metrics.wait(0, "onramp_permits_in_use")
    # A worker that turns is at work for some of the time.
    until(lambda: growth.of("onramp_worker_busy_seconds_total") > 0 and growth.of("onramp_worker_turn_seconds_count") > 0, metrics.text)
    assert growth.of("onramp_network_bytes_total", direction="received") > 0


def test_memory_by_what_it_is_for(connect, metrics):
    size = 1 << 20
    client = connect()

    def held(part):
        return metrics.get("onramp_memory_bytes", part=part)

    client.query("SELECT 1")
    until(lambda: held("client_tables") > 0 and held("backends") > 0, metrics.text)
    metrics.wait(1, "onramp_clients", state="idle")
    before = {part: held(part) for part in ("prepared_statements", "sessions")}
    client.prepare(f"SELECT '{'x' * size}'")
    until(lambda: before["prepared_statements"] + size < held("prepared_statements") < before["prepared_statements"] + 2 * size, metrics.text)
    client.query(f"SET @mine = '{'x' * 200}'")
    until(lambda: before["sessions"] + 200 <= held("sessions") < before["sessions"] + 1_000, metrics.text)
    client.reset()
    until(lambda: held("sessions") < before["sessions"] + 200, metrics.text)


def test_limits_are_those_of_the_options(connect, metrics):
    connect().query("DO 1")
    until(lambda: metrics.get("onramp_backends") > 0, metrics.text)
    series = metrics.all()
    assert total(series, "onramp_limit", option="max_backends") == 12
    assert total(series, "onramp_limit", option="http_max_connections") == 64
    assert 0 < total(series, "onramp_limit_in_use", option="max_backends") <= 12
    assert total(series, "onramp_backends") == total(series, "onramp_limit_in_use", option="max_backends")


def test_what_operators_do_is_told(server, own_onramp, folder, monkeypatch):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", "operator")
    place, port = SimpleNamespace(host="127.0.0.1", port=free_port()), free_port()
    file = Path(folder) / f"onramp-{port}.toml"
    file.write_text("permits = 4\n")
    onramp = own_onramp(server, config=file, admin_listen=f"{place.host}:{place.port}", http_listen=f"127.0.0.1:{port}")
    metrics = Metrics(port)
    with raw.connect(place, "admin", "operator") as operator:
        metrics.wait(4, "onramp_permits")
        file.write_text("permits = many\n")
        assert isinstance(operator.query("RELOAD"), raw.Err)
        metrics.wait(0, "onramp_config_reload_success")
        assert metrics.get("onramp_permits") == 4
        file.write_text("permits = 5\n")
        assert not isinstance(operator.query("RELOAD"), raw.Err)
        metrics.wait(1, "onramp_config_reload_success")
        metrics.wait(5, "onramp_permits")
        assert metrics.get("onramp_queue_oldest_seconds") == 0
        operator.query("PAUSE")
        metrics.wait(1, "onramp_paused")
        with raw.connect(onramp) as client:
            answer = in_background(client.query, "SELECT 1")
            until(lambda: metrics.get("onramp_queue_oldest_seconds", queue="high") > 0, metrics.text)
            before = metrics.get("onramp_queue_oldest_seconds", queue="high")
            until(lambda: metrics.get("onramp_queue_oldest_seconds", queue="high") > before + 1, metrics.text)
            series = metrics.all()
            assert total(series, "onramp_queue_oldest_seconds") == total(series, "onramp_queue_oldest_seconds", queue="high") > before
            operator.query("RESUME")
            metrics.wait(0, "onramp_paused")
            answer()
            metrics.wait(0, "onramp_queue_oldest_seconds")


def test_the_process_tells_of_itself(metrics):
    series = metrics.all()
    start = total(series, "process_start_time_seconds")
    assert 0 < time.time() - start < 3600
    assert total(series, "process_resident_memory_bytes") > 1 << 20 and total(series, "process_cpu_seconds_total") > 0
    # That of the certificate that Onramp has made for itself.
    assert total(series, "onramp_tls_certificate_expiry_seconds") > time.time()
    assert total(series, "onramp_build_info") == total(series, "onramp_config_reload_success") == 1


def test_users_and_schemas_have_names_where_that_is_wanted(server, own_onramp, admin, schema, metrics):
    assert metrics.get("onramp_user_statements_total") is None, "nobody has asked for names"
    port = free_port()
    onramp = own_onramp(server, http_listen=f"127.0.0.1:{port}", metrics_top=1)
    growth = Growth(Metrics(port))

    with raw.connect(onramp, schema=schema) as client, raw.connect(onramp, "admin", "admin-secret") as other:
        for _ in range(3):
            client.query("SELECT SLEEP(1)")
        growth.wait_for_more(3, "onramp_user_seconds_total", user="app")
        before = growth.of("onramp_user_statements_total", user="app")
        # Those of the login, where it had to ask for the schema, are among them.
        assert before >= 3
        other.query("SELECT 1")
        growth.wait(1, "onramp_user_statements_total", user="other")
        growth.wait_for_more(3, "onramp_schema_seconds_total", schema=schema)
        growth.wait(1, "onramp_schema_statements_total", schema="other")
        # The other one overtakes; what is counted among the others stays there.
        other.query("SELECT SLEEP(12)")
        growth.wait(2, "onramp_user_statements_total", user="admin")
        growth.wait(2, "onramp_schema_statements_total", schema="")
        client.query("DO 1")
        growth.wait(2, "onramp_user_statements_total", user="other")
        assert growth.metrics.get("onramp_user_statements_total", user="app") is None


def test_digests_have_a_path_of_their_own(server, own_onramp, folder, monkeypatch):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", "operator")
    place, port = SimpleNamespace(host="127.0.0.1", port=free_port()), free_port()
    onramp = own_onramp(server, admin_listen=f"{place.host}:{place.port}", http_listen=f"127.0.0.1:{port}", http_password="secret")
    with raw.connect(onramp) as client, raw.connect(place, "admin", "operator") as operator:
        client.query("SELECT SLEEP(0.2)")
        for number in range(3):
            client.query(f"SELECT SLEEP(0.{number}1), 'a text'")
        assert isinstance(client.query("SELECT nothing"), raw.Err)

        def digest_of(text):
            rows = operator.query(f"SELECT digest, text FROM statements WHERE text LIKE '{text}'").rows
            assert len(rows) == 1, operator.query("SELECT digest, text FROM statements").rows
            return rows[0][0].decode()

        metrics = Metrics(port, "/metrics/digests")
        slept, wrong = digest_of("select sleep (?), ?"), digest_of("%nothing%")
        until(lambda: metrics.get("onramp_digest_statements_total", digest=slept) == 3, metrics.text)
        assert metrics.get("onramp_digest_errors_total", digest=slept) == 0
        assert metrics.get("onramp_digest_errors_total", digest=wrong) == 1
        assert metrics.get("onramp_digest_rows_sent_total", digest=slept) == 3
        assert 0.33 <= metrics.get("onramp_digest_seconds_total", digest=slept)
        assert metrics.get("onramp_digest_wait_seconds_total", digest=slept) >= 0
        # More than fifty: those that took least are left out.
        for number in range(60):
            client.query(f"SELECT 1 AS c{number}")
        until(lambda: len({dict(labels)["digest"] for _, labels in metrics.all()}) == 50, metrics.text)
        assert metrics.get("onramp_digest_statements_total", digest=slept) == 3
        assert len(metrics.all()) == 250 and "a text" not in metrics.text()


def test_series_are_few_and_name_nobody(connect, metrics, growth):
    client = connect()
    client.query("SELECT 'a text that is nobody''s business'")
    growth.wait(1, "onramp_statements_total", command="query", result="ok")
    series = metrics.all()
    assert len(series) < MOST_SERIES
    text = metrics.text()
    for own in addresses(series):
        text = text.replace(own, "")
    assert "business" not in text and "127.0.0.1:" not in text


def addresses(series):
    """The server's, and that which clients connect to: they belong there."""
    labels = [dict(labels) for (_, labels) in series]
    [server] = {own["server"] for own in labels if "server" in own}
    [listening] = {own["address"] for own in labels if "address" in own}
    return server, listening


def test_a_server_that_is_away_is_told(own_server, own_onramp):
    port = free_port()
    own_onramp(own_server, http_listen=f"127.0.0.1:{port}", backend_connect_timeout="1s")
    metrics = Metrics(port)
    metrics.wait(1, "onramp_server_up")
    # Its accounts are read behind that.
    until(lambda: ask(port, "/readyz").status == 200, "it is never ready")
    own_server.kill()
    metrics.wait(0, "onramp_server_up")
    until(lambda: metrics.get("onramp_backend_connect_failures_total") > 2, "nothing fails")
    # Neither is a reason to start anew, or to go elsewhere.
    assert (ask(port, "/livez").status, ask(port, "/readyz").status) == (200, 200)


def test_it_is_ready_as_soon_as_clients_can_log_in(own_server, own_onramp):
    """However often it was asked before, and said no."""
    port = free_port()
    own_server.stop()
    onramp = own_onramp(own_server, wait=False, workers=1, http_listen=f"127.0.0.1:{port}")
    onramp.says(f"127.0.0.1:{port}")
    assert ask(port, "/readyz").status == 503

    def probe():
        while ask(port, "/readyz").status == 503:
            pass
        return True

    probes = in_background(probe)
    own_server.start()
    raw.connect(onramp).close()
    assert ask(port, "/readyz").status == 200
    assert probes()


def test_many_slow_strangers_hold_up_nobody(onramp, connect, metrics, growth):
    strangers = [socket.create_connection(("127.0.0.1", onramp.http_port)) for _ in range(300)]
    for number, stranger in enumerate(strangers):
        try:
            stranger.sendall([b"GET /metrics HTTP/1.1\r\nHos", b"\0\xff\x16\x03" * 2000, b"A" * 100_000][number % 3])
        except OSError:
            pass  # it was closed for a later one, or for what it has sent
    assert metrics.get("onramp_workers") == 1 or metrics.get("onramp_workers") == 3
    client = connect()
    assert client.value("SELECT 7") == b"7"
    growth.wait(1, "onramp_statements_total", command="query", result="ok")
    assert ask(onramp.http_port, "/livez").status == 200
    for stranger in strangers:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stranger.close()
    assert onramp.process.poll() is None and "panicked" not in onramp.log_text()


def test_metrics_go_on_while_it_drains(server, own_onramp):
    port = free_port()
    onramp = own_onramp(server, http_listen=f"127.0.0.1:{port}", http_password="secret", shutdown_timeout="10m")
    client = raw.connect(onramp)
    client.query("BEGIN")
    client.query("SELECT COUNT(*) FROM information_schema.SCHEMATA")
    metrics = Metrics(port)
    growth = Growth(metrics)
    assert ask(port, "/drain", method="POST").status == 401
    assert ask(port, "/drain", method="POST", password="secret").status == 202
    metrics.wait(1, "onramp_ending")
    assert ask(port, "/readyz").status == 503
    client.query("SELECT COUNT(*) FROM information_schema.SCHEMATA")
    growth.wait(1, "onramp_statements_total", command="query", result="ok")
    client.query("COMMIT")
    assert onramp.process.wait(PATIENCE) == 0
    client.close()
