"""What a test saw, so that the run through Onramp can be compared with the direct one."""

from .raw import Column, Err

# Differences that are meant to be, each with its line in docs/DIFFERENCES.md: (what, how to know it).
ONLY_SHOW_WARNINGS_IS_KEPT = "Onramp kept the answer to SHOW WARNINGS only"


def same(direct, through):
    """Whether two observations are the same but for the differences that are meant to be."""
    if direct == through:
        return True
    if isinstance(through, Err) and through.code == 1235 and through.message.startswith(ONLY_SHOW_WARNINGS_IS_KEPT):
        return True  # outside of a transaction: GET DIAGNOSTICS for more than is kept, SHOW WARNINGS with comments
    if isinstance(direct, Column) and isinstance(through, Column):
        return comparable(direct) == comparable(through)
    if isinstance(direct, (list, tuple)) and type(direct) is type(through) and len(direct) == len(through):
        return all(same(one, two) for one, two in zip(direct, through))
    return False


def comparable(column):
    """The collation's number counts as its character set only (test_collation_of_results is exact)."""
    return column._replace(charset=character_set(column.charset))


def character_set(collation):
    """The first of a character set's collations, for the sets that the suites use (utf8mb3 and utf8mb4)."""
    if collation in (45, 46, 255) or 224 <= collation <= 247:
        return 45
    return 33 if collation in (33, 83) or 192 <= collation <= 215 else collation


class Transcript:
    """Labelled observations in the order in which they were made."""

    def __init__(self):
        self.entries = []

    def note(self, label, value):
        """Records a value and hands it back."""
        self.entries.append((label, value))
        return value

    def differences(self, other):
        """What differs from another run of the same test, as lines for a person."""
        lines = []
        if [label for label, _ in self.entries] != [label for label, _ in other.entries]:
            lines.append(f"different steps: {[e[0] for e in self.entries]} and {[e[0] for e in other.entries]}")
        for (label, direct), (_, through) in zip(self.entries, other.entries):
            if not same(direct, through):
                lines.append(f"{label}:\n  direct:  {shorten(direct)}\n  through: {shorten(through)}")
        return lines[:8] + ([f"... and {len(lines) - 8} more"] if len(lines) > 8 else [])


def shorten(value, limit=700):
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
