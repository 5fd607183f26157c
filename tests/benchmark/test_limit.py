"""The comparison of limits: what is run in which order, and the page from figures that were made up."""

from typing import Any

import limit_measure
from book import Book
from contenders import Contender, Contenders, Setting
from front_ends import Onramp
from limit_measure import ONRAMPS, LimitComparison, LimitPlan
from limit_report import limit_page, markers, share
from processes import Program
from test_pool import MadeUp


class OrderTest(MadeUp):
    """Who is measured when."""

    def records(self, section: str) -> list[dict[str, Any]]:
        """Those of one round of a section, with a server by itself and two Onramps."""
        contenders = Contenders(Setting(self.folder, self.bench.onramp, None, 20_000, 2, 100, lambda _: None))
        contenders.found = [self.contender("mariadb"), self.front("onramp-default"), self.front("onramp-4")]
        plan = LimitPlan(rounds=1, seconds=1.0, warmup=0.0, steps=[4, 8], beyond=[], idle=[], sections=[section], phase=0.1)
        comparison = LimitComparison(plan, contenders, self.bench, lambda _: None)
        comparison.run(lambda: None)
        return comparison.records

    def front(self, key: str) -> Contender:
        """An Onramp that is running."""
        contender = self.contender(key)
        front = Onramp(key, self.folder / f"{key}-front", contender.server, self.bench.onramp, [])
        front.program = Program(key, ["sleep", "600"], self.folder / f"{key}-front" / "log")
        front.program.start(lambda: True)
        self.addCleanup(front.stop)
        contender.front = front
        return contender

    def test_fixed_numbers_are_compared_among_themselves(self) -> None:
        found = {(record["way"], record["contender"]) for record in self.records("fixed")}
        self.assertEqual(found, {(way, key) for way in limit_measure.WORKLOADS for key in ("onramp-default", "onramp-4")})

    def test_statements_that_wait_are_asked_of_all_but_fixed_numbers(self) -> None:
        found = [(record["way"], record["connections"], record["contender"]) for record in self.records("sleep")]
        self.assertEqual(found[:4], [("1 ms", clients, key) for clients in (4, 8) for key in ("mariadb", "onramp-default")])
        self.assertIn("--sleep-time 50", (self.folder / "commands").read_text())


class PageTest(MadeUp):
    """What is written."""

    def book(self) -> Book:
        """Three contenders and one step."""
        rates = {"mariadb": 100.0, "onramp-default": 90.0, "onramp-4": 50.0}
        records = [{"section": "sleep", "round": 1, "contender": key, "connections": 64, "way": "5 ms", "per_second": rate}
                   for key, rate in rates.items() if key != "onramp-4"]
        records += [{"section": "fixed", "round": 1, "contender": key, "connections": 64, "way": "point_select", "per_second": rate}
                    for key, rate in rates.items() if key != "mariadb"]
        names = {"mariadb": "MariaDB"} | {key: name for key, name, _ in ONRAMPS}
        return {
            "date": "2026-01-01", "command": "make compare-limit", "versions": {"Onramp": "onramp 1.2.3"}, "skipped": [],
            "machine": {"cores": 2, "processor": "a processor", "kernel": "6", "memory": 2**30},
            "plan": {"rounds": 1, "seconds": 1.0, "warmup": 1.0, "phase": 1.0},
            "contenders": [{"key": key, "name": names[key], "front": key != "mariadb", "onramp": key != "mariadb"} for key in rates],
            "records": records}

    def test_the_found_limit_is_a_share_of_the_best_other(self) -> None:
        book = self.book()
        self.assertEqual(share(book, "sleep", "5 ms", 64, 1), 0.9)
        self.assertEqual(share(book, "fixed", "point_select", 64, 1), 1.8)
        page = limit_page(book)
        self.assertIn("| Onramp : the better of the others | 0.90 |", page)
        self.assertIn("| Onramp, permits = 4 | 50 |", page)
        self.assertNotIn("Many accounts", page)

    def test_each_server_has_a_part_and_a_file_of_its_own(self) -> None:
        usual, book = self.book(), self.book()
        book["plan"]["server"] = "mysql"
        pages = [limit_page(each) for each in (usual, book)]
        self.assertIn("(benchmarks-limit.json)", pages[0])
        self.assertIn("(benchmarks-limit-mysql.json)", pages[1])
        self.assertIn("## Limits that find themselves, before MySQL", pages[1])
        self.assertNotEqual(markers("mariadb"), markers("mysql"))

    def test_what_failed_says_why(self) -> None:
        book = self.book()
        book["records"][1] = {key: value for key, value in book["records"][1].items() if key != "per_second"} | {"failure": "it fell over"}
        page = limit_page(book)
        self.assertIn("it fell over", page)
        self.assertIn("| Onramp : the better of the others |  |", page)
