"""Identical reads that wait together are answered by one execution, and no client can tell."""

import pytest

from harness import raw
from harness.raw import Err, Rows
from harness.server import ADMIN
from harness.waiting import PATIENCE, until

CLIENTS = 12


class Crowd:
    """Clients behind a gate: one statement runs at a time, and the one that runs waits for a lock that `admin` holds."""

    def __init__(self, onramp, admin):
        self.admin = admin
        self.clients = [raw.connect(onramp, "app", "app-secret", schema="onramp_app") for _ in range(CLIENTS)]
        self.blocker = raw.connect(onramp, "app", "app-secret", schema="onramp_app")
        self.killer = raw.connect(onramp, "app", "app-secret", schema="onramp_app")

    def wait_with(self, text):
        """All have sent the text, and it waits."""
        self.admin.query("SELECT GET_LOCK('gate', 10)")
        # For longer than anybody waits for what has to happen before.
        self.blocker.command(raw.QUERY, f"SELECT GET_LOCK('gate', {2 * PATIENCE})".encode())
        # It runs before the others have sent anything.
        waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"
        until(lambda: int(self.admin.value(waits)), "nobody waits at the gate")
        for client in self.clients:
            client.command(raw.QUERY, text.encode())
        # Answered in a turn after the one in which all of that was read.
        for _ in range(3):
            self.killer.ping()

    def go_on(self, clients=None):
        """The gate opens; what the clients are answered."""
        self.admin.query("SELECT RELEASE_LOCK('gate')")
        self.blocker.result()
        self.blocker.reset()
        return [client.result() for client in clients or self.clients]

    def executions(self, text):
        """How often the server has run it."""
        text = text.replace("'", "''")
        # What is missing of the session state stands ahead of it in the same text.
        return int(self.admin.value(f"SELECT COUNT(*) FROM mysql.general_log WHERE RIGHT(argument, CHAR_LENGTH('{text}')) = '{text}'"))

    def close(self):
        for connection in [*self.clients, self.blocker, self.killer]:
            connection.close()


@pytest.fixture
def crowd(own_server, own_onramp):
    onramp = own_onramp(own_server, permits=1, coalesce_reads="on", workers=1, max_backends=3, thread_pool_stall_limit="60s",
                        lock_wait_interval="60s")
    with raw.connect(own_server, *ADMIN) as admin:
        rows = ", ".join(f"({number}, REPEAT('x', 2000))" for number in range(100))
        for statement in ("CREATE TABLE onramp_app.popular (id INT PRIMARY KEY, v VARCHAR(2000))",
                          f"INSERT INTO onramp_app.popular VALUES {rows}",
                          "SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = ON"):
            answer = admin.query(statement)
            assert not isinstance(answer, Err), answer
        crowd = Crowd(onramp, admin)
        yield crowd
        crowd.close()


def test_one_execution_answers_all(crowd):
    text = "SELECT id FROM popular WHERE id < 3"
    crowd.wait_with(text)
    answers = crowd.go_on()
    assert all(answer == answers[0] for answer in answers)
    assert [row[0] for row in answers[0].rows] == [b"0", b"1", b"2"]
    assert crowd.executions(text) == 1
    assert [client.value("SELECT FOUND_ROWS()") for client in crowd.clients] == [b"3"] * CLIENTS


def test_a_large_reply_comes_to_each_from_its_own_execution(crowd):
    text = "SELECT id, v FROM popular"
    for _ in range(2):
        crowd.wait_with(text)
        answers = crowd.go_on()
        assert all(isinstance(answer, Rows) and len(answer.rows) == 100 for answer in answers)
    assert crowd.executions(text) == 2 * CLIENTS


@pytest.mark.parametrize("text, code", [("SELECT * FROM missing", 1146), ("SELECT CAST('x' AS INT)", 1292)])
def test_each_has_errors_and_warnings_of_its_own(crowd, text, code):
    crowd.wait_with(text)
    answers = crowd.go_on()
    assert all(answer == answers[0] for answer in answers)
    assert crowd.executions(text) == 1
    for client in crowd.clients:
        assert int(client.value("SELECT @@warning_count")) == 1
    crowd.admin.query("SET GLOBAL general_log = OFF")
    crowd.wait_with(text)
    crowd.go_on()
    warnings = [client.query("SHOW WARNINGS").rows for client in crowd.clients]
    assert all(rows == warnings[0] for rows in warnings) and warnings[0][0][1] == str(code).encode(), warnings


@pytest.mark.parametrize("text", ["SELECT UUID()", "SELECT CONNECTION_ID()", "SELECT id, NOW(6) FROM popular WHERE id = 1"])
def test_what_is_each_ones_own_runs_for_each(crowd, text):
    crowd.wait_with(text)
    answers = crowd.go_on()
    assert len({answer.rows[0] for answer in answers}) == CLIENTS


def test_kill_query_is_for_one_alone(crowd):
    text = "SELECT id FROM popular WHERE id = 7"
    crowd.wait_with(text)
    first, middle = crowd.clients[0], crowd.clients[5]
    for victim in (first, middle):
        crowd.killer.query(f"KILL QUERY {victim.id}")
        answer = victim.result()
        assert isinstance(answer, Err) and answer.code == 1317, answer
    crowd.clients[9].close()
    others = [client for number, client in enumerate(crowd.clients) if number not in (0, 5, 9)]
    assert [answer.rows for answer in crowd.go_on(others)] == [[(b"7",)]] * len(others)
    assert crowd.executions(text) == 1
    assert first.value("SELECT 1") == b"1"
    crowd.clients.pop(9)
