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
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

from book import Book, load_book, save_book  # noqa: E402
from contenders import BEFORE_MYSQL, Contenders, Setting  # noqa: E402
from load import Bench  # noqa: E402
from main import (PAGE, QUICK, ROOT, TARGET, chooser, command_text, interrupt, names, numbers, say,  # noqa: E402
                  versions)
from pool_measure import ONRAMPS, POOL_SECTIONS, PoolComparison, PoolPlan  # noqa: E402
from pool_report import BEGIN, END, pool_page  # noqa: E402
from processes import raise_open_files  # noqa: E402
from readings import machine  # noqa: E402
from report import put_between_markers  # noqa: E402

ROUNDS_FILE = ROOT / "docs" / "benchmarks-pool.json"
# The rounds so far of a run that is still going, or was ended.
UNFINISHED = QUICK / "unfinished-pool.json"

STEPS = [64, 1_024, 4_096, 15_000]
CONTENDERS = ["mariadb", "mariadb-pool", "mysql", "mysql-pool", BEFORE_MYSQL, "onramp"]

# Commits reach the disk once a second, as in the pools' own published benchmarks: what is compared is not the disk. A log
# of 1 GB is not used up within a run, so that no run pays for the pages of the one before.
SERVER_OPTIONS = ["--innodb-flush-log-at-trx-commit=2", "--loose-innodb-log-file-size=1G",
                  "--loose-innodb-redo-log-capacity=1G"]


def main() -> int:
    """Measures and writes; the exit code is 0 unless nothing could be measured."""
    arguments = parse(sys.argv[1:])
    if arguments.report_from is not None:
        put_between_markers(arguments.output, pool_page(load_book(arguments.report_from)), BEGIN, END)
        return 0
    signal.signal(signal.SIGTERM, interrupt)
    folder = Path(tempfile.mkdtemp(prefix="onramp-compare-pool-"))
    UNFINISHED.unlink(missing_ok=True)
    try:
        book = compare(arguments, folder, raise_open_files())
    except KeyboardInterrupt:
        so_far = f"the rounds that were complete are in {UNFINISHED}: see --report-from"
        say(f"ended before its time; {so_far if UNFINISHED.exists() else 'nothing was written'}")
        return 130  # 128 and SIGINT, as shells have it
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not book["records"]:
        say("nothing could be measured")
        return 1
    save_book(arguments.json, book)
    put_between_markers(arguments.output, pool_page(book), BEGIN, END)
    UNFINISHED.unlink(missing_ok=True)
    say(f"written: {arguments.output} and {arguments.json}")
    return 0


def compare(arguments: argparse.Namespace, folder: Path, open_files: int) -> Book:
    """Starts everything, measures, stops everything."""
    plan = plan_of(arguments, time.monotonic())
    setting = Setting(
        folder, arguments.onramp, arguments.mysql_home, open_files, len(os.sched_getaffinity(0)), max(plan.steps), say,
        onramps=ONRAMPS, server_options=SERVER_OPTIONS)
    contenders = Contenders(setting)
    bench = Bench(arguments.onramp, folder / "bench")
    comparison = PoolComparison(plan, contenders, bench, say)
    try:
        contenders.start(chooser(arguments.contenders))
        book = describe(arguments, open_files, contenders, comparison)
        say(f"{comparison.runs()} runs, about {comparison.seconds() / 60:.0f} minutes")
        comparison.run(lambda: save_book(UNFINISHED, book))
        book["plan"]["left_out"] = comparison.left_out
    finally:
        # A second Ctrl-C must not leave servers behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        bench.stop()
        contenders.stop()
    return book


def describe(arguments: argparse.Namespace, open_files: int, contenders: Contenders, comparison: PoolComparison) -> Book:
    """What is compared where; the records come while it is measured."""
    plan = comparison.plan
    with_mysql = any(each.key.startswith("mysql") for each in contenders.found)
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": command_text(sys.argv[1:], with_mysql, "compare-pool"),
        "machine": machine(open_files),
        "versions": versions(arguments.onramp, contenders),
        "plan": {"rounds": plan.rounds, "seconds": plan.seconds, "warmup": plan.warmup, "left_out": 0},
        "contenders": [
            {"key": each.key, "name": each.name, "front": each.front is not None, "onramp": each.is_onramp}
            for each in contenders.found],
        "skipped": contenders.skipped,
        "records": comparison.records,
    }


def parse(words: list[str]) -> argparse.Namespace:
    """The command line, with the files of a quick look kept apart from the page."""
    parser = argparse.ArgumentParser(
        prog="make compare-pool", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=None, help="how often everything is measured [2; quick: 1]")
    parser.add_argument("--time", type=float, default=None, metavar="SECONDS", help="of each run [2; quick: 1]")
    parser.add_argument("--warmup", type=float, default=0.5, metavar="SECONDS", help="before it [0.5]")
    parser.add_argument("--minutes", type=float, default=11.5, help="no run begins that would end later [11.5]")
    parser.add_argument("--connections", type=numbers, default=None, metavar="LIST",
                        help="numbers of clients [64,1024,4096,15000; quick: 64,1024]")
    parser.add_argument("--every-step", action="store_true",
                        help="all contenders at every step, not only those that matter most")
    parser.add_argument("--only", type=names, default=POOL_SECTIONS, metavar="LIST", help=f"of {', '.join(POOL_SECTIONS)}")
    parser.add_argument("--contenders", type=names, default=CONTENDERS, metavar="LIST",
                        help=f"of {', '.join(CONTENDERS)} (or one of it: {', '.join(key for key, _, _ in ONRAMPS)})")
    parser.add_argument("--quick", action="store_true", help="one short round of few steps, into target/benchmark")
    parser.add_argument("--mysql-home", type=Path, default=os.environ.get("MYSQL_HOME"), metavar="FOLDER",
                        help="where a MySQL server is: bin/mysqld, or the root of another system's tree [MYSQL_HOME]")
    parser.add_argument("--onramp", type=Path, metavar="PROGRAM", help="the binary [ONRAMP_BIN, target/release/onramp]",
                        default=os.environ.get("ONRAMP_BIN", TARGET / "release" / "onramp"))
    parser.add_argument("--output", type=Path, default=None, metavar="FILE", help="page with the markers")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="every round's figures")
    parser.add_argument("--report-from", type=Path, default=None, metavar="FILE",
                        help="measure nothing; write the page from such a file")
    arguments = parser.parse_args(words)
    for section in arguments.only:
        if section not in POOL_SECTIONS:
            parser.error(f"no such part: {section}; there are {', '.join(POOL_SECTIONS)}")
    arguments.mysql_home = Path(arguments.mysql_home) if arguments.mysql_home else None
    arguments.onramp = Path(arguments.onramp).resolve()
    if arguments.report_from is None and not arguments.onramp.is_file():
        parser.error(f"{arguments.onramp} is not there: cargo build --release --package onramp")
    arguments.output = arguments.output or (QUICK / "quick-pool.md" if arguments.quick else PAGE)
    arguments.json = arguments.json or (QUICK / "quick-pool.json" if arguments.quick else ROUNDS_FILE)
    return arguments


def plan_of(arguments: argparse.Namespace, begun: float) -> PoolPlan:
    """What is to be measured, from `begun` (time.monotonic()) on."""
    quick = arguments.quick
    return PoolPlan(
        rounds=arguments.rounds or (1 if quick else 2), seconds=arguments.time or (1.0 if quick else 2.0),
        warmup=arguments.warmup, steps=arguments.connections or ([64, 1_024] if quick else STEPS), beyond=[], idle=[],
        sections=arguments.only, every_step=arguments.every_step, deadline=begun + arguments.minutes * 60)


if __name__ == "__main__":
    sys.exit(main())
