"""What is measured, in rounds: in each, all contenders do the same step one after the other, then the next step."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from contenders import Address, Contender, Contenders
from load import Bench, Finished, Run, readings
from processes import Failed
from readings import Usage, kernel_memory, usage
from symbols import Recorder, perf_is_installed
from tables import size

# One measurement, as it is written to the file of all rounds.
Record = dict[str, Any]

SECTIONS = ["point_select", "latency", "connect", "idle", "profile"]

# Clients that connect, ask and disconnect at the same time.
CONNECTING = 64
# Clients of the latency rows: alone, and with a queue at the two cores.
LATENCY_STEPS = [1, 4]
# At these Onramp's functions are recorded, beside the largest step.
PROFILE_STEP = 1_024
# Milliseconds per second: bench reports milliseconds, think times are given in seconds.
MILLIS = 1_000.0
# A client that is to be silent waits this long after its first query, seconds.
SILENCE = 600.0
# Seconds that a contender gets after a run to close thousands of connections, and between two looks at it.
SETTLING = 30.0
SETTLING_STEP = 0.3
# A processor's share below which it counts as done; an idle MySQL uses 1 to 2 %.
SETTLED = 0.07


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int
    seconds: float  # measured in each run
    warmup: float  # seconds before
    steps: list[int]  # numbers of clients
    beyond: list[int]  # steps that are for Onramp only: no server's limit of open files reaches them
    idle: list[int]  # numbers of silent clients
    sections: list[str]


class Comparison:
    """Runs a plan and keeps the records."""

    def __init__(self, plan: Plan, contenders: Contenders, bench: Bench, say: Callable[[str], None]) -> None:
        """`say` gets a line for each measurement."""
        self.plan = plan
        self.contenders = contenders
        self.bench = bench
        self.say = say
        self.records: list[Record] = []

    def run(self, after_round: Callable[[], None]) -> None:
        """Everything, into `records`. `after_round` is called whenever a round is complete."""
        sections: dict[str, Callable[[int], None]] = {
            "point_select": self._point_selects, "latency": self._latencies, "connect": self._connects,
            "idle": self._idle}
        for number in range(1, self.plan.rounds + 1):
            for name, section in sections.items():
                if name in self.plan.sections:
                    section(number)
            after_round()
        if "profile" in self.plan.sections:
            self._profiles()

    def runs(self) -> int:
        """How many runs of the load generator there will be, those that are refused included."""
        found, onramps, steps = self.contenders.found, self._onramps, self.plan.steps + self.plan.beyond
        through = [each for each in found if each.front is not None or each.key == "mariadb"]
        a_round = {
            "point_select": len(found) * len(self.plan.steps) + len(onramps) * len(self.plan.beyond),
            "latency": sum(1 if each.unix is None else 2 for each in through) * len(LATENCY_STEPS),
            "connect": len(found), "idle": len(onramps) * len(self.plan.idle)}
        once = {"profile": len(onramps) * len({min(PROFILE_STEP, max(steps)), max(steps)})}
        chosen = self.plan.sections
        return (sum(a_round[name] for name in chosen if name in a_round) * self.plan.rounds
                + sum(once[name] for name in chosen if name in once))

    @property
    def _onramps(self) -> list[Contender]:
        return [contender for contender in self.contenders.found if contender.is_onramp]

    def _point_selects(self, number: int) -> None:
        for connections in self.plan.steps + self.plan.beyond:
            for contender in self.contenders.found:
                beyond = connections in self.plan.beyond and not contender.is_onramp
                if beyond and contender.refusal(connections) is None:
                    continue
                self._measure("point_select", number, contender, contender.tcp, self._load(connections))

    def _latencies(self, number: int) -> None:
        for connections in LATENCY_STEPS:
            for contender in self.contenders.found:
                if contender.key != "mariadb" and contender.front is None:
                    continue
                for way, address in (("tcp", contender.tcp), ("unix", contender.unix)):
                    if address is not None:
                        self._measure("latency", number, contender, address, self._load(connections), way=way)

    def _connects(self, number: int) -> None:
        for contender in self.contenders.found:
            run = Run("connect", CONNECTING, self.plan.seconds, self.plan.warmup)
            self._measure("connect", number, contender, contender.tcp, run)

    def _idle(self, number: int) -> None:
        for clients in self.plan.idle:
            for contender in self._onramps:
                # Two lines at least, after the first queries have been answered.
                run = Run("point_select", clients, max(2.0, self.plan.seconds), think_time=SILENCE)
                self._measure("idle", number, contender, contender.tcp, run, **self._before_clients(contender))

    def _profiles(self) -> None:
        if not perf_is_installed():
            self.say("skipped: the functions that take the time (perf is not installed)")
            return
        largest = max(self.plan.steps + self.plan.beyond)
        for contender in self._onramps:
            able = max((step for step in self.plan.steps + self.plan.beyond if contender.refusal(step) is None),
                       default=largest)
            for connections in sorted({min(PROFILE_STEP, able), able}):
                self._profile(contender, connections)

    def _profile(self, contender: Contender, connections: int) -> None:
        recorder = Recorder(self.bench.folder / "perf", self.plan.seconds)
        record = self._record("profile", 1, contender, connections)
        try:
            self.contenders.restart_the_dead(contender)
            pid = contender.programs["front"].pid
            # The recorder starts when the measured time has begun, and is given all of its own.
            run = Run("point_select", connections, self.plan.seconds + 2.0, self.plan.warmup)
            try:
                self.bench.run(contender.tcp, run, contender.programs, lambda: recorder.start(pid))
                record["symbols"] = recorder.symbols()
            finally:
                recorder.stop()
        except Failed as failure:
            record["failure"] = str(failure)
        self._keep(record)

    def _load(self, connections: int) -> Run:
        return Run("point_select", connections, self.plan.seconds, self.plan.warmup)

    def _before_clients(self, contender: Contender) -> Record:
        """Memory of a new process before clients come, and of the kernel."""
        try:
            self.contenders.restart_front(contender)
        except Failed:
            return {}  # which the measurement will say
        reading = usage(contender.programs["front"].pid)
        return {"resident_before": reading.resident if reading else None, "kernel_before": kernel_memory()}

    def _measure(self, section: str, number: int, contender: Contender, address: Address, run: Run,
                 **more: Any) -> None:
        """One run into one record, and the time to be done with it."""
        self._once(section, number, contender, address, run, **more)
        self._settle(contender)

    def _once(self, section: str, number: int, contender: Contender, address: Address, run: Run, **more: Any) -> Record:
        """One run into one record; what goes wrong becomes its failure."""
        record = self._record(section, number, contender, run.connections) | more
        kernel: list[int] = []
        try:
            refusal = contender.refusal(run.connections)
            if refusal is not None:
                raise Failed(refusal)
            self.contenders.restart_the_dead(contender)
            finished = self.bench.run(
                address, run, contender.programs, lambda: kernel.append(kernel_memory()))
            record |= figures(finished, run)
            record["kernel"] = kernel[0] if kernel else None
        except Failed as failure:
            record["failure"] = str(failure)
        self._note_the_dead(contender, record)
        self._keep(record)
        return record

    def _settle(self, contender: Contender) -> None:
        """Waits until the contender has closed what the last run left: the next one wants the machine for itself."""
        deadline = time.monotonic() + self._settling()
        pids = {part: program.pid for part, program in contender.programs.items() if program.running}
        before = readings(pids)
        while time.monotonic() < deadline:
            time.sleep(SETTLING_STEP)
            now = readings(pids)
            if used(before, now) <= SETTLED * SETTLING_STEP:
                return
            before = now

    def _settling(self) -> float:
        """Seconds that this may take."""
        return SETTLING

    def _note_the_dead(self, contender: Contender, record: Record) -> None:
        """A run during which a process ended has failed, whatever bench made of it."""
        for program in contender.programs.values():
            if not program.running:
                record["failure"] = f"{program.name} ended: {program.last_words()}"

    def _record(self, section: str, number: int, contender: Contender, connections: int) -> Record:
        return {"section": section, "round": number, "contender": contender.key, "connections": connections,
                "at": time.strftime("%H:%M:%S", time.gmtime())}

    def _keep(self, record: Record) -> None:
        self.records.append(record)
        self.say(line(record))


def figures(finished: Finished, run: Run) -> Record:
    """What is kept of a run. Rates are per second, latencies and waits milliseconds, memory bytes, processor time
    microseconds a query."""
    report, watched = finished.report, finished.watched
    latency = report["latency"]
    rate = report["queries"]["per_second"]
    parts = ["front", "server", "bench"]
    return {
        "per_second": rate,
        "events_per_second": report["events"]["per_second"],
        "avg": latency["avg"], "p50": latency["p50"], "p95": latency["p95"], "p99": latency["p99"],
        # An answer that never came waits longer than any that did.
        "longest": max(latency["max"] or 0.0, report["unfinished"]["oldest"] * MILLIS),
        "fair_share": run.connections / rate * MILLIS if rate > 0 else None,
        "errors": sum(error["count"] for error in report["errors"]),
        "connecting": report["connecting"],
        "resident": {part: watched.resident(part) for part in parts},
        "micros": {part: watched.micros_per_query(part) for part in parts},
    }


def used(before: dict[str, Usage], now: dict[str, Usage]) -> float:
    """Seconds of processor time of all parts between two readings."""
    spent = [now[part] - before[part] for part in now if part in before]
    return sum(each.user + each.system for each in spent)


def line(record: Record) -> str:
    """A record for those who watch."""
    head = f"{record['at']}  round {record['round']}  {record['section']:<12} {record['contender']:<15} " \
           f"{record['connections']:>7,}{' ' + record['way'] if 'way' in record else ''}"
    if "failure" in record:
        return f"{head}  {record['failure']}"
    if "symbols" in record:
        return f"{head}  {len(record['symbols'])} functions"
    if record["section"] == "idle":
        return f"{head}  {size(record['resident']['front'])} resident, {size(record.get('resident_before'))} before"
    if record["section"] == "connect":
        return f"{head}  {record['events_per_second']:>9,.0f} connects/s  p50 {record['p50']:.3f}  p95 {record['p95']:.3f} ms"
    if record["p50"] is None:
        return f"{head}  {record['per_second']:>9,.0f} queries/s  none ended what it began"
    return f"{head}  {record['per_second']:>9,.0f} queries/s  p50 {record['p50']:.3f}  p95 {record['p95']:.3f} ms"
