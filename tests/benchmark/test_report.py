"""The page from a comparison that was made up."""

import tempfile
import unittest
from pathlib import Path
from typing import Any

from book import Book, load_book, save_book
from ratios import ratio_rows
from report import BEGIN, END, page, put_between_markers
from tables import Notes, digits, joined, letters, size, table, whole


def run(contender: str, connections: int, number: int, rate: float, **more: Any) -> dict[str, Any]:
    """A record of a point select that went well."""
    return {
        "section": "point_select", "round": number, "contender": contender, "connections": connections, "at": "12:00:00",
        "per_second": rate, "events_per_second": rate, "avg": 1.0, "p50": 0.9, "p95": 2.0, "p99": 3.0, "longest": 4.0,
        "fair_share": connections / rate * 1000, "errors": 0, "connecting": 0.5, "kernel": 30_000_000,
        "resident": {"front": 15_100_000 if contender == "onramp" else None, "server": 300_000_000, "bench": 9_000_000},
        "micros": {"front": [1.0, 8.0] if contender == "onramp" else None, "server": [6.0, 4.0], "bench": [0.5, 2.0]},
        **more}


def failed(contender: str, connections: int, number: int, reason: str, section: str = "point_select") -> dict[str, Any]:
    """A record of one that did not."""
    return {"section": section, "round": number, "contender": contender, "connections": connections, "at": "12:00:00",
            "failure": reason}


def book() -> Book:
    """Two rounds of a server, its pool and Onramp."""
    latency = {"section": "latency", "way": "tcp"}
    silence = {"section": "idle", "resident_before": 5_000_000, "kernel_before": 10_000_000}
    records = [
        run("mariadb", 16, 1, 100_000.0), run("mariadb", 16, 2, 120_000.0),
        failed("mariadb", 4_000, 1, "1040: Too many connections"), run("mariadb", 4_000, 2, 60_000.0),
        run("onramp", 16, 1, 110_000.0), run("onramp", 16, 2, 130_000.0),
        run("onramp", 4_000, 1, 120_000.0, p95=50.0), run("onramp", 4_000, 2, 90_000.0, p95=60.0),
        failed("pool", 4_000, 1, "at most 9 | 8"), failed("pool", 4_000, 2, "at most 9 | 8"),
        run("mariadb", 1, 1, 1.0, **latency | {"p50": 0.020, "avg": 0.0214}),
        run("onramp", 1, 1, 1.0, **latency | {"p50": 0.030, "avg": 0.0339}),
        run("onramp", 1_000, 1, 1.0, **silence),
        run("onramp", 64, 1, 2.0, section="connect", events_per_second=12_345.0),
        failed("onramp", 4_000, 1, "perf: no permission", "profile"),
        {"section": "profile", "round": 1, "contender": "onramp", "connections": 16, "at": "",
         "symbols": [{"share": 12.34, "space": "kernel", "name": "tcp_sendmsg<T>"}]},
    ]
    contenders: list[Any] = [
        {"key": "mariadb", "name": "MariaDB", "front": False, "onramp": False},
        {"key": "pool", "name": "Pool", "front": False, "onramp": False},
        {"key": "onramp", "name": "Onramp", "front": True, "onramp": True}]
    return {
        "date": "2026-11-22", "command": "make compare", "versions": {"MariaDB": "mariadbd  Ver 10.11.6-MariaDB-1 for debian"},
        "machine": {"cores": 2, "processor": "AMD EPYC", "kernel": "6.18.0", "memory": 24 << 30, "open_files": 20_000},
        "plan": {"rounds": 2, "seconds": 5.0, "warmup": 2.0}, "contenders": contenders,
        "skipped": ["ProxySQL: not installed"], "records": records}


class PageTest(unittest.TestCase):
    """What stands on the page."""

    def setUp(self) -> None:
        self.text = page(book())

    def test_the_machine_and_the_versions_are_named(self) -> None:
        self.assertIn("2 cores (AMD EPYC), 24 GiB of memory, Linux 6.18.0, a limit of 20,000 open files. "
                      "MariaDB 10.11.6.", self.text)
        self.assertIn("Not measured here: ProxySQL: not installed.", self.text)

    def test_medians_stand_in_the_first_table(self) -> None:
        self.assertIn("| 16 | 110,000 |  | 120,000 |", self.text)

    def test_every_round_stands_in_its_contenders_table(self) -> None:
        self.assertIn("| 16 | 110,000 / 130,000 | 0.90 / 0.90 | 2.00 / 2.00 | 3.00 / 3.00 | 0.15 / 0.12 | 4.00 / 4.00 | 0 / 0 "
                      "| 15.1 MB |", self.text)

    def test_a_failure_is_a_cell_with_its_reason_below(self) -> None:
        self.assertIn("| 4,000 | (a) / 60,000 |", self.text)
        self.assertIn("- (a) 1040: Too many connections", self.text)
        self.assertIn("- (a) at most 9 \\| 8", self.text)

    def test_what_onramp_adds_is_like_for_like(self) -> None:
        self.assertIn("| 1 | Onramp | TCP | 30.0 | 10.0 | 33.9 | 12.5 |", self.text)

    def test_idle_clients_are_counted_without_the_process(self) -> None:
        self.assertIn("| 1,000 | Onramp | 5.00 MB | 15.1 MB | 10.1 kB | 20.0 MB | 0.50 |", self.text)

    def test_connects_processor_time_and_functions(self) -> None:
        self.assertIn("| Onramp | 12,345 |", self.text)
        self.assertIn("| Onramp | 16 | 1.00 | 8.00 | 6.00 | 4.00 | 0.50 | 2.00 |", self.text)
        self.assertIn("| 1 | 12.3 % `tcp_sendmsg<T>` (kernel) |", self.text)
        self.assertIn("Onramp at 4,000 clients: perf: no permission", self.text)

    def test_nothing_measured_is_a_short_page(self) -> None:
        empty = book()
        empty["records"] = []
        self.assertNotIn("|", page(empty))


class RatiosTest(unittest.TestCase):
    """What the figures come to."""

    def test_each_round_is_compared_with_itself(self) -> None:
        made = book()
        rows = {row[0]: row[1] for row in ratio_rows(made, [made["contenders"][2]])}
        self.assertEqual(rows["its largest step"], "4,000")
        self.assertEqual(rows["queries/s at its best step : the best direct at any"], "1.20 / 1.08")
        self.assertEqual(rows["queries/s at its largest step : the best direct at any"], "1.20 / 0.75")
        self.assertEqual(rows["queries/s at its largest step : at its best step"], "1.00 / 0.69")
        self.assertEqual(rows["p95 at its largest step : the fair share"], "1.50 / 1.35")
        # In the first round no server had 4,000 clients.
        self.assertEqual(rows["queries/s at 4,000 : the best direct at 4,000"], " / 1.50")


class FilesTest(unittest.TestCase):
    """Pages and data on disk."""

    def test_only_what_is_between_the_markers_is_replaced(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text(f"# Head\n\n{BEGIN}\nold\n{END}\n\n## Mine\n")
            put_between_markers(path, "new\n")
            put_between_markers(path, "new\n")
            self.assertEqual(path.read_text(), f"# Head\n\n{BEGIN}\n\nnew\n\n{END}\n\n## Mine\n")

    def test_a_page_that_is_not_there_is_made(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "new" / "page.md"
            put_between_markers(path, "new\n")
            self.assertEqual(path.read_text(), f"{BEGIN}\n\nnew\n\n{END}\n")

    def test_data_come_back_as_they_were(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rounds.json"
            save_book(path, book())
            self.assertEqual(page(load_book(path)), page(book()))


class TablesTest(unittest.TestCase):
    """Numbers for people."""

    def test_three_digits_count(self) -> None:
        values = [0, 0.0123, 0.0996, 0.12, 1.234, 9.996, 12.34, 99.96, 1234.5, -15.9, None]
        self.assertEqual([digits(value) for value in values],
                         ["0", "0.012", "0.10", "0.12", "1.23", "10.0", "12.3", "100", "1,234", "-15.9", ""])

    def test_sizes_have_units(self) -> None:
        self.assertEqual([size(value) for value in (24, 10_100, 15_100_000, 6.84e9, None)],
                         ["24 B", "10.1 kB", "15.1 MB", "6.84 GB", ""])
        self.assertEqual(whole(1234567.4), "1,234,567")

    def test_rounds_stand_side_by_side_but_equal_reasons_once(self) -> None:
        self.assertEqual(joined(["1", "1"]), "1 / 1")
        self.assertEqual(joined(["(a)", "(a)"]), "(a)")
        self.assertEqual(joined(["(a)", "2"]), "(a) / 2")

    def test_reasons_have_letters(self) -> None:
        notes = Notes()
        self.assertEqual([notes.mark("x"), notes.mark("y"), notes.mark("x")], ["(a)", "(b)", "(a)"])
        self.assertEqual([letters(0), letters(25), letters(26), letters(27)], ["a", "z", "aa", "ab"])

    def test_cells_do_not_break_the_table(self) -> None:
        self.assertEqual(table(["a"], [["b|c\nd"]])[3], "| b\\|c d |")


if __name__ == "__main__":
    unittest.main()
