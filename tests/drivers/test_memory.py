"""What clients can make the process keep is counted before it is taken."""

import struct

import pytest

from harness import raw
from harness.raw import Err, Ok

# For what a debug build adds, the allocator's and the caches of two statements at a time.
SLACK = 24 << 20


@pytest.fixture
def served(own_onramp, server):
    return own_onramp(server, workers=1, max_allowed_packet="16MiB")


def peak(onramp):
    """The most resident bytes that there have been since [`forget_peak`]."""
    for line in open(f"/proc/{onramp.process.pid}/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM")


def forget_peak(onramp):
    """proc(5), clear_refs: 5 resets the peak to what is resident now."""
    with open(f"/proc/{onramp.process.pid}/clear_refs", "w") as file:
        file.write("5")
    return onramp.memory()


def with_a_long_literal(onramp):
    """A client whose list of tracked variables is as long as it can be, and so what takes the place of its name."""
    client = raw.connect(onramp)
    names = b",".join(row[0] for row in client.query("SHOW VARIABLES").rows)
    assert isinstance(client.query(f"SET session_track_system_variables = '{names.decode()}'"), Ok)
    assert len(client.value("SELECT @@session_track_system_variables")) > 4000
    return client


def too_long(answer):
    return isinstance(answer, Err) and answer.code == 1153 and "'max_allowed_packet'" in answer.message


def too_many(answer):
    return isinstance(answer, Err) and answer.code == 1235 and "131072 calls" in answer.message


@pytest.mark.parametrize("count, refused", [(5_000, too_long), (10_000, too_long), (300_000, too_many)])
def test_names_that_become_long_literals(served, count, refused):
    """Each of 33 bytes becomes one of 4 KB: it is known that this is too long before any of it is written."""
    client = with_a_long_literal(served)
    witness = raw.connect(served)
    text = "SELECT " + ",".join(["@@session_track_system_variables"] * count)
    before = forget_peak(served)
    assert refused(client.query(text))
    assert peak(served) - before < 4 * len(text) + SLACK
    assert witness.value("SELECT 1") == b"1"
    # What fits is answered, and the client goes on.
    assert int(client.value("SELECT LENGTH(@@session_track_system_variables)")) > 4000


def test_prepared_names_that_become_long_literals(served):
    """These become literals where they are executed."""
    client = raw.connect(served)
    calls = ",".join(["ROW_COUNT()"] * 3000)
    prepared = client.prepare(f"SELECT LENGTH('{'x' * 16_740_000}'), CONCAT({calls})")
    assert not isinstance(prepared, Err), prepared
    statement = prepared.statement
    before = forget_peak(served)
    [answer] = client.execute(statement)
    assert too_long(answer)
    assert peak(served) - before < 5 * 16_740_000 + SLACK
    client.forget(statement)
    assert client.value("SELECT 1") == b"1"


def test_a_text_that_needs_another_packet_with_its_literals(own_onramp, server):
    """Its answer is numbered by the packets that the server gets."""
    client = with_a_long_literal(own_onramp(server, workers=1))
    text = f"SELECT LENGTH(CONCAT({','.join(['@@session_track_system_variables'] * 4_300)}))"
    assert int(client.value(text)) > 4000 * 4300
    assert client.value("SELECT 1") == b"1"


@pytest.mark.parametrize("text, slack", [
    ("SET " + ",".join(["@a=1"] * 800_000), 0),
    ("SET " + ",".join(["@@sql_notes=1"] * 300_000), 0),
    # Each is put in the place of a call, whose place has to be known.
    (f"SELECT 1 IN ({','.join(['ROW_COUNT()'] * 100_000)})", 24 << 20),
], ids=["variables of users", "names of variables", "calls"])
def test_what_is_found_in_a_statement(own_onramp, server, text, slack):
    """It is bounded by itself, or by the length of the text."""
    onramp = own_onramp(server, workers=1)
    witness, client = raw.connect(onramp), raw.connect(onramp)
    before = forget_peak(onramp)
    client.query(text)
    assert peak(onramp) - before < 6 * len(text) + SLACK + slack
    assert witness.value("SELECT 1") == b"1"


def test_what_the_server_says_of_a_prepared_statement(own_onramp, server):
    """4,096 columns with names of 256 characters in three bytes each, twice: more than there may be of all answers that are kept."""
    name = "界" * 256
    columns = ",".join([f"`{name}`.a AS `{name}`"] * 4_096)
    text = f"SELECT {columns} FROM (SELECT 1 AS a) AS `{name}`"
    onramp = own_onramp(server, workers=1, held_answer_memory="4MiB", max_backends=1)
    client = raw.connect(onramp, schema="onramp_app")
    assert isinstance(client.query("BEGIN"), Ok)
    client.query("SET @in_transaction = 1")
    refused = client.prepare(text)
    assert isinstance(refused, Err) and refused.code == 1041 and "held_answer_memory = 4194304" in refused.message
    assert client.query("SHOW WARNINGS").rows == [(b"Error", b"1041", refused.message.encode())]
    # It keeps its transaction, and a statement of usual size is prepared on the same backend.
    assert client.value("SELECT @@in_transaction") == b"1"
    assert client.execute(client.prepare("SELECT @in_transaction").statement)[0].rows == [(struct.pack("<q", 1),)]
    prepared = raw.connect(own_onramp(server, workers=1)).prepare(text)
    assert not isinstance(prepared, Err) and len(prepared.columns) == 4_096
