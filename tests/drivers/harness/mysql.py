"""A private MySQL server in a temporary folder, where one is to be had: MYSQL_HOME names its folder."""

import functools
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

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
           "--innodb-flush-log-at-trx-commit=2", "--skip-log-bin"]


def home():
    """The folder of the server, or None."""
    folder = os.environ.get("MYSQL_HOME")
    return Path(folder) if folder and _program(Path(folder)) else None


@functools.cache
def version():
    """Its numbers, as in (9, 7, 4)."""
    answer = subprocess.run([*command(home()), "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(map(int, re.search(r"Ver (\d+)\.(\d+)\.(\d+)", answer).groups()))


def since(*numbers):
    """Skips a test with an older server."""
    older = home() is not None and version() < numbers
    return pytest.mark.skipif(older, reason=f"this server is older than {'.'.join(map(str, numbers))}")


def _program(folder):
    candidates = [folder / each / "mysqld" for each in ("bin", "sbin", "libexec", "usr/sbin")]
    return next((path for path in candidates if path.is_file()), None)


def command(folder):
    """How to start it. One from another system's tree runs with that system's loader and libraries."""
    program = _program(folder)
    base = program.parent.parent
    loader = folder / "lib64" / "ld-linux-x86-64.so.2"
    front = []
    if loader.exists():
        libraries = [*folder.glob("usr/lib/*-linux-gnu"), *folder.glob("lib/*-linux-gnu")]
        front = [str(loader), "--library-path", ":".join(map(str, libraries))]
    options = ["--no-defaults", f"--basedir={base}", *as_user()]
    plugins = next((path for path in (base / "lib" / "plugin", base / "lib" / "mysql" / "plugin") if path.is_dir()), None)
    if plugins is not None:
        options.append(f"--plugin-dir={plugins}")
    for share in (base / "share" / "mysql", base / "share"):
        if (share / "english" / "errmsg.sys").is_file():
            options += [f"--lc-messages-dir={share}", f"--character-sets-dir={share / 'charsets'}"]
            break
    return [*front, str(program), *options]


class MySqlServer(Server):
    """One mysqld process with the accounts of the suites."""

    def __init__(self, folder):
        """Makes the data folder, which takes some seconds."""
        super().__init__(folder)
        self.base = command(home())
        self.temporary.mkdir()
        with open(self.log, "ab") as log:
            subprocess.run([*self.base, f"--datadir={self.data}", f"--tmpdir={self.temporary}", "--initialize-insecure"], check=True, stdout=log, stderr=log)
        self.accounts = self.folder / f"accounts-{self.port}.sql"
        rights = [right for right, first in RIGHTS if version() >= first]
        if version() < (8, 0):
            rights.append("SELECT ON mysql.proc")
        grants = "\n".join(f"GRANT {right} TO '{SERVICE[0]}'@'%';" for right in rights)
        self.accounts.write_text(ACCOUNTS.format(rights=grants))

    def start(self, *options):
        """Starts and waits until it takes connections; the accounts are made at the first start."""
        assert self.process is None, "already running"
        first = []
        if self.accounts is not None:
            first, self.accounts = [f"--init-file={self.accounts}"], None
        self.temporary.mkdir(exist_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.base, f"--datadir={self.data}", f"--tmpdir={self.temporary}", f"--port={self.port}", f"--socket={self.socket}",
                 f"--pid-file={self.data}/mysqld.pid", *OPTIONS, *first, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_until_up()
        return self

    def stop(self):
        """Stops in an orderly way."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        super().stop()
        Path(self.socket + ".lock").unlink(missing_ok=True)
