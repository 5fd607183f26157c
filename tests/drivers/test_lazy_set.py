"""SETs whose answer is known: no backend hears of them, and nobody can tell."""

import pytest

from harness import raw
from harness.raw import Ok
from harness.server import ADMIN

# What one client does after another one has done the same; each answer is compared with all its flags.
PROGRAMS = {
    "names": ["SET NAMES utf8mb4", "SELECT 'x'", "SET NAMES latin1", "SELECT @@collation_connection, 'x'", "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
              "SELECT @@collation_connection", "set names 'utf8mb4' collate 'utf8mb4_unicode_ci'", "SELECT 'ä', @@character_set_results", "SET NAMES nonsense",
              "SET NAMES latin1 COLLATE utf8mb4_bin", "SHOW WARNINGS", "SELECT @@collation_connection"],
    "autocommit": ["SET autocommit = 0", "SELECT @@autocommit", "INSERT INTO t (v) VALUES ('x')", "SET autocommit = 1", "SELECT @@in_transaction", "SET autocommit=1",
                   "SET autocommit=0", "SET autocommit=1", "SELECT COUNT(*) >= 2 FROM t", "SET @@session.autocommit = OFF", "INSERT INTO t (v) VALUES ('y')", "ROLLBACK",
                   "SET @@session.autocommit = ON", "SET autocommit=2", "SHOW WARNINGS"],
    "levels": ["SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SELECT @@tx_isolation", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
               "SELECT @@tx_isolation", "SET SESSION TRANSACTION READ ONLY", "INSERT INTO t (v) VALUES ('x')", "SET SESSION TRANSACTION READ WRITE",
               "SET SESSION TRANSACTION ISOLATION LEVEL SOMETIMES", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "SELECT @@tx_isolation"],
    "in a transaction": ["BEGIN", "SET autocommit = 1", "INSERT INTO t (v) VALUES ('x')", "SET autocommit = 0", "SET autocommit = 1", "SELECT @@in_transaction", "ROLLBACK",
                         "BEGIN", "SET NAMES utf8mb4", "SET SESSION TRANSACTION READ ONLY", "INSERT INTO t (v) VALUES ('x')", "ROLLBACK"],
    "how texts are read": ["SET sql_mode = 'ANSI_QUOTES'", "SELECT \"v\" FROM t WHERE id = 1", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SELECT 'a\\\\b', \"v\"", "SET sql_mode=''",
                           "SELECT 'a\\\\b'", "SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES', autocommit=1", "SET time_zone=\"+01:00\"", "SELECT @@time_zone, '\\'",
                           "SET sql_mode='', time_zone='SYSTEM'"],
    "with warnings": ["SET wait_timeout = 999999999", "SHOW WARNINGS", "SET wait_timeout = 999999999", "SELECT @@warning_count, @@wait_timeout", "SET sql_mode = 'NONSENSE'"],
    "behind warnings": ["INSERT IGNORE INTO t (v) VALUES ('too long')", "SET NAMES utf8mb4", "SHOW WARNINGS", "SELECT @@warning_count", "SET sql_safe_updates=0", "SHOW WARNINGS"],
    "behind counts": ["UPDATE t SET v = 'c'", "SET NAMES utf8mb4", "SELECT ROW_COUNT()", "SELECT id FROM t LIMIT 2", "SET unique_checks=1", "SELECT FOUND_ROWS()",
                      "INSERT INTO t (v) VALUES ('z')", "SET foreign_key_checks=1", "SELECT LAST_INSERT_ID() > 0"],
    "what is not of the state alone": ["SET time_zone = DEFAULT, group_concat_max_len = 5", "SELECT GROUP_CONCAT(id) LIKE '_____' FROM t", "SET sql_mode = CONCAT(@@sql_mode, ',ANSI')",
                                       "SELECT @@sql_mode", "SET @@time_zone = '+02:00'", "SELECT @@time_zone", "SET time_zone = 'nowhere'", "SET character_set_results = NULL",
                                       "SELECT @@character_set_results", "SET autocommit=1; SELECT 1"],
    "shown": ["SET autocommit = 0", "SELECT @@autocommit", "SELECT @@session.autocommit", "SELECT @@autocommit AS a, @@time_zone", "SET time_zone = '+01:00'",
              "SELECT @@session.autocommit, @@time_zone", "SELECT @@session.autocommit, @@time_zone", "SET autocommit = 1", "SELECT @@autocommit", "SELECT @@autocommit",
              "UPDATE t SET v = 'u'", "SELECT @@time_zone", "SELECT ROW_COUNT()", "SELECT id FROM t LIMIT 2", "SELECT @@time_zone", "SELECT FOUND_ROWS()",
              "SET sql_mode = 'ANSI_QUOTES'", "SELECT @@sql_mode", "SET NAMES latin1", "SELECT @@sql_mode", "SELECT @@SQL_mode", "SET NAMES utf8mb4", "SELECT @@sql_mode",
              "SET sql_mode = ''", "INSERT IGNORE INTO t (v) VALUES ('too long')", "SELECT @@time_zone", "SHOW WARNINGS", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SELECT @@sql_mode",
              "SELECT @@sql_mode", "BEGIN", "SELECT @@sql_mode", "SELECT @@in_transaction", "COMMIT", "SELECT @@time_zone AS `a b`", "SELECT @@time_zone AS select",
              "SELECT @@session.nonsense", "SET sql_mode = ''"],
    "comments": ["/* ApplicationName=a driver */ SET autocommit=1", "SET /* b */ autocommit=1;", "/*!40101 SET NAMES latin1 */", "SELECT @@character_set_client",
                 "SET /*!50000 autocommit=0 */", "SELECT @@autocommit", "SET autocommit=1 -- of us"],
    "almost": ["SET @ @session.autocommit=1", "SET @@session .autocommit=1", "SET autocommit : = 1", "SET autocommit", "SET autocommit=1,", "SET autocommit=1 1",
               "SET NAMES utf8mb4 COLLATE", "SET SESSION TRANSACTION READ", "SET SESSION TRANSACTION READ ONLY READ WRITE", "SET SESSION TRANSACTION READ ONLY, READ WRITE"],
    "another schema": ["SET time_zone='+03:00'", "USE mysql", "SET time_zone='+04:00'", "SELECT DATABASE(), @@time_zone", "USE onramp_test", "SET time_zone='+03:00'",
                       "SELECT DATABASE(), @@time_zone, COUNT(*) > 0 FROM t"],
}


@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(client, note, schema, name, capabilities):
    first, second, other = client(schema=schema), client(schema=schema, capabilities=capabilities), client(schema=schema)
    first.query("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(5))")
    first.query("INSERT INTO t (v) VALUES ('one'), ('two')")
    for number, connection in enumerate((first, second, first)):
        for text in PROGRAMS[name]:
            note(f"{number}: {text}", connection.query_all(text))
            note("ping", connection.ping())
            other.query("SELECT 1")
    note("after reset", [second.reset(), second.query("SELECT @@autocommit, @@time_zone, @@sql_mode, @@collation_connection")])
    note("set again", [second.query(text) for text in PROGRAMS[name]])


def test_prepared_forms(client, note, schema):
    """They go to the server, and what they set meets what was set without it."""
    for connection in (client(schema=schema), client(schema=schema)):
        numbers = [connection.prepare(text).statement for text in ("SET autocommit=0", "SET time_zone='+01:00'", "SELECT @@autocommit, @@time_zone")]
        for number in (0, 1, 2):
            note("prepared", connection.execute(numbers[number]))
        for text in ("SET autocommit=1", "SET time_zone='+02:00'"):
            note(text, connection.query(text))
            note("prepared", connection.execute(numbers[2]))


def count_of_sets(admin):
    return int(admin.query("SHOW GLOBAL STATUS LIKE 'Com_set_option'").rows[0][1])


def test_the_server_hears_of_the_first_only(own_server, own_onramp):
    """What one client has set is known for all that are in its state, and reaches the server with a statement."""
    onramp = own_onramp(own_server, max_backends=1, workers=1)
    texts = ["SET NAMES utf8mb4", "SET autocommit=0", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET autocommit=1"]
    with raw.connect(own_server, *ADMIN) as admin:
        clients = [raw.connect(onramp, schema="onramp_app") for _ in range(20)]
        answers = [clients[0].query(text) for text in texts]
        assert [type(answer) for answer in answers] == [Ok] * 4
        before = count_of_sets(admin)
        for connection in clients[1:]:
            assert [connection.query(text) for text in texts] == answers
        assert count_of_sets(admin) == before
        for connection in clients:
            assert connection.query("SELECT @@autocommit, @@tx_isolation, @@character_set_client").rows == [(b"1", b"READ-COMMITTED", b"utf8mb4")]
        assert count_of_sets(admin) == before, "the only backend is in that state already"
        for connection in clients:
            connection.close()


def test_what_the_client_has_set_is_shown_without_the_server(own_server, own_onramp):
    onramp = own_onramp(own_server, max_backends=1, workers=1)
    text = "SELECT @@session.autocommit, @@tx_isolation"

    def selects(admin):
        # What is missing of the session state stands ahead of it in the same text.
        return int(admin.value(f"SELECT COUNT(*) FROM mysql.general_log WHERE argument LIKE '%{text}' AND argument NOT LIKE '%general_log%'"))

    with raw.connect(own_server, *ADMIN) as admin, raw.connect(onramp) as first, raw.connect(onramp) as second, raw.connect(onramp) as third:
        for statement in ("SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = ON"):
            assert isinstance(admin.query(statement), Ok)
        for connection in (first, second):
            assert isinstance(connection.query("SET autocommit=0, tx_isolation='SERIALIZABLE'"), Ok)
        answer = first.query(text)
        assert answer.rows == [(b"0", b"SERIALIZABLE")]
        before = selects(admin)
        assert [second.query(text), first.query(text), second.query(text)] == [answer] * 3
        assert selects(admin) == before
        for _ in range(2):
            assert third.query(text).rows == [(b"1", b"REPEATABLE-READ")]
        assert selects(admin) == before + 2, "what it has not set itself the server knows"


def test_lazy_set_off(own_server, own_onramp):
    onramp = own_onramp(own_server, lazy_set="off")
    with raw.connect(own_server, *ADMIN) as admin, raw.connect(onramp) as connection:
        assert isinstance(connection.query("SET autocommit=1"), Ok)
        before = count_of_sets(admin)
        assert isinstance(connection.query("SET autocommit=1"), Ok)
        assert count_of_sets(admin) == before + 1
