"""Three MySQL servers as members of one group (Group Replication), of which one writes."""

from .cluster import Servers
from .mysql import MySqlServer, has_plugin
from .raw import Closed
from .server import ADMIN, free_port
from .waiting import until

GROUP = "6b9c0a0e-0000-11ee-8000-000000000001"
PLUGIN = "group_replication"
MEMBERS = "SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid"
WRITES = f"{MEMBERS} AND MEMBER_STATE = 'ONLINE' AND MEMBER_ROLE = 'PRIMARY' AND NOT @@super_read_only"


def missing():
    """What keeps a group from being had; None where one is."""
    return None if has_plugin(PLUGIN) else "MYSQL_HOME names no MySQL server with group_replication.so"


class Group(Servers):
    """The first is the primary at the start."""

    # What is said to each beyond that.
    options = ()

    def __init__(self, folder, count=3):
        super().__init__([MySqlServer(folder) for _ in range(count)])
        self.ports = [free_port() for _ in self.servers]
        try:
            self.come_together()
        except BaseException:
            self.discard()
            raise

    def come_together(self):
        for number, server in enumerate(self.servers):
            # The copy of a folder has the id of the server that it was made for.
            (server.data / "auto.cnf").unlink(missing_ok=True)
            self.start(number)
        for number in range(len(self.servers)):
            user, password = ADMIN
            self.order(
                number, "SET sql_log_bin = 0",
                f"CHANGE REPLICATION SOURCE TO SOURCE_USER = '{user}', SOURCE_PASSWORD = '{password}' FOR CHANNEL 'group_replication_recovery'")
            self.join(number, begin=number == 0)

    def start(self, number):
        seeds = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        options = {
            "group-name": GROUP, "local-address": f"127.0.0.1:{self.ports[number]}", "group-seeds": seeds, "start-on-boot": "OFF",
            "communication-stack": "XCOM", "ip-allowlist": "127.0.0.1/8", "recovery-get-public-key": "ON",
            # Who is not heard of for five seconds, which is as little as there is, is left out at once.
            "member-expel-timeout": 0, "unreachable-majority-timeout": 1, "autorejoin-tries": 0}
        self.servers[number].start(
            f"--plugin-load-add={PLUGIN}.so", "--log-bin=log", "--gtid-mode=ON", "--enforce-gtid-consistency=ON", f"--server-id={number + 1}",
            "--report-host=127.0.0.1", *self.options, *(f"--loose-group-replication-{name}={value}" for name, value in options.items()))

    def join(self, number, begin=False):
        """A member joins, or begins the group."""
        if begin:
            self.order(number, "SET GLOBAL group_replication_bootstrap_group = ON", "START GROUP_REPLICATION",
                       "SET GLOBAL group_replication_bootstrap_group = OFF")
        else:
            self.order(number, "START GROUP_REPLICATION")
        until(lambda: self.state(number) == "ONLINE", lambda: f"it does not come into the group:\n{self.servers[number].log.read_text()[-3000:]}")

    def state(self, number):
        """A member's own."""
        return self.value(number, MEMBERS).decode()

    def primary(self):
        """The number of the one that takes writes; None while there is none."""
        running = (number for number, server in enumerate(self.servers) if server.running)
        return next((number for number in running if self.order(number, WRITES).rows), None)

    def come_back(self, number):
        """A member that the others have left out joins them again."""
        until(lambda: self.is_left_out(number), "it does not hear that the others have left it out")
        self.order(number, "STOP GROUP_REPLICATION", "SET GLOBAL offline_mode = OFF")
        self.join(number)

    def is_left_out(self, number):
        """Whether it knows, and has gone offline for that: who logs in while it does is thrown out."""
        try:
            return self.value(number, "SELECT @@offline_mode") == b"1" and self.state(number) == "ERROR"
        except Closed:
            return False
