#!/usr/bin/env python3
"""Shows what thread pools do in bad times, one after the other, and writes that part of docs/BENCHMARKS.md.

    make compare-overload                                  everything, about 14 minutes
    make compare-overload ARGUMENTS="--only locks"         of: crowd, storm, locks
    make compare-overload ARGUMENTS="--contenders mariadb,onramp-native --quick"

- crowd: clients ask for half of what the server can; after 5 s come 4,000 others of another account and ask for ten times its
  capacity, for 60 s. Then all of one account, for those that can tell accounts apart.
- storm: 3,000 clients ask for three quarters of the capacity. They wait a second, then hang up, connect and ask again. A
  table lock of five seconds makes all of them impatient.
- locks: somebody holds FLUSH TABLES WITH READ LOCK against 500 writers, or LOCK TABLES against 500 readers of the table, or a
  named lock that 100 others want in turn, while others read what is not locked.
"""

import argparse
import functools
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True

from book import Book  # noqa: E402
from campaign import book_of, measure_and_write, say, stopping  # noqa: E402
from command_line import chooser, names, options, read  # noqa: E402
from contenders import Contenders, Setting  # noqa: E402
from load import Bench  # noqa: E402
from overload_measure import ONRAMPS, OVERLOAD_SECTIONS, BadTimes, Times  # noqa: E402
from overload_report import BEGIN, END, overload_page  # noqa: E402

CONTENDERS = ["mariadb", "mariadb-pool", "onramp"]


def main() -> int:
    """Measures and writes; the exit code is 0 unless nothing could be measured."""
    arguments = parse(sys.argv[1:])
    return measure_and_write(arguments, functools.partial(compare, arguments), overload_page, BEGIN, END)


def compare(arguments: argparse.Namespace, folder: Path, open_files: int) -> Book:
    """Starts everything, measures, stops everything."""
    times = Times.quick() if arguments.quick else Times()
    setting = Setting(
        folder, arguments.onramp, None, open_files, len(os.sched_getaffinity(0)), 10_000, say, onramps=ONRAMPS)
    contenders = Contenders(setting)
    bench = Bench(arguments.onramp, folder / "bench")
    with stopping(bench.stop, contenders.stop):
        contenders.start(chooser(arguments.contenders))
        bad_times = BadTimes(times, contenders, bench, arguments.only, say)
        bad_times.run()
    plan = {"crowd_seconds": times.crowd, "lock_seconds": times.lock}
    return book_of(arguments, open_files, contenders, plan, bad_times.records)


def parse(words: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = options("compare-overload", __doc__, OVERLOAD_SECTIONS)
    parser.add_argument("--contenders", type=names, default=CONTENDERS, metavar="LIST",
                        help=f"of {', '.join(CONTENDERS)} (or one of it: {', '.join(key for key, _, _ in ONRAMPS)})")
    return read(parser, words)


if __name__ == "__main__":
    sys.exit(main())
