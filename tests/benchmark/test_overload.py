"""Bad times: what is read off the lines of a load, and the page from figures that were made up."""

import stat
import tempfile
import time
import unittest
from pathlib import Path

from book import Book
from contenders import Address
from load import Bench
from overload_report import overload_page
from processes import Failed
from stream import INTERVAL, Line, Stream

# A load generator that prints three lines and its report.
STUB = """\
#!/bin/sh
while [ $# -gt 1 ]; do
  case "$1" in --json) json="$2" ;; --connections) connections="$2" ;; esac
  shift
done
[ "$connections" = 17 ] && { echo "onramp bench: 1040: Too many connections" >&2; exit 1; }
echo "[ 0s ] conns: 5 tps: 10.00 qps: 10.00 (r/w/o: 10.00/0.00/0.00) lat (ms,95%): 1.50 err/s: 0.00 reconn/s: 0.00"
echo "[ 1s ] conns: 5 tps: 0.00 qps: 0.00 (r/w/o: 0.00/0.00/0.00) lat (ms,95%): NaN err/s: 7.00 reconn/s: 0.00"
echo "something else"
echo '{"events": {"total": 5}}' > "$json"
"""


class Streams(unittest.TestCase):
    """What a load says of itself."""

    def setUp(self) -> None:
        """Writes the load generator."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = Path(folder.name) / "onramp"
        program.write_text(STUB)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.bench = Bench(program, Path(folder.name) / "bench")

    def stream(self, clients: int) -> Stream:
        """One that is ended in any case."""
        stream = Stream(self.bench, Address(port=1), "test", ["point_select"], clients, 1.0, [])
        self.addCleanup(stream.kill)
        return stream

    def test_lines_and_report_are_read(self) -> None:
        """Those of other words are passed over, and no number is no wait."""
        stream = self.stream(5)
        stream.wait_for_clients()
        self.assertEqual(stream.finish(), {"events": {"total": 5}})
        self.assertEqual([line[1:] for line in stream.lines], [(10.0, 1.5, 0.0), (0.0, 0.0, 7.0)])

    def test_a_load_that_does_not_begin_says_why(self) -> None:
        """With the words of the load generator."""
        with self.assertRaisesRegex(Failed, "Too many connections"):
            self.stream(17).wait_for_clients()

    def test_normal_is_two_good_lines_in_a_row(self) -> None:
        """No errors, the rate, and waits near the usual ones."""
        stream = self.stream(5)
        stream.finish()
        begun = time.monotonic()
        bad, good = (100.0, 500.0, 0.0), (100.0, 2.0, 0.0)
        late, refused, slow = (10.0, 2.0, 0.0), (100.0, 2.0, 1.0), (100.0, 21.0, 0.0)
        stream.lines = [Line(begun + INTERVAL * (number + 1), *figures)
                        for number, figures in enumerate([bad, good, late, good, refused, good, slow, good, good])]
        self.assertEqual(round(stream.seconds_until_normal(begun, 90.0, 2.0) or -1.0, 3), 7 * INTERVAL)
        self.assertIsNone(stream.seconds_until_normal(begun + 4.5 * INTERVAL * 2, 90.0, 2.0))
        self.assertEqual(stream.rate(begun, begun + 2 * INTERVAL), 100.0)


class Page(unittest.TestCase):
    """The report."""

    def test_every_part_is_there(self) -> None:
        """With a failure as a note, and nothing for parts that were left out."""
        held = {"lock_ms": 1.0, "question_ms": 2.0, "unlock_ms": 3.0, "readers_before": 9_000.0, "readers_beside": 8_000.0,
                "readers_p99": 4.0, "readers_longest": 5.0, "waiting_before": 400.0, "waiting_after": 410.0}
        book: Book = {
            "date": "2026-01-01", "command": "make compare-overload",
            "machine": {"cores": 2, "processor": "P", "memory": 2**34, "kernel": "6.1"}, "versions": {"Onramp": "onramp 1.2.3"},
            "plan": {"crowd_seconds": 60.0, "lock_seconds": 4.0}, "skipped": [],
            "contenders": [{"key": "a", "name": "The server", "front": False, "onramp": False},
                           {"key": "b", "name": "Onramp", "front": True, "onramp": True}],
            "records": [
                {"section": "crowd", "contender": "a", "round": 1, "failure": "it fell | over"},
                {"section": "crowd", "contender": "b", "round": 1, "capacity": 1_000.0, "goodput": 0.97, "regular_rate": 0.5,
                 "regular_p99": 66.0, "crowd_p99": 70.0, "longest": 140.0, "refused": 5_000, "codes": {}, "normal_after": None},
                {"section": "global_lock", "contender": "b", "round": 1, **held}]}
        page = overload_page(book)
        self.assertIn("| Onramp | 1,000 | 97 % | 50 % | 66.0 | 140 | 5,000 | not in this run |", page)
        self.assertIn("- (a) it fell \\| over", page)
        self.assertIn("| Onramp | 1.00 | 2.00 | 3.00 | 9,000 | 8,000 | 5.00 | 400 | 410 |", page)
        self.assertNotIn("named lock", page)


if __name__ == "__main__":
    unittest.main()
