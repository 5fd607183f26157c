"""`onramp top`: its figures are those of the admin port, its screens are drawn and left in order, and its orders are carried out."""

import json
import os
import signal
import socket
import subprocess
import threading

import pymysql
import pytest

from harness import raw
from harness.onramp import binary
from harness.raw import Closed, Ok
from harness.server import free_port
from harness.terminal import Terminal
from harness.waiting import PATIENCE, in_background, until, wait_until_running

PASSWORD = "admin-secret"
needs_injection = pytest.mark.skipif("/release/" in os.environ.get("ONRAMP_BIN", ""), reason="release builds have no injected panics")
# By their keys.
TABS = {"1": "clients", "2": "queue", "3": "statements", "4": "locks", "5": "pins", "6": "backends", "7": "events", "8": "limits",
        "9": "minutes", "0": "logins", "c": "changes", "r": "refused"}


@pytest.fixture
def through(own_server, own_onramp, monkeypatch):
    """An Onramp of the test's own, with an admin port."""
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    port = free_port()
    onramp = own_onramp(own_server, admin_listen=f"127.0.0.1:{port}", permits=2, thread_pool_stall_limit="60")
    onramp.admin_port = port
    return onramp


@pytest.fixture
def terminal():
    """Opens terminals; see `harness.terminal`."""
    opened = []

    def open_terminal(**options):
        opened.append(Terminal(**options))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


def top(onramp, *arguments):
    return [binary(), "top", "--port", onramp.admin_port, *arguments]


def once(onramp, *arguments, **environment):
    words = [str(word) for word in top(onramp, "--once", *arguments)]
    return subprocess.run(words, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=PATIENCE)


def look(onramp, *arguments):
    """What `--once --json` prints."""
    done = once(onramp, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ask(onramp, statement):
    with pymysql.connect(host="127.0.0.1", port=onramp.admin_port, user="admin", password=PASSWORD) as connection:
        with connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


def client(onramp, *account):
    return raw.connect(onramp, *account, schema="onramp_app")


@pytest.fixture
def locked(through):
    """One who keeps a row and does nothing, one who waits for it, and a crowd that does not have enough permits."""
    with client(through) as setup:
        assert isinstance(setup.query("CREATE TABLE locked (id INT PRIMARY KEY, n INT) ENGINE=InnoDB"), Ok)
        assert isinstance(setup.query("INSERT INTO locked VALUES (1, 0), (2, 0)"), Ok)
    holder, waiter = client(through), client(through)
    assert isinstance(holder.query("BEGIN"), Ok)
    assert isinstance(holder.query("UPDATE locked SET n = 1 WHERE id = 1"), Ok)
    assert isinstance(waiter.query(f"SET SESSION innodb_lock_wait_timeout = {2 * PATIENCE}"), Ok)
    join = in_background(outcome, waiter, "UPDATE locked SET n = 2 WHERE id = 1")
    with raw.connect(through.server, "admin", "admin-secret") as admin:
        wait_until_running(admin, "SET n = 2")
    ends = threading.Event()
    crowd = [in_background(work, through, ends) for _ in range(6)]
    yield holder, waiter, join
    ends.set()
    for each in crowd:
        each()


def work(onramp, ends):
    with client(onramp) as connection:
        while not ends.is_set():
            connection.query("SELECT SLEEP(0.02)")
    return True


def outcome(connection, statement):
    try:
        return connection.query(statement)
    except (Closed, OSError) as gone:
        return gone


def test_once_agrees_with_the_admin_port(through):
    with client(through) as first, client(through) as second:
        assert isinstance(first.query("BEGIN"), Ok)
        first.value("SELECT 41")
        assert isinstance(second.query("CREATE TEMPORARY TABLE mine (a INT)"), Ok)
        seen = look(through)
        # Nobody does anything meanwhile.
        clients = sorted(seen["tables"]["clients"], key=lambda row: row["id"])
        for column in ("id", "user", "state", "address", "schema_name"):
            expected = [row[column] for row in ask(through, f"SELECT {column} FROM clients ORDER BY id")]
            assert [row[column] for row in clients] == expected
        status = {row["variable_name"]: row["variable_value"] for row in ask(through, "SELECT * FROM status")}
        for name in ("Threads_connected", "Onramp_backends", "Onramp_permits", "Connections", "Onramp_statements_pinned"):
            assert str(seen["status"][name]) == status[name], name
        statements = {row["digest"]: row for row in ask(through, "SELECT * FROM statements WHERE digest IS NOT NULL")}
        assert seen["tables"]["statements"]
        for row in seen["tables"]["statements"]:
            for column in ("count", "time_us", "errors", "text"):
                assert row.get(column) == statements[row["digest"]][column], row
        assert [row["reason"] for row in seen["tables"]["pins"]] == ["temporary_table"]
        assert "create temporary table" in seen["tables"]["pins"][0]["cause"]
        assert {row["option"] for row in seen["tables"]["limits"]} == {row["option"] for row in ask(through, "SELECT option FROM limits")}
        assert seen["options"]["permits"] == "2" and seen["troubles"] == {}
        assert sorted(seen["tables"]) == sorted([*TABS.values(), "notes", "peers"])
        text = once(through)
        assert text.returncode == 0 and all(f"\n# {tab}\n" in text.stdout.decode() for tab in TABS.values())


def test_rows_have_an_end(through):
    clients = [client(through) for _ in range(12)]
    try:
        assert len(look(through, "--rows", "5")["tables"]["clients"]) == 5
        assert len(look(through)["tables"]["clients"]) == 12
    finally:
        for each in clients:
            each.close()


def test_who_waits_for_whom(through, locked, terminal):
    holder, waiter, join = locked
    def seen():
        rows = {row["id"]: row for row in look(through)["tables"]["locks"]}
        return rows.get(waiter.id, {}).get("waits_for_client") == holder.id and rows

    rows = until(seen, "the server was never asked who waits for whom")
    assert rows[holder.id]["blocks_others"] == 1
    screen = terminal()
    screen.run(top(through))
    screen.shows("statements/s")
    screen.keys("4")
    lines = [line.strip() for line in screen.shows(f"`- {waiter.id}").splitlines()]
    below = next(number for number, line in enumerate(lines) if line.startswith(f"`- {waiter.id}"))
    assert any(line.startswith(str(holder.id)) for line in lines[:below]), lines
    assert isinstance(holder.query("COMMIT"), Ok)
    assert isinstance(join(), Ok)
    screen.keys("q")
    screen.shows("shell>")


def test_refusals_are_said(through):
    done = once(through, ONRAMP_ADMIN_PASSWORD="wrong")
    assert done.returncode == 1 and b"error 1045" in done.stderr and b"wrong" not in done.stderr
    words = [binary(), "top", "--once", "--port", str(free_port())]
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    assert done.returncode == 1 and b"admin_listen" in done.stderr
    done = subprocess.run([binary(), "top"], capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and b"--once" in done.stderr


def test_a_password_file_and_a_socket(own_server, own_onramp, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    own_onramp(own_server, admin_listen=f"{tmp_path}/admin.sock")
    monkeypatch.delenv("ONRAMP_ADMIN_PASSWORD")
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    words = [binary(), "top", "--once", "--socket", f"{tmp_path}/admin.sock", "--password-file", str(file)]
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and b"# limits" in done.stdout, done.stderr


def test_tls(own_server, own_onramp, authority, monkeypatch, tmp_path):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    port = free_port()
    certificate, key = authority.sign("server")
    own_onramp(own_server, admin_listen=f"127.0.0.1:{port}?tls=required", tls_certificate=certificate, tls_key=key)

    def run(*arguments):
        words = [binary(), "top", "--once", "--port", str(port), *map(str, arguments)]
        return subprocess.run(words, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)

    assert run().returncode == 1
    assert run("--tls").returncode == 0
    checked = run("--tls-ca", authority.path)
    assert checked.returncode == 0, checked.stderr
    stranger = type(authority)(f"{tmp_path}/stranger")
    refused = run("--tls-ca", stranger.path)
    assert refused.returncode == 1 and b"certificate" in refused.stderr, refused.stderr


def test_screens_and_the_way_back(through, terminal):
    screen = terminal()
    before = screen.settings()
    screen.run(top(through))
    with client(through) as connection:
        screen.shows("onramp top  127.0.0.1", " statements/s", "1 clients 2 queue", str(connection.id))
        assert screen.is_alternate() and screen.settings() != before
        for key, tab in TABS.items():
            screen.keys(key)
            screen.shows({"clients": "ADDRESS", "queue": "POS", "statements": "P99", "locks": "WAITS", "pins": "USUAL CAUSE",
                          "backends": "PERMIT", "events": "MESSAGE", "limits": "OF WHAT", "minutes": "SLOW BY", "logins": "AT IT", "changes": "FIGURE",
                          "refused": "REASON"}[tab])
        screen.keys("h")
        screen.shows("any key goes back")
        screen.keys("x", "1")
        for width, height in ((80, 24), (40, 24), (40, 6), (10, 2), (120, 30)):
            screen.resize(width, height)
            until(lambda: screen.screen().strip(), "nothing on a screen of another size")
        screen.shows(str(connection.id))
    screen.keys("q")
    screen.shows("shell>")
    until(lambda: not screen.is_alternate() and screen.settings() == before and screen.shows_cursor(), "the terminal is not as it was")


@pytest.mark.parametrize("ending", ["C-c", signal.SIGTERM, signal.SIGHUP])
def test_every_end_gives_the_terminal_back(through, terminal, ending):
    screen = terminal()
    before = screen.settings()
    screen.run(["sh", "-c", 'echo $$ >"$1"; shift; exec "$@"', "sh", f"{screen.folder}/pid", *top(through)])
    screen.shows(" statements/s")
    if ending == "C-c":
        screen.keys(ending)
    else:
        os.kill(pid_of(screen), ending)
    screen.shows("shell>")
    until(lambda: not screen.is_alternate() and screen.settings() == before and screen.shows_cursor(), "the terminal is not as it was")


def pid_of(screen):
    with open(f"{screen.folder}/pid", encoding="ascii") as file:
        return int(file.read())


def test_it_ends_with_its_terminal(through, terminal):
    """Whose window is closed: nobody is there any more to whom it could say anything."""
    screen = terminal()
    screen.run(["sh", "-c", 'echo $$ >"$1"; shift; exec "$@"', "sh", f"{screen.folder}/pid", *top(through)])
    screen.shows(" statements/s")
    pid = pid_of(screen)
    screen.tmux("kill-server")
    try:
        until(lambda: not os.path.exists(f"/proc/{pid}"), "it goes on without a terminal")
    finally:
        if os.path.exists(f"/proc/{pid}"):
            os.kill(pid, signal.SIGKILL)


@needs_injection
@pytest.mark.parametrize("place", ["screen", "asking"])
def test_a_panic_gives_the_terminal_back(through, terminal, place):
    screen = terminal(PANIC_OF_ONRAMP_TOP=place)
    before = screen.settings()
    screen.run(top(through))
    screen.shows("PANIC_OF_ONRAMP_TOP asks for this")
    until(lambda: screen.screen().rstrip().endswith("shell>"), "it does not end")
    until(lambda: not screen.is_alternate() and screen.settings() == before and screen.shows_cursor(), "the terminal is not as it was")


def test_colours_are_left_out_where_nobody_wants_them(through, terminal):
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        screen = terminal(**environment)
        screen.run(top(through))
        screen.shows("1 clients 2 queue", "ADDRESS")
        # Colours of the foreground and background: 30 to 48 and 90 to 107.
        assert ("\x1b[36m" in screen.screen("-e") or "\x1b[38;5;6m" in screen.screen("-e")) == coloured
        screen.keys("q")
        screen.shows("shell>")


def test_kill_asks_first(through, terminal):
    screen = terminal()
    with client(through) as connection:
        screen.run(top(through))
        screen.shows(str(connection.id))
        screen.keys("k")
        screen.shows(f"KILL client {connection.id} (app, 127.0.0.1:", "other key: no")
        screen.keys("n")
        screen.shows("nothing was killed")
        assert connection.value("SELECT 1") == b"1"
        screen.keys("k")
        screen.shows(f"KILL client {connection.id}")
        screen.keys("y")
        screen.shows(f"KILL {connection.id}: done")
        with pytest.raises((Closed, OSError)):
            while True:
                connection.query("SELECT 1")
    screen.keys("q")
    screen.shows("shell>")


def test_kill_of_who_has_gone_shows_the_error(through, terminal):
    screen = terminal()
    connection = client(through)
    screen.run(top(through))
    screen.shows(str(connection.id))
    screen.keys("k")
    screen.shows(f"KILL client {connection.id}")
    connection.close()
    until(lambda: not ask(through, "SELECT id FROM clients"), "the client is still there")
    screen.keys("y")
    screen.shows(f"KILL {connection.id}: error 1094")
    screen.keys("q")
    screen.shows("shell>")


def test_kill_query_ends_the_statement_alone(through, terminal):
    screen = terminal()
    with client(through) as connection:
        # The text of a kind is known once one of it has ended.
        connection.query("SELECT SLEEP(0)")
        join = in_background(outcome, connection, "SELECT SLEEP(1000)")
        until(lambda: ask(through, f"SELECT 1 FROM clients WHERE id = {connection.id} AND state = 'running'"), "it does not run")
        screen.run(top(through))
        screen.shows(str(connection.id), "running")
        screen.keys(*["Right"] * 13)
        screen.shows("select sleep (?)")
        screen.keys("x")
        screen.shows(f"End the statement of client {connection.id}")
        screen.keys("y")
        screen.shows(f"KILL QUERY {connection.id}: done")
        join()
        assert connection.value("SELECT 2") == b"2"
    screen.keys("q")
    screen.shows("shell>")


def test_an_onramp_that_goes_and_comes_back(through, terminal):
    screen = terminal()
    screen.run(top(through))
    screen.shows(" statements/s")
    through.stop()
    screen.shows("[no data for ")
    through.start()
    until(lambda: "no data for" not in screen.screen(), "it does not connect anew")
    screen.keys("q")
    screen.shows("shell>")


def test_what_is_hostile_reaches_no_terminal(through, own_admin, terminal):
    name = "e\x1b[31mvil\x07"
    assert isinstance(own_admin.query(f"CREATE USER `{name}` IDENTIFIED BY 'x'"), Ok)
    screen = terminal(width=200)
    with raw.connect(through, name, "x") as connection:
        # A column's name is part of a statement's digest.
        connection.query("SELECT 1 AS `a\x1b[2J\x1b]0;owned\x07b\u202e`")
        printed = once(through).stdout + once(through, "--json").stdout
        assert b"vil" in printed and b"owned" in printed
        assert b"\x1b" not in printed and b"\x07" not in printed and "\u202e".encode() not in printed
        assert look(through)["tables"]["clients"][0]["user"] == name
        screen.run(top(through))
        screen.shows("e?[31mvil?")
        screen.keys("3")
        screen.shows("owned")
        assert screen.tmux("display-message", "-p", "#{pane_title}").strip() != "owned"
    screen.keys("q")
    screen.shows("shell>")


def test_a_recording_is_replayed(through, terminal, tmp_path):
    file = tmp_path / "looks.jsonl"
    words = [str(word) for word in top(through, "--record", file, "--interval", "0.2")]
    with client(through) as connection:
        recorder = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            until(lambda: file.exists() and len(file.read_bytes().splitlines()) >= 3, "nothing is recorded")
        finally:
            recorder.terminate()
            error = recorder.communicate(timeout=PATIENCE)[1]
        assert recorder.returncode == 0, error
    assert file.stat().st_mode & 0o077 == 0
    looks = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(any(row["id"] == connection.id for row in each["tables"]["clients"]) for each in looks)
    through.stop()
    screen = terminal()
    screen.run([binary(), "top", "--replay", file])
    screen.shows("replay 20", f"1 of {len(looks)}, stopped", str(connection.id))
    screen.keys("]")
    screen.shows(f"2 of {len(looks)}, stopped", " statements/s")
    screen.keys("[")
    screen.shows(f"1 of {len(looks)}, stopped")
    screen.keys("k")
    screen.shows("there is nothing to KILL")
    screen.keys("Space")
    screen.shows(f"{len(looks)} of {len(looks)}, stopped")
    screen.keys("q")
    screen.shows("shell>")


def test_a_full_disk_ends_the_recording_and_not_the_screens(through, terminal):
    words = [str(word) for word in top(through, "--record", "/dev/full")]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 1 and b"/dev/full: No space left" in done.stderr
    screen = terminal()
    screen.run(words)
    screen.shows("nothing is recorded any more: /dev/full", " statements/s")
    screen.keys("2")
    assert "recording to" not in screen.shows("POS")
    screen.keys("q")
    screen.shows("shell>")


def test_an_answer_without_end_is_given_up(through):
    """Whoever stands in the admin port's place can neither fill memory nor keep it waiting."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def flood():
            connection, _ = listener.accept()
            try:
                # A greeting that is longer than any.
                connection.sendall(b"\xff\xff\xff\x00" + b"\x0a" * (8 << 20))
                connection.recv(1)
            except OSError:
                pass
            finally:
                connection.close()
            return True

        join = in_background(flood)
        words = [binary(), "top", "--once", "--port", str(listener.getsockname()[1])]
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        assert done.returncode == 1 and b"larger than" in done.stderr, done.stderr
        join()
