"""What many clients notice of a failover, again and again, in clusters of their own, and whether the ledger of their writes is right.

    ONRAMP_BIN=target/release/onramp python failovers.py [--times 10] [--clients 1000] [--through router] [SCENARIO ...]

Of each scenario it tells, for all its times together: the writes that were acknowledged, refused, and in doubt; errors of clients outside of
transactions by their codes; transactions that were ended, and connections that were lost, with one; logins that failed, of clients whose connection
was lost; how long after the moment at which a server took writes again (of an order, from its answer on) the first write was acknowledged; the longest
time without an acknowledged write; the longest that one of those clients waited for an answer; and what else is to be said of it.

A client waits between two of its events, as clients do; each event is timed by its client, in one process: with a thousand clients on a busy
machine that is exact to some ten milliseconds. MYSQL_HOME names a MySQL with group_replication.so for the scenarios of a group, and for `--through
router` one with MySQL Router beside it.
"""

import argparse
import itertools
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pymysql

from harness import admin, folders, galera, group, network, partition, raw, router
from harness.admin import rows
from harness.cluster import CHANGE, Cluster
from harness.galera import Galera
from harness.group import Group
from harness.onramp import Onramp
from harness.partition import Parted
from harness.raw import Closed, Err, Ok
from harness.server import APP, SERVICE, end_in_order_on_sigterm, free_port, make_template
from harness.router import Router
from harness.several import KINDS, Load, until_in_use
from harness.waiting import until

# Seconds between two events of a client, on average.
PAUSE = 0.5

# Seconds from the loss of a primary to the moment at which somebody's script promotes another one.
SCRIPT = 3

# Writes before and after the change: each client has had its turn or two.
WRITES_FOR_EACH = 2

# Logins a second at the beginning, which is not what is measured: a thousand at once are more than a member of a group takes without being left out.
LOGINS = 100

# Seconds until a client whom nobody lets in tries again.
AGAIN = 0.5

# Seconds after which a thread that waits for the interpreter asks for it. By the usual 5 ms a thousand that wait do nothing else.
SWITCH = 0.05

# Connections of a server that are nobody's client: Onramp's own, the Router's, the harness's.
OTHERS = 100

# What a Galera node says of a commit that was on its way to the others as it lost them, and what a member of a group does.
UNDECIDED_NODE = (1180, 1213)
UNDECIDED_MEMBER = (3101,)


class TimedLoad(Load):
    """Clients that pause, and know how long each of their events has taken.

    They are spread over what stands in front of the cluster; one whose connection is lost logs in again wherever it is let in.
    """

    def __init__(self, fronts, clients, undecided=()):
        self.fronts = fronts
        # Of events outside of transactions: when they ended, and what they took. Threads append, which is one step.
        self.waits = []
        self.writes = []
        self.failed_logins = []
        super().__init__(fronts[0], clients, undecided)
        # Only what comes from now on counts.
        self.failed_logins.clear()

    def run(self, kind, client):
        time.sleep(client / LOGINS)
        super().run(kind, client)

    def connect(self, client):
        for tries in itertools.count():
            try:
                connection = raw.Connection(self.fronts[(client // len(KINDS) + tries) % len(self.fronts)])
                outcome = connection.login(*APP, schema="onramp_app")
                if isinstance(outcome, Ok):
                    return connection
                connection.close()
            except (OSError, Closed) as error:
                outcome = error
            self.failed_logins.append(outcome)
            # Where one of several is gone, the others are tried at once.
            if (tries + 1) % len(self.fronts) == 0:
                time.sleep(AGAIN)

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
        try:
            return event(connection)
        finally:
            now = time.monotonic()
            self.waits.append((now, now - begun))

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
    failed_logins: Counter = field(default_factory=Counter)
    back: list[float] = field(default_factory=list)
    without: list[float] = field(default_factory=list)
    longest: list[float] = field(default_factory=list)
    # What else a scenario has found, by its name: of each time a number.
    besides: dict[str, list] = field(default_factory=dict)

    def add(self, load, changed, writable):
        """`changed` is when the change began, `writable` when a server took writes again."""
        self.acknowledged += len(load.acknowledged)
        self.refused += len(load.refused)
        self.unknown += len(load.unknown)
        self.plain_errors.update(named(error) for kind in ("read", "write") for error in load.errors[kind])
        self.transactions_ended.update(named(error) for error in load.errors["transaction"])
        self.failed_logins.update(named(error) for error in load.failed_logins)
        self.back.append(min(at for at in load.writes if at >= writable) - writable)
        # From the last one before the change on.
        writes = sorted(load.writes)
        writes = writes[sum(at < changed for at in writes) - 1:]
        self.without.append(max(later - earlier for earlier, later in zip(writes, writes[1:])))
        self.longest.append(max(took for at, took in load.waits if at >= changed))

    def note(self, name, number):
        self.besides.setdefault(name, []).append(number)


def named(error):
    """An answer by its code."""
    if isinstance(error, Err):
        return str(error.code)
    return "connection refused" if isinstance(error, ConnectionRefusedError) else "connection lost"


@dataclass
class Run:
    """One time of a scenario, with what stands in front of its cluster."""

    cluster: object
    fronts: list
    load: TimedLoad
    outcome: Outcome
    # Writes to wait for before and behind each step.
    more: int
    # Of a network that was cut, as harness/partition.py has it.
    parting: object = None


class Replicas(Cluster):
    """A primary and a replica that has all that was acknowledged."""

    undecided = ()
    missing = staticmethod(lambda: None)
    count = 2

    def __init__(self, folder, clients):
        super().__init__(folder, make_template(folder), count=self.count)
        self.hold_markers()

    def writer(self):
        return 0


class ReadReplicas(Replicas):
    """A primary and two replicas, from which is read."""

    count = 3
    front_options = {"read_split": "replicas"}


class Nodes(Galera):
    """Three nodes of a Galera."""

    undecided = UNDECIDED_NODE

    @staticmethod
    def missing():
        return None if galera.provider() else "Galera's library is not installed (Debian, Ubuntu: apt install galera-4)"

    def __init__(self, folder, clients):
        super().__init__(folder, make_template(folder))
        self.order(0, "CREATE TABLE onramp_app.markers (id BIGINT PRIMARY KEY) ENGINE=InnoDB")

    def writer(self):
        return self.first()


class Members(Group):
    """Three members of a group."""

    undecided = UNDECIDED_MEMBER
    missing = staticmethod(group.missing)

    def __init__(self, folder, clients):
        self.options = [f"--max-connections={clients + OTHERS}"]
        super().__init__(folder)
        self.order(0, "CREATE TABLE onramp_app.markers (id BIGINT PRIMARY KEY)")

    def writer(self):
        return self.primary()


class CutOff(Parted):
    """A primary and a replica with networks of their own."""

    undecided = ()
    missing = staticmethod(network.missing)

    def __init__(self, folder, clients):
        super().__init__(folder, make_template(folder))

    def writer(self):
        return 0


def primary_killed(run):
    """kill -9 of the primary; somebody's script promotes the replica after three seconds."""
    run.cluster.servers[0].kill()
    time.sleep(SCRIPT)
    run.cluster.promote(1)
    return time.monotonic(), 1


def replica_killed(run):
    """kill -9 of the replica, which is started again at once, so that commits find one again."""
    cluster = run.cluster
    cluster.servers[1].kill()
    cluster.start(1, read_only=True)
    cluster.order(1, "START SLAVE")
    cluster.until_replicas_are_there(1)
    return time.monotonic(), 0


def replica_drained(run):
    """DRAIN of one of two replicas that are read from, which is stopped then, started again, and put back by UNDRAIN."""
    cluster, onramp = run.cluster, run.fronts[0]
    address = f"127.0.0.1:{cluster.servers[1].port}"
    until(lambda: is_read_from(onramp, address), "it is not read from")
    rows(onramp, f"DRAIN '{address}'")
    cluster.servers[1].stop()
    cluster.start(1, read_only=True)
    cluster.order(1, "START SLAVE")
    rows(onramp, f"UNDRAIN '{address}'")
    until(lambda: is_read_from(onramp, address), "it is not read from again")
    return time.monotonic(), 0


def is_read_from(onramp, address):
    return rows(onramp, f"SELECT COUNT(*) AS count FROM servers WHERE address = '{address}' AND readable AND reads > 0")[0]["count"]


def switchover(run):
    """SWITCHOVER TO the replica."""
    rows(run.fronts[0], f"SWITCHOVER TO '127.0.0.1:{run.cluster.servers[1].port}'")
    return time.monotonic(), 1


def writer_killed(run):
    """kill -9 of the node that writes."""
    cluster = run.cluster
    cluster.servers[cluster.writer()].kill()
    # The cluster takes writes again as soon as the others have agreed that it is gone.
    until(lambda: any(server.running and cluster.status(number, "wsrep_cluster_status") == "Primary"
                      and cluster.status(number, "wsrep_cluster_size") == "2"
                      for number, server in enumerate(cluster.servers)), "the others do not agree")
    return time.monotonic(), cluster.first()


def writer_drained(run):
    """DRAIN of the node that writes, which is stopped then."""
    cluster, onramp = run.cluster, run.fronts[0]
    writer = cluster.writer()
    rows(onramp, f"DRAIN '127.0.0.1:{cluster.servers[writer].port}'")
    drained = time.monotonic()
    cluster.servers[writer].stop()
    return drained, rows(onramp, "SELECT in_use FROM servers").index({"in_use": 1})


def other_node_killed(run):
    """kill -9 of a node that does not write."""
    writer = run.cluster.writer()
    run.cluster.servers[(writer + 1) % 3].kill()
    return time.monotonic(), writer


def group_primary_killed(run):
    """kill -9 of the group's primary."""
    cluster = run.cluster
    cluster.servers[cluster.writer()].kill()
    until(lambda: cluster.primary() is not None, "the others elect nobody")
    return time.monotonic(), cluster.primary()


def primary_cut_off(run):
    """The primary is cut off from all others, as writable as ever; somebody's script promotes the replica after three seconds; later the line is back."""
    run.parting = partition.lose_primary(run.cluster, run.fronts[0], run.load, SCRIPT, run.more)
    run.outcome.note("carried out on the former primary when the line was back, and in doubt", len(run.parting.late))
    return run.parting.writable, 1


def replica_cut_off(run):
    """The replica is cut off from the primary and from Onramp, and promoted after three seconds by somebody who sees it alone; later the line is back."""
    run.parting = partition.keep_primary(run.cluster, run.fronts[0], run.load, SCRIPT, run.more)
    return run.parting.writable, 1


def onramp_killed(run):
    """kill -9 of one of two Onramps, whose clients log in at the other one."""
    other, killed = run.fronts
    killed.process.kill()
    killed.stop()
    begun = time.monotonic()
    until_counted(other, 1)
    run.outcome.note("seconds until the other one has its part", time.monotonic() - begun)
    return begun, 0


def until_counted(onramp, number):
    """Until so many Onramps divide the server."""
    until(lambda: len(rows(onramp, "SELECT * FROM peers")) == number, "they do not count each other")


# Of each the cluster, what happens, and how many Onramps there are.
SCENARIOS = {
    "primary-killed": (Replicas, primary_killed, 1), "replica-killed": (Replicas, replica_killed, 1), "switchover": (Replicas, switchover, 1),
    "replica-drained": (ReadReplicas, replica_drained, 1),
    "galera-writer-killed": (Nodes, writer_killed, 1), "galera-writer-drained": (Nodes, writer_drained, 1),
    "galera-other-killed": (Nodes, other_node_killed, 1), "group-primary-killed": (Members, group_primary_killed, 1),
    "primary-cut-off": (CutOff, primary_cut_off, 1), "replica-cut-off": (CutOff, replica_cut_off, 1),
    "onramp-killed": (Replicas, onramp_killed, 2), "two-onramps-primary-killed": (Replicas, primary_killed, 2)}

THROUGH = ("onramp", "router")


def start_onramp(cluster, folder):
    """With a connection to its admin port."""
    command = Path(folder) / "change-primary"
    command.write_text(CHANGE)
    command.chmod(0o755)
    port = free_port()
    onramp = Onramp(
        cluster.servers[0], folder, backend=cluster.backends(*SERVICE), failover_hold="60s", workers=1,
        switchover_command=command, admin_listen=f"127.0.0.1:{port}", **getattr(cluster, "front_options", {})).start()
    with onramp.stopped_on_error():
        onramp.admin = pymysql.connect(host="127.0.0.1", port=port, user="admin", password=admin.PASSWORD)
        until_writer(onramp, cluster, cluster.writer())
    return onramp


def until_writer(onramp, cluster, writer):
    until_in_use(onramp, [int(each == writer) for each in range(len(cluster.servers))])


def once(name, folder, arguments, outcome):
    """One time of a scenario."""
    kind, change, onramps = SCENARIOS[name]
    cluster = kind(folder, arguments.clients)
    fronts = []
    try:
        if arguments.through == "router":
            fronts.append(Router(cluster, folder, arguments.clients))
            fronts[0].start()
        for _ in range(onramps if arguments.through == "onramp" else 0):
            fronts.append(start_onramp(cluster, folder))
        for onramp in fronts if onramps > 1 else []:
            until_counted(onramp, onramps)
        load = TimedLoad(fronts, arguments.clients, cluster.undecided)
        run = Run(cluster, fronts, load, outcome, WRITES_FOR_EACH * arguments.clients // 2)
        load.until_acknowledged(run.more)
        changed = time.monotonic()
        writable, writer = change(run)
        for front in fronts:
            if isinstance(front, Onramp) and front.process is not None:
                until_writer(front, cluster, writer)
        load.until_acknowledged(run.more)
        load.stop()
        balance(run, writer)
        outcome.add(load, changed, writable)
    finally:
        for front in fronts:
            front.stop()
        cluster.discard()


def balance(run, writer):
    """The ledger against what is stored in the end."""
    if run.parting is None:
        run.load.balance(run.cluster, writer)
    else:
        acknowledged, unknown = run.cluster.balance(run.load, run.parting.mark)
        run.outcome.note("acknowledged by the former primary alone", len(acknowledged))
        run.outcome.note("in doubt, and on the former primary alone", len(unknown))


def told(outcome):
    """An outcome as cells."""
    codes = lambda counts: ", ".join(f"{count:,} of {code}" for code, count in sorted(counts.items())) or "none"
    middle = lambda values: sorted(values)[len(values) // 2]
    seconds = lambda values: f"{middle(values):.2f}, at most {max(values):.2f}"
    number = lambda value: f"{value:.2f}" if isinstance(value, float) else f"{value:,}"
    besides = [f"{name}: {number(middle(values))}, at most {number(max(values))}" for name, values in outcome.besides.items()]
    return [f"{outcome.acknowledged:,}", f"{outcome.refused:,}", f"{outcome.unknown:,}", codes(outcome.plain_errors),
            codes(outcome.transactions_ended), codes(outcome.failed_logins), seconds(outcome.back), seconds(outcome.without),
            seconds(outcome.longest), "; ".join(besides)]


def main(arguments):
    os.environ["ONRAMP_ADMIN_PASSWORD"] = admin.PASSWORD
    head = ["what happens", "acknowledged", "refused", "in doubt", "errors outside of transactions", "transactions ended", "failed logins",
            "s until the first write", "s without a write", "longest wait, s", "besides"]
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|", flush=True)
    with tempfile.TemporaryDirectory(prefix="onramp-failovers-", dir=folders.place()) as templates:
        # Where `folders.once` keeps what is made once for all of them.
        os.environ["ONRAMP_LANE_FOLDER"] = templates
        for name in arguments.scenarios or SCENARIOS:
            kind, change, _ = SCENARIOS[name]
            missing = kind.missing()
            if arguments.through == "router":
                missing = missing or router.missing() or (None if kind is Members else "the Router follows the primary of a group, and of nothing else")
            if missing:
                print(f"{name}: {missing}", file=sys.stderr)
                continue
            outcome = Outcome()
            for _ in range(arguments.times):
                with tempfile.TemporaryDirectory(prefix="time-", dir=templates) as folder:
                    once(name, folder, arguments, outcome)
            print(f"| {change.__doc__} | " + " | ".join(told(outcome)) + " |", flush=True)


if __name__ == "__main__":
    end_in_order_on_sigterm()
    sys.setswitchinterval(SWITCH)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="how often each scenario is gone through [10]")
    parser.add_argument("--clients", type=int, default=1_000, help="of which a quarter reads, half write, and a quarter has transactions [1000]")
    parser.add_argument("--through", choices=THROUGH, default="onramp", help="what stands in front of the cluster; the Router only of a group's [onramp]")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", choices=[[], *SCENARIOS], help=f"of {', '.join(SCENARIOS)} [all]")
    main(parser.parse_args())
