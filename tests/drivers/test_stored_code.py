"""What code that is stored on the server does to a session without a report: triggers, functions that views call, defaults of columns.

The service account may read that code here. All clients share a single backend, on which each would see what another one has left.
"""

import itertools
import select
import threading

import pytest

from conftest import site_through
from harness import raw
from harness.counted import Reading
from harness.relay import Relay
from harness.server import ADMIN
from harness.waiting import until

READER = ("reader", "reader-secret")
# The account of a service that may read all code.
READS = [f"CREATE OR REPLACE USER '{READER[0]}'@'%' IDENTIFIED BY '{READER[1]}'", f"GRANT SELECT, SHOW VIEW, TRIGGER, PROCESS ON *.* TO '{READER[0]}'@'%'"]

# Code that is there before Onramp is, and nothing is defined while the tests run.
CODE = """
CREATE DATABASE onramp_code
CREATE TABLE onramp_code.plain (a INT PRIMARY KEY, b VARCHAR(40))
CREATE TABLE onramp_code.audit (a INT)
CREATE TABLE onramp_code.audited (a INT PRIMARY KEY, b VARCHAR(40))
CREATE TRIGGER onramp_code.audit BEFORE INSERT ON onramp_code.audited FOR EACH ROW BEGIN INSERT INTO onramp_code.audit SET a = NEW.a; SET NEW.b = 'seen'; END
CREATE TABLE onramp_code.zoned (a INT PRIMARY KEY)
CREATE TRIGGER onramp_code.zone BEFORE INSERT ON onramp_code.zoned FOR EACH ROW SET @@time_zone = '+05:00'
CREATE TABLE onramp_code.untracked (a INT PRIMARY KEY)
CREATE TRIGGER onramp_code.trackers BEFORE INSERT ON onramp_code.untracked FOR EACH ROW SET @@session_track_system_variables = '', @@time_zone = '+06:00'
CREATE TABLE onramp_code.counted (a INT PRIMARY KEY)
CREATE TRIGGER onramp_code.count BEFORE INSERT ON onramp_code.counted FOR EACH ROW SELECT COUNT(*) + 5 INTO @counted FROM onramp_code.counted
CREATE TABLE onramp_code.locked (a INT PRIMARY KEY)
CREATE TRIGGER onramp_code.lock_it BEFORE INSERT ON onramp_code.locked FOR EACH ROW BEGIN DECLARE got INT; SET got = GET_LOCK('onramp_code', 0); END
CREATE TABLE onramp_code.failing (a INT)
CREATE TRIGGER onramp_code.fail BEFORE INSERT ON onramp_code.failing FOR EACH ROW BEGIN SELECT NEW.a INTO @failing; INSERT INTO onramp_code.missing VALUES (1); END
CREATE TABLE onramp_code.outs (a INT PRIMARY KEY)
CREATE PROCEDURE onramp_code.out_of(IN i INT, OUT o INT) SET o = i + 1
CREATE TRIGGER onramp_code.out_by_call BEFORE INSERT ON onramp_code.outs FOR EACH ROW CALL onramp_code.out_of(NEW.a, @outs)
CREATE TABLE onramp_code.nested (a INT PRIMARY KEY)
CREATE TRIGGER onramp_code.nest BEFORE INSERT ON onramp_code.nested FOR EACH ROW REPLACE INTO onramp_code.counted SET a = NEW.a
CREATE TABLE onramp_code.told (a INT PRIMARY KEY)
CREATE TRIGGER onramp_code.tell BEFORE INSERT ON onramp_code.told FOR EACH ROW SET @told = NEW.a
CREATE SEQUENCE onramp_code.numbers
CREATE TABLE onramp_code.numbered (id INT DEFAULT NEXTVAL(onramp_code.numbers), a INT)
CREATE TABLE onramp_code.computed (a INT PRIMARY KEY, b INT AS (@added + a))
CREATE FUNCTION onramp_code.read_added() RETURNS INT RETURN @added
CREATE VIEW onramp_code.added AS SELECT onramp_code.read_added() AS added
CREATE VIEW onramp_code.over_added AS SELECT added + 1 AS more FROM onramp_code.added
CREATE FUNCTION onramp_code.set_zone() RETURNS INT BEGIN SET @@time_zone = '+07:00'; RETURN 1; END
CREATE VIEW onramp_code.zones AS SELECT onramp_code.set_zone() AS one
CREATE VIEW onramp_code.last_id AS SELECT LAST_INSERT_ID() AS id
CREATE TABLE onramp_code.ids (id INT PRIMARY KEY AUTO_INCREMENT, v INT)
CREATE VIEW onramp_code.takes AS SELECT GET_LOCK('onramp_code', 0) AS got
CREATE VIEW onramp_code.`größe` AS SELECT onramp_code.set_zone() AS one
""".strip().splitlines()


def run(connection, statements):
    for statement in statements:
        answer = connection.query(statement)
        assert isinstance(answer, raw.Ok), (statement, answer)


def drop(server, *what):
    """Takes back what would stay on a server that other files use."""
    with raw.connect(server, *ADMIN) as admin:
        run(admin, ["SET lock_wait_timeout = 100", *(f"DROP {each}" for each in what)])


@pytest.fixture(scope="module")
def code(server):
    with raw.connect(server, *ADMIN) as admin:
        run(admin, ["DROP DATABASE IF EXISTS onramp_code", *READS, *CODE])
    yield
    drop(server, "DATABASE onramp_code", "DATABASE IF EXISTS onramp_defined", f"USER '{READER[0]}'@'%'")


@pytest.fixture(scope="module")
def reading(folder, server, code):
    onramp = Reading(server, folder, service=READER, max_backends=1).start_reading()
    yield onramp
    onramp.stop()


site = site_through("reading")


def see(clients, who, text):
    if text == "leaves":
        return clients.pop(who).close()
    connection = clients[who]
    if text == "resets":
        return connection.reset()
    if text.startswith("executes "):
        statement = connection.prepare(text.removeprefix("executes "))
        [answer] = connection.execute(statement.statement)
    else:
        answer = connection.query(text)
    return answer.rows if isinstance(answer, raw.Rows) else answer


ZONE = "B: SELECT @@time_zone"
# What goes ahead of each program, past Onramp.
CLEAN = [f"TRUNCATE {table}" for table in (
    "plain", "audit", "audited", "zoned", "untracked", "counted", "locked", "outs", "nested", "told", "numbered", "computed", "ids")]

PROGRAMS = {
    "a variable without a scope": ["A: INSERT INTO zoned VALUES (1)", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "a variable without a scope, prepared": ["A: executes INSERT INTO zoned VALUES (1)", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "a variable without a scope, before an error": [
        "A: INSERT INTO zoned VALUES (1)", "A: resets", "A: INSERT INTO zoned VALUES (1)", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "a variable without a scope, until a reset": ["A: INSERT INTO zoned VALUES (1)", "A: resets", "A: SELECT @@time_zone", ZONE],
    "a variable without a scope, in a transaction": ["A: BEGIN", "A: INSERT INTO zoned VALUES (1)", "A: COMMIT", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "the list of trackers": ["A: INSERT INTO untracked VALUES (1)", "A: SELECT @@time_zone", "A: SET time_zone = '+01:00'", "A: leaves", ZONE],
    "a selection into a variable": ["A: INSERT INTO counted VALUES (1)", "A: SELECT @counted", "A: leaves", "B: SELECT @counted"],
    "a selection into a variable, prepared in text": [
        "A: PREPARE s FROM 'INSERT INTO counted VALUES (1)'", "A: EXECUTE s", "A: DEALLOCATE PREPARE s", "A: SELECT @counted", "A: leaves", "B: SELECT @counted"],
    "a selection into a variable, prepared in text from a variable": [
        "A: SET @text = 'INSERT INTO counted VALUES (1)'", "A: PREPARE s FROM @text", "A: EXECUTE s", "A: DEALLOCATE PREPARE s", "A: SELECT @counted", "A: leaves", "B: SELECT @counted"],
    "a selection into a variable, executed at once": [
        "A: EXECUTE IMMEDIATE 'INSERT INTO counted VALUES (1)'", "A: SELECT @counted", "A: leaves", "B: SELECT @counted"],
    "a procedure's result": ["A: INSERT INTO outs VALUES (1)", "A: SELECT @outs", "A: leaves", "B: SELECT @outs"],
    "a trigger of a trigger's table": ["A: INSERT INTO nested VALUES (1)", "A: SELECT @counted", "A: leaves", "B: SELECT @counted"],
    "a reported variable before an error": ["A: INSERT INTO told VALUES (1)", "A: resets", "A: INSERT INTO told VALUES (1)", "A: leaves", "B: SELECT @told"],
    "a reported variable before an error, prepared in text": [
        "A: INSERT INTO told VALUES (1)", "A: resets", "A: PREPARE s FROM 'INSERT INTO told VALUES (1)'", "A: EXECUTE s", "A: DEALLOCATE PREPARE s", "A: leaves", "B: SELECT @told"],
    "a reported variable before an error, executed at once": [
        "A: INSERT INTO told VALUES (1)", "A: resets", "A: EXECUTE IMMEDIATE 'INSERT INTO told VALUES (1)'", "A: leaves", "B: SELECT @told"],
    "a selection into a variable before an error": ["A: INSERT INTO failing VALUES (1)", "A: SELECT @failing", "A: leaves", "B: SELECT @failing"],
    "a selection into a variable before an error, prepared in text": [
        "A: PREPARE s FROM 'INSERT INTO failing VALUES (1)'", "A: EXECUTE s", "A: DEALLOCATE PREPARE s", "A: SELECT @failing", "A: leaves", "B: SELECT @failing"],
    "a selection into a variable before an error, executed at once": [
        "A: EXECUTE IMMEDIATE 'INSERT INTO failing VALUES (1)'", "A: SELECT @failing", "A: leaves", "B: SELECT @failing"],
    "a named lock": ["A: INSERT INTO locked VALUES (1)", "A: SELECT IS_FREE_LOCK('onramp_code')", "A: resets", "B: SELECT IS_FREE_LOCK('onramp_code')"],
    "a named lock, prepared in text": [
        "A: PREPARE s FROM 'INSERT INTO locked VALUES (?)'", "A: SET @a = 1", "A: EXECUTE s USING @a", "A: DROP PREPARE s", "A: SELECT IS_FREE_LOCK('onramp_code')", "A: resets",
        "B: SELECT IS_FREE_LOCK('onramp_code')"],
    "a named lock in a view": ["A: SELECT * FROM takes", "A: SELECT IS_FREE_LOCK('onramp_code')", "A: resets", "B: SELECT IS_FREE_LOCK('onramp_code')"],
    "a function that a view calls": ["A: SELECT * FROM zones", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "a view of a name beyond ASCII": ["A: SELECT * FROM größe", "A: SELECT @@time_zone", "A: leaves", ZONE],
    "a sequence behind a default": [
        "A: INSERT INTO numbered (a) VALUES (1)", "A: SELECT LASTVAL(numbers) = (SELECT MAX(id) FROM numbered)", "A: resets", "A: INSERT INTO numbered (a) VALUES (1)", "A: leaves",
        "B: SELECT LASTVAL(numbers)"],
    "variables in a function of a view": [
        "A: SET @added = 1", "B: SET @added = 5", "A: SELECT * FROM over_added", "B: SELECT * FROM over_added", "A: executes SELECT * FROM added", "B: SELECT 1", "A: SELECT * FROM added"],
    "variables in a computed column": [
        "A: INSERT INTO computed (a) VALUES (1)", "A: SET @added = 1", "B: SET @added = 5", "A: SELECT b FROM computed", "B: SELECT b FROM computed"],
    "the id of an insert in a view": [
        "A: INSERT INTO ids (v) VALUES (1)", "B: SELECT 1", "A: SELECT id FROM last_id", "B: SELECT id FROM last_id", "A: SELECT LAST_INSERT_ID()"],
    "code that changes nothing": [
        "A: INSERT INTO audited (a) VALUES (1)", "A: INSERT INTO audited (a) VALUES (1)", "B: SELECT * FROM audited", "A: INSERT INTO audited (a) VALUES (2)", "B: SELECT COUNT(*) FROM audit"],
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_two_clients(client, note, server, code, name):
    with raw.connect(server, *ADMIN, schema="onramp_code") as admin:
        run(admin, CLEAN)
    clients = {who: client(schema="onramp_code") for who in "AB"}
    for number, step in enumerate(PROGRAMS[name]):
        who, text = step.split(": ", 1)
        note(f"{number} {step}", see(clients, who, text))


def defined(connection, statements):
    """Defines code for a test of its own, with tables of its own."""
    run(connection, ["DROP DATABASE IF EXISTS onramp_defined", "CREATE DATABASE onramp_defined", *statements])


TRIGGER = ["CREATE TABLE onramp_defined.t (a INT)", "CREATE TRIGGER onramp_defined.x BEFORE INSERT ON onramp_defined.t FOR EACH ROW SET @@time_zone = '+08:00'"]

# What is defined, and what meets it.
DEFINITIONS = {
    "a trigger": (TRIGGER, "INSERT INTO t VALUES (1)"),
    "a table of another name": ([*TRIGGER, "RENAME TABLE onramp_defined.t TO onramp_defined.u"], "INSERT INTO u VALUES (1)"),
    "a function behind a view": (
        ["CREATE FUNCTION onramp_defined.f() RETURNS INT RETURN 1", "CREATE VIEW onramp_defined.v AS SELECT onramp_defined.f()",
         "CREATE OR REPLACE FUNCTION onramp_defined.f() RETURNS INT BEGIN SET @@time_zone = '+08:00'; RETURN 1; END"],
        "SELECT * FROM v"),
    "a default": (
        ["CREATE SEQUENCE onramp_defined.s", "CREATE TABLE onramp_defined.t (a INT)", "ALTER TABLE onramp_defined.t MODIFY a INT DEFAULT NEXTVAL(onramp_defined.s)"],
        "INSERT INTO t VALUES (DEFAULT)"),
}

@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_what_is_defined_through_it_is_known_at_once(reading, name):
    statements, meets = DEFINITIONS[name]
    with raw.connect(reading, *ADMIN) as admin:
        defined(admin, statements)
        # Who has used a sequence or a function by name holds the backend.
        admin.reset()
        with raw.connect(reading, schema="onramp_defined") as client:
            assert not isinstance(client.query(meets), raw.Err)
            assert not others_are_served(admin), "it keeps the only backend"
        assert admin.result().rows


def others_are_served(other, text="SELECT 1"):
    """Whether a statement of another client is answered. Time enough for an answer, of which there is none however long one waits."""
    other.command(raw.QUERY, text.encode())
    return bool(select.select([other.socket], [], [], 0.3)[0])


def test_a_procedure_that_fails_like_an_unknown_statement_pins(reading, server, code):
    """Its body has executed one that is not there, behind what nobody is told of."""
    with raw.connect(server, *ADMIN, schema="onramp_code") as direct:
        run(direct, ["DROP PROCEDURE IF EXISTS halfway", "CREATE PROCEDURE halfway() BEGIN SELECT 1 INTO @halfway; EXECUTE missing; END"])
    with raw.connect(reading, *ADMIN) as other, raw.connect(reading, *ADMIN, schema="onramp_code") as client:
        run(client, ["PREPARE s FROM 'CALL halfway()'"])
        assert client.query("EXECUTE s").code == 1243
        run(client, ["DEALLOCATE PREPARE s"])
        assert not others_are_served(other), "it keeps the only backend"
        client.close()
        assert other.result().rows


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_what_is_defined_elsewhere_is_found(reading, server, name):
    statements, meets = DEFINITIONS[name]
    with raw.connect(server, *ADMIN) as admin:
        defined(admin, statements)
        # One reading may have begun before that.
        target = reading.status("Onramp_stored_code_read") + 2
        # What is defined as often as it takes counts as new code, whatever the name.
        number = itertools.count()

        def read():
            run(admin, [f"CREATE OR REPLACE VIEW onramp_code.again AS SELECT {next(number)}"])
            return reading.status("Onramp_stored_code_read") >= target

        until(read, "it was not read again")
    with raw.connect(reading, schema="onramp_defined") as client, raw.connect(reading, *ADMIN) as other:
        assert not isinstance(client.query(meets), raw.Err)
        assert not others_are_served(other), "it keeps the only backend"
        client.close()
        assert other.result().rows


@pytest.fixture(params=[1, 3])
def seldom(request, folder, server, code):
    """Asks seldom enough for new code that statements can run it before."""
    onramp = Reading(server, folder, service=READER, workers=request.param, accounts_refresh="2s", backend_idle_timeout="10m").start_reading()
    yield onramp
    onramp.stop()


def test_what_code_has_left_before_it_was_known_goes_when_it_is(seldom, server):
    """Whoever ran it has gone, and nobody comes behind."""
    with raw.connect(server, *ADMIN) as admin:
        with raw.connect(seldom, *ADMIN) as client:
            defined(admin, ["CREATE VIEW onramp_defined.v AS SELECT GET_LOCK('onramp_defined', 0) AS got"])
            assert client.query("SELECT got FROM onramp_defined.v").rows == [(b"1",)]
        until(lambda: admin.query("SELECT IS_FREE_LOCK('onramp_defined')").rows == [(b"1",)], "the lock stays")


def test_errors_cost_no_reset_where_no_code_can_have_changed_anything(reading):
    """What is prepared on the backend is still there, which a reset would have thrown away."""
    with raw.connect(reading, schema="onramp_code") as client:
        run(client, ["TRUNCATE plain", "TRUNCATE audited", "TRUNCATE told"])
        prepared = client.prepare("SELECT 1").statement
        for table, resets in (("plain", False), ("audited", False), ("told", True)):
            # Whoever told something holds the backend.
            run(client, [f"INSERT INTO {table} (a) VALUES (1)"])
            client.reset()
            prepared = client.prepare("SELECT 1").statement
            before = reading.status("Onramp_prepared_again")
            assert client.query(f"INSERT INTO {table} (a) VALUES (1)").code == 1062
            client.execute(prepared)
            assert (reading.status("Onramp_prepared_again") > before) == resets, table
        assert client.query("SELECT missing FROM plain").code == 1054


def test_a_trigger_that_is_younger_than_what_runs_it_in_text(own_server, own_onramp):
    """The name is looked up when the statement is executed, not when it is prepared."""
    onramp = own_onramp(own_server, max_backends=2, workers=1)
    with raw.connect(onramp, *ADMIN, schema="onramp_app") as defines, raw.connect(onramp, schema="onramp_app") as runs, raw.connect(onramp, schema="onramp_app") as other:
        run(defines, ["CREATE TABLE young (a INT)"])
        run(runs, ["PREPARE s FROM 'INSERT INTO young VALUES (5)'"])
        run(defines, ["CREATE TRIGGER tells BEFORE INSERT ON young FOR EACH ROW SELECT NEW.a INTO @told"])
        # Who names a variable, in whatever text, holds the backend.
        defines.reset()
        run(runs, ["EXECUTE s", "DEALLOCATE PREPARE s"])
        run(defines, ["BEGIN"])
        assert defines.query("SELECT a FROM young").rows == [(b"5",)]
        assert not others_are_served(other), "the former keeps the other backend"
        run(defines, ["COMMIT"])
        assert other.result().rows
        assert runs.query("SELECT @told").rows == [(b"5",)]


MISSING = "not all code that is stored on the server can be read"


def test_it_says_what_it_cannot_read(server, folder, code, own_onramp):
    onramp = own_onramp(server)
    onramp.says(MISSING)
    line = next(line for line in onramp.log_text().splitlines() if MISSING in line)
    assert "(triggers, views, columns' defaults)" in line, line


@pytest.mark.parametrize("text", ["{}", "EXECUTE IMMEDIATE '{}'"])
def test_a_failed_statement_costs_a_reset_where_code_cannot_be_read(server, code, own_onramp, text):
    onramp = own_onramp(server, max_backends=1)
    with raw.connect(server, *ADMIN, schema="onramp_code") as admin:
        run(admin, ["TRUNCATE counted", "INSERT INTO counted VALUES (1)"])
    with raw.connect(onramp, schema="onramp_code") as client, raw.connect(onramp, schema="onramp_code") as other:
        assert client.query(text.format("INSERT INTO counted VALUES (1)")).code == 1062
        assert other.query("SELECT @counted").rows == [(None,)]
        assert client.query(text.format("INSERT INTO failing VALUES (1)")).code == 1146
        assert other.query("SELECT @failing").rows == [(None,)]


def test_what_runs_while_code_is_defined_holds_no_backend(own_server, own_onramp):
    """It may have run that code, for all that is known; its backend is reset, and goes on to others."""
    onramp = own_onramp(own_server, max_backends=2, workers=1)
    with raw.connect(own_server, *ADMIN, schema="onramp_app") as direct, raw.connect(onramp, schema="onramp_app") as runs, raw.connect(onramp, schema="onramp_app") as defines:
        run(direct, ["CREATE TABLE beside (a INT)", "CREATE TABLE zoned (a INT)", "INSERT INTO beside VALUES (1)", "BEGIN", "UPDATE beside SET a = 2"])
        runs.command(raw.QUERY, b"UPDATE beside SET a = 3")
        until(lambda: direct.query("SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO = 'UPDATE beside SET a = 3'").rows, "it does not run")
        run(defines, ["CREATE TRIGGER zone BEFORE INSERT ON zoned FOR EACH ROW SET @@time_zone = '+05:00'"])
        run(direct, ["COMMIT"])
        assert isinstance(runs.result(), raw.Ok)
        with raw.connect(onramp, schema="onramp_app") as one, raw.connect(onramp, schema="onramp_app") as other:
            for connection in (one, other):
                run(connection, ["BEGIN"])
                assert connection.query("SELECT a FROM beside").rows == [(b"3",)]


def test_a_text_that_defines_code_and_runs_it_keeps_what_that_sets(own_server, own_onramp):
    onramp = own_onramp(own_server, max_backends=1, workers=1)
    with raw.connect(onramp, *ADMIN, schema="onramp_app", capabilities=raw.USUAL | raw.MULTI_STATEMENTS) as one, raw.connect(onramp, schema="onramp_app") as other:
        run(one, ["CREATE TABLE zoned (a INT)"])
        text = "CREATE TRIGGER zone BEFORE INSERT ON zoned FOR EACH ROW SET @@time_zone = '+05:00'; INSERT INTO zoned VALUES (1)"
        assert all(isinstance(answer, raw.Ok) for answer in one.query_all(text))
        assert one.query("SELECT @@time_zone").rows == [(b"+05:00",)]
        one.reset()
        assert other.query("SELECT @@time_zone").rows == [(b"SYSTEM",)]


def test_code_is_found_in_each_of_many_schemas(own_server, folder):
    names = [f"customer{number}" for number in range(150)] + ["it's", "back\\slash", 'a "name"', "größe", "-", "x" * 64]
    with raw.connect(own_server, *ADMIN) as admin:
        run(admin, READS)
        for number, name in enumerate(names):
            run(admin, [f"CREATE DATABASE `{name}`", f"CREATE VIEW `{name}`.locks{number} AS SELECT GET_LOCK('{number}', 0)"])
    onramp = Reading(own_server, folder, service=READER).start_reading()
    try:
        assert onramp.status("Onramp_stored_code_names") == len(names)
    finally:
        onramp.stop()


class Silent(Relay):
    """Never lets the server hear what views there are."""

    def __init__(self, server):
        self.asked, self.ends = 0, threading.Event()
        super().__init__(server)

    def to_server(self, piece):
        if b"information_schema.VIEWS" in piece:
            self.asked += 1
            self.ends.wait()


def test_a_server_that_never_says_what_code_it_has_is_left_alone(own_server, own_onramp):
    with raw.connect(own_server, *ADMIN) as admin:
        run(admin, READS)
    relay = Silent(own_server)
    try:
        onramp = own_onramp(relay, service=READER, workers=1, backend_connect_timeout="1s", accounts_refresh="100ms")
        onramp.says("not asked again for five minutes")
        # Its service account has logged in anew, and follows the accounts.
        with raw.connect(own_server, *ADMIN) as admin:
            run(admin, ["CREATE USER late@'%' IDENTIFIED BY 'late-secret'"])
        until(lambda: logs_in(onramp, "late", "late-secret"), "the accounts are not read")
        with raw.connect(own_server, *ADMIN) as admin:
            # Code that has changed is a reason to ask, and another look at the accounts comes behind where that would be done.
            run(admin, ["CREATE VIEW onramp_app.seen AS SELECT 1", "CREATE USER later@'%' IDENTIFIED BY 'later-secret'"])
        until(lambda: logs_in(onramp, "later", "later-secret"), "the accounts are not read")
        assert relay.asked == 1
    finally:
        relay.ends.set()
        relay.close()


def logs_in(onramp, user, password):
    try:
        raw.connect(onramp, user, password).close()
    except AssertionError:  # it is refused
        return False
    return True


class Refusals(Relay):
    """Notes what the server refuses."""

    def __init__(self, server):
        self.refused = []
        super().__init__(server)

    def from_server(self, piece):
        # An error by itself: a header, and 0xff.
        if piece[3:5] == b"\x01\xff":
            self.refused.append(piece)


def test_the_server_understands_what_it_is_asked(server, code, folder):
    relay = Refusals(server)
    try:
        Reading(relay, folder, service=READER).start_reading().stop()
    finally:
        relay.close()
    assert not [refused for refused in relay.refused if b"syntax" in refused], relay.refused
