"""Statements that wait are not work: kinds that mostly wait count for a part of a permit, and transactions that think hold backends alone."""

import threading
import time

import pytest

from harness import raw
from harness.counted import Counted
from harness.raw import Err, Ok
from harness.waiting import in_background, until

CLIENTS = 12
KIND = "select sleep (?)"
# So many that a quarter of them is never in use alone: what statements take then is judged beside what they took before.
PERMITS = 16

THINKERS = 500
THINK = 0.2
MAX_CONNECTIONS = 400


@pytest.fixture
def start(own_server, folder):
    """Starts an Onramp with these options."""
    started = []

    def one(**options):
        started.append(Counted(own_server, folder, workers=1, **options))
        return started[-1].start()

    yield one
    for onramp in started:
        onramp.stop()


class Load:
    """Clients that send the same text, one that may change, after the other."""

    def __init__(self, onramp, clients, text):
        self.text = text
        self.ended = threading.Event()
        self.joins = [in_background(self.go_on, raw.connect(onramp)) for _ in range(clients)]

    def go_on(self, client):
        with client:
            while not self.ended.is_set():
                assert not isinstance(client.query(self.text), Err)
        return True

    def end(self):
        self.ended.set()
        assert all(join() for join in self.joins)


def kind_of(admin):
    """What is said of the kind: what it counts for, in percent of a permit, and whether it is taken for one that waits."""
    rows = admin.query(f"SELECT permit_percent, taken_for FROM statements WHERE text = '{KIND}'").rows
    return (int(rows[0][0]), b"waiting" in (rows[0][1] or b"")) if rows else None


def counts_for_a_part(kind):
    if kind is None:
        return False
    percent, waits = kind
    return percent <= 75 and waits


@pytest.fixture
def load(start):
    loads = []

    def begin(text, **options):
        onramp = start(**options)
        loads.append(Load(onramp, CLIENTS, text))
        return onramp, loads[-1]

    yield begin
    for each in loads:
        each.ended.set()


def test_what_waits_counts_for_a_part_of_a_permit_until_it_takes_longer(load):
    onramp, sleepers = load("SELECT SLEEP(0.005)", permits=0, permits_min=PERMITS, permits_max=PERMITS)
    with onramp.admin() as admin:
        # A quarter on a machine that is idle.
        until(lambda: counts_for_a_part(kind_of(admin)), lambda: f"not taken for waiting: {kind_of(admin)}")
        # Another text of the same kind: as if it had begun to compute, and stood in its own way.
        sleepers.text = "SELECT SLEEP(0.1)"
        until(lambda: kind_of(admin) == (100, False), "a part is left that is not earned")
        sleepers.end()


def test_where_permits_are_given_each_statement_has_one(load):
    onramp, sleepers = load("SELECT SLEEP(0.005)", permits=PERMITS)
    with onramp.admin() as admin:
        count = f"SELECT count FROM statements WHERE text = '{KIND}'"
        # Of 64 something would be known.
        until(lambda: int((admin.query(count).rows or [[0]])[0][0]) > 500, "the statements do not run")
        assert kind_of(admin) == (100, False)
        sleepers.end()


def test_backends_follow_transactions_that_think_and_permits_do_not(own_server, own_admin, start):
    """As Python's drivers have it: autocommit off, a read, the application's own time, a COMMIT."""
    assert isinstance(own_admin.query(f"SET GLOBAL max_connections = {MAX_CONNECTIONS}"), Ok)
    own_admin.query("CREATE TABLE onramp_app.thought (id INT PRIMARY KEY)")
    own_admin.query("INSERT INTO onramp_app.thought VALUES (1)")
    onramp = start(permits=0, max_backends=0, user_backends_share=100)

    ended = threading.Event()

    def think(client):
        """How many transactions there were, and the errors."""
        errors, count = [], 0
        with client:
            answers = [client.query("SET autocommit = 0")]
            # Who begins last has a turn as well.
            while not count or not ended.is_set():
                answers.append(client.query("SELECT id FROM onramp_app.thought"))
                time.sleep(THINK)
                answers.append(client.query("COMMIT"))
                errors += [answer for answer in answers if isinstance(answer, Err)]
                answers.clear()
                count += 1
        return count, errors

    with onramp.admin() as admin:
        def limit(option):
            [[in_use, bound]] = admin.query(f"SELECT in_use, bound FROM limits WHERE option = '{option}'").rows
            return int(in_use), int(bound)

        until(lambda: limit("max_backends")[1] > MAX_CONNECTIONS // 2, "the server's limit was not seen")
        joins = [in_background(think, raw.connect(onramp)) for _ in range(THINKERS)]
        seen = []

        def all_backends_are_held():
            held = int(admin.value("SELECT COUNT(*) FROM clients WHERE in_transaction"))
            seen.append((held, limit("max_backends")[1], *limit("permits")))
            return held >= 0.9 * seen[-1][1]

        try:
            until(all_backends_are_held, lambda: f"backends do not follow: {seen[-5:]}")
        finally:
            ended.set()
        transactions = [join() for join in joins]
    print(f"at most {max(held for held, *_ in seen)} of {seen[-1][1]} backends; permits {[it[2:] for it in seen[-5:]]}")
    assert not [error for _, errors in transactions for error in errors]
    assert all(count > 0 for count, _ in transactions), "a client had no turn"
    # A transaction that thinks has no permit: what runs is far less than what is held, and so many are not needed.
    held, _, running, permits = seen[-1]
    assert running < held / 2 and permits < held, seen[-5:]
