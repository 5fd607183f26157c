"""What is measured of thread pools in bad times: a flash crowd, a storm of impatient clients, locks that many wait for."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from contenders import Contender, Contenders
from load import Bench
from processes import Failed
from servers import OTHER, OTHER_ROWS, OTHER_USER, PASSWORD, TABLES, USER
from stream import Stream

sys.path.append(str(Path(__file__).resolve().parent.parent / "drivers"))
from harness import raw  # noqa: E402

OVERLOAD_SECTIONS = ["crowd", "storm", "locks"]

# Onramp's variants: key, name, options. Clients of the bounded one would rather be told than wait.
ONRAMPS = [
    ("onramp-native", "Onramp", []),
    ("onramp-oldest", "Onramp, oldest first", ["--adaptive-lifo", "off"]),
    ("onramp-bounded", "Onramp, bounded", ["--queue-wait-limit", "500ms", "--queue-delay-target", "50ms"]),
    ("onramp-percona", "Onramp, profile percona", ["--thread-pool-profile", "percona"]),
]

# Those that may tell clients by their accounts, and so meet the crowd of one account too.
BY_ACCOUNT = ["onramp-native"]

# A statement that keeps a core for some milliseconds: what a refusal costs beside it is nothing, so that one machine can
# both serve and ask for ten times as much.
HEAVY = ["sum_range", "--range-size", "20000"]
# In the crowd: regular clients, and how many more come; in the storm: clients.
REGULAR, CROWD, STORM = 200, 4_000, 3_000
# What they ask for, as a share of the capacity.
REGULAR_SHARE, CROWD_SHARE, STORM_SHARE = 0.5, 10.0, 0.75
# Milliseconds that clients of the storm wait.
PATIENCE = 1_000
# Clients who wait for a lock, who read beside them, and who take a named lock in turn.
WAITING, READERS, TURNS = 500, 64, 100

Record = dict[str, Any]


@dataclass(frozen=True)
class Times:
    """Seconds that each part takes."""

    capacity: float = 4.0
    calm: float = 6.0
    crowd: float = 60.0
    after: float = 15.0
    table_lock: float = 5.0
    after_storm: float = 25.0
    lock: float = 4.0

    @staticmethod
    def quick() -> "Times":
        """For a look."""
        return Times(2.0, 4.0, 8.0, 6.0, 3.0, 10.0, 2.0)


class BadTimes:
    """Goes through the sections, and keeps the records."""

    def __init__(self, times: Times, contenders: Contenders, bench: Bench, sections: list[str],
                 say: Callable[[str], None]) -> None:
        """`say` gets a line for each measurement."""
        self.times, self.contenders, self.bench, self.sections, self.say = times, contenders, bench, sections, say
        self.records: list[Record] = []

    def run(self) -> None:
        """Everything, into `records`."""
        parts: dict[str, list[Callable[[Contender], Record]]] = {
            "crowd": [self.crowd, self.crowd_of_one_account], "storm": [self.storm], "locks": [self.global_lock, self.table_lock, self.named_lock]}
        for server in {id(each.server): each.server for each in self.contenders.found}.values():
            server.prepare_other(self.bench.onramp)
        for section in self.sections:
            for part in parts[section]:
                for contender in self.contenders.found:
                    if part != self.crowd_of_one_account or contender.key in BY_ACCOUNT:
                        self._one(part, contender)

    def _one(self, part: Callable[[Contender], Record], contender: Contender) -> None:
        record: Record = {"section": part.__name__, "contender": contender.key, "round": 1}
        try:
            self.contenders.restart_the_dead(contender)
            record |= part(contender)
        except (Failed, OSError, AssertionError, EOFError) as failure:
            record["failure"] = str(failure) or type(failure).__name__
        self.records.append(record)
        self.say(f"{part.__name__}, {contender.name}: " + ", ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in record.items() if key not in ("section", "contender", "round")))

    def crowd(self, contender: Contender) -> Record:
        """Ten times what the server can, for a while: those who ask for it have an account of their own."""
        return self._crowd(contender, OTHER_USER)

    def crowd_of_one_account(self, contender: Contender) -> Record:
        """Nobody can tell them from the regular clients."""
        return self._crowd(contender, USER)

    def _crowd(self, contender: Contender, user: str) -> Record:
        capacity = self._capacity(contender)
        times, regular_rate = self.times, capacity * REGULAR_SHARE
        whole = times.calm + times.crowd + times.after + 5.0  # in which the crowd connects
        drop = ["--ignore-errors", "all", "--after-error", "drop"]
        with self._stream(contender, "regular", HEAVY, REGULAR, whole, "--rate", str(regular_rate), *drop) as regular:
            regular.wait_for_clients()
            time.sleep(times.calm)
            calm = regular.p95(regular.begun, time.monotonic())
            with self._stream(contender, "crowd", HEAVY, CROWD, times.crowd, "--rate", str(capacity * CROWD_SHARE),
                              *drop, user=user) as crowd:
                crowd.wait_for_clients()
                begun = time.monotonic()
                time.sleep(times.crowd)
                ended = time.monotonic()
                goodput = regular.rate(begun, ended) + crowd.rate(begun, ended)
                came = crowd.finish()
            stayed = regular.finish()
        return {
            "capacity": capacity, "goodput": goodput / capacity, "regular_rate": regular.rate(begun, ended) / regular_rate,
            "regular_p99": stayed["latency"]["p99"], "crowd_p99": came["latency"]["p99"],
            "longest": max(came["latency"]["max"] or 0.0, stayed["latency"]["max"]),
            "refused": errors(came) + errors(stayed), "codes": codes(came) | codes(stayed),
            "normal_after": regular.seconds_until_normal(ended, 0.9 * regular_rate, calm)}

    def storm(self, contender: Contender) -> Record:
        """Impatient clients, after a table lock of some seconds."""
        capacity = self._capacity(contender)
        times, rate = self.times, capacity * STORM_SHARE
        whole = times.calm + times.table_lock + times.after_storm
        with self._client(contender.server.port) as server:
            before = selects(server)
            with self._stream(contender, "storm", HEAVY, STORM, whole, "--rate", str(rate), "--ignore-errors", "all",
                              "--give-up", str(PATIENCE)) as storm:
                storm.wait_for_clients()
                time.sleep(times.calm)
                calm = storm.p95(storm.begun, time.monotonic())
                tables = ", ".join(f"sbtest{number} WRITE" for number in range(1, TABLES + 1))
                said(server.query(f"LOCK TABLES {tables}"))
                time.sleep(times.table_lock)
                said(server.query("UNLOCK TABLES"))
                unlocked = time.monotonic()
                report = storm.finish()
            executed = selects(server) - before
        answered = report["queries"]["read"]
        return {
            "rate": rate, "given_up": errors(report), "executed": executed, "answered": answered,
            "for_nobody": max(0, executed - answered) / max(1, executed),
            "normal_after": storm.seconds_until_normal(unlocked, 0.9 * rate, calm)}

    def global_lock(self, contender: Contender) -> Record:
        """FLUSH TABLES WITH READ LOCK against writers."""
        return self._held(
            contender, ["update_non_index"], "FLUSH TABLES WITH READ LOCK", "SELECT COUNT(*) FROM sbtest1 WHERE id < 10")

    def table_lock(self, contender: Contender) -> Record:
        """LOCK TABLES against readers of the table."""
        return self._held(
            contender, ["point_select", "--tables", "1"], "LOCK TABLES sbtest1 WRITE",
            "SELECT COUNT(*) FROM sbtest1 WHERE id < 10")

    def named_lock(self, contender: Contender) -> Record:
        """A named lock that many take in turn."""
        with self._readers(contender, self.times.lock) as readers:
            readers.wait_for_clients()
            time.sleep(self.times.calm / 2)
            begun = time.monotonic()
            turns = self._turns(contender)
            ended = time.monotonic()
            readers.finish()
        return {"turns": turns / (ended - begun), "readers_before": readers.rate(readers.begun, begun),
                "readers_beside": readers.rate(begun, ended)}

    def _held(self, contender: Contender, workload: list[str], lock: str, question: str) -> Record:
        """Many clients wait for what one holds: how others fare, and how soon the holder's own statements run."""
        hold = self.times.lock
        with self._readers(contender, hold) as readers, self._stream(
                contender, "waiting", workload, WAITING, self.times.calm / 2 + hold + 6.0, "--think-time", "100",
                "--ignore-errors", "all") as waiting, self._client(contender.tcp.port) as holder:
            readers.wait_for_clients()
            waiting.wait_for_clients()
            time.sleep(self.times.calm / 2)
            locking = time.monotonic()
            said(holder.query(lock))
            locked = time.monotonic()
            time.sleep(hold / 2)
            asked = took(holder, question)
            time.sleep(hold / 2)
            unlocking = time.monotonic()
            unlock = took(holder, "UNLOCK TABLES")
            time.sleep(2.0)
            readers.finish()
            waiting.finish()
        return {
            "lock_ms": (locked - locking) * 1_000.0, "question_ms": asked, "unlock_ms": unlock,
            "readers_before": readers.rate(readers.begun, locking), "readers_beside": readers.rate(locked, unlocking),
            "readers_p99": readers.report["latency"]["p99"], "readers_longest": readers.report["latency"]["max"],
            "waiting_before": waiting.rate(waiting.begun, locking),
            "waiting_after": waiting.rate(unlocking + 1.0, unlocking + 3.0)}

    def _turns(self, contender: Contender) -> int:
        """How often clients had the lock in turn."""
        until, counts = time.monotonic() + self.times.lock, list[int]()

        def take_turns() -> None:
            count = 0
            with self._client(contender.tcp.port) as client:
                while time.monotonic() < until:
                    if client.value("SELECT GET_LOCK('turn', 30)") == b"1":
                        client.value("SELECT 1")
                        client.value("SELECT RELEASE_LOCK('turn')")
                        count += 1
            counts.append(count)

        threads = [threading.Thread(target=take_turns, daemon=True) for _ in range(TURNS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
        if len(counts) < TURNS:
            raise Failed(f"{TURNS - len(counts)} clients never got the lock, or lost their connection")
        return sum(counts)

    def _capacity(self, contender: Contender) -> float:
        """Heavy statements a second that 64 clients get one after the other."""
        with self._stream(contender, "capacity", HEAVY, 64, self.times.capacity) as stream:
            rate: float = stream.finish()["events"]["per_second"]
        return rate

    @contextmanager
    def _readers(self, contender: Contender, hold: float) -> Iterator[Stream]:
        """Clients who read another table than anybody locks."""
        workload = ["point_select", "--db", OTHER, "--tables", "1", "--table-size", str(OTHER_ROWS)]
        seconds = self.times.calm / 2 + hold + 8.0
        with self._stream(contender, "readers", workload, READERS, seconds, "--think-time", "5") as stream:
            yield stream

    @contextmanager
    def _stream(self, contender: Contender, name: str, workload: list[str], clients: int, seconds: float,
                *more: str, user: str = USER) -> Iterator[Stream]:
        stream = Stream(self.bench, contender.tcp, name, workload, clients, seconds, list(more), user)
        try:
            yield stream
        finally:
            stream.kill()

    @contextmanager
    def _client(self, port: int) -> Iterator[raw.Connection]:
        with raw.connect(SimpleNamespace(host="127.0.0.1", port=port), USER, PASSWORD, timeout=60, schema="sbtest") as client:
            yield client


def errors(report: Record) -> int:
    """How many there were."""
    return sum(error["count"] for error in report["errors"])


def codes(report: Record) -> dict[str, str]:
    """Each error with the words of the first."""
    return {str(error["code"]): error["example"] for error in report["errors"]}


def selects(client: raw.Connection) -> int:
    """How many SELECTs the server has begun."""
    answer = client.query("SHOW GLOBAL STATUS LIKE 'Com_select'")
    return int(answer.rows[0][1])


def took(client: raw.Connection, statement: str) -> float:
    """Milliseconds until the answer."""
    begun = time.monotonic()
    said(client.query(statement))
    return (time.monotonic() - begun) * 1_000.0


def said(answer: Any) -> None:
    """Raises Failed where it is an error."""
    if isinstance(answer, raw.Err):
        raise Failed(str(answer))
