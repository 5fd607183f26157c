"""The thread pool's variables, which clients set for themselves and no server is asked about."""

import pytest

from harness import raw
from harness.raw import Err, Ok

NAMES = ("thread_pool_high_prio_mode", "thread_pool_high_prio_tickets", "thread_pool_priority", "thread_pool_high_priority_connection")
DEFAULTS = ["transactions", "4294967295", "auto", "0"]


@pytest.fixture
def client(onramp):
    with raw.connect(onramp, "app", "app-secret", schema="onramp_app") as connection:
        yield connection


def values(connection):
    return [value.decode() for value in connection.query("SELECT " + ", ".join(f"@@{name}" for name in NAMES)).rows[0]]


def test_values_are_the_clients_own(client, onramp):
    assert values(client) == DEFAULTS
    for text in ("SET thread_pool_high_prio_mode = none", "SET @@session.thread_pool_high_prio_tickets = 7, SESSION thread_pool_priority = 'HIGH'",
                 "SET @@thread_pool_high_priority_connection := ON"):
        assert isinstance(client.query(text), Ok), text
    assert values(client) == ["none", "7", "high", "1"]
    with raw.connect(onramp, "app", "app-secret") as other:
        assert values(other) == DEFAULTS
    assert isinstance(client.query("SET thread_pool_high_prio_tickets = DEFAULT"), Ok)
    assert values(client) == ["none", "4294967295", "high", "1"]
    client.reset()
    assert values(client) == DEFAULTS
    client.query("SET thread_pool_priority = low")
    client.change_user("app", "app-secret", schema="onramp_app")
    assert values(client) == DEFAULTS


def test_columns_keep_their_names(client):
    answer = client.query("SELECT @@thread_pool_priority, @@session.thread_pool_high_prio_mode AS mode")
    assert [column.name for column in answer.columns] == ["@@thread_pool_priority", "mode"]


def test_others_in_the_same_statement_go_to_the_server(client):
    assert isinstance(client.query("SET time_zone='+03:00', thread_pool_priority=low, sql_mode='ANSI'"), Ok)
    assert client.query("SELECT @@time_zone, @@thread_pool_priority").rows == [(b"+03:00", b"low")]
    answer = client.query("SET thread_pool_priority=high, time_zone='nowhere'")
    assert isinstance(answer, Err) and answer.code == 1298, answer
    assert client.query("SELECT @@thread_pool_priority").rows == [(b"low",)], "all or nothing"


@pytest.mark.parametrize("text, code, state", [
    ("SET thread_pool_high_prio_mode = sometimes", 1231, "42000"),
    ("SET thread_pool_high_prio_tickets = -1", 1231, "42000"),
    ("SET thread_pool_priority = low, thread_pool_high_priority_connection = 2", 1231, "42000"),
    ("SET GLOBAL thread_pool_size = 4", 1227, "42000"),
    ("SET @@global.thread_pool_priority = high", 1227, "42000"),
    ("SET thread_pool_priority = (SELECT 'high')", 1235, "42000"),
    ("SET GLOBAL max_connections = 5, SESSION thread_pool_priority = high", 1235, "42000"),
])
def test_what_is_refused(client, text, code, state):
    answer = client.query(text)
    assert isinstance(answer, Err) and (answer.code, answer.state) == (code, state), answer
    assert values(client) == DEFAULTS, "nothing of it was done"
    assert int(client.value("SELECT @@error_count")) == 1


def test_prepared_statements_are_sent_as_text_instead(client):
    answer = client.prepare("SET thread_pool_priority = high")
    assert isinstance(answer, Err) and answer.code == 1295, answer
