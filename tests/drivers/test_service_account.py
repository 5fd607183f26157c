"""The service account with the rights of docs/ACCOUNTS.md and no others, by the statements that stand there."""

import os
import re
from pathlib import Path

import pymysql
import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.server import ADMIN, OTHER
from harness.waiting import until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ACCOUNTS.md"
PASSWORD = "service-of-the-page"


def statements(heading):
    """What the page says for a kind of server, for this machine and a name of its own."""
    found = re.search(re.escape(heading) + r".*?```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    text = found[1].replace("'onramp'@'10.0.0.7'", "'least'@'127.0.0.1'").replace("'...'", f"'{PASSWORD}'")
    assert text.count("'least'@'127.0.0.1'") == len(text.strip().splitlines())
    return [line.rstrip(";") for line in text.strip().splitlines()]


def check(server, heading, own_onramp, lock_tables):
    """Logins and statements through an Onramp that has found nothing to complain of, and what it asks about locks."""
    with pymysql.connect(host=server.host, port=server.port, user=ADMIN[0], password=ADMIN[1]) as admin:
        for statement in statements(heading):
            admin.cursor().execute(statement)
    onramp = own_onramp(server, backend=f"mysql://least:{PASSWORD}@{server.host}:{server.port}/")

    def connect(password="app-secret"):
        return pymysql.connect(host=onramp.host, port=onramp.port, user="app", password=password, ssl_disabled=True)

    with pytest.raises(pymysql.err.OperationalError, match="1045"):
        connect("wrong")
    with connect() as client, client.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        assert cursor.fetchall() == (("app@%",),)
    # What the log says where a right is missing.
    for complaint in ("service account", "not all rights"):
        assert complaint not in onramp.log_text()
    # Whose locks others wait for is asked only when somebody waits: the same tables, by the same account.
    with pymysql.connect(host=server.host, port=server.port, user="least", password=PASSWORD) as least:
        with least.cursor() as cursor:
            for table in lock_tables:
                cursor.execute(f"SELECT * FROM {table} LIMIT 1")
            # Whoever lacks PROCESS sees none but its own connections.
            cursor.execute("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER <> 'least'")
            assert cursor.fetchone()[0] > 0


def test_mariadb(own_server, own_onramp):
    check(own_server, "MariaDB 10.4 and newer:", own_onramp,
          ["information_schema.INNODB_LOCK_WAITS", "information_schema.INNODB_TRX"])


@private_mysql.since(8, 0, 20)
@private_mysql.needed
def test_mysql(folder, own_onramp):
    server = private_mysql.MySqlServer(folder).start()
    try:
        check(server, "MySQL 8.0.14 to 9.7:", own_onramp,
              ["performance_schema.data_lock_waits", "performance_schema.threads"])
    finally:
        server.discard()


def test_limits_that_hold_for_all(own_server, own_onramp):
    """Of the answers to the service account they leave nothing out."""
    with raw.connect(own_server, *ADMIN) as admin:
        for limit in ("max_join_size = 5", "sql_select_limit = 1", "sql_big_selects = 0"):
            assert isinstance(admin.query(f"SET GLOBAL {limit}"), raw.Ok)
        onramp = own_onramp(own_server)
        with raw.connect(onramp, *OTHER) as client:
            assert client.query("SELECT @@max_join_size, @@sql_select_limit").rows == [(b"5", b"1")]


def test_too_few_rights_are_said_once(own_server, own_admin, own_onramp):
    """It logs in, and may not read the accounts: that is tried again with growing pauses, and said once by each worker."""
    workers = int(os.environ.get("ONRAMP_WORKERS", "1"))
    own_admin.query(f"CREATE USER 'poor'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
    onramp = own_onramp(own_server, wait=False, service=("poor", PASSWORD))
    onramp.says("cannot be used")

    def attempts():
        return int(own_admin.query("SHOW GLOBAL STATUS LIKE 'Connections'").rows[0][1])

    before = attempts()
    until(lambda: attempts() >= before + 3 * workers, onramp.log_text)
    assert onramp.log_text().count("cannot be used") <= workers, onramp.log_text()
    # With the rights it is found.
    own_admin.query("GRANT SELECT ON mysql.* TO 'poor'@'127.0.0.1'")
    with raw.connect(onramp) as client:
        assert client.value("SELECT CURRENT_USER()") == b"app@%"
