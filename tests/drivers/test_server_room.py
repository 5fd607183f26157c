"""How many backends there are where no number is given: as many as the server allows, beside its other users."""

import contextlib
import threading
import time

import pytest

from harness import raw
from harness.counted import Counted
from harness.raw import Err, Ok
from harness.server import ADMIN, APP
from harness.waiting import in_background, until


@pytest.fixture
def onramp(own_server, folder):
    onramp = Counted(own_server, folder, workers=1, max_backends=0, user_backends_share=100).start()
    yield onramp
    onramp.stop()


@pytest.fixture
def bound(onramp):
    """How many backends there may be, as the admin port says it."""
    with onramp.admin() as admin:
        yield lambda: int(admin.value("SELECT bound FROM limits WHERE option = 'max_backends'"))


def test_the_server_says_how_many(own_server, own_admin, onramp, bound):
    """Its limit, less the service account's connection and the test's own, less what stays free."""
    for limit, free in ((600, 37), (60, 8), (1000, 62)):
        assert isinstance(own_admin.query(f"SET GLOBAL max_connections = {limit}"), Ok)
        # What the tests connect with besides comes and goes.
        until(lambda: limit - free - 8 <= bound() <= limit - free, f"not found for max_connections = {limit}")


def test_what_others_use_is_theirs(own_server, own_admin, onramp, bound):
    own_admin.query("SET GLOBAL max_connections = 100")
    until(lambda: 80 <= bound() <= 92, "not found")
    others = [raw.connect(own_server) for _ in range(50)]
    until(lambda: 30 <= bound() <= 42, "what others have was not seen")
    for other in others:
        other.close()
    until(lambda: 80 <= bound() <= 92, "what others have given back was not seen")


def test_backends_are_given_back_to_others(own_server, own_admin, onramp, bound):
    """Idle ones at once, those that are held as soon as they are not."""
    own_admin.query("SET GLOBAL max_connections = 60")
    until(lambda: 40 <= bound() <= 52, "not found")
    holders = [raw.connect(onramp) for _ in range(30)]
    for holder in holders:
        assert isinstance(holder.query("BEGIN"), Ok) and holder.value("SELECT 1") == b"1"
    own_admin.query("SET GLOBAL max_connections = 30")
    until(lambda: bound() <= 22, "the server's limit was not seen")
    for holder in holders:
        assert holder.value("SELECT 2") == b"2", "nobody loses a backend"
        assert isinstance(holder.query("COMMIT"), Ok)
    threads = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'"
    until(lambda: int(own_admin.value(threads)) <= bound(), "backends stay that there is no room for")
    for holder in holders:
        assert holder.value("SELECT 3") == b"3"


def test_more_clients_than_there_is_room_for(own_server, own_admin, onramp, bound):
    own_admin.query("SET GLOBAL max_connections = 12")
    until(lambda: bound() <= 6, "the server's limit was not seen")
    clients = [raw.connect(onramp) for _ in range(40)]
    joins = [in_background(lambda client: [client.query("SELECT SLEEP(0.01)") for _ in range(5)], client) for client in clients]
    answers = [answer for join in joins for answer in join()]
    assert not [answer for answer in answers if isinstance(answer, Err)]


def test_another_onramp_gets_a_quarter(own_server, own_admin, onramp, bound, folder):
    """However much the first one needs: transactions follow each other on all that it may have."""
    own_admin.query("SET GLOBAL max_connections = 60")
    until(lambda: 40 <= bound() <= 52, "not found")
    ended = threading.Event()

    def go_on(client):
        answers = []
        while not ended.is_set():
            answers += [client.query("BEGIN"), client.query("SELECT 1")]
            time.sleep(0.02)
            answers.append(client.query("COMMIT"))
        return answers

    joins = [in_background(go_on, raw.connect(onramp)) for _ in range(60)]
    later = Counted(own_server, folder, workers=1, max_backends=0, user_backends_share=100)
    try:
        threads = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'"
        until(lambda: int(own_admin.value(threads)) >= 40, "the first one does not use what it has")
        later.start()
        holders = [raw.connect(later) for _ in range(12)]
        for holder in holders:
            assert isinstance(holder.query("BEGIN"), Ok) and holder.value("SELECT 1") == b"1"
    finally:
        ended.set()
        later.stop()
    assert not [answer for join in joins for answer in join() if isinstance(answer, Err)]


def test_a_kill_that_waits_for_room_is_not_for_what_has_come_since(own_server, own_onramp):
    """The statement that was meant has ended by itself meanwhile; its client, in a transaction, has sent another one."""
    onramp = own_onramp(own_server, workers=1, max_backends=8)
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(raw.connect(own_server, *ADMIN))
        victim, killer = (stack.enter_context(raw.connect(onramp, schema="onramp_app")) for _ in range(2))
        victim.query("BEGIN")
        victim.command(raw.QUERY, b"SELECT SLEEP(2), 1")
        running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(2), %'"
        until(lambda: admin.value(running) == b"1" or victim.has_answer(), "it does not run")
        # No backend is idle, and no room for another one.
        idle = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app' AND COMMAND = 'Sleep'"
        for (thread,) in admin.query(idle).rows:
            admin.query(f"KILL {thread.decode()}")
        until(lambda: not admin.query(idle).rows, "they are idle still")
        connected = admin.value("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Daemon'")
        assert isinstance(admin.query(f"SET GLOBAL max_connections = {max(10, int(connected))}"), Ok)
        room = []
        while True:
            connection = raw.Connection(own_server)
            stack.callback(connection.close)
            if not isinstance(connection.login(*APP), Ok):
                break
            room.append(connection)
        killer.command(raw.QUERY, f"KILL QUERY {victim.id}".encode())
        assert victim.result().rows[0][1] == b"1"
        victim.command(raw.QUERY, b"SELECT SLEEP(3), 2")
        until(lambda: admin.value(running.replace("2)", "3)")) == b"1" or victim.has_answer(), "the next one does not run")
        for connection in room:
            connection.close()
        assert isinstance(killer.result(), Ok)
        # Of a sleep that is interrupted MariaDB says 1, or nothing at all.
        assert victim.result().rows == [(b"0", b"2")]
