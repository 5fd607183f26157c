"""Clients that break the protocol: they are told so or closed, and nobody else notices."""

import socket
import struct

import pytest

from harness import raw
from harness.raw import Closed, Err


@pytest.fixture(autouse=True)
def others_go_on(client):
    """A well-behaved client before, during and after."""
    witness = client()
    assert witness.value("SELECT 'before'") == b"before"
    yield
    assert witness.value("SELECT 'after'") == b"after"
    assert client().value("SELECT 'new'") == b"new"


def answer_of(connection):
    """An `Err` or "closed"; anything else is an answer that a broken client must not get."""
    try:
        return connection.ok_or_error(connection.receive())
    except (Closed, ConnectionResetError, AssertionError):
        return "closed"


def refused(answer):
    return answer == "closed" or isinstance(answer, Err)


@pytest.mark.parametrize("garbage", [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), bytes(4), bytes(100), b"\xff" * 100,
    b"\x01\x00\x00\x01\x00", b"\x20\x00\x00\x01" + bytes(32), b"\x00\x00\x00\x01", b"\x05\x00\x00\x01\x85\xa6\x03\x00\x00",
], ids=["http", "tls", "zeros", "more zeros", "ones", "one zero", "32 zeros", "empty", "short"])
def test_garbage_as_login(unauthenticated, garbage):
    connection = unauthenticated()
    connection.greet()
    connection.send_bytes(garbage)
    connection.finish_sending()
    assert refused(answer_of(connection))


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_as_login(unauthenticated, seeded, seed):
    seeded.seed(seed)
    connection = unauthenticated()
    connection.greet()
    connection.sequence = 1
    connection.send(seeded.randbytes(seeded.randrange(1, 300)))
    connection.finish_sending()
    assert refused(answer_of(connection))


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 20, 36, 37, 40, 45, 60])
def test_half_login(unauthenticated, cut):
    connection = unauthenticated()
    connection.greet()
    packet = connection.packets(connection.login_request("app", "app-secret"))
    connection.send_bytes(packet[:cut])
    connection.close()


@pytest.mark.parametrize("cut", [32, 33, 36, 40, 45])
def test_login_request_too_short(unauthenticated, cut):
    """A whole packet whose content ends early."""
    connection = unauthenticated()
    connection.greet()
    connection.send(connection.login_request("app", "app-secret")[:cut])
    connection.finish_sending()
    assert refused(answer_of(connection))


def test_connect_and_leave(unauthenticated):
    for _ in range(50):
        unauthenticated().close()


def test_greeting_then_nothing(unauthenticated):
    """Open and silent: others log in meanwhile."""
    silent = [unauthenticated() for _ in range(30)]
    for connection in silent:
        connection.greet()
    other = unauthenticated()
    assert other.login("app", "app-secret").status & raw.AUTOCOMMIT


# ucs2, utf16, utf32, utf16le: whoever names them is refused, and nobody else of the same user has to wait for that.
WIDE = [35, 54, 60, 56]


@pytest.mark.parametrize("collation", WIDE)
def test_login_with_a_character_set_for_no_client(unauthenticated, note, collation):
    connection, other = unauthenticated(), unauthenticated()
    refused = note("login", connection.login("app", "app-secret", collation=collation))
    assert refused[:2] == (1231, "42000") and connection.at_end()
    other.login("app", "app-secret")
    note("other", other.query("SELECT 1").rows)


@pytest.mark.parametrize("sequence", [0, 2, 7, 255])
def test_login_with_wrong_sequence_number(unauthenticated, note, sequence):
    connection = unauthenticated()
    connection.greet()
    request = connection.login_request("app", "app-secret")
    connection.sequence = sequence
    connection.send(request)
    connection.sequence = 0
    header_and_rest = b""
    try:
        header_and_rest = connection.receive_exactly(7)
    except Closed:
        pass
    assert header_and_rest == b"" or header_and_rest[4] == 0xFF, header_and_rest


@pytest.mark.parametrize("sequence", [1, 2, 128, 255])
def test_command_with_wrong_sequence_number(client, note, sequence):
    connection = client()
    connection.sequence = sequence
    connection.send(b"\x03SELECT 'was executed'")
    connection.finish_sending()
    received = b""
    try:
        while True:
            received += connection.receive_exactly(1)
    except Closed:
        pass
    note("refused", b"was executed" not in received)
    note("code", int.from_bytes(received[5:7], "little") if received else "closed")


def test_oversized_length(client):
    """A header that promises 16 MiB, a little of it, and then the end."""
    connection = client()
    connection.send_bytes(b"\xff\xff\xff\x00\x03SELECT 1")
    connection.close()


def test_statement_over_the_limit(site, client):
    """Beyond max_allowed_packet (64 MiB here): 1153 and closed, without keeping it all in memory."""
    if not site.through:
        return
    before = site.onramp.memory()
    connection = client()
    sent = 0
    chunk = b"x" * (1 << 20)
    try:
        for number in range(8):
            connection.send_bytes(b"\xff\xff\xff" + bytes([number]))
            body = b"\x03SELECT '" if number == 0 else b""
            rest = raw.MAX_PAYLOAD - len(body)
            connection.send_bytes(body)
            while rest:
                connection.send_bytes(chunk[:rest])
                sent += min(rest, len(chunk))
                rest -= min(rest, len(chunk))
    except (ConnectionResetError, BrokenPipeError):
        pass
    connection.buffer.clear()
    try:
        header = connection.receive_exactly(4)
        payload = connection.receive_exactly(int.from_bytes(header[:3], "little"))
        answer = connection.error(payload)
        assert answer[:2] == (1153, "08S01"), answer
    except (Closed, ConnectionResetError):
        pass
    assert sent <= 130 << 20
    assert site.onramp.memory() - before < 192 << 20


def test_half_a_command_then_gone(client):
    for cut in (1, 3, 4, 5, 10):
        connection = client()
        connection.send_bytes(b"\x10\x00\x00\x00\x03INSERT INTO x y"[:cut])
        connection.close()


def test_reset_instead_of_close(client):
    """RST in the middle of a statement."""
    for _ in range(10):
        connection = client()
        connection.command(raw.QUERY, b"SELECT SLEEP(0.05)")
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


@pytest.mark.parametrize("seed", range(30))
def test_random_commands(client, seeded, seed):
    """Random command bytes with random bodies: any answer is fine that leaves the others alone."""
    seeded.seed(seed)
    connection = client()
    # Not COM_SHUTDOWN's rights nor a flood: `app` has no rights to hurt the server.
    kind = seeded.choice([k for k in range(256) if k not in (raw.QUIT,)])
    connection.sequence = 0
    connection.send(bytes([kind]) + seeded.randbytes(seeded.randrange(0, 60)))
    connection.finish_sending()
    try:
        while True:
            connection.receive_exactly(1)
    except Closed:
        pass


@pytest.mark.parametrize("flag", [raw.SSL, raw.COMPRESS, 1 << 26, 1 << 31], ids=["ssl", "compress", "zstd", "verify"])
def test_capabilities_that_were_not_offered(unauthenticated, flag):
    """A client that sets what the greeting did not offer is served without, or refused; it does not hang."""
    connection = unauthenticated()
    greeting = connection.greet()
    if greeting.capabilities & flag:
        return
    connection.send(connection.login_request("app", "app-secret", capabilities=raw.USUAL | flag))
    connection.finish_sending()
    answer = answer_of(connection)
    assert answer is not None


def test_old_protocol(unauthenticated):
    """Without CLIENT_PROTOCOL_41 (before MySQL 4.1): refused."""
    connection = unauthenticated()
    connection.greet()
    connection.sequence = 1
    connection.send(struct.pack("<HI", 1, 0)[:5] + b"app\0")
    connection.finish_sending()
    assert refused(answer_of(connection))


def test_wrong_attributes(unauthenticated):
    """Lengths inside the attributes that lead beyond the packet."""
    for tail in (b"\xfe" + b"\xff" * 8, b"\xfc\xff\xff", b"\x05\x10abc", b"\xff", b"\xfb"):
        connection = unauthenticated()
        connection.greet()
        request = connection.login_request("app", "app-secret", capabilities=raw.USUAL | raw.CONNECT_ATTRS)
        connection.send(request + tail)
        connection.finish_sending()
        answer_of(connection)


@pytest.mark.parametrize("body", [b"", b"\0", b"app", b"app\0\xff", b"app\0\x14short", b"\xff" * 50])
def test_change_user_too_short(client, body):
    connection = client()
    connection.command(raw.CHANGE_USER, body)
    connection.finish_sending()
    try:
        while True:
            connection.receive_exactly(1)
    except Closed:
        pass


def test_local_infile_answered_with_nonsense(client, schema):
    """The file's packets with wrong sequence numbers."""
    connection = client(schema=schema, capabilities=raw.USUAL | raw.LOCAL_FILES)
    connection.query("CREATE TABLE l (a INT)")
    assert connection.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE l") == raw.LocalInfile("x")
    connection.sequence = 77
    connection.send(b"1\n2\n")
    connection.finish_sending()
    assert refused(answer_of(connection))


def test_local_infile_left_alone(client, schema):
    """The client leaves instead of sending its file."""
    for _ in range(6):
        connection = client(schema=schema, capabilities=raw.USUAL | raw.LOCAL_FILES)
        connection.query("CREATE TABLE IF NOT EXISTS l (a INT)")
        assert connection.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE l") == raw.LocalInfile("x")
        connection.send(b"1\n")
        connection.close()


def test_onramp_still_runs(site):
    """After all of the above, and without having grown beyond bounds."""
    if site.through:
        assert site.onramp.process.poll() is None
        assert site.onramp.memory() < 512 << 20
