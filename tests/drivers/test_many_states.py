"""Reads of one account in many session states over few backends: each runs in its own, whoever was there before and whatever becomes of that."""

import pytest

from harness import raw
from harness.admin import count, start
from harness.crowd import CLIENTS, FEW, answers, ask, ask_often, expected, leave_in_the_middle, miss_schema, schemas
from harness.raw import Err
from harness.waiting import until

SCHEMAS = [f"onramp_state{number}" for number in range(3)]
CHARACTER_SETS = ["utf8mb4", "latin1", "greek"]
READ = b"SELECT name, CHARSET('x'), DATE_FORMAT(FROM_UNIXTIME(86400), '%H') FROM own"


@pytest.fixture
def server(own_server):
    """One without stored functions, which reads could call that are sent again."""
    return own_server


@pytest.fixture
def admin(server):
    with schemas(server, SCHEMAS) as admin:
        yield admin


# In 18 states each read brings its own along; in four, each of which nine wait in, one sets it for all.
@pytest.fixture(params=[(18, 0), (18, raw.MULTI_STATEMENTS), (4, 0)], ids=["single", "several", "together"])
def crowd(server, own_onramp, admin, request, monkeypatch):
    onramp = start(own_onramp, monkeypatch, server, **FEW)
    states, capability = request.param
    clients = []
    for number in range(CLIENTS):
        state = number % states
        schema, charset, hour = SCHEMAS[state % 3], CHARACTER_SETS[state // 3 % 3], state // 9 + 1
        client = raw.connect(onramp, schema=schema, capabilities=raw.USUAL | capability)
        assert not isinstance(client.query(f"SET NAMES {charset}, time_zone = '+{hour:02}:00'"), Err)
        clients.append((client, (schema, charset, f"{hour:02}")))
    ask_often(clients, READ)
    onramp.follow = "schemas_brought" if states > 4 else "shared_reads"
    yield onramp, clients
    for client, _ in clients:
        client.close()


def test_reads_follow_each_other_in_their_states(crowd):
    onramp, clients = crowd

    def followed():
        ask(clients, READ)
        assert answers(clients) == expected(clients)
        return count(onramp, onramp.follow)

    # On a slow machine it takes longer until reads count as short.
    until(lambda: followed() > CLIENTS, "reads do not follow each other")


def test_a_schema_that_is_dropped_is_missed_by_those_in_it_alone(crowd, admin):
    _, clients = crowd
    admin.query(f"DROP DATABASE {SCHEMAS[1]}")
    miss_schema(clients, READ, lambda row: row[0] == SCHEMAS[1])


def test_clients_that_leave_in_the_middle_leave_no_state_behind(crowd):
    _, clients = crowd
    leave_in_the_middle(clients, READ)


def test_a_state_that_is_set_meanwhile_counts_from_then_on(crowd):
    _, clients = crowd
    for number in range(6):
        ask(clients[1:], READ)
        client, (schema, charset, _) = clients[0]
        hour = f"{number + 4:02}"
        assert not isinstance(client.query(f"SET time_zone = '+{hour}:00'"), Err)
        clients[0] = (client, (schema, charset, hour))
        assert answers(clients[1:]) == expected(clients[1:])
        ask(clients, READ)
        assert answers(clients) == expected(clients)
