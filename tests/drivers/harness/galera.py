"""Three MariaDB servers as nodes of one Galera (Debian's package galera-4)."""

from pathlib import Path

from .cluster import Servers
from .server import Server, free_port
from .waiting import until

PROVIDERS = [Path("/usr/lib/galera/libgalera_smm.so"), Path("/usr/lib64/galera-4/libgalera_smm.so"), Path("/usr/lib64/galera/libgalera_smm.so")]

# The cluster by a number of its own, so that all nodes begin with the same data without a transfer.
CLUSTER = "6b9c0a0e-0000-11ee-8000-000000000001"

# A node that is not heard of for five seconds has gone, as by default: one that a busy machine holds up for a moment has not.
PROVIDER = ("gcache.size=16M;evs.keepalive_period=PT0.2S;evs.inactive_check_period=PT0.1S;evs.suspect_timeout=PT5S;evs.inactive_timeout=PT10S;"
            "evs.install_timeout=PT10S;evs.join_retrans_period=PT0.2S;pc.recovery=false")

# How a node gets its data from another one, on both sides, by the protocol of the server's own scripts (wsrep_sst_rsync): a node that joins
# has all but the last transactions, which Galera sends by itself, and needs to be told up to where.
TRANSFER = """#!/bin/sh
set -eu
while [ $# -gt 0 ]; do
  case "$1" in
    --role | --address | --gtid | --datadir) eval "${1#--}=\\$2"; shift ;;
    --bypass) bypass=yes ;;
    --mysqld-args) break ;;
  esac
  shift
done
if [ "$role" = joiner ]; then
  pipe="${datadir%/}/transfer"
  rm -f "$pipe"
  mkfifo "$pipe"
  echo "ready $address$pipe"
  exec cat "$pipe"
fi
[ "${bypass:-no}" = yes ] || exit 22
echo "$gtid" >"/${address#*/}"
echo "done $gtid"
"""


def provider():
    """The library that makes nodes of servers; None where it is not installed."""
    return next((path for path in PROVIDERS if path.is_file()), None)


class Galera(Servers):
    """The first has the lowest place in the cluster, as far as that can be had."""

    def __init__(self, folder, template, count=3):
        self.programs = Path(folder) / "galera-programs"
        self.programs.mkdir(exist_ok=True)
        transfer = self.programs / "wsrep_sst_nothing"
        transfer.write_text(TRANSFER)
        transfer.chmod(0o755)
        first = Server(folder, template=template)
        # What all begin with: the number of the cluster, in the first one's storage too.
        self.places = [(free_port(), free_port()) for _ in range(count)]
        (first.data / "grastate.dat").write_text(f"# GALERA saved state\nversion: 2.1\nuuid: {CLUSTER}\nseqno: 0\nsafe_to_bootstrap: 1\n")
        super().__init__([first])
        try:
            self.come_together(folder, count)
        except BaseException:
            self.discard()
            raise

    def come_together(self, folder, count):
        first = self.servers[0]
        self.start(0, alone=True)
        first.stop()
        self.servers += [Server(folder, template=first.data) for _ in range(count - 1)]
        for number in range(count):
            self.start(number, alone=number == 0)
        until(lambda: all(self.status(number, "wsrep_cluster_size") == str(count) for number in range(count)), "they do not come together")
        until(lambda: all(self.is_synced(number) for number in range(count)), "they are not synced")

    def start(self, number, alone=False):
        (port, transfers), server = self.places[number], self.servers[number]
        others = "" if alone else ",".join(f"127.0.0.1:{port}" for port, _ in self.places)
        server.start(
            "--wsrep-on=ON", f"--wsrep-provider={provider()}", f"--wsrep-cluster-address=gcomm://{others}", "--wsrep-cluster-name=onramp",
            f"--wsrep-provider-options=base_host=127.0.0.1;base_port={port};gmcast.listen_addr=tcp://127.0.0.1:{port};"
            f"ist.recv_addr=127.0.0.1:{transfers};{PROVIDER}",
            "--wsrep-node-address=127.0.0.1", f"--wsrep-node-name=node-{number}", "--wsrep-sst-method=nothing", f"--server-id={number + 1}",
            "--log-bin=log", "--log-slave-updates", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", programs=self.programs)

    def status(self, number, name):
        return self.order(number, f"SHOW GLOBAL STATUS LIKE '{name}'").rows[0][1].decode()

    def is_synced(self, number):
        return self.status(number, "wsrep_local_state_comment") == "Synced"

    def first(self):
        """The number of the one with the lowest place in the cluster."""
        return min((number for number, server in enumerate(self.servers) if server.running), key=lambda number: int(self.status(number, "wsrep_local_index")))

    def isolate(self, number, alone=True):
        """A node hears no other one any more, or does again."""
        self.order(number, f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={int(alone)}'")
