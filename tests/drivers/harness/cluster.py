"""Several servers. Of MariaDB, with one that the others replicate from, by GTIDs and semi-synchronously: what was acknowledged is on a replica."""

import sys

import pymysql

from . import raw
from .server import ADMIN, SERVICE, Server
from .waiting import until

# A commit is acknowledged when a replica has it, and waits for that for as long as it takes.
REPLICATION = [
    "--log-bin=log", "--binlog-format=ROW", "--log-slave-updates", "--rpl-semi-sync-master-enabled=ON",
    "--rpl-semi-sync-slave-enabled=ON", "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
    "--rpl-semi-sync-master-timeout=100000000", "--rpl-semi-sync-master-wait-no-slave=OFF", "--slave-net-timeout=5",
]

# What an operator's program does: the first argument is the primary's address, the second that of the new one.
CHANGE = f"""#!{sys.executable}
import os, sys, time
import pymysql

assert not any(name.startswith("ONRAMP_") for name in os.environ), "it has got Onramp's own variables"

def order(address, *statements):
    host, port = address.split(":")
    with pymysql.connect(host=host, port=int(port), user="{ADMIN[0]}", password="{ADMIN[1]}") as admin, admin.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchone()

former, new = sys.argv[1:]
order(former, "SET GLOBAL read_only = 1")
position = order(former, "SELECT @@global.gtid_binlog_pos")
while order(new, "SELECT @@global.gtid_binlog_pos") != position:
    time.sleep(0.01)
order(new, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")
print("promoted", new)
"""


class Servers:
    """By their numbers from 0, whatever they are to each other."""

    def __init__(self, servers):
        self.servers = servers

    def order(self, number, *statements):
        """Statements of the administrator's, whom read_only does not hold; where the server has a network of its own, at its console."""
        server = self.servers[number]
        with raw.connect(server, *ADMIN, socket_path=server.socket if server.place else None) as admin:
            for statement in statements:
                answer = admin.query(statement)
                assert not isinstance(answer, raw.Err), (statement, answer)
        return answer

    def value(self, number, statement):
        return self.order(number, statement).rows[0][0]

    def stored(self, number):
        """The markers that a server has."""
        return {int(row[0]) for row in self.order(number, "SELECT id FROM onramp_app.markers").rows}

    def backends(self, service, password):
        """What `--backend` is given, once for each."""
        return [f"mysql://{service}:{password}@{server.host}:{server.port}/" for server in self.servers]

    def discard(self):
        for server in self.servers:
            server.discard()


class Cluster(Servers):
    """The first is the primary at the start."""

    # What is said to each beyond that.
    options = ()

    def __init__(self, folder, template, count=2, places=None):
        """`places` are those of harness/network.py, one for each, where they are not to have this machine's network."""
        super().__init__([Server(folder, template=template, place=place) for place in places or [None] * count])
        try:
            for number in range(len(self.servers)):
                self.start(number, read_only=number > 0)
            for number in range(1, len(self.servers)):
                self.follow(number, 0)
            self.until_replicas_are_there(len(self.servers) - 1)
        except BaseException:
            self.discard()
            raise

    def hold_markers(self):
        """With the table that loads write into, and the right by which the service account sees who replicates from whom."""
        self.order(0, f"GRANT REPLICA MONITOR ON *.* TO '{SERVICE[0]}'@'%'",
                   "CREATE TABLE onramp_app.markers (id BIGINT PRIMARY KEY) ENGINE=InnoDB")
        self.until_followed()

    def start(self, number, read_only):
        """A server that comes up, or comes back."""
        # A replica that comes back does not go on by itself: whom it follows by then, the test says.
        self.servers[number].start(*REPLICATION, *self.options, f"--server-id={number + 1}", f"--read-only={'ON' if read_only else 'OFF'}",
                                   "--skip-slave-start")

    def follow(self, number, primary):
        """A server replicates from another one."""
        user, password = ADMIN
        self.order(
            number,
            f"CHANGE MASTER TO MASTER_HOST='{self.servers[primary].host}', MASTER_PORT={self.servers[primary].inner_port}, MASTER_USER='{user}', "
            f"MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1",
            "START SLAVE")

    def until_replicas_are_there(self, count, primary=0):
        status = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'RPL_SEMI_SYNC_MASTER_CLIENTS'"
        until(lambda: int(self.value(primary, status)) == count, "the replicas do not come")

    def until_followed(self, number=1, primary=0):
        """Until a replica has all that the primary has."""
        position = self.value(primary, "SELECT @@global.gtid_binlog_pos")
        until(lambda: self.value(number, "SELECT @@global.gtid_binlog_pos") == position, "the replica does not follow")

    def promote(self, number):
        """What a script for failover does: the server carries out all that it has got, and takes writes from then on."""
        until(lambda: self.has_carried_out_all(number), "it does not come to the end of what it has got")
        self.order(number, "STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0")

    def has_carried_out_all(self, number):
        user, password = ADMIN
        # By the socket, as `order`.
        with pymysql.connect(unix_socket=self.servers[number].socket, user=user, password=password) as admin:
            with admin.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute("SHOW SLAVE STATUS")
                row = cursor.fetchone()
        return row["Read_Master_Log_Pos"] == row["Exec_Master_Log_Pos"] and row["Slave_SQL_Running"] == "Yes"
