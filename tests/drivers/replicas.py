"""What reads on replicas bring: three servers, each held to a part of a core, one by one and behind Onramp; and a million reads behind writes.

    ONRAMP_BIN=target/release/onramp python replicas.py [--share 0.3] [--connections 256] [--seconds 6] [--rounds 3]
    ONRAMP_BIN=target/release/onramp python replicas.py --checks 330

The first measures point selects, alternating: each of the three servers directly, all at the same time, with a third of the connections; then Onramp in front
of all three, with `read_split` = all, replicas and off. It needs control groups (version 1) of its own, so root.

The second has sessions write and read back for so many seconds (`onramp bench run read_own_writes`) with `read_split` = replicas, while the replicas stop and
start to carry out what they get. A read that does not show what its session has written fails the run.
"""

import argparse
import contextlib
import os
import re
import subprocess
import tempfile
import threading
from pathlib import Path

import pymysql

from harness.admin import PASSWORD, rows
from harness.cluster import Cluster
from harness.onramp import Onramp, binary
from harness.server import APP, SERVICE, end_in_order_on_sigterm, free_port, make_template
from harness.several import until_in_use

GROUPS = Path("/sys/fs/cgroup/cpu")
ROWS = 100_000
# Microseconds: short, so that a server is not held up for long at a time.
PERIOD = 10_000
SCHEMA = "onramp_bench"


def bench(*arguments, port):
    environment = dict(os.environ, ONRAMP_BENCH_PASSWORD=APP[1])
    command = [binary(), "bench", *arguments, "--port", str(port), "--user", APP[0], "--db", SCHEMA]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def outcome(process):
    text, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(text)
    return text


def rate(text):
    return float(re.search(r"transactions: .*\(([0-9.]+) per sec", text)[1])


@contextlib.contextmanager
def held(cluster, share):
    """Each server to this part of a core."""
    groups = []
    try:
        for number, server in enumerate(cluster.servers):
            group = GROUPS / f"onramp-replicas-{os.getpid()}-{number}"
            group.mkdir()
            groups.append(group)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD)))
            (group / "cgroup.procs").write_text(str(server.process.pid))
        yield
    finally:
        for group in groups:
            for process in (group / "cgroup.procs").read_text().split():
                (GROUPS / "cgroup.procs").write_text(process)
            group.rmdir()


@contextlib.contextmanager
def onramp(cluster, folder, **options):
    os.environ["ONRAMP_ADMIN_PASSWORD"] = PASSWORD
    admin_port = free_port()
    front = Onramp(cluster.servers[0], folder, backend=cluster.backends(*SERVICE), admin_listen=f"127.0.0.1:{admin_port}", **options)
    front.start()
    try:
        front.admin = pymysql.connect(host="127.0.0.1", port=admin_port, user="admin", password=PASSWORD)
        yield front
    finally:
        front.stop()


def until_served(port, connections):
    """Until replicas are known to be fit, and limits have been found."""
    outcome(bench("run", "point_select", "--table-size", str(ROWS), "--connections", str(connections), "--time", "3", port=port))


def figures(cluster, folder, options):
    outcome(bench("prepare", "point_select", "--table-size", str(ROWS), port=cluster.servers[0].port))
    for number in (1, 2):
        cluster.until_followed(number)
    load = ["run", "point_select", "--table-size", str(ROWS), "--time", str(options.seconds), "--warmup", "1"]
    for _ in range(options.rounds):
        third = str(options.connections // 3)
        direct = [bench(*load, "--connections", third, port=server.port) for server in cluster.servers]
        print("direct, all three:", sum(rate(outcome(each)) for each in direct), flush=True)
        for split in ("all", "replicas", "off"):
            with onramp(cluster, folder, read_split=split) as front:
                until_served(front.port, options.connections)
                got = rate(outcome(bench(*load, "--connections", str(options.connections), port=front.port)))
            print(f"Onramp, read_split = {split}: {got}", flush=True)


def checks(cluster, folder, options):
    accounts = ["--table-size", str(options.connections)]
    outcome(bench("prepare", "ledger", *accounts, port=cluster.servers[0].port))
    over = threading.Event()

    def lag():
        while not over.is_set():
            for number in (1, 2):
                cluster.order(number, "STOP SLAVE SQL_THREAD")
                over.wait(0.3)
                cluster.order(number, "START SLAVE SQL_THREAD")
                over.wait(2)

    with onramp(cluster, folder, read_split="replicas") as front:
        until_in_use(front, [1, 0, 0])
        thread = threading.Thread(target=lag)
        thread.start()
        try:
            run = ["run", "read_own_writes", *accounts, "--connections", str(options.connections), "--time", str(options.checks)]
            print(outcome(bench(*run, port=front.port)))
        finally:
            over.set()
            thread.join()
        for row in rows(front, "SHOW STATUS LIKE 'Onramp_replica%'"):
            print(row["Variable_name"], row["Value"])
        print(rows(front, "SELECT * FROM waits WHERE reason = 'replica'"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.3, help="part of a core that each server has")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--seconds", type=int, default=6, help="of each load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--checks", type=int, default=0, help="seconds of reads behind writes, in the place of the figures")
    options = parser.parse_args()
    end_in_order_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="onramp-replicas-") as folder:
        cluster = Cluster(folder, make_template(folder), count=3)
        try:
            cluster.order(0, f"CREATE DATABASE {SCHEMA}")
            if options.checks:
                checks(cluster, folder, options)
            else:
                with held(cluster, options.share):
                    figures(cluster, folder, options)
        finally:
            cluster.discard()


if __name__ == "__main__":
    main()
