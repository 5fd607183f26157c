"""`onramp doctor` asks a real server for its limits."""

import json
import os
import subprocess

import pytest

from harness.onramp import binary
from harness.server import ADMIN
from harness.waiting import PATIENCE

pytestmark = pytest.mark.once


def of_the_server(server, *options, password=ADMIN[1]):
    """What it finds of the server, by check, and its exit code."""
    url = f"mysql://{ADMIN[0]}:{password}@localhost/?socket={server.socket}"
    done = subprocess.run(
        [binary(), "doctor", "--json", *options], env=dict(os.environ, ONRAMP_BACKEND=url), capture_output=True, text=True, timeout=PATIENCE)
    assert password not in done.stdout + done.stderr
    findings = {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}
    return {check: finding for check, finding in findings.items() if check.startswith("server_")}, done.returncode


def test_all_limits_are_read(server, admin):
    found, _ = of_the_server(server)
    assert found["server_connections"]["verdict"] == "ok", found["server_connections"]["why"]
    number = lambda name: int(admin.value(f"SELECT @@global.{name}"))  # noqa: E731
    expected = {
        "server_connections": "max_connections", "server_open_files": "open_files_limit", "server_back_log": "back_log",
        "server_wait_timeout": "wait_timeout", "server_prepared_statements": "max_prepared_stmt_count", "server_threads": "thread_cache_size",
        "server_tables": "table_open_cache"}
    assert {check: found[check]["found"] for check in expected} == {check: number(name) for check, name in expected.items()}
    assert found["server_user_connections"]["verdict"] == "ok"
    assert not any(finding["verdict"] == "unknown" for finding in found.values())


def test_what_it_says_to_do_is_enough(server, admin):
    before = {name: admin.value(f"SELECT @@global.{name}").decode() for name in ("max_connections", "wait_timeout", "max_prepared_stmt_count")}
    try:
        admin.query("SET GLOBAL wait_timeout = 30, GLOBAL max_connections = 200")
        found, code = of_the_server(server, "--max-backends=300")
        assert code == 1
        short = {check for check, finding in found.items() if finding["verdict"] == "short"}
        assert {"server_connections", "server_wait_timeout"} <= short
        for check in ("server_connections", "server_wait_timeout", "server_prepared_statements"):
            admin.query(found[check]["remedies"][0]["now"].rstrip(";"))
        found, _ = of_the_server(server, "--max-backends=300")
        for check in ("server_connections", "server_wait_timeout", "server_prepared_statements"):
            assert found[check]["verdict"] == "ok", found[check]
    finally:
        for name, value in before.items():
            admin.query(f"SET GLOBAL {name} = {value}")


def test_a_wrong_password_leaves_it_unknown(server):
    found, _ = of_the_server(server, password="not-it")
    assert set(found) == {"server_connections"}
    assert found["server_connections"]["verdict"] == "unknown"
    assert "error 1045" in found["server_connections"]["why"]
