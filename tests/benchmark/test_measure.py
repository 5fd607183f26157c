"""Whole comparisons with a load generator and servers that are made up."""

import unittest
from unittest import mock

import load
from contenders import Address, Contender, Contenders, Setting
from load import Run
from measure import Comparison, Plan
from processes import Failed
from stubs import Stubs

REPORT = {
    "queries": {"per_second": 1_000.0}, "events": {"per_second": 1_000.0}, "errors": [{"code": 1040, "count": 3}],
    "latency": {"avg": 1.0, "p50": 0.9, "p95": 2.0, "p99": 3.0, "max": 4.0}, "connecting": 0.1, "failure": None,
    "wrong_answers": 0, "unfinished": {"events": 1, "oldest": 2.5}}

# A load generator: lines as bench prints them, then a report. With 13 connections it is refused, with 99 it hangs.
STUB = """\
#!/bin/sh
while [ $# -gt 1 ]; do
  case "$1" in --json) json="$2" ;; --connections) connections="$2" ;; esac
  shift
done
if [ "$connections" = 13 ]; then echo "onramp bench: 1040: Too many connections" >&2; exit 1; fi
echo "[ 1s ] conns: 4 tps: 1.00 qps: 1000.00 (warm-up)"
if [ "$connections" = 99 ]; then echo "connecting: 5 of 99" >&2; exec sleep 600; fi
echo "[ 2s ] conns: 4 tps: 1.00 qps: 1000.00"
cat > "$json" <<'END'
REPORT
END
"""


class MadeUp(Stubs):
    """With this load generator."""

    SCRIPT, REPORT = STUB, REPORT


class BenchTest(MadeUp):
    """One run."""

    def test_the_report_and_the_samples_come_back(self) -> None:
        begun: list[bool] = []
        programs = {"server": self.server("a").program}
        finished = self.bench.run(Address(port=1), Run("point_select", 4, 1.0), programs, lambda: begun.append(True))
        self.assertEqual(finished.report, REPORT)
        self.assertEqual(begun, [True])
        self.assertEqual([sorted(sample.usage) for sample in finished.watched.samples][0], ["bench", "server"])

    def test_a_run_that_is_refused_says_why(self) -> None:
        with self.assertRaisesRegex(Failed, "^1040: Too many connections$"):
            self.bench.run(Address(port=1), Run("point_select", 13, 1.0), {})

    def test_a_run_that_hangs_is_given_up_with_its_last_words(self) -> None:
        with mock.patch.object(load, "PATIENCE", 1.0), self.assertRaisesRegex(Failed, "^not done after 2 s; connecting: 5 of"):
            self.bench.run(Address(port=1), Run("point_select", 99, 1.0), {})
        assert self.bench.process is not None
        self.assertIsNotNone(self.bench.process.poll())


class ComparisonTest(MadeUp):
    """Many runs."""

    def comparison(self, plan: Plan) -> Comparison:
        """Of two servers by themselves, one of which takes 10 clients."""
        setting = Setting(self.folder, self.bench.onramp, None, 20_000, 2, 100, lambda _: None)
        contenders = Contenders(setting)
        contenders.found = [
            Contender("a", "A", self.server("a"), tcp=Address(port=1)),
            Contender("b", "B", self.server("b"), tcp=Address(port=2), most=10, why="it is small")]
        return Comparison(plan, contenders, self.bench, lambda _: None)

    def test_contenders_take_turns_and_failures_stop_nothing(self) -> None:
        plan = Plan(2, 1.0, 0.0, steps=[4, 13], beyond=[50], idle=[], sections=["point_select"])
        comparison, rounds = self.comparison(plan), []
        comparison.run(lambda: rounds.append(len(comparison.records)))
        self.assertEqual(rounds, [5, 10])
        seen = [(record["round"], record["contender"], record["connections"], record.get("failure"))
                for record in comparison.records[:5]]
        # Beyond a server's reach, only the known reason is noted.
        self.assertEqual(seen, [
            (1, "a", 4, None), (1, "b", 4, None), (1, "a", 13, "1040: Too many connections"),
            (1, "b", 13, "at most 10 clients: it is small"), (1, "b", 50, "at most 10 clients: it is small")])

    def test_figures_have_the_units_that_are_promised(self) -> None:
        comparison = self.comparison(Plan(1, 1.0, 0.0, [4], [], [], ["point_select"]))
        comparison.run(lambda: None)
        record = comparison.records[0]
        self.assertEqual(record["fair_share"], 4.0)
        self.assertEqual(record["errors"], 3)
        # The oldest that was not answered waited longer than any answer took.
        self.assertEqual(record["longest"], 2_500.0)
        self.assertGreater(record["resident"]["server"], 0)

    def test_a_server_that_ends_makes_the_run_a_failure(self) -> None:
        comparison = self.comparison(Plan(1, 1.0, 0.0, [4], [], [], ["point_select"]))
        server = comparison.contenders.found[0].server
        run = self.bench.run

        def run_and_crash(*arguments: object) -> object:
            finished = run(*arguments)  # type: ignore[arg-type]
            server.program.log.write_text("out of memory\n")
            server.stop()
            return finished

        with mock.patch.object(self.bench, "run", side_effect=run_and_crash):
            comparison.run(lambda: None)
        self.assertEqual(comparison.records[0]["failure"], "a ended: out of memory")


if __name__ == "__main__":
    unittest.main()
