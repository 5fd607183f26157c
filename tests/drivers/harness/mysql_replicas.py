"""A primary of MySQL with replicas, by GTIDs; semi-synchronously where the server brings that: then what was acknowledged is on a replica."""

from .cluster import Servers
from .mysql import MySqlServer, has_plugin
from .server import ADMIN
from .waiting import until

SEMI_SYNC = "semisync_source"


class MySqlReplicas(Servers):
    """The first is the primary at the start."""

    def __init__(self, folder, count=3):
        super().__init__([MySqlServer(folder) for _ in range(count)])
        self.is_lossless = has_plugin(SEMI_SYNC)
        try:
            for number, server in enumerate(self.servers):
                # The copy of a folder has the id of the server that it was made for.
                (server.data / "auto.cnf").unlink(missing_ok=True)
                self.start(number, read_only=number > 0)
            for number in range(1, count):
                self.follow(number, 0)
        except BaseException:
            self.discard()
            raise

    def start(self, number, read_only):
        """A server that comes up, or comes back; a replica then waits for the test to say whom it follows."""
        waits = []
        if self.is_lossless:
            waits = ["--plugin-load-add=semisync_source.so", "--plugin-load-add=semisync_replica.so", "--loose-rpl-semi-sync-source-enabled=ON",
                     "--loose-rpl-semi-sync-replica-enabled=ON", "--loose-rpl-semi-sync-source-timeout=100000000",
                     "--loose-rpl-semi-sync-source-wait-no-replica=OFF"]
        self.servers[number].start("--log-bin=log", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", f"--server-id={number + 1}",
                                   f"--super-read-only={'ON' if read_only else 'OFF'}", "--skip-replica-start", "--replica-net-timeout=5", *waits)

    def follow(self, number, primary):
        """A server replicates from another one."""
        user, password = ADMIN
        source = self.servers[primary]
        self.order(number, "STOP REPLICA", f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{source.host}', SOURCE_PORT = {source.inner_port}, SOURCE_USER = '{user}', "
                           f"SOURCE_PASSWORD = '{password}', SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, GET_SOURCE_PUBLIC_KEY = 1",
                   "START REPLICA")

    def until_followed(self, number=1, primary=0):
        """Until a replica has all that the primary has."""
        position = self.value(primary, "SELECT @@global.gtid_executed").decode()
        has_all = f"SELECT GTID_SUBSET('{position}', @@global.gtid_executed)"
        until(lambda: self.value(number, has_all) == b"1", "the replica does not follow")

    def promote(self, number):
        """What a script for failover does: the server carries out all that it has got, and takes writes from then on."""
        status = "SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = ''"
        received = self.value(number, status).decode()
        until(lambda: self.value(number, f"SELECT GTID_SUBSET('{received}', @@global.gtid_executed)") == b"1", "it does not carry out what it has got")
        self.order(number, "STOP REPLICA", "RESET REPLICA ALL", "SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF")
