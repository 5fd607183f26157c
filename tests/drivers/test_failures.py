"""Servers that stop, start, die and refuse, and the limits that keep Onramp alive."""

import mysql.connector
import pymysql
import pytest

from conftest import connect_pymysql
from harness import raw
from harness.counted import Counted
from harness.raw import Closed, Err, Ok
from harness.waiting import PATIENCE, SOON, in_background, until, wait_until_backends_are_gone, wait_until_running


@pytest.fixture
def through(own_server, own_onramp):
    """An Onramp in front of a server that the test may kill."""
    return own_onramp(own_server, max_backends=4)


def answer_or_closed(connection, text):
    try:
        return connection.query(text)
    except (Closed, ConnectionError) as gone:
        return gone


def test_server_restarts_while_clients_wait(own_server, through):
    """Clients without state keep their connections; their statements wait for the server."""
    clients = [raw.connect(through) for _ in range(10)]
    for connection in clients:
        assert connection.value("SELECT 1") == b"1"
    own_server.stop()
    for connection in clients:
        connection.command(raw.QUERY, b"SELECT 'after the restart'")
    own_server.start()
    for connection in clients:
        answer = connection.result()
        assert isinstance(answer, raw.Rows), answer
        assert answer.rows == [(b"after the restart",)]


def test_settings_survive_a_restart(own_server, through):
    connection = raw.connect(through, schema="onramp_app")
    for setting in ("SET NAMES latin1", "SET time_zone = '+03:00'", "SET sql_mode = 'ANSI'"):
        assert isinstance(connection.query(setting), Ok)
    probe = "SELECT DATABASE(), @@character_set_client, @@time_zone, @@sql_mode"
    before = connection.query(probe).rows
    own_server.stop()
    own_server.start()
    assert connection.query(probe).rows == before


def test_server_stays_away(own_server, own_onramp):
    """After backend_connect_timeout the client is told, in the words for "can't connect", and is not closed."""
    onramp = own_onramp(own_server, max_backends=4, backend_connect_timeout=SOON)
    connection = raw.connect(onramp)
    assert until(lambda: rows_of(connection.query("SELECT 1")), onramp.log_text) == [(b"1",)]
    own_server.stop()
    answer = connection.query("SELECT 1")
    assert isinstance(answer, Err) and answer.state == "08S01", answer
    assert "connect" in answer.message, answer
    own_server.start()
    assert until(lambda: rows_of(connection.query("SELECT 'back'")), onramp.log_text) == [(b"back",)]


def rows_of(answer):
    return answer.rows if isinstance(answer, raw.Rows) else None


def test_login_while_the_server_is_away(own_server, own_onramp):
    """A login is answered, with or without the server, and does not hang."""
    onramp = own_onramp(own_server, max_backends=4, backend_connect_timeout=SOON)
    raw.connect(onramp).close()
    own_server.stop()
    connection = raw.Connection(onramp)
    answer = connection.login("app", "app-secret")
    if isinstance(answer, Ok):
        answer = connection.query("SELECT 1")
    assert isinstance(answer, Err), answer


def test_start_before_the_server(own_server, own_onramp):
    """Onramp may be started first: logins wait for the server or are refused, and work once it is there."""
    own_server.stop()
    onramp = own_onramp(own_server, wait=False, max_backends=4)
    onramp.says("cannot be used")
    own_server.start()

    def served():
        try:
            with raw.connect(onramp) as connection:
                return connection.value("SELECT 1") == b"1"
        except (AssertionError, OSError, Closed):
            return False

    until(served, onramp.log_text)


def test_kill_9_in_the_middle_of_a_statement(own_server, own_admin, through):
    """2013 at once, not after a time-out."""
    connection = raw.connect(through)
    connection.command(raw.QUERY, b"SELECT SLEEP(10000), 'dies'")
    wait_until_running(own_admin, "'dies'")
    own_server.kill()
    try:
        answer = connection.results()[0]
        assert isinstance(answer, Err) and answer.code == 2013, answer
    except Closed:
        pytest.fail("closed without a word")
    own_server.start()
    with raw.connect(through) as fresh:
        assert fresh.value("SELECT 1") == b"1"


def test_kill_9_in_the_middle_of_a_result(own_server, through):
    """The client sees the result break off: never a result that looks whole."""
    connection = raw.connect(through, schema="onramp_app")
    connection.command(raw.QUERY, b"SELECT REPEAT('x', 1000000) FROM seq_1_to_2000")
    connection.receive_exactly(1 << 20)
    own_server.kill()
    total = 1 << 20
    tail = b""
    try:
        while True:
            piece = connection.receive_exactly(1)
            piece += bytes(connection.buffer)
            connection.buffer.clear()
            total += len(piece)
            tail = (tail + piece)[-100:]
    except Closed:
        pass
    assert total < 2000 * 1_000_000


def test_kill_9_in_a_transaction(own_server, own_admin, through):
    """The transaction is gone: its next statement fails, whatever the server does now."""
    connection = raw.connect(through, schema="onramp_app")
    connection.query("CREATE TABLE t (id INT PRIMARY KEY)")
    connection.query("BEGIN")
    assert isinstance(connection.query("INSERT INTO t VALUES (1)"), Ok)
    own_server.kill()
    own_server.start()
    answer = answer_or_closed(connection, "INSERT INTO t VALUES (2)")
    assert isinstance(answer, (Err, Closed, ConnectionError)), answer
    with raw.connect(through, schema="onramp_app") as other:
        assert other.value("SELECT COUNT(*) FROM t") == b"0"


def test_kill_9_with_queued_statements(own_server, own_admin, through):
    """What never ran is run after the restart; what ran fails. Nothing runs twice."""
    own_admin.query("CREATE TABLE onramp_app.once (id INT PRIMARY KEY AUTO_INCREMENT, client INT)")
    clients = [raw.connect(through, schema="onramp_app") for _ in range(20)]
    # As long as nobody may write, they run.
    assert isinstance(own_admin.query("LOCK TABLES onramp_app.once READ"), Ok)
    waiting = [in_background(answer_or_closed, connection, f"INSERT INTO once (client) VALUES ({number})")
               for number, connection in enumerate(clients)]
    wait_until_running(own_admin, "INSERT INTO once")  # the others are queued
    own_server.kill()
    own_server.start()
    answers = [join() for join in waiting]
    with raw.connect(own_server, "admin", "admin-secret") as admin:
        rows = admin.query("SELECT client, COUNT(*) FROM onramp_app.once GROUP BY client").rows
    counts = {int(client): int(count) for client, count in rows}
    for number, answer in enumerate(answers):
        if isinstance(answer, Ok):
            assert counts.get(number) == 1, (number, answer, counts)
        else:
            assert counts.get(number, 0) <= 1, (number, answer, counts)


def test_backends_are_bounded(own_server, own_admin, through):
    clients = [raw.connect(through) for _ in range(60)]
    joins = [in_background(lambda c: [c.value("SELECT 1") for _ in range(20)], connection) for connection in clients]
    most = 0
    for _ in range(20):
        most = max(most, int(own_admin.value("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app'")))
    for join in joins:
        assert join() == [b"1"] * 20
    assert most <= 4


def test_too_many_connections(own_server, own_onramp):
    """1040 with the server's words; a place that is given back can be used again."""
    onramp = own_onramp(own_server, max_backends=4, max_connections=5)
    clients = [raw.connect(onramp) for _ in range(5)]
    answer = raw.Connection(onramp).greet()
    if not isinstance(answer, Err):
        answer = raw.Connection(onramp).login("app", "app-secret")
    assert answer.code == 1040 and answer.message == "Too many connections", answer
    clients[0].quit()
    until(lambda: takes_clients(onramp), onramp.log_text)
    onramp.says("max_connections")


def test_connect_timeout(own_server, own_onramp):
    """A socket that never logs in is closed."""
    onramp = own_onramp(own_server, max_backends=4, connect_timeout=SOON)
    silent = raw.Connection(onramp)
    silent.greet()
    try:
        assert silent.receive_exactly(5)[4] == 0xFF
    except Closed:
        pass


def test_wait_timeout(own_server, own_onramp):
    """An idle client is closed after Onramp's wait_timeout."""
    onramp = own_onramp(own_server, max_backends=4, wait_timeout="1s")
    idle = raw.connect(onramp)
    try:
        assert idle.receive_exactly(5)[4] == 0xFF
    except Closed:
        pass


def test_server_that_closes_idle_backends(own_server, own_admin, through):
    """The server's own wait_timeout ends backends: clients without state never notice."""
    own_admin.query("SET GLOBAL wait_timeout = 1")
    connection = raw.connect(through)
    assert connection.value("SELECT 1") == b"1"
    wait_until_backends_are_gone(own_server, own_admin)
    own_admin.query("SET GLOBAL wait_timeout = 1000")  # what is asked next may take a while
    assert connection.value("SELECT 2") == b"2"


def test_server_at_its_connection_limit(own_server, own_admin, own_onramp):
    """The server refuses more connections than it has: statements wait for the backends that stand, and all work."""
    own_admin.query("SET GLOBAL max_connections = 10")
    onramp = own_onramp(own_server, max_backends=50)
    clients = [raw.connect(onramp) for _ in range(30)]
    joins = [in_background(lambda c: [c.query("SELECT SLEEP(0.02)") for _ in range(5)], connection) for connection in clients]
    answers = [answer for join in joins for answer in join()]
    errors = [answer for answer in answers if isinstance(answer, Err)]
    assert not errors, errors[:3]


def test_account_that_may_do_no_more_in_this_hour(own_server, own_admin, own_onramp):
    """Nobody waits for that: each statement gets the server's own error."""
    onramp = own_onramp(own_server)
    own_admin.query("CREATE USER 'modest'@'%' IDENTIFIED BY 'modest-secret' WITH MAX_QUERIES_PER_HOUR 10")
    with raw.connect(onramp, "modest", "modest-secret") as connection:
        assert isinstance(connection.query("SET sort_buffer_size = 300000"), Ok)
        with raw.connect(own_server, "modest", "modest-secret") as direct:
            until(lambda: isinstance(direct.query("SELECT 1"), Err), "there is no limit")
        # On the backend that stands, and on one that would have to be opened.
        errors = [connection.query(text)[:2] for text in ("SELECT 1", "SELECT @@sort_buffer_size", "SELECT 2")]
        for (thread,) in own_admin.query("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'modest'").rows:
            own_admin.query(f"KILL {int(thread)}")
        wait_until_backends_are_gone(own_server, own_admin)
        errors += [connection.query(text)[:2] for text in ("SELECT 3", "SELECT @@sort_buffer_size")]
        assert errors == [(1226, "42000")] * 5
        own_admin.query("FLUSH USER_RESOURCES")
        assert connection.value("SELECT @@sort_buffer_size") == b"300000"


def test_drain(own_server, own_admin, own_onramp):
    """SIGTERM: idle clients are closed cleanly, a running statement and an open transaction may finish, exit code 0."""
    onramp = own_onramp(own_server, max_backends=4, shutdown_timeout=f"{PATIENCE}s")
    idle = raw.connect(onramp)
    idle.query("SELECT 1")
    own_admin.query("SELECT GET_LOCK('until the end', 0)")
    running = raw.connect(onramp)
    running.command(raw.QUERY, b"SELECT GET_LOCK('until the end', 100), 'runs on'")
    transaction = raw.connect(onramp, schema="onramp_app")
    transaction.query("CREATE TABLE drained (id INT)")
    transaction.query("BEGIN")
    assert isinstance(transaction.query("INSERT INTO drained VALUES (1)"), Ok)
    wait_until_running(own_admin, "'runs on'")
    onramp.terminate()
    # Closed in an orderly way: nothing, or an error packet that says why, and then the end.
    try:
        assert idle.receive()[0] == 0xFF
        assert idle.at_end()
    except Closed:
        pass
    # Each worker hears of the signal by itself, so the last may still take somebody in.
    until(lambda: not takes_clients(onramp), "new clients are still taken in")
    own_admin.query("SELECT RELEASE_LOCK('until the end')")
    assert running.results()[0].rows == [(b"1", b"runs on")]
    assert isinstance(transaction.query("INSERT INTO drained VALUES (2)"), Ok)
    assert isinstance(transaction.query("COMMIT"), Ok)
    assert onramp.process.wait(PATIENCE) == 0
    assert own_admin.value("SELECT COUNT(*) FROM onramp_app.drained") == b"2"


def takes_clients(onramp):
    try:
        raw.connect(onramp).close()
        return True
    except (ConnectionError, Closed, AssertionError):
        return False


def test_drain_without_clients(own_server, own_onramp):
    onramp = own_onramp(own_server, max_backends=4)
    onramp.terminate()
    assert onramp.process.wait(PATIENCE) == 0


def test_drain_is_bounded(own_server, own_admin, own_onramp):
    """A transaction that never ends is given up after shutdown_timeout, and rolled back."""
    onramp = own_onramp(own_server, max_backends=4, shutdown_timeout="1s")
    transaction = raw.connect(onramp, schema="onramp_app")
    transaction.query("CREATE TABLE given_up (id INT)")
    transaction.query("BEGIN")
    transaction.query("INSERT INTO given_up VALUES (1)")
    onramp.terminate()
    onramp.process.wait(PATIENCE)
    try:
        assert transaction.receive()[0] == 0xFF
        assert transaction.at_end()
    except Closed:
        pass
    assert own_admin.value("SELECT COUNT(*) FROM onramp_app.given_up") == b"0"


def test_what_a_pause_holds_is_refused_at_the_end(own_server, folder):
    """Nothing of it has run, and nobody says RESUME any more."""
    onramp = Counted(own_server, folder, max_backends=4, shutdown_timeout="1h").start()
    try:
        transaction, waiting, late = (raw.connect(onramp) for _ in range(3))
        transaction.query("BEGIN")
        transaction.value("SELECT COUNT(*) FROM information_schema.TABLES")
        with onramp.admin() as admin:
            admin.query("PAUSE")
            for client in (transaction, waiting):
                client.command(raw.QUERY, b"SELECT 'not run'")
            until(lambda: admin.value("SELECT COUNT(*) FROM clients WHERE state = 'queued'") == b"2", onramp.log_text)
        onramp.terminate()
        for client in (transaction, waiting):
            assert client.result().code == 1053
            assert client.at_end()
        assert late.at_end()
        assert onramp.process.wait(PATIENCE) == 0
    finally:
        onramp.stop()


def test_what_is_delayed_is_refused_at_the_end_of_a_pause(own_server, folder):
    """It is in no queue yet, and waits as well."""
    onramp = Counted(own_server, folder, max_backends=4, shutdown_timeout="1h", thread_pool_transaction_delay="5m").start()
    try:
        waiting = raw.connect(onramp)
        with onramp.admin() as admin:
            admin.query("PAUSE")
            waiting.command(raw.QUERY, b"SELECT 'not run'")
            until(lambda: admin.value("SELECT COUNT(*) FROM clients WHERE state = 'queued'") == b"1", onramp.log_text)
        onramp.terminate()
        assert waiting.result().code == 1053
        assert waiting.at_end()
        assert onramp.process.wait(PATIENCE) == 0
    finally:
        onramp.stop()


def test_second_signal_stops_at_once(own_server, own_admin, own_onramp):
    onramp = own_onramp(own_server, max_backends=4, shutdown_timeout="1h")
    running = raw.connect(onramp)
    running.command(raw.QUERY, b"SELECT SLEEP(10000), 'long'")
    wait_until_running(own_admin, "'long'")
    onramp.terminate()
    # Two signals that are both there when the process looks are one.
    until(lambda: not takes_clients(onramp), onramp.log_text)
    onramp.terminate()
    onramp.process.wait(PATIENCE)


def test_no_server_connection_is_left_behind(own_server, own_admin, own_onramp):
    onramp = own_onramp(own_server, max_backends=4)
    for _ in range(10):
        raw.connect(onramp).query("SELECT 1")
    onramp.stop()
    count = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER IN ('app', 'onramp')"
    until(lambda: own_admin.value(count) == b"0", "connections are left")


def test_unix_socket_listener(own_server, own_onramp, tmp_path):
    path = f"/tmp/onramp-listen-{own_server.port}.sock"
    onramp = own_onramp(own_server, wait=False, max_backends=4, listen=path)
    onramp.wait_until_ready()
    with raw.connect(onramp, socket_path=path, schema="onramp_app") as connection:
        assert connection.value("SELECT CURRENT_USER()") == b"app@%"
        assert connection.value("SELECT USER()") == b"app@localhost"
    # 'near'@'localhost' is a Unix socket's host.
    with raw.connect(onramp, "near", "near-secret", socket_path=path) as connection:
        assert connection.value("SELECT 1") == b"1"
    library = pymysql.connect(unix_socket=path, user="app", password="app-secret")
    cursor = library.cursor()
    cursor.execute("SELECT 5")
    assert cursor.fetchall() == ((5,),)
    library.close()
    library = mysql.connector.connect(unix_socket=path, user="app", password="app-secret", use_pure=True, charset="utf8mb4",
                                      collation="utf8mb4_general_ci")
    library.close()
    assert onramp.stop() == 0


def test_reconnecting_client_library(own_server, through):
    """PyMySQL's ping(reconnect=True) gets over a killed server."""
    connection = connect_pymysql(through)
    own_server.kill()
    own_server.start()
    connection.ping(reconnect=True)
    cursor = connection.cursor()
    cursor.execute("SELECT 1")
    assert cursor.fetchall() == ((1,),)
    connection.close()


def test_one_thread_per_connection(own_server, own_onramp):
    """thread_handling = one-thread-per-connection: a backend per client, as without Onramp."""
    onramp = own_onramp(own_server, thread_handling="one-thread-per-connection", max_backends=30)
    clients = [raw.connect(onramp) for _ in range(20)]
    for number, connection in enumerate(clients):
        connection.query(f"SET @v = {number}")
    for number, connection in enumerate(clients):
        assert connection.value("SELECT @v") == str(number).encode()


def test_what_nobody_waits_for_keeps_no_backend(own_server, own_onramp, own_admin):
    """Its client has gone, and it does not end."""
    through = own_onramp(own_server, max_backends=1, abandoned_timeout="1s")
    assert own_admin.value("SELECT GET_LOCK('kept', 0)") == b"1"
    gone, other = raw.connect(through), raw.connect(through)
    gone.command(raw.QUERY, b"SELECT GET_LOCK('kept', 10000)")
    wait_until_running(own_admin, "GET_LOCK('kept', 10000)")
    gone.close()
    assert other.value("SELECT 2") == b"2"
    own_admin.query("SELECT RELEASE_LOCK('kept')")
    through.says("waited for by nobody for abandoned_timeout")
