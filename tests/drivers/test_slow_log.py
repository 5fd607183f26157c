"""The slow log, and the log as JSON: each line is an object that says what happened, and never a secret."""

import json
import os
import signal

import pymysql
import pytest

from conftest import connect_pymysql
from harness import raw
from harness.raw import Err
from harness.server import ADMIN, free_port
from harness.waiting import PATIENCE, until

PASSWORD = "admin-secret"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
# Waits until the gate opens, for longer than anybody waits for what has to happen before.
GATE = f"SELECT GET_LOCK('gate', {2 * PATIENCE})".encode()
TRACE_PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def slow(own_onramp, tmp_path, monkeypatch):
    """Starts an Onramp with a slow log and an admin port."""
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)

    def start(server, **options):
        port = free_port()
        options.setdefault("slow_log", tmp_path / "slow.log")
        onramp = own_onramp(server, admin_listen=f"127.0.0.1:{port}", **options)
        onramp.admin_port, onramp.slow_log = port, options["slow_log"]
        return onramp

    return start


def admin(onramp, statement):
    connection = pymysql.connect(host="127.0.0.1", port=onramp.admin_port, user="admin", password=PASSWORD)
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def counter(onramp, name):
    [(_, value)] = admin(onramp, f"SHOW GLOBAL STATUS LIKE '{name}'")
    return int(value)


def lines(path):
    """What has been written: a line that is being written has no end yet."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def found(path, condition):
    """The lines of which this is true, as soon as there are any."""
    return until(lambda: [line for line in lines(path) if condition(line)],
                 lambda: f"no such line:\n{path.read_text() if path.exists() else 'no file'}")


def says(word):
    return lambda line: word in line.get("text", "")


def open_two_backends(onramp):
    """So that what waits then waits for a permit, and not for a backend."""
    clients = [raw.connect(onramp) for _ in range(2)]
    for statement in ("BEGIN", "SELECT 1", "ROLLBACK"):
        for client in clients:
            assert not isinstance(client.query(statement), Err)
    for client in clients:
        client.close()


def test_a_slow_statement_is_written_without_its_literals(server, slow):
    onramp = slow(server, slow_statement_time="100ms")
    with raw.connect(onramp, schema="onramp_app") as client:
        client.query("SELECT 'quick'")
        client.query("SELECT SLEEP(0.2), 'a literal' AS slept")
        [line] = found(onramp.slow_log, says("slept"))
        [(digest,)] = admin(onramp, "SELECT digest FROM statements WHERE text LIKE '%slept%'")
        assert line["text"] == "select sleep (?), ? as slept" and line["digest"] == digest
        assert (line["user"], line["schema"], line["command"]) == ("app", "onramp_app", "query")
        assert line["server_us"] >= 200_000 and line["wait_us"] >= 0 and line["end"] == "answered"
        assert (line["rows_sent"], line["rows_affected"]) == (1, 0) and "error" not in line
        assert line["client"] == int(client.value("SELECT CONNECTION_ID()")) and line["backend"] > 0
        assert line["address"].startswith("127.0.0.1:") and 1 <= line["permits_in_use"] <= line["permits"]
        assert not line["coalesced"] and "sent_text" not in line and "traceparent" not in line
        # What failed and what changed rows, too.
        assert isinstance(client.query("SELECT SLEEP(0.2) AS failed FROM nothing_of_this_name"), Err)
        client.query("CREATE TEMPORARY TABLE changed (a INT)")
        client.query("INSERT INTO changed SELECT SLEEP(0.1) UNION ALL SELECT SLEEP(0.1)")
        [line] = found(onramp.slow_log, says("insert into changed"))
        assert line["rows_affected"] == 2
    assert "literal" not in onramp.slow_log.read_text() and "quick" not in onramp.slow_log.read_text()
    until(lambda: len(lines(onramp.slow_log)) == counter(onramp, "Slow_queries") >= 2, "not each has its line")


def test_prepared_statements_have_their_digest(server, slow):
    onramp = slow(server, slow_statement_time="100ms")
    with raw.connect(onramp) as client:
        statement = client.prepare("SELECT SLEEP(?) AS prepared")
        client.execute(statement.statement, (b"0.2",))
    [line] = found(onramp.slow_log, says("prepared"))
    assert line["command"] == "execute" and line["text"] == "select sleep (?) as prepared" and line["digest"]


def test_a_wait_has_its_reason(own_server, slow):
    """One permit, which a statement keeps until the one that waits is seen to wait."""
    onramp = slow(own_server, slow_wait_time="1ms", permits=1, thread_pool_stall_limit="60s", lock_wait_interval="60s",
                  long_statement_time="0s", thread_pool_profile="native", workers=1, shared_backends=1)
    with raw.connect(own_server, *ADMIN) as gate, raw.connect(onramp) as holder, raw.connect(onramp) as waiting:
        open_two_backends(onramp)
        gate.query("SELECT GET_LOCK('gate', 10)")
        holder.command(raw.QUERY, GATE)
        until(lambda: admin(onramp, "SELECT 1 FROM clients WHERE state = 'running'"), "it never ran")
        waiting.command(raw.QUERY, b"SELECT SLEEP(0) AS waited")
        until(lambda: admin(onramp, "SELECT 1 FROM clients WHERE queued_us > 2000"), "it never waited")
        gate.query("SELECT RELEASE_LOCK('gate')")
        holder.result()
        waiting.result()
        [line] = found(onramp.slow_log, says("waited"))
        assert line["wait_reason"] == "permit" and line["wait_us"] >= line["wait_reason_us"] >= 1000
        assert line["queue"] == "low" and (line["permits_in_use"], line["permits"]) == (1, 1)
        # One that goes before it has started.
        assert holder.value("SELECT RELEASE_LOCK('gate')") == b"1"
        gate.query("SELECT GET_LOCK('gate', 10)")
        holder.command(raw.QUERY, GATE)
        until(lambda: admin(onramp, "SELECT 1 FROM clients WHERE state = 'running'"), "it never ran")
        waiting.command(raw.QUERY, b"SELECT SLEEP(0) AS waited")
        until(lambda: admin(onramp, "SELECT 1 FROM clients WHERE queued_us > 2000"), "it never waited")
        waiting.close()
        [line] = found(onramp.slow_log, lambda line: line["end"] == "client_gone")
        assert line["server_us"] == 0 and "backend" not in line and line["wait_us"] >= 2000
        gate.query("SELECT RELEASE_LOCK('gate')")
        holder.result()


def test_no_password_is_ever_written(own_server, slow):
    """With literals, and everything being slow."""
    onramp = slow(own_server, slow_statement_time="1ms", slow_wait_time="1ms", slow_log_literals="on")
    with raw.connect(onramp, *ADMIN, capabilities=raw.USUAL | raw.MULTI_STATEMENTS) as client:
        client.query("CREATE USER slow_one IDENTIFIED BY 'hush'")
        for text in (
            "SET PASSWORD FOR slow_one = PASSWORD('hush')",
            "ALTER USER slow_one IDENTIFIED BY 'hush'",
            "GRANT SELECT ON onramp_app.* TO slow_one IDENTIFIED BY 'hush'",
            "SET @a = 'ALTER USER slow_one IDENTIFIED BY ''hush'''",
            "SELECT SLEEP(0.01), 'ALTER USER slow_one IDENTIFIED BY ''hush'''",
            "EXECUTE IMMEDIATE 'ALTER USER slow_one IDENTIFIED BY ''hush'''",
            "PREPARE p FROM 'ALTER USER slow_one IDENTIFIED BY ''hush'''",
            "SELECT SLEEP(0.01); ALTER USER slow_one IDENTIFIED BY 'hush'",
            "SELECT SLEEP(0.01) /*!99999 IDENTIFIED */, 'hush",
            "ALTER USER slow_one IDENTIFIED BY hush",
            "SELECT SLEEP(0.01) AS last_one, 'shown'",
        ):
            client.query_all(text)
    [line] = found(onramp.slow_log, says("last_one"))
    assert line["sent_text"] == "SELECT SLEEP(0.01) AS last_one, 'shown'"
    text = onramp.slow_log.read_text()
    assert "hush" not in text and "alter user" in text, text


def test_a_trace_is_found_in_a_comment(server, slow):
    onramp = slow(server, slow_statement_time="50ms")
    with raw.connect(onramp) as client:
        client.query(f"SELECT SLEEP(0.1) AS traced /*action='%2Fa',traceparent='{TRACE_PARENT}'*/")
        client.query(f"SELECT SLEEP(0.1) AS untraced, '/*traceparent=''{TRACE_PARENT}''*/'")
        client.query("SELECT SLEEP(0.1) AS untraced /*traceparent='00-nothing-of-the-kind-01'*/")
    [line] = found(onramp.slow_log, says("as traced"))
    assert (line["traceparent"], line["trace_id"], line["span_id"]) == (TRACE_PARENT, TRACE, SPAN)
    until(lambda: len(found(onramp.slow_log, says("untraced"))) == 2, "not both")
    assert all("traceparent" not in line for line in found(onramp.slow_log, says("untraced")))


def test_sighup_opens_the_file_anew(server, slow, tmp_path):
    onramp = slow(server, slow_statement_time="50ms")
    rotated = tmp_path / "slow.log.1"
    with raw.connect(onramp) as client:
        client.query("SELECT SLEEP(0.1) AS first")
        found(onramp.slow_log, says("first"))
        assert onramp.slow_log.stat().st_mode & 0o777 & ~0o640 == 0
        for order in (signal.SIGHUP, signal.SIGUSR2, "RELOAD"):
            onramp.slow_log.rename(rotated)
            if order == "RELOAD":
                admin(onramp, order)
            else:
                onramp.process.send_signal(order)
            until(onramp.slow_log.exists, "it was not opened anew")
            client.query("SELECT SLEEP(0.1) AS second")
            found(onramp.slow_log, says("second"))
        # Other bounds, as long as Onramp runs; the file is the operator's alone.
        admin(onramp, "SET GLOBAL slow_statement_time = '1m'")
        client.query("SELECT SLEEP(0.1) AS fourth")
        admin(onramp, "SET GLOBAL slow_statement_time = '50ms'")
        client.query("SELECT SLEEP(0.1) AS fifth")
        found(onramp.slow_log, says("fifth"))
        assert not [line for line in lines(onramp.slow_log) if says("fourth")(line)]
        with pytest.raises(pymysql.err.MySQLError, match="fixed at the start"):
            admin(onramp, f"SET GLOBAL slow_log = '{tmp_path}/other.log'")


def test_what_is_not_answered_is_written_too(own_server, slow):
    # What nobody waits for any more goes on there until the test's end.
    onramp = slow(own_server, slow_statement_time="50ms")
    with raw.connect(onramp) as client:
        client.command(raw.QUERY, b"SELECT SLEEP(600) AS nobody_waits")
        until(lambda: admin(onramp, "SELECT 1 FROM clients WHERE running_us > 60000"), "it never ran")
    # Its text is known: it has started.
    [line] = found(onramp.slow_log, says("nobody_waits"))
    assert line["end"] == "client_gone" and line["server_us"] >= 60_000 and line["rows_sent"] == 0


def test_those_that_are_answered_together_have_a_line_each(own_server, slow):
    onramp = slow(own_server, slow_wait_time="1ms", permits=1, thread_pool_stall_limit="60s", lock_wait_interval="60s",
                  long_statement_time="0s", workers=1, coalesce_reads="on")
    with raw.connect(own_server, *ADMIN) as gate, raw.connect(onramp) as holder:
        open_two_backends(onramp)
        gate.query("SELECT GET_LOCK('gate', 10)")
        holder.command(raw.QUERY, GATE)
        until(lambda: admin(onramp, "SELECT 1 FROM clients WHERE state = 'running'"), "it never ran")
        clients = [raw.connect(onramp) for _ in range(3)]
        for client in clients:
            client.command(raw.QUERY, b"SELECT 12345 AS together")
        until(lambda: len(admin(onramp, "SELECT 1 FROM clients WHERE queued_us > 2000")) == 3, "they never waited")
        gate.query("SELECT RELEASE_LOCK('gate')")
        holder.result()
        for client in clients:
            client.result()
        together = until(lambda: len(found(onramp.slow_log, says("together"))) == 3 and found(onramp.slow_log, says("together")),
                         "not one each")
        assert [line["coalesced"] for line in together] == [False, True, True]
        assert len({line["client"] for line in together}) == 3 and len({line["backend"] for line in together}) == 1
        assert all(line["wait_reason"] == "permit" and line["wait_us"] >= 2000 for line in together)
        for client in clients:
            client.close()


@pytest.mark.parametrize("place", ["no-such-folder/slow.log", "/dev/full", "fifo"])
def test_a_file_that_takes_nothing_stops_nobody(server, slow, tmp_path, place):
    if place == "fifo":
        os.mkfifo(tmp_path / place)
    onramp = slow(server, slow_statement_time="50ms", slow_log=tmp_path / place)
    with raw.connect(onramp) as client:
        for _ in range(2):
            assert isinstance(client.query("SELECT SLEEP(0.1)"), raw.Rows)
    until(lambda: counter(onramp, "Onramp_slow_log_lost") == 2, "the lost lines were not counted")
    onramp.says("slow_log: ", times=1)
    if place == "/dev/full":
        return
    # Once it can be written the next line tells of those that were lost.
    if place == "fifo":
        onramp.slow_log.unlink()
    else:
        onramp.slow_log.parent.mkdir()
    onramp.process.send_signal(signal.SIGHUP)
    until(onramp.slow_log.exists, "it was not opened")
    with raw.connect(onramp) as client:
        client.query("SELECT SLEEP(0.1) AS written")
    [line] = found(onramp.slow_log, says("written"))
    assert line["left_out"] == 2


def test_a_burst_is_sampled_and_counted(own_server, slow):
    """1,000 slow statements, of which few have lines; all are counted."""
    onramp = slow(own_server, slow_statement_time="1ms", slow_log_per_second=5, workers=1)
    clients = [raw.connect(onramp) for _ in range(50)]
    for _ in range(20):
        for client in clients:
            client.command(raw.QUERY, b"DO SLEEP(0.002)")
        for client in clients:
            client.result()
    until(lambda: counter(onramp, "Slow_queries") == 1000, "not all were slow")
    left_out = counter(onramp, "Onramp_slow_log_left_out")
    written = until(lambda: len(lines(onramp.slow_log)) == 1000 - left_out and lines(onramp.slow_log), "not all were written")
    assert 5 <= len(written) < 500, "they were not sampled"
    seconds = {}
    for line in written:
        second = line["timestamp"][:19]
        seconds[second] = seconds.get(second, 0) + 1
    # The seconds of the log's clock are others than those that are counted in: two of these lie in one of those.
    assert max(seconds.values()) <= 10, seconds
    # What is said in lines is what was left out before the last.
    assert sum(line.get("left_out", 0) for line in written) <= left_out
    for client in clients:
        client.close()


def test_odd_characters_are_no_trouble(own_server, slow):
    """In names of users and schemas and in texts, valid or not."""
    onramp = slow(own_server, slow_statement_time="1ms", slow_log_literals="on")
    user, schema = "o\"d\\d\tü", "s\"\\\u2028ä"
    with raw.connect(own_server, *ADMIN) as client:
        for text in (f"CREATE DATABASE `{schema}`", f"CREATE USER `{user}` IDENTIFIED BY 'secret-of-it'",
                     f"GRANT ALL ON *.* TO `{user}`"):
            assert not isinstance(client.query(text), Err), text
    connection = connect_pymysql(onramp, user, "secret-of-it", database=schema)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT SLEEP(0.01) AS `na\"\\\n\x01me`, 'te\"\\\\\x1b[31m\x7fxt'")
        [line] = found(onramp.slow_log, lambda line: "SLEEP" in line.get("sent_text", ""))
        assert (line["user"], line["schema"]) == (user, schema)
        assert line["sent_text"] == "SELECT SLEEP(0.01) AS `na\"\\\n\x01me`, 'te\"\\\\\x1b[31m\x7fxt'"
    with raw.connect(onramp) as client:
        client.command(raw.QUERY, b"SELECT SLEEP(0.02) AS invalid, '\xff\xfe\xc3'")
        client.result()
    [line] = found(onramp.slow_log, says("invalid"))
    assert line["sent_text"] == "SELECT SLEEP(0.02) AS invalid, '\ufffd\ufffd\ufffd'"
    raw_text = onramp.slow_log.read_bytes()
    assert not [byte for byte in raw_text if byte < 0x20 and byte != 0x0A] and b"\x7f" not in raw_text


def test_the_log_is_json_where_asked(own_server, slow):
    onramp = slow(own_server, log_format="json", slow_log="stderr", slow_statement_time="50ms")
    with pytest.raises(pymysql.err.OperationalError):
        connect_pymysql(onramp, "no\"bo\\dy\n", "wrong")
    with raw.connect(onramp) as client:
        client.query("SELECT SLEEP(0.1) AS among_them")
    [refused] = found(onramp.log, lambda line: line.get("event") == "login_refused")
    assert refused["level"] == "WARN" and 'no\\"bo' in refused["message"].replace('no"bo', 'no\\"bo')
    assert type(refused["worker"]) is int and refused["timestamp"].endswith("Z")
    [line] = found(onramp.log, says("among_them"))
    assert line["event"] == "slow_statement"
    assert [line for line in lines(onramp.log) if line.get("message", "").startswith("ready: ")]
    admin(onramp, "SET GLOBAL log_format = 'text'")
    os.kill(onramp.process.pid, signal.SIGUSR1)
    until(lambda: " INFO memory: " in onramp.log_text(), "no plain line")
