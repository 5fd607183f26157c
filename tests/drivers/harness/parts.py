"""Some of the files of tests: ONRAMP_TEST_PART=2/3 leaves two thirds of them out. It begins with the second one and takes every third.

As a program it says what is wrong with a part, for those who would hear of it only after other tests.
"""

import os
import re
import sys

VARIABLE = "ONRAMP_TEST_PART"


def part_of(files, part):
    """Every n-th of the files from the k-th on, for a part of `k/n`: all of the n parts together have each file once."""
    begin, step = parsed(part)
    return files[begin - 1::step]


def parsed(part):
    """The numbers of a part; ends the program where it is none."""
    found = re.fullmatch(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})", part)
    begin, step = (int(number) for number in found.groups()) if found else (0, 0)
    if not 1 <= begin <= step:
        sys.exit(f"{VARIABLE} (AGAIN of make) is '{part}', which is no part: give one as 2/3, the second of three, or 1/1 for all files")
    return begin, step


def wanted():
    """The part that is asked for; all, where none is."""
    return os.environ.get(VARIABLE, "1/1")


if __name__ == "__main__":
    parsed(sys.argv[1] if len(sys.argv) > 1 else wanted())
