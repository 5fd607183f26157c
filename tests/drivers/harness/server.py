"""A private MariaDB server in a temporary folder, with the accounts that the suites use."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from . import delay, folders
from .waiting import PATIENCE

APP = ("app", "app-secret")
ADMIN = ("admin", "admin-secret")
OTHER = ("other", "other-secret")
SERVICE = ("onramp", "service-secret")

# The accounts and what each is for. `app` may do everything inside schemas whose names begin with `onramp_`.
ACCOUNTS = f"""
CREATE USER '{APP[0]}'@'%' IDENTIFIED BY '{APP[1]}';
GRANT ALL ON `onramp\\_%`.* TO '{APP[0]}'@'%';
CREATE USER '{ADMIN[0]}'@'%' IDENTIFIED BY '{ADMIN[1]}';
GRANT ALL ON *.* TO '{ADMIN[0]}'@'%' WITH GRANT OPTION;
CREATE USER '{OTHER[0]}'@'%' IDENTIFIED BY '{OTHER[1]}';
CREATE USER 'empty'@'%';
CREATE USER 'near'@'localhost' IDENTIFIED BY 'near-secret';
CREATE USER '{SERVICE[0]}'@'%' IDENTIFIED BY '{SERVICE[1]}';
GRANT SELECT ON mysql.* TO '{SERVICE[0]}'@'%';
GRANT PROCESS, CONNECTION ADMIN ON *.* TO '{SERVICE[0]}'@'%';
CREATE DATABASE onramp_app;
CREATE DATABASE forbidden;
"""

# Files that are quick to copy, and grow by what is needed and not by 64 MB at once.
SMALL = ["--innodb-data-file-path=ibdata1:5M:autoextend", "--innodb-autoextend-increment=1", "--innodb-log-file-size=16M"]

OPTIONS = [
    "--skip-networking=0",
    "--bind-address=127.0.0.1",
    "--max-connections=600",  # the ledger's direct checks and twice the largest max_backends of the suites
    "--max-allowed-packet=1G",  # the largest there is: limits are tested against Onramp's own
    "--innodb-buffer-pool-size=128M",
    *SMALL,
    "--innodb-flush-log-at-trx-commit=2",  # survives kill -9 of the server, which is what the suites do
    "--innodb-flush-method=nosync",  # as above: the system keeps the files, only a power cut would lose them
    "--sync-frm=OFF",
    "--innodb-lock-wait-timeout=100",  # seconds; a suite that waits longer for a row has failed anyway
    "--performance-schema=OFF",
    "--local-infile=ON",
    "--character-set-server=utf8mb4",
    "--collation-server=utf8mb4_general_ci",
    "--log-bin-trust-function-creators=1",
]


def end_in_order_on_sigterm():
    """SIGTERM ends like Ctrl-C, so that what was started is stopped; further ones must not interrupt that."""
    def end(*_):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)


# Of the ports above 10,000 that the Fetch standard calls bad ("Port blocking"): Chromium says ERR_UNSAFE_PORT.
REFUSED_BY_BROWSERS = {10080}


def free_port():
    """A TCP port of 127.0.0.1 that nobody listens on and no connection gets by itself.

    It lies outside of the range that the system chooses local ports from (`ip_local_port_range` in the kernel's
    ip-sysctl.rst, usually from 32768 on), so that nothing takes it while a server that was stopped is to come back on it.
    It is never given out twice by one process, nor by two lanes, and never one that browsers refuse to open.
    """
    lane, lanes = int(os.environ.get("ONRAMP_LANE", "0")), int(os.environ.get("ONRAMP_LANES", "1"))
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    while True:
        port = random.randrange(10_000 + lane, 65_000, lanes)
        if port in _given_out or port in REFUSED_BY_BROWSERS or first <= port <= last:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given_out.add(port)
        return port


_given_out = set()


def find(program, *folders):
    """The path of a program, from PATH or the given folders."""
    found = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))
    if found is None:
        raise SystemExit(f"{program} is not installed (Debian, Ubuntu: apt install mariadb-server mariadb-client)")
    return found


def make_template(folder):
    """A data folder with the accounts, made once; servers start from copies of it."""
    with folders.once(folder, "template") as (data, to_make):
        if to_make:
            _initialise(data)
    return data


def _initialise(data):
    with tempfile.TemporaryDirectory(dir=data.parent) as temporary:
        done = subprocess.run(
            [find("mariadb-install-db"), "--no-defaults", f"--datadir={data}", f"--tmpdir={temporary}", *as_user(),
             "--skip-test-db", "--auth-root-authentication-method=normal", *SMALL],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    accounts = data.parent / "accounts.sql"
    # One statement per line is what --init-file reads; anonymous accounts would win over 'app'@'%'.
    accounts.write_text("DELETE FROM mysql.global_priv WHERE User = '';\nFLUSH PRIVILEGES;" + ACCOUNTS)
    server = Server(data.parent, data=data)
    server.start(f"--init-file={accounts}")
    server.stop()


def as_user():
    """The server runs as root only when told to; anybody else needs to say nothing."""
    return ["--user=root"] if os.geteuid() == 0 else []


class Server:
    """One mariadbd process; `start`, `stop`, `kill` and `start` again keep the port and the data."""

    def __init__(self, folder, template=None, data=None, place=None):
        """`place` is the one of harness/network.py that it runs in, with an address of its own; no relay leads there."""
        self.folder = Path(folder)
        self.port = free_port()
        self.place = place
        self.host = place.address if place else "127.0.0.1"
        # Where the server is while the relay that makes its answers late has its port.
        self.behind_relay = free_port() if delay.milliseconds() and not place else None
        self.process = self.relay = None
        # A Unix socket's path may have 107 bytes, fewer than some temporary folders need.
        self.socket = f"/tmp/onramp-test-{os.getpid()}-{self.port}.sock"
        self.data = Path(data) if data else self.folder / f"data-{self.port}"
        # Servers that start remove what they take for left-over files of their kind from the folder for temporary ones.
        self.temporary = self.folder / f"temporary-{self.port}"
        self.log = self.folder / f"server-{self.port}.log"
        if template:
            folders.copy(template, self.data)

    def start(self, *options, programs=None):
        """Starts and waits until the server takes connections. `programs` is a folder of programs that the server runs."""
        assert self.process is None, "already running"
        self.temporary.mkdir(exist_ok=True)
        environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}") if programs else None
        # Nobody there knows names of addresses.
        inside, elsewhere = (self.place.inside(), ["--bind-address=0.0.0.0", "--skip-name-resolve"]) if self.place else ([], [])
        self.process = subprocess.Popen(
            [*inside, find("mariadbd", "/usr/sbin", "/usr/libexec"), "--no-defaults", f"--datadir={self.data}",
             f"--tmpdir={self.temporary}", *as_user(),
             f"--port={self.inner_port}", f"--socket={self.socket}", f"--log-error={self.log}", *OPTIONS, *elsewhere, *options],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_until_up()
        return self

    def wait_until_up(self):
        """Until it greets; where it does not, nothing is left of it."""
        try:
            if self.behind_relay:
                self.relay = delay.start(self.port, self.inner_port)
            self._wait_for_a_greeting()
        except BaseException:
            self.discard()
            raise

    def _wait_for_a_greeting(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with socket.create_connection((self.host, self.port), timeout=PATIENCE) as probe:
                    if probe.recv(5)[4:5] == b"\x0a":  # protocol version 10: a greeting, not an error
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise RuntimeError(f"the server did not come up:\n{self.log.read_text()[-3000:]}")

    @property
    def inner_port(self):
        """The port that the server itself listens on."""
        return self.behind_relay or self.port

    def stop(self):
        """Stops in an orderly way; after a kill only its socket is left to remove."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._end_relay()
        self.process = None
        Path(self.socket).unlink(missing_ok=True)

    def discard(self):
        """Ends it at once and removes its data: those of a whole run's servers would fill the memory that they are in."""
        if self.running:
            self.kill()
        self.stop()
        folders.remove(self.data, self.temporary)

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()
        self._end_relay()
        self.process = None

    def _end_relay(self):
        if self.relay is not None:
            self.relay.kill()
            self.relay.wait()
            self.relay = None

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None
