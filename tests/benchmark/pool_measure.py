"""What is measured of the thread pools under load: writes at ever more clients, long statements among short ones, and clients
that all want one row."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from beside import Beside
from contenders import BEFORE_MYSQL, Contender, Contenders
from load import Bench, Run
from measure import Comparison, Plan
from processes import Failed

# The workloads of `onramp bench` that are measured at every step.
WORKLOADS = ["update_non_index", "update_non_index_trx", "oltp_read_write"]
# In the order in which a round goes through them.
POOL_SECTIONS = ["mix", "pile_up", *WORKLOADS]

# Onramp's variants: key, name, options.
ONRAMPS = [
    ("onramp-native", "Onramp", []),
    ("onramp-none", "Onramp, high_prio_mode=none", ["--thread-pool-high-prio-mode", "none"]),
    ("onramp-no-lane", "Onramp, long_statement_time=0s", ["--long-statement-time", "0s"]),
    ("onramp-percona", "Onramp, profile percona", ["--thread-pool-profile", "percona"]),
    ("onramp-mariadb", "Onramp, profile mariadb", ["--thread-pool-profile", "mariadb"]),
]
# From so many clients on, transactions of 20 statements get twice the time, and 1.5 s more before it: one takes seconds.
MANY = 4_096
# These are measured at every step, the others at the first and the last one.
AT_EVERY_STEP = ["mariadb", "mariadb-pool", "onramp-native", BEFORE_MYSQL]
# Who takes part where not all do.
IN_MIX = ["mariadb", "mariadb-pool", "onramp-native", "onramp-no-lane", "onramp-percona"]
IN_PILE_UP = ["mariadb", "mariadb-pool", "onramp-native", "onramp-percona", BEFORE_MYSQL]

# Clients with point selects beside the long statements, and those with long ones: at any moment one in 17 statements takes
# a second.
SHORT, LONG = 256, 16
# Clients with point selects beside a row that 2,000 want.
OTHERS, AT_ONE_ROW = 64, 2_000
# Longer than any run: who goes on beside others is stopped when they are done.
ON_AND_ON = 600.0

# Seconds that connecting, closing and settling take beside the run itself: 0.7 s, and for each client 0.2 ms.
AROUND_A_RUN = 0.7
AROUND_A_CLIENT = 0.0002
# A server that has written is never quite idle: it flushes and purges. The next run waits so many seconds for that at most.
SETTLING = 2.0


@dataclass(frozen=True)
class PoolPlan(Plan):
    """How much is measured, and how long all of it may take."""

    every_step: bool  # for all contenders
    deadline: float  # of time.monotonic(): no run begins that would end later


class PoolComparison(Comparison):
    """Runs the plan. What is left out because the time was up is counted."""

    plan: PoolPlan

    def __init__(self, plan: PoolPlan, contenders: Contenders, bench: Bench, say: Callable[[str], None]) -> None:
        """`say` gets a line for each measurement."""
        super().__init__(plan, contenders, bench, say)
        self.left_out = 0

    def run(self, after_round: Callable[[], None]) -> None:
        """Everything, into `records`. `after_round` is called whenever a round is complete."""
        for number in range(1, self.plan.rounds + 1):
            for section, contender, connections in self._order():
                run = self._run_of(section, connections)
                if time.monotonic() + seconds_of(run) > self.plan.deadline:
                    self.left_out += 1
                elif section in WORKLOADS:
                    self._measure(section, number, contender, contender.tcp, run)
                else:
                    self._with_and_without(section, number, contender, run)
            after_round()

    def runs(self) -> int:
        """How many records there will be."""
        return self.plan.rounds * sum(1 if section in WORKLOADS else 2 for section, _, _ in self._order())

    def seconds(self) -> float:
        """How long that takes, about."""
        return self.plan.rounds * sum(
            seconds_of(self._run_of(section, connections)) * (1 if section in WORKLOADS else 2)
            for section, _, connections in self._order())

    def _order(self) -> list[tuple[str, Contender, int]]:
        """One round: what is measured, of whom, with how many clients."""
        found, steps = self.contenders.found, self.plan.steps
        order = [("mix", each, SHORT) for each in found if each.key in IN_MIX]
        order += [("pile_up", each, OTHERS) for each in found if each.key in IN_PILE_UP]
        for workload in WORKLOADS:
            for connections in steps:
                for each in found:
                    everywhere = self.plan.every_step or each.key in AT_EVERY_STEP
                    if each.key != "onramp-no-lane" and (everywhere or connections in (steps[0], steps[-1])):
                        order.append((workload, each, connections))
        return [entry for entry in order if entry[0] in self.plan.sections]

    def _run_of(self, section: str, connections: int) -> Run:
        workload = section if section in WORKLOADS else "point_select"
        seconds, warmup = self.plan.seconds, self.plan.warmup
        if section == "oltp_read_write" and connections >= MANY:
            seconds, warmup = 2 * seconds, warmup + 1.5
        return Run(workload, connections, seconds, warmup, none_may_end=section in WORKLOADS)

    def _with_and_without(self, section: str, number: int, contender: Contender, run: Run) -> None:
        """Point selects alone, then the same beside what disturbs them."""
        self._measure(section, number, contender, contender.tcp, run, way="alone")
        other = (Run("sleep", LONG, ON_AND_ON) if section == "mix"
                 else Run("update_non_index_trx", AT_ONE_ROW, ON_AND_ON, tables=1, rows=1))
        try:
            beside = Beside(self.bench, contender.tcp, other)
        except Failed as failure:
            record = self._record(section, number, contender, run.connections)
            self._keep(record | {"way": "beside", "failure": str(failure)})
            return
        try:
            record = self._once(section, number, contender, contender.tcp, run, way="beside")
            record["beside"] = beside.stop()
        finally:
            beside.kill()
        self._settle(contender)

    def _settling(self) -> float:
        return SETTLING


def seconds_of(run: Run) -> float:
    """How long a run takes with all that is around it, about."""
    return run.warmup + run.seconds + AROUND_A_RUN + run.connections * AROUND_A_CLIENT
