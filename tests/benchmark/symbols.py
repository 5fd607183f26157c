"""The functions that take a program's time, by `perf record`."""

import re
import signal
import subprocess
from pathlib import Path
from typing import TypedDict

from processes import Failed, as_child, find, last_line

# How many functions are kept.
MOST = 10
# Samples a second: enough for shares of 0.1 % in 5 s, few enough not to disturb, and no divisor of timers' rates.
FREQUENCY = 999

# One line of perf's report: share, object, [k] or [.] for kernel or user, function, and two columns about inlining that
# newer versions of perf print.
_LINE = re.compile(r"^\s*(?P<share>[\d.]+)%\s+(?P<object>\S+)\s+\[(?P<space>[k.])\]\s+(?P<name>.+?)(\s+-\s+-)?\s*$")


class Symbol(TypedDict):
    """A function and its share of the program's time."""

    share: float  # per cent
    space: str  # kernel or user
    name: str


class Recorder:
    """One recording of one process."""

    def __init__(self, folder: Path, seconds: float) -> None:
        """`folder` takes perf's data."""
        folder.mkdir(parents=True, exist_ok=True)
        self.data = folder / "perf.data"
        self.log = folder / "log"
        self.seconds = seconds
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, pid: int) -> None:
        """Begins; it ends by itself."""
        command = [find("perf") or "perf", "record", "-g", "--freq", str(FREQUENCY), "--output", str(self.data),
                   "--pid", str(pid), "--", "sleep", f"{self.seconds:g}"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=as_child)

    def symbols(self) -> list[Symbol]:
        """The first functions by the time in them themselves. Raises Failed where nothing was recorded."""
        if self.process is None:
            raise Failed("the run ended before perf began")
        if self.process.wait() != 0:
            raise Failed(f"perf: {last_line(self.log.read_text(errors='replace'))}")
        command = [find("perf") or "perf", "report", "--stdio", "--no-children", "--call-graph", "none",
                   "--sort", "dso,symbol", "--input", str(self.data)]
        report = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        found = parse_symbols(report.stdout)
        if not found:
            raise Failed(f"perf report: {last_line(report.stderr)}")
        return found[:MOST]

    def stop(self) -> None:
        """Ends a recording that is still going."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
        self.data.unlink(missing_ok=True)


def parse_symbols(text: str) -> list[Symbol]:
    """The lines of perf's report, in its order."""
    matches = (_LINE.match(line) for line in text.splitlines())
    return [
        {"share": float(match["share"]), "space": "kernel" if match["space"] == "k" else "user", "name": match["name"]}
        for match in matches if match is not None]


def perf_is_installed() -> bool:
    """Whether perf is there."""
    return find("perf") is not None
