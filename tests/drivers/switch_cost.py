"""What it costs that a statement finds its backend in another session state: added time, writes and round trips.

`ONRAMP_BIN=target/release/onramp python switch_cost.py` prints the table of docs/BENCHMARKS.md. Two clients take turns on one backend;
they are in the same state or in different ones, in blocks that alternate, so that what else the machine does meets both.
"""

import statistics
import sys
import tempfile
import time

from harness import raw
from harness.onramp import Onramp
from harness.relay import Relay
from harness.server import Server, make_template

# What one client sets; the other one is as after its login.
STATES = {
    "one variable": ["SET time_zone = '+03:00'"],
    "SET NAMES": ["SET NAMES latin1"],
    "the schema": ["USE onramp_other"],
    "five variables, SET NAMES and the schema": [
        "SET time_zone = '+03:00', group_concat_max_len = 4096, lock_wait_timeout = 77, sql_safe_updates = 1, sql_mode = 'ANSI'",
        "SET NAMES latin1", "USE onramp_other"],
}

ROUNDS, BLOCK = 15, 400  # blocks of each kind, statements in each: five seconds for a row

TEXT = "SELECT 1"


class Count(Relay):
    """Counts what arrives at a time in each direction: as many writes or more were one packet on the wire."""

    def __init__(self, server):
        self.pieces = {"to the server": 0, "from the server": 0}
        self.bytes = 0
        super().__init__(server)

    def to_server(self, piece):
        self.pieces["to the server"] += 1
        self.bytes += len(piece)

    def from_server(self, piece):
        self.pieces["from the server"] += 1

    def count(self, work):
        """What goes by while the work is done."""
        before, size = dict(self.pieces), self.bytes
        work()
        return {name: self.pieces[name] - before[name] for name in before}, self.bytes - size


def block(clients, count):
    """Microseconds of each statement; the clients take turns."""
    times = []
    for number in range(count):
        begin = time.perf_counter_ns()
        clients[number % 2].query(TEXT)
        times.append((time.perf_counter_ns() - begin) / 1000)
    return times


def pair(onramp, settings):
    """Two clients, of which the second has said this."""
    clients = [raw.connect(onramp, schema="onramp_app") for _ in range(2)]
    for text in settings:
        answer = clients[1].query(text)
        assert isinstance(answer, raw.Ok), answer
    block(clients, BLOCK)
    return clients


def measure(onramp, settings):
    """Medians in the same state and in different ones."""
    same, different = pair(onramp, []), pair(onramp, settings)
    medians = {"same": [], "different": []}
    for _ in range(ROUNDS):
        for name, clients in (("same", same), ("different", different)):
            block(clients, 4)  # so that the backend is in a state of this pair
            medians[name].append(statistics.median(block(clients, BLOCK)))
    return statistics.median(medians["same"]), statistics.median(medians["different"])


def main():
    with tempfile.TemporaryDirectory(prefix="onramp-switch-") as folder:
        server = Server(folder, template=make_template(folder)).start()
        onramps = []
        try:
            with raw.connect(server, "admin", "admin-secret") as admin:
                admin.query("CREATE DATABASE onramp_other")
            relay = Count(server)
            for place in (server, relay):
                onramps.append(Onramp(place, folder, max_backends=1, workers=1).start())
            print("| what differs | median in the same state | in another | added | bytes to the server | writes to the server, and from it, for each statement |")
            print("|---|--:|--:|--:|--:|--:|")
            for name, settings in STATES.items():
                same, different = measure(onramps[0], settings)
                clients = pair(onramps[1], settings)
                pieces, size = relay.count(lambda: block(clients, BLOCK))
                writes = ", ".join(f"{count / BLOCK:.2f}" for count in pieces.values())
                print(f"| {name} | {same:.0f} µs | {different:.0f} µs | {different - same:+.0f} µs | {size / BLOCK:.0f} | {writes} |", flush=True)
        finally:
            for onramp in onramps:
                onramp.stop()
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
