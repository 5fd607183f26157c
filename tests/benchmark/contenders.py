"""Everything that is compared: what is installed here, by what name, and how many clients it can have."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from front_ends import FrontEnd, HaProxy, Onramp, ProxySql, has_option, most_clients_of_haproxy
from processes import Failed, Program, find
from servers import Installation, MariaDb, MySql, NoServer, Server, mariadb_is_installed

# Onramp with its default options in front of the MySQL with a thread per connection.
BEFORE_MYSQL = "mysql-onramp"

# Onramp's files beside its clients: as many backends as statements that do not wait have use for, and some.
ONRAMP_FILES_ASIDE = 200

# Commits reach the disk once a second, as in the pools' own published benchmarks: what is compared is not the disk. A log
# of 1 GB is not used up within a run, so that no run pays for the pages of the one before.
SERVER_OPTIONS = ["--innodb-flush-log-at-trx-commit=2", "--loose-innodb-log-file-size=1G",
                  "--loose-innodb-redo-log-capacity=1G"]


@dataclass(frozen=True)
class Address:
    """Where clients connect: a TCP port of 127.0.0.1 or a Unix socket."""

    port: int = 0
    socket: Path | None = None

    def options(self) -> list[str]:
        """As options of `onramp bench`."""
        if self.socket is not None:
            return ["--socket", str(self.socket)]
        return ["--host", "127.0.0.1", "--port", str(self.port)]


@dataclass
class Contender:
    """One thing that is measured: a server by itself, or a front end before one."""

    key: str  # in files and on the command line: onramp-uring-1
    name: str  # in tables: Onramp, io_uring, 1 worker
    server: Server
    front: FrontEnd | None = None
    most: int | None = None  # clients that it can have here; None where only its own options bound it
    why: str = ""  # what sets `most`
    tcp: Address = field(default_factory=Address)
    unix: Address | None = None

    @property
    def is_onramp(self) -> bool:
        """Whether this is what the others are compared with."""
        return isinstance(self.front, Onramp)

    @property
    def programs(self) -> dict[str, Program]:
        """The processes that work for it, by their part."""
        if self.front is None:
            return {"server": self.server.program}
        return {"front": self.front.program, "server": self.server.program}

    def refusal(self, connections: int) -> str | None:
        """Why it cannot have so many clients, where that is known before it is tried."""
        if self.most is None or connections <= self.most:
            return None
        return f"at most {self.most:,} clients: {self.why}"


@dataclass(frozen=True)
class Setting:
    """What contenders are made from."""

    folder: Path  # for all that they write
    onramp: Path  # the binary
    mysql_home: Path | None
    open_files: int
    cores: int
    most_connections: int  # the largest step
    say: Callable[[str], None]  # for what is skipped, with the reason
    onramps: list[tuple[str, str, list[str]]] | None = None  # in place of all `variants`
    before: str = "mariadb"  # the server that these stand in front of: mariadb or mysql
    server_options: list[str] = field(default_factory=list[str])  # beside those that every comparison gives


class Contenders:
    """Those that could be started, and the servers below them."""

    def __init__(self, setting: Setting) -> None:
        """Starts nothing yet."""
        self.setting = setting
        self.found: list[Contender] = []
        self.skipped: list[str] = []  # what does not take part, each with its reason
        self.begun: list[Server | FrontEnd] = []  # in the order of their start

    def start(self, wanted: Callable[[str], bool]) -> None:
        """Starts what is installed and wanted by its key. What does not start is left out, with a line that says so."""
        for part in (self._mariadb, self._mysql):
            for contender in part(wanted):
                self.found.append(contender)

    def restart_the_dead(self, contender: Contender) -> None:
        """Starts again what has ended since, so that one crash does not end a comparison. Raises Failed."""
        if not contender.server.program.running:
            contender.server.start()
            contender.server.log_in(self.setting.onramp)
        if contender.front is not None and not contender.front.program.running:
            contender.front.start()

    def restart_front(self, contender: Contender) -> None:
        """A new process in front of the server, whose memory no earlier run has filled. Raises Failed."""
        assert contender.front is not None, "a server by itself has nothing in front"
        contender.front.stop()
        self.restart_the_dead(contender)

    def stop(self) -> None:
        """Ends everything, the last first: a front end before its server."""
        for begun in reversed(self.begun):
            begun.stop()

    def _mariadb(self, wanted: Callable[[str], bool]) -> Iterator[Contender]:
        if not mariadb_is_installed():
            self._skip("MariaDB and all that stands before it", "mariadbd is not installed")
            return
        has_onramps = self.setting.before == "mariadb" and wanted("onramp")
        behind = has_onramps or any(wanted(key) for key in ("mariadb", "haproxy", "proxysql"))
        if behind:
            server = MariaDb("MariaDB, one-thread-per-connection", self._folder("mariadb"), self.setting.open_files,
                             "one-thread-per-connection")
            if self._started(server):
                if wanted("mariadb"):
                    yield self._direct("mariadb", server)
                if has_onramps:
                    yield from self._onramps(server, wanted)
                yield from self._others(server, wanted)
        if wanted("mariadb-pool"):
            server = MariaDb("MariaDB, pool-of-threads", self._folder("mariadb-pool"), self.setting.open_files,
                             "pool-of-threads")
            if self._started(server):
                yield self._direct("mariadb-pool", server)

    def _mysql(self, wanted: Callable[[str], bool]) -> Iterator[Contender]:
        kinds = [("mysql", "MySQL, one-thread-per-connection", False), ("mysql-pool", "MySQL, thread_pool plugin", True)]
        for key, name, pool in kinds:
            before = key == "mysql" and self.setting.onramps is not None and wanted(BEFORE_MYSQL)
            has_onramps = key == "mysql" and self.setting.before == "mysql" and wanted("onramp")
            if not wanted(key) and not before and not has_onramps:
                continue
            if self.setting.mysql_home is None:
                self._skip(name, "no server's folder was named with --mysql-home or MYSQL_HOME")
                continue
            try:
                installation = Installation(self.setting.mysql_home)
            except NoServer as failure:
                self._skip(name, failure)
                continue
            if pool and not installation.has_pool:
                self._skip(name, f"no thread_pool.so in {installation.plugins()}")
                continue
            server = MySql(name, self._folder(key), self.setting.open_files, installation, pool)
            if not self._started(server):
                continue
            if wanted(key):
                yield self._direct(key, server)
            if has_onramps:
                yield from self._onramps(server, wanted)
            if before:
                yield from self._onramp(BEFORE_MYSQL, "Onramp before MySQL", server, [])

    def _direct(self, key: str, server: Server) -> Contender:
        return Contender(
            key, server.name, server, tcp=Address(port=server.port), unix=Address(socket=server.socket),
            most=server.max_connections, why=f"one open file each, of {self.setting.open_files:,}")

    def _onramps(self, server: Server, wanted: Callable[[str], bool]) -> Iterator[Contender]:
        for key, name, options in self.setting.onramps or variants(self.setting.onramp):
            if wanted(key):
                yield from self._onramp(key, name, server, options)

    def _onramp(self, key: str, name: str, server: Server, options: list[str]) -> Iterator[Contender]:
        front = Onramp(name, self._folder(key), server, self.setting.onramp,
                       [*options, "--max-connections", str(max(self.setting.most_connections, 100_000))])
        contender = Contender(key, name, server, front, tcp=Address(port=front.port), unix=Address(socket=front.socket))
        if "uring" not in key:
            contender.most = self.setting.open_files - ONRAMP_FILES_ASIDE
            contender.why = f"one open file each, of {self.setting.open_files:,}"
        if self._stands(front):
            yield contender

    def _others(self, server: Server, wanted: Callable[[str], bool]) -> Iterator[Contender]:
        open_files = self.setting.open_files
        if wanted("haproxy"):
            if find("haproxy") is None:
                self._skip("HAProxy", "not installed")
            else:
                front: FrontEnd = HaProxy("HAProxy (TCP)", self._folder("haproxy"), server, open_files)
                most = most_clients_of_haproxy(open_files)
                if self._stands(front):
                    yield Contender("haproxy", front.name, server, front, most, f"two open files each, of {open_files:,}",
                                    Address(port=front.port))
        if wanted("proxysql"):
            if find("proxysql") is None:
                self._skip("ProxySQL", "not installed")
            else:
                front = ProxySql("ProxySQL", self._folder("proxysql"), server, open_files, self.setting.cores)
                if self._stands(front):
                    yield Contender("proxysql", front.name, server, front, open_files - 1_000,
                                    f"one open file each, of {open_files:,}", Address(port=front.port))

    def _started(self, server: Server) -> bool:
        """Whether the server stands with its tables; it is stopped at the end either way."""
        self.setting.say(f"starting: {server.name}")
        self.begun.append(server)
        server.more_options = self.setting.server_options
        server.has_room_for(self.setting.most_connections)
        try:
            server.install()
            server.start()
            server.log_in(self.setting.onramp)
            server.prepare(self.setting.onramp)
        except Failed as failure:
            self._skip(server.name, failure)
            server.stop()
            return False
        return True

    def _stands(self, front: FrontEnd) -> bool:
        self.begun.append(front)
        try:
            front.start()
        except Failed as failure:
            self._skip(front.name, failure)
            return False
        return True

    def _skip(self, name: str, reason: object) -> None:
        """One that does not take part, in a line that need not name it twice."""
        text = str(reason)
        self.skipped.append(text if text.startswith(name) else f"{name}: {text}")
        self.setting.say(f"skipped: {self.skipped[-1]}")

    def _folder(self, key: str) -> Path:
        return self.setting.folder / key


def variants(onramp: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Every driver with every number of workers that this build of Onramp knows: key, name, options."""
    serve = (str(onramp), "serve")
    drivers = [("uring", "io_uring"), ("epoll", "epoll")] if has_option("--driver", *serve) else [("", "")]
    workers = [1, 2] if has_option("--workers", *serve) else [0]
    for driver, driver_name in drivers:
        for number in workers:
            key, name, options = "onramp", "Onramp", list[str]()
            if driver:
                key, name, options = f"{key}-{driver}", f"{name}, {driver_name}", [*options, "--driver", driver]
            if number:
                key, options = f"{key}-{number}", [*options, "--workers", str(number)]
                name = f"{name}, {number} worker{'s' if number > 1 else ''}"
            yield key, name, options
