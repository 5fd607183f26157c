"""A comparison as a whole: in the end everything is stopped that was started, and what was measured is written."""

import argparse
import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from book import Book, load_book, save_book
from command_line import command_text
from contenders import Contenders
from processes import find, raise_open_files
from readings import machine
from report import put_between_markers


def measure_and_write(arguments: argparse.Namespace, measure: Callable[[Path, int], Book], page: Callable[[Book], str],
                      begin: str, end: str) -> int:
    """Measures, in a temporary folder and with as many open files as there may be, and writes the page's part between
    two markers; the exit code is 0 unless nothing could be measured."""
    if arguments.report_from is not None:
        put_between_markers(arguments.output, page(load_book(arguments.report_from)), begin, end)
        return 0
    signal.signal(signal.SIGTERM, interrupt)
    folder = Path(tempfile.mkdtemp(prefix=f"onramp-{arguments.target}-"))
    arguments.unfinished.unlink(missing_ok=True)
    try:
        book = measure(folder, raise_open_files())
    except KeyboardInterrupt:
        so_far = f"the rounds that were complete are in {arguments.unfinished}: see --report-from"
        say(f"ended before its time; {so_far if arguments.unfinished.exists() else 'nothing was written'}")
        return 130  # 128 and SIGINT, as shells have it
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not book["records"]:
        say("nothing could be measured")
        return 1
    save_book(arguments.json, book)
    # From the file, whose figures are rounded: so that the page can be written from it again.
    put_between_markers(arguments.output, page(load_book(arguments.json)), begin, end)
    arguments.unfinished.unlink(missing_ok=True)
    say(f"written: {arguments.output} and {arguments.json}")
    return 0


@contextlib.contextmanager
def stopping(*stops: Callable[[], None]) -> Iterator[None]:
    """Calls these in the end, whatever happens."""
    try:
        yield
    finally:
        # A second Ctrl-C must not leave servers behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for stop in stops:
            stop()


def book_of(arguments: argparse.Namespace, open_files: int, contenders: Contenders, plan: dict[str, Any],
            records: list[dict[str, Any]]) -> Book:
    """What is compared where and how; the records may come while it is measured."""
    with_mysql = any(each.key.startswith("mysql") for each in contenders.found)
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": command_text(arguments.target, arguments.words, with_mysql),
        "machine": machine(open_files),
        "versions": versions(arguments.onramp, contenders),
        "plan": plan,
        "contenders": [
            {"key": each.key, "name": each.name, "front": each.front is not None, "onramp": each.is_onramp}
            for each in contenders.found],
        "skipped": contenders.skipped,
        "records": records,
    }


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


def interrupt(*_: object) -> None:
    """SIGTERM ends like Ctrl-C; a second one must not stop the end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def say(text: str) -> None:
    """A line for those who watch."""
    print(text, flush=True)
