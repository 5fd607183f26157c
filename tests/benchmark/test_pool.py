"""The comparison of thread pools: what is run in which order, and the page from figures that were made up."""

import re
import stat
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import beside
import pool
import pool_measure
from beside import Beside
from book import Book
from command_line import ROOT
from contenders import Address, Contender, Contenders, Setting
from load import Bench, Run
from pool_measure import AT_ONE_ROW, PoolComparison, PoolPlan
from pool_report import BEGIN, END, gap, kept, pool_page
from processes import Failed
from report import put_between_markers
from stubs import Stubs

REPORT = {
    "queries": {"per_second": 1_000.0}, "events": {"per_second": 500.0}, "errors": [],
    "latency": {"avg": 1.0, "p50": 0.9, "p95": 2.0, "p99": 3.0, "max": 4.0}, "connecting": 0.1, "failure": None,
    "wrong_answers": 0, "unfinished": {"events": 0, "oldest": 0.0}}

# A load generator. One that is to go on and on ends with its report at a Ctrl-C; of 17 clients none ever comes.
STUB = """\
#!/bin/sh
echo "$@" >> "$(dirname "$0")/commands"
while [ $# -gt 1 ]; do
  case "$1" in --json) json="$2" ;; --connections) connections="$2" ;; --time) seconds="$2" ;; esac
  shift
done
finish() {
  cat > "$json" <<'END'
REPORT
END
  exit 0
}
trap finish INT
echo "[ 1s ] conns: 0 tps: 1.00 qps: 1000.00 (warm-up)"
if [ "$connections" = 17 ]; then echo "onramp bench: 1040: Too many connections" >&2; exit 1; fi
echo "[ 2s ] conns: $connections tps: 1.00 qps: 1000.00"
[ "$seconds" = 600 ] && while :; do sleep 0.05; done
finish
"""


class MadeUp(Stubs):
    """With this load generator."""

    SCRIPT, REPORT = STUB, REPORT

    def contender(self, key: str) -> Contender:
        """A server that is running."""
        return Contender(key, key, self.server(key), tcp=Address(port=1))

    def comparison(self, keys: list[str], sections: list[str], deadline: float = 600.0, **more: Any) -> PoolComparison:
        """Of these contenders, one round of at most `deadline` seconds."""
        options: dict[str, Any] = {"rounds": 1, "seconds": 1.0, "warmup": 0.0, "steps": [4, 8, 16], "beyond": [], "idle": [],
                                   "every_step": False} | more
        contenders = Contenders(Setting(self.folder, self.bench.onramp, None, 20_000, 2, 100, lambda _: None))
        contenders.found = [self.contender(key) for key in keys]
        plan = PoolPlan(sections=sections, deadline=time.monotonic() + deadline, **options)
        return PoolComparison(plan, contenders, self.bench, lambda _: None)


class OrderTest(MadeUp):
    """Who is measured when."""

    def run_all(self, *arguments: Any, **more: Any) -> list[tuple[str, int]]:
        """Contender and clients of each record."""
        comparison = self.comparison(*arguments, **more)
        comparison.run(lambda: None)
        self.assertEqual(len(comparison.records), comparison.runs())
        return [(record["contender"], record["connections"]) for record in comparison.records]

    def test_some_are_measured_at_the_first_and_the_last_step_only(self) -> None:
        keys = ["mariadb", "onramp-no-lane", "onramp-percona"]
        self.assertEqual(self.run_all(keys, ["update_non_index"]), [
            ("mariadb", 4), ("onramp-percona", 4), ("mariadb", 8), ("mariadb", 16), ("onramp-percona", 16)])
        self.assertEqual(len(self.run_all(["onramp-mariadb"], ["oltp_read_write"], every_step=True)), 3)

    def test_long_transactions_of_many_get_more_time(self) -> None:
        with mock.patch.object(pool_measure, "MANY", 8):
            self.comparison(["mariadb"], ["update_non_index", "oltp_read_write"]).run(lambda: None)
        commands = (self.folder / "commands").read_text().splitlines()
        times = [command.partition(" --time ")[2].split()[0:3] for command in commands]
        short, long = ["1", "--warmup", "0"], ["2", "--warmup", "1.5"]
        self.assertEqual(times, [short, short, short, short, long, long])

    def test_nothing_begins_that_would_end_too_late(self) -> None:
        comparison = self.comparison(["mariadb"], ["update_non_index", "mix"], deadline=0.0)
        comparison.run(lambda: None)
        self.assertEqual((comparison.records, comparison.left_out), ([], 4))

    def test_the_defaults_fit_into_their_time(self) -> None:
        with tempfile.NamedTemporaryFile() as binary:
            plan = pool.plan_of(pool.parse(["--onramp", binary.name]), 0.0)
        keys = ["mariadb", "mariadb-pool", *(key for key, _, _ in pool_measure.ONRAMPS)]
        comparison = self.comparison(keys, plan.sections, steps=plan.steps, rounds=plan.rounds, seconds=plan.seconds,
                                     warmup=plan.warmup)
        self.assertLess(comparison.seconds(), plan.deadline)


class BesideTest(MadeUp):
    """A load beside the one that is measured."""

    def test_point_selects_are_measured_without_and_with_it(self) -> None:
        comparison = self.comparison(["mariadb"], ["mix", "pile_up"])
        comparison.run(lambda: None)
        self.assertEqual([(record["section"], record["way"]) for record in comparison.records],
                         [("mix", "alone"), ("mix", "beside"), ("pile_up", "alone"), ("pile_up", "beside")])
        self.assertNotIn("beside", comparison.records[0])
        self.assertEqual(comparison.records[3]["beside"], {"events_per_second": 500.0, "p99": 3.0, "errors": 0})
        commands = (self.folder / "commands").read_text().splitlines()
        self.assertEqual([command.split()[2] for command in commands],
                         ["point_select", "sleep", "point_select", "point_select", "update_non_index_trx", "point_select"])
        self.assertIn(f"--tables 1 --table-size 1 --rand-type uniform --connections {AT_ONE_ROW} ", commands[4])

    def test_one_that_does_not_begin_is_a_failure_with_its_reason(self) -> None:
        with mock.patch.object(pool_measure, "LONG", 17):
            comparison = self.comparison(["mariadb"], ["mix"])
            comparison.run(lambda: None)
        self.assertEqual(comparison.records[1]["failure"],
                         "the load beside it did not begin: onramp bench: 1040: Too many connections")

    def test_one_that_does_not_end_is_killed(self) -> None:
        other = Beside(self.stub("trap '' INT; echo '[ 1s ] conns: 3 tps: 1.00'"), Address(port=1), Run("sleep", 3, 600.0))
        with mock.patch.object(beside, "ENDING", 0.1):
            self.assertEqual(list(other.stop()), ["failure"])
        self.assertIsNotNone(other.process.poll())

    def test_clients_are_waited_for_no_longer_than_a_while(self) -> None:
        slow = self.stub("echo '[ 1s ] conns: 2 tps: 1.00'")
        with mock.patch.object(beside, "CONNECTING", 0.2), self.assertRaisesRegex(Failed, "did not begin"):
            Beside(slow, Address(port=1), Run("sleep", 3, 600.0))

    def stub(self, command: str) -> Bench:
        """A load generator that runs a command of the shell and then stays."""
        binary = self.folder / "stub"
        binary.write_text(f"#!/bin/sh\n{command}\nexec sleep 600\n")
        binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
        return Bench(binary, self.folder / "other")


def record(section: str, contender: str, connections: int, number: int, rate: float, **more: Any) -> dict[str, Any]:
    """A run that went well."""
    return {"section": section, "contender": contender, "connections": connections, "round": number, "per_second": rate,
            "events_per_second": rate, "p95": 2.0, "p99": 3.0, "errors": 0, **more}


def made_up() -> Book:
    """Two rounds of a server and Onramp."""
    records = [
        record("update_non_index", "mariadb", 64, 1, 1_000.0), record("update_non_index", "mariadb", 15_000, 1, 100.0),
        record("update_non_index", "mariadb", 64, 2, 1_200.0), record("update_non_index", "mariadb", 15_000, 2, 240.0),
        record("update_non_index", "onramp-native", 64, 1, 900.0, errors=2),
        record("update_non_index", "onramp-native", 15_000, 1, 1_000.0, p95=16_000.0),
        {"section": "update_non_index", "contender": "onramp-native", "connections": 15_000, "round": 2,
         "failure": "1040: Too many connections"},
        record("update_non_index_trx", "mariadb", 64, 1, 1_800.0, events_per_second=600.0),
        record("mix", "onramp-native", 256, 1, 90_000.0, way="alone", p99=4.0),
        record("mix", "onramp-native", 256, 1, 80_000.0, way="beside", p99=6.0, beside={"events_per_second": 15.96}),
        record("mix", "onramp-native", 256, 2, 70_000.0, way="alone", p99=5.0),
        {"section": "mix", "contender": "onramp-native", "connections": 256, "round": 2, "way": "beside", "failure": "lost",
         "beside": {"failure": "not ended"}},
    ]
    contenders: list[Any] = [
        {"key": "mariadb", "name": "MariaDB", "front": False, "onramp": False},
        {"key": "onramp-native", "name": "Onramp", "front": True, "onramp": True}]
    return {
        "date": "2026-11-22", "command": "make compare-pool", "versions": {"MariaDB": "mariadbd  Ver 10.11.6-MariaDB-1"},
        "machine": {"cores": 2, "processor": "AMD EPYC", "kernel": "6.18.0", "memory": 24 << 30, "open_files": 20_000},
        "plan": {"rounds": 2, "seconds": 2.0, "warmup": 0.5, "left_out": 3}, "contenders": contenders,
        "skipped": ["MySQL: no folder"], "records": records}


class PoolPageTest(unittest.TestCase):
    """What stands on the page."""

    def setUp(self) -> None:
        self.text = pool_page(made_up())

    def test_what_and_how_is_said_first(self) -> None:
        self.assertTrue(self.text.startswith("## The thread pool under load\n\n    make compare-pool\n"))
        self.assertIn("MariaDB 10.11.6", self.text)
        self.assertIn("2 rounds; ", self.text)
        self.assertIn("Not measured here: MySQL: no folder.", self.text)
        self.assertIn("3 measurements were left out", self.text)

    def test_rates_stand_beside_what_is_kept(self) -> None:
        self.assertIn("| queries/s at | 64 | 15,000 | kept at 15,000 | errors |", self.text)
        self.assertIn("| MariaDB | 1,100 | 170 | 15 % | 0 |", self.text)
        # A round that failed does not count, and a step may itself be the best.
        self.assertIn("| Onramp | 900 | 1,000 | 100 % | 2 |", self.text)
        self.assertIn("| Onramp | 2.00 | 16,000 |", self.text)

    def test_statements_count_where_no_transaction_ended(self) -> None:
        book = made_up()
        book["records"] += [record("oltp_read_write", "mariadb", 15_000, 1, 5_000.0, p95=None)]
        text = pool_page(book)
        self.assertIn("| MariaDB | 5,000 | 0 |", text)
        self.assertIn("| MariaDB | (a) |\n\n- (a) none ended within the run", re.sub(r"\n{3,}", "\n\n", text))

    def test_each_round_is_compared_with_itself(self) -> None:
        self.assertEqual(kept(made_up(), "update_non_index", "mariadb", 15_000), [0.1, 0.2])
        self.assertEqual(gap(made_up(), "mariadb", 64), [0.6])
        self.assertIn("| MariaDB | 60 % |", self.text)

    def test_what_is_disturbed_stands_beside_what_is_not(self) -> None:
        self.assertIn("| Onramp | 90,000 / 70,000 | 80,000 / (a) | 4.00 / 5.00 | 6.00 / (a) | 1.50 | 0 / (a) | 16.0 / (b) |",
                      self.text)
        self.assertIn("- (a) lost\n- (b) not ended", self.text)

    def test_nothing_measured_is_a_short_page(self) -> None:
        empty = made_up()
        empty["records"] = []
        self.assertNotIn("|", pool_page(empty))

    def test_both_comparisons_keep_to_their_own_part(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            put_between_markers(path, "first\n")
            path.write_text(f"{path.read_text()}\n{BEGIN}\nold\n{END}\nby hand\n")
            put_between_markers(path, "second\n", BEGIN, END)
            put_between_markers(path, "third\n")
            text = path.read_text()
        self.assertNotIn("first", text)
        self.assertIn(f"{BEGIN}\n\nsecond\n\n{END}\nby hand\n", text)
        self.assertLess(text.index("third"), text.index("second"))


class CommandLineTest(unittest.TestCase):
    """Options."""

    def test_a_quick_look_leaves_the_page_alone(self) -> None:
        with tempfile.NamedTemporaryFile() as binary:
            arguments = pool.parse(["--onramp", binary.name, "--quick", "--minutes", "2"])
        self.assertNotIn(ROOT / "docs", [*arguments.output.parents, *arguments.json.parents])
        plan = pool.plan_of(arguments, 100.0)
        self.assertEqual((plan.rounds, plan.steps, plan.deadline), (1, [64, 1_024], 220.0))


if __name__ == "__main__":
    unittest.main()
