"""What drivers and ORMs say of their own accord pins nobody. `python test_streams.py`, with ONRAMP_BIN set, prints what share of
each stream is multiplexed (docs/BENCHMARKS.md)."""

import os
import sys
import tempfile

import pytest

from harness import raw
from harness.onramp import Onramp
from harness.server import Server, free_port, make_template
from harness.streams import CREATE, STREAMS, Player

PASSWORD = "admin-secret"

# More clients than backends, and enough units of work that what is said once does not count for much.
CLIENTS, BACKENDS, UNITS = 20, 4, 25

COUNTS = ("Onramp_statements_multiplexed", "Onramp_statements_in_transactions", "Onramp_statements_pinned", "Onramp_sets_answered",
          "Onramp_statements_doubtful")


class Counted:
    """An Onramp whose counts are read from its admin port."""

    def __init__(self, server, folder, **options):
        self.host, self.port = "127.0.0.1", free_port()
        self.onramp = Onramp(server, folder, admin_listen=f"{self.host}:{self.port}", **options).start()

    def counts(self):
        """The counts by their names, and the reasons to pin that there have been."""
        with raw.connect(self, "admin", PASSWORD) as admin:
            found = dict(admin.query("SELECT variable_name, variable_value FROM status").rows)
            reasons = admin.query("SELECT reason FROM pins WHERE times > 0").rows
        return [int(found[name.encode()]) for name in COUNTS], [reason.decode() for reason, in reasons]

    def stop(self):
        self.onramp.stop()


def play(onramp, stream, units):
    """All clients connect, then take turns."""
    players = [Player(onramp, stream) for _ in range(CLIENTS)]
    for player in players:
        player.say(stream.connect)
    for _ in range(units):
        for player in players:
            player.say(stream.work)
    for player in players:
        player.close()


@pytest.fixture(scope="module")
def template_with_things(server):
    with raw.connect(server, schema="onramp_app") as connection:
        connection.query(CREATE)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
def test_no_stream_pins(server, folder, template_with_things, monkeypatch, stream):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    assert pinned_by(server, folder, stream) == (0, [], 0)


def pinned_by(server, folder, stream):
    """How many statements of it are pinned, the reasons, and how many statements are doubtful."""
    counted = Counted(server, folder, max_backends=BACKENDS)
    try:
        play(counted.onramp, stream, 2)
        counts, reasons = counted.counts()
    finally:
        counted.stop()
    return counts[2], reasons, counts[4]


def test_a_rehearsal_tells_what_would_pin(server, folder, template_with_things, monkeypatch):
    """With a backend for each client, the counts are those of a pool."""
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    # Each client has a backend of its own for as long as it is there.
    counted = Counted(server, folder, thread_handling="one-thread-per-connection", max_backends=CLIENTS)
    try:
        with raw.connect(counted.onramp) as connection:
            for text in ("SET NAMES utf8mb4", "SELECT 1", "BEGIN", "SELECT id FROM onramp_app.things LIMIT 1", "COMMIT", "SET ROLE NONE", "SELECT 2", "SELECT 3", "BEGIN NOT ATOMIC DO 1; END"):
                assert not isinstance(connection.query(text), raw.Err)
        counts, reasons = counted.counts()
    finally:
        counted.stop()
    # The statement that pins is still multiplexed itself; BEGIN is the server's here, and COMMIT is in the transaction.
    assert (counts, reasons) == ([4, 2, 3, 0, 1], ["role", "unknown"])


def report():
    """A row for each stream, as Markdown."""
    os.environ["ONRAMP_ADMIN_PASSWORD"] = PASSWORD
    with tempfile.TemporaryDirectory(prefix="onramp-streams-") as folder:
        server = Server(folder, template=make_template(folder)).start()
        try:
            with raw.connect(server, schema="onramp_app") as connection:
                connection.query(CREATE)
            print("| driver | on any backend | in a transaction | pinned | SETs without a backend, of all statements | doubtful |\n|---|--:|--:|--:|--:|--:|")
            for stream in STREAMS:
                counted = Counted(server, folder, max_backends=BACKENDS)
                try:
                    play(counted.onramp, stream, UNITS)
                    (multiplexed, within, pinned, answered, doubtful), _ = counted.counts()
                finally:
                    counted.stop()
                everything = multiplexed + within + pinned + answered
                print(f"| {stream.name} | {multiplexed / everything:.1%} | {within / everything:.1%} | {pinned / everything:.1%} | {answered / everything:.1%} | {doubtful / everything:.1%} |",
                      flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(report())
