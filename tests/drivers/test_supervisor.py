"""What a supervisor such as systemd is told, and what it hands over."""

import collections
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness import raw
from harness.metrics import ask
from harness.onramp import binary
from harness.server import SERVICE, free_port
from harness.supervisor import Notices, Stopped, handing_over, status
from harness.waiting import PATIENCE, until

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


def test_an_option_that_is_wrong_is_in_the_status(one_socket, tmp_path):
    """systemd shows that to everybody, and the log to few."""
    file = tmp_path / "onramp.toml"
    file.write_text("max_conections = 1\n")
    done = subprocess.run([binary(), "serve", "--config", file], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2, done.stderr
    one_socket.until(lambda message: status(message, f'{file}:1: unknown option "max_conections"; did you mean max_connections?'))


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


def listener(backlog=128):
    listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
    listener.settimeout(PATIENCE)
    return listener


@pytest.mark.parametrize("driver", ["epoll", "auto"])
def test_sockets_are_taken_over_and_outlive_it(own_onramp, server, driver):
    with listener() as mysql, listener() as admin, listener() as http:
        ports = {name: each.getsockname()[1] for name, each in [("admin", admin), ("http", http)]}
        # The options say the same port for MySQL's clients, which could not be opened, and another one for HTTP.
        onramp = own_onramp(server, sockets={"mysql": mysql, "http": http, "admin": admin}, http_listen=f"127.0.0.1:{free_port()}",
                            admin_password=ADMIN_PASSWORD, workers=2, driver=driver)
        onramp.says(f"listen: the supervisor has handed over 127.0.0.1:{onramp.port}")
        assert ask(ports["http"], "/livez").status == 200
        # More than one worker has a turn at the one queue.
        clients = [raw.connect(onramp) for _ in range(20)]
        with raw.connect(Place("127.0.0.1", ports["admin"]), "admin", ADMIN_PASSWORD) as connection:
            rows = connection.query("SELECT value, source FROM options WHERE name IN ('listen', 'http_listen') ORDER BY name").rows
            assert rows == [(f"127.0.0.1:{ports['http']}".encode(), b"socket"), (f"127.0.0.1:{onramp.port}".encode(), b"socket")]
            stays = connection.query("RELOAD")
            assert not isinstance(stays, raw.Err) and "listen stays" not in onramp.log_text()
        for client in clients:
            client.close()
        assert onramp.stop() == 0
        # Nobody serves now, and who comes waits for the next one.
        with socket.create_connection(("127.0.0.1", onramp.port), timeout=PATIENCE) as waiting:
            own_onramp(server, sockets={"mysql": mysql}, driver=driver)
            assert waiting.recv(5)[4:5] == b"\x0a"


def test_a_unix_socket_keeps_its_file(own_onramp, server, tmp_path):
    path = tmp_path / "mysql.sock"
    with listener() as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))
        unix.listen()
        # A second one for the same purpose.
        onramp = own_onramp(server, sockets={"mysql": tcp})
        onramp.stop()
        command, handed = handing_over([unix], [binary(), "serve", "--http-listen", "off"])
        environment = dict(os.environ, ONRAMP_BACKEND=f"mysql://{SERVICE[0]}:{SERVICE[1]}@{server.host}:{server.port}/")
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, **handed)
        try:
            with raw.connect(onramp, socket_path=str(path)) as client:
                assert client.value("SELECT 7") == b"7"
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
        assert path.exists(), "it is whose socket it is"


def test_sockets_that_are_for_nothing_are_refused(server):
    with listener() as one, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", 0))
        for handed_over, names, expected in [
            ([one], "onramp.socket", 'LISTEN_FDNAMES: a socket is named "onramp.socket": name it mysql, admin or http'),
            ([one, one], "mysql", "LISTEN_FDNAMES: 1 names for 2 sockets"),
            ([one, one], "http:http", "LISTEN_FDNAMES: HTTP is answered at one address; two are named http"),
            ([one, datagrams], "mysql:admin", "LISTEN_FDS: file 4 is no stream socket"),
        ]:
            command, handed = handing_over(handed_over, [binary(), "serve"])
            done = subprocess.run(command, env=dict(os.environ, LISTEN_FDNAMES=names), capture_output=True, text=True, timeout=PATIENCE, **handed)
            assert done.returncode == 1 and expected in done.stderr, done.stderr


def test_sockets_of_another_process_are_left_alone(own_onramp, server, monkeypatch):
    monkeypatch.setenv("LISTEN_PID", "1")
    monkeypatch.setenv("LISTEN_FDS", "5")
    with raw.connect(own_onramp(server)) as client:
        assert client.value("SELECT 7") == b"7"


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd is not installed")
def test_systemd_starts_it_for_the_first_client(server, tmp_path):
    place = Place("127.0.0.1", free_port())
    environment = dict(os.environ, ONRAMP_BACKEND=f"mysql://{SERVICE[0]}:{SERVICE[1]}@{server.host}:{server.port}/", ONRAMP_HTTP_LISTEN="off")
    passed = [f"--setenv={name}" for name in environment if name.startswith("ONRAMP_")]
    command = ["systemd-socket-activate", f"--listen={place.host}:{place.port}", "--fdname=mysql", *passed, binary(), "serve"]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(command, env=environment, stderr=log)
    try:
        until(lambda: b"Listening on" in (tmp_path / "log").read_bytes(), "it does not listen")
        with raw.connect(place) as client:
            assert client.value("SELECT 7") == b"7"
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
