"""What test_metrics.py does not move: one thing is done so often, and its metric has grown by as much.

At the end stands the list of all metrics against what the tests read.
"""

import ast
import functools
import re
import ssl
from pathlib import Path

import pytest

from harness import raw
from harness.counted import Counted
from harness.metrics import Growth, Metrics
from harness.raw import Err, Ok
from harness.server import ADMIN, OTHER, Server, free_port
from harness.waiting import in_background, until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "METRICS.md"

# One thing at a time, and nobody lends the permit.
ONE = {"workers": 1, "permits": 1, "max_backends": 4, "thread_pool_stall_limit": 600_000, "lock_wait_interval": "0s"}


class Measured(Counted):
    """An Onramp with metrics."""

    def __init__(self, server, folder, **options):
        port = free_port()
        super().__init__(server, folder, http_listen=f"127.0.0.1:{port}", **options)
        self.metrics = Metrics(port)

    def growth(self):
        """From now on: all that has happened is in it."""
        self.metrics.settle()
        return Growth(self.metrics)

    @functools.cached_property
    def operator(self):
        """The connection to the admin port that all questions here go over."""
        return self.admin()

    def order(self, text):
        assert not isinstance(answer := self.operator.query(text), Err), answer

    def connect(self, *account, **options):
        return raw.connect(self, *account, **options)

    def asked(self, text):
        return int(self.operator.value(text))

    def status(self, name):
        return self.asked(f"SELECT variable_value FROM status WHERE variable_name = '{name}'")

    def until_queued(self, count):
        until(lambda: self.asked("SELECT COUNT(*) FROM clients WHERE state IN ('queued', 'following')") == count, f"not {count} wait")


SCHEMAS = [f"onramp_brought{number}" for number in range(5)]

# What begins with no statement's word, and a block without an end.
DOUBTFUL = ["NONSENSE", "CREATE PROCEDURE p() BEGIN SELECT 1"]


@pytest.fixture(scope="module")
def server(folder, template):
    """A server of this file's own, without stored functions and with an account that it refuses to Onramp."""
    server = Server(folder, template=template).start()
    with raw.connect(server, *ADMIN) as admin:
        for text in ("CREATE USER far@'192.0.2.1' IDENTIFIED BY 'far'", "CREATE USER scarce@'%' IDENTIFIED BY 'scarce'",
                     "GRANT SELECT ON mysql.* TO scarce@'%'",
                     *(f"CREATE TABLE onramp_app.{name} AS SELECT '{name}' AS name" for name in ("first", "second")),
                     *(f"CREATE DATABASE {name}" for name in SCHEMAS),
                     *(f"CREATE TABLE {name}.second AS SELECT '{name}' AS name" for name in SCHEMAS)):
            assert isinstance(admin.query(text), Ok), text
    yield server
    server.discard()


@pytest.fixture
def start(server, folder):
    """Starts an Onramp with options of the test's own."""
    started = []

    def start(**options):
        started.append(Measured(server, folder, **options).start())
        return started[-1]

    yield start
    for onramp in started:
        onramp.stop()


@pytest.fixture(scope="module")
def one(server, folder):
    onramp = Measured(server, folder, **ONE, thread_pool_prio_kickup_timer=600_000, rescue_reads="off").start()
    yield onramp
    onramp.stop()


def test_backends_that_come_and_go(start, admin):
    onramp = start(workers=1)
    growth = onramp.growth()
    with onramp.connect() as first, onramp.connect() as second:
        for client in (first, second):
            client.query("BEGIN")
            client.query("SELECT COUNT(*) FROM information_schema.SCHEMATA")
        growth.wait(2, "onramp_backends_opened_total")
        growth.wait(2, "onramp_backend_connect_seconds_count")
        [(one,), _] = admin.query("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app'").rows
        admin.query(f"KILL {one.decode()}")
        growth.wait(1, "onramp_backends_closed_total")


def test_backends_that_change_their_account(start):
    onramp = start(workers=1, max_backends=1, proxy_protocol_networks="127.0.0.1", accounts_refresh="1s")
    with onramp.connect() as first, onramp.connect(*OTHER) as second:
        # Until the server's variables have been read, none does.
        until(lambda: first.value("SELECT 1") == second.value("SELECT 1") and onramp.status("Onramp_account_changes") > 0, "none changes")
        growth = onramp.growth()
        for client in (first, second, second, first):
            assert client.value("SELECT 1") == b"1"
        growth.wait(3, "onramp_account_changes_total")
        with raw.Connection(onramp) as far:
            far.send_bytes(b"PROXY TCP4 192.0.2.1 127.0.0.1 4711 3306\r\n")
            assert isinstance(far.login("far", "far"), Ok)
            assert isinstance(far.query("SELECT 1"), Err)
        growth.wait(4, "onramp_account_changes_total")
        growth.wait(1, "onramp_account_changes_failed_total")
        # The login that the server refuses then, too.
        growth.wait(1, "onramp_backend_connect_failures_total")


def test_statements_that_move_up(start):
    onramp = start(**{**ONE, "thread_pool_prio_kickup_timer": 100})
    growth = onramp.growth()
    with onramp.connect() as first, onramp.connect() as second:
        with onramp.busy():
            answers = [in_background(client.query, "DO 1") for client in (first, second)]
            # What keeps the backend busy may have waited for that one as long, and moved up too.
            growth.wait_for_more(2, "onramp_kick_ups_total")
        assert all(isinstance(answer(), Ok) for answer in answers)


def test_bounds_that_are_reached(one):
    growth = one.growth()
    one.order("SET GLOBAL queue_limit = 1")
    with one.connect() as waiting, one.connect() as refused:
        with one.busy():
            answer = in_background(waiting.query, "DO 1")
            one.until_queued(1)
            assert [refused.query("DO 1").code for _ in range(3)] == [1205] * 3
        assert isinstance(answer(), Ok)
    one.order("SET GLOBAL queue_limit = 0")
    growth.wait(3, "onramp_refused_total")
    growth.wait(3, "onramp_refused_total", option="queue_limit")
    growth.wait(3, "onramp_limit_reached_total", option="queue_limit")


def test_stages_of_logins(one):
    growth = one.growth()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with one.connect() as plain, raw.Connection(one) as secured:
        secured.greet()
        secured.start_tls(context)
        assert isinstance(secured.log_in_over_tls(), Ok)
        for _ in range(2):
            plain.query("DO 1")
        for stage, count in (("greeting", 2), ("tls", 1), ("request", 2), ("password", 2), ("first_backend", 1)):
            growth.wait(count, "onramp_login_stage_seconds_count", stage=stage)


def test_statements_nobody_waits_for(one):
    """Three of five clients hang up on theirs, which the others notice by nothing."""
    growth = one.growth()
    clients = [one.connect() for _ in range(5)]
    with one.busy():
        answers = [in_background(client.query, "DO 1") for client in clients[3:]]
        for client in clients[:3]:
            client.command(raw.QUERY, b"DO 1")
        one.until_queued(5)
        for client in clients[:3]:
            client.close()
        growth.wait(3, "onramp_statements_cancelled_total")
    assert all(isinstance(answer(), Ok) for answer in answers)
    for client in clients[3:]:
        client.close()


def test_newest_first(one):
    growth = one.growth()
    clients = [one.connect() for _ in range(12)]
    with one.busy():
        for number, client in enumerate(clients):
            client.command(raw.QUERY, b"DO 1")
            one.until_queued(number + 1)
        # They have waited for so long, each of them: for as long at most the newest are first.
        until(lambda: one.asked("SELECT MIN(queued_us) FROM queues") > 5_000_000, "they do not wait")
        for client in clients[:8]:
            client.close()
        one.until_queued(4)
    assert all(isinstance(client.result(), Ok) for client in clients[8:])
    # The last of the four is the oldest.
    growth.wait(3, "onramp_newest_first_total")
    for client in clients[8:]:
        client.close()


def send_together(onramp, clients, texts):
    """All statements wait until they may go, and then go in one turn, the first before the others."""
    onramp.order("PAUSE")
    for number, (client, text) in enumerate(zip(clients, texts, strict=True)):
        client.command(raw.QUERY, text)
        if number == 0:
            onramp.until_queued(1)
    onramp.until_queued(len(clients))
    onramp.order("RESUME")


FEW = {"workers": 1, "max_backends": 3, "permits": 1, "shared_backends": 1, "statements_in_flight": 16, "coalesce_reads": "off"}
# Reads that may share a backend with any others: their like have been short lately, and none was stuck for a moment.
SHARING = "SELECT COUNT(*) FROM statements WHERE text LIKE 'select name from %' AND taken_for LIKE '%short%' AND taken_for NOT LIKE '%stuck%'"


def until_shared(onramp, clients, texts, name, counter, count):
    """Lets the statements share a backend until as many of them do as can, and a metric has grown by what the admin port counts."""
    def each_by_itself():
        return [client.query(text).rows for client, text in zip(clients, texts, strict=True)]

    def all_share():
        # Behind that it is known, too, how many session states there are, which holds for two seconds.
        until(lambda: each_by_itself() and onramp.asked(SHARING) == len(set(texts)), lambda: str(onramp.operator.query("SELECT text, taken_for, p99_us FROM statements").rows))
        before = onramp.status(counter)
        send_together(onramp, clients, texts)
        assert [client.result().rows for client in clients] == answers
        return onramp.status(counter) - before == count

    answers, growth, at_first = each_by_itself(), onramp.growth(), onramp.status(counter)
    until(all_share, f"{counter} does not grow by {count}")
    growth.wait(onramp.status(counter) - at_first, name)


def test_reads_that_share(start):
    onramp = start(**FEW, rescue_reads="off")
    clients = [onramp.connect(schema="onramp_app") for _ in range(5)]
    until_shared(onramp, clients, [b"SELECT name FROM second"] * 5, "onramp_reads_shared_total", "Onramp_shared_reads", 4)
    for client in clients:
        client.close()


def test_schemas_that_reads_bring(start):
    """More of them than may have a backend each: the first read finds its schema there or chooses it, the others bring theirs."""
    onramp = start(**FEW, rescue_reads="off")
    clients = [onramp.connect(schema=name) for name in SCHEMAS]
    texts = [b"SELECT name FROM second"] * len(SCHEMAS)
    until_shared(onramp, clients, texts, "onramp_schemas_brought_total", "Onramp_schemas_brought", len(SCHEMAS) - 1)
    for client in clients:
        client.close()


def test_reads_that_are_rescued(start, admin):
    """Three stand behind one that has met a lock for the first time."""
    onramp = start(**FEW)
    texts = [b"SELECT name FROM first", *[b"SELECT name FROM second"] * 3]
    clients = [onramp.connect(schema="onramp_app") for _ in texts]
    until_shared(onramp, clients, texts, "onramp_reads_shared_total", "Onramp_shared_reads", 3)
    growth = onramp.growth()
    admin.query("LOCK TABLES onramp_app.first WRITE")
    send_together(onramp, clients, texts)
    assert [client.result().rows for client in clients[1:]] == [[(b"second",)]] * 3
    growth.wait(3, "onramp_reads_rescued_total")
    admin.query("UNLOCK TABLES")
    assert clients[0].result().rows == [(b"first",)]
    for client in clients:
        client.close()


def test_reads_that_are_answered_along(start):
    onramp = start(**{**ONE, "coalesce_reads": "on"})
    growth = onramp.growth()
    clients = [onramp.connect(schema="onramp_app") for _ in range(4)]
    send_together(onramp, clients, [b"SELECT name FROM second"] * 4)
    assert [client.result().rows for client in clients] == [[(b"second",)]] * 4
    growth.wait(3, "onramp_statements_coalesced_total")
    for client in clients:
        client.close()


def test_states_and_sets(one):
    """The server hears of the first SET; the others are answered by what it said."""
    clients = [one.connect() for _ in range(4)]
    for client in clients:
        client.query("DO 1")
    growth = one.growth()
    for client in clients:
        client.query("SET time_zone = '+01:23'")
    growth.wait(3, "onramp_sets_answered_total")
    # All are in the same.
    growth.wait(1, "onramp_session_states")
    for client in clients:
        client.close()


def test_statements_that_are_prepared_again(one, admin):
    """The backend that knew it is gone."""
    growth = one.growth()
    with one.connect() as client:
        statement = client.prepare("SELECT ?").statement
        admin.query("KILL USER app")
        until(lambda: one.metrics.get("onramp_backends") == 0, "the backends stay")
        for _ in range(2):
            assert client.execute(statement, [b"1"])[0].rows
        growth.wait(1, "onramp_statements_prepared_again_total")


def test_statements_that_are_not_understood(one):
    growth = one.growth()
    with one.connect() as client:
        for text in DOUBTFUL:
            client.query(text)
        growth.wait(len(DOUBTFUL), "onramp_statements_doubtful_total")


def test_slow_statements_and_lines_that_nobody_takes(start):
    onramp = start(slow_statement_time="50ms", slow_log="/dev/full")
    growth = onramp.growth()
    with onramp.connect() as client:
        client.query("DO 1")
        for _ in range(3):
            client.query("SELECT SLEEP(0.1)")
    growth.wait_for_more(3, "onramp_slow_statements_total")
    growth.wait_for_more(3, "onramp_slow_log_lost_total")


def test_slow_statements_that_are_left_out(start, folder):
    log = Path(folder) / "left-out.log"
    onramp = start(workers=1, slow_statement_time="1ms", slow_log=log, slow_log_per_second=1)
    growth = onramp.growth()
    with onramp.connect() as client:
        for _ in range(20):
            client.query("SELECT SLEEP(0.01)")
    growth.wait(20, "onramp_slow_statements_total")
    left_out = growth.of("onramp_slow_log_left_out_total")
    assert left_out >= 10
    until(lambda: len(log.read_text().splitlines()) == 20 - left_out, "not all others have a line")


def test_stored_code(start, admin):
    """What its account may not read is read once it may."""
    onramp = start(service=("scarce", "scarce"), accounts_refresh="1s", workers=1)
    metrics = onramp.metrics
    # Of routines, triggers, views and columns it may read the first.
    metrics.wait(3, "onramp_stored_code_unreadable")
    growth = onramp.growth()
    try:
        for text in ("GRANT SELECT, SHOW VIEW, TRIGGER, PROCESS ON *.* TO scarce@'%'",
                     *(f"CREATE VIEW onramp_app.locks_{number} AS SELECT GET_LOCK('{number}', 0) AS got" for number in range(2))):
            assert isinstance(admin.query(text), Ok), text
        metrics.wait(0, "onramp_stored_code_unreadable")
        growth.wait(2, "onramp_stored_code_names")
        assert growth.of("onramp_stored_code_read_total") >= 1
    finally:
        admin.query("DROP VIEW onramp_app.locks_0, onramp_app.locks_1")


def test_what_an_option_would_refuse(one):
    """A queue in which nobody waits for less than a second: the first that starts begins the delay, which stands for those behind it."""
    one.order("SET GLOBAL queue_delay_interval = '10ms'")
    growth = one.growth()
    clients = [one.connect() for _ in range(4)]
    with one.busy():
        for client in clients:
            # Of another kind than what keeps them waiting, which takes long.
            client.command(raw.QUERY, b"SELECT SLEEP(0.1) AS late")
        one.until_queued(4)
        until(lambda: one.asked("SELECT MIN(queued_us) FROM queues") > 1_000_000, "they do not wait")
    for client in clients:
        client.result()
    growth.wait(3, "onramp_would_refuse_total", option="queue_delay_target")
    assert growth.of("onramp_would_refuse_total") == 3
    for client in clients:
        client.close()


def read_by_tests():
    """The names of metrics that tests ask for: what `Metrics`, `Growth` and `total` are given."""
    for file in Path(__file__).parent.glob("test_*.py"):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
                if name in ("wait", "wait_for_more", "of", "get", "total", "until_shared"):
                    yield from (each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str))


def test_no_metric_is_without_a_test():
    """docs/METRICS.md is written from their declarations, and a Prometheus finds no others (test_prometheus.py)."""
    metrics = re.findall(r"^\| `((?:onramp|process)_[a-z_]+)`", PAGE.read_text(), re.MULTILINE)
    assert len(metrics) > 50
    read = {re.sub(r"_(count|sum|bucket)$", "", name) for name in read_by_tests()}
    assert [name for name in metrics if name not in read] == []
