"""Several pytest processes beside each other, each with servers of its own: tests wait for most of their time.

    python -m harness.lanes ARGUMENTS...      what `run` does; ARGUMENTS go to each pytest

Each lane takes the next file that no other lane has taken. A file stays whole: its tests share servers, and the run through
Onramp is held against the direct one. ONRAMP_TEST_LANES is their number, otherwise three for two cores, and no more than MOST.
ONRAMP_TEST_PART=2/3 leaves two thirds of the files out (parts.py).
"""

import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from . import folders, parts
from .server import end_in_order_on_sigterm

# On two cores two lanes leave three fifths of the processors' time unused. Four take 55 % of the time of two, but beside the programs of tests they
# slow each other down so much that tests see what they hardly ever do.
LANES_PER_CORE = 1.5

# Each has servers, clients and a browser that may take a GiB together.
MOST = 8

# A test with a server of its own counts as so many others when files are put in order.
OWN_SERVER = 10


class Lane:
    """The pytest plugin of one lane."""

    def __init__(self, number, folder, announce):
        """`folder` is where the lanes say what they have taken; `announce` is the descriptor that people read."""
        self.number, self.folder, self.announce = number, Path(folder), announce
        self.file, self.taken, self.outcomes, self.since = None, False, Counter(), 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """The longest files first, so that no lane is left alone with one at the end."""
        files = sorted({item.path for item in items})
        chosen = set(parts.part_of(files, parts.wanted()))
        items[:] = [item for item in items if item.path in chosen]
        weights = Counter()
        for item in items:
            heavy = "own_server" in item.fixturenames or item.get_closest_marker("heavy")
            weights[item.path] += OWN_SERVER if heavy else 1
        items.sort(key=lambda item: (-weights[item.path], item.path))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item):
        if item.path != self.file:
            self.finish()
            self.file, self.since = item.path, time.monotonic()
            self.taken = self.take(item.path.stem)
        return None if self.taken else True

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1

    def pytest_sessionfinish(self):
        self.finish()

    def take(self, name):
        try:
            (self.folder / f"{name}.taken").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def finish(self):
        """Tells how the file went."""
        if self.outcomes:
            counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
            took = time.monotonic() - self.since
            os.write(self.announce, f"lane {self.number}: {self.file.name:35} {took:4.0f} s  {counts}\n".encode())
            self.outcomes.clear()


def plugin():
    """This process's lane, or None where it is the only one."""
    number = os.environ.get("ONRAMP_LANE")
    return Lane(int(number), os.environ["ONRAMP_LANE_FOLDER"], int(os.environ["ONRAMP_LANE_ANNOUNCE"])) if number else None


def main(arguments):
    parts.parsed(parts.wanted())
    count = int(os.environ.get("ONRAMP_TEST_LANES") or min(math.ceil(LANES_PER_CORE * os.cpu_count()), MOST))
    with tempfile.TemporaryDirectory(prefix="onramp-lanes-", dir=folders.place()) as folder:
        announce = os.dup(1)
        lanes = []
        try:
            for number in range(count):
                environment = dict(os.environ, ONRAMP_LANE=str(number), ONRAMP_LANES=str(count), ONRAMP_LANE_FOLDER=folder,
                                   ONRAMP_LANE_ANNOUNCE=str(announce), ONRAMP_TEST_FOLDER=folder)
                with open(f"{folder}/lane-{number}.txt", "wb") as output:
                    lanes.append(subprocess.Popen([sys.executable, "-m", "pytest", "--quiet", *arguments], env=environment,
                                                  stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[announce]))
            statuses = [lane.wait() for lane in lanes]
        finally:
            for lane in lanes:
                if lane.poll() is None:
                    lane.send_signal(signal.SIGTERM)
            for lane in lanes:
                lane.wait()
        for number in range(count):
            print(f"--- lane {number}")
            print(without_dots(Path(f"{folder}/lane-{number}.txt").read_text(errors="replace")), flush=True)
    return max(statuses, key=abs)


def without_dots(text):
    """What pytest wrote but for its progress, which was told file by file."""
    return "\n".join(line for line in text.splitlines() if not re.fullmatch(r"[.sxXFE]*( *\[ *\d+%\])?", line))


if __name__ == "__main__":
    end_in_order_on_sigterm()
    sys.exit(main(sys.argv[1:]))
