#!/usr/bin/env python3
"""Compares Onramp with what is installed, alternating in one run, and writes the measured part of docs/BENCHMARKS.md.

    make compare                                     everything: three rounds of all contenders
    make compare ARGUMENTS="--quick"                 a few minutes' look, which leaves the page alone
    make compare ARGUMENTS="--only latency,connect --contenders mariadb,onramp"

Everything is started here, on free ports of 127.0.0.1 and in a temporary folder, and stopped at the end.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.dont_write_bytecode = True

from book import Book, load_book, save_book  # noqa: E402
from contenders import Contenders, Setting  # noqa: E402
from load import Bench  # noqa: E402
from measure import SECTIONS, Comparison, Plan  # noqa: E402
from processes import find, raise_open_files  # noqa: E402
from readings import machine  # noqa: E402
from report import page, put_between_markers  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PAGE = ROOT / "docs" / "BENCHMARKS.md"
ROUNDS_FILE = ROOT / "docs" / "benchmarks.json"
QUICK = TARGET / "benchmark"
# The rounds so far of a run that is still going, or was ended.
UNFINISHED = QUICK / "unfinished.json"

# From fewer clients than cores keep busy to more than a limit of 20,000 open files lets a server have.
STEPS = [4, 16, 64, 256, 1_024, 4_000, 15_000]
BEYOND = [50_000, 100_000]
IDLE = [15_000, 100_000]

# Options that name files.
PATHS = ["--onramp", "--mysql-home", "--output", "--json", "--report-from"]


def main() -> int:
    """Measures and writes; the exit code is 0 unless nothing could be measured."""
    arguments = parse(sys.argv[1:])
    if arguments.report_from is not None:
        put_between_markers(arguments.output, page(load_book(arguments.report_from)))
        return 0
    signal.signal(signal.SIGTERM, interrupt)
    open_files = raise_open_files()
    folder = Path(tempfile.mkdtemp(prefix="onramp-compare-"))
    UNFINISHED.unlink(missing_ok=True)
    try:
        book = compare(arguments, folder, open_files)
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
    put_between_markers(arguments.output, page(book))
    UNFINISHED.unlink(missing_ok=True)
    say(f"written: {arguments.output} and {arguments.json}")
    return 0


def compare(arguments: argparse.Namespace, folder: Path, open_files: int) -> Book:
    """Starts everything, measures, stops everything."""
    plan = plan_of(arguments)
    setting = Setting(
        folder, arguments.onramp, arguments.mysql_home, open_files, len(os.sched_getaffinity(0)),
        max([*plan.steps, *plan.beyond, *plan.idle]), say)
    contenders = Contenders(setting)
    bench = Bench(arguments.onramp, folder / "bench")
    comparison = Comparison(plan, contenders, bench, say)
    try:
        contenders.start(chooser(arguments.contenders))
        book = describe(arguments, open_files, plan, contenders, comparison)
        # About two seconds a run go into connecting and closing.
        minutes = comparison.runs() * (plan.warmup + plan.seconds + 2.0) / 60
        say(f"{comparison.runs()} runs, about {minutes:.0f} minutes")
        comparison.run(lambda: save_book(UNFINISHED, book))
    finally:
        # A second Ctrl-C must not leave servers behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        bench.stop()
        contenders.stop()
    return book


def describe(arguments: argparse.Namespace, open_files: int, plan: Plan, contenders: Contenders,
             comparison: Comparison) -> Book:
    """What is compared where; the records come while it is measured."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": command_text(sys.argv[1:], any(each.key.startswith("mysql") for each in contenders.found)),
        "machine": machine(open_files),
        "versions": versions(arguments.onramp, contenders),
        "plan": {"rounds": plan.rounds, "seconds": plan.seconds, "warmup": plan.warmup},
        "contenders": [
            {"key": each.key, "name": each.name, "front": each.front is not None, "onramp": each.is_onramp}
            for each in contenders.found],
        "skipped": contenders.skipped,
        "records": comparison.records,
    }


def parse(words: list[str]) -> argparse.Namespace:
    """The command line, with the files of a quick look kept apart from the page."""
    parser = argparse.ArgumentParser(prog="make compare", description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=None, help="how often everything is measured [3; quick: 1]")
    parser.add_argument("--time", type=float, default=None, metavar="SECONDS", help="of each run [5; quick: 1]")
    parser.add_argument("--warmup", type=float, default=None, metavar="SECONDS", help="before it [2; quick: 0.5]")
    parser.add_argument("--connections", type=numbers, default=None, metavar="LIST",
                        help="numbers of clients, such as 16,1024,100000; those above 15,000 are for Onramp only")
    parser.add_argument("--only", type=names, default=SECTIONS, metavar="LIST", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--contenders", type=names, default=[], metavar="LIST",
                        help="of mariadb, mariadb-pool, mysql, mysql-pool, onramp (or one of it: onramp-uring-1), haproxy, "
                             "proxysql")
    parser.add_argument("--quick", action="store_true", help="short times and few steps, into target/benchmark")
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
        if section not in SECTIONS:
            parser.error(f"no such part: {section}; there are {', '.join(SECTIONS)}")
    arguments.mysql_home = Path(arguments.mysql_home) if arguments.mysql_home else None
    arguments.onramp = Path(arguments.onramp).resolve()
    if arguments.report_from is None and not arguments.onramp.is_file():
        parser.error(f"{arguments.onramp} is not there: cargo build --release --package onramp")
    arguments.output = arguments.output or (QUICK / "quick.md" if arguments.quick else PAGE)
    arguments.json = arguments.json or (QUICK / "quick.json" if arguments.quick else ROUNDS_FILE)
    return arguments


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


def chooser(chosen: list[str]) -> Callable[[str], bool]:
    """Whether a contender's key is among those chosen; `onramp` stands for all of its variants, and nothing for all."""
    def wanted(key: str) -> bool:
        if not chosen or key in chosen:
            return True
        if key == "onramp":
            return any(each.startswith("onramp-") for each in chosen)
        return key.startswith("onramp-") and "onramp" in chosen

    return wanted


def versions(onramp: Path, contenders: Contenders) -> dict[str, str]:
    """What was compared, in the words of each program."""
    commands: dict[str, list[str]] = {"Onramp": [str(onramp), "--version"]}
    for contender in contenders.found:
        if contender.key.startswith("mysql"):
            commands["MySQL"] = [*contender.server.program.command[:contender.server.program.command.index("--no-defaults")],
                                 "--no-defaults", "--version"]
    for name, program, option in (("MariaDB", "mariadbd", "--version"), ("HAProxy", "haproxy", "-v"),
                                  ("ProxySQL", "proxysql", "--version")):
        path = find(program)
        if path is not None and any(each.key.startswith(name.lower()) for each in contenders.found):
            commands[name] = [path, option]
    return {name: first_line(command) for name, command in commands.items()}


def first_line(command: list[str]) -> str:
    """The first line that a program prints."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return (result.stdout or result.stderr).strip().partition("\n")[0]


def numbers(text: str) -> list[int]:
    """A list of positive numbers."""
    found = sorted({int(word) for word in text.replace("_", "").split(",") if word})
    if not found or found[0] < 1:
        raise argparse.ArgumentTypeError("numbers from 1 on, with commas between")
    return found


def command_text(words: list[str], with_mysql: bool, target: str = "compare") -> str:
    """What somebody else has to type for the same: without the paths of this machine."""
    kept, skip = list[str](), False
    for word in words:
        if not skip and word.partition("=")[0] not in PATHS:
            kept.append(word)
        skip = not skip and word in PATHS
    arguments = f' ARGUMENTS="{" ".join(kept)}"' if kept else ""
    return f"{'MYSQL_HOME=FOLDER ' if with_mysql else ''}make {target}{arguments}"


def names(text: str) -> list[str]:
    """A list of names."""
    return [word.strip() for word in text.split(",") if word.strip()]


def interrupt(*_: object) -> None:
    """SIGTERM ends like Ctrl-C; a second one must not stop the end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def say(text: str) -> None:
    """A line for those who watch."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
