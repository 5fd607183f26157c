"""What is measured of limits that find themselves: against none, against the server's own pool, and against every fixed number."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contenders import Address, Contender, Contenders
from front_ends import Onramp, Relay
from load import Bench, Run, readings
from measure import Comparison, Plan, Record, used
from processes import Failed
from servers import CROWD_ROWS, Server
from stream import Stream

# In the order in which a round goes through them.
LIMIT_SECTIONS = ["sleep", "fixed", "mix", "accounts", "changes", "cold-disk", "far"]

# Numbers of permits by hand.
FIXED = [4, 8, 16, 32, 64, 128]
# Onramp's variants: key, name, options.
ONRAMPS = [("onramp-default", "Onramp", [])] + [
    (f"onramp-{permits}", f"Onramp, permits = {permits}", ["--permits", str(permits)]) for permits in FIXED]
BESIDE_FIXED = [key for key, _, _ in ONRAMPS]
# Who takes part where fixed numbers do not.
WITHOUT_FIXED = ["mariadb", "mariadb-pool", "mysql", "mysql-pool", "onramp-default"]
# And where loads follow each other, with those that are named on the command line.
IN_CHANGES = [*WITHOUT_FIXED, "onramp-16", "onramp-128"]
# Several accounts say something about what shares backends: the server by itself is there to be compared with.
IN_ACCOUNTS = ["mariadb", "mysql", "onramp-default"]

# Milliseconds that a statement of `sleep` takes.
SLEEPS = [1.0, 5.0, 50.0]
# And one that is long in Onramp's eyes (long_statement_time), of so few clients that the server could run all of them. They end in waves:
# in the seconds that 20 of these take, one more or less is a twentieth.
LONG_SLEEP, LONG_CLIENTS, LONG_SECONDS = 1_000.0, 64, 20.0
WORKLOADS = ["point_select", "oltp_read_write"]

# Seconds in which a second load connects beside the first one.
COMING = 4.0
# Clients of each half where one waits and the other reads, and what those that wait do.
HALF = 256
WAITING = ["sleep", "--sleep-time", "5"]
# They come from an address of their own, by which Onramp can give each half a limit; those who read come from the usual one.
FROM_ASIDE, FROM_USUAL = "127.0.0.2", "127.0.0.1"
# What the halves may have at a time by hand: each four times the one before, from few to as many as there are, or as reading has use for.
PAIRS = [(waiting, reading) for waiting in (16, 64, 256) for reading in (4, 16, 64)]
# The variants for them. The permits never bind before the two do.
PAIRED = [
    (f"onramp-{waiting}-{reading}", f"Onramp, {waiting} waiting and {reading} reading", [
        "--permits", str(waiting + reading), "--address-permits", f"{FROM_ASIDE}={waiting},{FROM_USUAL}={reading}"])
    for waiting, reading in PAIRS]
HALVES = ["waiting", "reading"]

# Whose connections they are, in words and as options of bench.
CROWDS = [(f"{number:,} account{'' if number == 1 else 's'}", ("--users", str(number))) for number in (1, 10, 40, 100, 1_000)]
CROWDS += [(f"{number:,} by Zipf", ("--users", str(number), "--crowd-zipfian")) for number in (100, 1_000)]
CROWDS += [("drivers unlike each other", ("--mixed-drivers",)), ("120 session states", ("--session-states", "120"))]
ACCOUNTS = 1_000
SCHEMAS = [1, 200, 10_000]
CROWDS += [(f"{number:,} schema{'' if number == 1 else 's'}", ("--schemas", str(number))) for number in SCHEMAS]

# A load: name, workload and its options, clients.
Load = tuple[str, list[str], int]
# Those that follow each other.
LOADS: list[Load] = [("waiting", WAITING, 512), ("reading", ["point_select"], 512), ("reading and writing", ["oltp_read_write"], 512)]
# And before a server that is far: few statements of some length, so that a relay can hand them on with a small part of a processor.
FAR_LOADS: list[Load] = [
    ("waiting", ["sleep", "--sleep-time", "50"], 256), ("reading", ["sum_range", "--range-size", "1000"], 256),
    ("reading and writing", ["oltp_read_write", "--range-size", "500"], 256)]
# Seconds within which the limit has to have followed; and that a load lasts at least, so that as many show where it ended.
FOLLOWING = 3.0
SHORTEST = 2 * FOLLOWING
# A server whose data are not in memory: the tables take eight times as much, and the system keeps none of it, so that each point select
# reads from the disk once.
COLD_DISK = ["--innodb-buffer-pool-size=16M", "--innodb-flush-method=O_DIRECT"]


def in_a_row(loads: list[Load]) -> list[Load]:
    """The loads of one process: the first one comes again, so that each of them has followed another."""
    name, workload, clients = loads[0]
    return [*loads, (f"{name} once more", workload, clients)]


def at_distance(milliseconds: float, name: str) -> str:
    """What a load before a far server is called in the records."""
    return f"{milliseconds:g} ms away, {name}"


@dataclass(frozen=True)
class LimitPlan(Plan):
    """How much is measured."""

    phase: float  # seconds that each load lasts where loads follow each other
    sleep_steps: list[int]  # numbers of clients whose statements wait
    distances: list[float]  # milliseconds, there and back
    named: list[str]  # contenders that take part where loads follow each other, beside the usual ones


class LimitComparison(Comparison):
    """Runs the plan. Contenders take turns at each step, in every second round the last one first, and every figure of Onramp is one of a
    new process, which has learned nothing from other loads."""

    plan: LimitPlan

    def __init__(self, plan: LimitPlan, contenders: Contenders, cold: Contenders, bench: Bench, say: Callable[[str], None]) -> None:
        """`cold` are the same contenders, with COLD_DISK. `say` gets a line for each measurement."""
        super().__init__(plan, contenders, bench, say)
        self.cold = cold

    def run(self, after_round: Callable[[], None]) -> None:
        """Everything, into `records`. `after_round` is called whenever a round is complete."""
        sections: dict[str, Callable[[int], None]] = {
            "sleep": self._sleep, "fixed": self._fixed, "mix": self._mix, "accounts": self._accounts, "changes": self._changes,
            "cold-disk": self._cold_disk, "far": self._far}
        # They have shown that they can be started. Beside others they would take part in dividing the server, and have a share of the processors.
        for contender in [*self.contenders.found, *self.cold.found]:
            self._end(contender)
        if "accounts" in self.plan.sections:
            for server in self._servers(self._of(IN_ACCOUNTS, 1)):
                server.prepare_crowd(ACCOUNTS, max(SCHEMAS))
        for number in range(1, self.plan.rounds + 1):
            for name in self.plan.sections:
                sections[name](number)
            after_round()

    def _of(self, keys: list[str], number: int, contenders: Contenders | None = None) -> list[Contender]:
        """These, in the order of a round."""
        found = [each for each in (contenders or self.contenders).found if each.key in keys]
        return found if number % 2 else found[::-1]

    @property
    def _in_changes(self) -> list[str]:
        return [*IN_CHANGES, *(key for key in self.plan.named if key in BESIDE_FIXED)]

    def _servers(self, contenders: list[Contender]) -> list[Server]:
        return list({id(each.server): each.server for each in contenders}.values())

    def _sleep(self, number: int) -> None:
        steps = [(sleep, clients, self.plan.seconds) for sleep in SLEEPS for clients in self.plan.sleep_steps]
        for milliseconds, connections, seconds in [*steps, (LONG_SLEEP, LONG_CLIENTS, LONG_SECONDS)]:
            for contender in self._of(WITHOUT_FIXED, number):
                run = Run("sleep", connections, seconds, self.plan.warmup, sleep_time=milliseconds)
                self._figure("sleep", number, contender, run, f"{milliseconds:g} ms")

    def _fixed(self, number: int) -> None:
        for workload in WORKLOADS:
            for connections in self.plan.steps:
                for contender in self._of(BESIDE_FIXED, number):
                    run = Run(workload, connections, self.plan.seconds, self.plan.warmup, none_may_end=True)
                    self._figure("fixed", number, contender, run, workload)

    def _mix(self, number: int) -> None:
        for contender in self._of([*WITHOUT_FIXED, *(key for key, _, _ in PAIRED)], number):
            with self._afresh(contender):
                self._halves(number, contender)
            self._settle(contender)

    def _accounts(self, number: int) -> None:
        for connections in self.plan.steps:
            for way, crowd in CROWDS:
                for contender in self._of(IN_ACCOUNTS, number):
                    tables = {"tables": 1, "rows": CROWD_ROWS} if "--schemas" in crowd else {}
                    run = Run("point_select", connections, self.plan.seconds, self.plan.warmup, crowd=crowd, **tables)
                    self._figure("accounts", number, contender, run, way)

    def _changes(self, number: int) -> None:
        for contender in self._of(self._in_changes, number):
            self._loads("changes", number, contender, in_a_row(LOADS))

    def _cold_disk(self, number: int) -> None:
        for contender in self._of(self._in_changes, number, self.cold):
            self._loads("cold-disk", number, contender, in_a_row(LOADS))

    def _far(self, number: int) -> None:
        contenders = self._of(self._in_changes, number)
        if number == 1 and contenders:
            self._ceiling(contenders[0])
        for distance in self.plan.distances:
            loads = [(at_distance(distance, name), workload, clients) for name, workload, clients in in_a_row(FAR_LOADS)]
            for contender in contenders:
                with self._at_distance(contender, distance) as (far, relay):
                    self._loads("far", number, far, loads, relay)

    def _ceiling(self, contender: Contender) -> None:
        """How much a relay that delays nothing can hand on: what is measured through one has to stay well below."""
        direct = dataclasses.replace(contender, front=None)
        with self._at_distance(direct, 0.0) as (far, _):
            self._measure("relay", 1, far, far.tcp, Run("point_select", LONG_CLIENTS, self.plan.seconds, self.plan.warmup))

    @contextlib.contextmanager
    def _at_distance(self, contender: Contender, milliseconds: float) -> Iterator[tuple[Contender, Relay]]:
        """The same contender with a relay before its server."""
        folder = self.bench.folder / f"relay-{len(self.records)}"
        relay = Relay(f"a relay of {milliseconds:g} ms", folder, contender.server, milliseconds)
        try:
            with contextlib.suppress(Failed):  # without it nothing can be measured, which says so
                self.contenders.restart_the_dead(dataclasses.replace(contender, front=None))
                relay.start()
            if isinstance(contender.front, Onramp):
                contender.front.reach(relay.port)
                yield contender, relay
            else:
                yield dataclasses.replace(contender, tcp=Address(port=relay.port)), relay
        finally:
            if isinstance(contender.front, Onramp):
                contender.front.reach(None)
            relay.stop()

    def _figure(self, section: str, number: int, contender: Contender, run: Run, way: str) -> None:
        with self._afresh(contender):
            self._once(section, number, contender, contender.tcp, run, way=way)
        self._settle(contender)

    @contextlib.contextmanager
    def _afresh(self, contender: Contender) -> Iterator[None]:
        """A new process, for as long as this lasts."""
        try:
            # One that does not come up again is found by the measurement, which says why.
            with contextlib.suppress(Failed):
                if contender.front is not None:
                    self.contenders.restart_front(contender)
            yield
        finally:
            self._end(contender)

    def _end(self, contender: Contender) -> None:
        if contender.front is not None:
            contender.front.stop()

    def _halves(self, number: int, contender: Contender) -> None:
        """Both halves at the same time, a record for each."""
        seconds = self.plan.warmup + self.plan.seconds
        record = self._record("mix", number, contender, HALF)
        streams: list[Stream] = []
        try:
            self.contenders.restart_the_dead(contender)
            for name, workload, address in (("waiting", WAITING, FROM_ASIDE), ("reading", ["point_select"], FROM_USUAL)):
                # The first one goes on for as long as the second one needs to come.
                streams.append(Stream(
                    self.bench, contender.tcp, name, workload, HALF, seconds + (COMING if name == HALVES[0] else 0.0),
                    ["--local-address", address]))
                streams[-1].wait_for_clients()
            begun = streams[-1].begun
            for stream in reversed(streams):
                ended_well(stream)
            rates = [stream.rate(begun + self.plan.warmup, begun + seconds) for stream in streams]
            found = [record | {"way": half, "per_second": rate} for half, rate in zip(HALVES, rates, strict=True)]
        except Failed as failure:
            found = [record | {"way": half, "failure": str(failure)} for half in HALVES]
        finally:
            for stream in streams:
                stream.kill()
        self.records += found
        for each in found:
            self._tell(each, f"{each.get('per_second', 0.0):,.0f} events/s")

    def _loads(self, section: str, number: int, contender: Contender, loads: list[Load], relay: Relay | None = None) -> None:
        """All loads of a contender follow each other, in one process; those of another cannot come between."""
        with self._afresh(contender):
            for name, workload, clients in loads:
                self._load_of(section, number, contender, name, workload, clients, relay)
        self._settle(contender)

    def _load_of(self, section: str, number: int, contender: Contender, way: str, workload: list[str], clients: int,
                 relay: Relay | None) -> None:
        record: Record = self._record(section, number, contender, clients) | {"way": way}
        stream: Stream | None = None
        try:
            self.contenders.restart_the_dead(contender)
            if relay is not None and not relay.program.running:
                raise Failed(f"{relay.name} ended: {relay.program.last_words()}")
            parts = {} if relay is None else {"relay": relay.program.pid}
            before, since = readings(parts), time.monotonic()
            stream = Stream(self.bench, contender.tcp, "load", workload, clients, self.plan.phase, [])
            stream.wait_for_clients()
            begun = stream.begun
            ended_well(stream)
            now = time.monotonic()
            record |= {
                "per_second": stream.rate(begun + FOLLOWING, now), "following": stream.rate(begun, begun + FOLLOWING),
                "rates": [line.events for line in stream.lines]}
            if relay is not None:
                record["relay"] = used(before, readings(parts)) / (now - since)
        except Failed as failure:
            record["failure"] = str(failure)
        finally:
            if stream is not None:
                stream.kill()
        self._note_the_dead(contender, record)
        self.records.append(record)
        self._tell(record, "" if "failure" in record else
                   f"{record['following']:,.0f} events/s at first, then {record['per_second']:,.0f}")

    def _tell(self, record: Record, figures: str) -> None:
        self.say(f"{record['at']}  round {record['round']}  {record['section']} {record['contender']:<15} {record['way']}: "
                 f"{record.get('failure') or figures}")


def ended_well(stream: Stream) -> None:
    """Waits for its end. Raises Failed where it was not a good one."""
    report = stream.finish()
    if report.get("failure"):
        raise Failed(str(report["failure"]))
