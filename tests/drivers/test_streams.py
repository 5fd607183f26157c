"""What drivers and ORMs say of their own accord pins nobody. `python test_streams.py`, with ONRAMP_BIN set, prints what share of
each stream is multiplexed (docs/BENCHMARKS.md)."""

import os
import sys
import tempfile

import pytest

from harness import raw
from harness.counted import Counted
from harness.server import Server, make_template
from harness.streams import CREATE, STREAMS, Player

# More clients than backends, and enough units of work that what is said once does not count for much.
CLIENTS, BACKENDS, UNITS = 20, 4, 25

COUNTS = ("Onramp_statements_multiplexed", "Onramp_statements_in_transactions", "Onramp_statements_pinned", "Onramp_sets_answered",
          "Onramp_statements_doubtful")


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
def test_no_stream_pins(server, folder, template_with_things, stream):
    assert pinned_by(server, folder, stream) == (0, [], 0)


def pinned_by(server, folder, stream):
    """How many statements of it are pinned, the reasons, and how many statements are doubtful."""
    counted = Counted(server, folder, max_backends=BACKENDS).start()
    try:
        play(counted, stream, 2)
        counts, reasons = counted.counts(COUNTS), counted.pin_reasons()
    finally:
        counted.stop()
    return counts[2], reasons, counts[4]


def test_a_rehearsal_tells_what_would_pin(server, folder, template_with_things):
    """With a backend for each client, the counts are those of a pool."""
    # Each client has a backend of its own for as long as it is there.
    counted = Counted(server, folder, thread_handling="one-thread-per-connection", max_backends=CLIENTS).start()
    try:
        with raw.connect(counted) as connection:
            for text in ("SET NAMES utf8mb4", "SELECT 1", "BEGIN", "SELECT id FROM onramp_app.things LIMIT 1", "COMMIT", "SET ROLE NONE", "SELECT 2", "SELECT 3", "BEGIN NOT ATOMIC DO 1; END"):
                assert not isinstance(connection.query(text), raw.Err)
        counts, reasons = counted.counts(COUNTS), counted.pin_reasons()
    finally:
        counted.stop()
    # The statement that pins is still multiplexed itself; BEGIN is the server's here, and COMMIT is in the transaction.
    assert (counts, reasons) == ([4, 2, 3, 0, 1], ["role", "unknown"])


def report():
    """A row for each stream, as Markdown."""
    with tempfile.TemporaryDirectory(prefix="onramp-streams-") as folder:
        server = Server(folder, template=make_template(folder)).start()
        try:
            with raw.connect(server, schema="onramp_app") as connection:
                connection.query(CREATE)
            print("| driver | on any backend | in a transaction | pinned | SETs without a backend, of all statements | doubtful |\n|---|--:|--:|--:|--:|--:|")
            for stream in STREAMS:
                counted = Counted(server, folder, max_backends=BACKENDS).start()
                try:
                    play(counted, stream, UNITS)
                    multiplexed, within, pinned, answered, doubtful = counted.counts(COUNTS)
                finally:
                    counted.stop()
                everything = multiplexed + within + pinned + answered
                print(f"| {stream.name} | {multiplexed / everything:.1%} | {within / everything:.1%} | {pinned / everything:.1%} | {answered / everything:.1%} | {doubtful / everything:.1%} |",
                      flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(report())
