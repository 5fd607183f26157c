"""Numbers and tables as people read them, in Markdown."""

import statistics
from collections.abc import Iterable, Sequence

# What stands in a cell that has nothing.
EMPTY = ""
# Between the figures of rounds.
BETWEEN = " / "


class Notes:
    """Reasons that are longer than a cell: each gets a letter, and all are listed below the table."""

    def __init__(self) -> None:
        """None yet."""
        self._letters: dict[str, str] = {}

    def mark(self, reason: str) -> str:
        """The letter of a reason, as it stands in a cell."""
        letter = self._letters.setdefault(reason, letters(len(self._letters)))
        return f"({letter})"

    def lines(self) -> list[str]:
        """The list; empty where there are no reasons."""
        if not self._letters:
            return []
        return ["", *(f"- ({letter}) {escaped(reason)}" for reason, letter in self._letters.items()), ""]


def letters(index: int) -> str:
    """a, b, ... z, aa, ab and so on."""
    before, last = divmod(index, 26)
    return (letters(before - 1) if before else "") + chr(ord("a") + last)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, with an empty one around it."""
    lines = ["", line(head), line(["---"] * len(head))]
    return [*lines, *(line([escaped(cell) for cell in row]) for row in rows), ""]


def line(cells: Sequence[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Without what would end a cell or begin a tag; between backquotes nothing begins a tag."""
    parts = text.replace("\n", " ").replace("|", "\\|").split("`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))


def joined(figures: Sequence[str]) -> str:
    """The figures of all rounds; one where all are the same reason."""
    if figures and all(figure == figures[0] and figure.startswith("(") for figure in figures):
        return figures[0]
    return BETWEEN.join(figures)


def median(figures: Sequence[float]) -> float | None:
    """The middle one."""
    return statistics.median(figures) if figures else None


def whole(value: float | None) -> str:
    """1,234,567"""
    return EMPTY if value is None else f"{value:,.0f}"


def digits(value: float | None) -> str:
    """With three digits that count: 0.0123, 0.12, 1.23, 12.3, 1,234."""
    if value is None:
        return EMPTY
    if value == 0:
        return "0"
    size = abs(value)
    # Below a hundredth, more decimals than three would be noise.
    decimals = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.0995 else 3
    return f"{value:,.{decimals}f}"


def ratio(value: float | None) -> str:
    """1.31"""
    return EMPTY if value is None else f"{value:.2f}"


def size(value: float | None) -> str:
    """Bytes as 512 B, 12.0 kB, 15.1 MB or 6.84 GB (decimal units)."""
    if value is None:
        return EMPTY
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= factor:
            return f"{digits(value / factor)} {unit}"
    return f"{value:.0f} B"


def counted(number: int, one: str, many: str) -> str:
    """1 round, 3 rounds."""
    return f"{number} {one if number == 1 else many}"
