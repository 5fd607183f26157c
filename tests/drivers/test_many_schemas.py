"""Reads of one account in many schemas over few backends: each finds its own schema, whoever was there before and whatever becomes of that."""

import pymysql
import pytest

from harness import raw
from harness.raw import Err
from harness.server import ADMIN, free_port
from harness.waiting import until

SCHEMAS = 9
CLIENTS = 4 * SCHEMAS
ROUNDS = 20  # in the first of which the reads prove that they are harmless
PASSWORD = "admin-secret"
NAMES = [f"onramp_many{number}" for number in range(SCHEMAS)]
# One permit, so that whoever does not share a backend waits.
FEW = {"workers": 1, "max_backends": 3, "permits": 1, "shared_backends": 1, "statements_in_flight": 16}


@pytest.fixture
def server(own_server):
    """One without stored functions, which reads could call that are sent again."""
    return own_server


@pytest.fixture
def admin(server):
    with raw.connect(server, *ADMIN) as admin:
        for name in NAMES:
            for text in (f"CREATE DATABASE {name}", f"CREATE TABLE {name}.own AS SELECT '{name}' AS name",
                         f"GRANT SELECT ON {name}.* TO app"):
                assert not isinstance(admin.query(text), Err)
        yield admin


def ask(clients):
    for client, _ in clients:
        client.command(raw.QUERY, b"SELECT name FROM own")


def answers(clients):
    return [answer if isinstance(answer, Err) else answer.rows[0][0].decode() for answer in (client.result() for client, _ in clients)]


def expected(clients):
    return [name for _, name in clients]


@pytest.fixture(params=[0, raw.MULTI_STATEMENTS], ids=["single", "several"])
def crowd(server, own_onramp, admin, request, monkeypatch):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    port = free_port()
    onramp = own_onramp(server, **FEW, admin_listen=f"127.0.0.1:{port}")
    onramp.admin_port = port
    clients = [(raw.connect(onramp, schema=name, capabilities=raw.USUAL | request.param), name) for name in NAMES for _ in range(CLIENTS // SCHEMAS)]
    for _ in range(ROUNDS):
        ask(clients)
        assert answers(clients) == expected(clients)
    yield onramp, clients
    for client, _ in clients:
        client.close()


def test_reads_follow_each_other_in_their_schemas(crowd):
    onramp, clients = crowd
    with pymysql.connect(host="127.0.0.1", port=onramp.admin_port, user="admin", password=PASSWORD) as admin, admin.cursor() as numbers:
        def brought():
            ask(clients)
            assert answers(clients) == expected(clients)
            numbers.execute("SHOW STATUS LIKE 'Onramp_schemas_brought'")
            return int(numbers.fetchone()[1])

        # On a slow machine it takes longer until reads count as short.
        until(lambda: brought() > CLIENTS, "reads do not follow each other")


def test_a_schema_that_is_dropped_is_missed_by_those_in_it_alone(crowd, admin):
    _, clients = crowd
    admin.query(f"DROP DATABASE {NAMES[4]}")
    ask(clients)
    for (_, name), answer in zip(clients, answers(clients), strict=True):
        assert (answer.code if isinstance(answer, Err) else answer) == (1049 if name == NAMES[4] else name)
    ask(clients)
    for (_, name), answer in zip(clients, answers(clients), strict=True):
        assert (answer.code if isinstance(answer, Err) else answer) == (1046 if name == NAMES[4] else name)


def test_clients_that_leave_in_the_middle_leave_no_schema_behind(crowd):
    _, clients = crowd
    for _ in range(3):
        ask(clients)
        # Each third, so that those who leave stand behind others and before others.
        for client, _ in clients[::3]:
            client.socket.close()
        del clients[::3]
        assert answers(clients) == expected(clients)
        ask(clients)
        assert answers(clients) == expected(clients)


def test_a_lock_in_one_schema_holds_up_nobody_elsewhere(crowd, admin):
    _, clients = crowd
    locked = [client for client in clients if client[1] == NAMES[4]]
    others = [client for client in clients if client[1] != NAMES[4]]
    for _ in range(2):
        admin.query(f"LOCK TABLES {NAMES[4]}.own WRITE")
        ask(clients)
        assert answers(others) == expected(others)
        ask(others)
        assert answers(others) == expected(others), "the second time it is known"
        admin.query("UNLOCK TABLES")
        assert answers(locked) == expected(locked)
