"""Instances of Aurora, as far as two MariaDB can stand for them (harness/aurora.py): who writes, who is read from, and a failover."""

import pytest

from harness import raw, several
from harness.admin import rows
from harness.aurora import COMES, LONG_AGO, Instances
from harness.raw import Ok
from harness.reads import server_of, until_split
from harness.several import until_in_use, until_seen
from harness.waiting import in_background, until

# The writer, and its reader, 20 ms behind.
FIRST_WRITES = [(0, None, COMES), (1, 20, COMES)]


@pytest.fixture
def instances(folder, template):
    instances = Instances(folder, template)
    try:
        for number in (0, 1):
            instances.hear(number, *FIRST_WRITES)
        instances.can_write(1, False)
        yield instances
    finally:
        instances.discard()


def found(onramp):
    return rows(onramp, "SELECT * FROM servers")


def write(client, marker):
    answer = client.query(f"INSERT INTO markers VALUES ({marker})")
    assert isinstance(answer, Ok), answer


def test_the_writer_and_its_reader_are_found(instances, own_onramp, monkeypatch):
    onramp = several.start(own_onramp, monkeypatch, instances)
    until_in_use(onramp, [1, 0])
    writer, reader = found(onramp)
    assert (writer["role"], writer["writable"], writer["reason"]) == ("primary", 1, "the writer of Aurora")
    assert (reader["role"], reader["writable"], reader["reason"]) == ("replica", 0, "a reader of Aurora, whose writer is instance-1")
    assert [row["identity"] for row in (writer, reader)] == ["aurora instance-1", "aurora instance-2"]
    assert (writer["lag_seconds"], reader["lag_seconds"]) == (None, 0)
    with raw.connect(onramp, schema="onramp_app") as client:
        write(client, 1)
    instances.hear(1, (0, None, COMES), (1, 900_000, COMES))
    until_seen(onramp, "lag_seconds", [None, 900])
    instances.hear(1, (0, None, COMES))
    until_seen(onramp, "lag_seconds", [None, None])
    # Rows of instances that are gone, and of the cluster that this one is a copy of.
    instances.names += ["gone", "copied"]
    for number in (0, 1):
        instances.hear(number, (2, 900_000, LONG_AGO), (3, None, LONG_AGO), *FIRST_WRITES)
    until_seen(onramp, "lag_seconds", [None, 0])
    assert [row["role"] for row in found(onramp)] == ["primary", "replica"]


def test_nobody_writes_on_a_former_writer_that_takes_writes_for_a_while(instances, own_onramp, monkeypatch):
    onramp = several.start(own_onramp, monkeypatch, instances)
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        write(client, 1)
        # The new one knows of both, and the former one has not heard of it.
        instances.promote(1)
        instances.can_write(1, True)
        instances.hear(1, (0, None, 5), (1, None, COMES))
        until_in_use(onramp, [0, 0])
        waiting = in_background(write, client, 2)
        until(lambda: rows(onramp, "SELECT * FROM clients WHERE state = 'queued'"), lambda: rows(onramp, "SELECT * FROM clients"))
        # It has heard of it, and goes on to take writes.
        instances.hear(0, (0, None, 5), (1, None, COMES))
        until_in_use(onramp, [0, 1])
        waiting()
        former, writer = found(onramp)
        assert (former["role"], former["writable"]) == ("replica", 0)
        assert former["reason"] == "innodb_read_only is off, but the writer of Aurora is instance-2 (replica_host_status)"
        assert (writer["role"], writer["reason"]) == ("primary", "the writer of Aurora")
        write(client, 3)
        assert instances.value(0, "SELECT @@global.read_only") == b"0", "it does not take writes"
        # It is started anew, as a reader.
        instances.can_write(0, False)
        instances.hear(0, (0, 20, COMES), (1, None, COMES))
        until_seen(onramp, "reason", ["a reader of Aurora, whose writer is instance-2", "the writer of Aurora"])
        write(client, 4)
    assert (instances.stored(0), instances.stored(1)) == ({1}, {1, 2, 3, 4})


def test_a_reader_whose_row_does_not_come_is_not_read_from(instances, own_onramp, monkeypatch):
    instances.order(0, "CREATE TABLE onramp_app.kept (id BIGINT PRIMARY KEY, value BIGINT) ENGINE=InnoDB", "INSERT INTO onramp_app.kept VALUES (1, 0)")
    instances.until_followed()
    onramp = several.start(own_onramp, monkeypatch, instances, read_split="replicas")
    until_in_use(onramp, [1, 0])
    writer = (0, None, COMES)
    with raw.connect(onramp, schema="onramp_app") as client:
        for own in ([(1, 20, LONG_AGO)], [], [(1, 900_000, COMES)], [(1, None, COMES)], [(1, 20, 60)]):
            instances.hear(1, writer, (1, 20, COMES))
            until_split(client, wanted=(2,))
            instances.hear(1, writer, *own)
            until(lambda: found(onramp)[1]["unreadable_for"] == "apart", lambda: found(onramp))
            assert [server_of(client) for _ in range(8)] == [1] * 8, own
        # How old a read may be is the operator's to say.
        rows(onramp, "SET GLOBAL replica_max_lag = '1h'")
        until_split(client, wanted=(2,))
