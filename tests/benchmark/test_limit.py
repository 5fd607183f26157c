"""The comparison of limits: what is run in which order, and the page from figures that were made up."""

from typing import Any
from unittest import mock

import limit_measure
from book import Book
from contenders import Contender, Contenders, Setting
from front_ends import Onramp, Relay
from limit import parse, plan_of
from limit_measure import LOADS, ONRAMPS, PAIRED, LimitComparison, LimitPlan, in_a_row
from limit_report import beside_the_pair, limit_page, markers, seconds_until, shares, spread
from processes import Program
from test_pool import REPORT, MadeUp

# What the load generator says is what a stream reads too.
STUB = """\
#!/bin/sh
echo "$@" >> "$(dirname "$0")/commands"
while [ $# -gt 1 ]; do
  case "$1" in --json) json="$2" ;; esac
  shift
done
for second in 1 2; do
  echo "[ ${second}s ] conns: 4 tps: 500.00 qps: 1000.00 (r/w/o: 1000.00/0.00/0.00) lat (ms,95%): 2.00 err/s: 0.00 reconn/s: 0.00"
done
cat > "$json" <<'END'
REPORT
END
"""


class OrderTest(MadeUp):
    """Who is measured when."""

    SCRIPT, REPORT = STUB, REPORT

    def comparison_of(self, section: str, rounds: int = 1, **more: Any) -> LimitComparison:
        """Of a server by itself and three Onramps, when it is done."""
        found = [self.contender("mariadb"), *(self.front(key) for key in ("onramp-default", "onramp-4", "onramp-16", PAIRED[0][0]))]
        usual, cold = (
            Contenders(Setting(self.folder, self.bench.onramp, None, 20_000, 2, 100, lambda _: None)) for _ in range(2))
        (cold if section == "cold-disk" else usual).found = found
        options: dict[str, Any] = {"distances": [1.0], "named": []} | more
        plan = LimitPlan(rounds=rounds, seconds=0.1, warmup=0.0, steps=[4, 8], beyond=[], idle=[], sections=[section], phase=0.1,
                         sleep_steps=[4, 8], **options)
        comparison = LimitComparison(plan, usual, cold, self.bench, lambda _: None)
        comparison.run(lambda: None)
        return comparison

    def records(self, section: str, **more: Any) -> list[dict[str, Any]]:
        """Those of a section."""
        return self.comparison_of(section, **more).records

    def commands(self) -> str:
        """What the load generator was asked."""
        return (self.folder / "commands").read_text()

    def front(self, key: str) -> Contender:
        """An Onramp that is running."""
        contender = self.contender(key)
        front = Onramp(key, self.folder / f"{key}-front", contender.server, self.bench.onramp, [])
        front.program = Program(key, ["sleep", "600"], self.folder / f"{key}-front" / "log")
        front.reach(None)
        front.start = lambda: front.program.start(lambda: True)  # type: ignore[method-assign]
        front.start()
        self.addCleanup(front.stop)
        contender.front = front
        return contender

    def test_fixed_numbers_are_compared_among_themselves(self) -> None:
        found = {(record["way"], record["contender"]) for record in self.records("fixed")}
        self.assertEqual(found, {(way, key) for way in limit_measure.WORKLOADS for key in ("onramp-default", "onramp-4", "onramp-16")})

    def test_statements_that_wait_are_asked_of_all_but_fixed_numbers(self) -> None:
        found = [(record["way"], record["connections"], record["contender"]) for record in self.records("sleep")]
        self.assertEqual(found[:4], [("1 ms", clients, key) for clients in (4, 8) for key in ("mariadb", "onramp-default")])
        self.assertEqual(found[-2:], [("1000 ms", 64, key) for key in ("mariadb", "onramp-default")])
        self.assertIn("--sleep-time 50", self.commands())

    def test_contenders_take_turns_and_every_second_round_the_last_one_is_the_first(self) -> None:
        records = self.records("fixed", rounds=2)
        keys = ["onramp-default", "onramp-4", "onramp-16"]
        for number, expected in ((1, keys), (2, keys[::-1])):
            self.assertEqual([record["contender"] for record in records if record["round"] == number][:3], expected)

    def test_each_figure_is_one_of_a_new_process_and_idle_ones_do_not_stay(self) -> None:
        pids = list[int]()
        original = LimitComparison._once

        def once(comparison: LimitComparison, section: str, number: int, contender: Contender, *rest: Any, **more: Any) -> Any:
            running = [each for each in comparison.contenders.found if each.front is not None and each.front.program.running]
            self.assertEqual([each.key for each in running], [contender.key])
            pids.append(contender.programs["front"].pid)
            return original(comparison, section, number, contender, *rest, **more)

        with mock.patch.object(LimitComparison, "_once", once):
            records = self.records("fixed")
        self.assertEqual(len(set(pids)), len(records))

    def test_all_loads_of_a_contender_follow_each_other_and_then_the_next_one_comes(self) -> None:
        self.follow_each_other("changes")

    def test_with_a_cold_disk_the_other_servers_are_asked(self) -> None:
        self.follow_each_other("cold-disk")

    def follow_each_other(self, section: str) -> None:
        """All loads of each contender."""
        found = [(record["contender"], record["way"]) for record in self.records(section)]
        ways = [*(name for name, _, _ in LOADS), "waiting once more"]
        self.assertEqual(found, [(key, way) for key in ("mariadb", "onramp-default", "onramp-16") for way in ways])

    def test_who_is_named_takes_part_where_loads_follow_each_other(self) -> None:
        records = self.records("changes", named=["onramp-4", PAIRED[0][0]])
        self.assertNotIn(PAIRED[0][0], {record["contender"] for record in records})
        self.assertIn("onramp-4", {record["contender"] for record in records})
        self.assertEqual(records[0]["rates"], [500.0, 500.0])

    def test_halves_come_from_addresses_of_their_own_and_leave_a_record_each(self) -> None:
        records = self.records("mix")
        self.assertEqual([(record["contender"], record["way"]) for record in records], [
            (key, half) for key in ("mariadb", "onramp-default", PAIRED[0][0]) for half in ("waiting", "reading")])
        self.assertIn("--local-address 127.0.0.2", self.commands())

    def test_a_far_server_is_reached_through_a_relay_that_ends(self) -> None:
        relays = list[Relay]()
        original = Relay.start

        def start(relay: Relay) -> None:
            original(relay)
            relays.append(relay)

        with mock.patch.object(Relay, "start", start), mock.patch("front_ends.greets", return_value=True):
            comparison = self.comparison_of("far")
        records = [record for record in comparison.records if record["section"] == "far"]
        self.assertEqual([record["contender"] for record in records[::4]], ["mariadb", "onramp-default", "onramp-16"])
        self.assertEqual(records[0]["way"], "1 ms away, waiting")
        self.assertTrue(all("relay" in record for record in records), records)
        self.assertIn(f"--port {relays[1].port}", self.commands())
        self.assertFalse([relay for relay in relays if relay.program.running])
        for contender in comparison.contenders.found:
            if contender.front is not None:
                self.assertIn("socket=", contender.front.program.environment["ONRAMP_BACKEND"])

    def test_arguments_choose_parts_rounds_and_times(self) -> None:
        words = ["--only", "cold-disk", "--rounds", "1", "--seconds", "5", "--phase", "6", "--onramp", str(self.bench.onramp)]
        plan = plan_of(parse(words))
        self.assertEqual((plan.sections, plan.rounds, plan.seconds, plan.phase), (["cold-disk"], 1, 5.0, 6.0))
        self.assertEqual(plan.sleep_steps, [64, 512, 4_000])


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
        self.assertEqual(shares(book, "sleep", "5 ms", 64), [0.9])
        self.assertEqual(shares(book, "fixed", "point_select", 64), [1.8])
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

    def test_rounds_come_to_a_median_and_a_range_beside_the_one_with_the_best_median(self) -> None:
        rates = {"onramp-default": [95.0, 99.0, 90.0], "onramp-4": [100.0, 100.0, 100.0], "onramp-8": [50.0, 50.0, 300.0]}
        book = self.book() | {"records": [
            {"section": "fixed", "round": number, "contender": key, "connections": 64, "way": "point_select", "per_second": rate}
            for key, by_round in rates.items() for number, rate in enumerate(by_round, 1)]}
        self.assertEqual(shares(book, "fixed", "point_select", 64), [0.95, 0.99, 0.9])
        self.assertEqual(spread([0.95, 0.99, 0.9]), "0.95 (0.90 to 0.99)")
        self.assertIn("| Onramp : the best fixed | 0.95 (0.90 to 0.99) |", limit_page(book))

    def test_halves_are_compared_with_the_pair_whose_worse_half_is_the_best(self) -> None:
        rates = {"onramp-default": (90.0, 40.0), "onramp-16-4": (100.0, 10.0), "onramp-64-16": (90.0, 50.0), "onramp-256-64": (20.0, 60.0)}
        book = self.book() | {"records": [
            {"section": "mix", "round": 1, "contender": key, "connections": 256, "way": way, "per_second": rate}
            for key, both in rates.items() for way, rate in zip(("waiting", "reading"), both, strict=True)]}
        self.assertEqual([beside_the_pair(book, "mix", way, 256) for way in ("waiting", "reading")], [[1.0], [0.8]])
        self.assertIn("| Onramp : the best pair | 1.00 | 0.80 |", limit_page(book))

    def test_a_load_is_followed_from_where_two_seconds_in_a_row_are_as_good_as_the_best(self) -> None:
        self.assertEqual(seconds_until([50.0, 100.0, 50.0, 100.0, 100.0, 95.0, 97.0], 95.0), "1.50")
        self.assertEqual(seconds_until([100.0, 100.0, 100.0, 100.0], 95.0), "0")
        self.assertEqual(seconds_until([100.0, 100.0], 95.0), "never")

    def test_loads_that_follow_each_other_have_a_part_for_each_place(self) -> None:
        record = {"round": 1, "connections": 256, "per_second": 100.0, "following": 80.0, "rates": [80.0] * 2 + [100.0] * 8, "relay": 0.12}
        book = self.book()
        book["plan"]["distances"] = [5.0]
        book["records"] = [
            {"section": section, "contender": key, "way": way} | record for section, ways in (
                ("changes", [name for name, _, _ in in_a_row(LOADS)]), ("cold-disk", ["reading"]), ("far", ["5 ms away, waiting"]))
            for way in ways for key in ("mariadb", "onramp-default")]
        book["records"].append({"section": "relay", "contender": "mariadb"} | record | {"per_second": 20_000.0})
        page = limit_page(book)
        self.assertIn("### The same with a cold disk", page)
        self.assertIn("### Loads that follow each other, 5 ms away", page)
        self.assertIn("at most 0.12 of a processor", page)
        self.assertIn("20,000 point selects a second", page)
        self.assertIn("| Onramp | 1.00 |", page)
        self.assertIn("| Onramp : the best of the others | 1.00 | 1.00 | 1.00 | 1.00 |", page)
