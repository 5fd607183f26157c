"""A real Prometheus scrapes a real Onramp: what is in deploy/ asks for metrics that there are."""

import json
import re
import subprocess

import pytest

from harness import raw
from harness.metrics import ask
from harness.onramp import Onramp
from harness.prometheus import DEPLOY, PROGRAMS, Prometheus, needed
from harness.reads import address, cluster, start, until_both_are_read  # noqa: F401 (fixtures among them)
from harness.server import SERVICE, free_port
from harness.waiting import PATIENCE, until

pytestmark = [needed, pytest.mark.once]

# What there is only where replicas are read from.
OF_REPLICAS = re.compile(r"onramp_(replica_(reads_sent|data_age|read_seconds|readable)|server_permits|unsplit)")

# What Grafana puts in the place of its variables.
VARIABLES = {"$__rate_interval": "10s", "$job": ".*", "$instance": ".*"}

NAME = re.compile(r"\b(?:onramp|process)_[a-z_]+|\bup\b")
# Behind a metric's name: its labels, a bracket of an aggregation aside.
SELECTOR = re.compile(r"\b((?:onramp|process)_[a-z_]+|up)\b(\{[^}]*\})?")


@pytest.fixture(scope="module")
def onramp(folder, server):
    port = free_port()
    # By two addresses, so that what is told of several servers is there too.
    places = [f"{server.host}:{server.port}/", f"localhost/?socket={server.socket}"]
    backend = ["mysql://{}:{}@{}".format(*SERVICE, place) for place in places]
    onramp = Onramp(server, folder, backend=backend, workers=2, max_backends=4, http_listen=f"127.0.0.1:{port}", metrics_top=10)
    onramp.http_port = port
    onramp.start()
    yield onramp
    onramp.stop()


@pytest.fixture(scope="module")
def prometheus(folder, onramp):
    """Once it has seen some of everything: statements, logins and pins, in two scrapes at least, between which they grew."""
    with Prometheus(folder, [onramp.http_port], DEPLOY / "alerts.yml") as prometheus, raw.connect(onramp) as pinned:
        pinned.query("SELECT GET_LOCK('prometheus', 10)")

        def is_seen():
            with raw.connect(onramp) as client:
                client.query("SELECT 1")
                client.query("SELEC")
            return prometheus.query("rate(onramp_statements_total{result='ok'}[10s]) > 0")

        until(is_seen, "Prometheus sees no statements")
        yield prometheus


def expressions(dashboard):
    """Those of all panels, with what Grafana puts in the place of its variables."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            assert "$" not in expression, expression
            yield panel["title"], expression


def test_the_exposition_and_the_rules_are_well_formed(onramp):
    text = ask(onramp.http_port, "/metrics").body
    for arguments, given in ((["check", "metrics"], text), (["check", "rules", DEPLOY / "alerts.yml"], None)):
        told = subprocess.run([PROGRAMS["promtool"], *arguments], input=given, capture_output=True, text=True, timeout=PATIENCE)
        assert told.returncode == 0 and not told.stderr.strip(), told.stdout + told.stderr


def test_it_is_scraped_without_an_error(prometheus):
    # A single look may take longer than Prometheus waits, on a busy machine.
    found = lambda: [(target["health"], target["lastError"]) for target in prometheus.get("/api/v1/targets")["activeTargets"]]
    until(lambda: found() == [("up", "")], lambda: f"{found()}")


def test_every_panel_has_data(prometheus):
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    assert rows == ["Overview", "Queue", "Latency heat map", "Pins and locks", "Backends", "Logins", "Users and schemas", "Reads on replicas"]
    assert {"job", "instance"} <= {variable["name"] for variable in dashboard["templating"]["list"]}
    asked = list(expressions(dashboard))
    assert len(asked) > 30
    # There is one server, so that nothing is read elsewhere.
    without = lambda: [(title, expression) for title, expression in asked if not OF_REPLICAS.search(expression) and not prometheus.query(expression)]
    until(lambda: not without(), lambda: f"no data: {without()}")


def test_every_panel_of_reads_has_data_where_replicas_are_read(folder, cluster, start):
    port = free_port()
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    asked = [(title, expression) for title, expression in expressions(dashboard) if OF_REPLICAS.search(expression)]
    second = address(cluster, 2)
    onramp = start(http_listen=f"127.0.0.1:{port}", read_weights=f"{second}=3", server_zones=f"{second}=b")
    with Prometheus(folder, [port], DEPLOY / "alerts.yml") as prometheus, raw.connect(onramp, schema="onramp_app") as client:
        until_both_are_read(onramp, client)

        def without():
            client.query("SELECT value FROM kept")
            return [(title, expression) for title, expression in asked if not prometheus.query(expression)]

        until(lambda: not without(), lambda: f"no data: {without()}")
        found = [found["metric"] for found in prometheus.query(dict(asked)["Reads by weight"])]
        # A label whose value is empty is none to Prometheus.
        weights = {(labels["server"], labels["weight"], labels.get("zone", "")) for labels in found}
        assert weights >= {(second, "3", "b"), (address(cluster, 1), "1", "")}


def test_what_alerts_are_about_is_there(prometheus):
    rules = prometheus.rules()
    assert len(rules) > 5
    for name, rule in rules.items():
        until(lambda: prometheus.rules()[name]["health"] != "unknown", f"{name} is not evaluated")
        assert prometheus.rules()[name]["health"] == "ok"
        selectors = SELECTOR.findall(rule["query"])
        assert selectors, rule["query"]
        for metric, labels in selectors:
            until(lambda: prometheus.query(metric + labels), f"{name}: there is no {metric}{labels}")


def test_docs_name_all_metrics_and_no_others(onramp):
    """Each that is there is in docs/METRICS.md, and each of the latter that has figures without anybody's doing is there."""
    page = (DEPLOY.parent / "docs" / "METRICS.md").read_text()
    named = set(re.findall(r"^\| `((?:onramp|process)_[a-z_]+)`", page, re.MULTILINE))
    bodies = [ask(onramp.http_port, path).body for path in ("/metrics", "/metrics/digests")]
    told = {line.split()[2] for body in bodies for line in body.splitlines() if line.startswith("# TYPE")}
    assert named == told
