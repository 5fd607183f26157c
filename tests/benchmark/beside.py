"""A load that goes on beside what is measured."""

import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from contenders import Address
from load import Bench, Run, read_report
from processes import Failed, as_child, last_line
from servers import PASSWORD

# Seconds until all of its clients are there: 2,000 logins through a busy machine.
CONNECTING = 20.0
# Seconds that its last statements may take once it was told to end.
ENDING = 10.0

# What bench prints once a second, or more often: [ 3s ] conns: 64 tps: 1.00 ...
_CONNECTED = re.compile(rb"^\[ *\d+s \] conns: (\d+) ", re.MULTILINE)


class Beside:
    """A second load generator, which runs until it is stopped."""

    def __init__(self, bench: Bench, address: Address, run: Run) -> None:
        """Starts it and waits until its clients have connected. Raises Failed where that does not come."""
        self.report, self.errors = bench.folder / "beside.json", bench.folder / "beside-errors"
        self.report.unlink(missing_ok=True)
        with open(self.errors, "wb") as error_file:
            self.process = subprocess.Popen(
                bench.command(address, run, self.report), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=error_file, preexec_fn=as_child, env=os.environ | {"ONRAMP_BENCH_PASSWORD": PASSWORD})
        try:
            self._wait_for_clients(run.connections)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> dict[str, Any]:
        """Ends it; returns what its statements came to (rates per second, latencies milliseconds), or why that is not
        known."""
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGINT)
        try:
            # Lines that nobody reads any more must not fill the pipe.
            self.process.communicate(timeout=ENDING)
        except subprocess.TimeoutExpired:
            self.kill()
            return {"failure": f"its statements had not ended after {ENDING:.0f} s"}
        try:
            report = read_report(self.report, 0, self._last_words())
        except Failed as failure:
            return {"failure": str(failure)}
        return {
            "events_per_second": report["events"]["per_second"], "p99": report["latency"]["p99"],
            "errors": sum(error["count"] for error in report["errors"])}

    def kill(self) -> None:
        """Ends it at once."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def _wait_for_clients(self, clients: int) -> None:
        assert self.process.stdout is not None
        stream, deadline, seen = self.process.stdout.fileno(), time.monotonic() + CONNECTING, b""
        while True:
            ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(stream, 65_536) if ready else b""
            if not piece:
                raise Failed(f"the load beside it did not begin: {self._last_words()}")
            seen += piece
            if any(int(number) >= clients for number in _CONNECTED.findall(seen)):
                return

    def _last_words(self) -> str:
        return last_line(Path(self.errors).read_text(errors="replace"))
