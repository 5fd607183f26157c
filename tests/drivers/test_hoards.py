"""Clients that take what is for all: memory for half a statement, or for answers that they do not read."""

import re
from pathlib import Path

import pytest

from harness import raw
from harness.raw import Ok
from harness.waiting import until

LIMIT = 4 << 20


@pytest.fixture
def small(own_onramp, server):
    return own_onramp(server, statement_memory=LIMIT, max_allowed_packet="2MiB", workers=1)


def half(size):
    """The beginning of a statement of 1,5 MiB."""
    return (1_500_000).to_bytes(3, "little") + b"\0" + b"\x03SELECT '" + b"x" * (size - 13)


def closes(onramp):
    return onramp.log_text().count("it holds most of that with half a statement")


def test_halves_of_statements(small):
    """They keep nobody from being served: whoever holds most has to go."""
    witness = raw.connect(small)
    hoarders = [raw.connect(small) for _ in range(8)]
    for hoarder in hoarders:
        try:
            hoarder.send_bytes(half(1_000_000))
        except (ConnectionResetError, BrokenPipeError):
            pass
    until(lambda: closes(small), "nobody had to go")
    for length in (10, 100_000, 300_000):
        assert witness.value(f"SELECT LENGTH('{'w' * length}')") == str(length).encode()


def test_pieces_of_long_data(small):
    witness = raw.connect(small)
    hoarders = [raw.connect(small) for _ in range(8)]
    for hoarder in hoarders:
        statement = hoarder.prepare("SELECT ?").statement
        for _ in range(8):
            hoarder.sequence = 0
            body = statement.to_bytes(4, "little") + b"\0\0" + b"x" * 100_000
            try:
                hoarder.send(bytes([raw.STMT_SEND_LONG_DATA]) + body)
            except (ConnectionResetError, BrokenPipeError):
                break
    until(lambda: closes(small), "nobody had to go")
    # Of eight that hold all the rest, one holds more than this.
    assert witness.value(f"SELECT LENGTH('{'w' * 300_000}')") == b"300000"


def test_halves_of_compressed_packets(own_onramp, server):
    """They are held before anybody knows what is in them, within a bound of their own: 32 MiB, where the other is less."""
    onramp = own_onramp(server, statement_memory="16MiB", max_allowed_packet="16MiB", workers=1)
    witness = raw.connect(onramp)
    before = onramp.memory()
    hoarders = [raw.Connection(onramp) for _ in range(20)]
    for hoarder in hoarders:
        hoarder.greet()
        hoarder.send(hoarder.login_request("app", "app-secret", capabilities=raw.USUAL | raw.COMPRESS))
        assert isinstance(hoarder.finish_login("app-secret"), Ok)
        try:
            hoarder.send_bytes(b"\xff\xff\xff\0\xff\xff\xff" + bytes(8 << 20))
        except (ConnectionResetError, BrokenPipeError):
            pass
    until(lambda: closes(onramp), "nobody had to go")
    assert witness.value(f"SELECT LENGTH('{'w' * 1_000_000}')") == b"1000000"
    assert onramp.memory() - before < 120 << 20


def test_answers_that_are_not_read(own_onramp, server):
    """A few bytes that ask for a thousand times as many, without a statement for the server among them."""
    # The witness is served by the worker that makes the answers.
    onramp = own_onramp(server, workers=1)
    witness = raw.connect(onramp)
    hoarder = raw.connect(onramp)
    assert isinstance(hoarder.query("SET max_error_count = 300"), Ok)
    casts = ",".join(f"CAST('{'x' * 100}{number}' AS INT)" for number in range(300))
    assert hoarder.query(f"SELECT {casts}").warnings == 300
    one = hoarder.query("SHOW WARNINGS")
    show = b"\x0e\0\0\0\x03SHOW WARNINGS"
    count = 3000

    def ask_for_all():
        hoarder.send_bytes(show * count)
        assert witness.value("SELECT 'served'") == b"served"

    # What has come of it is on its way or not made yet; 3,000 answers are some 100 MiB.
    grown = peak(onramp, ask_for_all)
    assert grown < 32 << 20, f"{grown} bytes"
    for _ in range(count):
        hoarder.sequence = 1
        assert hoarder.result().rows == one.rows
    assert isinstance(hoarder.ping(), Ok)


LONG = "SELECT SUM(CAST(CONCAT('x', seq) AS INT)) AS s FROM {}.seq_1_to_{}"


def test_warnings_of_many(own_onramp, server, schema):
    """Lists of all together are bounded: the longest become their counts, and everybody hears how many there were."""
    onramp = own_onramp(server, kept_warnings_memory="1MiB", workers=1)
    clients = []
    for _ in range(60):
        one = raw.connect(onramp)
        assert isinstance(one.query("SET max_error_count = 4096"), Ok)
        # About 45 KB.
        assert one.query(LONG.format(schema, 700)).warnings == 700
        clients.append(one)
    texts = [client.query("SHOW WARNINGS").rows for client in clients]
    forgotten = [rows for rows in texts if len(rows) == 1]
    assert forgotten and all(b"700 warnings" in rows[0][2] for rows in forgotten)
    assert all(len(rows) == 700 for rows in texts if rows not in forgotten) and len(forgotten) < 60
    for client in clients:
        assert client.query("SHOW COUNT(*) WARNINGS").rows[0][0] == b"700"
        client.close()
    onramp.says("kept_warnings_memory")


def test_a_list_that_is_too_long(own_onramp, server, schema):
    """It is not kept, and not said to be empty either."""
    with raw.connect(own_onramp(server)) as client:
        assert isinstance(client.query("SET max_error_count = 4096"), Ok)
        assert client.query(LONG.format(schema, 3000)).warnings == 3000
        [[level, _, text]] = client.query("SHOW WARNINGS").rows
        assert level == b"Warning" and b"3000 warnings" in text
        assert client.query("SHOW COUNT(*) WARNINGS").rows[0][0] == b"3000"


def test_peers_that_have_not_logged_in(own_onramp, server):
    """Who waits to be refused may send no more than a login has, wherever it would be kept meanwhile."""
    onramp = own_onramp(server, failed_login_delay="1h", failed_login_delay_max="1h", failed_login_threshold=0, workers=1)
    peers = [raw.Connection(onramp) for _ in range(8)]
    for peer in peers:
        peer.greet()
        peer.send(peer.login_request("nobody", "wrong"))
        try:
            peer.send_bytes(b"z" * 4_000_000)
        except (ConnectionResetError, BrokenPipeError):
            pass
    until(lambda: onramp.log_text().count("it has sent too much ahead of the end of its login") == 8, onramp.log_text)
    with raw.Connection(onramp) as modest:
        modest.greet()
        modest.send(modest.login_request("app", "app-secret"))
        modest.send_bytes(b"\x01\0\0\0\x0e" * 1000)
        modest.sequence = 2
        assert isinstance(modest.finish_login("app-secret"), Ok)
        for _ in range(1000):
            modest.sequence = 1
            assert modest.receive()[:1] == b"\0"

def peak(onramp, act):
    """By how many bytes the process grows meanwhile, at its largest."""
    Path(f"/proc/{onramp.process.pid}/clear_refs").write_text("5")
    before = onramp.memory()
    act()
    status = Path(f"/proc/{onramp.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024 - before


@pytest.mark.parametrize("driver", ["epoll", "uring"])
def test_a_large_statement_takes_its_bytes_once(own_onramp, server, schema, driver):
    """It is handed on from where it has arrived to where it is sent from, and goes back to the system behind that."""
    onramp = own_onramp(server, driver=driver, max_allowed_packet="64MiB", workers=1)
    client = raw.connect(onramp)
    assert isinstance(client.query("SET @@session.sql_mode = ''"), Ok)
    length = 20_000_000  # two packets
    statement = f"SELECT LENGTH('{'x' * length}')"
    before = onramp.memory()
    grown = peak(onramp, lambda: client.value(statement) == str(length).encode() or pytest.fail("another length"))
    assert grown < 1.6 * length, f"{grown} bytes"
    until(lambda: onramp.memory() - before < length // 2, "the memory stays")
