"""Programs of session-changing steps, interleaved over many clients: the same steps direct and through, compared.

A step is a tuple: its name and its arguments. Steps that leave state which only the backend can hold (a temporary
table, a named lock ...) are *pinning*: a client that has made one keeps a backend to itself until it resets its
session or ends its transaction, so fewer clients may hold one than there are backends.
"""

import struct
from typing import NamedTuple

from . import raw
from .raw import Err, LocalInfile

SCHEMAS = ("onramp_a", "onramp_b")


class Step(NamedTuple):
    action: str
    text: str = ""
    pins: bool = False


def query(text, pins=False):
    return Step("query", text, pins)


def prepare_schemas(admin, clients):
    """Two schemas with the same names inside and different content; tables of each client's own for writes."""
    admin.query("SET lock_wait_timeout = 100")
    for number, schema in enumerate(SCHEMAS):
        statements = [
            f"DROP DATABASE IF EXISTS {schema}", f"CREATE DATABASE {schema}",
            f"CREATE TABLE {schema}.words (id INT PRIMARY KEY, w VARCHAR(40) CHARACTER SET utf8mb4)",
            f"INSERT INTO {schema}.words VALUES (1,'{schema}'),(2,'é'),(3,'straße'),(4,NULL)",
            f"CREATE PROCEDURE {schema}.warn() BEGIN DECLARE a TINYINT; SET sql_mode=''; SET a = 1000; SELECT a, {number}; END",
            f"CREATE PROCEDURE {schema}.remember(IN v INT) SET @remembered = v + {number}",
            f"CREATE FUNCTION {schema}.bump() RETURNS INT BEGIN SET @bumped = IFNULL(@bumped, {number}) + 1; RETURN @bumped; END",
        ]
        for client in range(clients):
            statements.append(f"CREATE TABLE {schema}.t{client} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20), n TINYINT)"
                              f" AUTO_INCREMENT = {1000 * client + 1}")
        for statement in statements:
            answer = admin.query(statement)
            assert isinstance(answer, raw.Ok), (statement, answer)


class Session:
    """One client of a program: performs steps and says what it saw."""

    def __init__(self, site, schema=SCHEMAS[0], user="app", password="app-secret", **options):
        self.connection = raw.connect(site, user, password, schema=schema, **options)
        self.credentials = (user, password)
        self.prepared = []
        self.begin()

    def begin(self):
        """In a new session FOUND_ROWS() is whatever an earlier user of the server's thread left: a first SELECT sets it."""
        return self.connection.query("SELECT 'begin'")

    def perform(self, step):
        return getattr(self, f"do_{step.action}")(step.text)

    def do_query(self, text):
        results = self.connection.query_all(text)
        if isinstance(results[-1], LocalInfile):
            self.connection.send(b"")
            results.append(self.connection.ok_or_error(self.connection.receive()))
        return results

    def do_connection_id(self, _):
        """CONNECTION_ID() never changes and is what the greeting said."""
        value = int(self.connection.value("SELECT CONNECTION_ID()"))
        return value == self.connection.id or f"{value} instead of {self.connection.id}"

    def do_use(self, schema):
        return self.connection.use(schema)

    def do_ping(self, _):
        return self.connection.ping()

    def do_reset(self, _):
        self.prepared.clear()
        return self.connection.reset(), self.begin()

    def do_change_user(self, schema):
        self.prepared.clear()
        return self.connection.change_user(*self.credentials, schema=schema), self.begin()

    def do_prepare(self, text):
        answer = self.connection.prepare(text)
        if isinstance(answer, Err):
            return answer
        self.prepared.append(answer)
        return answer[1:]  # ids are compared where statements are executed

    def do_execute(self, value):
        if not self.prepared:
            return "nothing prepared"
        prepared = self.prepared[-1]
        values = [value.encode()] * len(prepared.parameters)
        return self.connection.execute(prepared.statement, values)

    def do_close_statement(self, _):
        if self.prepared:
            self.connection.command(raw.STMT_CLOSE, struct.pack("<I", self.prepared.pop().statement))

    def close(self):
        self.connection.close()


SETTINGS = [
    "SET NAMES utf8mb4", "SET NAMES latin1", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET NAMES utf8mb3 COLLATE utf8mb3_unicode_ci",
    "SET NAMES DEFAULT", "SET collation_connection = utf8mb4_german2_ci",
    "SET sql_mode = ''", "SET sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES'", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SET sql_mode = DEFAULT", "SET sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT')", "SET @@session.sql_mode = 'ANSI'",
    "SET time_zone = '+05:30'", "SET time_zone = '-08:00'", "SET time_zone = DEFAULT", "SET time_zone = 'nowhere'",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ WRITE", "SET tx_isolation = 'REPEATABLE-READ'",
    "SET sql_select_limit = 2", "SET sql_select_limit = DEFAULT", "SET group_concat_max_len = 5", "SET group_concat_max_len = 1024",
    "SET lc_time_names = 'de_DE'", "SET lc_time_names = 'en_US'", "SET div_precision_increment = 8", "SET div_precision_increment = 4",
    "SET max_sort_length = 64, sql_safe_updates = 1", "SET sql_safe_updates = 0", "SET unique_checks = 0, foreign_key_checks = 0",
    "SET foreign_key_checks = 1", "SET auto_increment_increment = 5", "SET auto_increment_increment = 1", "SET sql_warnings = ON",
    "SET sql_notes = 0", "SET sql_notes = 1", "SET max_error_count = 1", "SET max_error_count = 64", "SET default_week_format = 3",
    "SET no_such_variable = 1", "SET sql_mode = 'NONSENSE'", "SET autocommit = 1", "SET sql_auto_is_null = 0", "SET SESSION wait_timeout = 1234",
    "SET old_mode = ''", "SET SESSION net_write_timeout = 77",
    "SET SESSION sql_mode = (SELECT 'TRADITIONAL')", "SET GLOBAL max_connections = 5", "SET time_zone = '+01:00', sql_mode = 'ANSI_QUOTES'",
]

# Each names what it reads, so that state of another client shows.
PROBES = [
    "SELECT DATABASE()", "SELECT @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection",
    "SELECT @@sql_mode", "SELECT @@time_zone, FROM_UNIXTIME(0)", "SELECT @@tx_isolation, @@tx_read_only, @@autocommit, @@in_transaction",
    "SELECT @@sql_select_limit, @@group_concat_max_len, @@lc_time_names, @@div_precision_increment",
    "SELECT @@sql_safe_updates, @@unique_checks, @@foreign_key_checks, @@auto_increment_increment, @@sql_warnings, @@sql_notes",
    "SELECT @@max_error_count, @@default_week_format, @@wait_timeout, @@net_write_timeout",
    "SELECT w FROM words ORDER BY id", "SELECT 'a\\\\b', \"x\"",
    "SELECT 1/3, DATE_FORMAT('2026-05-04', '%W')", "SELECT GROUP_CONCAT(w) FROM words", "SELECT HEX('é'), CHARSET('x'), COLLATION('x')",
    "SELECT 'é' = 'e', 'ss' = 'ß'", "SELECT 'a' || 'b'", "SELECT CURRENT_USER()", "SELECT UNIX_TIMESTAMP('2026-01-01 00:00:00')",
    "SELECT COUNT(*) FROM words", "SHOW VARIABLES LIKE 'collation_connection'", "SELECT LAST_INSERT_ID()", "SELECT @@identity",
    "SELECT LAST_INSERT_ID() + 1 AS next", "SELECT IFNULL(LAST_INSERT_ID(), 0), 5",
]

# Not SHOW ERRORS and LIMIT: where Onramp refuses them (docs/DIFFERENCES.md) the refusal is the next diagnostics.
DIAGNOSTICS = ["SHOW WARNINGS", "SHOW COUNT(*) WARNINGS", "SHOW COUNT(*) ERRORS", "SELECT @@warning_count", "SELECT @@error_count, @@warning_count"]

COUNTS = ["SELECT ROW_COUNT()", "SELECT FOUND_ROWS()", "SELECT ROW_COUNT(), FOUND_ROWS()", "SELECT ROW_COUNT() AS `own row_count()`",
          "SELECT FOUND_ROWS() AS `own found_rows()`, 2 AS two"]


def writes(client):
    """Statements on the client's own table."""
    table = f"t{client}"
    return [
        f"INSERT INTO {table} (v) VALUES ('one')", f"INSERT INTO {table} (v) VALUES ('one'),('two'),('three')",
        f"INSERT INTO {table} VALUES (NULL, 'null', 1)", f"INSERT INTO {table} VALUES ({1000 * client + 900}, 'explicit', 1)",
        f"INSERT IGNORE INTO {table} VALUES ({1000 * client + 1}, 'ignored', 1)", f"INSERT INTO {table} VALUES ({1000 * client + 1}, 'dup', 2)",
        f"INSERT INTO {table} (v, n) VALUES ('too large', 1000)", f"INSERT INTO {table} (v) VALUES (REPEAT('x', 50))",
        f"UPDATE {table} SET v = 'changed' WHERE id > 0 LIMIT 3", f"UPDATE {table} SET v = 'changed'", f"DELETE FROM {table} WHERE v = 'two'",
        f"REPLACE INTO {table} VALUES ({1000 * client + 1}, 'replaced', 3)", f"SELECT * FROM {table} ORDER BY id LIMIT 5",
        f"INSERT INTO {table} (v) SELECT w FROM words WHERE w IS NOT NULL", f"SELECT COUNT(*), MAX(id) FROM {table}",
        f"INSERT INTO {table} (id, v) VALUES (LAST_INSERT_ID(5), 'set') ON DUPLICATE KEY UPDATE n = 1",
        f"INSERT INTO {table} (v) VALUES ('r') RETURNING v", f"DELETE FROM {table}", f"TRUNCATE TABLE {table}",
        f"INSERT INTO {table} VALUES ({1000 * client + 1}, 'x', 0) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), n = IFNULL(n, 0) + 1",
        f"UPDATE {table} SET n = LAST_INSERT_ID(17) LIMIT 1", f"ALTER TABLE {table} COMMENT 'altered'", f"ANALYZE TABLE {table}",
    ]
