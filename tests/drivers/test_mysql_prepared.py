"""Prepared statements and begun transactions with a MySQL server behind Onramp, by MySQL's own library.

As test_mysql: skipped without a server.
"""

import mysql.connector
import pytest

from harness import mysql as private_mysql
from test_mysql import admin, connect_by_library as connect, onramp, server  # noqa: F401 (fixtures)

pytestmark = private_mysql.needed


@pytest.fixture
def schema(admin):
    for statement in ("DROP DATABASE IF EXISTS onramp_test", "CREATE DATABASE onramp_test", "CREATE TABLE onramp_test.p (id INT PRIMARY KEY, v VARCHAR(20), n INT)",
                      "INSERT INTO onramp_test.p VALUES (1, 'one', 10), (2, 'two', 20), (3, 'three', 30)"):
        admin(statement)
    return "onramp_test"


def execute(cursor, text, values=()):
    """The rows, or the error, of a prepared statement; a cursor keeps the one that it executed last."""
    try:
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.with_rows else (cursor.rowcount, cursor.lastrowid)
    except mysql.connector.Error as error:
        return (error.errno, error.sqlstate)


def test_shared_by_many_clients(connect, note, schema):
    cursors = [connect(database=schema).cursor(prepared=True) for _ in range(12)]
    for turn in range(3):
        for number, cursor in enumerate(cursors):
            note(f"{turn}, {number}", execute(cursor, "SELECT v, ? FROM p WHERE id = ?", (number, number % 3 + 1)))
    kinds = [1, 2 ** 40, 1.5, "text", b"bytes", None]
    for number, cursor in enumerate(cursors):
        note(f"kind {number}", execute(cursor, "SELECT ?, CHARSET(?)", (kinds[number % 6], kinds[number % 6])))
    for number, cursor in enumerate(cursors):
        note(f"kind again {number}", execute(cursor, "SELECT ?, CHARSET(?)", (kinds[number % 6], kinds[number % 6])))


def test_definitions_between(connect, note, schema, admin):
    cursors = [connect(database=schema).cursor(prepared=True) for _ in range(6)]
    text = "SELECT * FROM p WHERE id = ?"
    for cursor in cursors:
        note("before", execute(cursor, text, (1,)))
    admin("ALTER TABLE onramp_test.p ADD COLUMN more INT DEFAULT 7")
    for cursor in cursors:
        note("one more", execute(cursor, text, (1,)))
    admin("DROP TABLE onramp_test.p")
    for cursor in cursors:
        note("dropped", execute(cursor, text, (1,)))
    admin("CREATE TABLE onramp_test.p (id INT, other DOUBLE)")
    admin("INSERT INTO onramp_test.p VALUES (1, 1.5)")
    for cursor in cursors:
        note("anew", execute(cursor, text, (1,)))


def test_state_of_the_beginning(connect, note, schema, admin):
    admin("DROP DATABASE IF EXISTS onramp_other")
    admin("CREATE DATABASE onramp_other")
    admin("CREATE TABLE onramp_other.p (id INT, v VARCHAR(20))")
    admin("INSERT INTO onramp_other.p VALUES (1, 'other')")
    others = [connect(database=schema) for _ in range(6)]
    connection = connect(database=schema)
    first, quoted = connection.cursor(prepared=True), connection.cursor(prepared=True)
    note("first", execute(first, "SELECT v, DATABASE(), @@sql_mode FROM p WHERE id = ?", (1,)))
    note("quoted", execute(quoted, "SELECT \"quoted\", ?", ("x",)))
    connection.cmd_query("USE onramp_other")
    connection.cmd_query("SET sql_mode = 'ANSI_QUOTES', time_zone = '+03:00'")
    for turn in range(5):
        for other in others[:turn % 4]:
            other.cmd_query("BEGIN")
            other.cmd_query("DO 1")
        note("first", execute(first, "SELECT v, DATABASE(), @@sql_mode FROM p WHERE id = ?", (1,)))
        note("quoted", execute(quoted, "SELECT \"quoted\", ?", ("x",)))
        for other in others[:turn % 4]:
            other.cmd_query("ROLLBACK")


def test_few_statements_on_the_server(site, connect, schema, admin):
    if not site.through:
        pytest.skip("the server itself takes no more")
    admin("SET GLOBAL max_prepared_stmt_count = 60")
    try:
        cursors = [[connection.cursor(prepared=True) for _ in range(9)] for connection in (connect() for _ in range(6))]
        for _ in range(3):
            for own in cursors:
                for number, cursor in enumerate(own):
                    assert execute(cursor, f"SELECT {number}, ?", (5,)) == [(number, 5)]
    finally:
        admin("SET GLOBAL max_prepared_stmt_count = 16382")


PROGRAMS = {
    "nothing": ["BEGIN", "COMMIT", "START TRANSACTION", "ROLLBACK"],
    "a write": ["BEGIN", "INSERT INTO p VALUES (9, 'x', 9)", "ROLLBACK", "BEGIN", "INSERT INTO p VALUES (10, 'x', 9)", "COMMIT"],
    "read only": ["START TRANSACTION READ ONLY", "INSERT INTO p VALUES (9, 'x', 9)", "SELECT COUNT(*) FROM p", "COMMIT"],
    "by session": ["SET SESSION TRANSACTION READ ONLY", "BEGIN", "INSERT INTO p VALUES (9, 'x', 9)", "COMMIT"],
    "level of the next": ["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN", "SELECT COUNT(*) FROM p", "COMMIT", "BEGIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "COMMIT"],
    "twice": ["BEGIN", "BEGIN", "INSERT INTO p VALUES (9, 'x', 9)", "BEGIN", "ROLLBACK"],
    "chain": ["BEGIN", "COMMIT AND CHAIN", "INSERT INTO p VALUES (9, 'x', 9)", "ROLLBACK"],
    "savepoint": ["BEGIN", "SAVEPOINT s", "INSERT INTO p VALUES (9, 'x', 9)", "ROLLBACK TO s", "COMMIT"],
    "failure": ["BEGIN", "SELEC", "INSERT INTO p VALUES (1, 'dup', 9)", "INSERT INTO p VALUES (9, 'x', 9)", "ROLLBACK"],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_transactions(connect, note, schema, name):
    connection, other = connect(database=schema), connect(database=schema)
    for text in PROGRAMS[name]:
        try:
            answer = connection.cmd_query(text)
            if "columns" in answer:
                rows, end = connection.get_rows()
                note(text, (rows, end["status_flag"]))
            else:
                note(text, (answer["affected_rows"], answer["status_flag"]))
        except mysql.connector.Error as error:
            note(text, (error.errno, error.sqlstate))
        note("in transaction", connection.in_transaction)
        other.ping()
    connection.cmd_query("ROLLBACK")
    other.cmd_query("SELECT * FROM p")
    note("left", other.get_rows()[0])
