"""The differential fuzzer, on a few seeds, and the seeds that once failed."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def fuzz(*arguments):
    done = subprocess.run([sys.executable, HERE / "differential.py", *arguments], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, without_programs(done.stdout) + done.stderr
    return done.stdout


def without_programs(text):
    """The differences and how to repeat them; the programs are long."""
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith("      "))


# What has rows of its own in docs/DIFFERENCES.md: selections from kept warnings, and who is told of them when.
KNOWN = ("--without", "diagnostics", "--without", "failing")


def test_the_first_seeds():
    # Without counts: FOUND_ROWS() after SELECTs that the optimizer answers (docs/DIFFERENCES.md); other tests have them.
    # A number of seeds, not of seconds: the same ones on every machine.
    assert "0 differ" in fuzz("--seed", "1", "--seeds", "8", *KNOWN, "--without", "counts")


def test_seeds_that_once_failed():
    lines = [line.split() for line in (HERE / "failing_seeds.txt").read_text().splitlines() if line and not line.startswith("#")]
    for seed, steps in lines:
        fuzz("--seed", seed, "--steps", steps, "--only", *KNOWN)
