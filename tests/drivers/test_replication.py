"""Replicas, and programs that read the binary log as if they were one."""

import struct
import subprocess
import threading

import pytest

from harness import raw
from harness.onramp import Onramp
from harness.relay import Relay
from harness.replica import (
    BINLOG_DUMP, BINLOG_DUMP_GTID, REGISTER_REPLICA, contents, dump_body, events, replica, whole_log)
from harness.server import ADMIN, Server, find
from harness.waiting import PATIENCE, until


@pytest.fixture(scope="module")
def server(folder, template):
    """A server that writes a binary log."""
    server = Server(folder, template=template).start("--log-bin=log", "--server-id=1", "--binlog-format=ROW")
    yield server
    server.discard()


@pytest.fixture(scope="module")
def onramp(folder, server):
    onramp = Onramp(server, folder, max_backends=4, permits=1).start()
    yield onramp
    assert onramp.stop() == 0


@pytest.fixture
def log(admin, schema):
    """A new log, with something in it."""
    for statement in ("RESET MASTER", f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v LONGTEXT)",
                      f"INSERT INTO {schema}.t VALUES (1, 'one'), (2, REPEAT('two', 1000))", f"UPDATE {schema}.t SET v = 'x'"):
        assert isinstance(admin.query(statement), raw.Ok)
    return "log.000001"


@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF])
def test_to_the_end_of_the_log(site, server, note, log, capabilities):
    for _ in range(5):
        found, end = whole_log(site, log, capabilities=capabilities)
        assert len(found) > 8
        assert (found, end) == whole_log(server, log, capabilities=capabilities)


def test_what_the_server_refuses(site, note, log):
    with replica(site) as connection:
        connection.command(BINLOG_DUMP, dump_body("log.999999"))
        note("no such file", events(connection))
        assert connection.at_end()
    with raw.connect(site) as connection:
        connection.command(BINLOG_DUMP, dump_body(log))
        note("no right to", events(connection))
        note("still there", connection.value("SELECT 1"))
    with raw.connect(site, *ADMIN) as connection:
        connection.command(BINLOG_DUMP_GTID, b"")
        note("MySQL's", connection.ok_or_error(connection.receive()))


def register_body(server_id):
    host = b"a replica"
    return struct.pack("<I", server_id) + bytes([len(host)]) + host + b"\0\0" + struct.pack("<HII", 3306, 0, 0)


def test_replicas_are_known(site, note, log, admin):
    with replica(site) as connection:
        note("registered", connection.simple(REGISTER_REPLICA, register_body(4712)))
        connection.command(BINLOG_DUMP, dump_body(log, flags=0, server_id=4712))
        event = connection.receive()
        note("the first event", event[5])
        hosts = admin.query("SHOW SLAVE HOSTS").rows
        note("hosts", [(row[0], row[1]) for row in hosts if row[0] == b"4712"])


def test_events_come_as_they_happen(site, note, log, admin):
    """More replicas than permits, and others go on meanwhile."""
    replicas = [replica(site) for _ in range(3)]
    for number, connection in enumerate(replicas):
        connection.command(BINLOG_DUMP, dump_body(log, flags=0, server_id=4720 + number))
        while connection.receive()[5] != 24:  # UPDATE_ROWS_EVENT_V1, the last but one of what is there
            pass
        assert connection.receive()[5] == 16  # XID_EVENT
    with raw.connect(site, schema="onramp_test") as other:
        for turn in range(5):
            note(f"insert {turn}", other.query(f"INSERT INTO t VALUES ({10 + turn}, 'more')"))
            for connection in replicas:
                kinds = []
                while not kinds or kinds[-1] != 16:
                    kinds.append(connection.receive()[5])
                # BINLOG_CHECKPOINT_EVENT comes when the server finds the time for it.
                note(f"events {turn}", [kind for kind in kinds if kind != 161])
    for connection in replicas:
        connection.close()


def test_large_events(site, server, log, admin):
    assert isinstance(admin.query("SET GLOBAL max_allowed_packet = 1 << 26"), raw.Ok)
    with raw.connect(site, *ADMIN) as writer:
        assert isinstance(writer.query("INSERT INTO onramp_test.t VALUES (3, REPEAT('x', 17 << 20))"), raw.Ok)
    found, end = whole_log(site, log)
    assert max(map(len, found)) > 17 << 20
    # Not in an assertion, which would print them.
    same = (found, end) == whole_log(server, log)
    assert same


def test_a_replica_that_goes_leaves_its_backend(site, log, admin):
    """The server sees it go, and others get backends: more come and go than there may be."""
    for number in range(6):
        connection = replica(site)
        connection.command(BINLOG_DUMP, dump_body(log, flags=0, server_id=4730 + number))
        connection.receive()
        connection.close()
    with raw.connect(site) as other:
        assert other.value("SELECT 1") == b"1"


def test_killed(site, note, log, admin):
    connection = replica(site)
    connection.command(BINLOG_DUMP, dump_body(log, flags=0, server_id=4740))
    while connection.receive()[5] != 24:
        pass
    connection.receive()
    with raw.connect(site, *ADMIN) as other:
        note("kill", other.query(f"KILL {connection.id}"))
    with pytest.raises((raw.Closed, AssertionError)):
        while True:
            payload = connection.receive()
            assert payload[0] != 0xFF
    connection.close()


def mariadb_binlog(site, log):
    done = subprocess.run(
        [find("mariadb-binlog"), "--no-defaults", "--read-from-remote-server", f"--host={site.host}", f"--port={site.port}",
         f"--user={ADMIN[0]}", f"--password={ADMIN[1]}", "--protocol=tcp", "--skip-ssl", "--base64-output=decode-rows", "--verbose", log],
        capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def test_mariadb_binlog(site, server, log):
    found = mariadb_binlog(site, log)
    assert found[0] == 0 and "UPDATE" in found[1], found
    # The server adds an event of its own to the log when it likes.
    until(lambda: mariadb_binlog(site, log) == mariadb_binlog(server, log), "they differ")


def test_semi_synchronous(site, note, log, admin):
    """A commit waits until the replica has acknowledged it, on the connection on which it gets the events."""
    for statement in ("SET GLOBAL rpl_semi_sync_master_timeout = 100000", "SET GLOBAL rpl_semi_sync_master_enabled = ON"):
        assert isinstance(admin.query(statement), raw.Ok)
    try:
        acknowledge(site, note, log, admin)
    finally:
        admin.query("SET GLOBAL rpl_semi_sync_master_enabled = OFF")


def acknowledge(site, note, log, admin):
    with replica(site) as connection, raw.connect(site, schema="onramp_test") as writer:
        assert isinstance(connection.query("SET @rpl_semi_sync_slave = 1"), raw.Ok)
        connection.checks_numbers = False  # the server counts anew behind each acknowledgement
        connection.command(BINLOG_DUMP, dump_body(log, flags=0, server_id=4750))
        while connection.receive()[3:][4] != 24:
            pass
        connection.receive()
        before = acknowledged(admin)
        for number in range(3):
            writer.command(raw.QUERY, f"INSERT INTO t VALUES ({10 + number}, 'acknowledged')".encode())
            payload = connection.receive()
            while not payload[2]:  # this one is not waited for
                payload = connection.receive()
            position = int.from_bytes(payload[3:][13:17], "little")
            acknowledgement = b"\xef" + struct.pack("<Q", position) + log.encode()
            connection.send_bytes(len(acknowledgement).to_bytes(3, "little") + b"\0" + acknowledgement)
            note(f"insert {number}", writer.ok_or_error(writer.receive()))
        note("acknowledged", acknowledged(admin) - before)


def acknowledged(admin):
    return int(admin.query("SHOW STATUS LIKE 'Rpl_semi_sync_master_yes_tx'").rows[0][1])


def behind(connection, body, *commands):
    """A dump, and commands in the same write: packets that each begin to count."""
    out = b""
    for payload in (bytes([BINLOG_DUMP]) + body, *commands):
        out += len(payload).to_bytes(3, "little") + b"\0" + payload
    connection.send_bytes(out)
    connection.sequence = 1


def test_commands_behind_a_refused_dump(site, note, log):
    """Each has its own answer, and is read like any other."""
    for turn in range(5):
        with raw.connect(site) as connection, raw.connect(site) as other:
            note(f"a variable {turn}", connection.query("SET @kept = 7"))
            behind(connection, dump_body(log), b"\x0e", b"\x03DO 1", b"\x03SELECT 'its own', @kept", b"\x03SET @@max_statement_time = 3")
            note(f"no right to {turn}", events(connection))
            for kind in ("ping", "do", "select", "set"):
                connection.sequence = 1
                note(f"{kind} {turn}", connection.result())
            note(f"still there {turn}", connection.query("SELECT @kept, @@max_statement_time"))
            note(f"another {turn}", other.query("SELECT 'of the other', @kept, @@max_statement_time"))


def test_commands_behind_a_log_end_with_it(site, log):
    """The servers close the connection behind the end: nobody else gets it, and there is no answer."""
    for turn in range(5):
        with replica(site) as connection, raw.connect(site) as other:
            behind(connection, dump_body(log), b"\x0e", b"\x03SELECT 'forged'")
            found, end, _ = events(connection)
            assert len(contents(found)) > 8 and end
            assert connection.at_end()
            for number in range(3):
                assert other.value(f"SELECT 'answer {turn} {number}'") == f"answer {turn} {number}".encode()


class Gate(Relay):
    """Keeps what is sent to the server, and holds back its answers while it is shut."""

    def __init__(self, server):
        self.sent, self.more, self.is_open = b"", threading.Condition(), threading.Event()
        self.is_open.set()
        super().__init__(server)

    def to_server(self, piece):
        with self.more:
            self.sent += piece
            self.more.notify_all()

    def from_server(self, piece):
        assert self.is_open.wait(PATIENCE)

    def await_sent(self, piece):
        with self.more:
            assert self.more.wait_for(lambda: piece in self.sent, PATIENCE)


def test_commands_while_a_dump_is_being_refused(server, own_onramp, log):
    """The server would read them as commands, and their answers would be for whoever comes next."""
    gate = Gate(server)
    try:
        onramp = own_onramp(gate, max_backends=2, workers=1, backend_tls="disabled")
        with raw.connect(onramp) as connection, raw.connect(onramp) as other:
            assert connection.value("SELECT 1") == other.value("SELECT 1") == b"1"
            gate.is_open.clear()
            connection.command(BINLOG_DUMP, dump_body(log))
            gate.await_sent(log.encode())
            connection.send_bytes(b"\x01\0\0\0\x0e" + b"\x10\0\0\0\x03SELECT 'forged'")
            # Behind those bytes in the worker's turn, and answered without the server.
            assert isinstance(other.ping(), raw.Ok)
            assert b"forged" not in gate.sent
            gate.is_open.set()
            assert connection.ok_or_error(connection.receive()).code == 1227
            connection.sequence = 1
            assert isinstance(connection.result(), raw.Ok)
            connection.sequence = 1
            assert connection.result().rows == [(b"forged",)]
            assert other.value("SELECT 2") == b"2"
    finally:
        gate.is_open.set()
        gate.close()
