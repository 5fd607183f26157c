"""What a comparison comes to: Onramp against the best without it, against itself, and against a fair share."""

from collections.abc import Callable
from typing import Any

from book import Book, Named, good, rounds, select, steps
from tables import joined, ratio, whole

Record = dict[str, Any]


def ratio_rows(book: Book, variants: list[Named]) -> list[list[str]]:
    """A row for each ratio, a column for each variant of Onramp, in each cell a figure for each round."""
    largest = {each["key"]: largest_step(book, each["key"]) for each in variants}
    common = [step for step in steps(book, "point_select") if best_direct(book, None, step) is not None]
    rows: list[tuple[str, Callable[[Named, int], float | None]]] = [
        ("queries/s at its best step : the best direct at any",
         lambda each, number: quotient(best(book, each["key"], number), best_direct(book, number))),
        ("queries/s at its largest step : the best direct at any",
         lambda each, number: quotient(rate(book, each["key"], number, largest[each["key"]]), best_direct(book, number))),
        ("queries/s at its largest step : at its best step",
         lambda each, number: quotient(rate(book, each["key"], number, largest[each["key"]]), best(book, each["key"], number))),
        ("p95 at its largest step : the fair share",
         lambda each, number: fairness(book, each["key"], number, largest[each["key"]])),
    ]
    if common:
        most = common[-1]
        rows.append((
            f"queries/s at {most:,} : the best direct at {most:,}",
            lambda each, number: quotient(rate(book, each["key"], number, most), best_direct(book, number, most))))
    if not any(largest.values()):
        return []
    found = [["its largest step", *(whole(largest[each["key"]]) for each in variants)]]
    for name, value in rows:
        found.append([name, *(joined([ratio(value(each, number)) for number in rounds(book)]) for each in variants)])
    return found


def largest_step(book: Book, key: str) -> int | None:
    """The most clients with which a contender was measured."""
    return max((record["connections"] for record in good(select(book, "point_select", contender=key))), default=None)


def rate(book: Book, key: str, number: int, connections: int | None) -> float | None:
    """Queries per second in a round at a step."""
    records = good(select(book, "point_select", contender=key, round=number, connections=connections))
    return records[0]["per_second"] if records else None


def best(book: Book, key: str, number: int) -> float | None:
    """The most queries per second of a contender in a round."""
    return max((record["per_second"] for record in good(select(book, "point_select", contender=key, round=number))),
               default=None)


def best_direct(book: Book, number: int | None, connections: int | None = None) -> float | None:
    """The most queries per second of any server by itself: in a round or all, at a step or any."""
    direct = {each["key"] for each in book["contenders"] if not each["front"]}
    wanted: dict[str, int] = {}
    if number is not None:
        wanted["round"] = number
    if connections is not None:
        wanted["connections"] = connections
    records = good(select(book, "point_select", **wanted))
    return max((record["per_second"] for record in records if record["contender"] in direct), default=None)


def fairness(book: Book, key: str, number: int, connections: int | None) -> float | None:
    """p95 in relation to what each client would wait if all waited the same."""
    records = good(select(book, "point_select", contender=key, round=number, connections=connections))
    return quotient(records[0]["p95"], records[0]["fair_share"]) if records else None


def quotient(above: float | None, below: float | None) -> float | None:
    """None where one is missing or nothing can be divided by."""
    return above / below if above is not None and below else None
