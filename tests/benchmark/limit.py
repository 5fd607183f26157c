#!/usr/bin/env python3
"""Compares limits that find themselves with none and with fixed ones, and writes their part of docs/BENCHMARKS.md.

    make compare-limit                                   three rounds of about an hour
    make compare-limit ARGUMENTS="--rounds 1 --only cold-disk"
    make compare-limit ARGUMENTS="--only sleep --connections 64,4000 --rounds 2 --seconds 8"
    make compare-limit ARGUMENTS="--only far --distances 5 --contenders mariadb,onramp-default,onramp-32,onramp-128"
    make compare-limit ARGUMENTS="--quick --only fixed"  a look, which leaves the page alone
    make compare-limit ARGUMENTS=--server=mysql          in front of MySQL (MYSQL_HOME), with a part of the page of its own

A round of each part, and how long it takes:

- sleep: statements that take 1, 5 or 50 ms and no processor, and 64 clients with such of a second: 6 minutes.
- fixed: point selects, and transactions that read and write, beside every number of permits that is tried by hand: 5 minutes.
- mix: 256 clients that wait 5 ms and 256 that read, beside pairs of limits that are set by hand: 3 minutes.
- accounts: point selects of up to 1,000 accounts and 10,000 schemas, of drivers and session states unlike each other: 9 minutes,
  and once about as long until these are there.
- changes: 512 clients with statements that wait, read, read and write, and wait again, 20 s each: 8 minutes.
- cold-disk: the same, with data that are on a disk and not in memory: 8 minutes.
- far: such loads with servers that are 1, 5 and 20 ms away: 8 minutes for each of these.
"""

import argparse
import dataclasses
import functools
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from book import Book, save_book  # noqa: E402
from campaign import book_of, measure_and_write, say, stopping  # noqa: E402
from command_line import USUAL_SERVER, add_mysql_home, chooser, names, numbers, options, read  # noqa: E402
from contenders import SERVER_OPTIONS, Contenders, Setting  # noqa: E402
from limit_measure import COLD_DISK, LIMIT_SECTIONS, ONRAMPS, PAIRED, SHORTEST, LimitComparison, LimitPlan  # noqa: E402
from limit_report import TITLES, limit_page, markers  # noqa: E402
from load import Bench  # noqa: E402

STEPS = [64, 2_000]
SLEEP_STEPS = [64, 512, 4_000]
DISTANCES = [1, 5, 20]
# By the server that all stand in front of.
CONTENDERS = {server: [server, f"{server}-pool", "onramp"] for server in TITLES}


def main() -> int:
    """Measures and writes; the exit code is 0 unless nothing could be measured."""
    arguments = parse(sys.argv[1:])
    return measure_and_write(arguments, functools.partial(compare, arguments), limit_page, *markers(arguments.server))


def compare(arguments: argparse.Namespace, folder: Path, open_files: int) -> Book:
    """Starts everything, measures, stops everything."""
    plan = plan_of(arguments)
    setting = Setting(
        folder, arguments.onramp, arguments.mysql_home, open_files, len(os.sched_getaffinity(0)), max(plan.steps + plan.sleep_steps), say,
        onramps=ONRAMPS + (PAIRED if "mix" in plan.sections else []), before=arguments.server, server_options=SERVER_OPTIONS)
    contenders = Contenders(setting)
    cold = Contenders(dataclasses.replace(
        setting, folder=folder / "cold", onramps=ONRAMPS, server_options=[*SERVER_OPTIONS, *COLD_DISK]))
    bench = Bench(arguments.onramp, folder / "bench")
    comparison = LimitComparison(plan, contenders, cold, bench, say)
    with stopping(bench.stop, contenders.stop, cold.stop):
        if plan.sections != ["cold-disk"]:
            contenders.start(chooser(arguments.contenders))
        if "cold-disk" in plan.sections:
            cold.start(chooser(arguments.contenders))
        told = {"server": arguments.server, "rounds": plan.rounds, "seconds": plan.seconds, "warmup": plan.warmup, "phase": plan.phase,
                "distances": plan.distances}
        book = book_of(arguments, open_files, contenders if contenders.found else cold, told, comparison.records)
        book["skipped"] = contenders.skipped + [f"with a cold disk: {each}" for each in cold.skipped]
        comparison.run(lambda: save_book(arguments.unfinished, book))
    return book


def parse(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = options("compare-limit", __doc__, LIMIT_SECTIONS)
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured [3]")
    parser.add_argument("--time", "--seconds", type=float, default=None, metavar="SECONDS", help="of each run [4; quick: 2]")
    parser.add_argument("--warmup", type=float, default=None, metavar="SECONDS",
                        help="before it: the time to find a limit [4; quick: 3]")
    parser.add_argument("--phase", type=float, default=None, metavar="SECONDS", help="of each load that follows another [20; quick: 8]")
    parser.add_argument("--connections", type=numbers, default=None, metavar="LIST",
                        help="numbers of clients [64,2000; of sleep: 64,512,4000]")
    parser.add_argument("--distances", type=numbers, default=DISTANCES, metavar="LIST", help="milliseconds, there and back [1,5,20]")
    parser.add_argument("--server", choices=sorted(TITLES), default=USUAL_SERVER,
                        help=f"that all stand in front of [{USUAL_SERVER}]")
    parser.add_argument("--contenders", type=names, default=None, metavar="LIST",
                        help=f"of {', '.join(CONTENDERS[USUAL_SERVER])}, mysql, mysql-pool (or one of it: {', '.join(key for key, _, _ in ONRAMPS)})")
    add_mysql_home(parser)
    arguments = read(parser, words)
    if arguments.phase is not None and arguments.phase < SHORTEST:
        parser.error(f"--phase is {SHORTEST:g} at least: what has not been followed by then would not be seen")
    arguments.named = arguments.contenders or []
    arguments.contenders = arguments.contenders or CONTENDERS[arguments.server]
    return arguments


def plan_of(arguments: argparse.Namespace) -> LimitPlan:
    """What is to be measured."""
    quick = arguments.quick
    return LimitPlan(
        rounds=arguments.rounds, seconds=arguments.time or (2.0 if quick else 4.0), warmup=arguments.warmup or (3.0 if quick else 4.0),
        steps=arguments.connections or STEPS, beyond=[], idle=[], sections=arguments.only,
        phase=arguments.phase or (8.0 if quick else 20.0), sleep_steps=arguments.connections or SLEEP_STEPS,
        distances=[float(each) for each in arguments.distances], named=arguments.named)


if __name__ == "__main__":
    sys.exit(main())
