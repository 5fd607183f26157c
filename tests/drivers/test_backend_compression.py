"""Compression towards the server: what clients see is what it is without, whatever they speak themselves.

A server that compresses numbers packets in a way of its own, so that everything is here that has numbers of its own: several
packets for one message, several results, files, the binary log.
"""

import re
import signal
import struct

import pytest

from harness import raw
from harness.compressed import log_in
from harness.onramp import Onramp
from harness.raw import LOCAL_FILES, MULTI_STATEMENTS, USUAL, LocalInfile, Ok
from harness.replica import BINLOG_DUMP, dump_body, replica, whole_log
from harness.server import ADMIN, Server
from harness.waiting import until

pytestmark = pytest.mark.slow

# SHOW STATUS tells clients of their own.
BACKENDS_TLS = "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'SSL_VERSION'"


@pytest.fixture(scope="module")
def server(folder, template, authority):
    """With a binary log, TLS, and room for messages of several packets."""
    certificate, key = authority.sign("mariadb", alternative="IP:127.0.0.1")
    server = Server(folder, template=template)
    server.start("--max-allowed-packet=64M", "--log-bin=log", "--server-id=1", "--binlog-format=ROW",
                 f"--ssl-cert={certificate}", f"--ssl-key={key}")
    yield server
    server.discard()


@pytest.fixture(scope="module")
def onramp(folder, server):
    onramp = Onramp(server, folder, backend_compression="zlib", max_backends=4, max_allowed_packet="64MiB").start()
    yield onramp
    assert onramp.stop() == 0


def is_compressed(site):
    with raw.connect(site) as client:
        [(_, value)] = client.query("SHOW SESSION STATUS LIKE 'Compression'").rows
        return value == b"ON"


def test_what_the_server_says_of_it(onramp, own_onramp, server):
    assert is_compressed(onramp)
    assert "not compressed" not in onramp.log_text()
    assert not is_compressed(own_onramp(server))


def test_a_server_that_does_not_offer_it(own_onramp, server):
    """MariaDB has no zstd for connections: they go on without, and the log says so once."""
    onramp = own_onramp(server, backend_compression="zstd", workers=2)
    assert not is_compressed(onramp)
    onramp.says("not compressed: it does not offer zstd")
    assert onramp.log_text().count("not compressed") == 1


# Around the shortest that is compressed, a server's buffer (net_buffer_length), and one packet (16 MiB - 1, of which a byte or
# the ends of a literal are not the value).
SIZES = [0, 1, 40, 60, 16_370, 16_384, 16_400, 300_000, (1 << 24) - 40, 20_000_000]


@pytest.mark.parametrize("size", SIZES)
def test_sizes(onramp, seeded, size):
    # What does not become much smaller has no other lengths than what does.
    noise = bytes(seeded.choices(b"abcdefghijklmnopqrstuvwxyz0123456789", k=min(size, 300_000)))
    with raw.connect(onramp) as client:
        for value in (b"x" * size, noise):
            # Not in the assertion, which would print it.
            same = client.query(f"SELECT '{value.decode()}', LENGTH('{value.decode()}')").rows == [(value, b"%d" % len(value))]
            assert same
        same = client.value(f"SELECT REPEAT('y', {size})") == b"y" * size
        assert same
        assert client.value("SELECT 'behind'") == b"behind"


def test_a_message_of_exactly_one_packet(onramp):
    """Its end is a packet of no bytes."""
    front = b"SELECT LENGTH('"
    for length in range((1 << 24) - 2, (1 << 24) + 1):
        text = front + b"z" * (length - 1 - len(front) - 2) + b"')"
        with raw.connect(onramp) as client:
            client.command(raw.QUERY, text)
            assert client.result().rows == [(str(len(text) - len(front) - 2).encode(),)]
            assert isinstance(client.ping(), Ok)


def test_results(site, client, note, schema):
    connection = client(schema=schema, capabilities=USUAL | MULTI_STATEMENTS)
    note("table", connection.query("CREATE TABLE t (a INT PRIMARY KEY, b LONGTEXT)"))
    for number in range(30):
        note(f"insert {number}", connection.query(f"INSERT INTO t VALUES ({number}, REPEAT('b', {number * 1000}))"))
    note("all", connection.query("SELECT * FROM t ORDER BY a"))
    note("several", connection.query_all("SELECT 1; SELECT REPEAT('c', 40000); DO 1; SELECT nothing; SELECT 2"))
    note("warnings", connection.query("SHOW WARNINGS"))
    note("rows beyond 255", connection.query("SELECT seq, REPEAT('d', 500) FROM seq_1_to_3000"))
    note("many results", connection.query_all(";".join(["SELECT REPEAT('e', 300)", "DO 1"] * 200)))
    note("behind", connection.value("SELECT 1"))


def test_prepared_statements(site, client, note, schema):
    connection = client(schema=schema)
    note("table", connection.query("CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b LONGTEXT)"))
    insert = connection.prepare("INSERT INTO t (b) VALUES (?)")
    for size in (10, 100_000, 17 << 20):
        note(f"small {size}", connection.execute(insert.statement, [b"one"]))
        for _ in range(2):
            connection.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", insert.statement, 0) + b"l" * (size // 2))
        # The parameter's type is sent, its value is not: it came before.
        connection.command(raw.STMT_EXECUTE, struct.pack("<IBI", insert.statement, 0, 1) + b"\x00\x01\xfc\x00")
        note(f"long {size}", connection.results(binary=True))
    select = connection.prepare("SELECT a, LENGTH(b) FROM t WHERE a > ? ORDER BY a")
    note("selected", connection.execute(select.statement, [b"0"]))
    connection.forget(select.statement)
    note("behind", connection.value("SELECT COUNT(*) FROM t"))


def test_answers_of_about_256_compressed_packets(onramp):
    """Each row fills about one, so that the number with which the next answer begins comes next in one of these too."""
    with raw.connect(onramp, schema="onramp_app") as client:
        for rows in range(240, 264):
            answer = client.query(f"SELECT seq, REPEAT('d', 16000) FROM seq_1_to_{rows}")
            right = [row[0] for row in answer.rows] == [str(number).encode() for number in range(1, rows + 1)]
            assert right and all(len(row[1]) == 16_000 for row in answer.rows)
            assert client.value(f"SELECT {rows}") == str(rows).encode()


@pytest.mark.parametrize("workers", [1, 2])
def test_many_on_few_backends(own_onramp, server, workers):
    """Statements of different clients behind each other on one backend, and answers of many compressed packets among them."""
    onramp = own_onramp(server, backend_compression="zlib", workers=workers, max_backends=4, permits=2, shared_backends=1)
    clients = [raw.connect(onramp) for _ in range(20)]
    for turn in range(10):
        for number, client in enumerate(clients):
            length = number * 50 if (number + turn) % 10 else 1_000_000
            client.command(raw.QUERY, f"SELECT {number}, {turn}, REPEAT('{number % 10}', {length})".encode())
        for number, client in enumerate(clients):
            length = number * 50 if (number + turn) % 10 else 1_000_000
            [row] = client.result().rows
            right = row == (str(number).encode(), str(turn).encode(), str(number % 10).encode() * length)
            assert right, (row[:2], len(row[2]))
    for client in clients:
        client.close()


@pytest.fixture
def loader(client, admin, schema):
    assert isinstance(admin.query(f"CREATE TABLE {schema}.loaded (id INT PRIMARY KEY, v VARCHAR(100))"), Ok)
    return lambda: client(schema=schema, capabilities=USUAL | LOCAL_FILES | MULTI_STATEMENTS)


LOAD = "LOAD DATA LOCAL INFILE 'any' INTO TABLE loaded FIELDS TERMINATED BY ','"


def upload(connection, pieces):
    for piece in (*pieces, b""):
        connection.send(piece)
    return connection.result()


@pytest.mark.parametrize("size, lines", [(9, 200), (4096, 50_000), (1 << 20, 100_000), ((1 << 24) + 100, 170_000)])
def test_files(loader, note, size, lines):
    """Some MB, in packets whose numbers go round, and in packets that are too long for one."""
    connection = loader()
    file = b"".join(b"%d,%s\n" % (number, b"v" * 95) for number in range(lines))
    for turn in range(2 if lines < 100_000 else 1):
        assert isinstance(connection.query(LOAD), LocalInfile)
        note(f"loaded {turn}", upload(connection, [file[at:at + size] for at in range(0, len(file), size)]))
        note(f"rows {turn}", connection.query("SELECT COUNT(*), SUM(id), SUM(LENGTH(v)) FROM loaded"))
        note(f"deleted {turn}", connection.query("DELETE FROM loaded"))


@pytest.mark.parametrize("ahead", range(250, 260))
def test_a_file_whose_numbers_begin_anywhere(loader, note, ahead):
    """Results in front of the request for it move its first number, once to 0, with which commands begin."""
    connection = loader()
    connection.command(raw.QUERY, ("DO 1;" * ahead + LOAD + ";SELECT COUNT(*) FROM loaded").encode())
    for _ in range(ahead):
        assert isinstance(connection.result(), Ok)
    assert isinstance(connection.result(), LocalInfile)
    note("loaded", upload(connection, [b"1,one\n", b"2,two\n", b"3,three\n"]))
    note("counted", connection.result())
    note("behind", connection.ping())


def test_refused_files_and_bad_ones(loader, note):
    connection = loader()
    for turn in range(2):
        assert isinstance(connection.query(LOAD), LocalInfile)
        note(f"none {turn}", upload(connection, []))
        assert isinstance(connection.query(LOAD), LocalInfile)
        note(f"a key twice {turn}", upload(connection, [b"1,one\n2,two\n", b"1,again\n"] + [b"3,x\n"] * 300))
        note(f"rows {turn}", connection.query("SELECT * FROM loaded"))
        note(f"deleted {turn}", connection.query("DELETE FROM loaded"))


def test_compressed_on_both_sides(onramp, admin, schema):
    assert isinstance(admin.query(f"CREATE TABLE {schema}.loaded (id INT PRIMARY KEY, v VARCHAR(100))"), Ok)
    with log_in(onramp, LOCAL_FILES) as client:
        for size in (1, 100_000, 3_000_000):
            assert client.value(f"SELECT REPEAT('z', {size})") == b"z" * size
            assert client.value(f"SELECT LENGTH('{'z' * size}')") == str(size).encode()
        client.use(schema)
        assert isinstance(client.query(LOAD), LocalInfile)
        for number in range(700):
            client.sequence = client.socket.number
            client.send(b"%d,line\n" % number)
        client.sequence = client.socket.number
        client.send(b"")
        assert isinstance(client.ok_or_error(client.receive()), Ok)
        assert client.value("SELECT COUNT(*) FROM loaded") == b"700"


def test_inside_tls(own_onramp, server, authority):
    onramp = own_onramp(server, backend_compression="zlib", backend_tls="verify-full", backend_tls_ca=authority.path)
    assert is_compressed(onramp)
    with raw.connect(onramp) as client:
        [(_, version)] = client.query(BACKENDS_TLS).rows
        assert version == b"TLSv1.3"
        for size in (10, 100_000, 20_000_000):
            same = client.value(f"SELECT REPEAT('t', {size})") == b"t" * size
            assert same


@pytest.fixture(scope="module")
def log(server):
    with raw.connect(server, *ADMIN) as admin:
        for statement in ("FLUSH BINARY LOGS", "CREATE DATABASE IF NOT EXISTS replicated", "CREATE OR REPLACE TABLE replicated.t (a INT PRIMARY KEY, b LONGTEXT)"):
            assert isinstance(admin.query(statement), Ok)
        for number in range(300):
            assert isinstance(admin.query(f"INSERT INTO replicated.t VALUES ({number}, REPEAT('b', {number * 100}))"), Ok)
        assert isinstance(admin.query("INSERT INTO replicated.t VALUES (1000, REPEAT('x', 17 << 20))"), Ok)
        return admin.query("SHOW MASTER STATUS").rows[0][0].decode()


def test_the_binary_log(onramp, server, log):
    """Its numbers are checked as a replica checks them."""
    # BINLOG_CHECKPOINT_EVENT comes when the server finds the time for it.
    found, direct = ([event for event in whole_log(site, log)[0] if event[5] != 161] for site in (onramp, server))
    assert len(found) > 900
    # Not in an assertion, which would print them.
    same = found == direct
    assert same


@pytest.mark.parametrize("through", [False, True])
def test_semi_synchronous(server, onramp, through):
    """What follows an event that is to be acknowledged begins to count anew, which a replica that does not compress checks."""
    with raw.connect(server, *ADMIN) as admin, replica(onramp if through else server) as connection:
        for statement in ("CREATE DATABASE IF NOT EXISTS replicated", "CREATE OR REPLACE TABLE replicated.s (a INT)", "FLUSH BINARY LOGS"):
            assert isinstance(admin.query(statement), Ok)
        log = admin.query("SHOW MASTER STATUS").rows[0][0].decode()
        # What is written from here on waits for a replica.
        for statement in ("SET GLOBAL rpl_semi_sync_master_timeout = 100000", "SET GLOBAL rpl_semi_sync_master_enabled = ON"):
            assert isinstance(admin.query(statement), Ok)
        assert isinstance(connection.query("SET @rpl_semi_sync_slave = 1"), Ok)
        connection.command(BINLOG_DUMP, dump_body(log, flags=0, server_id=4760))
        # Once it is served, its acknowledgements are waited for.
        assert connection.receive()[:2] == b"\0\xef"
        with raw.connect(server, *ADMIN) as writer:
            for number in range(300):
                writer.command(raw.QUERY, f"INSERT INTO replicated.s VALUES ({number})".encode())
                payload = connection.receive()
                while not payload[2]:
                    assert payload[:2] == b"\0\xef"
                    payload = connection.receive()
                position = int.from_bytes(payload[3:][13:17], "little")
                acknowledgement = b"\xef" + struct.pack("<Q", position) + log.encode()
                connection.send_bytes(len(acknowledgement).to_bytes(3, "little") + b"\0" + acknowledgement)
                connection.sequence = 1
                assert isinstance(writer.ok_or_error(writer.receive()), Ok)
        assert isinstance(admin.query("SET GLOBAL rpl_semi_sync_master_enabled = OFF"), Ok)


def test_memory_is_counted(own_onramp, server):
    onramp = own_onramp(server, backend_compression="zlib")
    with raw.connect(onramp) as client:
        assert client.value("SELECT 1") == b"1"
        onramp.process.send_signal(signal.SIGUSR1)
        found = until(lambda: re.search(r"compression (\d+) KiB", onramp.log_text()), onramp.log_text)
        assert int(found[1]) > 0
