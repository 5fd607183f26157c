"""Accounts of which the server takes no more than a few connections at a time, as hosters have it for each customer."""

import pytest

from harness import raw
from harness.raw import Err
from harness.server import ADMIN
from harness.waiting import in_background

LIMIT = 3
CLIENTS = 40
SECRET = "limited-secret"


@pytest.fixture
def limited(own_server):
    with raw.connect(own_server, *ADMIN) as admin:
        answer = admin.query(f"CREATE USER limited@'%' IDENTIFIED BY '{SECRET}' WITH MAX_USER_CONNECTIONS {LIMIT}")
        assert not isinstance(answer, Err), answer
    return own_server


def refused(server):
    with raw.connect(server, *ADMIN) as admin:
        return int(dict(admin.query("SHOW GLOBAL STATUS LIKE 'Aborted_connects'").rows)[b"Aborted_connects"])


@pytest.mark.parametrize("workers", [1, 4])
def test_more_clients_share_what_the_account_may_have(limited, own_onramp, workers):
    onramp = own_onramp(limited, workers=workers)
    clients = [raw.connect(onramp, "limited", SECRET) for _ in range(CLIENTS)]
    before = refused(limited)

    def run(client):
        return [client.value("SELECT SLEEP(0.01)") for _ in range(20)]

    for join in [in_background(run, client) for client in clients]:
        assert join() == [b"0"] * 20
    for client in clients:
        client.close()
    # As many as there are permits may be under way as the server says so first, on each worker; later it is one at a time, after a second or more.
    assert refused(limited) - before <= 2 * 16 * workers
    lines = [line for line in onramp.log_text().splitlines() if "takes no more backends" in line]
    assert 1 <= len(lines) <= workers, lines
    assert all("ALTER USER 'limited'@'%' WITH MAX_USER_CONNECTIONS" in line for line in lines)
