#!/usr/bin/env python3
"""Shows what floods of logins do to statements that run beside them, and writes that part of docs/BENCHMARKS.md.

    make compare-logins                                50,000 logins of each kind, about 16 minutes
    make compare-logins ARGUMENTS="--quick"            a tenth of it, which leaves the page alone

- bad: a wrong password for an account that is there. Onramp holds the refusals up, as it does by default.
- tls: the right password inside TLS, SELECT 1, and the end.
- half: half a request for TLS, half a login packet or nothing behind the greeting; held until Onramp hangs up.

One Onramp serves statements at a fixed rate. In turn there is quiet, a flood at another Onramp on the same machine, and the
same flood at this one. The difference between the first two is what the flood and the generator take of the processors;
that between the last two is what one Onramp does to those who are in. Memory is that of the Onramp that serves.
"""

import argparse
import functools
import json
import os
import random
import resource
import selectors
import socket
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True

from book import Book  # noqa: E402
from campaign import first_line, measure_and_write, say, stopping  # noqa: E402
from command_line import command_text, options, read  # noqa: E402
from processes import Failed, Program, find, free_port, greets  # noqa: E402
from readings import machine  # noqa: E402
from servers import PASSWORD, USER, MariaDb  # noqa: E402

BEGIN = "<!-- Measured, written by `make compare-logins`: begin -->"
END = "<!-- Measured, written by `make compare-logins`: end -->"

# Logins a second: well below what the two cores of a small machine can do beside the statements.
RATES = {"bad": 1_000, "tls": 500, "half": 1_000}
WORDS = {
    "bad": "wrong passwords",
    "tls": "right ones in TLS",
    "half": "half handshakes",
}
# Each turn is cut into so many pieces, which take turns: what else the machine does meets all three alike.
PIECES = 8
# Statements a second beside them, and over how many connections.
STATEMENTS, CLIENTS = 1_000, 16
# Seconds after a flood until memory is looked at: connect_timeout (10 s) and what idles for it.
REST = 15.0
# An account that only this flood knows, so that its failures count against nobody else.
VICTIM = "victim"


class Flood:
    """Logins that come to no good end, at a pace, from one thread."""

    def __init__(self, kind: str, port: int, pace: float, count: int) -> None:
        """`pace` in logins a second."""
        self.kind, self.port, self.pace, self.count = kind, port, pace, count
        self.selector = selectors.DefaultSelector()
        self.started = self.ended = self.refused = 0

    def run(self, seconds: float) -> None:
        """Begins logins for so long; those that hang on go on hanging."""
        begin = time.monotonic()
        first = self.started
        while (now := time.monotonic()) - begin < seconds and self.started < self.count:
            due = min(int((now - begin) * self.pace) + first, self.count)
            while self.started < due:
                self._open()
            self._serve(0.002)

    def drain(self, seconds: float) -> None:
        """Waits until all have been hung up on, at most so long."""
        deadline = time.monotonic() + seconds
        while self.selector.get_map() and time.monotonic() < deadline:
            self._serve(0.05)

    def _open(self) -> None:
        peer = socket.socket()
        peer.setblocking(False)
        # Each local address has its own ports.
        peer.bind((f"127.0.1.{self.started % 4 + 1}", 0))
        peer.connect_ex(("127.0.0.1", self.port))
        self.selector.register(peer, selectors.EVENT_READ, "greeting")
        self.started += 1

    def _serve(self, patience: float) -> None:
        for key, _ in self.selector.select(patience):
            peer = key.fileobj
            assert isinstance(peer, socket.socket)
            try:
                data = peer.recv(4096)
                if data and key.data == "greeting":
                    peer.send(self._answer())
                    self.selector.modify(peer, selectors.EVENT_READ, "answer")
                    continue
            except OSError:
                data = b""
            self.refused += data[4:5] == b"\xff"
            self.selector.unregister(peer)
            peer.close()
            self.ended += 1

    def _answer(self) -> bytes:
        capabilities = 0x0008_A200  # PLUGIN_AUTH, SECURE_CONNECTION, PROTOCOL_41
        head = struct.pack("<IIB23x", capabilities, 1 << 24, 45)
        if self.kind == "bad":
            return packet(head + VICTIM.encode() + b"\0\x14" + os.urandom(20) + b"mysql_native_password\0")
        which = self.started % 3
        if which == 0:
            # A request for TLS, and the head of a ClientHello of which nothing follows.
            return packet(struct.pack("<IIB23x", capabilities | 0x800, 1 << 24, 45)) + b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03"
        return packet(head + b"app\0")[: 20 if which == 1 else 0]


def packet(payload: bytes) -> bytes:
    """The first one of a client."""
    return struct.pack("<I", len(payload))[:3] + b"\x01" + payload


class WithVictim(MariaDb):
    """A server that knows the account whose passwords are tried."""

    def accounts(self) -> str:
        """As ever, and that one."""
        return super().accounts() + f"CREATE USER IF NOT EXISTS {VICTIM}@'%' IDENTIFIED BY 'another';\n"


class Measurement:
    """Two Onramps in front of one server."""

    def __init__(self, folder: Path, onramp: Path, open_files: int, count: int) -> None:
        """Starts nothing."""
        self.folder, self.onramp, self.count = folder, onramp, count
        self.server = WithVictim("mariadb", folder / "server", open_files, "one-thread-per-connection")
        self.programs: list[Program] = []

    def start(self) -> None:
        """Starts the server and both."""
        self.server.install()
        self.server.start()
        self.server.prepare(self.onramp)
        self.ports = [free_port(), free_port()]
        for name, port in zip(("this", "other"), self.ports, strict=True):
            backend = f"mysql://{USER}:{PASSWORD}@localhost/?socket={self.server.socket}"
            command = [str(self.onramp), "serve", "--listen", f"127.0.0.1:{port}", "--permits", "16", "--log-level", "error"]
            program = Program(name, command, self.folder / f"{name}.log", {"ONRAMP_BACKEND": backend})
            program.start(lambda port=port: greets(port))
            self.programs.append(program)

    def stop(self) -> None:
        """Stops them."""
        for program in self.programs:
            program.stop()
        self.server.stop()

    def measure(self, kind: str) -> dict[str, Any]:
        """One kind of flood."""
        pieces = max(self.count / RATES[kind] / PIECES, 2.0)
        seen: dict[str, list[dict[str, float]]] = {"quiet": [], "other": [], "this": []}
        with self.statements(pieces):
            pass  # what they take stays, and is not the flood's
        before = self.memory()
        floods = {name: Flood(kind, port, RATES[kind], self.count)
                  for name, port in zip(("this", "other"), self.ports, strict=True)}
        peak, told = before, 0
        for _ in range(PIECES):
            for where in random.sample(list(seen), 3):
                with self.statements(pieces) as result:
                    told += self.flood(kind, floods.get(where), where, pieces)
                peak = max(peak, self.memory())
                seen[where].append(result.latency())
                if where in floods:
                    floods[where].drain(REST)
        time.sleep(REST)
        row: dict[str, Any] = {name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
                               for name, rounds in seen.items()}
        row["logins"] = told if kind == "tls" else floods["this"].started
        row["memory"] = {"before": before, "peak": peak, "after": self.memory()}
        row["processor"] = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        return row

    def flood(self, kind: str, flood: Flood | None, where: str, seconds: float) -> int:
        """For so long; how many came in by TLS at this one."""
        if flood is None:
            time.sleep(seconds)
            return 0
        if kind != "tls":
            flood.run(seconds)
            return 0
        report = self.folder / "connects.json"
        self.bench("connect", flood.port, report, seconds, "--connections", "32", "--rate", str(RATES[kind]), "--tls").wait()
        return json.loads(report.read_text())["events"]["total"] if where == "this" else 0

    def statements(self, seconds: float) -> "Statements":
        """Statements through this one, for so long."""
        return Statements(self, seconds)

    def bench(self, workload: str, port: int, report: Path, seconds: float, *more: str) -> "subprocess.Popen[bytes]":
        """A run of the load generator."""
        report.unlink(missing_ok=True)
        command = [str(self.onramp), "bench", "run", workload, "--port", str(port), "--user", USER, "--tables", "4",
                   "--table-size", "100000", "--time", f"{seconds:.0f}", "--json", str(report), *more]
        return subprocess.Popen(
            command, env=os.environ | {"ONRAMP_BENCH_PASSWORD": PASSWORD},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def memory(self) -> float:
        """Resident MiB of the one that serves."""
        text = Path(f"/proc/{self.programs[0].pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


class Statements:
    """A run of statements beside what happens in a `with`."""

    def __init__(self, measurement: Measurement, seconds: float) -> None:
        """Begins when entered."""
        self.measurement, self.seconds = measurement, seconds
        self.report = measurement.folder / "statements.json"

    def __enter__(self) -> "Statements":
        """Begins."""
        self.process = self.measurement.bench(
            "point_select", self.measurement.ports[0], self.report, self.seconds,
            "--connections", str(CLIENTS), "--rate", str(STATEMENTS))
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for its end."""
        self.process.wait()

    def latency(self) -> dict[str, float]:
        """Quantiles in milliseconds."""
        if not self.report.is_file():
            raise Failed("the load generator gave no figures")
        found = json.loads(self.report.read_text())["latency"]
        return {name: found[name] for name in ("p50", "p95", "p99")}


def page(book: Book) -> str:
    """The table."""
    lines = [
        f"    {book['command']}", "",
        f"{book['date']}, on {book['machine']['cores']} cores, which generator, server and both Onramps share (load "
        f"{book['plan']['load']:.1f} at the beginning); {STATEMENTS:,} point selects a second over {CLIENTS} connections; medians "
        f"of {PIECES} pieces in random order. *Elsewhere* is the same flood at another Onramp on the same machine: what it costs the processors. "
        "All figures are in [benchmarks-logins.json](benchmarks-logins.json).", "",
        "| flood | logins | a second | p95 quiet, ms | elsewhere | here | here against elsewhere | p99 quiet | elsewhere | here |"
        " memory before, MiB | peak | after |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in book["records"]:
        kind = row["section"]
        p95 = [row[where]["p95"] for where in ("quiet", "other", "this")]
        p99 = [row[where]["p99"] for where in ("quiet", "other", "this")]
        memory = row["memory"]
        lines.append(
            f"| {WORDS[kind]} | {row['logins']:,} | {RATES[kind]:,} | {p95[0]:.2f} | {p95[1]:.2f} | {p95[2]:.2f} | "
            f"{100 * (p95[2] / p95[1] - 1):+.0f} % | {p99[0]:.2f} | {p99[1]:.2f} | {p99[2]:.2f} | "
            f"{memory['before']:.1f} | {memory['peak']:.1f} | {memory['after']:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measures and writes; the exit code is 0 unless nothing could be measured."""
    parser = options("compare-logins", __doc__, list(RATES))
    parser.add_argument("--logins", type=int, default=None,
                        help="of each kind, at the Onramp that serves [50000; quick: 5000]")
    arguments = read(parser, sys.argv[1:])
    return measure_and_write(arguments, functools.partial(compare, arguments), page, BEGIN, END)


def compare(arguments: argparse.Namespace, folder: Path, open_files: int) -> Book:
    """Starts both, floods them, stops them."""
    logins = arguments.logins or (5_000 if arguments.quick else 50_000)
    programs = {"Onramp": str(arguments.onramp), "MariaDB": find("mariadbd") or ""}
    book: Book = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": command_text(arguments.target, arguments.words, False),
        "machine": machine(open_files),
        "versions": {name: first_line([path, "--version"]) for name, path in programs.items() if path},
        "plan": {"logins": logins, "load": os.getloadavg()[0]},
        "contenders": [], "skipped": [], "records": []}
    measurement = Measurement(folder, arguments.onramp, open_files, logins)
    with stopping(measurement.stop):
        try:
            measurement.start()
            for kind in arguments.only:
                book["records"].append({"section": kind, "round": 1, **measurement.measure(kind)})
                say(f"{kind}: {json.dumps(book['records'][-1])}")
        except Failed as error:
            say(str(error))
            book["records"].clear()
    return book


if __name__ == "__main__":
    sys.exit(main())
