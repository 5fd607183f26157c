"""Connections that the kernel holds, since nobody accepts them: those that do not fit are counted, and the queue is shown."""

import json
import os
import signal
import socket

import pytest

from conftest import closing
from harness import admin
from harness.admin import rows
from harness.metrics import Metrics, ask
from harness.server import free_port
from harness.sockets import LISTEN, sockets
from harness.waiting import PATIENCE, stop_process, until

BACK_LOG = 4


@pytest.fixture
def onramp(server, own_onramp, monkeypatch):
    http = free_port()
    onramp = admin.start(own_onramp, monkeypatch, server, back_log=BACK_LOG, workers=1, http_listen=f"127.0.0.1:{http}")
    onramp.http_port = http
    return onramp


@pytest.fixture
def connect():
    """Begins a connection, and does not wait for it."""
    def begin(onramp):
        begun = socket.socket()
        begun.setblocking(False)
        begun.connect_ex((onramp.host, onramp.port))
        return begun

    with closing(begin) as open_one:
        yield open_one


@pytest.fixture
def stopped(onramp):
    """While this runs, the process does not."""
    def stop():
        stop_process(onramp.process.pid)
        # Of all threads: the group has stopped once its parent is told.
        os.waitpid(onramp.process.pid, os.WUNTRACED)

    yield stop
    if onramp.process.poll() is None:
        os.kill(onramp.process.pid, signal.SIGCONT)


def held(port):
    """How many the kernel holds for a listening port."""
    return next((one.to_read for one in sockets() if one.local[1] == port and one.state == LISTEN), None)


def logins(onramp):
    """What the page shows of logins."""
    return json.loads(ask(onramp.http_port, "/api/tables").body)["logins"]


def lost(onramp):
    return {row["Variable_name"]: int(row["Value"]) for row in rows(onramp, "SHOW STATUS LIKE 'Onramp_accept_queue%'")}


def test_those_that_do_not_fit_are_told_everywhere(onramp, connect, stopped):
    metrics = Metrics(onramp.http_port)
    place = {"address": f"{onramp.host}:{onramp.port}", "worker": "0"}
    metrics.wait(0, "onramp_accept_queue_connections", **place)
    metrics.wait(BACK_LOG, "onramp_accept_queue_bound", **place)
    before = lost(onramp)
    stopped()
    begun = [connect(onramp) for _ in range(3 * BACK_LOG)]
    # The kernel takes one more than it is told.
    until(lambda: held(onramp.port) == BACK_LOG + 1, lambda: f"the kernel holds {held(onramp.port)}")
    os.kill(onramp.process.pid, signal.SIGCONT)
    # Of the others some may never be greeted: with SYN cookies they take themselves for connected.
    for one in begun[:BACK_LOG + 1]:
        one.settimeout(PATIENCE)
        assert one.recv(5)[4:5] == b"\x0a"
    behind = lost(onramp)
    for name in ("Onramp_accept_queue_overflows", "Onramp_accept_queue_drops"):
        assert behind[name] >= before[name] + 2 * BACK_LOG - 1, f"{name}: {behind} behind {before}"
    # Figures are of the second before, and others' overflows count here, too.
    overflows, drops = behind["Onramp_accept_queue_overflows"], behind["Onramp_accept_queue_drops"]
    until(lambda: metrics.get("onramp_accept_queue_overflows_total") >= overflows, metrics.text)
    until(lambda: metrics.get("onramp_accept_queue_drops_total") >= drops, metrics.text)
    # Those that come again may be met in passing.
    queue = {"address": place["address"], "worker": 0, "waiting": 0, "bound": BACK_LOG}
    until(lambda: rows(onramp, "SELECT * FROM accept_queues") == [queue], "the queue does not empty")
    until(lambda: logins(onramp)["accept_queues"] == [queue], lambda: f"{logins(onramp)}")
    assert logins(onramp)["accept_queue_overflows"] >= behind["Onramp_accept_queue_overflows"]
