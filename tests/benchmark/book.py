"""All figures of a comparison as data: what is written to a file, and questions that the report asks of it."""

import json
from pathlib import Path
from typing import Any, TypedDict


class Named(TypedDict):
    """A contender as the report knows it."""

    key: str
    name: str
    front: bool  # something stands before the server
    onramp: bool


class Book(TypedDict):
    """A comparison: where, when, what, and every record of every round (measure.figures says in which units)."""

    date: str
    command: str
    machine: dict[str, Any]
    versions: dict[str, str]
    plan: dict[str, Any]
    contenders: list[Named]
    skipped: list[str]  # what was not there, each with its reason
    records: list[dict[str, Any]]


def save_book(path: Path, book: Book) -> None:
    """Writes a comparison, one record a line, so that two files can be compared."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {key: value for key, value in book.items() if key != "records"}
    records = ",\n".join(json.dumps(rounded(record)) for record in book["records"])
    path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "records": [\n{records}\n]}}\n')


def load_book(path: Path) -> Book:
    """Reads a comparison."""
    book: Book = json.loads(path.read_text())
    return book


def rounded(value: Any) -> Any:
    """With six significant digits at most: more were never measured."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    return value


def select(book: Book, section: str, **wanted: Any) -> list[dict[str, Any]]:
    """The records of a section with these values, in the order of rounds."""
    found = [record for record in book["records"] if record["section"] == section
             and all(record.get(key) == value for key, value in wanted.items())]
    return sorted(found, key=lambda record: record["round"])


def good(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that did not fail."""
    return [record for record in records if "failure" not in record]


def rounds(book: Book) -> list[int]:
    """The numbers of the rounds."""
    return sorted({record["round"] for record in book["records"]})


def steps(book: Book, section: str) -> list[int]:
    """The numbers of clients of a section."""
    return sorted({record["connections"] for record in book["records"] if record["section"] == section})
