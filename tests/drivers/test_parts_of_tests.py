"""Which files of tests run where only a part of them is asked for (ONRAMP_TEST_PART, AGAIN of make)."""

import subprocess
import sys

import pytest

from harness import parts

pytestmark = pytest.mark.once


def said(part):
    """By the program that make asks before anything runs."""
    done = subprocess.run([sys.executable, "-B", parts.__file__, part], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_all_parts_together_have_each_file_once():
    files = list("abcdefg")
    for count in range(1, 9):
        together = [parts.part_of(files, f"{number}/{count}") for number in range(1, count + 1)]
        assert sorted(sum(together, [])) == files
    assert parts.part_of(files, "2/3") == ["b", "e"]
    assert said("2/3") == (0, "")


@pytest.mark.parametrize("part", ["", "2", "/3", "2/", "0/3", "4/3", "a/b", "1/2/3", "-1/3", "1 / 3"])
def test_what_is_no_part_is_said_to_be_none(part):
    status, error = said(part)
    assert status == 1 and len(error.splitlines()) == 1, error
    assert f"'{part}'" in error and "2/3" in error and "Traceback" not in error, error
