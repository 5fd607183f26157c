"""Programs that are started, watched and stopped by their process id."""

import contextlib
import ctypes
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

# Where servers lie that are not in an ordinary user's PATH.
SYSTEM_FOLDERS = ["/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/sbin"]

# Seconds until a program that was asked to end is killed: a server with 15,000 connections takes a while.
ENDING = 60.0

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)


# How lines of Onramp's and MySQL's logs begin: a time, then a level or a thread's number.
_LOG_HEAD = re.compile(r"^\d{4}-\d\d-\d\dT\S+\s+(?:ERROR|WARN|INFO|DEBUG|\d+)\s+")


class Failed(Exception):
    """Something that becomes a cell of the report, in words for its reader."""


def find(name: str) -> str | None:
    """The path of an installed program."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_FOLDERS]))


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on, and that none of the many connections gets by itself until its program
    does: it lies outside of the range that the system chooses from (`ip_local_port_range`, ip-sysctl.rst of the kernel)."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    while True:
        port = random.randrange(10_000, 65_000)
        if first <= port <= last:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def raise_open_files() -> int:
    """Raises the limit of open files as far as we may; returns it. What is started here inherits it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def as_child() -> None:
    """Between fork and exec: end with our parent, and take no Ctrl-C of the terminal, which the parent handles; but its own SIGINT,
    which a shell's background jobs are born without."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Program:
    """One process with its log."""

    def __init__(self, name: str, command: list[str], log: Path, environment: dict[str, str] | None = None) -> None:
        """`environment` is added to ours."""
        self.name = name
        self.command = command
        self.log = log
        self.environment = environment or {}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id; it must have been started."""
        assert self.process is not None, f"{self.name} was not started"
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self, ready: Callable[[], bool], seconds: float = 60.0) -> None:
        """Starts it and waits until `ready`. Raises Failed with its last words where that does not come."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, env=os.environ | self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=as_child)
        deadline = time.monotonic() + seconds
        while self.running and time.monotonic() < deadline:
            if ready():
                return
            time.sleep(0.02)
        ended = not self.running
        self.stop()
        raise Failed(f"{self.name} {'ended at its start' if ended else 'did not come up'}: {self.last_words()}")

    def stop(self) -> None:
        """Ends it, in order if it can."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(ENDING)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

    def last_words(self) -> str:
        """The last line of its log that says something."""
        return last_line(self.log.read_text(errors="replace") if self.log.exists() else "")


def last_line(text: str) -> str:
    """The last line that is not empty, without the time and level that logs put before it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _LOG_HEAD.sub("", lines[-1]) if lines else "it said nothing"


def greets(port: int) -> bool:
    """Whether a MySQL server greets at the port: a packet of protocol version 10, not an error."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
            return probe.recv(5)[4:5] == b"\x0a"
    except OSError:
        return False


def finish(command: list[str], log: Path, seconds: float = 120.0, environment: dict[str, str] | None = None) -> None:
    """Runs a program to its end. Raises Failed with its last words where that is not a good one."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | (environment or {}), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            preexec_fn=as_child)
        try:
            status = process.wait(seconds)
        except BaseException as error:
            process.kill()
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise Failed(f"{Path(command[0]).name} was not done after {seconds:.0f} s") from None
            raise
    if status != 0:
        raise Failed(f"{Path(command[0]).name}: {last_line(log.read_text(errors='replace'))}")
