"""Transactions in which nothing has happened yet: no backend hears of them, and nobody can tell."""

import struct

import pytest

from harness import raw
from harness.raw import Err, Ok
from harness.waiting import until

CREATE = ["CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(5))", "INSERT INTO t (v) VALUES ('one'), ('two')"]

# What one client does; each answer is compared with all its flags.
PROGRAMS = {
    "nothing": ["BEGIN", "COMMIT", "BEGIN", "ROLLBACK", "COMMIT", "ROLLBACK", "SELECT 1"],
    "twice": ["BEGIN", "BEGIN", "INSERT INTO t (v) VALUES ('x')", "BEGIN", "ROLLBACK", "SELECT COUNT(*) FROM t"],
    "a read": ["BEGIN", "SELECT COUNT(*) FROM t", "COMMIT", "SELECT 1"],
    "a read without a table": ["BEGIN", "SELECT 1", "SELECT @@in_transaction", "COMMIT", "SELECT @@in_transaction"],
    "a write": ["BEGIN", "INSERT INTO t (v) VALUES ('x')", "SELECT LAST_INSERT_ID(), ROW_COUNT()", "ROLLBACK", "SELECT COUNT(*), LAST_INSERT_ID() FROM t"],
    "an id from before": ["INSERT INTO t (v) VALUES ('x')", "BEGIN", "INSERT INTO t VALUES (77, 'y')", "SELECT LAST_INSERT_ID()", "COMMIT", "SELECT LAST_INSERT_ID()"],
    "other forms": ["begin work", "commit work", "START TRANSACTION", "SELECT 1", "rollback work", "/* c */ BEGIN /* d */;", "SELECT 2", "COMMIT;"],
    "read only": ["START TRANSACTION READ ONLY", "SELECT COUNT(*) FROM t", "INSERT INTO t (v) VALUES ('x')", "SELECT COUNT(*) FROM t", "COMMIT"],
    "read only, a write first": ["START TRANSACTION READ ONLY", "INSERT INTO t (v) VALUES ('x')", "SELECT 1", "ROLLBACK", "SELECT 1"],
    "read only, nothing": ["START TRANSACTION READ ONLY", "COMMIT", "SELECT 1"],
    "read write": ["START TRANSACTION READ WRITE", "INSERT INTO t (v) VALUES ('x')", "COMMIT"],
    "read only by session": ["SET SESSION TRANSACTION READ ONLY", "BEGIN", "COMMIT", "BEGIN", "INSERT INTO t (v) VALUES ('x')", "SELECT COUNT(*) FROM t", "COMMIT"],
    "snapshot": ["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT COUNT(*) FROM t", "COMMIT"],
    "chain": ["BEGIN", "COMMIT AND CHAIN", "INSERT INTO t (v) VALUES ('x')", "ROLLBACK AND CHAIN", "SELECT 1", "COMMIT", "SELECT COUNT(*) FROM t"],
    "completion type": ["SET completion_type = 1", "BEGIN", "COMMIT", "SELECT 1", "SELECT @@in_transaction", "ROLLBACK", "SET completion_type = 0", "COMMIT"],
    "savepoints": ["BEGIN", "SAVEPOINT s", "INSERT INTO t (v) VALUES ('x')", "ROLLBACK TO s", "SELECT COUNT(*) FROM t", "COMMIT", "BEGIN", "ROLLBACK TO s", "COMMIT"],
    "level of the next": ["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN", "SELECT COUNT(*) FROM t", "COMMIT", "BEGIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "COMMIT"],
    "level of the session": ["BEGIN", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SELECT @@tx_isolation, @@in_transaction", "COMMIT", "BEGIN", "SELECT 1", "COMMIT"],
    "autocommit off": ["SET autocommit = 0", "BEGIN", "COMMIT", "SELECT COUNT(*) FROM t", "COMMIT", "BEGIN", "INSERT INTO t (v) VALUES ('x')", "ROLLBACK", "ROLLBACK", "SET autocommit = 1"],
    "autocommit within": ["BEGIN", "SET autocommit = 0", "INSERT INTO t (v) VALUES ('x')", "SET autocommit = 1", "ROLLBACK", "SELECT COUNT(*) FROM t", "BEGIN", "SET autocommit = 1", "SELECT @@in_transaction", "ROLLBACK"],
    "schema": ["BEGIN", "USE onramp_test", "SELECT @@in_transaction, DATABASE()", "COMMIT", "BEGIN", "USE onramp_missing", "SELECT @@in_transaction", "ROLLBACK"],
    "settings": ["BEGIN", "SET sql_mode = 'ANSI'", "SELECT @@in_transaction, @@sql_mode", "ROLLBACK", "SELECT @@sql_mode"],
    "definitions": ["BEGIN", "CREATE TABLE d (id INT)", "SELECT @@in_transaction", "ROLLBACK", "BEGIN", "DROP TABLE d", "COMMIT"],
    "locked tables": ["LOCK TABLES t WRITE", "BEGIN", "SELECT 1", "COMMIT", "BEGIN", "LOCK TABLES t READ", "SELECT @@in_transaction", "UNLOCK TABLES"],
    "several": ["BEGIN; INSERT INTO t (v) VALUES ('x'); COMMIT", "BEGIN", "SELECT 1; SELECT @@in_transaction; COMMIT", "BEGIN; SELECT 1", "COMMIT"],
    "failures": ["BEGIN", "SELEC", "SELECT @@in_transaction", "ROLLBACK", "BEGIN", "INSERT INTO t VALUES (1, 'dup')", "SHOW WARNINGS", "INSERT INTO t (v) VALUES ('x')",
                 "ROLLBACK", "SELECT COUNT(*) FROM t", "BEGIN", "SELECT * FROM missing", "COMMIT", "SELECT 1"],
    "warnings": ["INSERT IGNORE INTO t (v) VALUES ('too long')", "BEGIN", "SHOW WARNINGS", "SHOW COUNT(*) WARNINGS", "SELECT @@warning_count", "COMMIT"],
    "counts": ["UPDATE t SET v = 'c'", "BEGIN", "SELECT ROW_COUNT()", "COMMIT", "UPDATE t SET v = 'd'", "COMMIT", "SELECT ROW_COUNT()", "SELECT 1", "BEGIN", "SELECT FOUND_ROWS()", "ROLLBACK"],
    "xa": ["BEGIN", "XA START 'x'", "ROLLBACK", "XA START 'x'", "BEGIN", "COMMIT", "XA END 'x'", "XA ROLLBACK 'x'", "BEGIN", "COMMIT"],
    "oracle": ["SET sql_mode = 'ORACLE'", "BEGIN", "START TRANSACTION", "SELECT 1", "COMMIT"],
    "user variables": ["SET @a = 1", "BEGIN", "SELECT @a, @@in_transaction", "ROLLBACK", "COMMIT"],
    "release": ["BEGIN", "INSERT INTO t (v) VALUES ('x')", "COMMIT"],
}


@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(client, note, schema, name, capabilities):
    connection, other = client(schema=schema, capabilities=capabilities), client(schema=schema)
    for text in CREATE:
        connection.query(text)
    for text in PROGRAMS[name]:
        note(text, connection.query_all(text))
        note("ping", connection.ping())
        other.query("SELECT 1")
    other.query("SET lock_wait_timeout = 100")
    note("what is left", connection.query_all("ROLLBACK"))
    note("of it", other.query("SELECT * FROM t"))


def test_prepared_forms(client, note, schema):
    connection = client(schema=schema)
    for text in CREATE:
        connection.query(text)
    texts = ["BEGIN", "START TRANSACTION READ ONLY", "COMMIT", "ROLLBACK", "SELECT COUNT(*) FROM t", "INSERT INTO t (v) VALUES ('x')"]
    numbers = {text: connection.prepare(text).statement for text in texts}
    for program in ([0, 2], [0, 4, 2], [0, 5, 3, 4], [1, 4, 3], [0, 0, 5, 2, 4], [2, 3]):
        for text in (texts[place] for place in program):
            note(text, connection.execute(numbers[text]))
    note("begin", connection.query("BEGIN"))
    inner = connection.prepare("INSERT INTO t (v) VALUES (?)")
    note("prepared within", connection.execute(inner.statement, [b"in"]))
    note("rollback", connection.query("ROLLBACK"))
    note("rows", connection.query("SELECT COUNT(*) FROM t"))


def test_other_commands(client, note, schema):
    """Everything that is not a statement, with a transaction begun."""
    connection = client(schema=schema)
    for name, command in {
        "init db": lambda: connection.use(schema), "ping": connection.ping, "reset": connection.reset,
        "set option": lambda: connection.simple(raw.SET_OPTION, struct.pack("<H", 0)),
    }.items():
        note("begin", connection.query("BEGIN"))
        note(name, command())
        note("in transaction", connection.query("SELECT @@in_transaction"))
        note("commit", connection.query("COMMIT"))
    note("begin", connection.query("BEGIN"))
    note("change user", connection.change_user("app", "app-secret", schema))
    note("in transaction", connection.query("SELECT @@in_transaction"))


def test_begun_transactions_hold_nothing(own_server, own_onramp):
    """More transactions are open than there are backends."""
    onramp = own_onramp(own_server, max_backends=2)
    clients = [raw.connect(onramp, schema="onramp_app") for _ in range(20)]
    clients[0].query("CREATE TABLE held (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    for connection in clients:
        answer = connection.query("BEGIN")
        assert isinstance(answer, Ok) and answer.status & 1
    for number, connection in enumerate(clients):
        answer = connection.query(f"INSERT INTO held (v) VALUES ({number})")
        assert isinstance(answer, Ok) and answer.status & 1, answer
        answer = connection.query("ROLLBACK" if number % 2 else "COMMIT")
        assert isinstance(answer, Ok) and not answer.status & 1
    assert clients[0].value("SELECT COUNT(*) FROM held") == b"10"
    for connection in clients:
        connection.close()


def test_server_lost_with_the_first_statement(own_server, own_onramp):
    """Nobody goes on outside of a transaction that may have begun."""
    onramp = own_onramp(own_server, max_backends=2)
    with raw.connect(onramp, schema="onramp_app") as connection, raw.connect(own_server, "admin", "admin-secret") as admin:
        assert isinstance(connection.query("BEGIN"), Ok)
        connection.command(raw.QUERY, b"SELECT SLEEP(10000)")
        running = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP(10000)'"
        [(thread,)] = until(lambda: admin.query(running).rows, "the statement never ran")
        admin.query(f"KILL {int(thread)}")
        answer = connection.result()
        assert isinstance(answer, Err) and answer[0] in (2013, 1927, 1317), answer
        assert connection.at_end()
