"""How long a statement of up to 16 MiB makes another client wait.

`ONRAMP_BIN=target/release/onramp python large_cost.py [name ...]` prints the table of docs/BENCHMARKS.md. One client sends the texts, over
one worker; another one sends `SELECT 1` every 10 ms. Times with a text alternate with as long ones without, and each text is sent to the
server directly as well: what the other client waits there comes from the server's and the clients' share of the processors. Nothing else
may run on the machine meanwhile. To let Onramp go before it (SCHED_RR) does not help: Linux gives 50 ms of each second to those behind.
"""

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pymysql

from harness import raw
from harness.onramp import Onramp
from harness.server import Server, free_port, make_template

MIB = 1 << 20
LENGTH = 16 * MIB
PAUSE = 0.01  # seconds between two statements of the one that waits
ROUNDS = 3
QUIET = 0.3  # seconds without a text, at least
PASSWORD = "admin-secret"  # of the admin port


def repeated(before, unit, after="", length=LENGTH):
    """`unit` as often as there is room for it."""
    return (before + unit * ((length - len(before) - len(after)) // len(unit)) + after).encode()


def texts():
    """By name. What the servers refuse is read all the same."""
    yield "a string", repeated("SELECT LENGTH('", "x", "')")
    yield "a string of 16 MiB and more", repeated("SELECT LENGTH('", "x", "')", LENGTH + MIB)
    yield "INSERT", repeated("INSERT INTO large VALUES (0,'a')", ",(1,'b')")
    yield "hints, 512 KiB", ("SELECT /*+ " + "SET_VAR(" * 65536 + "*/ 1").encode()
    yield "hints", repeated("SELECT /*+ ", "SET_VAR(", "*/ 1")
    yield "hints and VALUES, 500 KB", ("SELECT " + "/*+ SET_VAR(a=1) */" * 12500 + " values" * 35000).encode()
    yield "hints and VALUES", repeated("SELECT " + "/*+ SET_VAR(a=1) */" * 400_000, " values")
    yield "CREATE TABLE, 130 KB", b"CREATE TABLE " * 10_000
    yield "CREATE TABLE", repeated("", "CREATE TABLE ")
    yield "CREATE TABLE, named", repeated("", "CREATE TABLE a(a int);")
    yield "CREATE VIEW", repeated("", "CREATE VIEW a AS SELECT 1;")
    yield "DROP TABLE", repeated("DROP TABLE IF EXISTS a", ",a")
    yield "DO, 500 KB", b"DO @@identity;" * 37_500
    yield "DO", repeated("", "DO @@identity;")
    yield "SET STATEMENT", repeated("SET STATEMENT a=1", ",a=1", " FOR SELECT 1")
    yield "SET", repeated("SET @a=1", ",@a=1")
    yield "SET of system variables", repeated("SET sql_safe_updates=0", ",sql_safe_updates=0")
    yield "SET of the pool's", repeated("SET thread_pool_priority='high'", ",thread_pool_priority='high'")
    yield "WITH", repeated("WITH a AS (SELECT 1)", ",a AS (SELECT 1)", " SELECT 1")
    yield "ROW_COUNT()", repeated("SELECT row_count()", ",row_count()")
    yield "SELECT of a variable", repeated("SELECT @@autocommit", ",@@autocommit")
    yield "KILL in front", repeated("KILL 1073741824", " ", ";SELECT 1")
    yield "PREPARE", repeated("PREPARE p FROM 'SELECT 1", ",1", "'")
    yield "EXECUTE IMMEDIATE", repeated("EXECUTE IMMEDIATE 'SELECT 1", ",1", "'")


def ask_again_and_again(site, orders):
    """In a process of its own: answers each order with the longest wait since the last one, in seconds."""
    with raw.connect(site) as connection:
        orders.send(None)
        longest, due = 0.0, time.perf_counter()
        while True:
            due = max(due + PAUSE, time.perf_counter())
            time.sleep(max(0, due - time.perf_counter()))
            begin = time.perf_counter()
            connection.query("SELECT 1")
            longest = max(longest, time.perf_counter() - begin)
            if orders.poll():
                if orders.recv() is None:
                    return
                orders.send(longest)
                longest = 0.0


class Asker:
    """The client that waits."""

    def __init__(self, site):
        self.orders, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=ask_again_and_again, args=(site, theirs), daemon=True)
        self.process.start()
        self.orders.recv()

    def longest(self):
        self.orders.send(True)
        return self.orders.recv()

    def end(self):
        self.orders.send(None)
        self.process.join()


def worker_seconds(onramp):
    """What the threads of this name have used of the processors: the worker, and those that read."""
    used = {}
    for task in Path(f"/proc/{onramp.process.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        used[name] = used.get(name, 0) + int((task / "schedstat").read_text().split()[0]) / 1e9
    return used


def round_of(sender, asker, text):
    """The longest wait beside a text, and in as long a time without one."""
    asker.longest()
    begin = time.perf_counter()
    sender.query_all(text)
    took = time.perf_counter() - begin
    # What is given back behind the answer belongs to it.
    time.sleep(3 * PAUSE)
    beside = asker.longest()
    time.sleep(max(QUIET, took))
    return beside, asker.longest(), took


def rounds(site, text):
    """Milliseconds: medians and the worst of the waits beside the text, the worst without, and how long the text takes."""
    asker = Asker(site)
    try:
        with raw.connect(site, schema="onramp_app", capabilities=raw.USUAL | raw.MULTI_STATEMENTS) as sender:
            sender.socket.setsockopt(raw.socket.SOL_SOCKET, raw.socket.SO_SNDBUF, 4 * MIB)
            sender.query("CREATE TEMPORARY TABLE held (a INT)")
            sender.query("DROP TEMPORARY TABLE held")
            found = [round_of(sender, asker, text) for _ in range(ROUNDS)]
    finally:
        asker.end()
    beside, idle, took = zip(*found)
    return [1000 * value for value in (statistics.median(beside), max(beside), statistics.median(idle), statistics.median(took))]


def longest_turn(onramp, port):
    """As the admin port says it, in milliseconds."""
    with pymysql.connect(host="127.0.0.1", port=port, user="admin", password=PASSWORD, autocommit=True) as admin:
        cursor = admin.cursor()
        cursor.execute("SELECT MAX(longest_turn_us) FROM workers")
        return int(cursor.fetchone()[0]) / 1000


def main():
    wanted = sys.argv[1:]
    os.environ["ONRAMP_ADMIN_PASSWORD"] = PASSWORD
    with tempfile.TemporaryDirectory(prefix="onramp-large-") as folder:
        server = Server(folder, template=make_template(folder)).start()
        try:
            with raw.connect(server, "admin", "admin-secret", schema="onramp_app") as admin:
                admin.query("CREATE TABLE large (a INT, b VARCHAR(10)) ENGINE=BLACKHOLE")
            print("| text | length | beside it: median, worst | without | direct | longest turn | worker's processor time | takes |")
            print("|---|--:|--:|--:|--:|--:|--:|--:|")
            for name, text in texts():
                if wanted and not any(part in name for part in wanted):
                    continue
                direct = rounds(server, text)
                port = free_port()
                onramp = Onramp(server, folder, workers=1, admin_listen=f"127.0.0.1:{port}").start()
                try:
                    before = worker_seconds(onramp)
                    median, worst, idle, took = rounds(onramp, text)
                    after = worker_seconds(onramp)
                    turn = longest_turn(onramp, port)
                finally:
                    onramp.stop()
                worker = sum(after[thread] - before.get(thread, 0) for thread in after if "worker" in thread) * 1000 / ROUNDS
                print(f"| {name} | {len(text) / MIB:.1f} MiB | {median:.0f}, {worst:.0f} ms | {idle:.0f} ms | {direct[0]:.0f}, {direct[1]:.0f} ms "
                      f"| {turn:.0f} ms | {worker:.0f} ms | {took:.0f} ms |", flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
