"""One user's slow statements do not shut others out, however they are dressed."""

from contextlib import contextmanager

import pytest

from harness import raw
from harness.counted import Counted
from harness.server import ADMIN, OTHER
from harness.waiting import until

LONG = 300  # seconds, which nobody waits for: they are killed at the end
ASLEEP = "FROM information_schema.processlist WHERE state = 'User sleep'"


def fall_asleep(sleepers):
    """In transactions: so they are in no lane of long statements."""
    for sleeper in sleepers:
        sleeper.query("BEGIN")
        sleeper.command(raw.QUERY, f"SELECT SLEEP({LONG})".encode())


@contextmanager
def counting_sleepers(server, sleepers):
    """How many sleep on the server; at the end none."""
    with raw.connect(server, *ADMIN) as admin:
        try:
            yield lambda: int(admin.value(f"SELECT COUNT(*) {ASLEEP}"))
        finally:
            for sleeper in sleepers:
                sleeper.socket.close()
            for (thread,) in admin.query(f"SELECT id {ASLEEP}").rows:
                admin.query(f"KILL {thread.decode()}")


def others_are_served(onramp):
    for number in range(20):
        with raw.connect(onramp, schema="onramp_app") as client:
            assert client.value(f"SELECT {number}") == str(number).encode()


@pytest.mark.parametrize("count", [85, 200])
def test_sleeping_in_transactions(server, own_onramp, count):
    """More than may lend their permits."""
    onramp = own_onramp(server, workers=1, max_backends=128)
    sleepers = [raw.connect(onramp, *OTHER) for _ in range(count)]
    with counting_sleepers(server, sleepers) as asleep:
        fall_asleep(sleepers)
        until(lambda: asleep() >= 80, lambda: f"{asleep()} sleep")
        others_are_served(onramp)
        assert asleep() >= 80, "nobody had to wait for one of them to end"


@pytest.mark.parametrize("beside", [0, 25, 80])
def test_sleeping_on_another_worker(server, folder, beside):
    """One worker holds all permits, and lends none of itself once three quarters of its backends are in use; the other has none to lend,
    and clients of its own that want one: so many of the same user, and others."""
    onramp = Counted(server, folder, workers=2, max_backends=128).start()
    try:
        # The kernel deals them out evenly, by chance.
        sleepers = [raw.connect(onramp, *OTHER) for _ in range(240)]
        with counting_sleepers(server, sleepers) as asleep, onramp.admin() as admin:
            worker_of = dict(admin.query("SELECT id, worker FROM clients").rows)
            on = {b"0": [], b"1": []}
            for sleeper in sleepers:
                on[worker_of[sleeper.value("SELECT CONNECTION_ID()")]].append(sleeper)
            assert len(on[b"0"]) >= 60 and len(on[b"1"]) >= beside
            fall_asleep(on[b"0"][:60])
            until(lambda: asleep() >= 48, lambda: f"{asleep()} sleep")
            fall_asleep(on[b"1"][:beside])
            others_are_served(onramp)
            assert asleep() >= 48, "nobody had to wait for one of them to end"
    finally:
        onramp.stop()
