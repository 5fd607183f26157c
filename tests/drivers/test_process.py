"""What a defect leaves: no memory on the disk, no process that serves on with half of itself."""

import os
import resource
import signal
import ssl
from pathlib import Path

import pytest

from harness import raw
from harness.counted import Reading
from harness.server import ADMIN
from harness.waiting import PATIENCE
from test_stored_code import READER, drop

WORKERS = 2

needs_injection = pytest.mark.skipif("/release/" in os.environ.get("ONRAMP_BIN", ""), reason="release builds have no injected panics")


@pytest.fixture
def small_cores():
    """The kernel may write core files, of a page."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] == 0:
        pytest.skip("nobody may write core files here")
    resource.setrlimit(resource.RLIMIT_CORE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.parametrize("allowed", ["off", "on"])
def test_core_dumps(own_onramp, server, small_cores, tmp_path, monkeypatch, allowed):
    monkeypatch.chdir(tmp_path)
    if allowed == "on" and not dumps(os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", "kill -ABRT $$")):
        pytest.skip("no core files are written here")
    onramp = own_onramp(server, core_dumps=allowed)
    [line] = [line for line in Path(f"/proc/{onramp.process.pid}/limits").read_text().splitlines() if line.startswith("Max core file size")]
    assert line.split()[4] == {"off": "0", "on": "4096"}[allowed]
    with raw.connect(onramp) as connection:
        assert connection.value("SELECT 1") == b"1"
    # Kernels that pipe core files to a program heed no limit of size: that none is made is up to the process.
    resource.prlimit(onramp.process.pid, resource.RLIMIT_CORE, (4096, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # Not SIGQUIT: shells have what they start in the background ignore that one.
    onramp.process.send_signal(signal.SIGABRT)
    assert dumps(onramp.process.pid) == (allowed == "on")
    onramp.process.returncode = -signal.SIGABRT


def dumps(pid):
    """Whether a process that ends writes a core file."""
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    return os.WCOREDUMP(status)


@needs_injection
def test_a_panic_of_one_worker_ends_all(own_onramp, server, monkeypatch):
    """What it shared with the others is in doubt: the supervisor starts a whole one."""
    monkeypatch.setenv("PANIC_OF_ONRAMP", "worker=1")
    monkeypatch.setenv("ONRAMP_WORKERS", str(WORKERS))
    onramp = own_onramp(server)
    clients = [raw.connect(onramp) for _ in range(8 * WORKERS)]
    assert all(client.value("SELECT 1") == b"1" for client in clients)
    in_transaction = clients[0]
    in_transaction.query("BEGIN")
    onramp.process.send_signal(signal.SIGUSR1)
    assert onramp.process.wait(PATIENCE) == 1
    for client in clients:
        with pytest.raises((raw.Closed, ConnectionError)):
            client.query("SELECT 1")
        client.close()
    log = onramp.log_text()
    assert "PANIC_OF_ONRAMP asks for this" in log
    assert "an event loop has ended: it panicked; this is a defect of onramp" in log.splitlines()[-1]


@needs_injection
def test_a_panic_in_a_handshake_ends_that_one_alone(own_onramp, server, monkeypatch):
    """More of them than threads, and than handshakes that are worked out at a time."""
    times = 12
    monkeypatch.setenv("PANIC_OF_ONRAMP", f"handshake={times}")
    onramp = own_onramp(server)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def log_in():
        with raw.Connection(onramp) as connection:
            connection.greet()
            connection.start_tls(context)
            return connection.log_in_over_tls()

    with raw.connect(onramp) as standing:
        for _ in range(times):
            with pytest.raises((ssl.SSLError, raw.Closed, ConnectionError)):
                log_in()
        assert isinstance(log_in(), raw.Ok)
        assert standing.value("SELECT 1") == b"1"
    onramp.says("PANIC_OF_ONRAMP asks for this", times)
    onramp.says("its handshake met a defect of onramp")


@needs_injection
def test_a_panic_over_a_statement_ends_its_client_alone(own_onramp, server, monkeypatch):
    """Over one that is read by the threads of logins; again more of them than threads."""
    times = 4
    monkeypatch.setenv("PANIC_OF_ONRAMP", f"task={times}")
    onramp = own_onramp(server, large_statement_size="16KiB")
    large = f"SELECT LENGTH('{'x' * 100_000}')"
    with raw.connect(onramp) as standing:
        for _ in range(times):
            with raw.connect(onramp) as client, pytest.raises((raw.Closed, ConnectionError)):
                client.query(large)
        assert standing.value(large) == b"100000"
    onramp.says("closed: what it sent met a defect of onramp", times)


@needs_injection
def test_a_panic_over_stored_code_leaves_it_unknown(folder, server, monkeypatch):
    """Until it is read again."""
    monkeypatch.setenv("PANIC_OF_ONRAMP", "code=1")
    with raw.connect(server, *ADMIN) as admin:
        for text in (f"CREATE OR REPLACE USER '{READER[0]}'@'%' IDENTIFIED BY '{READER[1]}'",
                     f"GRANT SELECT, SHOW VIEW, TRIGGER, PROCESS ON *.* TO '{READER[0]}'@'%'"):
            assert isinstance(admin.query(text), raw.Ok)
    onramp = Reading(server, folder, service=READER, accounts_refresh="1s").start()
    try:
        onramp.says("PANIC_OF_ONRAMP asks for this")
        with raw.connect(onramp) as client:
            assert client.value("SELECT 1") == b"1"
        onramp.wait_until_read()
        assert onramp.status("Onramp_stored_code_unreadable") == 0
    finally:
        onramp.stop()
        drop(server, f"USER '{READER[0]}'@'%'")
