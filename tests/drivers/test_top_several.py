"""`onramp top` for several Onramps in front of one server: their rows in one table, and each order to the Onramp whose row it is."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
from types import SimpleNamespace

import pytest

from harness import raw
from harness.counted import PASSWORD, Counted, load
from harness.onramp import binary
from harness.raw import Closed, Ok
from harness.relay import Relay
from harness.server import free_port
from harness.terminal import Terminal
from harness.waiting import PATIENCE, in_background, stop_process, until, wait_until_running


@pytest.fixture
def start(own_server, folder):
    """Onramps in front of one server, each of which stops at the end."""
    with contextlib.ExitStack() as stack:

        def start(admin_listen=None, **options):
            onramp = Counted(own_server, folder, **{"workers": 1, "permits": 2, "max_backends": 20, **options})
            if admin_listen:
                onramp.options["admin_listen"] = admin_listen
            stack.callback(onramp.stop)
            return onramp.start()

        yield start


@pytest.fixture
def two(start):
    return start(), start()


@pytest.fixture
def terminal():
    """Opens terminals; see `harness.terminal`."""
    with contextlib.ExitStack() as stack:

        def open_terminal(**options):
            opened = Terminal(**{"ONRAMP_ADMIN_PASSWORD": PASSWORD, **options})
            stack.callback(opened.close)
            return opened

        yield open_terminal


def address(port):
    return f"127.0.0.1:{getattr(port, 'admin_port', port)}"


def top(ports, *arguments):
    """The command, and for several the list of their addresses."""
    return [binary(), "top", "--host", ",".join(address(port) for port in ports), *map(str, arguments)]


def once(ports, *arguments, code=0, **environment):
    environment = {**os.environ, "ONRAMP_ADMIN_PASSWORD": PASSWORD, **environment}
    done = subprocess.run(top(ports, "--once", *arguments), env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    return done


def look(ports, *arguments, **options):
    return json.loads(once(ports, "--json", *arguments, **options).stdout)


def name(onramp):
    """All are of one machine, so that their ports tell them apart."""
    return f":{onramp.admin_port}"


def client(onramp):
    return raw.connect(onramp, schema="onramp_app")


def line_of(screen, *words):
    """The line in which all of these stand; None where there is none."""
    lines = (line for line in screen.screen().splitlines() if all(str(word) in line for word in words))
    return next(lines, None)


def until_line(screen, *words):
    return until(lambda: line_of(screen, *words), lambda: f"no line has all of {words}:\n{screen.screen()}")


def ends(connection):
    with pytest.raises((Closed, OSError)):
        while True:
            connection.query("SELECT 1")


def quits(screen):
    screen.keys("q")
    screen.shows("shell>")


@contextlib.contextmanager
def silent():
    """Somebody at a port who takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()[1]


def test_once_has_the_rows_of_all(two):
    one, other = two
    with client(one) as first, client(other) as second, client(other) as third:
        seen = look(two)
        whose = {(row["onramp"], row["id"]) for row in seen["tables"]["clients"]}
        assert whose == {(name(one), first.id), (name(other), second.id), (name(other), third.id)}
        ports = {port["name"]: port for port in seen["admin_ports"]}
        assert [port["target"] for port in seen["admin_ports"]] == [address(onramp) for onramp in two]
        assert [ports[name(onramp)]["status"]["Threads_connected"] for onramp in two] == [1, 2]
        assert all(port["troubles"] == {} and port["options"]["permits"] == "2" for port in ports.values())
        assert {row["onramp"] for row in seen["tables"]["limits"]} == set(ports)
        # A bound is one of all their rows together.
        assert len(look(two, "--rows", "2")["tables"]["clients"]) == 2
        text = once(two).stdout
        assert re.search(r"^Threads_connected +1 +2$", text, re.MULTILINE), text
        assert re.search(rf"^{name(other)} +{third.id} ", text, re.MULTILINE), text
        # One alone has the shape that it had.
        alone = look([one])
        assert alone["status"]["Threads_connected"] == 1 and "admin_ports" not in alone
        assert "onramp" not in alone["tables"]["clients"][0]


def test_who_does_not_answer_is_named_and_the_rest_is_there(two):
    one, other = two
    with client(one) as connection, silent() as hung:
        refused = free_port()
        done = once([one, hung, refused], "--json", code=1)
        seen = json.loads(done.stdout)
        assert [row["id"] for row in seen["tables"]["clients"]] == [connection.id]
        failures = [port.get("failure", "") for port in seen["admin_ports"]]
        assert failures[0] == "" and "does not answer" in failures[1] and "refused" in failures[2], failures
        assert f"{address(hung)}: the admin port does not answer" in done.stderr and address(refused) in done.stderr
        done = once([hung, refused], code=1)
        assert done.stdout == "" and address(hung) in done.stderr and address(refused) in done.stderr


def test_one_screen_for_two(two, terminal):
    one, other = two
    screen = terminal(width=150)
    screen.run(top(two, "--interval", "0.2"))
    with client(one) as first, client(other) as second:
        until_line(screen, name(one), first.id)
        until_line(screen, name(other), second.id)
        screen.shows("onramp top  2 Onramps", "clients 2 of 200.0k", "running 0 of 4 permits (fixed)")
        # The one at work stands first, whosever it is.
        for onramp in two:
            with onramp.busy():
                until(lambda: (line_of(screen, "running", "select sleep") or "").startswith(name(onramp)) or
                      (line_of(screen, " running ", "127.0.0.1:") or "").startswith(name(onramp)),
                      lambda: f"it does not run:\n{screen.screen()}")
                screen.shows("running 1 of 4 permits")
        # Filters look at whose a row is, too.
        screen.keys("-l", f"/{name(other)}")
        screen.keys("Enter")
        until(lambda: not line_of(screen, first.id), lambda: f"it is still there:\n{screen.screen()}")
        until_line(screen, name(other), second.id)
        screen.keys("Escape")
        until_line(screen, name(one), first.id)
        for key, heading in {"2": "POS", "3": "P99", "4": "WAITS", "5": "USUAL CAUSE", "6": "PERMIT", "7": "MESSAGE", "8": "OF WHAT",
                             "9": "SLOW BY", "0": "AT IT", "c": "FIGURE", "r": "REASON"}.items():
            screen.keys(key)
            screen.shows("ONRAMP ", heading)
        screen.keys("8")
        until_line(screen, name(one), "max_connections")
        until_line(screen, name(other), "max_connections")
    quits(screen)


def test_kill_goes_to_the_onramp_whose_row_it_is(two, terminal):
    one, other = two
    screen = terminal(width=150)
    with client(one) as stays, client(other) as goes:
        screen.run(top(two, "--interval", "0.2"))
        until_line(screen, name(one), stays.id)
        screen.keys("-l", f"/{name(other)}")
        screen.keys("Enter")
        until(lambda: not line_of(screen, stays.id), lambda: f"it is still there:\n{screen.screen()}")
        until_line(screen, name(other), goes.id)
        screen.keys("k")
        screen.shows(f"KILL client {goes.id} of {name(other)} (app, 127.0.0.1:")
        screen.keys("y")
        screen.shows(f"KILL {goes.id} at {name(other)}: done")
        ends(goes)
        assert stays.value("SELECT 1") == b"1"
    other.says(f"KILL {goes.id}", times=1)
    assert "KILL" not in one.log_text()
    quits(screen)


def test_one_that_is_killed_comes_back_by_itself(two, terminal):
    one, other = two
    screen = terminal(width=200)
    screen.run(top(two, "--interval", "0.2"))
    with client(one) as first, client(other) as second:
        until_line(screen, name(other), second.id)
        other.process.send_signal(signal.SIGKILL)
        other.process.wait()
        # Its rows and figures go with it; those of the other are there, and as new as ever.
        screen.shows("1 of 2 Onramps", f"[{name(other)}: ", "refused", "clients 1 of 100.0k")
        assert line_of(screen, second.id) is None and line_of(screen, name(one), first.id)
        with client(one) as third:
            until_line(screen, name(one), third.id)
        other.start()
        screen.shows("2 Onramps")
        with client(other) as fourth:
            until_line(screen, name(other), fourth.id)
            assert "[" not in screen.screen().splitlines()[0]
    quits(screen)


def test_one_that_hangs_holds_nobody_up(two, terminal):
    one, other = two
    screen = terminal(width=200)
    with silent() as hung:
        screen.run(top([one, hung], "--interval", "0.2"))
        with client(one) as first:
            until_line(screen, name(one), first.id)
            screen.shows("1 of 2 Onramps", f"[:{hung}: ")
            screen.shows(f"[:{hung}: the admin port does not answer]")
        until(lambda: not line_of(screen, first.id), "nothing moves any more")
        quits(screen)
        # One that stops in the midst of it.
        screen.run(top(two, "--interval", "0.2"))
        with client(one) as first, client(other) as second:
            until_line(screen, name(other), second.id)
            stop_process(other.process.pid)
            try:
                with client(one) as third:
                    until_line(screen, name(one), third.id)
                until(lambda: not line_of(screen, third.id), "nothing moves any more")
                screen.shows(f"[{name(other)}: no data for ")
            finally:
                other.process.send_signal(signal.SIGCONT)
            until(lambda: f"[{name(other)}:" not in screen.screen(), "it does not come back")
            until_line(screen, name(other), second.id)
        quits(screen)


def test_passwords_of_each(start, terminal, tmp_path):
    """As of a package whose file has a password of each machine's own."""
    one, other = start(), start()
    files = [tmp_path / "one", tmp_path / "other"]
    for file, password in zip(files, (PASSWORD, "wrong-secret")):
        file.write_text(password + "\n")
    words = [word for file in files for word in ("--password-file", file)]
    done = once([one, other], "--json", *words, code=1, ONRAMP_ADMIN_PASSWORD="")
    assert f"{address(other)}: error 1045" in done.stderr and address(one) not in done.stderr and "wrong-secret" not in done.stderr
    assert json.loads(done.stdout)["admin_ports"][1]["failure"].startswith("error 1045")
    # On the screen it is named, and not tried again with each look.
    screen = terminal(width=150, ONRAMP_ADMIN_PASSWORD="")
    refused = "admin: login from localhost refused"
    before = other.log_text().count(refused)
    screen.run(top([one, other], *words, "--interval", "0.2"))
    screen.shows("1 of 2 Onramps", f"[{name(other)}: error 1045")
    for _ in range(10):
        with client(one) as connection:
            until_line(screen, name(one), connection.id)
            screen.keys("F5")
    other.says(refused)
    assert other.log_text().count(refused) == before + 1, other.log_text()
    quits(screen)
    files[1].write_text(PASSWORD)
    assert look([one, other], *words, ONRAMP_ADMIN_PASSWORD="")["admin_ports"][1]["status"]
    done = once([one, other], *words, "--password-file", files[0], code=2)
    assert "--password-file is given 3 times for 2 admin ports" in done.stderr
    done = once([one, one], code=2)
    assert f"{address(one)} is given twice" in done.stderr


class Older(Relay):
    """An Onramp that does not have some of today's columns and tables, by names as long as these."""

    OTHER = {b"server": b"zerver", b"FROM refusals": b"FROM refuzals", b"FROM peers": b"FROM peerz", b"FROM notes": b"FROM notez"}

    def __init__(self, onramp):
        super().__init__(SimpleNamespace(host=onramp.host, port=onramp.admin_port, socket=None))

    def to_server(self, piece):
        for name, other in self.OTHER.items():
            piece = piece.replace(name, other)
        return piece

    # What it says of its columns.
    from_server = to_server


def test_an_older_one_loses_nothing_but_what_it_lacks(two, terminal):
    one, other = two
    older = Older(other)
    try:
        with client(one) as first, client(other) as second:
            assert [each.value("SELECT 1") for each in (first, second)] == [b"1", b"1"]
            ports = [one, older.port]
            seen = look(ports)
            rows = {row["id"]: row for row in seen["tables"]["clients"]}
            assert (rows[second.id]["onramp"], rows[second.id]["user"]) == (f":{older.port}", "app")
            whose = {table: {row["onramp"] for row in seen["tables"][table]} for table in ("backends", "notes", "peers")}
            both = {name(one), f":{older.port}"}
            assert whose["backends"] == both and whose["notes"] == whose["peers"] == {name(one)}, whose
            assert {row["onramp"] for row in seen["tables"]["backends"] if "server" in row} == {name(one)}
            troubles = seen["admin_ports"][1]["troubles"]
            assert list(troubles) == ["refused"] and troubles["refused"].startswith("error 1146"), troubles
            # And by itself.
            alone = look([older.port])
            assert [row["id"] for row in alone["tables"]["clients"]] == [second.id] and list(alone["troubles"]) == ["refused"]
            screen = terminal(width=150)
            screen.run(top(ports, "--interval", "0.2"))
            until_line(screen, name(one), first.id)
            # A filter and an order by what it lacks.
            screen.keys("-l", "/127.0.0.1:")
            screen.keys("Enter")
            screen.keys(*[">"] * 11)
            screen.keys(*["Right"] * 10)
            screen.shows("SERVER↓")
            until_line(screen, f":{older.port}", second.id)
            screen.keys("r")
            screen.shows(f"[:{older.port}: error 1146")
        quits(screen)
    finally:
        older.close()


def test_who_waits_for_a_client_of_the_other_stands_below_it(two, terminal, own_admin):
    one, other = two
    with client(one) as setup:
        assert isinstance(setup.query("CREATE TABLE locked (id INT PRIMARY KEY, n INT) ENGINE=InnoDB"), Ok)
        assert isinstance(setup.query("INSERT INTO locked VALUES (1, 0)"), Ok)
    with client(other) as holder, client(one) as waiter, load(one):
        assert isinstance(holder.query("BEGIN"), Ok)
        assert isinstance(holder.query("UPDATE locked SET n = 1 WHERE id = 1"), Ok)
        assert isinstance(waiter.query(f"SET SESSION innodb_lock_wait_timeout = {2 * PATIENCE}"), Ok)
        join = in_background(waiter.query, "UPDATE locked SET n = 2 WHERE id = 1")
        wait_until_running(own_admin, "SET n = 2")
        screen = terminal(width=150)
        screen.run(top(two, "--interval", "0.2"))
        screen.shows("statements/s")
        screen.keys("4")
        # It is the one behind all, and stands first, once the Onramps know each other.
        below = lambda: screen.screen().partition("\nONRAMP ")[2].splitlines()[1:3]
        wanted = [[name(other), str(holder.id)], [name(one), "`-", str(waiter.id)]]
        until(lambda: [line.split()[:len(words)] for line, words in zip(below(), wanted)] == wanted, lambda: screen.screen())
        screen.keys("Home", "k")
        screen.shows(f"KILL client {holder.id} of {name(other)} (")
        screen.keys("y")
        screen.shows(f"KILL {holder.id} at {name(other)}: done")
        assert isinstance(join(), Ok)
        ends(holder)
        quits(screen)


def test_a_thousand_clients_of_each(start, terminal):
    """All that are shown are those at work, whosever they are, and keys are answered."""
    both = [start(), start()]
    with contextlib.ExitStack() as stack:
        clients = [[stack.enter_context(client(onramp)) for _ in range(1000)] for onramp in both]
        screen = terminal(width=150, height=40)
        screen.run(top(both, "--interval", "0.2", "--rows", "10000"))
        screen.shows("clients 2000 of 200.0k")
        assert len(look(both, "--rows", "10000")["tables"]["clients"]) == 2000
        screen.keys("End")
        until_line(screen, name(both[1]), "idle")
        for onramp, connected in zip(both, clients):
            screen.keys("-l", f"/{connected[-1].id}")
            screen.keys("Enter")
            until_line(screen, name(onramp), connected[-1].id)
            screen.keys("Escape")
            until(lambda: "filter:" not in screen.screen(), lambda: screen.screen())
        for key, heading in {"2": "POS", "o": "SLOT", "1": "ADDRESS"}.items():
            screen.keys(key)
            screen.shows("ONRAMP ", heading)
        quits(screen)


def test_the_tab_of_onramps_is_there_where_there_are_several(start, terminal):
    one = start()
    screen = terminal(width=200)
    screen.run(top([one], "--interval", "0.2"))
    assert "onramps" not in screen.shows("r refused")
    assert "# onramps" not in once([one]).stdout
    other = start()
    screen.shows("r refused o onramps")
    screen.keys("o")
    screen.shows("SLOT", "WORKS", "another one, which this one knows")
    with client(other):
        # The one that is asked has figures, and the other one a slot.
        until(lambda: re.search(r"^1 .* 0 +0 +2 ", screen.screen(), re.MULTILINE) and re.search(r"^2 .*127\.0\.0\.1|^2 .*localhost", screen.screen(), re.MULTILINE),
              lambda: screen.screen())
        quits(screen)
        screen.run(top([one, other], "--interval", "0.2"))
        screen.shows("o onramps")
        screen.keys("o")
        until(lambda: re.search(rf"^{name(one)} +1 .* 0 +0 +2 ", screen.screen(), re.MULTILINE) and
              re.search(rf"^{name(other)} +2 .* 1 +0 +2 ", screen.screen(), re.MULTILINE), lambda: screen.screen())
        assert "which this one knows" not in screen.screen() and "not asked" not in screen.screen()
        third = start()
        screen.shows("not asked, or it does not answer; others know it")
        text = once([one, other]).stdout
        assert re.search(r"^# onramps$", text, re.MULTILINE) and "not asked" in text
        third.stop()
        until(lambda: "not asked" not in screen.screen(), lambda: screen.screen())
    quits(screen)


def test_one_that_is_asked_by_two_names_is_said(start, terminal):
    one = start()
    screen = terminal(width=200)
    screen.run([binary(), "top", "--port", one.admin_port, "--host", "127.0.0.1,localhost", "--interval", "0.2"])
    screen.shows("[127.0.0.1 and localhost seem to be one Onramp, which counts twice]")
    quits(screen)


def test_sockets_and_addresses_of_ipv6(start, tmp_path):
    by_path, by_address = tmp_path / "admin.sock", f"[::1]:{free_port()}"
    one = start()
    start(admin_listen=str(by_path))
    start(admin_listen=by_address)
    seen = look([one], "--host", by_path, "--host", by_address)
    assert [port["name"] for port in seen["admin_ports"]] == ["127.0.0.1", "admin.sock", "::1"]
    assert all("status" in port for port in seen["admin_ports"])


def test_a_recording_of_two_is_replayed(two, terminal, tmp_path):
    one, other = two
    file = tmp_path / "looks.jsonl"
    with client(one) as first, client(other) as second:
        environment = {**os.environ, "ONRAMP_ADMIN_PASSWORD": PASSWORD}
        recorder = subprocess.Popen(top(two, "--record", file, "--interval", "0.2"), env=environment, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

        def lines():
            # The last one may be on its way.
            return [json.loads(line) for line in file.read_text().split("\n")[:-1]] if file.exists() else []

        def answering(line):
            return [port["name"] for port in line["admin_ports"] if "failure" not in port]

        try:
            until(lambda: sum(len(answering(line)) == 2 for line in lines()) >= 2, "nothing is recorded")
            other.process.send_signal(signal.SIGKILL)
            other.process.wait()
            until(lambda: lines()[-1:] and answering(lines()[-1]) == [name(one)], "it is not recorded that one is gone")
        finally:
            recorder.terminate()
            error = recorder.communicate(timeout=PATIENCE)[1]
        assert recorder.returncode == 0 and error.count(address(other)) == 1, error
    recorded = lines()
    both = next(number for number, line in enumerate(recorded) if len(answering(line)) == 2)
    screen = terminal(width=200)
    screen.run([binary(), "top", "--replay", file])
    screen.shows(f"1 of {len(recorded)}, stopped", "Onramps")
    for _ in range(both + 1):
        screen.keys("]")
    screen.shows(f"{both + 2} of {len(recorded)}, stopped  ")
    until_line(screen, name(one), first.id)
    screen.keys("k")
    screen.shows("there is nothing to KILL")
    screen.keys("Space")
    screen.shows(f"{len(recorded)} of {len(recorded)}, stopped", "1 of 2 Onramps", f"[{name(other)}: ")
    assert line_of(screen, second.id) is None
    quits(screen)
