"""What is measured of limits that find themselves: against none, against the server's own pool, and against every fixed number."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from contenders import Contender
from load import Run
from measure import Comparison, Plan, Record
from processes import Failed
from servers import CROWD_ROWS
from stream import Stream

# In the order in which a round goes through them.
LIMIT_SECTIONS = ["sleep", "fixed", "accounts", "changes"]

# Numbers of permits by hand.
FIXED = [4, 8, 16, 32, 64, 128]
# Onramp's variants: key, name, options.
ONRAMPS = [("onramp-default", "Onramp", [])] + [
    (f"onramp-{permits}", f"Onramp, permits = {permits}", ["--permits", str(permits)]) for permits in FIXED]
# Who takes part where fixed numbers do not.
WITHOUT_FIXED = ["mariadb", "mariadb-pool", "mysql", "mysql-pool", "onramp-default"]
# And where loads follow each other.
IN_CHANGES = [*WITHOUT_FIXED, "onramp-16", "onramp-128"]
# Several accounts say something about what shares backends: the server by itself is there to be compared with.
IN_ACCOUNTS = ["mariadb", "mysql", "onramp-default"]

# Milliseconds that a statement of `sleep` takes.
SLEEPS = [1.0, 5.0, 50.0]
WORKLOADS = ["point_select", "oltp_read_write"]

# Whose connections they are, in words and as options of bench.
CROWDS = [(f"{number:,} account{'' if number == 1 else 's'}", ("--users", str(number))) for number in (1, 10, 40, 100, 1_000)]
CROWDS += [(f"{number:,} by Zipf", ("--users", str(number), "--crowd-zipfian")) for number in (100, 1_000)]
CROWDS += [("drivers unlike each other", ("--mixed-drivers",)), ("120 session states", ("--session-states", "120"))]
ACCOUNTS = 1_000
SCHEMAS = [1, 200, 10_000]
CROWDS += [(f"{number:,} schema{'' if number == 1 else 's'}", ("--schemas", str(number))) for number in SCHEMAS]

# The loads that follow each other: name, workload and its options, clients.
PHASES = [
    ("waiting", ["sleep", "--sleep-time", "5"], 512),
    ("reading", ["point_select"], 512),
    ("reading and writing", ["oltp_read_write"], 512),
]
# They come twice: one that comes back may be known.
TURNS = ["first", "again"]
# Seconds within which the limit has to have followed.
FOLLOWING = 3.0


@dataclass(frozen=True)
class LimitPlan(Plan):
    """How much is measured."""

    phase: float  # seconds that each load of `changes` lasts


class LimitComparison(Comparison):
    """Runs the plan."""

    plan: LimitPlan

    def run(self, after_round: Callable[[], None]) -> None:
        """Everything, into `records`. `after_round` is called whenever a round is complete."""
        sections: dict[str, Callable[[int], None]] = {
            "sleep": self._sleep, "fixed": self._fixed, "accounts": self._accounts, "changes": self._changes}
        if "accounts" in self.plan.sections:
            for server in {id(each.server): each.server for each in self._of(IN_ACCOUNTS)}.values():
                server.prepare_crowd(ACCOUNTS, max(SCHEMAS))
        for number in range(1, self.plan.rounds + 1):
            for name in self.plan.sections:
                sections[name](number)
            after_round()

    def _of(self, keys: list[str]) -> list[Contender]:
        return [each for each in self.contenders.found if each.key in keys]

    def _sleep(self, number: int) -> None:
        for milliseconds in SLEEPS:
            for connections in self.plan.steps:
                for contender in self._of(WITHOUT_FIXED):
                    run = Run("sleep", connections, self.plan.seconds, self.plan.warmup, sleep_time=milliseconds)
                    self._measure("sleep", number, contender, contender.tcp, run, way=f"{milliseconds:g} ms")

    def _fixed(self, number: int) -> None:
        for workload in WORKLOADS:
            for connections in self.plan.steps:
                for contender in self.contenders.found:
                    if contender.front is None:
                        continue
                    run = Run(workload, connections, self.plan.seconds, self.plan.warmup, none_may_end=True)
                    self._measure("fixed", number, contender, contender.tcp, run, way=workload)

    def _accounts(self, number: int) -> None:
        for connections in self.plan.steps:
            for way, crowd in CROWDS:
                for contender in self._of(IN_ACCOUNTS):
                    self._begin_afresh(contender)
                    tables = {"tables": 1, "rows": CROWD_ROWS} if "--schemas" in crowd else {}
                    run = Run("point_select", connections, self.plan.seconds, self.plan.warmup, crowd=crowd, **tables)
                    self._measure("accounts", number, contender, contender.tcp, run, way=way)

    def _changes(self, number: int) -> None:
        """All phases of a contender follow each other; those of another cannot come between."""
        for contender in self._of(IN_CHANGES):
            self._begin_afresh(contender)
            for turn in TURNS:
                for name, workload, clients in PHASES:
                    self._phase(number, contender, f"{name}, {turn}", workload, clients)
            self._settle(contender)

    def _begin_afresh(self, contender: Contender) -> None:
        """What a process has learned of others before would help it, or not."""
        # One that does not come up again is found by the measurement, which says why.
        with contextlib.suppress(Failed):
            if contender.front is not None:
                self.contenders.restart_front(contender)

    def _phase(self, number: int, contender: Contender, way: str, workload: list[str], clients: int) -> None:
        record: Record = self._record("changes", number, contender, clients) | {"way": way}
        stream = Stream(self.bench, contender.tcp, "phase", workload, clients, self.plan.phase, [])
        try:
            stream.wait_for_clients()
            begun = stream.begun
            stream.finish()
            record |= {
                "per_second": stream.rate(begun + FOLLOWING, time.monotonic()), "following": stream.rate(begun, begun + FOLLOWING)}
        except Failed as failure:
            record["failure"] = str(failure)
        finally:
            stream.kill()
        self.records.append(record)
        told = record.get("failure") or f"{record['following']:,.0f} events/s at first, then {record['per_second']:,.0f}"
        self.say(f"{record['at']}  round {number}  changes {contender.key:<15} {way}: {told}")
