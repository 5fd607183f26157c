"""Each alert of deploy/alerts.yml fires at a real Prometheus when its cause is there, not before, and ends with it.

The cause is made on a running Onramp. What has to last for minutes there has to last for a second here: the copy of the rules that
Prometheus has is the file's own but for its times. Expressions are the same to the letter, but for the ranges in brackets.
"""

import contextlib
import json
import re
import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from harness import raw
from harness.counted import Counted
from harness.metrics import Metrics, ask
from harness.prometheus import DEPLOY, Prometheus, needed
from harness.raw import Err, Ok
from harness.server import SERVICE, Server, free_port
from harness.waiting import in_background, until

pytestmark = [needed, pytest.mark.once]

RULES = (DEPLOY / "alerts.yml").read_text()
ALERTS = re.findall(r"- alert: (\w+)", RULES)

# In the place of minutes: how far back expressions look, ten scrapes, and for how long they have to hold.
RANGE, LASTS = "5s", "1s"

# A turn of a worker takes as long as the machine has other things to do, and one among thousands is enough.
BY_THE_MACHINE = {"OnrampWorkerIsSlow"}

# By the name of an alert: what causes it as long as its block lasts, and which others may rightly fire with it.
CASES = {}


def case(alert, *companions):
    def note(cause):
        assert alert not in CASES
        CASES[alert] = (contextlib.contextmanager(cause), set(companions))
        return cause

    return note


class StandIn(socketserver.ThreadingTCPServer):
    """Of another Onramp it has the one line that says its version."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, version):
        self.version = version
        super().__init__(("127.0.0.1", free_port()), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        body = f'# TYPE onramp_build_info gauge\nonramp_build_info{{version="{self.server.version}",driver="epoll"}} 1\n'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Patient:
    """An Onramp to which all of it happens, with a server of its own and what a cause takes."""

    def __init__(self, folder, template, authority):
        self.server = Server(folder, template=template).start()
        with raw.connect(self.server, "admin", "admin-secret") as admin:
            # Accounts of addresses that are not this machine's: the server refuses them to Onramp.
            assert isinstance(admin.query("CREATE USER far@'192.0.2.1' IDENTIFIED BY 'far'"), Ok)
        self.authority = authority
        self.port, self.file = free_port(), Path(folder) / "patient.toml"
        self.new_certificate(days=30)
        self.write("permits = 1")
        # One permit that nobody lends makes a queue of two statements; large texts are read by the worker itself.
        self.onramp = Counted(
            self.server, folder, config=self.file, http_listen=f"127.0.0.1:{self.port}", workers=2, max_backends=6,
            thread_pool_stall_limit=600_000, large_statement_size="1GiB", max_allowed_packet="64MiB", tls_certificate=self.certificate,
            tls_key=self.key, proxy_protocol_networks="127.0.0.1").start()
        self.usual = self.onramp.options
        metrics = Metrics(self.port)
        metrics.wait(1, "onramp_server_up")
        until(lambda: ask(self.port, "/readyz").status == 200, "it is never ready")
        [labels] = [dict(labels) for name, labels in metrics.all() if name == "onramp_build_info"]
        self.another = StandIn(labels["version"])

    def start_anew(self, **options):
        """With these options beside the usual ones."""
        self.onramp.stop()
        self.onramp.options = {**self.usual, **options}
        self.onramp.start()

    def stop(self):
        self.onramp.stop()
        self.server.discard()
        self.another.shutdown()
        self.another.server_close()

    def new_certificate(self, days):
        self.certificate, self.key = self.authority.sign("patient", days=days)

    def write(self, line):
        self.file.write_text(f"{line}\n")

    def order(self, text):
        with self.onramp.admin() as admin:
            return admin.query(text)

    def connect(self, *account, **options):
        return raw.connect(self.onramp, *account, **options)


@pytest.fixture(scope="module")
def patient(folder, template, authority):
    patient = Patient(folder, template, authority)
    yield patient
    patient.stop()


@pytest.fixture(scope="module")
def prometheus(folder, patient):
    rules = Path(folder) / "alerts.yml"
    shorter = re.sub(r"^(\s+for: )\w+$", rf"\g<1>{LASTS}", RULES, flags=re.MULTILINE)
    rules.write_text(shorter.replace("[5m]", f"[{RANGE}]"))
    assert not re.search(r"\[\d+[mh]\]|for: \d+[mh]", rules.read_text()), "a time is as long as before"
    with Prometheus(folder, [patient.port, patient.another.server_address[1]], rules) as prometheus:
        until(lambda: len(prometheus.query("up == 1")) == 2, "it does not scrape both")
        until(lambda: (rules := prometheus.rules()) and all(rule["health"] == "ok" for rule in rules.values()), lambda: prometheus.rules())
        yield prometheus


def states(prometheus, state):
    """The alerts in this state."""
    return {name for name, rule in prometheus.rules().items() if rule["state"] == state}


@case("OnrampDown")
def is_down(patient):
    patient.onramp.process.kill()
    patient.onramp.process.wait()
    try:
        yield
    finally:
        patient.onramp.start()


@case("OnrampServerDown", "OnrampBackendsCannotConnect")
def its_server_is_down(patient):
    patient.server.kill()
    try:
        yield
    finally:
        patient.server.start()


@case("OnrampNoPrimary", "OnrampDown", "OnrampServerDown")
def no_primary(patient):
    """
    Its server has two addresses, so that it looks for the primary, and takes no writes any more. It is started anew for that: until it has
    reached its server, that one is down for it, which an alert may tell of for a moment longer.
    """
    account = "{}:{}".format(*SERVICE)
    places = [f"{patient.server.host}:{patient.server.port}/", f"localhost/?socket={patient.server.socket}"]
    try:
        patient.start_anew(backend=[f"mysql://{account}@{place}" for place in places])
        # One that has never had a primary has never reached its server either.
        Metrics(patient.port).wait(1, "onramp_server_up")
        with raw.connect(patient.server, "admin", "admin-secret") as admin:
            assert isinstance(admin.query("SET GLOBAL read_only = 1"), Ok)
            try:
                yield
                # The server answers all the while, and the page says what is missing.
                assert Metrics(patient.port).get("onramp_server_up") == 1
                notes = json.loads(ask(patient.port, "/api/now").body)["notes"]
                assert [note["level"] for note in notes if note["text"].startswith("No primary, ")] == ["bad"], notes
            finally:
                assert isinstance(admin.query("SET GLOBAL read_only = 0"), Ok)
    finally:
        patient.start_anew()


@case("OnrampWaitsAreLong", "OnrampQueueStands")
def waits_are_long(patient):
    """Behind each statement of a second four others wait, now and then for more than two."""
    over = threading.Event()

    def query(text):
        with patient.connect() as client:
            while not over.is_set():
                client.query(text)
        return True

    ends = [in_background(query, text) for text in ("SELECT SLEEP(1)", *["DO 1"] * 4)]
    try:
        yield
    finally:
        over.set()
        [end() for end in ends]


@contextlib.contextmanager
def again_and_again(cause):
    """An alert looks back for seconds, and a machine that is busy for as long would see nothing of what happens once."""
    over = threading.Event()

    def go_on():
        while True:
            cause()
            if over.wait(0.1):
                return True

    end = in_background(go_on)
    try:
        yield
    finally:
        over.set()
        end()


@case("OnrampRefuses", "OnrampWaitsAreLong", "OnrampQueueStands")
def refuses(patient):
    patient.order("SET GLOBAL queue_limit = 1")
    try:
        with patient.connect() as waiting, patient.connect() as refused:

            def refuse():
                assert refused.query("DO 1").code == 1205

            with patient.onramp.busy():
                answer = in_background(waiting.query, "DO 1")
                until(lambda: Metrics(patient.port).get("onramp_queue_statements") == 1, "nothing waits")
                with again_and_again(refuse):
                    yield
            assert isinstance(answer(), Ok)
    finally:
        patient.order("SET GLOBAL queue_limit = 0")


@case("OnrampQueueStands")
def queue_stands(patient):
    with patient.connect() as waiting:
        with patient.onramp.busy():
            answer = in_background(waiting.query, "DO 1")
            yield
        assert isinstance(answer(), Ok)


@case("OnrampPinned")
def pinned(patient):
    with contextlib.ExitStack() as clients:
        for number in range(4):
            client = clients.enter_context(patient.connect())
            assert client.value(f"SELECT GET_LOCK('alert {number}', 10)") == b"1"
        yield


@case("OnrampBackendsCannotConnect")
def backends_cannot_connect(patient):
    """The password is right by the client's address, and the server sees Onramp's."""

    def fail():
        with raw.Connection(patient.onramp) as client:
            client.send_bytes(b"PROXY TCP4 192.0.2.1 127.0.0.1 4711 3306\r\n")
            assert isinstance(client.login("far", "far"), Ok)
            assert isinstance(client.query("SELECT 1"), Err)

    with again_and_again(fail):
        yield


@case("OnrampWorkerIsSlow")
def worker_is_slow(patient):
    """It has large texts to read by itself, one after the other; the server is done with each at its first word."""
    over = threading.Event()
    text = "NONSENSE" + " 1" * 8_000_000

    def send():
        with patient.connect() as client:
            while not over.is_set():
                client.query(text)
        return True

    end = in_background(send)
    try:
        yield
    finally:
        over.set()
        end()


@case("OnrampPaused")
def paused(patient):
    patient.order("PAUSE")
    try:
        yield
    finally:
        patient.order("RESUME")


@case("OnrampReloadFailed")
def reload_failed(patient):
    patient.write("permits = many")
    try:
        assert isinstance(patient.order("RELOAD"), Err)
        yield
    finally:
        patient.write("permits = 1")
        assert not isinstance(patient.order("RELOAD"), Err)


@case("OnrampCertificateExpires")
def certificate_expires(patient):
    def shows(days):
        patient.new_certificate(days)
        assert not isinstance(patient.order("RELOAD"), Err)

    try:
        shows(13)
        yield
    finally:
        shows(30)


@case("OnrampVersionsDiffer")
def versions_differ(patient):
    patient.another.version, usual = "0.0.1", patient.another.version
    try:
        yield
    finally:
        patient.another.version = usual


def test_each_alert_has_a_case():
    assert len(ALERTS) > 5 and sorted(CASES) == sorted(ALERTS)


@pytest.mark.parametrize("alert", ALERTS)
def test_it_fires_when_its_cause_is_there(alert, patient, prometheus):
    cause, companions = CASES[alert]
    companions = companions | BY_THE_MACHINE
    until(lambda: states(prometheus, "inactive") == set(ALERTS),
          lambda: f"an alert fires before anything has happened: {states(prometheus, 'firing') | states(prometheus, 'pending')}")
    with cause(patient):
        until(lambda: alert in states(prometheus, "firing"), lambda: f"{alert} does not fire:\n{Metrics(patient.port).text()}")
        assert states(prometheus, "firing") <= {alert} | companions
        rule = prometheus.rules()[alert]
        for fired in rule["alerts"]:
            told = " ".join(rule["annotations"].values())
            for label in re.findall(r"\$labels\.(\w+)", told):
                assert fired["labels"].get(label), f"{alert} speaks of its label {label}, and has {fired['labels']}"
    until(lambda: states(prometheus, "inactive") == set(ALERTS), lambda: f"{alert} does not end: {prometheus.rules()[alert]}")
