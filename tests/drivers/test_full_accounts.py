"""Accounts of which the server takes no more than a few connections at a time, as hosters have it for each customer."""

import time

import pytest

from harness import raw
from harness.raw import Err
from harness.server import ADMIN
from harness.waiting import in_background

CLIENTS = 40
SECRET = "limited-secret"
# As many logins may be under way as there are permits when the server first says that there is no room.
PERMITS = 16
# Behind that one login at a time, a second after the last refusal and two later on: and soon behind one that was let in, which is once where a worker
# has all, and 20 times a second for each backend where several have them in turn.
REFUSED_BY_ONE = 2
REFUSED_IN_TURNS = 40


def limit(server, most):
    with raw.connect(server, *ADMIN) as admin:
        answer = admin.query(f"CREATE USER limited@'%' IDENTIFIED BY '{SECRET}' WITH MAX_USER_CONNECTIONS {most}")
        assert not isinstance(answer, Err), answer


def refused(server):
    with raw.connect(server, *ADMIN) as admin:
        return int(dict(admin.query("SHOW GLOBAL STATUS LIKE 'Aborted_connects'").rows)[b"Aborted_connects"])


@pytest.mark.parametrize(("workers", "most"), [(1, 3), (4, 3), (8, 1)])
def test_more_clients_share_what_the_account_may_have(own_server, own_onramp, workers, most):
    limit(own_server, most)
    onramp = own_onramp(own_server, workers=workers)
    clients = [raw.connect(onramp, "limited", SECRET) for _ in range(CLIENTS)]
    before, begin = refused(own_server), time.monotonic()

    def run(client):
        return [client.value("SELECT SLEEP(0.01)") for _ in range(20)]

    for join in [in_background(run, client) for client in clients]:
        assert join() == [b"0"] * 20
    count, seconds = refused(own_server) - before, time.monotonic() - begin
    for client in clients:
        client.close()
    # However long it takes.
    rate = REFUSED_BY_ONE if workers == 1 else REFUSED_IN_TURNS * most
    assert count <= PERMITS * workers + rate * (seconds + 1)
    lines = [line for line in onramp.log_text().splitlines() if "takes no more backends" in line]
    assert 1 <= len(lines) <= workers, lines
    assert all("ALTER USER 'limited'@'%' WITH MAX_USER_CONNECTIONS" in line for line in lines)


def test_whoever_waits_for_what_others_hold_is_told_whose_limit_it_is(own_server, own_onramp):
    limit(own_server, 1)
    onramp = own_onramp(own_server, backend_connect_timeout="1s")
    with raw.connect(onramp, "limited", SECRET) as holder, raw.connect(onramp, "limited", SECRET) as waiting:
        assert holder.value("SELECT GET_LOCK('held', 0)") == b"1"
        answer = waiting.query("SELECT 1")
        assert (answer.code, answer.state) == (1203, "42000"), answer
        assert "'limited'@'%' (MAX_USER_CONNECTIONS)" in answer.message
        assert holder.value("SELECT RELEASE_LOCK('held')") == b"1"
        assert waiting.value("SELECT 1") == b"1"
