"""Two clients on a single backend: the smallest programs in which one could see what the other left."""

import pytest

from conftest import site_through
from harness import raw
from harness.programs import prepare_schemas

site = site_through("single")

B_INSERTS = "B: INSERT INTO t1 (v) VALUES ('b')"
B_READS = "B: SELECT 1"

PROGRAMS = {
    "insert with an explicit id": [B_INSERTS, "A: INSERT INTO t0 VALUES (1, 'x', 3)", "A: SELECT LAST_INSERT_ID()"],
    "replace with an explicit id": [B_INSERTS, "A: REPLACE INTO t0 VALUES (1, 'x', 3)", "A: SELECT LAST_INSERT_ID()"],
    "id kept by an update that did not happen": [
        B_INSERTS, "A: INSERT INTO t0 VALUES (1, 'x', 0) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)", "A: SELECT @@identity"],
    "id set by the other's function": ["B: SELECT LAST_INSERT_ID(5)", "A: INSERT INTO t0 VALUES (1, 'x', 0)", "A: SELECT @@identity"],
    "id under an explicit one that begins a transaction": [
        "A: INSERT INTO t0 (v) VALUES ('one')", B_INSERTS, "A: SET autocommit = 0", "A: INSERT INTO t0 VALUES (50, 'x', 3)", "A: SELECT LAST_INSERT_ID()"],
    "id under a failure that begins a transaction": [
        "A: INSERT INTO t0 (v) VALUES ('one')", B_INSERTS, "A: SET autocommit = 0", "A: INSERT INTO t0 (v, n) VALUES ('x', 1000)", "A: SELECT LAST_INSERT_ID()"],
    "id of returning": ["A: INSERT INTO t0 (v) VALUES ('r') RETURNING v", B_INSERTS, "A: SELECT @@identity"],
    "id set in an insert": ["A: INSERT INTO t0 (id, v) VALUES (LAST_INSERT_ID(5), 's')", B_INSERTS, "A: SELECT LAST_INSERT_ID() + 1"],
    "id after a failure": [
        "A: INSERT INTO t0 (v) VALUES ('one')", B_INSERTS, "A: INSERT INTO t0 (v) VALUES (REPEAT('x', 50))", B_INSERTS, "A: SELECT LAST_INSERT_ID()"],
    "id set to 0": [
        "A: INSERT INTO t0 (v) VALUES ('one')", B_INSERTS, "A: SELECT LAST_INSERT_ID(0)", B_INSERTS, "A: SELECT LAST_INSERT_ID()", "A: SELECT @@identity"],
    "id set to 0 in an update": [
        "A: INSERT INTO t0 (v) VALUES ('one')", B_INSERTS, "A: UPDATE t0 SET n = LAST_INSERT_ID(0)", B_INSERTS, "A: SELECT LAST_INSERT_ID()"],
    "id not set by an update of nothing": [
        "A: INSERT INTO t0 (v) VALUES ('one')", B_INSERTS, "A: UPDATE t0 SET n = LAST_INSERT_ID(0) WHERE id = 99999", B_INSERTS,
        "A: SELECT LAST_INSERT_ID()", "A: SELECT LAST_INSERT_ID(n - n) FROM t0 WHERE id = 99999", "A: SELECT LAST_INSERT_ID()"],
    "id set to 0 in a transaction": [
        "A: INSERT INTO t0 (v) VALUES ('one')", B_INSERTS, "A: BEGIN", "A: SELECT LAST_INSERT_ID(0)", "A: SELECT LAST_INSERT_ID()", "A: COMMIT", B_INSERTS,
        "A: SELECT LAST_INSERT_ID()"],
    "id set to 0 where there was none": ["B: SELECT LAST_INSERT_ID(7)", "A: SELECT LAST_INSERT_ID(0)", "A: SELECT LAST_INSERT_ID()", "B: SELECT LAST_INSERT_ID()"],
    "id set in an update": ["A: UPDATE t0 SET n = LAST_INSERT_ID(17)", B_INSERTS, "A: SELECT LAST_INSERT_ID()"],
    "id before any insert": [B_INSERTS, "A: SELECT LAST_INSERT_ID()", "A: INSERT INTO t0 (v) SELECT LAST_INSERT_ID()", "A: SELECT v FROM t0"],
    "rows found by insert select": ["A: SELECT 1", "A: INSERT INTO t0 (v) SELECT w FROM words WHERE w IS NOT NULL", B_READS, "A: SELECT FOUND_ROWS()"],
    "row count": ["A: INSERT INTO t0 (v) VALUES ('a'), ('b')", B_INSERTS, "A: SELECT ROW_COUNT()", "A: SELECT ROW_COUNT()"],
    "row count of a failure": ["A: INSERT INTO t0 (v) VALUES (REPEAT('x', 50))", B_INSERTS, "A: SELECT ROW_COUNT()"],
    "warnings of the other": ["B: SELECT CAST('x' AS INT)", "A: SELECT COUNT(*) FROM words", "A: SHOW WARNINGS", "A: SHOW COUNT(*) WARNINGS", "A: SHOW ERRORS"],
    "errors of the other": ["A: SELECT COUNT(*) FROM words", "B: SELECT missing", "A: SHOW ERRORS", "A: SHOW COUNT(*) ERRORS", "A: SELECT @@error_count", "A: SHOW WARNINGS"],
    "rows found by a count of warnings": [
        "A: BEGIN", "A: SELECT 1/0 FROM words", "A: SHOW COUNT(*) WARNINGS", "A: ROLLBACK", B_READS, "A: SELECT FOUND_ROWS()"],
    "part of the warnings": ["A: SELECT CAST('x' AS INT), CAST('y' AS INT)", B_READS, "A: SHOW WARNINGS LIMIT 1"],
    "part of the warnings, of no warnings": ["B: SELECT CAST('x' AS INT)", "A: SELECT COUNT(*) FROM words", "A: SHOW WARNINGS LIMIT 1", "A: SHOW ERRORS LIMIT 5"],
    "errors among warnings": ["A: INSERT INTO t0 (v, n) VALUES (REPEAT('x', 50), 1000)", B_READS, "A: SHOW ERRORS"],
    "first insert id of a new session": [B_INSERTS, "A: SELECT LAST_INSERT_ID()", "A: SELECT @@identity"],
    "id and the other's failing statement": [
        B_INSERTS, "A: SELECT LAST_INSERT_ID()", "B: SELEC", "A: SELECT LAST_INSERT_ID()", "B: SELECT missing", "A: SELECT LAST_INSERT_ID()"],
    "own errors": ["A: USE forbidden", B_READS, "A: SELECT @@sql_mode", "A: SHOW WARNINGS", "A: SHOW COUNT(*) ERRORS"],
    "own warnings through SET": ["A: CREATE TABLE IF NOT EXISTS words (a INT)", B_READS, "A: SET autocommit = 1", "A: SELECT @@error_count, @@warning_count"],
    "after a syntax error": ["A: SELEC", B_READS, "A: SHOW WARNINGS"],
    "after a signal": ["A: SIGNAL SQLSTATE '01234'", B_READS],
    "after a failed set": ["A: SET no_such_variable = 1", B_READS, "A: SET sql_mode = 'NONSENSE'", B_READS],
    "after a missing table": ["A: SELECT * FROM missing", B_READS, "A: UPDATE missing SET a = 1", B_READS],
    "half of a set that fails": ["A: SET sql_mode = 'ANSI', time_zone = 'nowhere'", "B: SELECT @@sql_mode", "A: SELECT @@sql_mode, @@time_zone"],
    "schemas": ["A: USE onramp_b", "B: SELECT DATABASE()", "A: SELECT DATABASE()", "A: SELECT w FROM words WHERE id = 1", "B: SELECT w FROM words WHERE id = 1"],
    "charsets": ["A: SET NAMES latin1", "B: SELECT HEX('é')", "A: SELECT HEX('é')", "A: SELECT @@character_set_client", "B: SELECT @@character_set_client"],
    "collation": ["A: SET NAMES utf8mb4 COLLATE utf8mb4_bin", "B: SELECT 'a' = 'A'", "A: SELECT 'a' = 'A'", "B: SELECT 'a' = 'A'"],
    "transaction ends": ["A: BEGIN", "A: COMMIT", B_READS, "A: SET autocommit = 0", "A: COMMIT", B_READS],
    "timestamp within one statement": ["A: SET STATEMENT timestamp = 86400 FOR SELECT NOW() < '1971-01-01'", "A: SELECT NOW() > '2000-01-01'"],
    "isolation": ["A: SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "B: SELECT @@tx_isolation", "A: SELECT @@tx_isolation"],
    "unscoped isolation": ["A: SET tx_isolation = 'READ-COMMITTED'", "B: SELECT @@tx_isolation", "A: SELECT @@tx_isolation", B_READS],
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_two_clients(site, client, admin, note, name):
    prepare_schemas(admin, 2)
    clients = {"A": client(schema="onramp_a"), "B": client(schema="onramp_a")}
    for number, step in enumerate(PROGRAMS[name]):
        who, text = step.split(": ", 1)
        answer = clients[who].query(text)
        seen = answer.rows if isinstance(answer, raw.Rows) else answer
        note(f"{number} {step}", seen)
