"""What stored code does behind a plain read or an error reaches no other client, where it can be read and where it cannot; and KILL QUERY of one of
several reads on a backend."""

import contextlib

import pytest

from harness import raw
from harness.counted import Reading
from harness.onramp import Onramp
from harness.raw import Err, Ok, Rows
from harness.server import ADMIN, OTHER
from harness.waiting import until
from test_stored_code import READER, drop, others_are_served, run

# It sets something once `flag` says so: all reads before are as plain as any.
MOODY = [
    "DROP DATABASE IF EXISTS onramp_moody", "CREATE DATABASE onramp_moody", "CREATE TABLE onramp_moody.flag (v INT)",
    "INSERT INTO onramp_moody.flag VALUES (0)",
    "CREATE FUNCTION onramp_moody.f() RETURNS INT BEGIN DECLARE x INT; SELECT v INTO x FROM onramp_moody.flag; "
    "IF x = 1 THEN SET @mine = 7, time_zone = '+05:00'; DO GET_LOCK('onramp_moody', 300); END IF; RETURN 1; END",
    "CREATE VIEW onramp_moody.v AS SELECT onramp_moody.f() AS one"]
TRIALS = 12  # more than there have to be before reads of a kind share a backend


@pytest.fixture
def moody(server, own_onramp):
    """One backend, and the administrator who changes the mood."""
    with raw.connect(server, *ADMIN) as admin:
        run(admin, MOODY)
        yield own_onramp(server, max_backends=1, workers=1), admin
    drop(server, "DATABASE onramp_moody")


STATE = "SELECT @mine, @@time_zone"


def before_the_mood(other, client):
    """What the other one sees, before and behind reads that are as plain as any."""
    before = other.query(STATE).rows
    other.reset()
    for _ in range(TRIALS):
        assert client.value("SELECT one FROM v") == b"1"
    return before


def test_a_read_that_sets_something_after_all(moody):
    onramp, admin = moody
    with raw.connect(onramp, schema="onramp_moody") as other, raw.connect(onramp, schema="onramp_moody") as client:
        before = before_the_mood(other, client)
        run(admin, ["UPDATE onramp_moody.flag SET v = 1"])
        assert client.value("SELECT one FROM v") == b"1"
        run(admin, ["UPDATE onramp_moody.flag SET v = 0"])
        assert not others_are_served(other, STATE), "the client keeps the only backend"
        assert client.query(STATE).rows == [(b"7", b"+05:00")]
        client.close()
        assert other.result().rows == before


def test_one_whose_client_has_gone(moody):
    onramp, admin = moody
    with raw.connect(onramp, schema="onramp_moody") as other, raw.connect(onramp, schema="onramp_moody") as client:
        before = before_the_mood(other, client)
        run(admin, ["UPDATE onramp_moody.flag SET v = 1"])
        assert admin.value("SELECT GET_LOCK('onramp_moody', 0)") == b"1"
        client.command(raw.QUERY, b"SELECT one FROM v")
        waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"
        until(lambda: admin.query(waits).rows == [(b"1",)], "the read does not run")
        client.socket.close()
        assert admin.value("SELECT RELEASE_LOCK('onramp_moody')") == b"1"
        assert other.query(STATE).rows == before


SEARCHES = [
    "DROP DATABASE IF EXISTS onramp_searches", "CREATE DATABASE onramp_searches",
    "CREATE TABLE onramp_searches.found (body TEXT, FULLTEXT (body)) ENGINE=InnoDB", "CREATE TABLE onramp_searches.asked (q TEXT)",
    "CREATE TABLE onramp_searches.refused (q TEXT)",
    "CREATE TRIGGER onramp_searches.search BEFORE INSERT ON onramp_searches.asked FOR EACH ROW BEGIN DECLARE n INT; "
    "SET @@time_zone = '+05:00'; DO GET_LOCK('onramp_searches', 0); "
    "SELECT COUNT(*) INTO n FROM onramp_searches.found WHERE MATCH (body) AGAINST (NEW.q IN BOOLEAN MODE); END",
    "CREATE TRIGGER onramp_searches.refuse BEFORE INSERT ON onramp_searches.refused FOR EACH ROW BEGIN "
    "SET @@time_zone = '+05:00'; DO GET_LOCK('onramp_searches', 0); "
    "SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1064, MESSAGE_TEXT = 'You have an error in your SQL syntax'; END",
    f"CREATE OR REPLACE USER '{READER[0]}'@'%' IDENTIFIED BY '{READER[1]}'",
    f"GRANT SELECT, SHOW VIEW, TRIGGER, PROCESS ON *.* TO '{READER[0]}'@'%'"]


@pytest.mark.parametrize("table", ["asked", "refused"])
@pytest.mark.parametrize("reads", [False, True])
def test_what_a_trigger_has_done_before_a_syntax_error_of_its_own(server, folder, reads, table):
    """ER_PARSE_ERROR, of a text that is searched for or out of SIGNAL: the statement has run all the same."""
    with raw.connect(server, *ADMIN) as admin:
        run(admin, SEARCHES)
        few = {"max_backends": 1, "workers": 1}
        onramp = Reading(server, folder, service=READER, **few).start_reading() if reads else Onramp(server, folder, **few).start()
        try:
            with raw.connect(onramp, schema="onramp_searches") as other, raw.connect(onramp, schema="onramp_searches") as client:
                before = other.query("SELECT @@time_zone").rows
                answer = client.query(f"INSERT INTO {table} VALUES ('+')")
                assert isinstance(answer, Err) and answer.code == 1064
                if reads:
                    assert not others_are_served(other, "SELECT @@time_zone"), "who has taken a lock unseen keeps the backend"
                    client.close()
                    assert other.result().rows == before
                assert other.query("SELECT @@time_zone").rows == before
                until(lambda: admin.query("SELECT IS_FREE_LOCK('onramp_searches')").rows == [(b"1",)], "the lock stays")
        finally:
            onramp.stop()
            drop(server, "DATABASE onramp_searches", f"USER '{READER[0]}'@'%'")


def test_what_others_define_in_their_schemas_pins_nobody(server, folder):
    """A view with the name of a table of all others, or of a word in every statement, and definitions that the server refuses."""
    with raw.connect(server, *ADMIN) as admin:
        run(admin, ["DROP DATABASE IF EXISTS onramp_own", "CREATE DATABASE onramp_own", "DROP DATABASE IF EXISTS onramp_users", "CREATE DATABASE onramp_users",
                    "CREATE TABLE onramp_users.users (id INT)", f"CREATE OR REPLACE USER '{READER[0]}'@'%' IDENTIFIED BY '{READER[1]}'",
                    f"GRANT SELECT, SHOW VIEW, TRIGGER, PROCESS ON *.* TO '{READER[0]}'@'%'", "GRANT ALL ON onramp_own.* TO other"])
    takes = "SELECT GET_LOCK('onramp_others', 0) AS id"
    several = raw.USUAL | raw.MULTI_STATEMENTS
    onramp = Reading(server, folder, service=READER, max_backends=1, workers=1).start_reading()
    try:
        with raw.connect(onramp, *OTHER, schema="onramp_own", capabilities=several) as defines, raw.connect(onramp, *OTHER) as nowhere, \
                raw.connect(onramp, schema="onramp_users") as client, raw.connect(onramp, schema="onramp_users") as other:
            run(defines, [f"CREATE VIEW users AS {takes}", f"CREATE VIEW `select` AS {takes}", f"CREATE VIEW `from` AS {takes}"])
            defines.reset()
            refused = [
                nowhere.query(f"CREATE VIEW `select` AS {takes}"), nowhere.query(f"x CREATE VIEW `select` AS {takes}"),
                defines.query(f"CREATE VIEW onramp_users.users AS {takes}"), defines.query(f"CREATE TRIGGER onramp_users.t BEFORE INSERT ON onramp_users.users FOR EACH ROW DO ({takes})"),
                defines.query_all(f"CREATE VIEW more AS {takes}; USE onramp_users; CREATE VIEW `from` AS {takes}")[-1]]
            assert all(isinstance(answer, Err) for answer in refused), refused
            defines.reset()
            for _ in range(2):
                assert client.query("SELECT id FROM users").rows == []
                run(other, ["INSERT INTO users SELECT id FROM users"])
            # Who names what is in the other schema is pinned all the same.
            assert defines.query("SELECT * FROM users").rows == [(b"1",)]
            assert not others_are_served(other)
            defines.close()
            assert other.result().rows
            with raw.connect(server, *ADMIN) as admin:
                until(lambda: admin.query("SELECT IS_FREE_LOCK('onramp_others')").rows == [(b"1",)], "the lock stays")
    finally:
        onramp.stop()
        drop(server, "DATABASE onramp_own", "DATABASE onramp_users", f"USER '{READER[0]}'@'%'")
        with raw.connect(server, *ADMIN) as admin:
            run(admin, ["REVOKE ALL ON onramp_own.* FROM other"])


def test_a_cancelled_read_that_others_follow_is_ended_when_it_does_not_end_by_itself(own_server, own_onramp):
    """It had just begun: nobody knew yet that it is not a short one."""
    onramp = own_onramp(own_server, permits=1, workers=1, shared_backends=1, max_backends=8, rescue_reads="off")
    with contextlib.ExitStack() as stack:
        admin = stack.enter_context(raw.connect(own_server, *ADMIN, schema="onramp_app"))
        killer, *clients = (stack.enter_context(raw.connect(onramp, schema="onramp_app")) for _ in range(9))
        run(admin, ["CREATE TABLE locked (id INT PRIMARY KEY)"])
        for number in range(30):
            assert isinstance(killer.query(f"SELECT id FROM locked WHERE id = {number}"), Rows)
        run(admin, ["LOCK TABLES locked WRITE"])
        for number, client in enumerate(clients):
            client.command(raw.QUERY, b"SELECT id FROM locked WHERE id = %d" % number)
        waiting = "SELECT INFO FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%'"
        [(first,), *_] = until(lambda: admin.query(waiting).rows, "nobody waits")
        victim = clients.pop(int(first.rpartition(b"= ")[2]))
        assert isinstance(killer.query(f"KILL QUERY {victim.id}"), Ok)
        # The lock is there still.
        answer = victim.result()
        assert isinstance(answer, Err) and answer.code == 1317, answer
        run(admin, ["UNLOCK TABLES"])
        assert all(isinstance(client.result(), Rows) for client in clients)
        assert victim.value("SELECT 2") == b"2"
