#!/usr/bin/env python3
"""Compares thread pools under load, alternating in one run, and writes their part of docs/BENCHMARKS.md.

    make compare-pool                                    two rounds, at most 12 minutes
    make compare-pool ARGUMENTS="--time 4 --warmup 1 --connections 16,64,256,1024,4096,15000 --minutes 40"
    make compare-pool ARGUMENTS="--quick --only mix"     a look, which leaves the page alone

How long that takes: (seconds + warm-up + 0.7 + 0.2 ms a client) x runs. In a round there are 10 runs for `mix`, 8 for `pile_up`,
and for each of the 3 workloads 3 for each step and 3 more (5 with MySQL) at the first and the last step: with 4 steps 72 runs
(84 with MySQL), or 5.5 (6.5) minutes at 2 s and 0.5 s; starting takes half a minute, with MySQL one. What does not fit into --minutes is left out, the last first.
"""

import argparse
import functools
import os
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

from book import Book, save_book  # noqa: E402
from campaign import book_of, measure_and_write, say, stopping  # noqa: E402
from command_line import add_mysql_home, chooser, names, numbers, options, read  # noqa: E402
from contenders import BEFORE_MYSQL, SERVER_OPTIONS, Contenders, Setting  # noqa: E402
from load import Bench  # noqa: E402
from pool_measure import ONRAMPS, POOL_SECTIONS, PoolComparison, PoolPlan  # noqa: E402
from pool_report import BEGIN, END, pool_page  # noqa: E402

STEPS = [64, 1_024, 4_096, 15_000]
CONTENDERS = ["mariadb", "mariadb-pool", "mysql", "mysql-pool", BEFORE_MYSQL, "onramp"]



def main() -> int:
    """Measures and writes; the exit code is 0 unless nothing could be measured."""
    arguments = parse(sys.argv[1:])
    return measure_and_write(arguments, functools.partial(compare, arguments), pool_page, BEGIN, END)


def compare(arguments: argparse.Namespace, folder: Path, open_files: int) -> Book:
    """Starts everything, measures, stops everything."""
    plan = plan_of(arguments, time.monotonic())
    setting = Setting(
        folder, arguments.onramp, arguments.mysql_home, open_files, len(os.sched_getaffinity(0)), max(plan.steps), say,
        onramps=ONRAMPS, server_options=SERVER_OPTIONS)
    contenders = Contenders(setting)
    bench = Bench(arguments.onramp, folder / "bench")
    comparison = PoolComparison(plan, contenders, bench, say)
    with stopping(bench.stop, contenders.stop):
        contenders.start(chooser(arguments.contenders))
        told = {"rounds": plan.rounds, "seconds": plan.seconds, "warmup": plan.warmup, "left_out": 0}
        book = book_of(arguments, open_files, contenders, told, comparison.records)
        say(f"{comparison.runs()} runs, about {comparison.seconds() / 60:.0f} minutes")
        comparison.run(lambda: save_book(arguments.unfinished, book))
        book["plan"]["left_out"] = comparison.left_out
    return book


def parse(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = options("compare-pool", __doc__, POOL_SECTIONS)
    add_mysql_home(parser)
    parser.add_argument("--rounds", type=int, default=None, help="how often everything is measured [2; quick: 1]")
    parser.add_argument("--time", type=float, default=None, metavar="SECONDS", help="of each run [2; quick: 1]")
    parser.add_argument("--warmup", type=float, default=0.5, metavar="SECONDS", help="before it [0.5]")
    parser.add_argument("--minutes", type=float, default=11.5, help="no run begins that would end later [11.5]")
    parser.add_argument("--connections", type=numbers, default=None, metavar="LIST",
                        help="numbers of clients [64,1024,4096,15000; quick: 64,1024]")
    parser.add_argument("--every-step", action="store_true",
                        help="all contenders at every step, not only those that matter most")
    parser.add_argument("--contenders", type=names, default=CONTENDERS, metavar="LIST",
                        help=f"of {', '.join(CONTENDERS)} (or one of it: {', '.join(key for key, _, _ in ONRAMPS)})")
    return read(parser, words)


def plan_of(arguments: argparse.Namespace, begun: float) -> PoolPlan:
    """What is to be measured, from `begun` (time.monotonic()) on."""
    quick = arguments.quick
    return PoolPlan(
        rounds=arguments.rounds or (1 if quick else 2), seconds=arguments.time or (1.0 if quick else 2.0),
        warmup=arguments.warmup, steps=arguments.connections or ([64, 1_024] if quick else STEPS), beyond=[], idle=[],
        sections=arguments.only, every_step=arguments.every_step, deadline=begun + arguments.minutes * 60)


if __name__ == "__main__":
    sys.exit(main())
