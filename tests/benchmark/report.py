"""The measured part of docs/BENCHMARKS.md, from the data of a comparison."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from book import Book, good, select, steps
from ratios import ratio_rows
from tables import Notes, counted, digits, joined, median, size, table, whole

BEGIN = "<!-- Measured, written by `make compare`: begin -->"
END = "<!-- Measured, written by `make compare`: end -->"

Record = dict[str, Any]


def page(book: Book) -> str:
    """The whole part, between the markers."""
    parts = [
        introduction(book), ratios_part(book), point_selects(book), latencies(book), connects(book), idle(book),
        processor_time(book), functions(book), details(book)]
    lines = [line for part in parts for line in part]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def put_between_markers(path: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Replaces what stands between the markers of a page; a page without them is made anew."""
    before, after = "", ""
    if path.is_file():
        whole_page = path.read_text()
        if begin in whole_page and end in whole_page:
            before, after = whole_page.split(begin)[0], whole_page.split(end)[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after or chr(10)}")


def introduction(book: Book) -> list[str]:
    """Machine, versions, how it was measured."""
    plan = book["plan"]
    return [
        "## What was compared", "", f"    {book['command']}", "",
        where(book, f", a limit of {book['machine']['open_files']:,} open files"), "",
        f"{counted(plan['rounds'], 'round', 'rounds')}; in each, all contenders did one step after the other, then all the "
        f"next step. A run is {plan['seconds']:g} s after {plan['warmup']:g} s of warm-up. Point selects are `SELECT c` by "
        "primary key in 4 tables of 100,000 rows in memory, uniform ids, text protocol over TCP, a closed loop without "
        "think time. Server, load generator and what stands between share the cores. Onramp, HAProxy and ProxySQL stand in "
        "front of the MariaDB with a thread per connection and reach it over its Unix socket; Onramp has its default "
        "options. Cells with several figures hold one for each round, others the median; empty ones were not tried. All "
        "figures are in [benchmarks.json](benchmarks.json).", "",
        *skipped(book), ""]


def where(book: Book, more: str = "") -> str:
    """The day, the machine with `more` of it, and the versions."""
    machine = book["machine"]
    versions = ", ".join(f"{name} {version_number(text)}" for name, text in book["versions"].items())
    return (f"{book['date']}. {counted(machine['cores'], 'core', 'cores')} ({machine['processor']}), "
            f"{machine['memory'] / 2**30:.0f} GiB of memory, Linux {machine['kernel']}{more}. {versions}.")


def skipped(book: Book) -> list[str]:
    """What was not there, each with its reason."""
    return [f"Not measured here: {'; '.join(book['skipped'])}."] if book["skipped"] else []


def version_number(text: str) -> str:
    """10.11.6 from what a program says about itself."""
    found = re.search(r"\d+\.\d+[\w.]*", text)
    return found.group(0) if found else text


def ratios_part(book: Book) -> list[str]:
    """What the figures come to."""
    variants = [each for each in book["contenders"] if each["onramp"]]
    rows = ratio_rows(book, variants)
    if not rows:
        return []
    return ["## Ratios, round by round", *table(["", *(each["name"] for each in variants)], rows)]


def point_selects(book: Book) -> list[str]:
    """Queries per second and p95 of everybody at every step."""
    if not steps(book, "point_select"):
        return []
    return [
        "## Point selects", "", "Queries per second:", *matrix(book, "per_second", whole), "",
        "p95, milliseconds (the fair share is the number of clients / queries per second):",
        *matrix(book, "p95", digits)]


def matrix(book: Book, key: str, form: Callable[[float | None], str]) -> list[str]:
    """Medians: a row for each number of clients, a column for each contender."""
    notes = Notes()
    rows = []
    for connections in steps(book, "point_select"):
        row = [whole(connections)]
        for contender in book["contenders"]:
            records = select(book, "point_select", contender=contender["key"], connections=connections)
            values = [record[key] for record in good(records)]
            row.append(form(median(values)) if values else notes.mark(records[0]["failure"]) if records else "")
        rows.append(row)
    head = ["clients", *(contender["name"] for contender in book["contenders"])]
    return [*table(head, rows), *notes.lines()]


def details(book: Book) -> list[str]:
    """Every round of every step, a table for each contender."""
    lines = ["## Point selects, every round"]
    for contender in book["contenders"]:
        rows, notes = [], Notes()
        for connections in steps(book, "point_select"):
            records = select(book, "point_select", contender=contender["key"], connections=connections)
            if records:
                rows.append([whole(connections), *detail_cells(records, notes)])
        if rows:
            head = ["clients", "queries/s", "p50 ms", "p95 ms", "p99 ms", "fair share ms", "longest wait ms", "errors",
                    "memory"]
            lines += ["", f"### {contender['name']}", *table(head, rows), *notes.lines()]
    return lines if len(lines) > 1 else []


def detail_cells(records: list[Record], notes: Notes) -> list[str]:
    """One step of one contender."""
    if not good(records):
        return [joined([notes.mark(record["failure"]) for record in records])] + [""] * 7
    keys: list[tuple[str, Callable[[float | None], str]]] = [
        ("per_second", whole), ("p50", digits), ("p95", digits), ("p99", digits), ("fair_share", digits),
        ("longest", digits), ("errors", whole)]
    cells = [joined([figure(record, key, form, notes) for record in records]) for key, form in keys]
    memory = [own_memory(record) for record in good(records)]
    return [*cells, size(max((each for each in memory if each is not None), default=None))]


def figure(record: Record, key: str, form: Callable[[float | None], str], notes: Notes) -> str:
    """One figure of one round."""
    return notes.mark(record["failure"]) if "failure" in record else form(record[key])


def own_memory(record: Record) -> int | None:
    """The most memory of what stands in front of the server, or else of the server."""
    resident: dict[str, int | None] = record["resident"]
    found = resident.get("front")
    return found if found is not None else resident.get("server")


def latencies(book: Book) -> list[str]:
    """What Onramp adds for one client and for a few."""
    if not steps(book, "latency"):
        return []
    rows, notes = [], Notes()
    for connections in steps(book, "latency"):
        for contender in book["contenders"]:
            for way in ("unix", "tcp"):
                records = select(book, "latency", contender=contender["key"], connections=connections, way=way)
                if records:
                    rows.append([
                        whole(connections), contender["name"], "Unix socket" if way == "unix" else "TCP",
                        joined([figure(record, "p50", micros, notes) for record in records]),
                        joined(added(book, records, "p50", notes)) if contender["front"] else "",
                        joined([figure(record, "avg", micros, notes) for record in records]),
                        joined(added(book, records, "avg", notes)) if contender["front"] else ""])
    head = ["clients", "contender", "over", "p50 µs", "added", "average µs", "added"]
    return [
        "## Latency", "", "What is added is against the direct connection of the same kind, in the same round. The load "
        "generator's clock has whole microseconds.",
        *table(head, rows), *notes.lines()]


def micros(milliseconds: float | None) -> str:
    """Milliseconds as microseconds."""
    return digits(None if milliseconds is None else milliseconds * 1000.0)


def added(book: Book, records: list[Record], key: str, notes: Notes) -> list[str]:
    """Microseconds beyond the direct connection, for each round."""
    cells = []
    for record in records:
        direct = good(select(book, "latency", contender="mariadb", connections=record["connections"], way=record["way"],
                             round=record["round"]))
        if "failure" in record:
            cells.append(notes.mark(record["failure"]))
        elif direct:
            cells.append(micros(record[key] - direct[0][key]))
    return cells


def connects(book: Book) -> list[str]:
    """Connect, log in, ask, disconnect."""
    if not steps(book, "connect"):
        return []
    rows, notes = [], Notes()
    for contender in book["contenders"]:
        records = select(book, "connect", contender=contender["key"])
        if records:
            keys: list[tuple[str, Callable[[float | None], str]]] = [
                ("events_per_second", whole), ("p50", digits), ("p95", digits), ("p99", digits), ("errors", whole)]
            rows.append([contender["name"], *(
                joined([figure(record, key, form, notes) for record in records]) for key, form in keys)])
    at_a_time = steps(book, "connect")[0]
    return [
        "## Connect, log in, one query, disconnect", "", f"{at_a_time} at a time.",
        *table(["contender", "per second", "p50 ms", "p95 ms", "p99 ms", "errors"], rows), *notes.lines()]


def idle(book: Book) -> list[str]:
    """Memory of clients that have logged in, asked once and are silent."""
    rows, notes = [], Notes()
    for connections in steps(book, "idle"):
        for contender in book["contenders"]:
            records = select(book, "idle", contender=contender["key"], connections=connections)
            if records:
                rows.append([whole(connections), contender["name"], *idle_cells(records, notes)])
    if not rows:
        return []
    head = ["clients", "contender", "resident before", "with them", "a client", "the kernel's growth", "connected within s"]
    return [
        "## Memory of idle clients", "",
        "The process's resident memory; beside it, how much the kernel's own memory (Slab) grew: both ends of each connection "
        "are on this machine.", *table(head, rows), *notes.lines()]


def idle_cells(records: list[Record], notes: Notes) -> list[str]:
    """Memory before and after, and what a client costs."""
    fine = good(records)
    if not fine:
        return [joined([notes.mark(record["failure"]) for record in records]), "", "", "", ""]
    with_them = [record["resident"]["front"] for record in fine]
    before = [record.get("resident_before") for record in fine]
    a_client = [(with_them[index] - before[index]) / fine[index]["connections"] for index in range(len(fine))
                if with_them[index] is not None and before[index] is not None]
    kernel = [record["kernel"] - record["kernel_before"] for record in fine
              if record.get("kernel") is not None and record.get("kernel_before") is not None]
    return [
        joined([size(each) for each in before]), joined([size(each) for each in with_them]),
        joined([size(each) for each in a_client]), joined([size(each) for each in kernel]),
        joined([digits(record["connecting"]) for record in fine])]


def processor_time(book: Book) -> list[str]:
    """Microseconds a query, of all that take part."""
    rows = []
    for contender in book["contenders"]:
        for connections in steps(book, "point_select"):
            records = good(select(book, "point_select", contender=contender["key"], connections=connections))
            cells = [cell for part in ("front", "server", "bench") for cell in micros_of(records, part)]
            if any(cells):
                rows.append([contender["name"], whole(connections), *cells])
    if not rows:
        return []
    head = ["contender", "clients", "in front: user", "kernel", "server: user", "kernel", "load generator: user", "kernel"]
    return ["## Processor time a query", "", "Microseconds, medians.", *table(head, rows)]


def micros_of(records: list[Record], part: str) -> list[str]:
    """User and kernel time of a part: medians of all rounds that could tell."""
    pairs = [record["micros"][part] for record in records if record["micros"].get(part)]
    return [digits(median([pair[0] for pair in pairs])), digits(median([pair[1] for pair in pairs]))]


def functions(book: Book) -> list[str]:
    """The first functions of Onramp by their own time."""
    lines: list[str] = []
    for contender in book["contenders"]:
        columns = select(book, "profile", contender=contender["key"])
        fine = sorted(good(columns), key=lambda record: record["connections"])
        for record in columns:
            if "failure" in record:
                lines += ["", f"{contender['name']} at {record['connections']:,} clients: {record['failure']}"]
        if fine:
            lines += [f"### {contender['name']}", *function_table(fine)]
    return ["## Where Onramp's time goes", "", "The first functions by the time in themselves (`perf record`).", "", *lines] \
        if lines else []


def function_table(records: list[Record]) -> list[str]:
    """Side by side, a column for each number of clients."""
    head = ["", *(f"{record['connections']:,} clients" for record in records)]
    longest = max(len(record["symbols"]) for record in records)
    rows = []
    for place in range(longest):
        row = [str(place + 1)]
        for record in records:
            symbols = record["symbols"]
            row.append(function_cell(symbols[place]) if place < len(symbols) else "")
        rows.append(row)
    return table(head, rows)


def function_cell(symbol: Record) -> str:
    """12.3 % tcp_sendmsg (kernel)"""
    return f"{symbol['share']:.1f} % `{symbol['name']}` ({symbol['space']})"
