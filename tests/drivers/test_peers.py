"""Several Onramps in front of one server: they count each other by named locks, and divide what the server is good for."""

import contextlib
import signal
import struct
from types import SimpleNamespace

import pytest

from harness import raw
from harness.counted import Counted, load
from harness.metrics import Metrics
from harness.raw import Err, Ok
from harness.server import SERVICE, free_port
from harness.waiting import in_background, stop_process, until, wait_until_running

# Each Onramp has a process, and its statements wait when two of them run.
USUAL = {"workers": 1, "max_backends": 0, "permits_min": 2, "permits_max": 2, "user_backends_share": 100}


@pytest.fixture
def start(own_server, folder):
    """Onramps in front of one server, each of which stops at the end."""
    with contextlib.ExitStack() as stack:

        def start(**options):
            onramp = Counted(own_server, folder, **{**USUAL, **options})
            stack.callback(onramp.stop)
            return onramp.start()

        yield start


def peers(onramp, columns="slot, own"):
    with onramp.admin() as admin:
        answer = admin.query(f"SELECT {columns} FROM peers ORDER BY slot")
        return [tuple(field.decode() if field is not None else None for field in row) for row in answer.rows]


def until_slots(onramp, slots):
    until(lambda: [slot for slot, _ in peers(onramp)] == slots, lambda: f"not {slots}: {peers(onramp)}\n{onramp.log_text()[-3000:]}")


def bound(onramp, option="max_backends"):
    with onramp.admin() as admin:
        return int(admin.value(f"SELECT bound FROM limits WHERE option = '{option}'"))


def until_bound(onramp, least, most, option="max_backends"):
    until(lambda: least <= bound(onramp, option) <= most, lambda: f"{option} is {bound(onramp, option)}\n{onramp.log_text()[-3000:]}")


def kill(onramp):
    """By SIGKILL: it says good-bye to nobody."""
    onramp.process.send_signal(signal.SIGKILL)
    onramp.process.wait()


def test_connections_are_divided_and_one_that_is_killed_leaves_its_part(own_admin, start):
    assert isinstance(own_admin.query("SET GLOBAL max_connections = 600"), Ok)
    one = start()
    until_slots(one, ["1"])
    # 37 stay free; what the tests connect with besides comes and goes.
    until_bound(one, 550, 563)
    two = start()
    until_slots(one, ["1", "2"])
    until_slots(two, ["1", "2"])
    assert (peers(one), peers(two)) == ([("1", "1"), ("2", "0")], [("1", "0"), ("2", "1")])
    until_bound(one, 270, 282)
    until_bound(two, 270, 282)
    # The connection that is shown is the service account's.
    [(of_two, host)] = [row[1:] for row in peers(one, "slot, connection_id, host") if row[0] == "2"]
    whose = f"SELECT USER FROM information_schema.PROCESSLIST WHERE ID = {of_two}"
    assert own_admin.value(whose).decode() == SERVICE[0]
    assert own_admin.value("SELECT IS_USED_LOCK('onramp.slot.2')").decode() == of_two
    assert host
    one.says("another Onramp is in front of the server, with slot 2", times=1)
    kill(two)
    until_slots(one, ["1"])
    until_bound(one, 550, 563)
    one.says("the Onramp with slot 2", times=1)


def test_slots_of_many_that_start_at_once_differ(own_server, folder):
    all = [Counted(own_server, folder, **USUAL) for _ in range(4)]
    try:
        for onramp in all:
            onramp.start(wait=False)
        for onramp in all:
            onramp.wait_until_ready()
        for onramp in all:
            until_slots(onramp, ["1", "2", "3", "4"])
        own = [[slot for slot, own in peers(onramp) if own == "1"] for onramp in all]
        assert sorted(own) == [["1"], ["2"], ["3"], ["4"]]
    finally:
        for onramp in all:
            onramp.stop()


def until_at_work(onramp, values):
    seen = lambda: [at_work for _, at_work in peers(onramp, "slot, at_work")]
    until(lambda: seen() == values, lambda: f"not {values}: {seen()}\n{onramp.log_text()[-3000:]}")


def test_permits_are_divided_among_those_whose_statements_wait(start):
    options = {"permits_min": 8, "permits_max": 8}
    one, two = start(**options), start(**options)
    until_slots(one, ["1", "2"])
    with load(one):
        until_at_work(one, ["1", "0"])
        until_at_work(two, ["1", "0"])
        assert bound(one, "permits") == 8, "the other has nothing to do"
        # That one begins with its part.
        until_bound(two, 4, 7, "permits")
        with load(two):
            until_at_work(one, ["1", "1"])
            until_bound(one, 4, 7, "permits")
        # Ten seconds later.
        until_at_work(one, ["1", "0"])
        until_bound(one, 8, 8, "permits")


def test_given_numbers_are_one_onramps_own(start):
    one, two = start(permits=6, max_backends=20), start(permits=6, max_backends=20)
    until_slots(two, ["1", "2"])
    with load(one), load(two):
        until_at_work(one, ["1", "1"])
        until_at_work(two, ["1", "1"])
        assert [bound(onramp, option) for onramp in (one, two) for option in ("permits", "max_backends")] == [6, 20] * 2


def test_another_service_account_is_none_of_them(own_admin, start):
    """It sees others' locks, and no more of them."""
    for statement in ("CREATE USER 'second'@'%' IDENTIFIED BY 'second-secret'", "GRANT SELECT ON mysql.* TO 'second'@'%'"):
        assert isinstance(own_admin.query(statement), Ok)
    one, two = start(), start()
    third = start(service=("second", "second-secret"))
    third.says("2 of the named locks onramp.slot.1 to onramp.slot.16 are held by connections of other accounts", times=1)
    until_slots(third, ["3"])
    until_slots(one, ["1", "2"])
    one.says("1 of the named locks onramp.slot.1 to onramp.slot.16 are held", times=1)
    until(lambda: bound(third) > bound(one), lambda: f"{bound(third)} and {bound(one)}")
    with raw.connect(third) as client:
        assert client.value("SELECT 1") == b"1"


def test_named_locks_of_anybody_take_nothing_away(own_server, start):
    """All slots are some client's: Onramp works, and says it."""
    with raw.connect(own_server) as hostile:
        for slot in range(1, 17):
            assert hostile.value(f"SELECT GET_LOCK('onramp.slot.{slot}', 0)") == b"1"
        one = start()
        one.says("all 16 slots are taken", times=1)
        until(lambda: peers(one) == [(None, "1")], lambda: f"{peers(one)}")
        until_bound(one, 500, 563)
        with raw.connect(one) as client:
            assert client.value("SELECT 1") == b"1"
    until_slots(one, ["1"])


def test_a_lock_of_being_at_work_is_taken_as_soon_as_it_is_free(own_server, start):
    """Anybody may hold it."""
    one, two = start(), start()
    until_slots(one, ["1", "2"])
    until_slots(two, ["1", "2"])
    with raw.connect(own_server) as hostile:
        assert hostile.value("SELECT GET_LOCK('onramp.at_work.1', 0)") == b"1"
        with load(one):
            one.says("another connection holds the named lock onramp.at_work.1", times=1)
            assert hostile.value("SELECT RELEASE_LOCK('onramp.at_work.1')") == b"1"
            until_at_work(two, ["1", "0"])


def test_an_onramp_in_front_of_another_one_counts_nobody(own_server, own_admin, folder, start):
    """There it cannot even tell itself from others."""
    inner = start(max_backends=8)
    until_slots(inner, ["1"])
    outer = Counted(SimpleNamespace(host=inner.host, port=inner.port), folder, **{**USUAL, "max_backends": 4})
    outer.start()
    try:
        outer.says("something between, another Onramp for one, gives numbers of its own", times=1)
        until(lambda: own_admin.value("SELECT IS_USED_LOCK('onramp.slot.2')") is None, "it keeps a slot")
        assert [row[1] for row in peers(outer)] == ["1"]
        until_slots(inner, ["1"])
        with raw.connect(outer) as client:
            assert client.value("SELECT 1") == b"1"
    finally:
        outer.stop()


def test_who_connects_while_an_onramp_starts_has_an_id_of_its_slot(own_server, folder, start):
    """Whoever waits for it to come back is there before its slot is known."""
    until_slots(start(), ["1"])
    two = Counted(own_server, folder, **USUAL, connect_timeout="1h")
    ids = []
    try:
        stop_process(own_server.process.pid)
        two.start(wait=False)
        two.says("ready: listening")
        early = [in_background(raw.connect, two) for _ in range(4)]
        with two.admin() as admin:
            until(lambda: admin.value("SELECT COUNT(*) FROM clients") == b"4", "they are not there")
        own_server.process.send_signal(signal.SIGCONT)
        for join in early:
            with join() as client:
                ids.append(client.id)
                assert int(client.value("SELECT CONNECTION_ID()")) == client.id
    finally:
        own_server.process.send_signal(signal.SIGCONT)
        two.stop()
    assert [(id - (1 << 30)) >> 25 for id in ids] == [1] * 4


def test_off_takes_no_slot_and_is_not_counted(own_admin, start):
    one = start()
    until_slots(one, ["1"])
    off = start(peers="off")
    with off.admin() as admin:
        assert admin.query("SELECT * FROM peers").rows == []
    second = start()
    # Whoever came before has been seen by then.
    until_slots(one, ["1", "2"])
    until_slots(second, ["1", "2"])
    assert own_admin.value("SELECT IS_USED_LOCK('onramp.slot.3')") is None


def test_a_lost_connection_takes_its_slot_again(own_admin, start):
    one, two = start(), start()
    until_slots(one, ["1", "2"])
    until_slots(two, ["1", "2"])
    before = peers(one, "slot, connection_id")
    own_admin.query(f"KILL {dict(before)['2']}")
    until(lambda: dict(peers(one, "slot, connection_id")).get("2") not in (None, dict(before)["2"]), "it does not come back")
    assert [slot for slot, _ in peers(one)] == ["1", "2"]
    assert dict(peers(two)) == {"1": "0", "2": "1"}


@pytest.fixture
def both(start):
    """Two that know each other. The first worker of each corresponds for all."""
    one, two = start(workers=2), start(workers=3)
    until_slots(one, ["1", "2"])
    until_slots(two, ["1", "2"])
    return one, two


def sleep(client, seconds=10000):
    client.command(raw.QUERY, f"SELECT SLEEP({seconds}), {client.id}".encode())


def until_sleeping(own_admin, client):
    wait_until_running(own_admin, f"SLEEP(10000), {client.id}")


def patiently(kill):
    """Who hears that the other Onramp has not answered in time says it again; by then it may have been done, and nobody has that id."""
    answer = kill()
    while isinstance(answer, Err) and "has not answered within" in answer.message:
        answer = kill()
        if isinstance(answer, Err) and answer.code == 1094:
            return Ok(0, 0, raw.AUTOCOMMIT, 0, b"")
    return answer


def cancel_by_statement(canceller, id):
    return patiently(lambda: canceller.query(f"KILL QUERY {id}"))


def kill_by_statement(canceller, id):
    return patiently(lambda: canceller.query(f"KILL {id}"))


def kill_by_command(canceller, id):
    return patiently(lambda: canceller.simple(raw.PROCESS_KILL, struct.pack("<I", id)))


def test_a_kill_at_another_onramp_is_that_of_ones_own(own_admin, both):
    one, two = both
    with raw.connect(one) as killer:
        for kill in (kill_by_statement, kill_by_command):
            with raw.connect(two) as victim:
                assert (victim.id - (1 << 30)) >> 25 == 1, "its id is of slot 2"
                sleep(victim)
                until_sleeping(own_admin, victim)
                assert isinstance(kill(killer, victim.id), Ok)
                with contextlib.suppress(raw.Closed):
                    assert victim.result().code in (1317, 1927)
                assert victim.at_end()
        # A KILL in front of something else, and of one that does nothing.
        with raw.connect(two) as victim, raw.connect(one, capabilities=raw.USUAL | raw.MULTI_STATEMENTS) as several:
            killed, selected = several.query_all(f"KILL QUERY {victim.id}; SELECT 7")
            assert isinstance(killed, Ok) and selected.rows[0][0] == b"7"
            assert victim.value("SELECT 1") == b"1"
        answer = killer.query(f"KILL {(1 << 30) + (1 << 25) + 60000}")
        assert isinstance(answer, Err) and (answer.code, "slot" in answer.message) == (1094, False), answer
        answer = killer.query(f"KILL {(1 << 30) + (9 << 25)}")
        assert isinstance(answer, Err) and answer.code == 1094, "nobody has that slot"
        with raw.connect(two, "admin", "admin-secret") as other:
            answer = killer.query(f"KILL QUERY {other.id}")
            assert isinstance(answer, Err) and answer.code == 1095, answer
            # That account may kill everybody's.
            with raw.connect(one) as victim:
                assert isinstance(other.query(f"KILL {victim.id}"), Ok)
                assert victim.at_end()
            assert other.value("SELECT 1") == b"1"


def test_a_driver_cancels_by_another_onramp(own_admin, both):
    """As drivers do: a second connection says KILL QUERY. A balancer has led it to the other Onramp."""
    one, two = both
    for here, there in ((one, two), (two, one)):
        with raw.connect(here) as client:
            sleep(client)
            until_sleeping(own_admin, client)
            with raw.connect(there) as canceller:
                assert isinstance(cancel_by_statement(canceller, client.id), Ok)
            # SLEEP that is interrupted says 1 without an error, or 1317.
            client.result()
            assert client.value("SELECT 2") == b"2", "the client stays"


def test_many_cancels_arrive(own_admin, both):
    one, two = both
    with contextlib.ExitStack() as stack:
        victims = [stack.enter_context(raw.connect(two)) for _ in range(20)]
        for victim in victims:
            sleep(victim)
        killers = [stack.enter_context(raw.connect(one)) for _ in victims]
        joins = [in_background(kill_by_statement, killer, victim.id) for killer, victim in zip(killers, victims)]
        assert all(isinstance(join(), Ok) for join in joins)
        for victim in victims:
            with contextlib.suppress(raw.Closed):
                victim.result()
            assert victim.at_end()


def test_one_that_does_not_answer_is_told_of(both):
    one, two = both
    with raw.connect(two) as victim, raw.connect(one) as killer:
        stop_process(two.process.pid)
        try:
            answer = killer.query(f"KILL {victim.id}")
            assert isinstance(answer, Err) and answer.code == 1105 and "slot 2" in answer.message, answer
        finally:
            two.process.send_signal(signal.SIGCONT)
        # What nobody has read is not done later.
        assert isinstance(killer.query(f"KILL QUERY {victim.id}"), Ok)
        assert victim.value("SELECT 1") == b"1"


@pytest.mark.slow
def test_a_connection_that_falls_silent_is_given_up_by_the_server(own_admin, start):
    """A machine that vanishes closes nothing."""
    one = start()
    until_slots(one, ["1"])
    stop_process(one.process.pid)
    try:
        until(lambda: own_admin.value("SELECT IS_USED_LOCK('onramp.slot.1')") is None, "the lock stays")
    finally:
        one.process.send_signal(signal.SIGCONT)
    until_slots(one, ["1"])


def test_metrics_count_the_others(start):
    port = free_port()
    one = start(http_listen=f"127.0.0.1:{port}")
    metrics = Metrics(port)
    metrics.wait(0, "onramp_peers", at_work="no")
    start()
    metrics.wait(1, "onramp_peers", at_work="no")
    assert metrics.get("onramp_peers", at_work="yes") == 0
