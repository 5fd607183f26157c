"""Servers from which is read: a primary with two replicas, and what clients do there."""

import functools
import threading
from contextlib import contextmanager

import pytest

from . import raw, several
from .admin import rows
from .cluster import Cluster
from .raw import Closed, Err, Ok
from .server import ADMIN
from .waiting import until

SERVER = "SELECT @@global.server_id, value FROM kept"

# A replica that does not get on is waited for, however long it takes: see `holding`.
BEHIND_IS_READ = {"read_wait_limit": "1h", "replica_max_lag": "1h"}


@pytest.fixture
def cluster(folder, template):
    """A primary and two replicas of the test's own, with a table that all of them have."""
    cluster = Cluster(folder, template, count=3)
    try:
        cluster.hold_markers()
        cluster.order(0, "CREATE TABLE onramp_app.kept (id BIGINT PRIMARY KEY, value BIGINT) ENGINE=InnoDB",
                      "INSERT INTO onramp_app.kept VALUES (1, 0)")
        for number in (1, 2):
            cluster.until_followed(number)
        yield cluster
    finally:
        cluster.discard()


@pytest.fixture
def start(cluster, own_onramp, monkeypatch):
    """In front of all of them, with reads on replicas. None is down as long as it answers at all, however busy the machine is."""
    return functools.partial(several.start, own_onramp, monkeypatch, cluster, workers=2, read_split="replicas", server_check_timeout="30s")


@contextmanager
def holding(server, table="kept"):
    """While a server carries out nothing of what it gets for a table: an administrator reads that, so that writes wait. Other readers go on.

    To its checks it is a replica as before; with a thread stopped it would be none from the next check on, and not be waited for.
    """
    with raw.connect(server, *ADMIN, schema="onramp_app") as admin:
        answer = admin.query(f"LOCK TABLES {table} READ")
        assert isinstance(answer, Ok), answer
        yield


class Sessions:
    """Clients that write, each into a row of its own, and read what they have written."""

    def __init__(self, onramp, clients=12):
        self.onramp, self.ends = onramp, threading.Event()
        self.stale, self.errors, self.checks = [], [], [0] * clients
        self.threads = [threading.Thread(target=self.run, args=(place,), daemon=True) for place in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self, place):
        # What the row may hold: more than one value where nobody knows whether a write has happened.
        number, may_be = 0, None
        while not self.ends.is_set():
            try:
                with raw.connect(self.onramp, schema="onramp_app") as client:
                    while not self.ends.is_set():
                        number += 1
                        row = 100 + place
                        answer = client.query(f"REPLACE INTO kept VALUES ({row}, {number})")
                        if isinstance(answer, Ok):
                            may_be = {number}
                        elif may_be is not None:
                            may_be.add(number)
                        found = client.query(f"SELECT value FROM kept WHERE id = {row}")
                        if isinstance(found, Err):
                            self.errors.append(found)
                        elif may_be is not None and not (found.rows and int(found.rows[0][0]) in may_be):
                            self.stale.append((row, may_be, found.rows))
                        self.checks[place] += 1
            except (Closed, OSError):
                # The next connection is another session, to which nothing is promised of what this one has written.
                may_be = None

    def until_more(self, count):
        before = list(self.checks)
        until(lambda: all(now >= then + count for now, then in zip(self.checks, before)), lambda: f"no more checks: {self.checks}")

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()


def server_of(client):
    """The number of the server that answers a read, from 1."""
    return int(client.query(SERVER).rows[0][0])


def until_split(client, wanted=(2, 3)):
    """Until reads go to these servers alone."""
    def goes():
        return {server_of(client) for _ in range(8)} <= set(wanted)
    until(goes, "reads do not go to replicas")


def until_waiting(onramp, count=1):
    """Until so many reads wait for a replica, or are there."""
    until(lambda: len(rows(onramp, "SELECT * FROM clients WHERE state = 'on_replica'")) == count, f"not {count} wait")


def address(cluster, number):
    return f"127.0.0.1:{cluster.servers[number].port}"


def until_both_are_read(onramp, client):
    """Until both replicas have answered reads of this client's."""
    def read():
        until_split(client)
        return rows(onramp, "SELECT COUNT(*) AS few FROM servers WHERE readable AND reads > 0 AND data_age_us IS NOT NULL")[0]["few"] == 2
    until(read, lambda: rows(onramp, "SELECT * FROM servers"))
