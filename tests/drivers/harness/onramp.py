"""The real `onramp` binary in front of a server."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from .server import SERVICE, free_port
from .supervisor import handing_over
from .waiting import PATIENCE, until


def binary():
    """The program under test: ONRAMP_BIN, which `run` sets."""
    path = os.environ.get("ONRAMP_BIN")
    if not path or not Path(path).exists():
        raise SystemExit("ONRAMP_BIN must name the onramp binary; tests/drivers/run builds it and sets it")
    return path


# Options where a test does not say otherwise. The suites try wrong passwords again and again, and no statement is given up for
# want of a backend because a machine is slow, nor does anybody lose one for that.
USUAL = {"failed_login_delay": "0s", "backend_connect_timeout": f"{PATIENCE}s", "idle_hold_timeout": "0s"}


class Onramp:
    """One `onramp serve` process."""

    def __init__(self, server, folder, by_socket=False, service=SERVICE, sockets=None, names=None, **options):
        """`by_socket` has it connect to the server's Unix socket instead of its port; `service` is the service account; `sockets`
        are handed over to it as a supervisor does, by their names, and the one named `mysql` is its port; `names` are those of
        harness/names.py that it sees."""
        self.server = server
        self.by_socket = by_socket
        self.service = service
        self.host = "127.0.0.1"
        self.sockets = sockets or {}
        self.before = names.before() if names else []
        self.port = self.sockets["mysql"].getsockname()[1] if self.sockets else free_port()
        self.options = options
        self.process = None
        self.log = Path(folder) / f"onramp-{self.port}.log"

    def start(self, wait=True):
        """Starts; with `wait`, until it has found the server and greets a client."""
        user, password = self.service
        command = [*self.before, binary(), "serve", "--listen", f"{self.host}:{self.port}"]
        for name, value in {**USUAL, **self.trust(), **self.options}.items():
            values = value if isinstance(value, list) else [value]
            for each in values:
                command += [f"--{name.replace('_', '-')}", str(each)]
        # The password comes from the environment, so that it is not in the process list.
        place = f"{self.server.host}:{self.server.port}/"
        if self.by_socket:
            place = f"localhost/?socket={self.server.socket}"
        environment = dict(os.environ, ONRAMP_BACKEND=f"mysql://{user}:{password}@{place}")
        environment.pop("ONRAMP_BIN", None)
        # Its port is the same for all; tests that want it name one of their own.
        environment.setdefault("ONRAMP_HTTP_LISTEN", "off")
        if 0 < int(self.options.get("max_backends", 0)) < int(environment.get("ONRAMP_WORKERS", "1")):
            # Each worker needs a backend; a test that counts them means a single one.
            environment["ONRAMP_WORKERS"] = "1"
        handed = {}
        if self.sockets:
            environment["LISTEN_FDNAMES"] = ":".join(self.sockets)
            command, handed = handing_over(list(self.sockets.values()), command)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **handed)
        if wait:
            with self.stopped_on_error():
                self.wait_until_ready()
        return self

    @contextlib.contextmanager
    def stopped_on_error(self):
        """Ends the process where what is done fails: whoever would have stopped it later does not get it."""
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def trust(self):
        """By what a MySQL server gets passwords over TCP: its RSA key, where it has one; through a relay, the address."""
        if not hasattr(self.server, "data"):
            return {"backend_trusted_networks": "127.0.0.1"}
        key = Path(self.server.data) / "public_key.pem"
        return {"backend_public_key": key} if key.exists() and "backend_tls" not in self.options else {}

    def wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with socket.create_connection((self.host, self.port), timeout=PATIENCE) as probe:
                    if probe.recv(5)[4:5] == b"\x0a":
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise RuntimeError(f"onramp did not come up:\n{self.log_text()[-3000:]}")

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def says(self, text, times=None):
        """Waits until it has logged a text, so often and no more where that is given: a line is written behind what it is about."""
        until(lambda: self.log_text().count(text) >= (times or 1), lambda: f"not {times or 'once'} {text!r}:\n{self.log_text()[-3000:]}")
        assert times is None or self.log_text().count(text) == times, self.log_text()[-3000:]

    def memory(self):
        """Resident bytes of the process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")

    def terminate(self):
        """SIGTERM, without waiting."""
        self.process.send_signal(signal.SIGTERM)

    def stop(self):
        """Ends the process and says how: its exit code, negative for a signal."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.terminate()  # the second one means at once
                try:
                    self.process.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
        code = self.process.returncode
        self.process = None
        return code
