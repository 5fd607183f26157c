"""The compressed protocol: libraries, programs, and packets of our own."""

import shutil
import subprocess

import mysql.connector
import pytest

from harness import raw
from harness.compressed import Compressed, log_in
from harness.raw import Ok
from harness.sockets import sockets
from harness.waiting import PATIENCE, until


@pytest.fixture
def compressed(site):
    with log_in(site, raw.LOCAL_FILES | raw.MULTI_STATEMENTS) as connection:
        yield connection


def test_statements_and_results(compressed, note):
    note("one", compressed.query("SELECT 1"))
    note("large", compressed.value("SELECT REPEAT('abc', 700000)"))
    text = "x" * 900_000
    note("long", compressed.value(f"SELECT LENGTH('{text}')"))
    note("error", compressed.query("SELECT nothing"))
    note("several", compressed.query_all("SELECT 1; SELECT 2; SELECT 3"))
    note("ping", compressed.ping())


def test_transactions_and_prepared_statements(compressed, note, schema):
    compressed.use(schema)
    note("table", compressed.query("CREATE TABLE t (a INT PRIMARY KEY, b TEXT)"))
    note("begin", compressed.query("BEGIN"))
    for number in range(20):
        compressed.query(f"INSERT INTO t VALUES ({number}, REPEAT('b', {number * 100}))")
    note("rollback", compressed.query("ROLLBACK"))
    note("empty", compressed.query("SELECT COUNT(*) FROM t"))
    prepared = compressed.prepare("SELECT ? + 1, REPEAT('z', 1000)")
    note("executed", compressed.execute(prepared.statement, [b"41"]))


def test_local_files(compressed, note, schema):
    """Packets inside that a client numbers by the compressed ones."""
    compressed.use(schema)
    compressed.query("CREATE TABLE t (a INT)")
    request = compressed.query("LOAD DATA LOCAL INFILE 'numbers' INTO TABLE t")
    assert isinstance(request, raw.LocalInfile), request
    compressed.socket.sendall(compressed.packets(b"1\n2\n") + compressed.packets(b"3\n"))
    compressed.sequence = compressed.socket.number
    compressed.send(b"4\n")
    compressed.send(b"")
    note("loaded", compressed.ok_or_error(compressed.receive()))
    note("rows", compressed.query("SELECT COUNT(*), SUM(a) FROM t"))


def test_change_of_user(compressed, note):
    note("changed", compressed.change_user("other", "other-secret"))
    note("who", compressed.query("SELECT CURRENT_USER()"))


def test_connector(site, note):
    connection = mysql.connector.connect(
        host=site.host, port=site.port, user="app", password="app-secret", use_pure=True, compress=True, ssl_disabled=True,
        charset="utf8mb4", collation="utf8mb4_general_ci", auth_plugin="mysql_native_password")
    cursor = connection.cursor()
    cursor.execute("SELECT REPEAT('a', 1000000), 2")
    note("row", cursor.fetchall())
    cursor.execute(f"SELECT LENGTH('{'q' * 1_000_000}')")
    note("length", cursor.fetchall())
    connection.close()


@pytest.mark.parametrize("options", [["--skip-ssl"], ["--ssl"]])
def test_the_mariadb_program(own_onramp, server, options):
    onramp = own_onramp(server)
    command = [shutil.which("mariadb"), "--no-defaults", "--protocol=tcp", f"--port={onramp.port}", "--host=127.0.0.1",
               "--user=app", "-papp-secret", "--compress", *options, "-Ne", "SELECT LENGTH(REPEAT('m', 100000)), 'through'"]
    for _ in range(3):
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert result.stdout == "100000\tthrough\n", result.stderr


def all_is_read(sent_by):
    """Whether the other end has read all that was sent: nothing is in the buffers of either side."""
    ours, theirs = sent_by.getsockname(), sent_by.getpeername()
    ends = {(one.local, one.peer): one for one in sockets()}
    return ends[ours, theirs].to_send == 0 and ends[theirs, ours].to_read == 0


@pytest.mark.parametrize("cut", [0, 5, 1000])
def test_a_statement_ahead_of_the_logins_answer(site, note, cut):
    """It is compressed already, whether it comes in one piece with the login or not."""
    connection = raw.Connection(site)
    connection.greet()
    login = connection.packets(connection.login_request("app", "app-secret", capabilities=raw.USUAL | raw.COMPRESS))
    answered_at = connection.sequence
    compressed = Compressed(connection.socket)
    connection.sequence = 0
    ahead = compressed.packed(connection.packets(b"\x03SELECT 'a text that is long enough to be compressed', 42"))
    connection.send_bytes(login + ahead[:cut])
    until(lambda: all_is_read(connection.socket), "the first piece is not read")
    connection.send_bytes(ahead[cut:])
    connection.sequence = answered_at
    note("login", connection.finish_login("app-secret"))
    compressed.arrived, connection.buffer = bytes(connection.buffer), bytearray()
    connection.socket = compressed
    connection.checks_numbers = False
    note("ahead", connection.result())
    note("behind", connection.query("SELECT 2"))
    connection.close()


def test_off(own_onramp, server):
    connection = raw.Connection(own_onramp(server, compression="off"))
    assert not connection.greet().capabilities & raw.COMPRESS


def test_noise_after_the_login(own_onramp, server):
    onramp = own_onramp(server)
    for noise in (b"\xff\xff\xff\0\xff\xff\xff" + b"x" * 70_000, b"\x05\0\0\0\x10\0\0hello", bytes(6), b"\0" * 70):
        connection = raw.Connection(onramp)
        connection.greet()
        connection.send(connection.login_request("app", "app-secret", capabilities=raw.USUAL | raw.COMPRESS))
        assert isinstance(connection.finish_login("app-secret"), Ok)
        connection.send_bytes(noise)
        connection.close()
    with raw.connect(onramp) as usual:
        assert usual.value("SELECT 1") == b"1"
