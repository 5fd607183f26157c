"""A primary with two replicas, from which is read."""

from contextlib import contextmanager

from .admin import rows
from .cluster import Cluster
from .waiting import until

SERVER = "SELECT @@global.server_id, value FROM kept"


@contextmanager
def replicated(folder, template):
    """A primary and two replicas, with a table that all of them have."""
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


def server_of(client):
    """The number of the server that answers a read, from 1."""
    return int(client.query(SERVER).rows[0][0])


def until_split(client, wanted=(2, 3)):
    """Until reads go to these servers alone."""
    def goes():
        return {server_of(client) for _ in range(8)} <= set(wanted)
    until(goes, "reads do not go to replicas")


def address(cluster, number):
    return f"127.0.0.1:{cluster.servers[number].port}"


def until_both_are_read(onramp, client):
    """Until both replicas have answered reads of this client's."""
    def read():
        until_split(client)
        return rows(onramp, "SELECT COUNT(*) AS few FROM servers WHERE readable AND reads > 0 AND data_age_us IS NOT NULL")[0]["few"] == 2
    until(read, lambda: rows(onramp, "SELECT * FROM servers"))
