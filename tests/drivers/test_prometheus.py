"""A real Prometheus scrapes a real Onramp: what is in deploy/ asks for metrics that there are."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from harness import raw
from harness.metrics import Metrics, ask
from harness.onramp import Onramp
from harness.server import free_port
from harness.waiting import PATIENCE, until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"

# Where Debian's package has them.
PROGRAMS = {name: shutil.which(name) for name in ("prometheus", "promtool")}

pytestmark = pytest.mark.skipif(
    None in PROGRAMS.values(), reason="no prometheus: .ci/install test installs Debian's package")

CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: onramp
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""

# What Grafana puts in the place of its variables.
VARIABLES = {"$__rate_interval": "10s", "$job": ".*", "$instance": ".*"}

NAME = re.compile(r"\b(?:onramp|process)_[a-z_]+|\bup\b")
# Behind a metric's name: its labels, a bracket of an aggregation aside.
SELECTOR = re.compile(r"\b((?:onramp|process)_[a-z_]+|up)\b(\{[^}]*\})?")


class Prometheus:
    """One that scrapes an Onramp every second, with the rules of deploy/."""

    def __init__(self, folder, port):
        self.port = free_port()
        place = Path(folder) / f"prometheus-{self.port}"
        place.mkdir()
        file = place / "prometheus.yml"
        file.write_text(CONFIGURATION.format(rules=DEPLOY / "alerts.yml", port=port))
        self.log = open(place / "log", "w")
        self.process = subprocess.Popen(
            [PROGRAMS["prometheus"], f"--config.file={file}", f"--storage.tsdb.path={place}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.log.close()

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refusal:
            if refusal.code == 503:
                return {}  # it is starting
            raise AssertionError(f"{parameters}: {refusal.read().decode()}") from None
        except OSError:
            assert self.process.poll() is None, "prometheus has ended"
            return {}

    def query(self, expression):
        return self.get("/api/v1/query", query=expression).get("result", [])


@pytest.fixture(scope="module")
def onramp(folder, server):
    port = free_port()
    onramp = Onramp(server, folder, max_backends=4, http_listen=f"127.0.0.1:{port}")
    onramp.http_port = port
    onramp.start()
    yield onramp
    onramp.stop()


@pytest.fixture(scope="module")
def prometheus(folder, onramp):
    """Once it has seen some of everything: statements, logins and pins, in two scrapes at least, between which they grew."""
    with Prometheus(folder, onramp.http_port) as prometheus, raw.connect(onramp) as pinned:
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
    [target] = prometheus.get("/api/v1/targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_every_panel_has_data(prometheus):
    dashboard = json.loads((DEPLOY / "grafana.json").read_text())
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    assert rows == ["Overview", "Queue", "Latency heat map", "Pins and locks", "Backends", "Logins"]
    assert {"job", "instance"} <= {variable["name"] for variable in dashboard["templating"]["list"]}
    asked = list(expressions(dashboard))
    assert len(asked) > 30
    without = [(title, expression) for title, expression in asked if not prometheus.query(expression)]
    assert not without


def test_what_alerts_are_about_is_there(prometheus):
    groups = prometheus.get("/api/v1/rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) > 5
    for rule in rules:
        until(lambda: rule_of(prometheus, rule["name"])["health"] != "unknown", f"{rule['name']} is not evaluated")
        assert rule_of(prometheus, rule["name"])["health"] == "ok"
        selectors = SELECTOR.findall(rule["query"])
        assert selectors, rule["query"]
        for name, labels in selectors:
            assert prometheus.query(name + labels), f"{rule['name']}: there is no {name}{labels}"
    # This Onramp is well: nothing is told but what is not so.
    firing = [rule["name"] for rule in rules if rule_of(prometheus, rule["name"])["state"] == "firing"]
    assert not firing


def rule_of(prometheus, name):
    groups = prometheus.get("/api/v1/rules")["groups"]
    return next(rule for group in groups for rule in group["rules"] if rule["name"] == name)


def test_docs_name_all_metrics_and_no_others(onramp):
    """Each that is there is in docs/METRICS.md, and each of the latter that has figures without anybody's doing is there."""
    page = (DEPLOY.parent / "docs" / "METRICS.md").read_text()
    named = set(re.findall(r"^\| `((?:onramp|process)_[a-z_]+)`", page, re.MULTILINE))
    bodies = [ask(onramp.http_port, path).body for path in ("/metrics", "/metrics/digests")]
    told = {line.split()[2] for body in bodies for line in body.splitlines() if line.startswith("# TYPE")}
    assert named == told


def test_an_alert_tells_of_a_server_that_is_away(own_server, own_onramp, folder):
    port = free_port()
    own_onramp(own_server, http_listen=f"127.0.0.1:{port}")
    Metrics(port).wait(1, "onramp_server_up")
    with Prometheus(folder, port) as prometheus:
        until(lambda: prometheus.query("onramp_server_up == 1"), "it is not scraped")
        own_server.kill()
        until(lambda: rule_of(prometheus, "OnrampServerDown")["state"] in ("pending", "firing"), "no alert")
