"""What /metrics of an Onramp says."""

import base64
import re
import urllib.error
import urllib.request
from typing import NamedTuple

from .waiting import PATIENCE, until

SERIES = re.compile(r'(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Answer(NamedTuple):
    status: int
    body: str


def ask(port, path, method="GET", password=None, host="127.0.0.1"):
    """What is answered at a path."""
    request = urllib.request.Request(f"http://{host}:{port}{path}", method=method)
    if password is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(f":{password}".encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return Answer(answer.status, answer.read().decode())
    except urllib.error.HTTPError as refusal:
        return Answer(refusal.code, refusal.read().decode())


class Metrics:
    """The figures of one Onramp. They may be a second old, so that what is about to be is waited for."""

    def __init__(self, port, path="/metrics"):
        self.port, self.path = port, path

    def text(self):
        return ask(self.port, self.path).body

    def all(self):
        """Each series as a name and its labels, with its value."""
        found = {}
        for line in self.text().splitlines():
            if not line.startswith("#"):
                series = SERIES.fullmatch(line)
                assert series, line
                labels = frozenset(LABEL.findall(series["labels"] or ""))
                found[series["name"], labels] = float(series["value"])
        return found

    def get(self, name, **labels):
        """The sum of all series of a name with these labels; None where there is none."""
        return total(self.all(), name, **labels)

    def settle(self):
        """Until they are none of those of before: what the process has used of processors is read anew with the rest."""
        before = self.get("process_cpu_seconds_total")
        until(lambda: self.get("process_cpu_seconds_total") != before, "the metrics stand")

    def wait(self, wanted, name, **labels):
        """Until it is this much."""
        until(lambda: self.get(name, **labels) == wanted, lambda: f"{name} {labels}: {self.get(name, **labels)}, not {wanted}")


def total(series, name, **labels):
    """Of what `Metrics.all` has found."""
    values = [value for (known, own), value in series.items() if known == name and labels.items() <= dict(own).items()]
    return sum(values) if values else None


class Growth:
    """How much has been counted since."""

    def __init__(self, metrics):
        self.metrics, self.before = metrics, metrics.all()

    def of(self, name, **labels):
        """How much it has grown. One that was not there before has grown from 0; one that is not there now may have a wrong name."""
        grown = self._of(name, labels)
        assert grown is not None, f"there is no {name} {labels}"
        return grown

    def wait(self, wanted, name, **labels):
        """Until it is there, and has grown by so much."""
        until(lambda: self._of(name, labels) == wanted, lambda: f"{name} {labels}: {self._of(name, labels)} more, not {wanted}")

    def wait_for_more(self, least, name, **labels):
        """Until it is there, and has grown by at least so much."""
        until(lambda: (self._of(name, labels) or 0) >= least, lambda: f"{name} {labels}: {self._of(name, labels)} more, not {least}")

    def _of(self, name, labels):
        now = self.metrics.get(name, **labels)
        return None if now is None else now - (total(self.before, name, **labels) or 0)
