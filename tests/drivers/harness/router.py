"""MySQL Router in front of a group (harness/group.py), by the metadata of an InnoDB Cluster.

MySQL Shell would write these metadata and have the Router configure itself by them. It is in no package of Debian's, so that what the Router reads
of them (the statements are in its libraries, libmysqlrouter_metadata_cache and libmysqlrouter_cluster) is made here by hand, and so is its
configuration, with the values that it gives itself (`mysqlrouter --bootstrap`): the metadata are read twice a second.
"""

import json
import signal
import socket
import subprocess
from pathlib import Path

from . import mysql
from .group import GROUP
from .server import free_port
from .waiting import PATIENCE, until

NAME = "onramp"
ACCOUNT = ("router", "router-secret")
SCHEMA = "mysql_innodb_cluster_metadata"
CLUSTER = "6b9c0a0e-0000-11ee-8000-000000000002"

# Of version 2.2.0 of the metadata; what is empty there is empty here. Members of a group accept no writes to tables without a primary key.
METADATA = [
    f"CREATE DATABASE {SCHEMA}",
    f"CREATE VIEW {SCHEMA}.schema_version AS SELECT 2 AS major, 2 AS minor, 0 AS patch",
    f"CREATE VIEW {SCHEMA}.v2_gr_clusters AS SELECT 'gr' AS cluster_type, 'pm' AS primary_mode, '{CLUSTER}' AS cluster_id, '{NAME}' AS cluster_name, "
    f"'{GROUP}' AS group_name, CAST('{{}}' AS JSON) AS attributes, CAST('{{}}' AS JSON) AS router_options",
    f"CREATE VIEW {SCHEMA}.v2_clusters AS SELECT * FROM {SCHEMA}.v2_gr_clusters",
    f"CREATE TABLE {SCHEMA}.v2_instances (instance_id INT PRIMARY KEY, cluster_id CHAR(36) NOT NULL, label TEXT, mysql_server_uuid CHAR(36), "
    "address TEXT, endpoint TEXT, xendpoint TEXT, attributes JSON)",
    f"CREATE VIEW {SCHEMA}.v2_this_instance AS SELECT i.cluster_id, i.instance_id, c.cluster_name, c.cluster_type FROM {SCHEMA}.v2_instances i "
    f"JOIN {SCHEMA}.v2_clusters c ON i.cluster_id = c.cluster_id WHERE i.mysql_server_uuid = "
    "(SELECT variable_value FROM performance_schema.global_variables WHERE variable_name = 'server_uuid')",
    f"CREATE TABLE {SCHEMA}.v2_routers (router_id INT PRIMARY KEY, router_name TEXT, product_name TEXT, address TEXT, version TEXT, "
    "last_check_in TIMESTAMP NULL, attributes JSON, options JSON, cluster_id CHAR(36), clusterset_id CHAR(36))",
    f"INSERT INTO {SCHEMA}.v2_routers (router_id, router_name, product_name, address, cluster_id) VALUES (1, '{NAME}', 'MySQL Router', '127.0.0.1', '{CLUSTER}')",
    f"CREATE VIEW {SCHEMA}.v2_router_options AS SELECT router_id, CAST('{{}}' AS JSON) AS router_options FROM {SCHEMA}.v2_routers",
    f"CREATE TABLE {SCHEMA}.v2_cs_members (clusterset_id CHAR(36), cluster_id CHAR(36) PRIMARY KEY, member_role TEXT, invalidated INT)",
    f"CREATE TABLE {SCHEMA}.v2_cs_clustersets (clusterset_id CHAR(36) PRIMARY KEY, domain_name TEXT, view_id INT)",
    f"CREATE TABLE {SCHEMA}.v2_router_rest_accounts (cluster_id CHAR(36) PRIMARY KEY, user TEXT, authentication_string TEXT, privileges JSON, "
    "authentication_method TEXT)",
    f"CREATE USER '{ACCOUNT[0]}'@'%' IDENTIFIED BY '{ACCOUNT[1]}'",
    f"GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON {SCHEMA}.* TO '{ACCOUNT[0]}'@'%'",
    f"GRANT SELECT ON performance_schema.* TO '{ACCOUNT[0]}'@'%'",
]

CONFIGURATION = """
[DEFAULT]
name={name}
plugin_folder={plugins}
logging_folder=
runtime_folder={folder}
data_folder={folder}
keyring_path={folder}/keyring
master_key_path={folder}/master-key
dynamic_state={folder}/state.json
max_total_connections={clients}

[logger]
level=info

[metadata_cache:{name}]
cluster_type=gr
router_id=1
user={account}
metadata_cluster={name}
ttl=0.5
use_gr_notifications={notified}

[routing:writes]
bind_address=127.0.0.1
bind_port={port}
destinations=metadata-cache://{name}/?role=PRIMARY
routing_strategy=first-available
protocol=classic
client_ssl_mode=PASSTHROUGH
server_ssl_mode=AS_CLIENT
"""


def program(name):
    """One of the Router's beside the MySQL server's; None where it is not there."""
    path = mysql.installed() and mysql.installed().home / "usr" / "bin" / name
    return path if path and path.is_file() else None


def missing():
    """What keeps a Router from being had; None where one is."""
    return None if program("mysqlrouter") else "MYSQL_HOME names no folder with usr/bin/mysqlrouter"


class Router:
    """One `mysqlrouter` process: clients of its port come to the primary of the group, each by a connection of its own."""

    def __init__(self, cluster, folder, clients):
        self.folder = Path(folder) / "router"
        self.folder.mkdir()
        self.host, self.port = "127.0.0.1", free_port()
        self.log = self.folder / "log"
        self.process = None
        self._describe(cluster)
        self._configure(cluster, clients)

    def _describe(self, cluster):
        """Writes the metadata, where they replicate from."""
        instances = [
            (number, CLUSTER, address, cluster.value(number, "SELECT @@server_uuid").decode(), address, address)
            for number, address in enumerate(f"{server.host}:{server.port}" for server in cluster.servers)]
        rows = ", ".join(f"({number}, '{cluster_id}', '{label}', '{uuid}', '{address}', '{endpoint}', '', '{{}}')"
                         for number, cluster_id, label, uuid, address, endpoint in instances)
        cluster.order(0, *METADATA, f"INSERT INTO {SCHEMA}.v2_instances VALUES {rows}")

    def _configure(self, cluster, clients):
        servers = [f"mysql://{server.host}:{server.port}" for server in cluster.servers]
        state = {"metadata-cache": {"group-replication-id": GROUP, "cluster-metadata-servers": servers}, "version": "1.0.0"}
        (self.folder / "state.json").write_text(json.dumps(state))
        plugins = mysql.installed().home / "usr" / "lib" / "mysqlrouter" / "plugin"
        (self.folder / "configuration").write_text(CONFIGURATION.format(
            name=NAME, plugins=plugins, folder=self.folder, account=ACCOUNT[0], port=self.port, clients=2 * clients, notified=0))
        for order, *arguments in (["init"], ["set", ACCOUNT[0], "password"]):
            command = [*self._command("mysqlrouter_keyring"), order, f"--master-key-file={self.folder}/master-key", str(self.folder / "keyring")]
            done = subprocess.run([*command, *arguments], input=f"{ACCOUNT[1]}\n", capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr

    @staticmethod
    def _command(name):
        return [*mysql.installed().loader(), str(program(name))]

    def start(self):
        """Starts, and waits until it lets a client through."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*self._command("mysqlrouter"), "--config", str(self.folder / "configuration")],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(self._greets, lambda: f"the Router does not come up:\n{self.log_text()[-3000:]}")
        except BaseException:
            self.stop()
            raise
        return self

    def _greets(self):
        assert self.process.poll() is None, self.log_text()[-3000:]
        try:
            with socket.create_connection((self.host, self.port), timeout=PATIENCE) as probe:
                return probe.recv(5)[4:5] == b"\x0a"
        except OSError:
            return False

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
