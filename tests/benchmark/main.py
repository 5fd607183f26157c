#!/usr/bin/env python3
"""Compares Onramp with what is installed, alternating in one run, and writes the measured part of docs/BENCHMARKS.md.

    make compare                                     everything: three rounds of all contenders
    make compare ARGUMENTS="--quick"                 a few minutes' look, which leaves the page alone
    make compare ARGUMENTS="--only latency,connect --contenders mariadb,onramp"

Everything is started here, on free ports of 127.0.0.1 and in a temporary folder, and stopped at the end.
"""

import argparse
import functools
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from book import Book, save_book  # noqa: E402
from campaign import book_of, measure_and_write, say, stopping  # noqa: E402
from command_line import add_mysql_home, chooser, names, numbers, options, read  # noqa: E402
from contenders import Contenders, Setting  # noqa: E402
from load import Bench  # noqa: E402
from measure import SECTIONS, Comparison, Plan  # noqa: E402
from report import BEGIN, END, page  # noqa: E402

# From fewer clients than cores keep busy to more than a limit of 20,000 open files lets a server have.
STEPS = [4, 16, 64, 256, 1_024, 4_000, 15_000]
BEYOND = [50_000, 100_000]
IDLE = [15_000, 100_000]


def main() -> int:
    """Measures and writes; the exit code is 0 unless nothing could be measured."""
    arguments = parse(sys.argv[1:])
    return measure_and_write(arguments, functools.partial(compare, arguments), page, BEGIN, END)


def compare(arguments: argparse.Namespace, folder: Path, open_files: int) -> Book:
    """Starts everything, measures, stops everything."""
    plan = plan_of(arguments)
    setting = Setting(
        folder, arguments.onramp, arguments.mysql_home, open_files, len(os.sched_getaffinity(0)),
        max([*plan.steps, *plan.beyond, *plan.idle]), say)
    contenders = Contenders(setting)
    bench = Bench(arguments.onramp, folder / "bench")
    comparison = Comparison(plan, contenders, bench, say)
    with stopping(bench.stop, contenders.stop):
        contenders.start(chooser(arguments.contenders))
        told = {"rounds": plan.rounds, "seconds": plan.seconds, "warmup": plan.warmup}
        book = book_of(arguments, open_files, contenders, told, comparison.records)
        # About two seconds a run go into connecting and closing.
        minutes = comparison.runs() * (plan.warmup + plan.seconds + 2.0) / 60
        say(f"{comparison.runs()} runs, about {minutes:.0f} minutes")
        comparison.run(lambda: save_book(arguments.unfinished, book))
    return book


def parse(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = options("compare", __doc__, SECTIONS)
    add_mysql_home(parser)
    parser.add_argument("--rounds", type=int, default=None, help="how often everything is measured [3; quick: 1]")
    parser.add_argument("--time", type=float, default=None, metavar="SECONDS", help="of each run [5; quick: 1]")
    parser.add_argument("--warmup", type=float, default=None, metavar="SECONDS", help="before it [2; quick: 0.5]")
    parser.add_argument("--connections", type=numbers, default=None, metavar="LIST",
                        help="numbers of clients, such as 16,1024,100000; those above 15,000 are for Onramp only")
    parser.add_argument("--contenders", type=names, default=[], metavar="LIST",
                        help="of mariadb, mariadb-pool, mysql, mysql-pool, onramp (or one of it: onramp-uring-1), haproxy, "
                             "proxysql")
    return read(parser, words)


def plan_of(arguments: argparse.Namespace) -> Plan:
    """What is to be measured."""
    quick = arguments.quick
    steps = arguments.connections or ([16, 1_024] if quick else STEPS + BEYOND)
    largest = STEPS[-1]
    return Plan(
        rounds=arguments.rounds or (1 if quick else 3),
        seconds=arguments.time or (1.0 if quick else 5.0),
        warmup=arguments.warmup if arguments.warmup is not None else (0.5 if quick else 2.0),
        steps=[step for step in steps if step <= largest],
        beyond=[step for step in steps if step > largest],
        idle=[1_024] if quick else IDLE if arguments.connections is None else [max(steps)],
        sections=arguments.only)


if __name__ == "__main__":
    sys.exit(main())
