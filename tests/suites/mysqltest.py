"""MariaDB's own regression tests (mysql-test, suite `main`), with `mariadb-test` against a server that runs already, as
`mysql-test-run --extern` does it: once direct, once through Onramp.

Through Onramp there are fewer backends than clients: six further clients in another session state keep asking over the
same backends. Packages are unpacked into an ignored folder; nothing is installed.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "drivers"))

from harness import raw  # noqa: E402
from harness.counted import Counted  # noqa: E402
from harness.server import Server, make_template  # noqa: E402

PACKAGES = ["mariadb-test", "mariadb-test-data", "libpcre2-posix3"]
LIST = HERE / "mysqltest_tests.txt"
# A test that takes longer than this on its own server hangs.
PATIENCE = 60
# Two for tests with several connections that hold one each, and two to share.
BACKENDS = 4
NEIGHBOURS = 6

# All statements, and the doubtful ones of them.
COUNTS = ("Onramp_statements_multiplexed", "Onramp_statements_in_transactions", "Onramp_statements_pinned", "Onramp_sets_answered",
          "Onramp_statements_doubtful")

# What mysql-test-run's include/default_mysqld.cnf gives its servers and results depend on.
OPTIONS = [
    "--character-set-server=latin1", "--collation-server=latin1_swedish_ci", "--default-storage-engine=MyISAM",
    "--use-stat-tables=preferably", "--histogram-type=json_hb", "--key-buffer-size=1M", "--sort-buffer-size=256K",
    "--max-heap-table-size=1M", "--innodb-lock-wait-timeout=50", "--max-allowed-packet=16M", "--max-connections=151",
]

# What needs a server of its own, programs beside it, or a build for debugging.
NEEDS_MORE = re.compile(
    rb"restart_mysqld|shutdown_mysqld|have_debug|have_binlog|master-slave|big_test|--\s*exec|^exec |\$MYSQL|\$EXE|^perl|--perl|have_perfschema"
    rb"|have_plugin|plugin_load|install plugin|have_ssl|wsrep|galera|master_pos|valgrind_off|have_partition_debug|kill_query", re.M | re.I)


class Statements(NamedTuple):
    """How many statements an Onramp has had, and how many of them it did not understand whole."""

    all: int
    doubtful: int

    def plus(self, onramp):
        *counts, doubtful = onramp.counts(COUNTS)
        return Statements(self.all + sum(counts), self.doubtful + doubtful)


class Suite:
    """The tests, where they are unpacked, and a server for them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.home = unpack(HERE / ".packages")
        self.tests = self.home / "usr/share/mysql/mysql-test"
        self.template = make_template(folder)
        self.statements = Statements(0, 0)

    def count(self, onramp):
        """Adds what an Onramp that has not died of a test has had."""
        if onramp.process.poll() is None:
            self.statements = self.statements.plus(onramp)

    def candidates(self):
        """Tests that a running server may be able to pass, small ones first."""
        main = self.tests / "main"
        for path in sorted(main.glob("*.test"), key=lambda path: path.stat().st_size):
            name = path.stem
            configured = any((main / f"{name}{end}").exists() for end in (".opt", "-master.opt", ".cnf", ".combinations", "-slave.opt"))
            if not configured and (main / f"{name}.result").exists() and not NEEDS_MORE.search(path.read_bytes()):
                yield name

    def run(self, names, through):
        """Runs the tests and yields each name with None, or what went wrong."""
        site = None
        try:
            for name in names:
                site = site or Site(self, through)
                wrong = site.run(name)
                yield name, wrong
                if wrong is not None or not site.clean():
                    site.stop()
                    site = None
        finally:
            if site:
                site.stop()


class Site:
    """A server, and Onramp in front of it if asked for."""

    def __init__(self, suite, through):
        self.suite = suite
        self.var = suite.folder / "var"
        shutil.rmtree(self.var, ignore_errors=True)
        for name in ("tmp", "log"):
            (self.var / name).mkdir(parents=True)
        (self.var / "std_data").symlink_to(suite.tests / "std_data")
        self.server = Server(suite.folder, template=suite.template)
        self.server.start(*OPTIONS, f"--secure-file-priv={self.var}")
        self.onramp, self.neighbours = None, None
        self.port, self.socket = self.server.port, self.server.socket
        with self.admin() as admin:
            # Tests say which warnings in the log they expect; nobody reads it here.
            for statement in ("CREATE DATABASE test", "CREATE DATABASE mtr", "CREATE PROCEDURE mtr.add_suppression(text VARCHAR(255)) BEGIN END"):
                admin.query(statement)
        self.usual = self.names()
        if through:
            self.socket = str(suite.folder / "clients.sock")
            self.onramp = Counted(self.server, suite.folder, listen=self.socket, max_backends=BACKENDS, backend_connect_timeout="20s").start()
            self.port = self.onramp.port
            self.neighbours = Neighbours(self.socket)

    def admin(self):
        return raw.connect(self.server, "root", "", socket_path=self.server.socket, token=b"")

    def names(self):
        """Schemas and accounts."""
        with self.admin() as admin:
            return {kind: {row[0] for row in admin.query(text).rows} for kind, text in (
                ("DATABASE", "SELECT schema_name FROM information_schema.schemata"),
                ("USER", "SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) FROM mysql.global_priv"))}

    def clean(self):
        """Whether the server is as it was, after what a test left is gone."""
        if not self.server.running or (self.onramp and self.onramp.process.poll() is not None):
            return False
        now = self.names()
        if self.usual["USER"] - now["USER"] or self.usual["DATABASE"] - now["DATABASE"] - {b"test"}:
            return False
        with self.admin() as admin:
            for kind, names in now.items():
                for name in names - self.usual[kind]:
                    admin.query(f"DROP {kind} " + (f"`{name.decode()}`" if kind == "DATABASE" else name.decode()))
            admin.query("DROP DATABASE IF EXISTS test")
            admin.query("CREATE DATABASE test")
        return True

    def run(self, name):
        """None, or what went wrong."""
        environment = dict(
            os.environ, LD_LIBRARY_PATH=str(self.suite.home / "usr/lib/x86_64-linux-gnu"), MYSQLTEST_VARDIR=str(self.var),
            MYSQL_TMP_DIR=str(self.var / "tmp"), MYSQL_TEST_DIR=str(self.suite.tests), MASTER_MYPORT=str(self.port),
            MASTER_MYSOCK=self.socket, MYSQLD_DATADIR=str(self.server.data), DEFAULT_MASTER_PORT=str(self.port),
            MYSQL_TEST_ROOT="YES", TZ="GMT-3", LC_ALL="C")
        environment.pop("PERL5LIB", None)
        main = self.suite.tests / "main"
        command = [
            self.suite.home / "usr/bin/mariadb-test", "--no-defaults", "--silent", f"--tmpdir={self.var}/tmp", f"--logdir={self.var}/log",
            "--character-sets-dir=/usr/share/mysql/charsets", "--database=test", "--user=root", "--host=localhost",
            f"--port={self.port}", f"--socket={self.socket}", "--max-connections=128", "--max-connect-retries=10",
            f"--test-file={main / name}.test", f"--result-file={main / name}.result"]
        try:
            done = subprocess.run(command, cwd=self.suite.tests, env=environment, capture_output=True, timeout=PATIENCE, errors="replace", text=True)
        except subprocess.TimeoutExpired:
            return f"no end after {PATIENCE} s"
        if done.returncode == 62:
            return "skipped: " + done.stdout.strip()[-200:]
        return None if done.returncode == 0 else (done.stdout + done.stderr).strip()

    def stop(self):
        if self.neighbours:
            self.neighbours.stop()
        if self.onramp:
            self.suite.count(self.onramp)
            self.onramp.stop()
        self.server.stop()
        shutil.rmtree(self.server.data, ignore_errors=True)


class Neighbours:
    """Clients of the same user in another schema and session state, who keep asking."""

    def __init__(self, socket_path):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.ask, args=(socket_path,))
        self.thread.start()

    def ask(self, socket_path):
        clients = []
        try:
            for _ in range(NEIGHBOURS):
                client = raw.connect(None, "root", "", socket_path=socket_path, token=b"", schema="mtr")
                client.query("SET NAMES utf8mb4, sql_mode = 'ANSI', time_zone = '+05:00'")
                clients.append(client)
            # Often enough to come between any two statements of a test, seldom enough to leave it the machine.
            while not self.over.wait(0.01):
                for client in clients:
                    client.query("SELECT 1 FROM DUAL WHERE 0")
        except (raw.Closed, OSError, AssertionError, ValueError):
            pass  # the test itself shows what is wrong
        finally:
            for client in clients:
                client.close()

    def stop(self):
        self.over.set()
        self.thread.join()


def unpack(folder):
    """Downloads and unpacks the packages of this system's release where that has not been done."""
    done = folder / "root"
    if not (done / "usr/bin/mariadb-test").exists():
        folder.mkdir(exist_ok=True)
        subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, done], check=True)
    return done


def listed():
    """The tests of the list."""
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
