"""A real Prometheus, of Debian's package, that scrapes Onramps and judges by rules."""

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from .server import free_port
from .waiting import PATIENCE

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"

# Where Debian's package has them.
PROGRAMS = {name: shutil.which(name) for name in ("prometheus", "promtool")}

# For a test, or as a module's `pytestmark`.
needed = pytest.mark.skipif(
    None in PROGRAMS.values(), reason="no prometheus: .ci/install test installs Debian's package")

# What is scraped is a second old at most; rules are judged more often, so that tests wait for the metrics alone.
CONFIGURATION = """
global: {{scrape_interval: 500ms, evaluation_interval: 250ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: onramp
    static_configs: [{{targets: {targets}}}]
"""


class Prometheus:
    """One that scrapes the Onramps at these ports twice a second, as the job `onramp`, with a file of rules."""

    def __init__(self, folder, ports, rules):
        self.port = free_port()
        place = Path(folder) / f"prometheus-{self.port}"
        place.mkdir()
        file = place / "prometheus.yml"
        file.write_text(CONFIGURATION.format(rules=rules, targets=json.dumps([f"127.0.0.1:{port}" for port in ports])))
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

    def rules(self):
        """Those that it has, by their names; none while it starts."""
        groups = self.get("/api/v1/rules").get("groups", [])
        return {rule["name"]: rule for group in groups for rule in group["rules"]}
