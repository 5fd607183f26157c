"""The service account with the rights of docs/ACCOUNTS.md and no others, by the statements that stand there."""

import re
import time
from pathlib import Path

import pymysql
import pytest

from harness import mysql as private_mysql
from harness.server import ADMIN, free_port

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ACCOUNTS.md"
PASSWORD = "service-of-the-page"


def statements(heading):
    """What the page says for a kind of server, for this machine and a name of its own."""
    found = re.search(re.escape(heading) + r".*?```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    text = found[1].replace("'onramp'@'10.0.0.7'", "'least'@'127.0.0.1'").replace("'...'", f"'{PASSWORD}'")
    assert text.count("'least'@'127.0.0.1'") == len(text.strip().splitlines())
    return [line.rstrip(";") for line in text.strip().splitlines()]


def serve(server, heading, own_onramp, **options):
    with pymysql.connect(host=server.host, port=server.port, user=ADMIN[0], password=ADMIN[1]) as admin:
        for statement in statements(heading):
            admin.cursor().execute(statement)
    port = free_port()
    onramp = own_onramp(server, backend=f"mysql://least:{PASSWORD}@{server.host}:{server.port}/",
                        admin_listen=f"127.0.0.1:{port}", admin_password="admin-secret", permits=2, **options)
    onramp.admin_port = port
    return onramp


def check(onramp):
    """Logins, statements, and whose lock others wait for: all that the service account is for."""
    def connect(password="app-secret"):
        return pymysql.connect(host=onramp.host, port=onramp.port, user="app", password=password, autocommit=True,
                               ssl_disabled=True, init_command="SET innodb_lock_wait_timeout = 120")

    holder = connect()
    holder.cursor().execute("CREATE TABLE onramp_app.one_row (id INT PRIMARY KEY, n INT)")
    holder.cursor().execute("INSERT INTO onramp_app.one_row VALUES (1, 0)")
    with pytest.raises(pymysql.err.OperationalError, match="1045"):
        connect("wrong")
    holder.begin()
    holder.cursor().execute("UPDATE onramp_app.one_row SET n = 1")
    others = [connect() for _ in range(4)]
    for other in others:
        other._execute_command(3, "UPDATE onramp_app.one_row SET n = n + 1")  # noqa: SLF001 (without waiting)
    # Seen by its effect alone: that no clock decides, it is waited for as long as a slow machine may take.
    seen = wait_for_blocker(onramp)
    holder.commit()
    for other in others:
        other._read_query_result()  # noqa: SLF001
    assert seen == [(holder.thread_id(),)]
    for connection in (holder, *others):
        connection.close()
    said = [line for line in onramp.log_text().splitlines() if " WARN " in line or " ERROR " in line]
    assert [line for line in said if "refused: Access denied" not in line] == []


def wait_for_blocker(onramp):
    deadline = time.monotonic() + 60
    with pymysql.connect(host="127.0.0.1", port=onramp.admin_port, user="admin", password="admin-secret") as admin:
        while time.monotonic() < deadline:
            with admin.cursor() as cursor:
                cursor.execute("SELECT DISTINCT waits_for_client FROM clients WHERE waits_for_client IS NOT NULL")
                if found := list(cursor.fetchall()):
                    return found
            time.sleep(0.02)
    raise AssertionError("nobody is seen to wait")


def test_mariadb(own_server, own_onramp):
    check(serve(own_server, "MariaDB 10.4 and newer:", own_onramp))


@pytest.mark.skipif(private_mysql.home() is None, reason="MYSQL_HOME names no MySQL server's folder")
def test_mysql(folder, own_onramp):
    server = private_mysql.MySqlServer(folder).start()
    try:
        check(serve(server, "MySQL 8.0 to 9.7:", own_onramp))
    finally:
        server.stop()
