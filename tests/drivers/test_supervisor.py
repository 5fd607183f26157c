"""What a supervisor such as systemd is told, and what it hands over."""

import collections
import os
import signal
import socket
import time

import pytest

from harness import raw
from harness.server import free_port
from harness.supervisor import Notices, Stopped, status

ADMIN_PASSWORD = "of the admin port"
Place = collections.namedtuple("Place", "host port")


@pytest.fixture(params=["path", "abstract"])
def notices(request, tmp_path, monkeypatch):
    name = tmp_path / "notify" if request.param == "path" else f"@onramp-test-{os.getpid()}"
    notices = Notices(name)
    monkeypatch.setenv("NOTIFY_SOCKET", notices.name)
    yield notices
    notices.close()


@pytest.fixture
def one_socket(tmp_path, monkeypatch):
    notices = Notices(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", notices.name)
    yield notices
    notices.close()


def microseconds():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def test_a_life(own_onramp, server, notices):
    onramp = own_onramp(server, wait=False, shutdown_timeout="7s")
    assert notices.next() == {"READY": "1"}
    socket.create_connection((onramp.host, onramp.port)).close()
    before = microseconds()
    onramp.process.send_signal(signal.SIGHUP)
    reloading = notices.until(lambda message: "RELOADING" in message)[-1]
    assert reloading["RELOADING"] == "1" and before <= int(reloading["MONOTONIC_USEC"]) <= microseconds()
    notices.until(lambda message: message == {"READY": "1"})
    onramp.terminate()
    # 5 s more, after which it gives up by itself.
    notices.until(lambda message: message == {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "12000000"})
    assert onramp.process.wait() == 0


def test_reload_by_sql_is_told_too(own_onramp, server, one_socket):
    port = free_port()
    own_onramp(server, admin_listen=f"127.0.0.1:{port}", admin_password=ADMIN_PASSWORD)
    with raw.connect(Place("127.0.0.1", port), "admin", ADMIN_PASSWORD) as admin:
        admin.query("RELOAD")
    one_socket.until(lambda message: message.get("RELOADING") == "1")
    one_socket.until(lambda message: message == {"READY": "1"})


def test_sighup_reads_the_options_again(own_onramp, server, tmp_path):
    file = tmp_path / "onramp.toml"
    file.write_text("permits = 5\n")
    port = free_port()
    onramp = own_onramp(server, config=file, admin_listen=f"127.0.0.1:{port}", admin_password=ADMIN_PASSWORD)
    with raw.connect(Place("127.0.0.1", port), "admin", ADMIN_PASSWORD) as admin:
        def permits():
            return admin.value("SELECT value FROM options WHERE name = 'permits'")

        assert permits() == b"5"
        file.write_text("permits = 6\nmax_connections = 77\n")
        onramp.process.send_signal(signal.SIGHUP)
        onramp.says("options, certificates and keys have been read again")
        onramp.says("max_connections stays 100000 until the next start, which makes it 77")
        assert permits() == b"6"
        file.write_text("permits = 7\nmax_conections = 1\n")
        onramp.process.send_signal(signal.SIGHUP)
        onramp.says(f"{file}:2: unknown option \"max_conections\"; did you mean max_connections?")
        assert permits() == b"6", "a file with a fault changes nothing"


def test_the_status_says_how_it_stands(own_onramp, server, one_socket, monkeypatch):
    # For looks that come soon.
    monkeypatch.setenv("WATCHDOG_USEC", "600000")
    onramp = own_onramp(server)
    one_socket.until(lambda message: status(message, "clients: 0, statements that run: 0, that wait: 0"))
    with raw.connect(onramp), raw.connect(onramp):
        one_socket.until(lambda message: status(message, "clients: 2,"))
    one_socket.until(lambda message: status(message, "clients: 0,"))


def test_a_server_that_is_away_is_in_the_status(own_onramp, own_server, one_socket, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "600000")
    own_onramp(own_server, backend_connect_timeout="1s")
    one_socket.until(lambda message: status(message, "clients: 0, statements"))
    own_server.kill()
    # It is no reason to start anew.
    told = one_socket.until(lambda message: status(message, "the server does not answer; "))[-1]
    assert told["WATCHDOG"] == "1"


def test_the_watchdog_is_fed_while_every_worker_turns(own_onramp, server, one_socket, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "600000")
    monkeypatch.setenv("ONRAMP_WORKERS", "2")
    onramp = own_onramp(server, core_dumps="on")
    one_socket.until(lambda message: "WATCHDOG" in message)
    with Stopped(onramp.process.pid, "worker 1"):
        one_socket.until(lambda message: status(message, "worker 1 has not answered: "))
        # The kernel deals them out: that the other worker gets none of 64 happens once in 2^64 runs.
        clients = [socket.create_connection((onramp.host, onramp.port)) for _ in range(64)]
        later = one_socket.until(lambda message: "STATUS" in message and not status(message, "clients: 0,"))
        assert all(status(message, "worker 1 has not answered: ") and "WATCHDOG" not in message for message in later)
    recovered = one_socket.until(lambda message: "WATCHDOG" in message)[-1]
    assert status(recovered, "clients: ") and not status(recovered, "not answered")
    for client in clients:
        client.close()


def test_the_watchdog_of_another_process_is_not_fed(own_onramp, server, one_socket, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "600000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    onramp = own_onramp(server)
    with raw.connect(onramp):
        seen = one_socket.until(lambda message: status(message, "clients: 1,"))
    assert all("WATCHDOG" not in message for message in seen)


def test_a_supervisor_that_cannot_be_told_is_a_warning(own_onramp, server, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "vsock:2:1234")
    onramp = own_onramp(server)
    onramp.says("nobody can be told that this serves: NOTIFY_SOCKET (vsock:2:1234): ")
    with raw.connect(onramp) as client:
        assert client.value("SELECT 7") == b"7"
