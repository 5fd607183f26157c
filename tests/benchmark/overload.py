#!/usr/bin/env python3
"""Shows what thread pools do in bad times, one after the other, and writes that part of docs/BENCHMARKS.md.

    make compare-overload                                  everything, about 14 minutes
    make compare-overload ARGUMENTS="--only locks"         of: crowd, storm, locks
    make compare-overload ARGUMENTS="--contenders mariadb,onramp-native --quick"

- crowd: clients ask for half of what the server can; after 5 s come 4,000 others and ask for ten times its capacity, for 60 s.
- storm: 3,000 clients ask for three quarters of the capacity. They wait a second, then hang up, connect and ask again. A
  table lock of five seconds makes all of them impatient.
- locks: somebody holds FLUSH TABLES WITH READ LOCK against 500 writers, or LOCK TABLES against 500 readers of the table, or a
  named lock that 100 others want in turn, while others read what is not locked.
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
from contenders import Contenders, Setting  # noqa: E402
from load import Bench  # noqa: E402
from main import PAGE, QUICK, ROOT, TARGET, chooser, command_text, interrupt, names, say, versions  # noqa: E402
from overload_measure import ONRAMPS, OVERLOAD_SECTIONS, BadTimes, Times  # noqa: E402
from overload_report import BEGIN, END, overload_page  # noqa: E402
from processes import raise_open_files  # noqa: E402
from readings import machine  # noqa: E402
from report import put_between_markers  # noqa: E402

ROUNDS_FILE = ROOT / "docs" / "benchmarks-overload.json"
CONTENDERS = ["mariadb", "mariadb-pool", "onramp"]


def main() -> int:
    """Measures and writes; the exit code is 0 unless nothing could be measured."""
    arguments = parse(sys.argv[1:])
    if arguments.report_from is not None:
        put_between_markers(arguments.output, overload_page(load_book(arguments.report_from)), BEGIN, END)
        return 0
    signal.signal(signal.SIGTERM, interrupt)
    folder = Path(tempfile.mkdtemp(prefix="onramp-compare-overload-"))
    try:
        book = compare(arguments, folder, raise_open_files())
    except KeyboardInterrupt:
        say("ended before its time; nothing was written")
        return 130  # 128 and SIGINT, as shells have it
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not book["records"]:
        say("nothing could be measured")
        return 1
    save_book(arguments.json, book)
    put_between_markers(arguments.output, overload_page(book), BEGIN, END)
    say(f"written: {arguments.output} and {arguments.json}")
    return 0


def compare(arguments: argparse.Namespace, folder: Path, open_files: int) -> Book:
    """Starts everything, measures, stops everything."""
    times = Times.quick() if arguments.quick else Times()
    setting = Setting(
        folder, arguments.onramp, None, open_files, len(os.sched_getaffinity(0)), 10_000, say, onramps=ONRAMPS)
    contenders = Contenders(setting)
    bench = Bench(arguments.onramp, folder / "bench")
    try:
        contenders.start(chooser(arguments.contenders))
        bad_times = BadTimes(times, contenders, bench, arguments.only, say)
        bad_times.run()
    finally:
        # A second Ctrl-C must not leave servers behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        bench.stop()
        contenders.stop()
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": command_text(sys.argv[1:], False, "compare-overload"),
        "machine": machine(open_files),
        "versions": versions(arguments.onramp, contenders),
        "plan": {"crowd_seconds": times.crowd, "lock_seconds": times.lock},
        "contenders": [
            {"key": each.key, "name": each.name, "front": each.front is not None, "onramp": each.is_onramp}
            for each in contenders.found],
        "skipped": contenders.skipped,
        "records": bad_times.records,
    }


def parse(words: list[str]) -> argparse.Namespace:
    """The command line, with the files of a quick look kept apart from the page."""
    parser = argparse.ArgumentParser(
        prog="make compare-overload", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, default=OVERLOAD_SECTIONS, metavar="LIST",
                        help=f"of {', '.join(OVERLOAD_SECTIONS)}")
    parser.add_argument("--contenders", type=names, default=CONTENDERS, metavar="LIST",
                        help=f"of {', '.join(CONTENDERS)} (or one of it: {', '.join(key for key, _, _ in ONRAMPS)})")
    parser.add_argument("--quick", action="store_true", help="shorter, into target/benchmark")
    parser.add_argument("--onramp", type=Path, metavar="PROGRAM", help="the binary [ONRAMP_BIN, target/release/onramp]",
                        default=os.environ.get("ONRAMP_BIN", TARGET / "release" / "onramp"))
    parser.add_argument("--output", type=Path, default=None, metavar="FILE", help="page with the markers")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="all figures")
    parser.add_argument("--report-from", type=Path, default=None, metavar="FILE",
                        help="measure nothing; write the page from such a file")
    arguments = parser.parse_args(words)
    for section in arguments.only:
        if section not in OVERLOAD_SECTIONS:
            parser.error(f"no such part: {section}; there are {', '.join(OVERLOAD_SECTIONS)}")
    arguments.onramp = Path(arguments.onramp).resolve()
    if arguments.report_from is None and not arguments.onramp.is_file():
        parser.error(f"{arguments.onramp} is not there: cargo build --release --package onramp")
    arguments.output = arguments.output or (QUICK / "quick-overload.md" if arguments.quick else PAGE)
    arguments.json = arguments.json or (QUICK / "quick-overload.json" if arguments.quick else ROUNDS_FILE)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
