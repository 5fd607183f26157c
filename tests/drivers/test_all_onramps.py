"""Statements about all Onramps at the admin port of one: `cluster_` tables, and what becomes of them where some of the others do not answer."""

import contextlib
import signal
import socket
import threading
from types import SimpleNamespace

import pymysql
import pytest

from harness import raw
from harness.certificates import Authority
from harness.counted import PASSWORD, Counted
from harness.onramp import Onramp
from harness.raw import Err, Ok
from harness.server import free_port
from harness.waiting import PATIENCE, in_background, stop_process, until


@pytest.fixture
def start(own_server, folder):
    """Onramps in front of one server, each of which stops at the end."""
    with contextlib.ExitStack() as stack:

        def start(also=None, **options):
            onramp = Counted(own_server, folder, **{"workers": 1, "permits": 2, "max_backends": 20, **options})
            if also:
                onramp.options["admin_listen"] = [onramp.options["admin_listen"], also]
            stack.callback(onramp.stop)
            return onramp.start()

        yield start


@pytest.fixture
def three(start):
    """All have the same list, in which each stands itself."""
    onramps = [start() for _ in range(3)]
    know(onramps, ",".join(map(name, onramps)))
    return onramps


def know(onramps, peers):
    for onramp in onramps:
        with onramp.admin() as admin:
            assert isinstance(admin.query(f"SET GLOBAL admin_peers = '{peers}'"), Ok)
            # Each knows of the others in front of the server, or a first statement would say less than a later one.
            until(lambda: admin.value("SELECT COUNT(*) FROM peers") == str(len(onramps)).encode(), "they do not know each other")


def name(onramp):
    return f"127.0.0.1:{getattr(onramp, 'admin_port', onramp)}"


def client(onramp):
    return raw.connect(onramp, schema="onramp_app")


def texts(answer):
    assert not isinstance(answer, Err), answer
    return [tuple(value if value is None else value.decode() for value in row) for row in answer.rows]


def ask(onramp, statement):
    """The rows, and the warnings."""
    with onramp.admin() as admin:
        return ask_by(admin, statement)


def ask_by(admin, statement):
    rows = texts(admin.query(statement))
    return rows, [message for _, _, message in texts(admin.query("SHOW WARNINGS"))]


def whole(onramp, statement):
    """Once nobody is too late to say something, as on a machine that has much to do."""
    def said():
        rows, warnings = ask(onramp, statement)
        late = any("within " in warning or "does not answer" in warning for warning in warnings)
        return None if late else (rows, warnings)

    rows, warnings = until(said, "some are late again and again")
    assert warnings == []
    return rows


def names_of_rows(rows):
    return sorted({row[0] for row in rows})


CLIENTS = "SELECT onramp, id FROM cluster_clients ORDER BY onramp, id"


def expected(*clients):
    """Clients with their Onramps, as `CLIENTS` orders them."""
    return [(whose, str(number)) for whose, number in sorted((name(onramp), connection.id) for onramp, connection in clients)]


def test_each_has_the_rows_of_all(three):
    one, two, third = three
    with client(one) as a, client(two) as b, client(two) as c, client(third) as d:
        for onramp in three:
            assert whole(onramp, CLIENTS) == expected((one, a), (two, b), (two, c), (third, d))
        # Its own table has what it had.
        assert whole(two, "SELECT COUNT(*) FROM clients") == [("2",)]
        counts = whole(one, "SELECT onramp, COUNT(*) AS clients FROM cluster_clients GROUP BY onramp HAVING clients > 1")
        assert counts == [(name(two), "2")]
        assert whole(one, f"SELECT id FROM onramp.CLUSTER_CLIENTS WHERE onramp = '{name(third)}'") == [(str(d.id),)]
        assert len(whole(one, CLIENTS + " LIMIT 3")) == 3
        joined = "SELECT c.id, b.state FROM cluster_clients c LEFT JOIN cluster_backends b ON b.onramp = c.onramp AND b.client = c.id"
        assert sorted(whole(one, joined)) == sorted((str(connection.id), None) for connection in (a, b, c, d))
        # SQLite does not say that it reads the columns of a USING.
        assert len(whole(one, "SELECT * FROM cluster_clients JOIN cluster_processlist USING (onramp, id)")) == 4
        assert b.query("SELECT 1") and whole(one, f"SELECT SUM(count) FROM cluster_statements WHERE onramp = '{name(two)}' AND text = 'select ?'") == [("1",)]


def test_show_processlist_of_all(three):
    one, two, _ = three
    with client(one) as a, client(two) as b:
        rows = whole(one, "SHOW FULL CLUSTER PROCESSLIST")
        assert [(row[0], row[1]) for row in rows] == expected((one, a), (two, b))
        with one.admin() as admin:
            columns = [column.name for column in admin.query("SHOW CLUSTER PROCESSLIST").columns]
            assert columns[:2] == ["Onramp", "Id"] and columns[-1] == "Info"
        assert [row[1] for row in whole(one, f"SHOW CLUSTER PROCESSLIST LIKE '%{two.admin_port}'")] == [str(b.id)]
        assert [row[0] for row in whole(one, "SHOW PROCESSLIST")] == [str(a.id)]
        # A KILL of what is seen reaches it, whosever client it is.
        with one.admin() as admin:
            until(lambda: isinstance(admin.query(f"KILL {b.id}"), Ok), "it is not ended")
        until(lambda: whole(one, CLIENTS) == expected((one, a)), "it is still there")


def test_every_table_has_its_twin(three):
    one = three[0]
    listed = whole(one, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES")
    plain = {table.lower() for _, table in listed if not table.lower().startswith("cluster_")}
    twins = {table.lower() for _, table in listed if table.lower().startswith("cluster_")}
    assert twins == {f"cluster_{table}" for table in plain - {"columns", "schemata", "tables"}} and len(twins) > 30
    with one.admin() as admin:
        for schema, table in listed:
            if table.lower().startswith("cluster_"):
                answer = admin.query(f"SELECT * FROM {schema}.{table}")
                columns = [column.name for column in answer.columns]
                assert columns[0].lower() == "onramp"
                of = [column.name for column in admin.query(f"SELECT * FROM {schema}.{table[len('cluster_'):]}").columns]
                assert columns[1:] == of
                assert texts(admin.query("SHOW WARNINGS")) == [], table
                described = texts(admin.query(f"DESCRIBE {schema}.{table}"))
                assert [row[0] for row in described] == columns
                if any(row[0] for row in answer.rows):
                    assert {row[0].decode() for row in answer.rows} <= set(map(name, three))
        assert "`onramp` text NOT NULL" in texts(admin.query("SHOW CREATE TABLE cluster_clients"))[0][1]
        assert ("cluster_clients",) in texts(admin.query("SHOW TABLES"))
        assert len(texts(admin.query("SHOW cluster_workers"))) == 3


def test_who_is_killed_or_hangs_is_named_and_the_rest_is_there(three):
    one, two, third = three
    with client(one) as a, client(two), client(third):
        third.process.send_signal(signal.SIGKILL)
        third.process.wait()
        # The system goes on taking connections for it.
        stop_process(two.process.pid)
        try:
            # One that nobody had bounded would wait for as long as the other is stopped.
            rows, warnings = ask(one, CLIENTS)
            with one.admin() as admin:
                assert isinstance(admin.query("SET GLOBAL admin_peers_timeout = '300ms'"), Ok)
            sooner = ask(one, CLIENTS)
        finally:
            two.process.send_signal(signal.SIGCONT)
        assert sooner[0] == rows and ("does not answer" in sooner[1][0] or "within 300ms" in sooner[1][0]), sooner
        assert rows == expected((one, a))
        assert len(warnings) == 2, warnings
        assert warnings[0].startswith(f"{name(two)}: its rows are missing: "), warnings
        assert "does not answer" in warnings[0] or "within 5s, see admin_peers_timeout" in warnings[0], warnings
        assert warnings[1].startswith(f"{name(third)}: its rows are missing: ") and "refused" in warnings[1] and "see admin_peers" in warnings[1]
        until(lambda: ask(one, CLIENTS)[0] != rows, "it does not come back")


def test_one_that_hangs_holds_up_nobody_elses_statement(three):
    one, two, _ = three
    stop_process(two.process.pid)
    try:
        with one.admin() as waits, one.admin() as goes_on, client(one) as application:
            waits.command(raw.QUERY, CLIENTS.encode())
            answered = 0
            while not waits.has_answer():
                assert goes_on.value("SELECT COUNT(*) FROM clients") == b"1" and application.value("SELECT 1") == b"1"
                answered += 1
            # Of those that wait for it only the first is answered, and not before it is.
            assert answered > 1
            assert len(waits.result().rows) == 1
    finally:
        two.process.send_signal(signal.SIGCONT)


def test_wrong_passwords_and_other_accounts(own_server, folder, start):
    one = start()
    other = Onramp(own_server, folder, workers=1, admin_user="op", admin_listen=f"127.0.0.1:{free_port()}", admin_password="hush, secret")
    port = SimpleNamespace(admin_port=int(other.options["admin_listen"].rpartition(":")[2]))
    other.start()
    try:
        with one.admin() as admin, client(other) as connection:
            assert isinstance(admin.query(f"SET GLOBAL admin_peers = '{name(port)}'"), Ok)
            rows, warnings = ask(one, CLIENTS)
            assert rows == [] and len(warnings) == 1, (rows, warnings)
            assert "error 1045" in warnings[0] and f"mysql://user:password@{name(port)}/" in warnings[0]
            # Whoever asks each second fills no log.
            assert "it has refused the login" in ask(one, CLIENTS)[1][0]
            other.says("admin: login from localhost refused", times=1)
            assert isinstance(admin.query(f"SET GLOBAL admin_peers = 'mysql://op:hush%2C%20secret@{name(port)}/'"), Ok)
            assert whole(one, CLIENTS) == expected((port, connection))
            # The password is nowhere to be seen: not among the options, here or from there, nor in the log.
            shown = f"mysql://op@{name(port)}/"
            assert texts(admin.query("SELECT value FROM options WHERE name = 'admin_peers'")) == [(shown,)]
            assert texts(admin.query("SHOW VARIABLES LIKE 'admin_peers'")) == [("admin_peers", shown)]
        one.says(f"SET GLOBAL admin_peers = {shown}")
        assert "hush" not in one.log_text()
    finally:
        other.stop()


def test_who_is_in_front_of_the_server_and_not_named_is_told_of(start):
    one, two = start(), start()
    know([one, two], "")
    with client(one) as a, client(two):
        rows, warnings = ask(one, CLIENTS)
        # Without a name that others have for it, it is called by where it listens.
        assert rows == expected((one, a))
        assert len(warnings) == 1 and "beside this one 1 Onramp is in front of the server, and admin_peers leads to 0" in warnings[0], warnings
        with one.admin() as admin:
            assert isinstance(admin.query(f"SET GLOBAL admin_peers = '{name(two)}'"), Ok)
        assert len(whole(one, CLIENTS)) == 2


def test_two_addresses_of_one(start):
    one, two = start(), start()
    know([one, two], f"localhost:{one.admin_port},localhost:{two.admin_port},{name(two)}")
    with client(one) as a, client(two) as b:
        rows, warnings = ask(one, CLIENTS)
        whose = {f"localhost:{one.admin_port}": a, f"localhost:{two.admin_port}": b}
        assert rows == sorted((whose_name, str(connection.id)) for whose_name, connection in whose.items())
        assert len(warnings) == 1 and "leads to the same Onramp as" in warnings[0], warnings


def test_by_a_socket_and_from_the_file(start, folder):
    path = f"{folder}/admin.sock"
    two = start(also=path)
    one = start(admin_peers=f"/no/such.sock,{path}")
    with client(one) as a, client(two) as b:
        rows, warnings = ask(one, CLIENTS)
        assert rows == sorted([(path, str(b.id)), (name(one), str(a.id))])
        assert len(warnings) == 1 and warnings[0].startswith("/no/such.sock: its rows are missing: admin_peers /no/such.sock: "), warnings


def admin_once_free(onramp):
    """A connection to its admin port, once there is a place."""

    def connect():
        with contextlib.suppress(AssertionError):
            return onramp.admin()

    return until(connect, "its places are not free")


def test_places_that_are_taken(start):
    one, two = start(admin_max_connections=1), start(admin_max_connections=1)
    know([one, two], f"{name(one)},{name(two)}")
    with admin_once_free(one) as admin:
        # To see that an address leads to itself takes no place, as nobody logs in for that.
        until(lambda: ask_by(admin, CLIENTS) == ([], []), "the other's place is not free")
        with client(two), admin_once_free(two):
            rows, warnings = ask_by(admin, CLIENTS)
            assert rows == [] and len(warnings) == 1 and "admin_max_connections = 1" in warnings[0], warnings
        until(lambda: ask_by(admin, CLIENTS)[1] == [], "the other's place is not free again")


def test_a_server_and_others_that_are_no_admin_port(start, own_server):
    one = start()
    with socket.create_server(("127.0.0.1", 0)) as silent, answering(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9) as web:
        addresses = [name(own_server.port), name(silent.getsockname()[1]), name(web), name(one.port)]
        with one.admin() as admin:
            assert isinstance(admin.query(f"SET GLOBAL admin_peers = '{','.join(addresses)}'"), Ok)
        with client(one) as connection:
            # Whoever is asked at the port of clients sees one that logs in.
            rows, warnings = ask(one, "SELECT onramp, id FROM cluster_clients WHERE state = 'idle'")
        assert rows == [(name(one), str(connection.id))]
        assert [warning.split(": its rows are missing: ")[0] for warning in warnings] == addresses, warnings


@contextlib.contextmanager
def answering(words):
    """Somebody at a port who says always the same."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.sendall(words)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        ends(listener, thread)


def ends(listener, thread):
    """Closes it once nobody accepts any more: whoever still did would do so at the next socket that has its number."""
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    listener.close()


class Flood:
    """An admin port that answers each statement about a table with so many rows."""

    def __init__(self, rows, row):
        self.rows, self.row = rows, row
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        packet = lambda number, payload: len(payload).to_bytes(3, "little") + bytes([number % 256]) + payload
        capabilities = 0x1 | 0x4 | 0x200 | 0x8000 | 0x80000
        greeting = (b"\x0a8.0.11-onramp-9.9\0" + (1).to_bytes(4, "little") + b"12345678\0" + (capabilities & 0xffff).to_bytes(2, "little") +
                    b"\x2d\x02\0" + (capabilities >> 16).to_bytes(2, "little") + b"\x15" + bytes(10) + b"901234567890\0mysql_native_password\0")
        column = lambda text: b"\x03def\0\0\0" + bytes([len(text)]) + text + b"\0\x0c\x2d\0\xff\0\0\0\xfd\0\0\0\0\0"
        end = b"\xfe\0\0\x02\0"
        with contextlib.suppress(OSError), connection:
            connection.sendall(packet(0, greeting))
            connection.recv(4096)
            connection.sendall(packet(2, b"\0\0\0\x02\0\0\0"))
            while statement := connection.recv(4096):
                names, row, count = [b"id"], self.row, self.rows
                if b"@@" in statement:
                    row, count = b"flood", 1
                head = packet(1, b"\x01") + packet(2, column(names[0])) + packet(3, end)
                value = (b"\xfc" + len(row).to_bytes(2, "little") if len(row) > 250 else bytes([len(row)])) + row
                # The numbers of packets come round after 256.
                block = b"".join(packet(number, value) for number in range(4, 260))
                connection.sendall(head)
                for _ in range(count // 256):
                    connection.sendall(block)
                rest = b"".join(packet(4 + number, value) for number in range(count % 256))
                connection.sendall(rest + packet(4 + count % 256, end))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ends(self.listener, self.thread)


def test_one_that_says_too_much(start):
    one, two = start(), start()
    # 640 MB of rows that are as long as they may be, and many short ones.
    for rows, row, reason in (10_000, b"x" * 64_000, "larger than 64 MiB"), (100_000_000, b"7", "within 5s"):
        with Flood(rows, row) as flood, client(one) as a, client(two) as b:
            know([one, two], ",".join(map(name, (one, two, flood.port))))
            before = one.memory()
            rows, warnings = ask(one, CLIENTS)
            assert rows == expected((one, a), (two, b))
            assert len(warnings) == 1 and warnings[0].startswith(f"{name(flood.port)}: its rows are missing: "), warnings
            assert reason in warnings[0] or "those of all take more than 128 MiB" in warnings[0]
            # What SQLite may keep for rows of others, with what it needs beside their values, and what is on the way.
            assert one.memory() < before + (300 << 20)


def test_a_million_rows_can_be_counted(start):
    one = start()
    with Flood(1_000_000, b"7") as flood:
        with one.admin() as admin:
            assert isinstance(admin.query(f"SET GLOBAL admin_peers = '{name(flood.port)}'"), Ok)
        rows, warnings = ask(one, "SELECT onramp, COUNT(*) FROM cluster_clients GROUP BY 1")
        # All of them or none: a machine that is too slow for so many says so.
        assert (rows, warnings) == ([(name(flood.port), "1000000")], []) or (rows == [] and "within 5s" in warnings[0]), (rows, warnings)


def test_a_thousand_clients_of_each(three):
    with contextlib.ExitStack() as stack:
        connections = [(onramp, stack.enter_context(client(onramp))) for onramp in three for _ in range(1000)]
        for onramp in three:
            assert whole(onramp, CLIENTS) == expected(*connections)
        crowd = [in_background(whole, onramp, "SELECT COUNT(*), COUNT(DISTINCT id), COUNT(DISTINCT onramp) FROM cluster_clients") for onramp in three for _ in range(3)]
        assert [join() for join in crowd] == [[("3000", "3000", "3")]] * 9


def test_inside_tls(start, folder):
    authority, stranger = Authority(f"{folder}/tls"), Authority(f"{folder}/tls", "stranger")
    certificate, key = authority.sign("admin", alternative="DNS:localhost")
    one, two = start(), start(tls_certificate=certificate, tls_key=key, tls="required")
    by_name, by_number = f"localhost:{two.admin_port}", name(two)
    with one.admin() as admin:
        for address, authorities, reason in ((by_name, authority.path, None), (by_number, "", None), (by_name, stranger.path, "certificate"),
                                             (by_number, authority.path, "certificate"), (by_name, f"{folder}/nothing.pem", "nothing.pem")):
            assert isinstance(admin.query(f"SET GLOBAL admin_peers = '{address}'"), Ok)
            assert isinstance(admin.query(f"SET GLOBAL admin_peers_tls_ca = '{authorities}'"), Ok)
            rows, warnings = ask(one, "SELECT onramp FROM cluster_workers ORDER BY 1")
            whose = {name(one), address} if reason is None else {name(one)}
            assert {row[0] for row in rows} == whose, (address, authorities, warnings)
            assert any(reason in warning for warning in warnings) if reason else not warnings, (address, authorities, warnings)


def test_by_a_library(three):
    with contextlib.closing(pymysql.connect(host="127.0.0.1", port=three[0].admin_port, user="admin", password=PASSWORD)) as connection:
        with connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SELECT * FROM information_schema.CLUSTER_PROCESSLIST")
            assert cursor.fetchall() == ()
            cursor.execute("SELECT * FROM cluster_workers ORDER BY onramp")
            assert [row["onramp"] for row in cursor.fetchall()] == sorted(map(name, three))
