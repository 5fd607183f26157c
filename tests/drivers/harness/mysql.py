"""A private MySQL server in a temporary folder, where one is to be had: MYSQL_HOME names the folder of its programs."""

import functools
import os
import re
import subprocess
from pathlib import Path

import pytest

from . import folders
from .installation import Installation
from .server import ADMIN, APP, OTHER, SERVICE, Server, as_user

# As few rights as Onramp needs; docs/ACCOUNTS.md gives the same statements. Of each, the first version that has what it names.
RIGHTS = [
    ("SELECT ON mysql.user", (5, 7)), ("SELECT ON mysql.db", (5, 7)), ("SELECT ON mysql.func", (5, 7)),
    ("SELECT ON performance_schema.*", (8, 0)), ("PROCESS ON *.*", (5, 7)), ("SELECT ON mysql.global_grants", (8, 0)),
    ("SELECT ON mysql.default_roles", (8, 0)), ("SELECT ON mysql.role_edges", (8, 0)), ("SHOW_ROUTINE ON *.*", (8, 0, 20))]
ACCOUNTS = f"""
CREATE USER '{SERVICE[0]}'@'%' IDENTIFIED BY '{SERVICE[1]}';
{{rights}}
CREATE USER '{APP[0]}'@'%' IDENTIFIED BY '{APP[1]}';
GRANT ALL ON `onramp\\_%`.* TO '{APP[0]}'@'%';
CREATE USER '{ADMIN[0]}'@'%' IDENTIFIED BY '{ADMIN[1]}';
GRANT ALL ON *.* TO '{ADMIN[0]}'@'%' WITH GRANT OPTION;
CREATE USER '{OTHER[0]}'@'%' IDENTIFIED BY '{OTHER[1]}';
CREATE USER 'none'@'%';
CREATE DATABASE onramp_app;
CREATE DATABASE forbidden;
"""

OPTIONS = ["--bind-address=127.0.0.1", "--loose-mysqlx=OFF", "--secure-file-priv=NULL", "--innodb-buffer-pool-size=64M",
           "--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--skip-log-bin"]


@functools.cache
def installed():
    """Where its programs are, or None where MYSQL_HOME is not set. A folder without a server is an error."""
    folder = os.environ.get("MYSQL_HOME")
    return Installation(Path(folder)) if folder else None


@functools.cache
def version():
    """Its numbers, as in (9, 7, 4); None without one."""
    if installed() is None:
        return None
    answer = subprocess.run([*installed().command(), "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(map(int, re.search(r"Ver (\d+)\.(\d+)\.(\d+)", answer).groups()))


def has_plugin(name):
    """Whether it brings a plugin, by the name of its file without the ending."""
    return installed() is not None and (installed().plugins() / f"{name}.so").is_file()


# Marks a test, or as a module's `pytestmark` all of them.
needed = pytest.mark.mysql


def skip_where_there_is_none(items):
    """Skips those tests that need a server, where there is none."""
    if installed() is None:
        for item in items:
            if item.get_closest_marker("mysql"):
                item.add_marker(pytest.mark.skip(reason="no MySQL server, whose folder MYSQL_HOME would name: tests/drivers/get-mysql gets one"))


def since(*numbers):
    """Skips a test with an older server."""
    older = version() is not None and version() < numbers
    return pytest.mark.skipif(older, reason=f"this server is older than {'.'.join(map(str, numbers))}")


class MySqlServer(Server):
    """One mysqld process with the accounts of the suites."""

    def __init__(self, folder, data=None):
        super().__init__(folder, template=None if data else _template(folder), data=data)

    def start(self, *options):
        """Starts and waits until it takes connections."""
        assert self.process is None, "already running"
        self.temporary.mkdir(exist_ok=True)
        self.process = self._launch(f"--port={self.inner_port}", f"--socket={self.socket}", f"--pid-file={self.data}/mysqld.pid", *OPTIONS, *options)
        self.wait_until_up()
        return self

    def initialise(self):
        """Makes the data folder, which takes some seconds."""
        self.temporary.mkdir(exist_ok=True)
        assert self._launch("--initialize-insecure").wait() == 0, self.log.read_text()[-3000:]

    def stop(self):
        """Stops in an orderly way."""
        super().stop()
        Path(self.socket + ".lock").unlink(missing_ok=True)

    def _launch(self, *options):
        # Small files, as MariaDB's.
        log_size = "--innodb-redo-log-capacity=16M" if version() >= (8, 0, 30) else "--innodb-log-file-size=8M"
        sizes = [log_size, "--innodb-data-file-path=ibdata1:5M:autoextend", "--innodb-autoextend-increment=1"]
        with open(self.log, "ab") as log:
            return subprocess.Popen(
                [*installed().command(), *as_user(), f"--datadir={self.data}", f"--tmpdir={self.temporary}", *sizes, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _template(folder):
    """A data folder with the accounts, which is made once; servers start from copies of it."""
    with folders.once(folder, "mysql-template") as (data, to_make):
        if to_make:
            _make_template(data)
    return data


def _make_template(data):
    server = MySqlServer(data.parent, data=data)
    server.initialise()
    rights = [right for right, first in RIGHTS if version() >= first]
    if version() < (8, 0):
        rights.append("SELECT ON mysql.proc")
    accounts = data.parent / "mysql-accounts.sql"
    accounts.write_text(ACCOUNTS.format(rights="\n".join(f"GRANT {right} TO '{SERVICE[0]}'@'%';" for right in rights)))
    server.start(f"--init-file={accounts}")
    server.stop()
