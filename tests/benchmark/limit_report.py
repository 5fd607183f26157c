"""The part of docs/BENCHMARKS.md about limits that find themselves, from the data of a comparison."""

import re
import statistics
from collections.abc import Callable
from typing import Any

from book import Book, good, rounds, select, steps
from command_line import USUAL_SERVER, of_server
from limit_measure import (
    CROWDS, FAR_LOADS, FOLLOWING, HALF, HALVES, LOADS, LONG_CLIENTS, LONG_SECONDS, LONG_SLEEP, SLEEPS, WORKLOADS, at_distance, in_a_row)
from report import skipped, where
from stream import INTERVAL
from tables import Notes, counted, digits, joined, ratio, table, whole

# What the parts are called, by the server that all stand in front of.
TITLES = {USUAL_SERVER: "Limits that find themselves", "mysql": "Limits that find themselves, before MySQL"}

# The one that finds its limits.
DEFAULT = "onramp-default"

# A load has been followed when for two seconds as much is done as this share of what the best does.
REACHED, LINES = 0.95, round(2.0 / INTERVAL)


def markers(server: str) -> tuple[str, str]:
    """Between which the part stands."""
    words = "make compare-limit" if server == USUAL_SERVER else f"make compare-limit ARGUMENTS=--server={server}"
    return f"<!-- Measured, written by `{words}`: begin -->", f"<!-- Measured, written by `{words}`: end -->"


def limit_page(book: Book) -> str:
    """The whole part, between the markers."""
    sleeps = [f"{sleep:g} ms" for sleep in [*SLEEPS, LONG_SLEEP]]
    loads = [name for name, _, _ in in_a_row(LOADS)]
    parts = [
        introduction(book),
        section(book, "sleep", "### Statements that wait",
                f"Each takes so many milliseconds and no processor; those of a second, of {LONG_CLIENTS} clients alone, for {LONG_SECONDS:g} s. "
                "The goal is 0.95. Statements a second:", sleeps, "Onramp : the better of the others"),
        section(book, "fixed", "### Beside every fixed number of permits", "The goal is 0.97. Statements a second:", WORKLOADS,
                "Onramp : the best fixed"),
        halves(book),
        crowds(book),
        followed(book, "changes", "### Loads that follow each other", "", loads),
        followed(book, "cold-disk", "### The same with a cold disk",
                 "The server has 16 MB of memory for 130 MB of data, and the system keeps none of it: a point select is a read from the disk. ", loads),
        *(followed(book, "far", f"### Loads that follow each other, {distance:g} ms away", beside_the_relay(book, distance),
                   [at_distance(distance, name) for name, _, _ in in_a_row(FAR_LOADS)]) for distance in book["plan"].get("distances", []))]
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
        "load generator and Onramp share the cores. Onramp has its default options but for what its row says, and each figure is one of a new "
        "process of it, loads that follow each other aside. All do a step one after the other, in every second round the last one first. Cells "
        "hold a figure for each round; where Onramp is a share of another, that is the one with the best median, and the cell holds the median "
        f"of the rounds and their range. All figures are in [{figures}]({figures}).", "",
        *skipped(book), ""]


def section(book: Book, name: str, title: str, sentence: str, ways: list[str], comparison: str,
            of: Callable[[Book, str, str, int], list[float]] | None = None) -> list[str]:
    """A row for each contender, a column for each way and number of clients; at its end the one that finds its limits as a share of the
    best other one, or of what `of` says."""
    columns = columns_of(book, name, ways)
    if not columns:
        return []
    rows, notes = rows_of(book, name, ways, lambda record: whole(record["per_second"]))
    rows.append([comparison, *(spread((of or shares)(book, name, ways[way], clients)) for way, clients in columns)])
    return [title, "", sentence, *table(head_of(ways, columns), rows), *notes.lines()]


def columns_of(book: Book, name: str, ways: list[str]) -> list[tuple[int, int]]:
    """Positions of ways and numbers of clients."""
    return sorted({(ways.index(record["way"]), record["connections"]) for record in select(book, name) if record["way"] in ways})


def head_of(ways: list[str], columns: list[tuple[int, int]]) -> list[str]:
    """What stands above them."""
    return ["", *(f"{ways[way]}, {clients:,} clients" for way, clients in columns)]


def rows_of(book: Book, name: str, ways: list[str], cell: Callable[[dict[str, Any]], str]) -> tuple[list[list[str]], Notes]:
    """A row for each contender that took part, with a figure for each round in a cell."""
    notes, rows = Notes(), []
    for contender in book["contenders"]:
        cells = [select(book, name, contender=contender["key"], way=ways[way], connections=clients)
                 for way, clients in columns_of(book, name, ways)]
        if any(cells):
            rows.append([contender["name"], *(
                joined([notes.mark(record["failure"]) if "failure" in record else cell(record) for record in records])
                for records in cells)])
    return rows, notes


def followed(book: Book, name: str, title: str, sentence: str, ways: list[str]) -> list[str]:
    """What is done once a load has been followed, and when that was."""
    lines = section(book, name, title, f"{sentence}The first {FOLLOWING:g} s of a load are not in these figures. Events a second:", ways,
                    "Onramp : the best of the others")
    if not lines:
        return []
    columns = columns_of(book, name, ways)
    best = {ways[way]: statistics.median(rates) for way, clients in columns if (rates := best_of(book, name, ways[way], clients, False).values())}
    rows, notes = rows_of(book, name, ways, lambda record: seconds_until(record["rates"], REACHED * best[record["way"]]))
    return [*lines, f"Seconds from the begin of each load until two seconds follow in which {REACHED:g} of the best of these medians is done; "
            f"the goal is {FOLLOWING:g}:", *table(head_of(ways, columns), rows), *notes.lines()]


def seconds_until(rates: list[float], rate: float) -> str:
    """From when on so much is done: in one line, and in the mean of some lines from there on."""
    for number in range(len(rates) - LINES + 1):
        if rates[number] >= rate and statistics.fmean(rates[number:number + LINES]) >= rate:
            return digits(number * INTERVAL)
    return "never"


def beside_the_relay(book: Book, distance: float) -> str:
    """What makes the distance, and that it is not what is measured."""
    ceiling = [record["per_second"] for record in good(select(book, "relay"))]
    ways = {at_distance(distance, name) for name, _, _ in in_a_row(FAR_LOADS)}
    used = [record["relay"] for record in good(select(book, "far")) if record["way"] in ways]
    if not used:
        return ""
    told = f"; between {LONG_CLIENTS} clients and a server it could hand on {whole(ceiling[0])} point selects a second" if ceiling else ""
    return (f"A relay hands on what the server answers {distance:g} ms later, and took at most {ratio(max(used))} of a processor{told}. So "
            "that it has little to do, those who wait do so for 50 ms, those who read add up 1,000 rows, and ranges of transactions have 500. ")


def halves(book: Book) -> list[str]:
    """Each half beside the pairs of limits that were set by hand."""
    return section(
        book, "mix", "### Half of them wait, half read",
        f"At the same time, {HALF} clients each: statements of 5 ms that take no processor, and point selects; the two come from addresses of their "
        "own, by which a pair of limits can be set. The best pair is the one whose worse half comes nearest to the best that this half has with "
        "any pair. The goal is 0.9. Statements a second:", HALVES, "Onramp : the best pair", beside_the_pair)


def beside_the_pair(book: Book, name: str, way: str, clients: int) -> list[float]:
    """A half of the one that finds its limits as shares of that half with the best pair."""
    medians = {half: {key: statistics.median(rates.values()) for key, rates in rates_of(book, name, half, clients).items()
                      if key.startswith("onramp-") and key != DEFAULT} for half in HALVES}
    both = set(medians[HALVES[0]]) & set(medians[HALVES[1]])
    if not both or not all(max(each.values()) > 0 for each in medians.values()):
        return []
    best = max(sorted(both), key=lambda key: min(medians[half][key] / max(medians[half].values()) for half in HALVES))
    rates = rates_of(book, name, way, clients)
    return quotients(rates.get(DEFAULT, {}), rates[best])


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


def rates_of(book: Book, name: str, way: str, clients: int) -> dict[str, dict[int, float]]:
    """By contender and round what was done."""
    found: dict[str, dict[int, float]] = {}
    for record in good(select(book, name, way=way, connections=clients)):
        found.setdefault(record["contender"], {})[record["round"]] = record["per_second"]
    return found


def best_of(book: Book, name: str, way: str, clients: int, but_default: bool = True) -> dict[int, float]:
    """What the one with the best median did, by round: the best of each round would be better by what chance gives to one of many."""
    rates = rates_of(book, name, way, clients)
    others = [by_round for key, by_round in rates.items() if not but_default or key != DEFAULT]
    return max(others, key=lambda by_round: statistics.median(by_round.values()), default={})


def shares(book: Book, name: str, way: str, clients: int) -> list[float]:
    """What the one that finds its limits does, as a share of the best of the others, for each round."""
    return quotients(rates_of(book, name, way, clients).get(DEFAULT, {}), best_of(book, name, way, clients))


def quotients(above: dict[int, float], below: dict[int, float]) -> list[float]:
    """Of each round that both have."""
    return [above[number] / below[number] for number in sorted(above) if below.get(number, 0.0) > 0]


def spread(values: list[float]) -> str:
    """The median and, of several, the range."""
    if not values:
        return ""
    middle = ratio(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({ratio(min(values))} to {ratio(max(values))})"
