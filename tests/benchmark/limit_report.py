"""The part of docs/BENCHMARKS.md about limits that find themselves, from the data of a comparison."""

import re

from book import Book, good, rounds, select, steps
from command_line import USUAL_SERVER, of_server
from limit_measure import CROWDS, FOLLOWING, PHASES, SLEEPS, TURNS, WORKLOADS
from report import skipped, where
from tables import Notes, counted, joined, ratio, table, whole

# What the parts are called, by the server that all stand in front of.
TITLES = {USUAL_SERVER: "Limits that find themselves", "mysql": "Limits that find themselves, before MySQL"}

# The one that finds its limits.
DEFAULT = "onramp-default"


def markers(server: str) -> tuple[str, str]:
    """Between which the part stands."""
    words = "make compare-limit" if server == USUAL_SERVER else f"make compare-limit ARGUMENTS=--server={server}"
    return f"<!-- Measured, written by `{words}`: begin -->", f"<!-- Measured, written by `{words}`: end -->"


def limit_page(book: Book) -> str:
    """The whole part, between the markers."""
    loads = [f"{name}, {turn}" for turn in TURNS for name, _, _ in PHASES]
    parts = [
        introduction(book),
        section(book, "sleep", "### Statements that wait", "Each takes so many milliseconds and no processor. Statements a second:",
                [f"{sleep:g} ms" for sleep in SLEEPS], "Onramp : the better of the others"),
        section(book, "fixed", "### Beside every fixed number of permits", "Statements a second:", WORKLOADS, "Onramp : the best fixed"),
        crowds(book),
        section(book, "changes", "### Loads that follow each other",
                f"The first {FOLLOWING:g} s of a load are not in these figures. Events a second:",
                loads, "Onramp : the best of all"),
        section(book, "changes", "", f"The first {FOLLOWING:g} s of each, events a second:", loads, None, "following")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(each for part in parts for each in part)).strip() + "\n"


def introduction(book: Book) -> list[str]:
    """Machine, versions, how it was measured."""
    plan = book["plan"]
    server = plan.get("server", USUAL_SERVER)
    figures = f"benchmarks-limit{of_server(server)}.json"
    return [
        f"## {TITLES[server]}", "", f"    {book['command']}", "",
        where(book), "",
        f"{counted(plan['rounds'], 'round', 'rounds')}; a run is {plan['seconds']:g} s after {plan['warmup']:g} s in which a limit may find "
        f"itself, and each of the loads that follow each other lasts {plan['phase']:g} s. Closed loops without think time, over TCP; server, "
        "load generator and Onramp share the cores. Onramp has its default options but for what its row says. Cells hold a figure "
        f"for each round. All figures are in [{figures}]({figures}).", "",
        *skipped(book), ""]


def section(book: Book, name: str, title: str, sentence: str, ways: list[str], comparison: str | None,
            figure: str = "per_second") -> list[str]:
    """A row for each contender, a column for each way and number of clients; at its end the one that finds its limits as a share of the
    best other one."""
    columns = sorted({(ways.index(record["way"]), record["connections"]) for record in select(book, name)})
    if not columns:
        return []
    notes, rows = Notes(), []
    for contender in book["contenders"]:
        cells = [select(book, name, contender=contender["key"], way=ways[way], connections=clients) for way, clients in columns]
        if any(cells):
            rows.append([contender["name"], *(
                joined([notes.mark(record["failure"]) if "failure" in record else whole(record[figure]) for record in records])
                for records in cells)])
    if comparison is not None:
        rows.append([comparison, *(joined([
            ratio(share(book, name, ways[way], clients, number)) for number in rounds(book)]) for way, clients in columns)])
    head = ["", *(f"{ways[way]}, {clients:,} clients" for way, clients in columns)]
    return [title, "", sentence, *table(head, rows), *notes.lines()]


def crowds(book: Book) -> list[str]:
    """A row for each crowd and number of clients, a column for each contender; at the end Onramp's figure as a share of that without a crowd."""
    contenders = [each for each in book["contenders"] if select(book, "accounts", contender=each["key"])]
    if not contenders:
        return []
    notes, rows = Notes(), []
    for clients in steps(book, "accounts"):
        for way, _ in CROWDS:
            cells = [select(book, "accounts", contender=each["key"], way=way, connections=clients) for each in contenders]
            alone = "1 schema" if "schema" in way else "1 account"
            rows.append([f"{way}, {clients:,} clients", *(
                joined([notes.mark(record["failure"]) if "failure" in record else whole(record["per_second"]) for record in records])
                for records in cells), joined([ratio(of_alone(book, way, alone, clients, number)) for number in rounds(book)])])
    head = ["", *(each["name"] for each in contenders), "Onramp : the same with one account, or one schema"]
    return ["### Many accounts, schemas, drivers and session states", "",
            "Point selects a second, a new process each; by Zipf's law the n-th account has connections with a weight of 1 / n. Of drivers unlike each "
            "other half know no CLIENT_DEPRECATE_EOF and a third sends CLIENT_MULTI_STATEMENTS; a session state is a character set and a time zone:",
            *table(head, rows), *notes.lines()]


def of_alone(book: Book, way: str, alone: str, clients: int, number: int) -> float | None:
    """What Onramp does with a crowd, as a share of what it does without one."""
    here, there = ([record["per_second"] for record in good(select(
        book, "accounts", way=each, connections=clients, round=number, contender=DEFAULT))] for each in (way, alone))
    return here[0] / there[0] if here and there and there[0] > 0 else None


def share(book: Book, name: str, way: str, clients: int, number: int) -> float | None:
    """What the one that finds its limits does, as a share of the best of the others."""
    records = good(select(book, name, way=way, connections=clients, round=number))
    own = [record["per_second"] for record in records if record["contender"] == DEFAULT]
    others = [record["per_second"] for record in records if record["contender"] != DEFAULT]
    return own[0] / max(others) if own and max(others, default=0.0) > 0 else None
