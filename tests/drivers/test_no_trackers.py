"""A server that speaks the protocol without session trackers, as some do that are neither MySQL nor MariaDB: nobody tells what
clients change of their sessions, so that each has to keep a backend, and nothing of it may reach another client.

It is a MariaDB whose greeting a relay changes: what is not offered there is not asked for, and then not sent either.
"""

import pytest

from harness import admin, raw
from harness.raw import Ok, Rows
from harness.reads import cluster, server_of, start  # noqa: F401 (fixtures among them)
from harness.relay import Relay
from harness.server import SERVICE
from harness.several import until_in_use, until_seen
from harness.waiting import until

SESSION_TRACK = 1 << 23

# Questions that a server without trackers need not know.
UNKNOWN = (b"@session.session_track", b"@global.session_track", b"CURRENT_ROLE()")

STATE = "SELECT @@sql_mode, @@time_zone, DATABASE(), @@character_set_client, @x"


class Without(Relay):
    """Takes capabilities out of the server's greeting."""

    def __init__(self, server, capabilities):
        self.capabilities = capabilities
        self.asked = []
        super().__init__(server)

    def to_server(self, piece):
        self.asked += [text for text in UNKNOWN if text in piece]

    def from_server(self, piece):
        # Nothing but a greeting is the first packet of an exchange.
        if piece[3] != 0 or piece[4] != 10:
            return None
        low = piece.index(0, 5) + 1 + 4 + 8 + 1
        changed = bytearray(piece)
        for at, shift in ((low, 0), (low + 1, 8), (low + 5, 16), (low + 6, 24)):
            changed[at] &= ~(self.capabilities >> shift) & 0xFF
        return bytes(changed)


@pytest.fixture(params=[SESSION_TRACK, SESSION_TRACK | raw.DEPRECATE_EOF], ids=["no_trackers", "nor_short_ends"])
def without(request, own_server):
    relay = Without(own_server, request.param)
    yield relay
    relay.close()


def connect(onramp, without, **options):
    """A client that asks for nothing that is not offered."""
    return raw.connect(onramp, capabilities=raw.USUAL & ~without.capabilities, **options)


def test_nothing_is_left_for_others(without, own_onramp, monkeypatch):
    onramp = admin.start(own_onramp, monkeypatch, without, max_backends=2)
    with connect(onramp, without) as fresh:
        before = fresh.query(STATE)
        assert isinstance(before, Rows), before
    changes = ("SET sql_mode = 'ANSI_QUOTES'", "SET time_zone = '+03:00'", "USE onramp_app", "SET NAMES latin1", "SET @x = 5")
    with connect(onramp, without) as one, connect(onramp, without) as other:
        assert other.query(STATE).rows == before.rows
        for change in changes:
            assert isinstance(one.query(change), Ok)
        own = one.query(STATE).rows
        assert own == [(b"ANSI_QUOTES", b"+03:00", b"onramp_app", b"latin1", b"5")]
        assert other.query(STATE).rows == before.rows
        assert one.query(STATE).rows == own
        # A reset ends it, as on any server.
        assert isinstance(other.query("SET sql_mode = 'ANSI_QUOTES'"), Ok) and isinstance(other.reset(), Ok)
        assert other.query(STATE).rows == before.rows
        pinned = admin.rows(onramp, "SELECT pins FROM clients")
        assert [row["pins"] for row in pinned if "no_trackers" in row["pins"]] == [row["pins"] for row in pinned] != []
    # On whatever backend the next ones are; and what one has set is not taken for set by the next.
    for _ in range(4):
        with connect(onramp, without) as late:
            assert late.query(STATE).rows == before.rows
            assert isinstance(late.query(changes[1]), Ok)
            assert late.value("SELECT @@time_zone") == b"+03:00"
    assert not without.asked
    onramp.says("has no session trackers", 1)


def number(results):
    """The only number of a row in the binary protocol: behind its map of NULLs."""
    return int.from_bytes(results[0].rows[0][0], "little")


def test_prepared_statements_and_transactions(without, own_onramp):
    onramp = own_onramp(without, max_backends=2)
    with connect(onramp, without, schema="onramp_app") as one, connect(onramp, without, schema="onramp_app") as other:
        assert isinstance(one.query("CREATE TABLE IF NOT EXISTS untracked (id INT PRIMARY KEY)"), Ok)
        insert, count = one.prepare("INSERT INTO untracked VALUES (?)"), other.prepare("SELECT COUNT(*) FROM untracked")
        assert isinstance(one.query("BEGIN"), Ok)
        assert isinstance(one.execute(insert.statement, [b"7"])[0], Ok)
        assert number(other.execute(count.statement)) == 0
        assert isinstance(one.query("COMMIT"), Ok)
        assert number(other.execute(count.statement)) == 1
    # Whoever has gone has left no transaction.
    with connect(onramp, without, schema="onramp_app") as one:
        assert isinstance(one.query("BEGIN"), Ok) and isinstance(one.query("DELETE FROM untracked"), Ok)

    def is_there():
        with connect(onramp, without, schema="onramp_app") as late:
            return late.value("SELECT COUNT(*) FROM untracked FOR UPDATE") == b"1"

    until(is_there, onramp.log_text)


def test_a_replica_without_them_is_not_read_from(cluster, start):
    relay = Without(cluster.servers[1], SESSION_TRACK)
    near, _, far = cluster.backends(*SERVICE)
    onramp = start(backend=[near, f"mysql://{SERVICE[0]}:{SERVICE[1]}@{relay.host}:{relay.port}/", far])
    try:
        until_in_use(onramp, [1, 0, 0])
        with raw.connect(onramp, schema="onramp_app") as client:
            until(lambda: server_of(client) == 3, "reads do not go to the other replica")
            # Another worker than that of this client may come to it later, and the table says so.
            until_seen(onramp, "unreadable_for", ["primary", "no_trackers", None])
            assert {server_of(client) for _ in range(20)} == {3}
    finally:
        relay.close()
