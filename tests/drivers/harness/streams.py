"""What libraries say of their own accord: the statement streams of drivers and ORMs with their default settings.

PyMySQL 1.2, mysql-connector-python, SQLAlchemy 2 and Django 5 are as MariaDB's general log showed them; the others are as their
sources and published query logs have them. Each has what it says once, after its login, and what it says for each unit of work of
an application: a few reads, then a transaction with a read, an update and an insert.

A step is a text, or ("prepared", text, values): prepared once for each connection and kept, or ("prepared once", text, values):
prepared, executed and closed, or ("ping",).
"""

from . import raw

CREATE = "CREATE TABLE IF NOT EXISTS things (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20), KEY (v))"

_READ, _ONE = "SELECT id, v FROM things WHERE v = 'a' LIMIT 3", "SELECT id, v FROM things WHERE id = 7"
_UPDATE, _INSERT = "UPDATE things SET v = 'b' WHERE id = 7", "INSERT INTO things (v) VALUES ('c')"
_CONNECTOR_J = (
    "/* mysql-connector-j-8.3.0 (Revision: 805f872a57875f311cb82487efcfb070411a3fa0) */SELECT  @@session.auto_increment_increment AS auto_increment_increment,"
    " @@character_set_client AS character_set_client, @@character_set_connection AS character_set_connection, @@character_set_results AS character_set_results,"
    " @@collation_server AS collation_server, @@init_connect AS init_connect, @@interactive_timeout AS interactive_timeout, @@license AS license,"
    " @@lower_case_table_names AS lower_case_table_names, @@max_allowed_packet AS max_allowed_packet, @@net_write_timeout AS net_write_timeout,"
    " @@sql_mode AS sql_mode, @@system_time_zone AS system_time_zone, @@time_zone AS time_zone, @@wait_timeout AS wait_timeout")


class Stream:
    """`connect` is said once, `work` again and again."""

    def __init__(self, name, connect, work):
        self.name, self.connect, self.work = name, connect, work


STREAMS = [
    Stream("PyMySQL, mysqlclient", ["SET AUTOCOMMIT = 0"], [_READ, _ONE, "COMMIT", _ONE, _UPDATE, _INSERT, "COMMIT"]),
    Stream("mysql-connector-python, prepared cursors",
           ["SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'", "SET @@session.autocommit = OFF", "SELECT @@session.sql_mode"],
           [("prepared once", "SELECT id, v FROM things WHERE v = ? LIMIT 3", [b"a"]), "COMMIT", ("prepared once", "SELECT id, v FROM things WHERE id = ?", [b"7"]),
            _UPDATE, _INSERT, "COMMIT"]),
    Stream("SQLAlchemy (PyMySQL, pre-ping, READ COMMITTED)",
           ["SET AUTOCOMMIT = 0", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "COMMIT", "SELECT VERSION()", "SELECT DATABASE()", "SELECT @@tx_isolation",
            "SELECT @@sql_mode", "SELECT @@lower_case_table_names", "ROLLBACK"],
           [("ping",), _READ, "COMMIT", "ROLLBACK", ("ping",), _ONE, _UPDATE, _INSERT, "COMMIT", "ROLLBACK"]),
    Stream("Django (autocommit, atomic blocks, READ COMMITTED)",
           ["SET NAMES utf8mb4", "SET AUTOCOMMIT = 0", "SET AUTOCOMMIT = 1",
            "SELECT VERSION(), @@sql_mode, @@default_storage_engine, @@sql_auto_is_null, @@lower_case_table_names,"
            " CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'UTC') IS NOT NULL",
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SQL_AUTO_IS_NULL = 0"],
           [_READ, _ONE, _ONE, "SET AUTOCOMMIT = 0", _ONE, _UPDATE, "SAVEPOINT `s140360244874112_x1`", _INSERT + " RETURNING things.id",
            "RELEASE SAVEPOINT `s140360244874112_x1`", "COMMIT", "SET AUTOCOMMIT = 1"]),
    Stream("Rails (ActiveRecord, mysql2)",
           ["SET NAMES utf8mb4,  @@SESSION.sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'),  @@SESSION.sql_auto_is_null = 0,"
            " @@SESSION.wait_timeout = 2147483",
            "SELECT VERSION()", "SHOW FULL FIELDS FROM `things`"],
           [_READ, _ONE, _ONE, "BEGIN", _ONE, _UPDATE, _INSERT, "COMMIT"]),
    Stream("Laravel (PDO, native prepared statements)",
           ["use `onramp_app`", "set names 'utf8mb4' collate 'utf8mb4_unicode_ci'",
            "set session sql_mode='ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"],
           [("prepared once", "select * from `things` where `v` = ? limit 3", [b"a"]), ("prepared once", "select * from `things` where `id` = ? limit 1", [b"7"]),
            "START TRANSACTION", ("prepared once", "select * from `things` where `id` = ? limit 1", [b"7"]), ("prepared once", "update `things` set `v` = ? where `id` = ?", [b"b", b"7"]),
            ("prepared once", "insert into `things` (`v`) values (?)", [b"c"]), "COMMIT"]),
    Stream("Hibernate (Connector/J, HikariCP, Spring)",
           [_CONNECTOR_J, "SET character_set_results = NULL", "SET autocommit=1", "SET sql_mode='ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES'"],
           [("ping",), "set session transaction read only", "SET autocommit=0", _READ, _ONE, "commit", "SET autocommit=1", "SELECT @@session.tx_read_only",
            "set session transaction read write", ("ping",), "SET autocommit=0", _ONE, _UPDATE, _INSERT, "commit", "SET autocommit=1"]),
    Stream("Hibernate (Connector/J, useServerPrepStmts)",
           [_CONNECTOR_J, "SET character_set_results = NULL", "SET autocommit=1"],
           [("ping",), ("prepared", "select t.id, t.v from things t where t.v = ? limit 3", [b"a"]), ("prepared", "select t.id, t.v from things t where t.id = ?", [b"7"]), "SET autocommit=0",
            ("prepared", "select t.id, t.v from things t where t.id = ?", [b"7"]), ("prepared", "update things set v = ? where id = ?", [b"b", b"7"]),
            ("prepared", "insert into things (v) values (?)", [b"c"]), "commit", "SET autocommit=1"]),
    Stream("MariaDB Connector/J 2 and 3",
           ["set autocommit=1, session_track_schema=1, sql_mode = concat(@@sql_mode,',STRICT_TRANS_TABLES')",
            "SELECT @@max_allowed_packet,@@system_time_zone,@@time_zone,@@auto_increment_increment"],
           [("ping",), _READ, _ONE, "set autocommit=0", _ONE, _UPDATE, _INSERT, "COMMIT", "set autocommit=1"]),
    Stream("MariaDB R2DBC",
           ["SELECT @@time_zone, @@system_time_zone",
            "SET autocommit=1,tx_isolation='REPEATABLE-READ',session_track_schema=1,session_track_system_variables="
            "CONCAT(@@session_track_system_variables,',autocommit,tx_isolation'), names UTF8MB4"],
           [_READ, _ONE, "BEGIN", _ONE, _UPDATE, _INSERT, "COMMIT"]),
    Stream("Go (database/sql, placeholders)",
           ["SET NAMES utf8mb4"],
           [("prepared once", "SELECT id, v FROM things WHERE v = ? LIMIT 3", [b"a"]), ("prepared once", "SELECT id, v FROM things WHERE id = ?", [b"7"]), "START TRANSACTION",
            ("prepared once", "SELECT id, v FROM things WHERE id = ?", [b"7"]), ("prepared once", "UPDATE things SET v = ? WHERE id = ?", [b"b", b"7"]),
            ("prepared once", "INSERT INTO things (v) VALUES (?)", [b"c"]), "COMMIT"]),
    Stream("mysql2 for Node (execute)",
           [],
           [("prepared", "SELECT id, v FROM things WHERE v = ? LIMIT 3", [b"a"]), ("prepared", "SELECT id, v FROM things WHERE id = ?", [b"7"]), "START TRANSACTION",
            ("prepared", "SELECT id, v FROM things WHERE id = ?", [b"7"]), ("prepared", "UPDATE things SET v = ? WHERE id = ?", [b"b", b"7"]),
            ("prepared", "INSERT INTO things (v) VALUES (?)", [b"c"]), "COMMIT"]),
]


# What the same libraries say to MySQL since 8.0 instead. It takes no tracked name twice, and tracks autocommit by default.
_OF_MYSQL = {
    ",autocommit,tx_isolation": ",transaction_isolation", "tx_isolation": "transaction_isolation",
    "tx_read_only": "transaction_read_only", " RETURNING things.id": ""}


def of_mysql(stream):
    """The stream with a MySQL server behind it."""
    def translated(step):
        if isinstance(step, str):
            for of_mariadb, of_mysql in _OF_MYSQL.items():
                step = step.replace(of_mariadb, of_mysql)
        return step

    return Stream(stream.name, [translated(step) for step in stream.connect], [translated(step) for step in stream.work])


class Player:
    """A connection that says what a stream has it say."""

    def __init__(self, site, stream):
        self.connection = raw.connect(site, schema="onramp_app")
        self.stream = stream
        self.kept = {}

    def say(self, steps):
        """Says these; an AssertionError where the server refuses one."""
        for step in steps:
            answer = self._answer(step)
            assert not isinstance(answer, raw.Err), (self.stream.name, step, answer)

    def _answer(self, step):
        if isinstance(step, str):
            return self.connection.query(step)
        if step[0] == "ping":
            return self.connection.ping()
        how, text, values = step
        if text not in self.kept:
            self.kept[text] = self.connection.prepare(text).statement
        answers = self.connection.execute(self.kept[text], values)
        if how == "prepared once":
            self.connection.forget(self.kept.pop(text))
        return answers[0]

    def close(self):
        self.connection.close()
