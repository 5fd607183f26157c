"""The admin port with the client libraries that people have: what they send of their own accord is understood."""

import socket
import ssl
import threading

import mysql.connector
import pymysql
import pytest

from conftest import connect_pymysql
from harness import raw
from harness.server import free_port
from harness.waiting import PATIENCE, until

PASSWORD = "admin-secret"


@pytest.fixture
def through(own_server, own_onramp, monkeypatch):
    """An Onramp of the test's own, with an admin port."""
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    port = free_port()
    onramp = own_onramp(own_server, admin_listen=f"127.0.0.1:{port}", permits=2, workers=2)
    onramp.admin_port = port
    return onramp


def connect(onramp, **options):
    options.setdefault("password", PASSWORD)
    return pymysql.connect(host="127.0.0.1", port=onramp.admin_port, user="admin", **options)


def rows(connection, statement, arguments=None):
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return list(cursor.fetchall())


def wait_for(connection, statement, arguments=None):
    """The rows of a statement, as soon as there are any."""
    return until(lambda: rows(connection, statement, arguments), f"{statement}: no rows")


class Client(threading.Thread):
    """A client of Onramp that runs one statement."""

    def __init__(self, onramp, statement, connection=None):
        super().__init__(daemon=True)
        self.statement, self.outcome = statement, None
        self.connection = connection or connect_pymysql(onramp)
        self.start()

    def run(self):
        try:
            self.outcome = rows(self.connection, self.statement)
        except pymysql.err.MySQLError as error:
            self.outcome = error

    def join(self, timeout=PATIENCE):
        super().join(timeout)
        assert not self.is_alive(), f"{self.statement} does not end"
        return self.outcome


def test_values_have_types(through):
    with connect(through, database="onramp") as admin:
        [row] = rows(admin, "SELECT * FROM limits WHERE `option` = %s", ("permits",))
        assert row == ("permits", "statements that execute", "permits", "process", 0, 2, 0)
        [row] = rows(admin, "SELECT 1 AS a, 1.5 AS b, 'it''s' AS c, NULL AS d, AVG(bound) IS NOT NULL FROM limits")
        assert row == (1, 1.5, "it's", None, 1)
        assert rows(admin, "SELECT DATABASE(), CONNECTION_ID() > 0") == [("onramp", 1)]
        assert rows(admin, "SELECT worker FROM workers ORDER BY worker") == [(0,), (1,)]
        assert rows(admin, r"SELECT %s", ("a\\b'c\"d\n",)) == [("a\\b'c\"d\n",)]


def test_transactions_and_settings_of_libraries_are_taken(through):
    with connect(through, autocommit=False) as admin:
        admin.begin()
        assert rows(admin, "SELECT @@autocommit, @@session.sql_mode, @@max_allowed_packet")[0][0] == "1"
        admin.commit()
        admin.rollback()
        admin.select_db("information_schema")
        admin.ping(reconnect=False)
        for statement in ("SET NAMES utf8mb4", "SET SESSION wait_timeout = 5, autocommit = 1", "SET @x = 1"):
            rows(admin, statement)
        for statement, code in (("SELECT * FROM nothing_here", 1146), ("SELECT 1; SELECT 2", 1064), ("", 1065),
                                ("USE mysql", 1049), ("INSERT INTO clients VALUES (1)", 1064)):
            with pytest.raises(pymysql.err.MySQLError) as error:
                rows(admin, statement)
            assert error.value.args[0] == code, statement
        assert rows(admin, "SHOW WARNINGS")[0][:2] == ("Error", 1064)
        assert rows(admin, "SELECT 1") == [(1,)], "the connection goes on after errors"


def test_connector_python(through):
    admin = mysql.connector.connect(
        host="127.0.0.1", port=through.admin_port, user="admin", password=PASSWORD, use_pure=True, ssl_disabled=True)
    cursor = admin.cursor(dictionary=True)
    cursor.execute("SELECT worker, paused FROM workers WHERE worker = %s", (1,))
    assert cursor.fetchall() == [{"worker": 1, "paused": 0}]
    cursor.execute("SHOW DATABASES")
    assert {"Database": "onramp"} in cursor.fetchall()
    cursor.execute("SHOW COLUMNS FROM clients LIKE 'id'")
    assert cursor.fetchall()[0]["Type"] == "bigint"
    with pytest.raises(mysql.connector.Error) as error:
        admin.cursor(prepared=True).execute("SELECT ?", (1,))
    assert error.value.errno == 1295
    cursor.execute("SELECT 'still here' AS x")
    assert cursor.fetchall() == [{"x": "still here"}]
    admin.close()


def test_kill_by_the_ids_of_the_process_list(through):
    with connect(through) as admin:
        client = Client(through, "SELECT SLEEP(10000)")
        [(id, state)] = wait_for(admin, "SELECT ID, STATE FROM information_schema.PROCESSLIST WHERE STATE = 'running'")
        assert id == client.connection.thread_id()
        rows(admin, f"KILL QUERY {id}")
        outcome = client.join()
        assert outcome == [(1,)] or outcome.args[0] == 1317, outcome
        assert rows(client.connection, "SELECT 'goes on'") == [("goes on",)]
        admin.kill(id)  # COM_PROCESS_KILL, or KILL
        with pytest.raises(pymysql.err.MySQLError):
            rows(client.connection, "SELECT 1")
        with pytest.raises(pymysql.err.MySQLError) as error:
            rows(admin, f"KILL {id}")
        assert error.value.args[0] == 1094


def test_one_resume_ends_a_pause_however_often_it_was_ordered(through):
    with connect(through) as admin, connect(through) as another:
        # A login that names a schema would wait too.
        connection = connect_pymysql(through)
        rows(admin, "PAUSE")
        rows(another, "PAUSE")
        client = Client(through, "SELECT 7", connection)
        wait_for(admin, "SELECT 1 FROM clients WHERE state = 'queued'")
        rows(admin, "RESUME")
        assert client.join() == [(7,)]
        assert rows(admin, "SELECT DISTINCT paused FROM workers") == [(0,)]


def test_a_full_house_is_seen_from_the_admin_port(through):
    """Every permit is taken; clients wait; the admin port answers, and makes room by one more permit."""
    with connect(through) as admin:
        rows(admin, "SET GLOBAL thread_pool_stall_limit = 600000")
        # The library's own first statement would wait too.
        spare = connect_pymysql(through)
        sleepers = [Client(through, "SELECT SLEEP(10000)") for _ in range(2)]
        wait_for(admin, "SELECT 1 FROM limits WHERE `option` = 'permits' AND in_use = bound")
        waiting = Client(through, "SELECT 'done'", spare)
        [(id, _)] = wait_for(admin, "SELECT client, queued_us FROM queues")
        assert id == waiting.connection.thread_id()
        rows(admin, "SET GLOBAL permits = 3")
        assert waiting.join() == [("done",)]
        for (id,) in rows(admin, "SELECT id FROM clients WHERE state = 'running'"):
            rows(admin, f"KILL {id}")
        for sleeper in sleepers:
            sleeper.join()


def test_malformed_packets_end_the_connection_and_nothing_else(through):
    with connect(through) as admin:
        for bytes in (b"\xff\xff\xff\x00" * 3, b"\x00\x00\x00\x00", b"\x05\x00\x00\x05hello", b"\x01\x00\x00\x01\xff"):
            with raw.socket.create_connection(("127.0.0.1", through.admin_port), timeout=PATIENCE) as socket:
                assert socket.recv(4096)[4:5] == b"\x0a"
                socket.sendall(bytes)
                socket.shutdown(raw.socket.SHUT_WR)
                while socket.recv(4096):
                    pass
        assert rows(admin, "SELECT 1") == [(1,)]
    assert through.process.poll() is None


def test_whose_row_lock_a_statement_waits_for(through):
    holder, *others = [raw.connect(through, "app", "app-secret", schema="onramp_app") for _ in range(9)]
    holder.query("CREATE TABLE one_row (id INT PRIMARY KEY, n INT) ENGINE=InnoDB")
    holder.query("INSERT INTO one_row VALUES (1, 0)")
    holder.query("BEGIN")
    holder.query("UPDATE one_row SET n = 1")
    for other in others:
        other.command(raw.QUERY, b"UPDATE one_row SET n = n + 1")
    with connect(through) as admin:
        # With two workers the one that waits may have heard of the lock before it hears whose it is.
        seen = wait_for(admin, "SELECT waits_for_client, state FROM clients WHERE waits_for_client IS NOT NULL")
        assert set(seen) == {(holder.id, "running")}
        threads = rows(admin, "SELECT wait_type, marked_stalled, state FROM tp_thread_state WHERE wait_type IS NOT NULL")
        assert set(threads) == {("THD_WAIT_ROW_LOCK", 1, "PROCESSING_QUEUED")}
        holder.query("COMMIT")
        for other in others:
            other.result()
        [(client, waits)] = rows(admin, "SELECT client, waits FROM blockers WHERE client = %s", (holder.id,))
        assert client == holder.id and waits >= 1
        assert rows(admin, "SELECT count FROM waits WHERE reason = 'row_lock'")[0][0] >= waits
    for connection in (holder, *others):
        connection.close()


def test_every_bound_is_there_with_how_near_it_is(through):
    with connect(through) as admin, connect(through):
        limits = {option: (in_use, bound) for option, in_use, bound in rows(admin, "SELECT option, in_use, bound FROM limits")}
    assert limits["admin_max_connections"][0] == 2
    assert limits["permits"] == (0, 2) and limits["shared_backends"] == (0, 4) and limits["statements_in_flight"] == (0, 16)


def test_priorities_of_all_clients_can_be_set(through):
    with connect(through) as admin, connect_pymysql(through) as client:
        rows(admin, "SET GLOBAL thread_pool_priority = 'low'")
        assert rows(client, "SELECT @@thread_pool_priority, @@thread_pool_high_priority_connection") == [("low", 0)]
        rows(client, "SET SESSION thread_pool_priority = 'high'")
        rows(admin, "SET GLOBAL thread_pool_high_priority_connection = 'on'")
        assert rows(client, "SELECT @@thread_pool_priority, @@thread_pool_high_priority_connection") == [("high", 1)]


def test_tls(own_server, own_onramp, authority, monkeypatch):
    """As with clients: the certificate of tls_certificate, offered or required, and large results cross it whole."""
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    certificate, key = authority.sign("localhost")
    port, strict = free_port(), free_port()
    onramp = own_onramp(own_server, admin_listen=[f"127.0.0.1:{port}", f"127.0.0.1:{strict}?tls=required"],
                        tls_certificate=certificate, tls_key=key)
    context = ssl.create_default_context(cafile=str(authority.path))
    context.check_hostname = False
    for onramp.admin_port in (port, strict):
        with connect(onramp, ssl=context) as connection:
            assert rows(connection, "SELECT 1") == [(1,)]
            value = "printf('%.*c', 60000, 'x')"
            assert rows(connection, f"SELECT {', '.join([value] * 5)}") == [("x" * 60_000,) * 5]
            assert rows(connection, "SELECT 2") == [(2,)]
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            connect(onramp, ssl=context, password="wrong")
    with pytest.raises(pymysql.err.OperationalError, match="3159"):
        connect(onramp, ssl_disabled=True)
    onramp.admin_port = port
    with connect(onramp, ssl_disabled=True) as connection:
        assert rows(connection, "SELECT 3") == [(3,)]


def test_no_tls(own_server, own_onramp, monkeypatch):
    """Where clients are offered none, the admin port offers none."""
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    port = free_port()
    onramp = own_onramp(own_server, admin_listen=f"127.0.0.1:{port}", tls="off")
    onramp.admin_port = port
    with connect(onramp) as connection:
        assert rows(connection, "SELECT 1") == [(1,)]
    context = ssl.create_default_context()
    with pytest.raises(pymysql.err.OperationalError):
        connect(onramp, ssl=context)


def test_those_who_have_not_logged_in_hold_no_places(own_server, own_onramp, monkeypatch):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    port = free_port()
    onramp = own_onramp(own_server, admin_listen=f"127.0.0.1:{port}", admin_max_connections=1)
    onramp.admin_port = port
    silent = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(100)]
    with connect(onramp) as admin:
        assert rows(admin, "SELECT 1") == [(1,)]
        # Who knows the password finds the places of others like her taken.
        with pytest.raises(pymysql.err.OperationalError) as full:
            connect(onramp)
        assert full.value.args[0] == 1040 and "admin_max_connections = 1" in full.value.args[1]
        # The oldest of the others have given way: they are told nothing more.
        for one in silent[:80]:
            while one.recv(4096):
                pass
        assert rows(admin, "SELECT 2") == [(2,)]
    for one in silent:
        one.close()
    onramp.says("for each further one the oldest is closed")


def test_what_kinds_of_statements_are_taken_for(own_server, own_onramp, monkeypatch):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    port = free_port()
    onramp = own_onramp(own_server, admin_listen=f"127.0.0.1:{port}", workers=1, long_statement_time="1s")
    onramp.admin_port = port
    with connect(onramp) as admin, connect_pymysql(onramp) as client:
        def is_taken_for(text, word):
            found = rows(admin, "SELECT taken_for FROM statements WHERE text = %s", (text,))
            return word in ((found and found[0][0]) or "").split(",")

        until(lambda: rows(client, "SELECT 1 + 2") and is_taken_for("select ? + ?", "short"), "it is never short")
        until(lambda: rows(client, "SELECT SLEEP(1.1)") and is_taken_for("select sleep (?)", "long"), "it is never long")
        assert not is_taken_for("select ? + ?", "long") and not is_taken_for("select sleep (?)", "short")
