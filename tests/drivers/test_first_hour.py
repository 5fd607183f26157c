"""docs/FIRST_HOUR.md: its commands are run as they stand, one after the other, on a machine that is only theirs."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.onramp import binary
from harness.waiting import PATIENCE

pytestmark = pytest.mark.once

PAGE = Path(__file__).resolve().parents[2] / "docs" / "FIRST_HOUR.md"
BLOCK = re.compile(r"^```sh ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Processes, network and mounts of its own: the usual ports are free there, /etc is a copy, and all that is started ends with it.
ALONE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
OWN_FOLDERS = """
set -eu
ip link set lo up
mkdir "$1/etc"
mount -t tmpfs none "$1/etc"
mkdir "$1/etc/upper" "$1/etc/work"
mount -t overlay overlay -o lowerdir=/etc,upperdir="$1/etc/upper",workdir="$1/etc/work" /etc
mount -t tmpfs none /run
"""

# What a machine has on which the package of a server was installed, and sudo for root, who needs none.
MACHINE = """
mkdir -p /run/programs /run/mysqld /run/data
chmod 755 /run
export PATH=/run/programs:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
install --mode 755 "$ONRAMP" /run/programs/onramp
cat >/run/programs/sudo <<'SUDO'
#!/bin/sh
if [ "$1" = -u ]; then
  user=$2
  shift 2
  exec setpriv --reuid="$user" --regid="$user" --clear-groups "$@"
fi
exec "$@"
SUDO
chmod 755 /run/programs/sudo
id mysql >/dev/null 2>&1 || useradd --system mysql
chown mysql /run/mysqld /run/data
mariadb-install-db --no-defaults --user=mysql --datadir=/run/data --auth-root-authentication-method=socket --skip-test-db >/dev/null
mariadbd --no-defaults --user=mysql --datadir=/run/data --socket=/run/mysqld/mysqld.sock --port=3306 \\
  --bind-address=127.0.0.1 --innodb-flush-method=nosync 2>"$1/server.log" &
until mariadb-admin ping >/dev/null 2>&1; do kill -0 $!; sleep 0.1; done
"""

PROGRAMS = ("unshare", "ip", "setpriv", "curl", "openssl", "useradd", "mariadb-install-db", "mariadbd")


def may_be_alone(folder):
    """Whether this user may make such a place on this machine."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    if any(shutil.which(program, path=path) is None for program in PROGRAMS):
        return False
    trial = folder / "may-it"
    trial.mkdir()
    return subprocess.run([*ALONE, "bash", "-c", OWN_FOLDERS, "bash", trial], capture_output=True).returncode == 0


def blocks(page):
    """The page's commands, each with its purpose: nothing, what serves, what comes behind, or the short way with a package."""
    found = BLOCK.findall(page)
    assert {purpose for purpose, _ in found} == {"", "serve", "stop", "service"}
    return found


def script(page):
    """The commands of the long way; behind each a mark with its number, and what serves in the background."""
    lines = ["cd /"]
    long_way = [block for block in blocks(page) if block[0] != "service"]
    for number, (purpose, commands) in enumerate(long_way, 1):
        if purpose == "serve":
            lines.append(f'exec_serve() {{ exec {commands.strip()}; }}\nexec_serve >"$1/onramp.log" 2>&1 &\nserving=$!')
        elif purpose == "stop":
            lines.append(f"kill -TERM $serving\nwait $serving\n{commands}")
        else:
            lines.append(commands)
        lines.append(f"echo 'done: {number}'")
    return "\n".join(lines), len(long_way)


def test_its_commands_work_as_they_stand(tmp_path):
    if not may_be_alone(tmp_path):
        pytest.skip("needs root, unshare, overlayfs, iproute2, curl and openssl")
    commands, count = script(PAGE.read_text())
    assert count > 8
    ran = subprocess.run(
        [*ALONE, "bash", "-c", OWN_FOLDERS + MACHINE + commands, "bash", tmp_path], env={**os.environ, "ONRAMP": binary()},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    log = (tmp_path / "onramp.log").read_text() if (tmp_path / "onramp.log").exists() else "no log"
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}\n{log}"
    told = ran.stdout
    assert [f"done: {number}" for number in range(1, count + 1)] == re.findall(r"^done: \d+$", told, re.MULTILINE)
    # What the page promises of what is seen.
    assert re.search(r"^2\tshop@localhost\t(107[3-9]|10[89]\d|110[0-7])\d{6}$", told, re.MULTILINE), told
    assert "Ssl_version\tTLSv1." in told
    assert "onramp_server_up 1" in told
    assert re.search(r"^Queries +\d+$", told, re.MULTILINE), told
    assert "insert into orders (item) values" in told
    assert "ready: listening on 127.0.0.1:3307" in log
