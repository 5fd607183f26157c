"""Waiting for what has to happen: nothing is taken for granted after some time, however busy the machine is."""

import os
import signal
import threading
import time
from pathlib import Path

from .sockets import CLOSE_WAIT, ESTABLISHED, sockets

# Seconds. Only ends a test that would hang, and is the one deadline of the suites: what is waited for takes a moment, on a busy
# machine some seconds. pytest.ini allows a test several such waits.
PATIENCE = 300

# For an option whose time is to run out: as short as lets a slow server answer a login's questions in the meantime.
SOON = "3s"


def until(condition, what, pause=0.02):
    """What `condition` gives as soon as that is true; `what` is said if it never is."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(pause)


def stop_process(pid):
    """Stops a process. Its threads run on until they have heard of that, on a busy machine for some milliseconds: until then it answers."""
    os.kill(pid, signal.SIGSTOP)
    state = lambda task: (task / "stat").read_text().rpartition(")")[2].split()[0]
    until(lambda: all(state(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir()), f"{pid} is not stopped")


def in_background(function, *arguments):
    """Runs a function on a thread; `join()` gives its result."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(function(*arguments)), daemon=True)
    thread.start()

    def join():
        thread.join(PATIENCE)
        assert outcome, "it never came to an end, or raised what is told of its thread"
        return outcome[0]

    return join


def wait_until_running(admin, marker):
    """Until the server executes a statement with these words in it."""
    def runs():
        rows = admin.query("SELECT INFO FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND <> 'Sleep'").rows
        return any(row[0] and marker.encode() in row[0] for row in rows)

    until(runs, f"{marker} never ran")


def wait_until_backends_are_gone(server, admin):
    """Until the server has closed all connections of `app`, and their other ends know: a statement that is sent before they
    do would rightly be lost. For a server of the test's own."""
    def users():
        return admin.query("SELECT USER, HOST FROM information_schema.PROCESSLIST").rows

    def known_to_the_server():
        return {int(host.rpartition(b":")[2]) for _, host in users() if b":" in host}

    until(lambda: all(user != b"app" for user, _ in users()), "the server does not close its connections")
    # By their number: where a relay stands between, the server knows that one's ports.
    until(lambda: len(_ports_kept_open(server.port)) <= len(known_to_the_server()), "connections that the server has closed are kept")


def _ports_kept_open(remote):
    """Local ports of the connections to a port of this machine that have not been closed from here."""
    return {one.local[1] for one in sockets() if one.peer[1] == remote and one.state in (ESTABLISHED, CLOSE_WAIT)}
