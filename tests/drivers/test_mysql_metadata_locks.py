"""What MySQL keeps locked for a transaction of which its status tells nothing, behind Onramp.

As test_mysql: skipped without a server.
"""

import mysql.connector
import pytest

from harness import mysql as private_mysql
from test_mysql import admin, connect_by_library as connect, onramp, server  # noqa: F401 (fixtures)

pytestmark = private_mysql.needed

# Without autocommit each leaves a metadata lock to the end of the transaction, and a status that says that there is none.
USES = {
    "plain": "SELECT * FROM plain", "explained": "EXPLAIN SELECT * FROM rows_of_innodb", "described": "SHOW COLUMNS FROM plain",
    "failed": "SELECT (SELECT 1 UNION ALL SELECT 2) FROM plain",
}


@pytest.fixture
def schema(admin):
    for statement in ("DROP DATABASE IF EXISTS onramp_test", "CREATE DATABASE onramp_test", "CREATE TABLE onramp_test.plain (id INT) ENGINE = MyISAM",
                      "INSERT INTO onramp_test.plain VALUES (1)", "CREATE TABLE onramp_test.rows_of_innodb (id INT)", "CREATE TABLE onramp_test.other (id INT)"):
        admin(statement)
    return "onramp_test"


def run(connection, text):
    """The rows or the error of a statement."""
    cursor = connection.cursor()
    try:
        cursor.execute(text)
        return len(cursor.fetchall()) if cursor.with_rows else "done"
    except mysql.connector.Error as error:
        return error.errno
    finally:
        cursor.close()


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("name", sorted(USES))
def test_nothing_is_locked_behind_the_end(connect, note, schema, name, end):
    user, changer = connect(database=schema), connect(database=schema)
    # Both have a backend of their own at the same time, and each finds its own again.
    for text in ("SET lock_wait_timeout = 10", "BEGIN", "SELECT * FROM other"):
        note(text, run(changer, text))
    note("autocommit", run(user, "SET autocommit = 0"))
    note("use", run(user, USES[name]))
    note("changer ends", run(changer, "COMMIT"))
    note("user ends", run(user, end))
    table = "plain" if "plain" in USES[name] else "rows_of_innodb"
    note("change", run(changer, f"ALTER TABLE {table} COMMENT 'changed'"))


def test_what_is_used_stays_as_it_is_until_the_end(connect, note, schema):
    user, changer = connect(database=schema), connect(database=schema)
    note("timeout", run(changer, "SET lock_wait_timeout = 1"))
    note("autocommit", run(user, "SET autocommit = 0"))
    note("use", run(user, "SELECT * FROM plain"))
    note("change", run(changer, "ALTER TABLE plain COMMENT 'changed'"))
    note("end", run(user, "SET autocommit = 1"))
    note("change again", run(changer, "ALTER TABLE plain COMMENT 'changed'"))
