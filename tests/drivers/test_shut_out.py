"""One user's slow statements do not shut others out, however they are dressed."""

import pytest

from harness import raw
from harness.server import ADMIN, OTHER
from harness.waiting import until

LONG = 300  # seconds, which nobody waits for: they are killed at the end


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("count", [85, 200])
def test_sleeping_in_transactions(server, own_onramp, count, workers):
    """They are in no lane of long statements, and more than may lend their permits."""
    onramp = own_onramp(server, workers=workers, max_backends=128)
    sleepers = [raw.connect(onramp, *OTHER) for _ in range(count)]
    with raw.connect(server, *ADMIN) as admin:
        try:
            for sleeper in sleepers:
                sleeper.query("BEGIN")
                sleeper.command(raw.QUERY, f"SELECT SLEEP({LONG})".encode())
            asleep = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'"
            until(lambda: int(admin.value(asleep)) >= 80, lambda: f"{admin.value(asleep)} sleep")
            for number in range(20):
                with raw.connect(onramp, schema="onramp_app") as client:
                    assert client.value(f"SELECT {number}") == str(number).encode()
            assert int(admin.value(asleep)) >= 80, "nobody had to wait for one of them to end"
        finally:
            for sleeper in sleepers:
                sleeper.socket.close()
            for (thread,) in admin.query("SELECT id FROM information_schema.processlist WHERE state = 'User sleep'").rows:
                admin.query(f"KILL {thread.decode()}")
