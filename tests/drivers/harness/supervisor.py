"""A stand-in for systemd: it speaks its protocol (sd_notify(3), sd_listen_fds(3)) with what it starts."""

import ctypes
import os
import socket
import sys
from pathlib import Path

from .waiting import PATIENCE, until

# Between fork and exec there is no other way to know one's own process: its number has to be in its environment.
HAND_OVER = """
import os, sys
count, program = int(sys.argv[1]), sys.argv[2:]
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = str(count)
os.execvp(program[0], program)
"""


class Notices:
    """The socket on which a service says how it stands."""

    def __init__(self, name):
        """`name` is a path, or an abstract name that begins with `@`."""
        self.name = str(name)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0{self.name[1:]}" if self.name.startswith("@") else self.name)
        self.socket.settimeout(PATIENCE)

    def next(self):
        """The next message: its lines, by name."""
        lines = self.socket.recv(4096).decode().split("\n")
        return dict(line.split("=", 1) for line in lines)

    def until(self, condition):
        """All messages up to the first of which `condition` is true."""
        seen = [self.next()]
        while not condition(seen[-1]):
            seen.append(self.next())
        return seen

    def close(self):
        self.socket.close()


class Stopped:
    """Keeps one thread of a process from running, by its name, and nothing else: as a debugger does (ptrace(2))."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, pid, name):
        self.libc = ctypes.CDLL(None, use_errno=True)
        tasks = Path(f"/proc/{pid}/task").iterdir()
        [self.thread] = [int(task.name) for task in tasks if (task / "comm").read_text().strip() == name]

    def __enter__(self):
        self._ask(self.SEIZE)
        self._ask(self.INTERRUPT)
        os.waitpid(self.thread, self.WALL)
        return self

    def __exit__(self, *_):
        self._ask(self.DETACH)

    def _ask(self, request):
        if self.libc.ptrace(request, self.thread, None, None) == -1:
            raise OSError(ctypes.get_errno(), "ptrace")


def handing_over(sockets, command):
    """A command that runs another one with these sockets, from number 3 on; and what Popen needs for it."""
    numbers = [listener.fileno() for listener in sockets]

    def in_their_places():
        # First out of the way of each other.
        away = [os.dup2(number, 100 + place, inheritable=False) for place, number in enumerate(numbers)]
        for place, number in enumerate(away):
            os.dup2(number, 3 + place)

    wrapped = [sys.executable, "-c", HAND_OVER, str(len(sockets)), *command]
    return wrapped, {"close_fds": False, "preexec_fn": in_their_places}


def status(message, text):
    """Whether a message says this of how the service stands."""
    return text in message.get("STATUS", "")


__all__ = ["Notices", "Stopped", "handing_over", "status", "until"]
