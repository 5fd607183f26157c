"""What a client with CLIENT_SESSION_TRACK is told of changes of its session: packet by packet what a connection of its own is told.

Each program is played by two clients after each other, so that the second one is told of what Onramp answers by itself, while a
third one changes what stands on the backends.
"""

import pytest

from harness import raw
from harness.raw import Err, Rows
from harness.server import ADMIN
from harness.trackers import told

EVERYTHING = "SET session_track_system_variables = '*', session_track_schema = ON, session_track_state_change = ON"

# What clients ask to be told.
WISHES = {
    "as usual": [],
    "everything": [EVERYTHING],
    "that something changes": ["SET session_track_state_change = 1"],
    "less": ["SET session_track_schema = 0, session_track_system_variables = 'time_zone,sql_mode'"],
    "nothing": ["SET SESSION session_track_schema = OFF, session_track_system_variables = ''"],
    "transactions": ["SET session_track_transaction_info = 'STATE'"],
    "characteristics": ["SET session_track_transaction_info = 'CHARACTERISTICS'", EVERYTHING],
}

PROGRAMS = {
    "variables": ["SET NAMES latin1", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES utf8mb4", "SET CHARACTER SET latin1", "SET character_set_results = NULL",
                  "SET character_set_client = utf8mb4, time_zone = '+01:00'", "SET time_zone = '+02:00'", "SET time_zone = '+02:00'", "SET time_zone = DEFAULT",
                  "SET sql_mode = 'ANSI'", "SET sql_mode = ''", "SET sql_mode = 'NONSENSE'", "DO 1", "SET autocommit = 0", "SET autocommit = 1", "SET wait_timeout = 1000",
                  "SET unique_checks = 0, foreign_key_checks = 0", "SET @@session.sql_safe_updates = 0", "SET collation_connection = utf8mb4_general_ci", "SELECT 1", "SET @a = 1",
                  "SET GLOBAL max_error_count = 64", "SET time_zone = 'nowhere'", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET SESSION TRANSACTION READ WRITE"],
    "schemas": ["USE mysql", "SELECT DATABASE()", "USE onramp_test", "USE onramp_test", "USE no_such_schema", "DO 1", "CREATE DATABASE onramp_gone", "USE onramp_gone",
                "DROP DATABASE onramp_gone", "SELECT DATABASE()", "USE onramp_test"],
    "transactions": ["BEGIN", "COMMIT", "BEGIN", "SELECT COUNT(*) FROM t", "INSERT INTO t VALUES (NULL)", "COMMIT", "START TRANSACTION READ ONLY", "SELECT COUNT(*) FROM t", "ROLLBACK",
                     "START TRANSACTION", "DELETE FROM t", "ROLLBACK", "SET autocommit = 0", "SELECT COUNT(*) FROM t", "SET autocommit = 1", "INSERT INTO t VALUES (NULL)",
                     "BEGIN", "SET time_zone = '+03:00'", "USE mysql", "USE onramp_test", "COMMIT AND CHAIN", "ROLLBACK"],
    "several": ["SET time_zone = '+01:00'; SELECT 1; USE mysql", "USE onramp_test; SET NAMES latin1; SET NAMES utf8mb4", "SELECT 1; SELECT x", "DO 1"],
    "tables and what pins": ["CREATE TEMPORARY TABLE scratch (id INT)", "DROP TEMPORARY TABLE scratch", "PREPARE p FROM 'SET time_zone = \"+04:00\"'", "EXECUTE p",
                             "DEALLOCATE PREPARE p", "LOCK TABLES t READ", "UNLOCK TABLES", "SET ROLE NONE", "SET timestamp = 86400", "SELECT 1"],
    "routines": ["CALL settles()", "SELECT settled()", "DO settled()", "SELECT 1"],
    "errors": ["SELECT x", "DO 1", "BEGIN", "SELECT x", "SELECT x", "DO 1", "SET time_zone = 'nowhere', sql_notes = 1", "DO 1", "ROLLBACK", "SELECT no_such_function()", "SET autocommit = 1"],
    "trackers": ["SELECT @@session_track_schema, @@session_track_state_change", "SELECT @@session.session_track_system_variables LIKE '%time_zone%'",
                 "SET session_track_system_variables = CONCAT(@@session_track_system_variables, ',tx_isolation')", "SET autocommit = 1",
                 "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET autocommit = 0, session_track_system_variables = 'sql_mode', sql_mode = '', time_zone = '+01:00'",
                 "SELECT @@autocommit, @@sql_mode, @@time_zone, @@session_track_system_variables = 'sql_mode'", "SET sql_mode = 'ANSI', time_zone = '+02:00'", "SET autocommit = 1",
                 "SET session_track_system_variables = 'no_such_variable'", "SET time_zone = '+01:00', session_track_schema = 0", "USE mysql", "SET session_track_schema = 1",
                 "SET session_track_schema = 2", "USE onramp_test", "SET session_track_state_change = ON", "SET time_zone = '+01:00'", "SET session_track_state_change = OFF",
                 "SET time_zone = '+01:00'", "SET session_track_system_variables = '*'", "SET sql_notes = 1", "SET session_track_system_variables = DEFAULT",
                 "SET sql_notes = 1", "SET autocommit = 1",
                 "SELECT @@session_track_schema, @@session_track_state_change"],
}

PREPARED = ["SET time_zone = '+01:00'", "SET session_track_state_change = 1", "SET session_track_system_variables = 'sql_mode'", "SET sql_mode = ''", "SELECT 1",
            "INSERT INTO t VALUES (NULL)"]


@pytest.fixture
def tables(admin, schema):
    for statement in (f"USE {schema}", "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT)",
                      "CREATE PROCEDURE settles() BEGIN SET sql_notes = 0; SET @d = 1; SET SESSION sql_mode = 'ANSI'; END",
                      "CREATE PROCEDURE fails() BEGIN SET time_zone = '+07:00'; SET sql_notes = 1; SELECT x FROM nowhere; END",
                      "CREATE FUNCTION settled() RETURNS INT DETERMINISTIC BEGIN SET @e = 1; SET sql_safe_updates = 1; RETURN 1; END"):
        answer = admin.query(statement)
        assert not isinstance(answer, Err), (statement, answer)
    return schema


@pytest.fixture
def tracked(client, tables):
    """Opens clients that ask to be told."""
    return lambda capabilities=raw.USUAL | raw.MULTI_STATEMENTS: client(
        *ADMIN, schema=tables, capabilities=capabilities | raw.SESSION_TRACK)


def shown(answer):
    """Without definitions of columns, since what stands for `@@session_track_...` is a literal; without MySQL's counter of
    statements, which reports itself to clients that have all variables tracked; and without the flag that announces changes: MySQL
    sets it here and there where there are none to tell (docs/DIFFERENCES.md)."""
    results, packets = answer
    for flagged, items in packets:
        assert flagged or not items
    items = [[item for item in items if not item.startswith("variable statement_id")] for _, items in packets]
    return [result if isinstance(result, Err) else plain(result) for result in results], items


def plain(result):
    result = result._replace(status=result.status & ~raw.SESSION_STATE_CHANGED)
    return result._replace(columns=len(result.columns)) if isinstance(result, Rows) else result


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("wish", WISHES)
def test_programs(tracked, note, wish, name):
    other = tracked()
    for number in range(2):
        connection = tracked()
        for text in WISHES[wish] + PROGRAMS[name]:
            note(f"{number}: {text}", shown(told(connection, lambda: connection.query_all(text))))
            other.query(f"SET time_zone = '+0{number + 5}:00'")
            other.query("SELECT 1 FROM t")
        note("ping", shown(told(connection, lambda: [connection.ping()])))
        note("reset", told(connection, lambda: [connection.reset()]))
        note("behind it", told(connection, lambda: connection.query_all("SET autocommit = 1, time_zone = '+09:00', sql_mode = ''")))


def test_prepared_statements(tracked, note):
    for number in range(2):
        connection = tracked()
        numbers = [connection.prepare(text).statement for text in PREPARED]
        for text, statement in [*zip(PREPARED, numbers), *zip(PREPARED, numbers)]:
            note(f"{number}: {text}", told(connection, lambda: connection.execute(statement)))
        note("list", connection.query("SELECT @@session_track_system_variables = 'sql_mode', @@session_track_state_change").rows)


def test_other_commands(tracked, note):
    connection = tracked()
    note("use", told(connection, lambda: [connection.use("mysql")]))
    note("option", told(connection, lambda: [connection.simple(raw.SET_OPTION, b"\0\0")]))
    note("set", told(connection, lambda: connection.query_all("SET autocommit = 1; SELECT 1")))
    note("statistics", connection.command(raw.STATISTICS) or connection.receive()[:7])
    note("ping", told(connection, lambda: [connection.ping()]))
    note("use nothing", told(connection, lambda: [connection.use("no_such_schema")]))


@pytest.mark.parametrize("chosen", [None, "onramp_test"])
def test_login(client, note, tables, chosen):
    """Its answer tells the schema that it has chosen."""
    for _ in range(2):
        connection = client(*ADMIN, schema=chosen, capabilities=raw.USUAL | raw.SESSION_TRACK)
        note("login", getattr(connection, "session_changes", b""))


def test_without_packets_for_ends(tracked, note):
    """An EOF has no room for what there is to tell."""
    connection = tracked(raw.USUAL & ~raw.DEPRECATE_EOF)
    for text in ("SET time_zone = '+01:00'", "SELECT 1", "USE mysql", "SELECT 2", "SET autocommit = 1", "SELECT 3"):
        note(text, told(connection, lambda: connection.query_all(text)))


def test_who_does_not_ask_is_told_nothing(client, note, tables):
    asking, silent = client(schema=tables, capabilities=raw.USUAL | raw.SESSION_TRACK), client(schema=tables)
    for text in ("SET time_zone = '+01:00'", "USE onramp_test", "SET NAMES latin1", "SELECT 1"):
        for connection in (asking, silent, silent, asking):
            note(text, told(connection, lambda: connection.query_all(text)))
