"""MySQL and MariaDB servers of our own: private folders, tables in memory, one account."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

from processes import Failed, Program, find, finish, free_port, greets

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "drivers"))

from harness import raw  # noqa: E402
from harness.installation import Installation, NoServer  # noqa: E402, F401

USER = "bench"
# A second account, of those who come in a crowd.
OTHER_USER = "crowd"
PASSWORD = "bench"
TABLES = 4
ROWS = 100_000
# A schema beside these, with one small table.
OTHER, OTHER_ROWS = "other", 1_000

# Of each table in a schema of many.
CROWD_ROWS = 100

# Connections that we never come near, below the limit of open files by what tables and logs need.
FILES_ASIDE = 1_000
# And such as leave MySQL its usual 4,000 open tables, two files each, of 20,000 open files.
FEWEST_CONNECTIONS = 4_000
# MariaDB's own upper bound of max_connections.
MOST_CONNECTIONS = 100_000

# One statement a line, as --init-file wants it.
ACCOUNTS = f"""\
CREATE DATABASE IF NOT EXISTS sbtest;
CREATE USER IF NOT EXISTS {USER}@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION;
CREATE USER IF NOT EXISTS {OTHER_USER}@'%' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON sbtest.* TO {OTHER_USER}@'%';
"""


class Server:
    """One server process. Subclasses say how their kind is installed and started."""

    def __init__(self, name: str, folder: Path, open_files: int) -> None:
        """`folder` is the server's own and is made here."""
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.socket = folder / "socket"
        # Where the limit is small, half of it.
        self.max_connections = min(max(open_files - FILES_ASIDE, open_files // 2), MOST_CONNECTIONS)
        self.open_files = open_files
        self.more_options: list[str] = []  # such as --innodb-flush-log-at-trx-commit=2
        self.program = Program(name, [], folder / "log")
        folder.mkdir(parents=True)
        (folder / "tmp").mkdir()

    def has_room_for(self, clients: int) -> None:
        """Bounds its connections to twice the clients that come: of the open files it keeps as many for connections as there may be, and has
        the fewer tables open."""
        self.max_connections = min(self.max_connections, max(2 * clients, FEWEST_CONNECTIONS))

    def install(self) -> None:
        """Makes the data folder."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """The server's command line."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts it and waits until it takes connections."""
        accounts = self.folder / "accounts.sql"
        accounts.write_text(self.accounts())
        self.program.command = [
            *self.command(), *self._shared_options(), *self.more_options, f"--init-file={accounts}"]
        self.program.start(lambda: greets(self.port))

    def accounts(self) -> str:
        """What it does at each start."""
        return ACCOUNTS

    def log_in(self, onramp: Path) -> None:
        """Logs in once over the Unix socket: MySQL then keeps the password's hash, so that logins over TCP need no
        encrypted channel (caching_sha2_password) until it is started again."""
        self._bench(onramp, "run", "connect", "--connections", "1", "--events", "1", "--time", "10")

    def prepare(self, onramp: Path) -> None:
        """Creates the tables."""
        self._bench(onramp, "prepare", "--tables", str(TABLES), "--table-size", str(ROWS))

    def prepare_crowd(self, accounts: int, schemas: int) -> None:
        """Creates so many accounts, and schemas with one small table each, as bench's --users and --schemas name them."""
        statements: list[str] = []
        for account in (f"{USER}{number}@'%'" for number in range(1, accounts + 1)):
            statements += [f"CREATE USER {account} IDENTIFIED BY '{PASSWORD}'", f"GRANT ALL ON *.* TO {account}"]
        for schema in (f"sbtest{number}" for number in range(1, schemas + 1)):
            statements += [
                f"CREATE DATABASE {schema}",
                f"CREATE TABLE {schema}.sbtest1 (PRIMARY KEY (id)) AS SELECT * FROM sbtest.sbtest1 WHERE id <= {CROWD_ROWS}"]
        with raw.connect(SimpleNamespace(host="127.0.0.1", port=self.port), USER, PASSWORD, timeout=60) as client:
            for statement in statements:
                answer = client.query(statement)
                if isinstance(answer, raw.Err):
                    raise Failed(f"{statement}: {answer}")

    def prepare_other(self, onramp: Path) -> None:
        """Creates a small table in another schema, which nobody locks."""
        self._bench(onramp, "prepare", "--db", OTHER, "--tables", "1", "--table-size", str(OTHER_ROWS))

    def stop(self) -> None:
        """Ends it."""
        self.program.stop()

    def _bench(self, onramp: Path, *words: str) -> None:
        finish(
            [str(onramp), "bench", *words, "--socket", str(self.socket), "--user", USER],
            self.folder / "bench.log", environment={"ONRAMP_BENCH_PASSWORD": PASSWORD})

    def _shared_options(self) -> list[str]:
        return [
            f"--datadir={self.folder / 'data'}", f"--tmpdir={self.folder / 'tmp'}", f"--socket={self.socket}",
            f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin",
            f"--max-connections={self.max_connections}", f"--open-files-limit={self.open_files}",
            "--back-log=4096",  # the kernel's default bound (net.core.somaxconn)
            "--innodb-buffer-pool-size=512M",  # the tables take about 100 MB
            "--performance-schema=OFF",  # MariaDB's default, for both
        ]


class MariaDb(Server):
    """MariaDB, with a thread per connection or with its pool."""

    def __init__(self, name: str, folder: Path, open_files: int, thread_handling: str) -> None:
        """`thread_handling` is one-thread-per-connection or pool-of-threads."""
        super().__init__(name, folder, open_files)
        self.thread_handling = thread_handling

    def install(self) -> None:
        """Makes the data folder."""
        installer = find("mariadb-install-db")
        if installer is None:
            raise Failed("mariadb-install-db is not installed")
        finish(
            [installer, *_as_root(), "--no-defaults", f"--datadir={self.folder / 'data'}", "--skip-test-db",
             f"--tmpdir={self.folder / 'tmp'}", "--auth-root-authentication-method=normal"],
            self.folder / "install.log")

    def accounts(self) -> str:
        """Anonymous accounts, which would win over bench@'%', are taken away."""
        return "DELETE FROM mysql.global_priv WHERE User = '';\nFLUSH PRIVILEGES;\n" + ACCOUNTS

    def command(self) -> list[str]:
        """The server's command line."""
        return [_mariadbd(), "--no-defaults", *_as_root(), f"--thread-handling={self.thread_handling}"]


class MySql(Server):
    """MySQL 8.0 and newer, with a thread per connection or with the thread_pool plugin."""

    def __init__(self, name: str, folder: Path, open_files: int, installation: Installation, pool: bool) -> None:
        """`pool` loads the plugin."""
        super().__init__(name, folder, open_files)
        self.installation = installation
        self.pool = pool

    def install(self) -> None:
        """Makes the data folder."""
        finish(
            [*self.installation.command(), *_as_root(), f"--datadir={self.folder / 'data'}", "--initialize-insecure"],
            self.folder / "install.log")

    def command(self) -> list[str]:
        """The server's command line. The plugin's tables of the performance schema stay out."""
        pool = ["--plugin-load-add=thread_pool=thread_pool.so"] if self.pool else []
        return [*self.installation.command(), *_as_root(), "--mysqlx=OFF", "--secure-file-priv=NULL", *pool]


def mariadb_is_installed() -> bool:
    """Whether MariaDB's server and its installer are there."""
    return find("mariadbd") is not None and find("mariadb-install-db") is not None


def _mariadbd() -> str:
    path = find("mariadbd")
    if path is None:
        raise Failed("mariadbd is not installed")
    return path


def _as_root() -> list[str]:
    """A server refuses to run as root unless told to."""
    return ["--user=root"] if os.geteuid() == 0 else []
