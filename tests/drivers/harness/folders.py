"""Where the private servers keep their data: in memory where there is room, so that a run writes next to nothing to disk.

As a program it prints that folder, for tests that are not Python's.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

# Bytes that the servers of a run take at a time, with a margin: three times what a whole run with two lanes was seen to take.
ROOM = 3 << 30
MEMORY = Path("/dev/shm")


def place():
    """The folder for temporary folders: ONRAMP_TEST_FOLDER, else one in memory if the machine can spare that, else the usual one."""
    named = os.environ.get("ONRAMP_TEST_FOLDER")
    if named:
        return named
    return str(MEMORY) if _can_hold(ROOM) else tempfile.gettempdir()


def _can_hold(size):
    """Whether there are so many bytes in the file system, and twice as many in memory that nobody else is using."""
    if not os.access(MEMORY, os.W_OK):
        return False
    system = os.statvfs(MEMORY)
    return system.f_bavail * system.f_frsize >= size and _available_memory() >= 2 * size


def _available_memory():
    """Bytes: what the kernel says, or what the container's bound leaves if that is less (memory.max, cgroup v2)."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    try:
        bound = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if bound != "max":
            available = min(available, int(bound) - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    except OSError:
        pass  # no such container
    return available


@contextlib.contextmanager
def once(folder, name):
    """Something that is made by whoever comes first, for all lanes: its path, and whether it has to be made now."""
    path = Path(os.environ.get("ONRAMP_LANE_FOLDER", folder)) / name
    with open(f"{path}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = Path(f"{path}.made")
        yield path, not made.exists()
        made.touch()


def copy(template, target):
    """A copy of a data folder. What is zero in it, most of a fresh server's files, becomes holes that take no room."""
    subprocess.run(["cp", "-r", "--sparse=always", str(template), str(target)], check=True)


def remove(*folders):
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    print(place())
