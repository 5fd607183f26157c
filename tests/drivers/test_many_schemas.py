"""Reads of one account in many schemas over few backends: each finds its own schema, whoever was there before and whatever becomes of that."""

import pytest

from harness import raw
from harness.admin import count, start
from harness.crowd import CLIENTS, FEW, answers, ask, ask_often, expected, leave_in_the_middle, miss_schema, schemas
from harness.waiting import until

NAMES = [f"onramp_many{number}" for number in range(9)]
READ = b"SELECT name FROM own"


@pytest.fixture
def server(own_server):
    """One without stored functions, which reads could call that are sent again."""
    return own_server


@pytest.fixture
def admin(server):
    with schemas(server, NAMES) as admin:
        yield admin


@pytest.fixture(params=[0, raw.MULTI_STATEMENTS], ids=["single", "several"])
def crowd(server, own_onramp, admin, request, monkeypatch):
    onramp = start(own_onramp, monkeypatch, server, **FEW)
    clients = [(raw.connect(onramp, schema=name, capabilities=raw.USUAL | request.param), (name,))
               for name in NAMES for _ in range(CLIENTS // len(NAMES))]
    ask_often(clients, READ)
    yield onramp, clients
    for client, _ in clients:
        client.close()


def test_reads_follow_each_other_in_their_schemas(crowd):
    onramp, clients = crowd

    def brought():
        ask(clients, READ)
        assert answers(clients) == expected(clients)
        return count(onramp, "schemas_brought")

    # On a slow machine it takes longer until reads count as short.
    until(lambda: brought() > CLIENTS, "reads do not follow each other")


def test_a_schema_that_is_dropped_is_missed_by_those_in_it_alone(crowd, admin):
    _, clients = crowd
    admin.query(f"DROP DATABASE {NAMES[4]}")
    miss_schema(clients, READ, lambda row: row == (NAMES[4],))


def test_clients_that_leave_in_the_middle_leave_no_schema_behind(crowd):
    _, clients = crowd
    leave_in_the_middle(clients, READ)


def test_a_lock_in_one_schema_holds_up_nobody_elsewhere(crowd, admin):
    _, clients = crowd
    locked = [client for client in clients if client[1] == (NAMES[4],)]
    others = [client for client in clients if client[1] != (NAMES[4],)]
    for _ in range(2):
        admin.query(f"LOCK TABLES {NAMES[4]}.own WRITE")
        ask(clients, READ)
        assert answers(others) == expected(others)
        ask(others, READ)
        assert answers(others) == expected(others), "the second time it is known"
        admin.query("UNLOCK TABLES")
        assert answers(locked) == expected(locked)
