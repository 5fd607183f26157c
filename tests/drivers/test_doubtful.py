"""Texts that say less than they do: what they leave behind reaches nobody else.

Each program hides something from whoever reads its text (in another character set, in a definition, behind a name of another
server's) and leaves; then the server is asked what is left, and another client on the same single backend looks for it.
"""

import pytest

from conftest import site_through
from harness import raw
from harness.server import ADMIN

site = site_through("single")

SEVERAL = raw.USUAL | raw.MULTI_STATEMENTS

# The server gives a lock back a moment after its connection has gone.
LOCK_IS_FREE = ["S: SELECT GET_LOCK('onramp_stolen', 20)", "S: SELECT RELEASE_ALL_LOCKS()"]
TABLE_IS_FREE = ["S: INSERT INTO onramp_a.t VALUES (2)"]
NO_ROLE = ["B: SELECT CURRENT_ROLE()"]
NO_VARIABLE = ["B: SELECT @a"]
STEALS = "RETURNS INT NO SQL RETURN GET_LOCK('onramp_stolen', 0)"

# What a text does is seen by its own client, before it leaves.
MINE = "A: SELECT IS_FREE_LOCK('onramp_stolen')"

ON_BOTH = {
    "a character set that changes within a text": [
        b"A: SET NAMES gbk; SELECT '\xbf\\', GET_LOCK('onramp_stolen', 0) -- '\n; SET NAMES utf8mb4", MINE, "A: leaves", *LOCK_IS_FREE],
    "a character set that changes by name within a text": [
        b"A: SET @n = 'SET NAMES gbk'; PREPARE s FROM @n; EXECUTE s; SELECT '\xbf\\', GET_LOCK('onramp_stolen', 0) -- '\n; SET NAMES utf8mb4",
        "A: DEALLOCATE PREPARE s", MINE, "A: leaves", *LOCK_IS_FREE],
    "a role behind characters that end like a backslash": [
        "A: SET NAMES gbk", b"A: SELECT '\xbf\\'; SET ROLE onramp_powers -- '", "A: leaves", *NO_ROLE],
    "a block that is none in a view": [
        "A: DO 1; CREATE OR REPLACE VIEW v AS SELECT 1 AS begin; LOCK TABLES t WRITE; SELECT 1 AS end", "A: leaves", *TABLE_IS_FREE],
    "a block that is none in a procedure": [
        "A: CREATE PROCEDURE p() SELECT 1 AS begin; LOCK TABLES t WRITE; SELECT 1 AS end", "A: leaves", *TABLE_IS_FREE],
    "a block that is none within a block": [
        "A: CREATE PROCEDURE p() BEGIN SELECT CASE WHEN 1 THEN begin END FROM t; END; LOCK TABLES t WRITE; SELECT 1 AS end", "A: leaves", *TABLE_IS_FREE],
    "a block that is none behind a handler": [
        "A: CREATE PROCEDURE p() BEGIN DECLARE CONTINUE HANDLER FOR NOT FOUND SELECT 1 begin; END; LOCK TABLES t WRITE; SELECT 1 AS end", "A: leaves",
        *TABLE_IS_FREE],
    "a block that is none in a trigger": [
        "A: CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @b = (SELECT 1 AS begin); LOCK TABLES t WRITE; SELECT 1 AS end", "A: leaves", *TABLE_IS_FREE],
    "a role behind a block that is none": [
        "A: CREATE OR REPLACE VIEW v AS SELECT 1 AS begin; SET ROLE onramp_powers; SELECT 1 AS end", "A: leaves", *NO_ROLE],
    "a variable that is no host of an account": ["A: KILL QUERY@a:=4000000000", "A: leaves", *NO_VARIABLE],
    "a variable that is no host at once": ["A: KILL@a:=4000000000", "A: leaves", *NO_VARIABLE],
    "a variable in a schedule": ["A: CREATE EVENT e ON SCHEDULE EVERY@a:=3 DAY DO DO 0", "A: leaves", *NO_VARIABLE],
    "letters that are braces elsewhere": [
        "A: CREATE FUNCTION \u00e4concat(x VARCHAR(9)) RETURNS INT NO SQL RETURN GET_LOCK('onramp_stolen', 0)", "A: SET NAMES swe7", "A: SELECT {concat('x')", "A: leaves",
        *LOCK_IS_FREE],
    "the schedule of an event": [
        "A: CREATE EVENT e ON SCHEDULE AT NOW() + INTERVAL (1 + GET_LOCK('onramp_stolen', 0)) DAY DO DO 0", "A: leaves", *LOCK_IS_FREE],
    "the schedule of an event that changes": [
        "A: CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO DO 0", "A: ALTER EVENT e ON SCHEDULE AT NOW() + INTERVAL (1 + GET_LOCK('onramp_stolen', 0)) DAY",
        "A: leaves", *LOCK_IS_FREE],
    "texts of statements that were timed": ["A: SET profiling = 1", "A: SELECT 'secret'", "A: SET profiling = 0", "A: leaves", "B: SHOW PROFILES"],
}

PROGRAMS = {
    **ON_BOTH,
    "a function named like a keyword of MySQL's": [f"A: CREATE FUNCTION `lateral`(x INT) {STEALS}", "A: SELECT lateral(1)", "A: leaves", *LOCK_IS_FREE],
    "a function named like one of MySQL's": [f"A: CREATE FUNCTION any_value(x INT) {STEALS}", "A: SELECT any_value(1)", "A: leaves", *LOCK_IS_FREE],
    "a function named like an aggregate, behind a blank": [f"A: CREATE FUNCTION `lag`(x INT) {STEALS}", "A: SELECT lag (1)", "A: leaves", *LOCK_IS_FREE],
    "a role among assignments": ["A: SET @b = 1, ROLE onramp_powers", "A: leaves", *NO_ROLE],
    "a role in a branch": ["A: IF 1 THEN SET ROLE onramp_powers; END IF", "A: leaves", *NO_ROLE],
    "a role in a block with a label": ["A: help: BEGIN NOT ATOMIC SET ROLE onramp_powers; END", "A: leaves", *NO_ROLE],
    "partitions by time": [
        "A: CREATE TABLE h (a INT) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME INTERVAL 1 DAY STARTS FROM_UNIXTIME(1000000000 + GET_LOCK('onramp_stolen', 0))"
        " (PARTITION p HISTORY, PARTITION n CURRENT)", "A: leaves", *LOCK_IS_FREE],
}


def see(clients, step):
    who, text = step[0], step[3:]
    if text == "leaves":
        return clients.pop(who).close()
    answers = clients[who].query_all(text)
    return [answer.rows if isinstance(answer, raw.Rows) else answer for answer in answers]


def play(client, note, direct, program):
    for statement in ("DROP DATABASE IF EXISTS onramp_a", "CREATE DATABASE onramp_a", "CREATE TABLE onramp_a.t (a INT)", "SET lock_wait_timeout = 20"):
        assert isinstance(direct.query(statement), raw.Ok), statement
    clients = {name: client(schema="onramp_a", capabilities=SEVERAL) for name in "AB"} | {"S": direct}
    for number, step in enumerate(program):
        if isinstance(step, bytes):
            name, step = chr(step[0]), step
            answers = clients[name].query_all(step[3:])
            note(f"{number} {step!r}", [answer.rows if isinstance(answer, raw.Rows) else answer for answer in answers])
        elif step.startswith("A: SHOW") or step.startswith("B: SHOW PROFILES"):
            note(f"{number} {step}", len(see(clients, step)[0]))
        else:
            note(f"{number} {step}", see(clients, step))


@pytest.fixture(scope="module", autouse=True)
def role(server):
    """A role that `app` may take, without having it by itself. Once for all, since backends are renewed when rights change."""
    with raw.connect(server, *ADMIN) as connection:
        give_role(connection)


def give_role(connection):
    for statement in ("CREATE ROLE IF NOT EXISTS onramp_powers", "GRANT SELECT ON mysql.* TO onramp_powers", "GRANT onramp_powers TO app@'%'"):
        assert isinstance(connection.query(statement), raw.Ok), statement


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_nothing_stays(client, note, admin, name):
    play(client, note, admin, PROGRAMS[name])
