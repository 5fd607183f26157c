"""Two MariaDB that Onramp's checks take for instances of Aurora: a relay in front of each has other names for three things in what passes.

Each name gives way to one of the same length, so that no packet changes its length:

- the table of instances, which a server gets in a schema of its own,
- the variable with the instance's name, for which stands one that says nothing while Galera is off,
- `innodb_read_only`, which cannot be changed while a server runs, for which stands one that only changes how the binary log is written.

The servers replicate as any two MariaDB: what one of them has the other one gets.
"""

from .cluster import Cluster
from .relay import Relay
from .server import SERVICE

NAMES = {
    b"information_schema.replica_host_status": b"onramp_aurora_rows.replica_host_status",
    b"aurora_server_id": b"wsrep_notify_cmd",
    b"innodb_read_only": b"log_bin_compress",
}

WRITER = "MASTER_SESSION_ID"

# Seconds, of how old a row is. One that comes all the time is one that says it was written later than any test lasts.
COMES = -3_600
LONG_AGO = 3_600


class Disguise(Relay):
    """What comes of one packet comes in one piece, on this machine and at this length."""

    def to_server(self, piece):
        for name, other in NAMES.items():
            piece = piece.replace(name, other)
        return piece

    def from_server(self, piece):
        for name, other in list(NAMES.items())[1:]:
            piece = piece.replace(other, name)
        return piece


class Instances(Cluster):
    """Instances of Aurora, for who asks as Onramp's checks do: the first is the writer at the start. What each says of all, tests say."""

    def __init__(self, folder, template):
        self.names = ["instance-1", "instance-2"]
        self.relays = []
        super().__init__(folder, template)
        try:
            self.hold_markers()
            for number in range(2):
                self.order(number, "SET sql_log_bin = 0", "CREATE SCHEMA onramp_aurora_rows",
                           f"GRANT SELECT ON onramp_aurora_rows.* TO '{SERVICE[0]}'@'%'",
                           "CREATE TABLE onramp_aurora_rows.replica_host_status (SERVER_ID VARCHAR(100) PRIMARY KEY, SESSION_ID VARCHAR(100),"
                           " LAST_UPDATE_TIMESTAMP DATETIME(6), REPLICA_LAG_IN_MILLISECONDS DOUBLE) ENGINE=InnoDB")
            self.relays = [Disguise(server) for server in self.servers]
        except BaseException:
            self.discard()
            raise

    def start(self, number, read_only):
        self.options = [f"--wsrep-notify-cmd={self.names[number]}"]
        super().start(number, read_only)

    def backends(self, service, password):
        return [f"mysql://{service}:{password}@{relay.host}:{relay.port}/" for relay in self.relays]

    def hear(self, number, *rows):
        """An instance has these rows from now on. Of each: the number of the instance that it is about, by how many milliseconds that is behind
        (None for the writer), and how old the row is."""
        values = []
        for instance, lag, age in rows:
            session = WRITER if lag is None else f"session-{instance}"
            values.append(f"('{self.names[instance]}', '{session}', UTC_TIMESTAMP(6) - INTERVAL {age} SECOND, {lag or 0})")
        self.order(number, "SET sql_log_bin = 0", "BEGIN", "DELETE FROM onramp_aurora_rows.replica_host_status",
                   f"INSERT INTO onramp_aurora_rows.replica_host_status VALUES {', '.join(values)}", "COMMIT")

    def can_write(self, number, can):
        """What an instance says of itself: a reader of Aurora cannot write, whatever read_only says."""
        self.order(number, f"SET GLOBAL log_bin_compress = {'OFF' if can else 'ON'}")

    def discard(self):
        for relay in self.relays:
            relay.close()
        super().discard()
