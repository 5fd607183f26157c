"""What many clients notice of a failover, again and again, in clusters of their own, and whether the ledger of their writes is right.

    ONRAMP_BIN=target/release/onramp python failovers.py [--times 10] [--clients 1000] [SCENARIO ...]

Of each scenario it tells, for all its times together: the writes that were acknowledged, refused, and in doubt; errors of clients outside of
transactions by their codes; transactions that were ended, and connections that were lost, with one; how long after the moment at which a server
took writes again (of an order, from its answer on) the first write was acknowledged; and the longest that one of those clients waited for an answer.

A client waits between two of its events, as clients do; each event is timed by its client, in one process: with a thousand clients on a busy
machine that is exact to some ten milliseconds.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

from harness import admin, folders, galera
from harness.admin import rows
from harness.cluster import CHANGE, Cluster
from harness.galera import Galera
from harness.onramp import Onramp
from harness.raw import Err
from harness.server import SERVICE, end_in_order_on_sigterm, free_port, make_template
from harness.several import Load, until_in_use
from harness.waiting import until

# Seconds between two events of a client, on average.
PAUSE = 0.5

# Seconds from the loss of a primary to the moment at which somebody's script promotes another one.
SCRIPT = 3

# Writes before and after the change: each client has had its turn or two.
WRITES_FOR_EACH = 2

# What a Galera node says of a commit that was on its way to the others as it lost them.
UNDECIDED = (1180, 1213)


class TimedLoad(Load):
    """Clients that pause, and know how long each of their events has taken."""

    def __init__(self, onramp, clients, undecided=()):
        # Of events outside of transactions: when they ended, and what they took. Threads append, which is one step.
        self.waits = []
        self.writes = []
        super().__init__(onramp, clients, undecided)

    def read(self, connection):
        self.timed(super().read, connection)
        self.pause()

    def write(self, connection):
        if self.timed(super().write, connection):
            self.writes.append(time.monotonic())
        self.pause()

    def transaction(self, connection):
        super().transaction(connection)
        self.pause()

    def timed(self, event, connection):
        begun = time.monotonic()
        outcome = event(connection)
        now = time.monotonic()
        self.waits.append((now, now - begun))
        return outcome

    def pause(self):
        self.ends.wait(random.expovariate(1 / PAUSE))


@dataclass
class Outcome:
    """Of one or more times."""

    acknowledged: int = 0
    refused: int = 0
    unknown: int = 0
    plain_errors: Counter = field(default_factory=Counter)
    transactions_ended: Counter = field(default_factory=Counter)
    back: list[float] = field(default_factory=list)
    longest: list[float] = field(default_factory=list)

    def add(self, load, changed, writable):
        """`changed` is when the change began, `writable` when a server took writes again."""
        self.acknowledged += len(load.acknowledged)
        self.refused += len(load.refused)
        self.unknown += len(load.unknown)
        name = lambda error: str(error.code) if isinstance(error, Err) else "connection lost"
        self.plain_errors.update(name(error) for kind in ("read", "write") for error in load.errors[kind])
        self.transactions_ended.update(name(error) for error in load.errors["transaction"])
        self.back.append(min(at for at in load.writes if at >= writable) - writable)
        self.longest.append(max(took for at, took in load.waits if at >= changed))


class Replicas(Cluster):
    """A primary and a replica that has all that was acknowledged."""

    undecided = ()

    def prepare(self):
        self.hold_markers()

    def writer(self):
        return 0


class Nodes(Galera):
    """Three nodes of a Galera."""

    undecided = UNDECIDED

    def prepare(self):
        self.order(0, "CREATE TABLE onramp_app.markers (id BIGINT PRIMARY KEY) ENGINE=InnoDB")

    def writer(self):
        return self.first()


def primary_killed(cluster, onramp):
    """kill -9 of the primary; somebody's script promotes the replica after three seconds."""
    cluster.servers[0].kill()
    time.sleep(SCRIPT)
    cluster.promote(1)
    return time.monotonic(), 1


def replica_killed(cluster, onramp):
    """kill -9 of the replica, which is started again at once, so that commits find one again."""
    cluster.servers[1].kill()
    cluster.start(1, read_only=True)
    cluster.order(1, "START SLAVE")
    cluster.until_replicas_are_there(1)
    return time.monotonic(), 0


def switchover(cluster, onramp):
    """SWITCHOVER TO the replica."""
    rows(onramp, f"SWITCHOVER TO '127.0.0.1:{cluster.servers[1].port}'")
    return time.monotonic(), 1


def writer_killed(cluster, onramp):
    """kill -9 of the node that writes."""
    writer = cluster.writer()
    cluster.servers[writer].kill()
    # The cluster takes writes again as soon as the others have agreed that it is gone.
    until(lambda: any(server.running and cluster.status(number, "wsrep_cluster_status") == "Primary"
                      and cluster.status(number, "wsrep_cluster_size") == "2"
                      for number, server in enumerate(cluster.servers)), "the others do not agree")
    return time.monotonic(), cluster.first()


def writer_drained(cluster, onramp):
    """DRAIN of the node that writes, which is stopped then."""
    writer = cluster.writer()
    rows(onramp, f"DRAIN '127.0.0.1:{cluster.servers[writer].port}'")
    drained = time.monotonic()
    cluster.servers[writer].stop()
    return drained, rows(onramp, "SELECT in_use FROM servers").index({"in_use": 1})


def other_node_killed(cluster, onramp):
    """kill -9 of a node that does not write."""
    writer = cluster.writer()
    cluster.servers[(writer + 1) % 3].kill()
    return time.monotonic(), writer


SCENARIOS = {
    "primary-killed": (Replicas, primary_killed), "replica-killed": (Replicas, replica_killed), "switchover": (Replicas, switchover),
    "galera-writer-killed": (Nodes, writer_killed), "galera-writer-drained": (Nodes, writer_drained),
    "galera-other-killed": (Nodes, other_node_killed)}


def once(name, folder, template, clients, outcome):
    """One time of a scenario."""
    kind, change = SCENARIOS[name]
    cluster = kind(folder, template)
    onramp = None
    try:
        cluster.prepare()
        command = Path(folder) / "change-primary"
        command.write_text(CHANGE)
        command.chmod(0o755)
        port = free_port()
        onramp = Onramp(
            cluster.servers[0], folder, backend=cluster.backends(*SERVICE), failover_hold="60s", workers=1,
            switchover_command=command, admin_listen=f"127.0.0.1:{port}").start()
        onramp.admin = pymysql.connect(host="127.0.0.1", port=port, user="admin", password=admin.PASSWORD)
        in_use = lambda number: [int(each == number) for each in range(len(cluster.servers))]
        until_in_use(onramp, in_use(cluster.writer()))
        load = TimedLoad(onramp, clients, cluster.undecided)
        load.until_acknowledged(WRITES_FOR_EACH * clients // 2)
        changed = time.monotonic()
        writable, writer = change(cluster, onramp)
        until_in_use(onramp, in_use(writer))
        load.until_acknowledged(WRITES_FOR_EACH * clients // 2)
        load.stop()
        load.balance(cluster, writer)
        outcome.add(load, changed, writable)
    finally:
        if onramp is not None:
            onramp.stop()
        cluster.discard()


def told(outcome):
    """An outcome as cells."""
    codes = lambda counts: ", ".join(f"{count} of {code}" for code, count in sorted(counts.items())) or "none"
    seconds = lambda values: f"{sorted(values)[len(values) // 2]:.2f}, at most {max(values):.2f}"
    return [f"{outcome.acknowledged:,}", f"{outcome.refused:,}", f"{outcome.unknown:,}", codes(outcome.plain_errors),
            codes(outcome.transactions_ended), seconds(outcome.back), seconds(outcome.longest)]


def main(arguments):
    os.environ["ONRAMP_ADMIN_PASSWORD"] = admin.PASSWORD
    head = ["what happens", "acknowledged", "refused", "in doubt", "errors outside of transactions", "transactions ended",
            "s until the first write", "longest wait, s"]
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for name in arguments.scenarios or SCENARIOS:
        kind, change = SCENARIOS[name]
        if kind is Nodes and galera.provider() is None:
            print(f"{name}: Galera's library is not installed (Debian, Ubuntu: apt install galera-4)", file=sys.stderr)
            continue
        outcome = Outcome()
        for _ in range(arguments.times):
            with tempfile.TemporaryDirectory(prefix="onramp-failovers-", dir=folders.place()) as folder:
                once(name, folder, make_template(folder), arguments.clients, outcome)
        print(f"| {change.__doc__} | " + " | ".join(told(outcome)) + " |", flush=True)


if __name__ == "__main__":
    end_in_order_on_sigterm()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="how often each scenario is gone through [10]")
    parser.add_argument("--clients", type=int, default=1_000, help="of which a quarter reads, half write, and a quarter has transactions [1000]")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", choices=[[], *SCENARIOS], help=f"of {', '.join(SCENARIOS)} [all]")
    main(parser.parse_args())
