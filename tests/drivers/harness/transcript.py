"""What a test saw, so that the run through Onramp can be compared with the direct one."""

# Differences that are meant to be: (test, label) -> reason. Each is also in the documentation's list of differences.
ALLOWED = {}


class Transcript:
    """Labelled observations in the order in which they were made."""

    def __init__(self):
        self.entries = []

    def note(self, label, value):
        """Records a value and hands it back."""
        self.entries.append((label, value))
        return value

    def differences(self, other, test):
        """What differs from another run of the same test, as lines for a person; allowed ones are left out."""
        lines = []
        if [label for label, _ in self.entries] != [label for label, _ in other.entries]:
            lines.append(f"different steps: {[e[0] for e in self.entries]} and {[e[0] for e in other.entries]}")
        for (label, direct), (_, through) in zip(self.entries, other.entries):
            if direct != through and (test, label) not in ALLOWED:
                lines.append(f"{label}:\n  direct:  {shorten(direct)}\n  through: {shorten(through)}")
        return lines


def shorten(value, limit=2000):
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
