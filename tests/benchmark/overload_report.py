"""The part of docs/BENCHMARKS.md about bad times, from the data of a comparison."""

import re
from typing import Any

from book import Book, Named, select
from overload_measure import (CROWD, CROWD_SHARE, HEAVY, PATIENCE, READERS, REGULAR, REGULAR_SHARE, STORM, STORM_SHARE,
                              TURNS, WAITING)
from pool_report import percent
from report import skipped, where
from tables import Notes, digits, table, whole

BEGIN = "<!-- Measured, written by `make compare-overload`: begin -->"
END = "<!-- Measured, written by `make compare-overload`: end -->"

Record = dict[str, Any]


def overload_page(book: Book) -> str:
    """The whole part, between the markers."""
    parts = [introduction(book), crowd(book), storm(book), locks(book), turns(book)]
    lines = [line for part in parts for line in part]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def introduction(book: Book) -> list[str]:
    """Machine, versions, how it was measured."""
    return [
        "## Thread pools in bad times", "", f"    {book['command']}", "",
        where(book), "",
        "Server, load generators and Onramp share the cores; over TCP; one run of each. Onramp stands in front of the MariaDB "
        "with a thread per connection; *bounded* is `queue_wait_limit = 500ms` and `queue_delay_target = 50ms`, *oldest first* "
        "`adaptive_lifo = off`. A heavy "
        f"statement is `onramp bench run {' '.join(HEAVY)}`: some milliseconds of a core. *Normal after* is when, for a second, "
        "nobody got an error, the rate was back and waits were at most three times the usual ones or 20 ms. All figures are in "
        "[benchmarks-overload.json](benchmarks-overload.json).", "",
        *skipped(book), ""]


def crowd(book: Book) -> list[str]:
    """Ten times the capacity."""
    notes, rows = Notes(), []
    found = [(contender["name"], record) for contender, record in of(book, "crowd")]
    found += [(f"{contender['name']}, all of one account", record) for contender, record in of(book, "crowd_of_one_account")]
    for name, record in found:
        rows.append([name, *failed_or(record, notes, lambda r: [
            whole(r["capacity"]), percent(r["goodput"]), percent(r["regular_rate"]), digits(r["regular_p99"]),
            digits(r["longest"]), whole(r["refused"]), seconds(r["normal_after"])])])
    head = ["", "capacity, statements/s", "goodput, of capacity", "regular ones served", "their p99, ms", "longest wait, ms",
            "refused", "normal after"]
    return section(
        f"### A flash crowd: {REGULAR} clients ask for {REGULAR_SHARE:.0%} of the capacity, then {CROWD:,} more for "
        f"{CROWD_SHARE:.0f} times as much as it, for {book['plan']['crowd_seconds']:g} s",
        "Those who come have an account of their own, but for the last row. Waits are of statements that were answered with rows, from the moment they were due.", head, rows, notes)


def storm(book: Book) -> list[str]:
    """Impatient clients."""
    notes, rows = Notes(), []
    for contender, record in of(book, "storm"):
        rows.append([contender["name"], *failed_or(record, notes, lambda r: [
            whole(r["rate"]), whole(r["given_up"]), whole(r["executed"]), whole(r["answered"]), percent(r["for_nobody"]),
            seconds(r["normal_after"])])])
    head = ["", "asked for, statements/s", "given up", "SELECTs the server ran", "answered in time", "run for nobody",
            "normal after"]
    return section(
        f"### A storm: {STORM:,} clients ask for {STORM_SHARE:.0%} of the capacity, wait {PATIENCE / 1_000:g} s, hang up, connect "
        "and ask again; all tables are locked for five seconds",
        "The server's own count of SELECTs, with those of Onramp's service account.", head, rows, notes)


def locks(book: Book) -> list[str]:
    """Locks that one holds."""
    lines: list[str] = []
    for name, title in (("global_lock", f"FLUSH TABLES WITH READ LOCK against {WAITING} clients with updates"),
                        ("table_lock", f"LOCK TABLES against {WAITING} readers of the table")):
        notes, rows = Notes(), []
        for contender, record in of(book, name):
            rows.append([contender["name"], *failed_or(record, notes, lambda r: [
                digits(r["lock_ms"]), digits(r["question_ms"]), digits(r["unlock_ms"]), whole(r["readers_before"]),
                whole(r["readers_beside"]), digits(r["readers_longest"]), whole(r["waiting_before"]),
                whole(r["waiting_after"])])])
        head = ["", "the lock, ms", "the holder's SELECT, ms", "UNLOCK TABLES, ms", "others' reads/s before", "while it is held",
                "their longest wait, ms", "the many, statements/s before", "after"]
        lines += section(
            f"### {title}", f"Beside them {READERS} clients read another table. Each of the many pauses 100 ms, each of the others "
            "5 ms.", head, rows, notes)
    return lines


def turns(book: Book) -> list[str]:
    """A named lock."""
    notes, rows = Notes(), []
    for contender, record in of(book, "named_lock"):
        rows.append([contender["name"], *failed_or(record, notes, lambda r: [
            whole(r["turns"]), whole(r["readers_before"]), whole(r["readers_beside"])])])
    return section(
        f"### A named lock that {TURNS} clients take in turn", f"GET_LOCK, a SELECT, RELEASE_LOCK, again, by clients in Python, which "
        f"bounds the rate. Beside them {READERS} clients read.", ["", "turns/s", "others' reads/s before", "beside"], rows, notes)


def of(book: Book, name: str) -> list[tuple[Named, Record]]:
    """The contenders with their record."""
    found = [(contender, select(book, name, contender=contender["key"])) for contender in book["contenders"]]
    return [(contender, records[0]) for contender, records in found if records]


def failed_or(record: Record, notes: Notes, cells: Any) -> list[str]:
    """The cells, or the mark of why there are none."""
    if "failure" in record:
        return [notes.mark(record["failure"])]
    found: list[str] = cells(record)
    return found


def section(title: str, sentence: str, head: list[str], rows: list[list[str]], notes: Notes) -> list[str]:
    """One table with what is said about it; nothing where nothing was measured."""
    if not rows:
        return []
    filled = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    return [title, "", sentence, *table(head, filled), *notes.lines()]


def seconds(value: float | None) -> str:
    """1.5 s, or that it did not come."""
    return "not in this run" if value is None else f"{value:.1f} s"
