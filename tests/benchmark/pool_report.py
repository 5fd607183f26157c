"""The part of docs/BENCHMARKS.md about thread pools under load, from the data of a comparison."""

import re
from collections.abc import Callable
from typing import Any

from book import Book, Named, good, rounds, select, steps
from pool_measure import AT_ONE_ROW, LONG, MANY, OTHERS, SHORT, WORKLOADS
from report import skipped, where
from tables import Notes, counted, digits, joined, median, ratio, table, whole

BEGIN = "<!-- Measured, written by `make compare-pool`: begin -->"
END = "<!-- Measured, written by `make compare-pool`: end -->"

# At these numbers of clients it is said how much of the peak is kept.
KEPT_AT = [4_096, 15_000]

TITLES = {
    "update_non_index": "Updates by primary key, each a transaction of its own (`update_non_index`)",
    "update_non_index_trx": "The same between BEGIN and COMMIT (`update_non_index_trx`)",
    "oltp_read_write": "14 reads and 4 writes between BEGIN and COMMIT (`oltp_read_write`)",
}

# In place of a wait.
NO_END = "none ended within the run: the rate is that of the statements which were answered"

Record = dict[str, Any]


def pool_page(book: Book) -> str:
    """The whole part, between the markers."""
    parts = [
        introduction(book), *(workload_part(book, name) for name in WORKLOADS), forms(book),
        disturbed(
            book, "mix", f"### {LONG} clients with `SELECT SLEEP(1)` beside {SHORT} with point selects",
            "What the point selects get, alone and beside the long ones."),
        disturbed(
            book, "pile_up", f"### {AT_ONE_ROW:,} clients at one row beside {OTHERS} with point selects",
            "The many update the same row between BEGIN and COMMIT. What the point selects get, alone and beside them.")]
    lines = [line for part in parts for line in part]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def introduction(book: Book) -> list[str]:
    """Machine, versions, how it was measured."""
    plan = book["plan"]
    left_out = plan.get("left_out", 0)
    return [
        "## The thread pool under load", "", f"    {book['command']}", "",
        where(book), "",
        f"{counted(plan['rounds'], 'round', 'rounds')}; in each, all contenders did one step after the other, then all the "
        f"next step. A run is {plan['seconds']:g} s after {plan['warmup']:g} s of warm-up (`oltp_read_write` from "
        f"{MANY:,} clients on: twice as long, after 1.5 s more), a closed loop without think time, over TCP, on 4 tables of 100,000 rows in memory with uniform ids. The servers run with "
        "innodb_flush_log_at_trx_commit=2 and without a binary log; server, load generator and Onramp share the cores. Onramp "
        "stands in front of the MariaDB with a thread per connection, with its default options but for what its row says. "
        "*Kept* is the rate as a share of the contender's own best step in the same round. Cells with several figures hold one "
        "for each round, others the median; empty ones were not tried. All figures are in "
        "[benchmarks-pool.json](benchmarks-pool.json).", "",
        *skipped(book), "",
        *([f"{counted(left_out, 'measurement was', 'measurements were')} left out at the end: the time was up."]
          if left_out else []), ""]


def workload_part(book: Book, workload: str) -> list[str]:
    """Rates, what is kept of them, and waits: a row for each contender."""
    tried = steps(book, workload)
    if not tried:
        return []
    notes = Notes()
    kept_at = [step for step in KEPT_AT if step in tried and step != tried[0]]
    head = ["queries/s at", *map(whole, tried), *(f"kept at {step:,}" for step in kept_at), "errors"]
    rates, waits = [], []
    for contender in those_of(book, workload):
        key = contender["key"]
        records = select(book, workload, contender=key)
        errors = sum(record["errors"] for record in good(records))
        rates.append([
            contender["name"], *(cell(book, workload, key, step, "per_second", whole, notes) for step in tried),
            *(percent(median(kept(book, workload, key, step))) for step in kept_at), whole(errors)])
        waits.append([contender["name"], *(cell(book, workload, key, step, "p95", digits, notes) for step in tried)])
    event = "an update" if workload == "update_non_index" else "a transaction"
    return [
        f"### {TITLES[workload]}", *table(head, rates), f"p95 of {event} that ended within the run, milliseconds:",
        *table(["clients", *map(whole, tried)], waits), *notes.lines()]


def those_of(book: Book, section: str) -> list[Named]:
    """The contenders that have records of a section, the servers by themselves first."""
    found = [each for each in book["contenders"] if select(book, section, contender=each["key"])]
    return sorted(found, key=lambda each: each["front"])


def cell(book: Book, section: str, key: str, step: int, figure: str, form: Callable[[float | None], str],
         notes: Notes) -> str:
    """The median over all rounds, or why there is none."""
    records = select(book, section, contender=key, connections=step)
    values = [record[figure] for record in good(records) if record[figure] is not None]
    return form(median(values)) if values else notes.mark(records[0].get("failure", NO_END)) if records else ""


def kept(book: Book, section: str, key: str, step: int) -> list[float]:
    """For each round, the rate at a step as a share of the best at any."""
    shares = []
    for number in rounds(book):
        records = good(select(book, section, contender=key, round=number))
        best = max((record["per_second"] for record in records), default=0.0)
        shares += [record["per_second"] / best for record in records if record["connections"] == step and best > 0]
    return shares


def percent(share: float | None) -> str:
    """94 %"""
    return "" if share is None else f"{share * 100:.0f} %"


def forms(book: Book) -> list[str]:
    """How much an update costs more in a transaction of three statements."""
    single, between = WORKLOADS[0], WORKLOADS[1]
    tried = [step for step in steps(book, single) if step in steps(book, between)]
    rows = []
    for contender in those_of(book, between):
        shares = [percent(median(gap(book, contender["key"], step))) for step in tried]
        if any(shares):
            rows.append([contender["name"], *shares])
    if not rows:
        return []
    return ["### Updates a second between BEGIN and COMMIT, as a share of those that commit by themselves",
            *table(["clients", *map(whole, tried)], rows)]


def gap(book: Book, key: str, step: int) -> list[float]:
    """For each round, updates between BEGIN and COMMIT as a share of single ones."""
    shares = []
    for number in rounds(book):
        found = [good(select(book, name, contender=key, round=number, connections=step)) for name in WORKLOADS[:2]]
        if all(found) and found[0][0]["events_per_second"] > 0:
            shares.append(found[1][0]["events_per_second"] / found[0][0]["events_per_second"])
    return shares


def disturbed(book: Book, section: str, title: str, sentence: str) -> list[str]:
    """Point selects alone and beside what disturbs them, every round."""
    rows, notes = [], Notes()
    for contender in those_of(book, section):
        alone, beside = (select(book, section, contender=contender["key"], way=way) for way in ("alone", "beside"))
        rows.append([
            contender["name"], figures(alone, "per_second", whole, notes), figures(beside, "per_second", whole, notes),
            figures(alone, "p99", digits, notes), figures(beside, "p99", digits, notes),
            joined([ratio(share) for share in slowed(alone, beside)]), figures(beside, "errors", whole, notes),
            joined([others(record, notes) for record in beside])])
    if not rows:
        return []
    head = ["", "queries/s alone", "beside", "p99 ms alone", "beside", "p99 beside : alone", "errors", "the others a second"]
    return [title, "", sentence, *table(head, rows), *notes.lines()]


def figures(records: list[Record], key: str, form: Callable[[float | None], str], notes: Notes) -> str:
    """One figure of all rounds."""
    return joined([notes.mark(record["failure"]) if "failure" in record else form(record[key]) for record in records])


def slowed(alone: list[Record], beside: list[Record]) -> list[float]:
    """For each round that has both, p99 beside the others : p99 alone."""
    before = {record["round"]: record["p99"] for record in good(alone)}
    return [record["p99"] / before[record["round"]] for record in good(beside) if before.get(record["round"])]


def others(record: Record, notes: Notes) -> str:
    """What the load beside came to: statements or transactions a second."""
    found: Record = record.get("beside", {})
    return notes.mark(found["failure"]) if "failure" in found else digits(found.get("events_per_second"))
