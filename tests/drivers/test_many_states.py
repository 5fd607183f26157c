"""Reads of one account in many session states over few backends: each runs in its own, whoever was there before and whatever becomes of that."""

import pymysql
import pytest

from harness import raw
from harness.raw import Err
from harness.server import ADMIN, free_port
from harness.waiting import until

SCHEMAS = [f"onramp_state{number}" for number in range(3)]
CHARACTER_SETS = ["utf8mb4", "latin1", "greek"]
CLIENTS = 36
ROUNDS = 20  # in the first of which the reads prove that they are harmless
PASSWORD = "admin-secret"
# One permit, so that whoever does not share a backend waits.
FEW = {"workers": 1, "max_backends": 3, "permits": 1, "shared_backends": 1, "statements_in_flight": 16}
READ = "SELECT name, CHARSET('x'), DATE_FORMAT(FROM_UNIXTIME(86400), '%H') FROM own"


@pytest.fixture
def server(own_server):
    """One without stored functions, which reads could call that are sent again."""
    return own_server


@pytest.fixture
def admin(server):
    with raw.connect(server, *ADMIN) as admin:
        for name in SCHEMAS:
            for text in (f"CREATE DATABASE {name}", f"CREATE TABLE {name}.own AS SELECT '{name}' AS name",
                         f"GRANT SELECT ON {name}.* TO app"):
                assert not isinstance(admin.query(text), Err)
        yield admin


def ask(clients):
    for client, _ in clients:
        client.command(raw.QUERY, READ.encode())


def answers(clients):
    return [answer if isinstance(answer, Err) else tuple(field.decode() for field in answer.rows[0])
            for answer in (client.result() for client, _ in clients)]


def expected(clients):
    return [state for _, state in clients]


def count(onramp, name):
    with pymysql.connect(host="127.0.0.1", port=onramp.admin_port, user="admin", password=PASSWORD) as admin, admin.cursor() as numbers:
        numbers.execute(f"SHOW STATUS LIKE '{name}'")
        return int(numbers.fetchone()[1])


# In 18 states each read brings its own along; in four, each of which nine wait in, one sets it for all.
@pytest.fixture(params=[(18, 0), (18, raw.MULTI_STATEMENTS), (4, 0)], ids=["single", "several", "together"])
def crowd(server, own_onramp, admin, request, monkeypatch):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    port = free_port()
    onramp = own_onramp(server, **FEW, admin_listen=f"127.0.0.1:{port}")
    onramp.admin_port = port
    states, capability = request.param
    clients = []
    for number in range(CLIENTS):
        state = number % states
        schema, charset, hour = SCHEMAS[state % 3], CHARACTER_SETS[state // 3 % 3], state // 9 + 1
        client = raw.connect(onramp, schema=schema, capabilities=raw.USUAL | capability)
        assert not isinstance(client.query(f"SET NAMES {charset}, time_zone = '+{hour:02}:00'"), Err)
        clients.append((client, (schema, charset, f"{hour:02}")))
    for _ in range(ROUNDS):
        ask(clients)
        assert answers(clients) == expected(clients)
    onramp.brings = states > 4
    yield onramp, clients
    for client, _ in clients:
        client.close()


def test_reads_follow_each_other_in_their_states(crowd):
    onramp, clients = crowd

    def followed():
        ask(clients)
        assert answers(clients) == expected(clients)
        return count(onramp, "Onramp_schemas_brought" if onramp.brings else "Onramp_shared_reads")

    # On a slow machine it takes longer until reads count as short.
    until(lambda: followed() > CLIENTS, "reads do not follow each other")


def test_a_schema_that_is_dropped_is_missed_by_those_in_it_alone(crowd, admin):
    _, clients = crowd
    admin.query(f"DROP DATABASE {SCHEMAS[1]}")
    for code in (1049, 1046):
        ask(clients)
        for (_, state), answer in zip(clients, answers(clients), strict=True):
            assert (answer.code if isinstance(answer, Err) else answer) == (code if state[0] == SCHEMAS[1] else state)


def test_clients_that_leave_in_the_middle_leave_no_state_behind(crowd):
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


def test_a_state_that_is_set_meanwhile_counts_from_then_on(crowd):
    _, clients = crowd
    for number in range(6):
        ask(clients[1:])
        client, (schema, charset, _) = clients[0]
        hour = f"{number + 4:02}"
        assert not isinstance(client.query(f"SET time_zone = '+{hour}:00'"), Err)
        clients[0] = (client, (schema, charset, hour))
        assert answers(clients[1:]) == expected(clients[1:])
        ask(clients)
        assert answers(clients) == expected(clients)
