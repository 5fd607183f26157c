"""What is read from a run: lines, samples, reports, command lines."""

import functools
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import load
from contenders import Address
from load import Bench, Run, Watched, read_report
from processes import Failed
from readings import Usage


def interval(second: int, rate: float, more: str = "") -> str:
    """A line as bench prints it."""
    return (f"[ {second}s ] conns: 64 tps: {rate:.2f} qps: {rate:.2f} (r/w/o: {rate:.2f}/0.00/0.00) "
            f"lat (ms,95%): 0.30 err/s: 0.00 reconn/s: 0.00{more}")


class WatchedTest(unittest.TestCase):
    """Samples at the lines of a run."""

    def feed(self, lines: list[tuple[float, str]]) -> Watched:
        """Each line at its second; the front end uses a tenth of a second of user time between two of them."""
        watched, reading = Watched(), Usage(0.0, 0.0, 1_000)
        for now, text in lines:
            reading = Usage(reading.user + 0.1, reading.system + 0.3, reading.resident + 500)
            watched.line(text, now, functools.partial(dict, front=reading))
        return watched

    def test_processor_time_is_that_of_the_measured_queries(self) -> None:
        watched = self.feed([
            (1.0, interval(1, 9_999, " (warm-up)")), (2.0, interval(2, 50_000, " (warm-up)")),
            (3.0, interval(3, 10_000)), (4.5, interval(4, 20_000))])
        micros = watched.micros_per_query("front")
        assert micros is not None
        # 0.2 s for 10,000 x 1 s + 20,000 x 1.5 s = 40,000 queries.
        self.assertAlmostEqual(micros[0], 5.0)
        self.assertAlmostEqual(micros[1], 15.0)

    def test_the_largest_memory_of_the_measured_time_counts(self) -> None:
        watched = self.feed([(1.0, interval(1, 10)), (2.0, interval(2, 10))])
        self.assertEqual(watched.resident("front"), 2_000)
        self.assertIsNone(watched.resident("server"))

    def test_one_sample_or_no_query_tells_nothing(self) -> None:
        self.assertIsNone(self.feed([(1.0, interval(1, 10))]).micros_per_query("front"))
        self.assertIsNone(self.feed([(1.0, interval(1, 0)), (2.0, interval(2, 0))]).micros_per_query("front"))

    def test_other_lines_are_no_samples(self) -> None:
        watched = Watched()
        self.assertFalse(watched.line("queries:", 1.0, dict))
        self.assertFalse(watched.line(interval(1, 10, " (warm-up)"), 2.0, dict))
        self.assertTrue(watched.line(interval(2, 10), 3.0, dict))
        self.assertEqual(len(watched.samples), 2)


class ReportTest(unittest.TestCase):
    """What bench leaves behind."""

    def read(self, report: object, status: int, words: str) -> dict[str, object]:
        """Through a file, as it comes."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            if report is not None:
                path.write_text(json.dumps(report))
            return read_report(path, status, words)

    def test_a_good_one_is_returned(self) -> None:
        self.assertEqual(self.read({"failure": None, "wrong_answers": 0}, 0, "")["failure"], None)

    def test_reasons_are_found_wherever_they_are(self) -> None:
        cases = [
            (None, 1, "onramp bench: 1040: Too many connections", "1040: Too many connections"),
            ({"failure": "2013: lost"}, 1, "", "2013: lost"),
            ({"failure": None, "wrong_answers": 2, "wrong_answer": "x"}, 1, "", "2 wrong answers, such as x"),
            ({"failure": None}, 1, "onramp bench: interrupted", "interrupted"),
        ]
        for report, status, words, reason in cases:
            with self.subTest(reason=reason), self.assertRaisesRegex(Failed, f"^{reason}$"):
                self.read(report, status, words)


    def test_statements_may_count_without_events(self) -> None:
        report = {"failure": "error 2013: no event ended in the measured time of 1s", "queries": {"per_second": 5.0},
                  "latency": {"p50": 0.0, "max": 0.0}}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.json"
            path.write_text(json.dumps(report))
            self.assertEqual(read_report(path, 1, "", True)["latency"], {"p50": None, "max": None})
            with self.assertRaisesRegex(Failed, "no event ended"):
                read_report(path, 1, "")
            path.write_text(json.dumps(report | {"queries": {"per_second": 0.0}}))
            with self.assertRaisesRegex(Failed, "no event ended"):
                read_report(path, 1, "", True)


class CommandTest(unittest.TestCase):
    """What bench is told."""

    def command(self, run: Run, address: Address, has_driver: bool = False) -> str:
        """As one text."""
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(load, "has_option", return_value=has_driver):
            bench = Bench(Path("/onramp"), Path(folder))
            return " ".join(bench.command(address, run, Path("/report.json")))

    def test_short_runs_have_several_lines(self) -> None:
        run = Run("point_select", 16, 1.0, warmup=0.5)
        text = self.command(run, Address(port=4000))
        self.assertIn("--host 127.0.0.1 --port 4000 ", text)
        self.assertIn("--time 1 --warmup 0.5 --think-time 0 --report-interval 0.25", text)

    def test_a_socket_takes_the_place_of_the_port(self) -> None:
        text = self.command(Run("connect", 64, 5.0), Address(socket=Path("/s")))
        self.assertIn("--socket /s ", text)
        self.assertNotIn("--port", text)

    def test_the_driver_is_chosen_where_bench_has_several(self) -> None:
        run = Run("idle", 1, 5.0)
        self.assertIn("--driver auto", self.command(run, Address(port=1), has_driver=True))
        self.assertNotIn("--driver", self.command(run, Address(port=1)))


if __name__ == "__main__":
    unittest.main()
