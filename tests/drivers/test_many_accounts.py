"""Many accounts over few backends: a place changes hands where that serves somebody, not for every statement."""

from collections import deque

import pytest

from harness import raw
from harness.server import ADMIN
from harness.waiting import until

ACCOUNTS = 24
ROUNDS = 30


@pytest.fixture
def accounts(own_server):
    with raw.connect(own_server, *ADMIN) as admin:
        for number in range(ACCOUNTS):
            admin.query(f"CREATE USER tenant{number}@'%' IDENTIFIED BY 'secret'")
        yield admin


def logins(admin):
    return int(admin.query("SHOW GLOBAL STATUS LIKE 'Connections'").rows[0][1])


def all_at_once(clients, text="SELECT CURRENT_USER()"):
    """Everybody asks, and then everybody has an answer."""
    for client in clients:
        client.command(raw.QUERY, text.encode())
    return [client.result().rows[0][0].decode() for client in clients]


def test_accounts_that_fit_keep_their_backends(own_onramp, own_server, accounts):
    onramp = own_onramp(own_server, workers=1, max_backends=ACCOUNTS + 8)
    clients = [raw.connect(onramp, f"tenant{number % ACCOUNTS}", "secret") for number in range(3 * ACCOUNTS)]
    expected = [f"tenant{number % ACCOUNTS}@%" for number in range(3 * ACCOUNTS)]
    assert all_at_once(clients) == expected
    before = logins(accounts)
    for _ in range(ROUNDS):
        assert all_at_once(clients) == expected
    # 2,160 statements; where each took a place from somebody who needs it again, there were more logins than statements.
    assert logins(accounts) - before < len(clients) * ROUNDS / 10
    for client in clients:
        client.close()


def test_accounts_that_do_not_fit_are_all_served(own_onramp, own_server, accounts):
    onramp = own_onramp(own_server, workers=1, max_backends=ACCOUNTS // 4)
    clients = [raw.connect(onramp, f"tenant{number % ACCOUNTS}", "secret") for number in range(2 * ACCOUNTS)]
    expected = deque(f"tenant{number % ACCOUNTS}@%" for number in range(2 * ACCOUNTS))
    for _ in range(5):
        assert all_at_once(clients) == list(expected)
        # Another order, so that nobody is always the last.
        clients.append(clients.pop(0))
        expected.rotate(-1)
    for client in clients:
        client.close()


def test_one_account_that_holds_nothing_does_not_keep_another_out(own_onramp, own_server, accounts):
    """All places are one account's, and it goes on asking; another one comes."""
    onramp = own_onramp(own_server, workers=1, max_backends=4, permits=4)
    many = [raw.connect(onramp, "tenant0", "secret") for _ in range(40)]
    assert set(all_at_once(many)) == {"tenant0@%"}
    for client in many:
        client.command(raw.QUERY, b"SELECT SLEEP(0.01)")
    with raw.connect(onramp, "tenant1", "secret") as other:
        other.command(raw.QUERY, b"SELECT CURRENT_USER()")

        def go_on():
            for client in many:
                client.result()
                client.command(raw.QUERY, b"SELECT SLEEP(0.01)")
            return other.has_answer()

        until(go_on, "the other one has no turn", pause=0)
        assert other.result().rows[0][0] == b"tenant1@%"
    for client in many:
        client.close()
