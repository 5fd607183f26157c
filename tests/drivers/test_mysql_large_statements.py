"""Statements of more than a packet, with query attributes and without, in front of a MySQL server, which finds the attributes in
front of each text.

As test_mysql: skipped without a server.
"""

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.onramp import Onramp
from test_mysql import onramp, server  # noqa: F401 (fixtures)
from test_mysql_attributes import ask, attributes, client  # noqa: F401 (a fixture)

pytestmark = [private_mysql.needed, private_mysql.since(8, 0, 23)]

FRONT, BACK = "SELECT LENGTH('", "')"
NONE, ONE = b"\x00\x01", b"\x01\x01\x00\x01\xfe\x00\x01n\x05value"


@pytest.fixture(scope="module")
def large(server, folder):  # noqa: F811
    onramp = Onramp(server, folder, max_allowed_packet="64MiB").start()
    yield onramp
    onramp.stop()


@pytest.mark.parametrize("attributes", [None, NONE, ONE], ids=["without", "none", "one"])
def test_lengths_around_a_packet(large, attributes):
    """The text alone, the text with what goes in front of it, or neither fits into one packet."""
    capabilities = raw.USUAL | (raw.QUERY_ATTRIBUTES if attributes else 0)
    with raw.connect(large, capabilities=capabilities) as client:
        for payload in [raw.MAX_PAYLOAD + more for more in (-4, -3, -2, -1, 0, 1, 3_000_000)]:
            text = payload - 1 - len(attributes or b"")
            length = text - len(FRONT) - len(BACK)
            client.sequence = 0
            client.send(bytes([raw.QUERY]) + (attributes or b"") + f"{FRONT}{'x' * length}{BACK}".encode())
            assert client.result().rows == [(str(length).encode(),)], payload
        assert client.value((attributes or b"") + b"SELECT 'still here'") == b"still here"


@pytest.mark.parametrize("length", [70_000, raw.MAX_PAYLOAD - 80, raw.MAX_PAYLOAD - 25, raw.MAX_PAYLOAD, 17 << 20])
def test_a_large_text(client, note, length):  # noqa: F811
    connection = client()
    for block in (attributes([("n", "value"), ("other", None)]), NONE):
        note(length, ask(connection, f"SELECT LENGTH('{'x' * length}')", block))
        note("behind it", ask(connection, "SELECT 1", block))
        note("an error", ask(connection, f"SELECT missing, '{'x' * length}'", block))
