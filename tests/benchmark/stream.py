"""A load whose lines are kept with their time, so that it can be asked how it fared from one moment to another."""

import json
import os
import re
import signal
import statistics
import subprocess
import threading
import time
from typing import Any, NamedTuple

from contenders import Address
from load import Bench
from processes import Failed, as_child, last_line
from servers import PASSWORD, ROWS, TABLES, USER

# Seconds until all clients are there, and that the last statements may take once the time is over.
CONNECTING = 60.0
ENDING = 30.0
# Seconds between two lines.
INTERVAL = 0.5

# What bench prints: [ 3s ] conns: 64 tps: 1.00 qps: 1.00 (r/w/o: ...) lat (ms,95%): 1.23 err/s: 0.00 ...
_LINE = re.compile(r"^\[ *\d+s \] conns: (\d+) tps: ([\d.]+) .* lat \(ms,95%\): ([\d.]+|NaN) err/s: ([\d.]+)")


class Line(NamedTuple):
    """One line, and when it came (time.monotonic())."""

    at: float
    events: float  # a second
    p95: float  # milliseconds; 0 where nothing ended
    errors: float  # a second


class Stream:
    """One `onramp bench run`."""

    def __init__(self, bench: Bench, address: Address, name: str, workload: list[str], clients: int, seconds: float,
                 more: list[str], user: str = USER) -> None:
        """Starts it. `workload` and `more` are options of bench."""
        self.path, self.errors = bench.folder / f"{name}.json", bench.folder / f"{name}-errors"
        self.path.unlink(missing_ok=True)
        self.lines: list[Line] = []
        self.begun = time.monotonic()
        self.seconds = seconds
        self.report: dict[str, Any] = {}
        self._up = threading.Event()
        tables = [] if "--tables" in workload else ["--tables", str(TABLES)]
        size = [] if "--table-size" in workload else ["--table-size", str(ROWS)]
        command = [
            str(bench.onramp), "bench", "run", *workload, *tables, *size, *address.options(), "--user", user,
            "--rand-type", "uniform", "--connections", str(clients), "--time", f"{seconds:g}",
            "--report-interval", f"{INTERVAL:g}", "--json", str(self.path), *more]
        with open(self.errors, "wb") as error_file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=error_file, preexec_fn=as_child,
                env=os.environ | {"ONRAMP_BENCH_PASSWORD": PASSWORD}, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for_clients(self) -> None:
        """Returns when all have connected. Raises Failed where that does not come."""
        if not self._up.wait(CONNECTING) or not self.lines:
            raise Failed(f"the load did not begin: {self._last_words()}")
        self.begun = time.monotonic()

    def rate(self, since: float, until: float) -> float:
        """Events a second between two moments."""
        found = [line.events for line in self.lines if since + INTERVAL <= line.at <= until + INTERVAL / 2]
        return statistics.fmean(found) if found else 0.0

    def p95(self, since: float, until: float) -> float:
        """The median of what the lines say, milliseconds."""
        return statistics.median([line.p95 for line in self.lines if since <= line.at <= until] or [0.0])

    def seconds_until_normal(self, since: float, rate: float, p95: float) -> float | None:
        """From when on there are no errors, the rate is back, and waits are at most three times the usual ones or 20 ms.
        Two lines in a row must say so; None where none do."""
        good = [line.at for line in self.lines if line.at > since and line.errors == 0 and line.events >= rate
                and line.p95 <= max(3 * p95, 20.0)]
        pairs = [first for first, second in zip(good, good[1:], strict=False) if second - first < 1.5 * INTERVAL]
        return max(0.0, pairs[0] - INTERVAL - since) if pairs else None

    def finish(self) -> dict[str, Any]:
        """Waits for the end, and returns bench's own report. Raises Failed where it does not end well."""
        try:
            self.process.wait(self.seconds + CONNECTING + ENDING)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done in time; {self._last_words()}") from None
        self._reader.join(5.0)
        try:
            self.report = json.loads(self.path.read_text())
        except (OSError, ValueError):
            raise Failed(self._last_words()) from None
        return self.report

    def kill(self) -> None:
        """Ends it at once, if it has not ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join(5.0)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            matched = _LINE.match(text)
            if matched is not None:
                _, events, p95, errors = matched.groups()
                # What is not a number is the wait of nobody.
                wait = float(p95) if p95 != "NaN" else 0.0
                self.lines.append(Line(time.monotonic(), float(events), wait, float(errors)))
                self._up.set()
        self._up.set()

    def _last_words(self) -> str:
        return last_line(self.errors.read_text(errors="replace"))
