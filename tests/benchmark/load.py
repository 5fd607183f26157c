"""One run of `onramp bench`: started, watched from outside while it measures, and its report read."""

import json
import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contenders import Address
from front_ends import has_option
from processes import Failed, Program, as_child, last_line
from readings import Usage, usage
from servers import PASSWORD, ROWS, TABLES, USER

# Seconds that a run may take beyond its own time: to connect (500 clients a second, as a crowded server has been seen
# to accept them) and to wait for the last answers.
PATIENCE = 45.0
CONNECTS_PER_SECOND = 500

# In bench's words for a run without an event.
NONE_ENDED = "no event ended"

# What bench prints each second: [ 3s ] conns: 64 tps: 1.00 qps: 1.00 ... (warm-up)
_INTERVAL = re.compile(r"^\[ *(?P<second>\d+)s \] conns: (?P<up>\d+) .*?qps: (?P<rate>[\d.]+)")


@dataclass(frozen=True)
class Run:
    """What one run is to do."""

    workload: str
    connections: int
    seconds: float
    warmup: float = 0.0
    think_time: float = 0.0  # seconds
    tables: int = TABLES
    rows: int = ROWS  # of each table, from the first on
    none_may_end: bool = False  # statements count even where no event of several came to its end
    crowd: tuple[str, ...] = ()  # options of bench that say whose connections they are, such as --users 100
    sleep_time: float | None = None  # milliseconds, of the workload `sleep`

    @property
    def limit(self) -> float:
        """Seconds after which it is given up."""
        return self.warmup + self.seconds + PATIENCE + self.connections / CONNECTS_PER_SECOND


@dataclass
class Sample:
    """All processes at one moment, and how many queries have been answered since the first line."""

    queries: float
    usage: dict[str, Usage]


class Watched:
    """What is seen from outside while a run measures: a sample at each line that bench prints."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self.samples: list[Sample] = []
        self._queries = 0.0
        self._last: float | None = None

    def line(self, text: str, now: float, read: Callable[[], dict[str, Usage]]) -> bool:
        """Takes a line that came at `now` (seconds). True when it belongs to the measured time."""
        matched = _INTERVAL.match(text)
        if matched is None:
            return False
        if self._last is not None:
            self._queries += float(matched["rate"]) * (now - self._last)
        self._last = now
        warming_up = "(warm-up)" in text
        if warming_up:
            self.samples.clear()  # the last line of the warm-up opens the measured time
        self.samples.append(Sample(self._queries, read()))
        return not warming_up

    def resident(self, part: str) -> int | None:
        """The most memory that a part had, in bytes."""
        readings = [sample.usage[part].resident for sample in self.samples if part in sample.usage]
        return max(readings, default=None)

    def micros_per_query(self, part: str) -> tuple[float, float] | None:
        """Microseconds of processor time a query, user and kernel; None where too little was seen."""
        seen = [sample for sample in self.samples if part in sample.usage]
        if len(seen) < 2 or seen[-1].queries <= seen[0].queries:
            return None
        used = seen[-1].usage[part] - seen[0].usage[part]
        queries = seen[-1].queries - seen[0].queries
        return used.user * 1e6 / queries, used.system * 1e6 / queries


@dataclass(frozen=True)
class Finished:
    """A run that ended well."""

    report: dict[str, Any]  # bench's own
    watched: Watched


class Bench:
    """The load generator."""

    def __init__(self, onramp: Path, folder: Path) -> None:
        """`folder` takes what it writes."""
        self.onramp = onramp
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def command(self, address: Address, run: Run, report: Path) -> list[str]:
        """The command line of a run."""
        # Lines come at least twice in the measured time; a time of 0 would mean never.
        interval = max(0.1, min(1.0, run.seconds / 4))
        # io_uring's connections cost no open file; where bench can choose, it does.
        driver = ["--driver", "auto"] if has_option("--driver", str(self.onramp), "bench", "run") else []
        return [
            str(self.onramp), "bench", "run", run.workload, *address.options(), *driver, "--user", USER,
            "--tables", str(run.tables), "--table-size", str(run.rows), "--rand-type", "uniform",
            "--connections", str(run.connections), "--time", f"{run.seconds:g}", "--warmup", f"{run.warmup:g}",
            "--think-time", f"{run.think_time * 1000:g}", "--report-interval", f"{interval:g}", "--json", str(report),
            *run.crowd, *([] if run.sleep_time is None else ["--sleep-time", f"{run.sleep_time:g}"])]

    def run(self, address: Address, run: Run, programs: dict[str, Program],
            measuring: Callable[[], None] = lambda: None) -> Finished:
        """Runs, watching `programs` by their part and itself as "bench". `measuring` is called once, when the measured
        time has begun. Raises Failed with its reason where the run does not end well."""
        report, errors = self.folder / "report.json", self.folder / "errors"
        report.unlink(missing_ok=True)
        with open(errors, "wb") as error_file:
            self.process = subprocess.Popen(
                self.command(address, run, report), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=error_file, preexec_fn=as_child, env=os.environ | {"ONRAMP_BENCH_PASSWORD": PASSWORD})
        try:
            pids = {part: program.pid for part, program in programs.items()} | {"bench": self.process.pid}
            watched = self._watch(run, errors, pids, measuring)
            status = self.process.wait()
        finally:
            self.stop()
        words = last_line(errors.read_text(errors="replace"))
        return Finished(read_report(report, status, words, run.none_may_end), watched)

    def stop(self) -> None:
        """Ends a run that is still going."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()

    def _watch(self, run: Run, errors: Path, pids: dict[str, int], measuring: Callable[[], None]) -> Watched:
        """Reads the lines of the run until they end; takes a sample at each of the measured time."""
        watched, begun = Watched(), False
        for line in self._lines(run, errors):
            measured = watched.line(line, time.monotonic(), lambda: readings(pids))
            if measured and not begun:
                begun = True
                measuring()
        return watched

    def _lines(self, run: Run, errors: Path) -> Iterator[str]:
        """The lines of the run as they come. Raises Failed when its time is over."""
        assert self.process is not None and self.process.stdout is not None
        stream = self.process.stdout.fileno()
        deadline, pending = time.monotonic() + run.limit, b""
        while True:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                said = errors.read_text(errors="replace")
                raise Failed(f"not done after {run.limit:.0f} s; {last_line(said)}")
            piece = os.read(stream, 65_536)
            if not piece:
                return
            *lines, pending = (pending + piece).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)


def readings(pids: dict[str, int]) -> dict[str, Usage]:
    """The usage of all parts that still live."""
    found = {part: usage(pid) for part, pid in pids.items()}
    return {part: reading for part, reading in found.items() if reading is not None}


def read_report(path: Path, status: int, words: str, none_may_end: bool = False) -> dict[str, Any]:
    """Bench's own report. Raises Failed where the run failed, with bench's last words or the report's reason. Where
    `none_may_end`, a run without a single event is a failure only if it had no statement either; it has no latencies."""
    try:
        report: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        raise Failed(words.removeprefix("onramp bench: ")) from None
    if none_may_end and NONE_ENDED in str(report.get("failure")) and report["queries"]["per_second"] > 0:
        return report | {"latency": dict.fromkeys(report["latency"])}
    if report.get("failure"):
        raise Failed(str(report["failure"]))
    if report.get("wrong_answers"):
        raise Failed(f"{report['wrong_answers']} wrong answers, such as {report.get('wrong_answer')}")
    if status != 0:
        raise Failed(words.removeprefix("onramp bench: "))
    return report
