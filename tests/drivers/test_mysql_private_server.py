"""`onramp serve` with nothing else: it creates a MySQL server of its own, where that is what is installed."""

import os
import shlex
import subprocess

import pymysql
import pytest

from harness import mysql as private_mysql
from harness.onramp import binary
from harness.server import free_port
from harness.waiting import PATIENCE, until

pytestmark = [private_mysql.needed, pytest.mark.slow]


def programs(folder):
    """A folder with a `mysqld` that runs as if it were installed."""
    folder.mkdir()
    command = private_mysql.installed().command()
    options = command.index("--no-defaults")
    line = shlex.join(command[:options]) + ' "$@" ' + shlex.join(command[options + 1:])
    mysqld = folder / "mysqld"
    mysqld.write_text(f"#!/bin/sh\nexec {line}\n")
    mysqld.chmod(0o755)
    return folder


def first_login(process, folder, port):
    """Connects as the administrator as soon as the server is there."""
    def log_in():
        assert process.poll() is None, log()
        try:
            password = (folder / "admin.password").read_text().strip()
            return pymysql.connect(host="127.0.0.1", port=port, user="admin", password=password)
        except (OSError, pymysql.err.OperationalError):
            return None

    def log():
        return (folder.parent / "log").read_text()

    return until(log_in, log, pause=0.1)


def test_a_private_mysql(tmp_path):
    tmp_path.chmod(0o755)  # the server runs as another user
    data, port = tmp_path / "data", free_port()
    command = [binary(), "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", str(data),
               "--server-directory", str(programs(tmp_path / "programs"))]
    for _ in ["created", "found"]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ONRAMP_")}
        with open(tmp_path / "log", "ab") as log:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            connection = first_login(process, data, port)
            with connection.cursor() as cursor:
                cursor.execute("SELECT CURRENT_USER(), @@version NOT LIKE '%MariaDB%'")
                assert cursor.fetchone() == ("admin@%", 1)
                cursor.execute("SHOW GRANTS FOR onramp@localhost")
                [rights] = [grant for grant, in cursor.fetchall() if grant.startswith("GRANT SELECT, ")]
                assert rights.startswith("GRANT SELECT, PROCESS, SHOW VIEW, TRIGGER ON *.*"), rights
            connection.close()
            with pytest.raises(pymysql.err.OperationalError) as refused:
                pymysql.connect(host="127.0.0.1", port=port, user="root")
            assert refused.value.args[0] == 3118  # ER_ACCOUNT_HAS_BEEN_LOCKED: it has no password
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
