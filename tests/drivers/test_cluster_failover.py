"""Several servers, and the primary changes: what clients hear of it, and where each write is afterwards."""

import functools
import signal
import time

import pymysql
import pytest

from harness import raw, several
from harness.admin import rows
from harness.cluster import Cluster
from harness.raw import Closed, Err, Ok
from harness.server import SERVICE, free_port
from harness.several import CLIENTS, Load, until_in_use
from harness.waiting import in_background, stop_process, until


@pytest.fixture
def cluster(folder, template):
    cluster = Cluster(folder, template)
    try:
        cluster.hold_markers()
        yield cluster
    finally:
        cluster.discard()


@pytest.fixture
def start(cluster, own_onramp, monkeypatch):
    return functools.partial(several.start, own_onramp, monkeypatch, cluster, workers=2)


def test_the_primary_is_killed_and_a_script_promotes_the_replica(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    load = Load(onramp)
    load.until_acknowledged(200)
    cluster.servers[0].kill()
    cluster.promote(1)
    until_in_use(onramp, [0, 1])
    load.until_acknowledged(200)
    load.stop()
    load.balance(cluster, 1)
    # Whoever only reads has noticed nothing. What was in flight is in doubt, and nothing else: of each client one statement at most, which
    # is two markers in a transaction.
    assert load.errors["read"] == [] and load.reads > 0
    assert all(isinstance(error, Err) and error.code == 2013 for error in load.errors["write"]), load.errors["write"]
    assert all(isinstance(error, Err) and error.code in (1213, 2013) or isinstance(error, Closed)
               for error in load.errors["transaction"]), load.errors["transaction"]
    assert len(load.unknown) <= 2 * CLIENTS
    change = rows(onramp, "SELECT * FROM failovers")[0]
    assert change["from_server"].endswith(str(cluster.servers[0].port)) and change["to_server"].endswith(str(cluster.servers[1].port))
    assert change["took_us"] > 0 and change["held"] > 0
    assert change["lacks"] == ""
    # A client may have been told that a transaction is rolled back of which no server knew any more.
    assert change["unknown"] > 0 or not load.unknown


def test_a_planned_switchover_is_no_error_for_anybody_outside_of_transactions(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    load = Load(onramp)
    load.until_acknowledged(200)
    cluster.order(0, "SET GLOBAL read_only = 1")
    cluster.until_followed()
    cluster.promote(1)
    until_in_use(onramp, [0, 1])
    load.until_acknowledged(200)
    load.stop()
    load.balance(cluster, 1)
    assert load.errors["read"] == [] and load.errors["write"] == [] and load.unknown == set()
    assert all(isinstance(error, Err) and error.code == 1213 for error in load.errors["transaction"]), load.errors["transaction"]
    assert rows(onramp, "SELECT * FROM failovers")[0]["unknown"] == 0


def test_who_has_the_server_say_that_it_is_read_only_gets_that_himself(cluster, start):
    """A routine and a trigger may say it, and it is nobody else's affair: nothing runs twice, no transaction is lost."""
    cluster.order(0, "CREATE TABLE onramp_app.tries (id BIGINT) ENGINE=MyISAM", "CREATE TABLE onramp_app.kept (id BIGINT) ENGINE=InnoDB")
    refusal = "SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'with the --read-only option, as it says'"
    cluster.order(0, f"CREATE TRIGGER onramp_app.refuses AFTER INSERT ON onramp_app.tries FOR EACH ROW {refusal}",
                  f"CREATE PROCEDURE onramp_app.commits() BEGIN INSERT INTO kept VALUES (1); COMMIT; {refusal}; END")
    onramp = start()
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as other, raw.connect(onramp, schema="onramp_app") as hostile:
        assert other.query("BEGIN") and isinstance(other.query("INSERT INTO kept VALUES (2)"), Ok)
        # More often than it is looked into.
        for number in range(3):
            answer = hostile.query("INSERT INTO tries VALUES (1)")
            assert (answer.code, answer.state, answer.message) == (1290, "45000", "with the --read-only option, as it says"), answer
            assert hostile.value("SELECT COUNT(*) FROM tries") == str(number + 1).encode()
        assert hostile.query("BEGIN") and hostile.query("CALL commits()").code == 1290
        assert hostile.query("ROLLBACK") and hostile.value("SELECT COUNT(*) FROM kept WHERE id = 1") == b"1"
        assert isinstance(other.query("COMMIT"), Ok) and other.value("SELECT COUNT(*) FROM kept") == b"2"
    assert not rows(onramp, "SELECT * FROM failovers") and "no primary" not in onramp.log_text()


def test_an_open_transaction_is_rolled_back_and_its_client_goes_on(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as pinned:
        for statement in ("BEGIN", "INSERT INTO markers VALUES (1)"):
            assert isinstance(client.query(statement), Ok)
        assert isinstance(pinned.query("CREATE TEMPORARY TABLE mine (id INT)"), Ok)
        cluster.servers[0].kill()
        cluster.promote(1)
        until_in_use(onramp, [0, 1])
        answer = client.query("INSERT INTO markers VALUES (2)")
        assert isinstance(answer, Err) and (answer.code, answer.state) == (1213, "40001"), answer
        assert client.query("SELECT id FROM markers").rows == []
        for statement in ("BEGIN", "INSERT INTO markers VALUES (3)", "COMMIT"):
            assert isinstance(client.query(statement), Ok)
        # What cannot be had again is not pretended to be there.
        answer = pinned.query("SELECT * FROM mine")
        assert isinstance(answer, Err) and answer.code == 2013, answer
        assert pinned.at_end()
    assert cluster.order(1, "SELECT id FROM onramp_app.markers").rows == [(b"3",)]


def test_logins_that_have_asked_for_their_schema_end_on_the_new_primary(cluster, start):
    """One asks for all, and the server is lost with that question: nothing has run."""
    cluster.order(0, "CREATE DATABASE IF NOT EXISTS onramp_other")
    cluster.until_followed()
    onramp = start(workers=1)
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        assert isinstance(client.query("DO 1"), Ok)
        stop_process(cluster.servers[0].process.pid)
        logins = [in_background(functools.partial(raw.connect, onramp, schema="onramp_other")) for _ in range(3)]
        states = lambda: sorted(row["state"] for row in rows(onramp, "SELECT state FROM clients"))
        until(lambda: states() == ["idle", "logging_in", "logging_in", "running"], lambda: states())
        cluster.servers[0].kill()
        cluster.promote(1)
        until_in_use(onramp, [0, 1])
        for login in logins:
            with login() as late:
                assert late.value("SELECT DATABASE()") == b"onramp_other"


def test_two_that_take_writes_are_none_until_one_of_them_does_not(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        assert isinstance(client.query("INSERT INTO markers VALUES (1)"), Ok)
        cluster.order(1, "SET GLOBAL read_only = 0")
        until_in_use(onramp, [0, 0])
        onramp.says("take writes: which of them is the primary is not to be guessed")
        waiting = in_background(client.query, "INSERT INTO markers VALUES (2)")
        until(lambda: rows(onramp, "SELECT * FROM clients WHERE state = 'queued'"), "it does not wait")
        cluster.order(1, "SET GLOBAL read_only = 1")
        assert isinstance(waiting(), Ok)
    assert cluster.order(0, "SELECT id FROM onramp_app.markers").rows == [(b"1",), (b"2",)]


def test_the_old_primary_comes_back_and_takes_writes(cluster, start):
    """Nothing goes there, nor anywhere, until somebody has said which of both it is."""
    onramp = start()
    until_in_use(onramp, [1, 0])
    cluster.servers[0].kill()
    cluster.promote(1)
    until_in_use(onramp, [0, 1])
    with raw.connect(onramp, schema="onramp_app") as client:
        assert isinstance(client.query("INSERT INTO markers VALUES (1)"), Ok)
        cluster.start(0, read_only=False)
        until_in_use(onramp, [0, 0])
        waiting = in_background(client.query, "INSERT INTO markers VALUES (2)")
        until(lambda: rows(onramp, "SELECT * FROM clients WHERE state = 'queued'"), "it does not wait")
        cluster.order(0, "SET GLOBAL read_only = 1")
        assert isinstance(waiting(), Ok)
        until_in_use(onramp, [0, 1])
    assert cluster.order(0, "SELECT id FROM onramp_app.markers").rows == []
    assert cluster.order(1, "SELECT id FROM onramp_app.markers").rows == [(b"1",), (b"2",)]


def test_nothing_is_written_on_a_primary_that_hung_and_comes_to(cluster, start):
    """A check that hangs has failed at its deadline, and backends of that server are closed with the choice of another one."""
    onramp = start()
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp, schema="onramp_app") as holder:
        assert isinstance(holder.query("CREATE TEMPORARY TABLE mine (id INT)"), Ok)
        stop_process(cluster.servers[0].process.pid)
        try:
            cluster.promote(1)
            until_in_use(onramp, [0, 1])
            assert isinstance(client.query("INSERT INTO markers VALUES (1)"), Ok)
        finally:
            cluster.servers[0].process.send_signal(signal.SIGCONT)
        # It takes writes, as before: two of them.
        until_in_use(onramp, [0, 0])
        cluster.order(0, "SET GLOBAL read_only = 1")
        until_in_use(onramp, [0, 1])
        assert isinstance(client.query("INSERT INTO markers VALUES (2)"), Ok)
        answer = holder.query("INSERT INTO markers VALUES (3)")
        assert isinstance(answer, Err) and answer.code == 2013, answer
    assert cluster.order(0, "SELECT id FROM onramp_app.markers").rows == []
    assert cluster.order(1, "SELECT id FROM onramp_app.markers").rows == [(b"1",), (b"2",)]


def test_without_a_new_primary_the_wait_ends_with_an_error_that_says_so(cluster, start):
    onramp = start(failover_hold="1s")
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        cluster.order(0, "SET GLOBAL read_only = 1")
        answer = client.query("INSERT INTO markers VALUES (1)")
        assert isinstance(answer, Err) and answer.code in (1158, 1290), answer
        assert "failover_hold" in answer.message or answer.code == 1290, answer
        until_in_use(onramp, [0, 0])
        answer = client.query("SELECT 1")
        assert isinstance(answer, Err) and answer.code == 1158 and "failover_hold" in answer.message, answer
        first, second = cluster.servers
        assert f"127.0.0.1:{first.port} is up (read_only is on" in answer.message, answer
        assert f"127.0.0.1:{second.port} is up (read_only is on, it replicates from" in answer.message, answer
        assert len(answer.message) < 512, "more is cut off by clients"
        cluster.order(0, "SET GLOBAL read_only = 0")
        until_in_use(onramp, [1, 0])
        assert isinstance(client.query("INSERT INTO markers VALUES (2)"), Ok)


def test_who_logs_in_before_there_is_a_primary_hears_why_there_is_none(cluster, own_onramp):
    cluster.order(0, "SET GLOBAL read_only = 1")
    onramp = own_onramp(cluster.servers[0], wait=False, backend=cluster.backends(*SERVICE), connect_timeout="2s")
    onramp.says("no primary: no server is up and takes writes")
    with pytest.raises(pymysql.err.OperationalError) as refused:
        pymysql.connect(host="127.0.0.1", port=onramp.port, user="app", password="app-secret")
    code, message = refused.value.args
    assert code == 1158 and message.startswith("No server takes writes within connect_timeout: no server is up and takes writes: "), message
    assert all(f"127.0.0.1:{server.port} is up (read_only is on" in message for server in cluster.servers), message


def test_a_server_that_comes_and_goes_is_taken_for_a_primary_once_it_stays(cluster, start):
    onramp = start()
    until_in_use(onramp, [1, 0])
    with raw.connect(onramp, schema="onramp_app") as client:
        for number in range(1, 4):
            cluster.servers[0].kill()
            until_in_use(onramp, [0, 0])
            cluster.start(0, read_only=False)
            cluster.order(1, "START SLAVE")
            assert isinstance(client.query(f"INSERT INTO markers VALUES ({number})"), Ok)
    assert len(cluster.order(0, "SELECT id FROM onramp_app.markers").rows) == 3


def test_thirty_addresses(cluster, start):
    """Most of them of nobody."""
    nobody = [f"mysql://{SERVICE[0]}:{SERVICE[1]}@127.0.0.1:{free_port()}/" for _ in range(28)]
    onramp = start(backend=nobody[:14] + cluster.backends(*SERVICE) + nobody[14:])
    until_in_use(onramp, [0] * 14 + [1, 0] + [0] * 14)
    with raw.connect(onramp) as client:
        assert client.value("SELECT 1") == b"1"
    assert len(rows(onramp, "SELECT * FROM servers WHERE state = 'down'")) == 28


@pytest.mark.parametrize("own", [0, 3])
def test_a_new_primary_that_lacks_something_is_used_once_it_may_lack_it(cluster, start, own):
    """Nor does it help that it has written as many by itself."""
    onramp = start()
    until_in_use(onramp, [1, 0])
    cluster.order(0, "SET GLOBAL rpl_semi_sync_master_enabled = 0")
    cluster.order(1, "STOP SLAVE")
    with raw.connect(onramp, schema="onramp_app") as client:
        assert isinstance(client.query("INSERT INTO markers VALUES (1)"), Ok)
        written = cluster.value(0, "SELECT @@global.gtid_binlog_pos").decode()
        # What it was found to have in two checks counts.
        seen = lambda: rows(onramp, "SELECT position FROM servers")[0]["position"]
        until(lambda: seen() == written, "its position is not seen")
        checks = "SELECT COUNT(*) AS times FROM server_checks WHERE age_us < {} AND address LIKE '%:{}'"
        began = time.monotonic()
        age = lambda: int((time.monotonic() - began) * 1e6)
        until(lambda: rows(onramp, checks.format(age(), cluster.servers[0].port))[0]["times"] >= 2, "no more checks")
        cluster.servers[0].kill()
        own_rows = [f"INSERT INTO onramp_app.markers VALUES ({100 + number})" for number in range(own)]
        cluster.order(1, "RESET SLAVE ALL", *own_rows, "SET GLOBAL read_only = 0")
        onramp.says(f"lacks of what the former primary was known to have: {written}")
        assert written in rows(onramp, "SELECT reason FROM servers")[1]["reason"]
        waiting = in_background(client.query, "INSERT INTO markers VALUES (2)")
        until(lambda: rows(onramp, "SELECT * FROM clients WHERE state = 'queued'"), "it does not wait")
        rows(onramp, "SET GLOBAL failover_behind = 'allow'")
        assert isinstance(waiting(), Ok)
    assert rows(onramp, "SELECT lacks FROM failovers")[0]["lacks"] == written
    onramp.says(f"and lacks of what that was known to have: {written}")
    assert cluster.order(1, "SELECT id FROM onramp_app.markers WHERE id < 100").rows == [(b"2",)]
