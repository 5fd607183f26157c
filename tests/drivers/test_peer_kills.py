"""KILL of clients of another Onramp in front of the same server, with everybody who could stand in its way."""

import contextlib
import signal
import threading
import time

from harness import raw
from harness.raw import Err, Ok
from harness.server import ADMIN
from harness.waiting import in_background, stop_process, until
from test_peers import (  # noqa: F401
    both, cancel_by_statement, kill, kill_by_statement, peers, sleep, start, until_sleeping, until_slots)

FIRST = 1 << 30
OF_SLOT = 1 << 25


def state(onramp, client):
    with onramp.admin() as admin:
        return admin.value(f"SELECT state FROM clients WHERE id = {client.id}")


def is_killing(onramp, killer):
    return lambda: state(onramp, killer) == b"killing"


def test_what_comes_behind_a_cancelled_statement_goes_on(own_admin, both):
    """The letter takes up to a second. The statement ends by itself, and the next one is not the one that was meant."""
    one, two = both
    for _ in range(3):
        with raw.connect(one) as killer, raw.connect(two) as victim:
            victim.command(raw.QUERY, b"SELECT SLEEP(0.3)")
            # What has ended before anybody has looked is as good.
            until(lambda: state(two, victim) == b"running" or victim.has_answer(), "it does not run")
            killer.command(raw.QUERY, f"KILL QUERY {victim.id}".encode())
            until(lambda: state(one, killer) != b"idle" or killer.has_answer(), "it has not come")
            victim.result()
            # Clocks are not read more exactly than that.
            time.sleep(0.1)
            assert victim.value("SELECT SLEEP(2)") == b"0", "it was interrupted"
            assert isinstance(killer.result(), Ok)
            # What follows is ended as before.
            sleep(victim)
            until_sleeping(own_admin, victim)
            assert isinstance(cancel_by_statement(killer, victim.id), Ok)
            victim.result()


def test_a_transaction_goes_on_behind_a_cancel_that_comes_late(both):
    """On the same backend."""
    one, two = both
    with raw.connect(one) as killer, raw.connect(two) as victim:
        assert isinstance(victim.query("BEGIN"), Ok)
        victim.command(raw.QUERY, b"SELECT SLEEP(0.3)")
        until(lambda: state(two, victim) == b"running" or victim.has_answer(), "it does not run")
        killer.command(raw.QUERY, f"KILL QUERY {victim.id}".encode())
        until(lambda: state(one, killer) != b"idle" or killer.has_answer(), "it has not come")
        victim.result()
        time.sleep(0.1)
        assert victim.value("SELECT SLEEP(2)") == b"0", "it was interrupted"
        assert isinstance(killer.result(), Ok)
        assert isinstance(victim.query("COMMIT"), Ok)


def test_ids_of_an_onramp_that_is_gone_mean_nobody_at_the_next_one(start):
    """One is killed, another one takes its slot, with clients of the same user."""
    one, two = start(), start()
    until_slots(one, ["1", "2"])
    until_slots(two, ["1", "2"])
    with contextlib.ExitStack() as stack:
        former = [stack.enter_context(raw.connect(two)).id for _ in range(20)]
        kill(two)
        killer = stack.enter_context(raw.connect(one))
        answer = killer.query(f"KILL {former[0]}")
        assert isinstance(answer, Err) and answer.code in (1094, 1105), answer
        next = start()
        until_slots(one, ["1", "2"])
        until_slots(next, ["1", "2"])
        clients = [stack.enter_context(raw.connect(next)) for _ in range(20)]
        assert all((client.id - FIRST) // OF_SLOT == 1 for client in clients)
        assert not set(former) & {client.id for client in clients}
        for id in former[:5]:
            answer = kill_by_statement(killer, id)
            assert isinstance(answer, Err) and answer.code == 1094, answer
        assert all(client.value("SELECT 1") == b"1" for client in clients)


def test_ids_of_one_that_does_not_count_mean_nobody_elsewhere(start):
    one, off = start(), start(peers="off")
    two = start()
    until_slots(one, ["1", "2"])
    with raw.connect(off) as client, raw.connect(one) as killer, raw.connect(off) as killer_there:
        assert (client.id - FIRST) // OF_SLOT == 16, "the second half is for those without a slot"
        answer = kill_by_statement(killer, client.id)
        assert isinstance(answer, Err) and answer.code == 1094 and "slot" not in answer.message, answer
        assert client.value("SELECT 1") == b"1"
        with raw.connect(two) as other:
            answer = kill_by_statement(killer_there, other.id)
            assert isinstance(answer, Err) and answer.code == 1094, "it asks nobody"
            assert other.value("SELECT 1") == b"1"


def test_each_of_three_kills_what_the_others_have(own_admin, start):
    three = [start(workers=workers) for workers in (1, 2, 3)]
    for onramp in three:
        until_slots(onramp, ["1", "2", "3"])
    with contextlib.ExitStack() as stack:
        victims = [[stack.enter_context(raw.connect(onramp)) for _ in range(3)] for onramp in three]
        for victim in sum(victims, []):
            sleep(victim)
            until_sleeping(own_admin, victim)
        joins = []
        for here, onramp in enumerate(three):
            for there in range(3):
                killer = stack.enter_context(raw.connect(onramp))
                joins.append(in_background(kill_by_statement, killer, victims[there][here].id))
        answers = [join() for join in joins]
        assert all(isinstance(answer, Ok) for answer in answers), answers
        for victim in sum(victims, []):
            with contextlib.suppress(raw.Closed):
                victim.result()
            assert victim.at_end()


def test_a_pause_holds_no_kill_up(own_admin, both):
    one, two = both
    with raw.connect(one) as killer, raw.connect(two) as runs, raw.connect(two) as waits:
        sleep(runs)
        until_sleeping(own_admin, runs)
        for onramp in both:
            with onramp.admin() as admin:
                assert isinstance(admin.query("PAUSE"), Ok)
        waits.command(raw.QUERY, b"SELECT 1")
        until(lambda: state(two, waits) == b"queued", "it does not wait")
        assert isinstance(cancel_by_statement(killer, waits.id), Ok)
        assert waits.result().code == 1317
        assert isinstance(kill_by_statement(killer, runs.id), Ok)
        with contextlib.suppress(raw.Closed):
            runs.result()
        assert runs.at_end()
        for onramp in both:
            with onramp.admin() as admin:
                assert isinstance(admin.query("RESUME"), Ok)


def test_a_kill_is_not_lost_for_a_crowd_of_somebody_elses(both):
    """A user kills what there is not, by hundreds of clients at once and again and again."""
    one, two = both
    ends, answers = threading.Event(), []

    def flood():
        with raw.connect(one, "other", "other-secret") as client:
            while not ends.is_set():
                answers.append(client.query(f"KILL {FIRST + OF_SLOT + 7}"))

    joins = [in_background(flood) for _ in range(100)]
    try:
        until(lambda: len(answers) > 100, "it does not begin")
        with raw.connect(one) as killer:
            for _ in range(5):
                with raw.connect(two) as victim:
                    answer = kill_by_statement(killer, victim.id)
                    assert isinstance(answer, Ok), answer
                    assert victim.at_end()
    finally:
        ends.set()
        for join in joins:
            join()
    assert {answer.code for answer in answers} <= {1094, 1105}


def test_hundreds_are_cancelled_at_once(own_admin, start):
    """As an application does whose statements all take too long."""
    options = {"permits": 400, "max_backends": 0}
    assert isinstance(own_admin.query("SET GLOBAL max_connections = 900"), Ok)
    one, two = start(workers=2, **options), start(workers=2, **options)
    until_slots(one, ["1", "2"])
    until_slots(two, ["1", "2"])
    with contextlib.ExitStack() as stack:
        victims = [stack.enter_context(raw.connect(two)) for _ in range(200)]
        killers = [stack.enter_context(raw.connect(one)) for _ in victims]
        for victim in victims:
            # No read: within the first second those that share a backend are taken for short.
            victim.command(raw.QUERY, b"DO SLEEP(10000)")
        running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'DO SLEEP(10000)%'"
        until(lambda: own_admin.value(running) == b"200", "not all of them run")
        began = time.monotonic()
        for killer, victim in zip(killers, victims):
            killer.command(raw.QUERY, f"KILL QUERY {victim.id}".encode())
        answers = [killer.result() for killer in killers]
        print(f"{len(answers)} KILLs took {time.monotonic() - began:.2f} s")
        others = [answer for answer in answers if not isinstance(answer, Ok)]
        assert all(answer.code == 1105 and "has not answered within" in answer.message for answer in others), others
        # On a machine that has much else to do some take too long, not all: who hears that says it again.
        assert len(others) < len(answers)
        for killer, victim, answer in zip(killers, victims, answers):
            if not isinstance(answer, Ok):
                until(lambda: isinstance(cancel_by_statement(killer, victim.id), Ok), "it is not cancelled")
        for victim in victims:
            victim.result()
            assert victim.value("SELECT 2") == b"2"


def until_logged(own_admin, words):
    """What the server has been asked, by its general log."""
    found = lambda: [row[0].decode() for row in own_admin.query(
        f"SELECT argument FROM mysql.general_log WHERE command_type = 'Query' AND argument LIKE '{words}%'").rows]
    return until(found, "it was not asked")


def test_names_that_somebody_has_seen_forge_nothing(own_server, own_admin, both):
    """An account that sees the names of a letter's locks takes them all as soon as they are free."""
    one, two = both
    for text in ("SET GLOBAL log_output = 'TABLE'", "TRUNCATE TABLE mysql.general_log", "SET GLOBAL general_log = 1"):
        assert isinstance(own_admin.query(text), Ok)
    try:
        with raw.connect(own_server) as hostile, raw.connect(two) as victim, raw.connect(one) as killer:
            assert isinstance(cancel_by_statement(killer, victim.id), Ok)
            posted = until_logged(own_admin, "SELECT IF(CONCAT(GET_LOCK(''onramp.letter.")[0]
            names = posted.split("'")[1::2]
            name = names[0].rpartition(".")[0]
            assert len(name) == len("onramp.letter.") + 32 and str(victim.id) not in posted
            for name in [name, *(f"{name}.{bit}" for bit in range(296))]:
                assert until(lambda: hostile.value(f"SELECT GET_LOCK('{name}', 0)") == b"1", "it stays taken")
            answer = kill_by_statement(killer, victim.id)
            assert isinstance(answer, Err) and answer.code == 1105 and "onramp.letter" in answer.message, answer
            # Both look for letters a few times.
            until(lambda: len(until_logged(own_admin, "SELECT IS_USED_LOCK(''onramp.slot.1")) > 10, "nobody looks")
            assert victim.value("SELECT 1") == b"1"
            hostile.close()
            until(lambda: isinstance(kill_by_statement(killer, victim.id), Ok), "the locks stay")
            assert victim.at_end()
    finally:
        own_admin.query("SET GLOBAL general_log = 0")


def test_names_of_locks_that_anybody_can_guess_are_in_nobodys_way(own_server, both):
    one, two = both
    of_two = dict(peers(one, "slot, connection_id"))["2"]
    with raw.connect(own_server) as hostile, raw.connect(two) as victim, raw.connect(one) as killer:
        for name in [f"onramp.letter.{of_two}.1", *(f"onramp.letter.{of_two}.1.{bit}" for bit in range(300))]:
            assert hostile.value(f"SELECT GET_LOCK('{name}', 0)") == b"1"
        assert isinstance(kill_by_statement(killer, victim.id), Ok)
        assert victim.at_end()


def test_a_killer_whose_service_account_is_cut_off_hears_so(own_admin, both):
    one, two = both
    with raw.connect(two) as victim, raw.connect(one) as killer:
        stop_process(two.process.pid)
        try:
            killer.command(raw.QUERY, f"KILL {victim.id}".encode())
            until(is_killing(one, killer), "it does not wait")
            own_admin.query(f"KILL {dict(peers(one, 'slot, connection_id'))['1']}")
            answer = killer.result()
            assert isinstance(answer, Err) and answer.code == 1105, answer
        finally:
            two.process.send_signal(signal.SIGCONT)
        assert victim.value("SELECT 1") == b"1"
        until_slots(one, ["1", "2"])
        until(lambda: isinstance(kill_by_statement(killer, victim.id), Ok), "they do not find together again")
        assert victim.at_end()


def test_a_sender_that_hangs_takes_nobody_else_along(own_admin, both):
    """Its letter is carried out, and its recipient goes on."""
    one, two = both
    with raw.connect(two) as victim, raw.connect(one) as killer, raw.connect(one) as there, raw.connect(two) as back:
        # It hangs as soon as its letter is there.
        stop_process(two.process.pid)
        killer.command(raw.QUERY, f"KILL {victim.id}".encode())
        until(is_killing(one, killer), "it does not wait")
        two_of = dict(peers(one, "slot, connection_id"))
        posted = lambda: own_admin.value(
            f"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {two_of['1']} AND COMMAND = 'Sleep'") == b"1"
        until(posted, "it is not sent")
        stop_process(one.process.pid)
        two.process.send_signal(signal.SIGCONT)
        try:
            answer = back.query(f"KILL {there.id}")
            assert isinstance(answer, Err) and answer.code == 1105, answer
        finally:
            one.process.send_signal(signal.SIGCONT)
        answer = killer.result()
        assert isinstance(answer, (Ok, Err)), answer
        assert isinstance(back.query(f"KILL QUERY {there.id}"), Ok)
        assert there.value("SELECT 1") == b"1", "what was not read in time is never done"


def test_the_admin_port_kills_clients_of_others(own_admin, both):
    one, two = both
    with one.admin() as admin:
        with raw.connect(two) as victim:
            sleep(victim)
            until_sleeping(own_admin, victim)
            assert isinstance(admin.query(f"KILL QUERY {victim.id}"), Ok)
            victim.result()
            assert victim.value("SELECT 1") == b"1"
            sleep(victim)
            until_sleeping(own_admin, victim)
            assert isinstance(admin.query(f"KILL {victim.id}"), Ok)
            with contextlib.suppress(raw.Closed):
                victim.result()
            assert victim.at_end()
        for id in (FIRST + OF_SLOT + 60000, FIRST + 60000, FIRST + 9 * OF_SLOT, FIRST + 17 * OF_SLOT):
            answer = admin.query(f"KILL {id}")
            assert isinstance(answer, Err) and answer.code == 1094, (id, answer)
        with raw.connect(two, *ADMIN) as victim:
            stop_process(two.process.pid)
            try:
                answer = admin.query(f"KILL {victim.id}")
                assert isinstance(answer, Err) and answer.code == 1105 and "slot 2" in answer.message, answer
            finally:
                two.process.send_signal(signal.SIGCONT)
            assert victim.value("SELECT 1") == b"1"
            assert isinstance(admin.query(f"KILL {victim.id}"), Ok)
            assert victim.at_end()
