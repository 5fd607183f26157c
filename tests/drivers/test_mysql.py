"""A MySQL server behind Onramp: caching_sha2_password on both sides, and what else is not MariaDB's.

Each test runs direct and through, as in the other suites. MYSQL_HOME names the server's folder; without it they are skipped.
"""

import functools

import mysql.connector
import pymysql
import pytest

from conftest import closing
from harness import mysql as private_mysql
from harness import raw
from harness.onramp import Onramp
from harness.server import ADMIN, APP, OTHER, free_port
from harness.waiting import until

pytestmark = private_mysql.needed


@pytest.fixture(scope="module")
def server(folder):
    server = private_mysql.MySqlServer(folder).start()
    yield server
    server.discard()


@pytest.fixture(scope="module")
def onramp(folder, server):
    onramp = Onramp(server, folder, max_backends=4, listen=[f"/tmp/onramp-test-{free_port()}.sock"])
    onramp.start()
    yield onramp
    assert onramp.stop() == 0


@pytest.fixture
def connect(site):
    def by_pymysql(user=APP[0], password=APP[1], **options):
        return pymysql.connect(host=site.host, port=site.port, user=user, password=password, ssl_disabled=True, **options)

    with closing(by_pymysql) as open_connection:
        yield open_connection


@pytest.fixture
def connect_by_library(site):
    """Opens connections with MySQL's own library."""
    account = {"host": site.host, "port": site.port, "user": APP[0], "password": APP[1]}
    with closing(functools.partial(mysql.connector.connect, **account, use_pure=True, autocommit=True)) as open_connection:
        yield open_connection


@pytest.fixture
def admin(server):
    connection = pymysql.connect(host=server.host, port=server.port, user=ADMIN[0], password=ADMIN[1], autocommit=True)
    yield lambda statement: rows(connection, statement)
    connection.close()


def rows(connection, statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def refusal(connect, *account):
    """As soon as it is refused: what a worker knows of an account may be `accounts_refresh` old."""
    def refused():
        try:
            connect(*account)
        except pymysql.err.OperationalError as error:
            return error.args
        return None

    return until(refused, f"{account[0]} is still let in")


def test_login(connect, note):
    for _ in range(3):
        connection = connect()
        note("who", rows(connection, "SELECT CURRENT_USER(), @@version, @@collation_connection, @@transaction_isolation"))
    note("another", rows(connect(*OTHER), "SELECT CURRENT_USER()"))
    note("without a password", rows(connect("none", ""), "SELECT CURRENT_USER()"))


SETTINGS = [
    "SET NAMES utf8mb4", "SET NAMES latin1", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET autocommit=0", "SET autocommit=1", "SET sql_mode='ANSI_QUOTES'",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET SESSION TRANSACTION READ ONLY", "SET SESSION transaction_isolation='SERIALIZABLE'",
    "SET SESSION TRANSACTION READ WRITE", "SET time_zone='+01:00', sql_mode='NO_BACKSLASH_ESCAPES'", "SET wait_timeout=999999999", "SET max_execution_time=1000",
    "SET sql_mode=''", "SET innodb_lock_wait_timeout=7"]


def test_settings_that_are_known(connect, note):
    """The second client's are answered without the server, the third's in another state."""
    for number, connection in enumerate((connect(), connect(), connect(autocommit=True))):
        for setting in SETTINGS:
            with connection.cursor() as cursor:
                note(f"{number}: {setting}", (cursor.execute(setting), cursor.warning_count, connection.server_status))
            note("after it", rows(connection, "SELECT @@autocommit, @@transaction_isolation, @@transaction_read_only, @@time_zone, @@sql_mode,"
                                  " @@collation_connection, @@character_set_results, @@wait_timeout, @@max_execution_time, @@innodb_lock_wait_timeout"))
            note("and its status", connection.server_status)
            for _ in range(2):
                note("alone", (rows(connection, "SELECT @@session.transaction_isolation, @@sql_mode"), connection.server_status))


def test_refused(connect, note):
    note("wrong password", refusal(connect, APP[0], "wrong"))
    note("no password", refusal(connect, APP[0], ""))
    note("a password too many", refusal(connect, "none", "some"))
    note("nobody", refusal(connect, "nobody", "some"))
    note("nobody without a password", refusal(connect, "nobody", ""))
    connect()
    note("wrong again", refusal(connect, APP[0], "wrong"))


def test_connector(site, note):
    connection = mysql.connector.connect(
        host=site.host, port=site.port, user=APP[0], password=APP[1], use_pure=True)
    cursor = connection.cursor(prepared=True)
    cursor.execute("SELECT CURRENT_USER(), ? + 1", (41,))
    note("rows", cursor.fetchall())
    connection.close()


def test_by_unix_socket(site, note):
    socket = site.onramp.options["listen"][0] if site.through else site.server.socket
    connection = pymysql.connect(unix_socket=socket, user=APP[0], password=APP[1])
    note("who", rows(connection, "SELECT CURRENT_USER()"))
    connection.close()


def test_the_older_sha256_method(connect, admin, note):
    if not admin("SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'sha256_password'"):
        pytest.skip("this server has no sha256_password")
    if not dict(admin("SHOW GLOBAL STATUS LIKE 'Rsa_public_key'")).get("Rsa_public_key"):
        pytest.skip("this server has no key that it could send")
    admin("CREATE USER older@'%' IDENTIFIED WITH sha256_password BY 'older-secret'")
    for _ in range(2):
        note("who", rows(connect("older", "older-secret"), "SELECT CURRENT_USER()"))
    note("wrong", refusal(connect, "older", "wrong"))
    admin("DROP USER older@'%'")


def test_locked(connect, admin, note):
    admin("CREATE USER locked@'%' IDENTIFIED BY 'one' ACCOUNT LOCK")
    note("locked", refusal(connect, "locked", "one"))
    admin("ALTER USER locked@'%' ACCOUNT UNLOCK")
    note("unlocked", rows(connect("locked", "one"), "SELECT CURRENT_USER()"))
    admin("DROP USER locked@'%'")


def test_a_changed_password(connect, admin, note):
    admin("CREATE USER changing@'%' IDENTIFIED BY 'one'")
    note("before", rows(connect("changing", "one"), "SELECT CURRENT_USER()"))
    admin("ALTER USER changing@'%' IDENTIFIED BY 'two'")
    note("after", rows(connect("changing", "two"), "SELECT CURRENT_USER()"))
    note("old", refusal(connect, "changing", "one"))
    admin("DROP USER changing@'%'")


@private_mysql.since(8, 0, 14)
def test_two_passwords(connect, admin, note):
    admin("CREATE USER moving@'%' IDENTIFIED BY 'one'")
    admin("ALTER USER moving@'%' IDENTIFIED BY 'two' RETAIN CURRENT PASSWORD")
    for password in ("two", "one", "two"):
        note(password, rows(connect("moving", password), "SELECT CURRENT_USER()"))
    note("another", refusal(connect, "moving", "three"))
    admin("ALTER USER moving@'%' DISCARD OLD PASSWORD")
    note("the old one", refusal(connect, "moving", "one"))
    admin("DROP USER moving@'%'")


def test_expired(connect, admin, note):
    admin("CREATE USER expired@'%' IDENTIFIED BY 'one' PASSWORD EXPIRE")
    note("expired", refusal(connect, "expired", "one"))
    note("wrong", refusal(connect, "expired", "two"))
    admin("ALTER USER expired@'%' IDENTIFIED BY 'two'")
    note("renewed", rows(connect("expired", "two"), "SELECT CURRENT_USER()"))
    admin("DROP USER expired@'%'")


@private_mysql.since(8, 0)
def test_hints_pin_nobody(site, server, own_onramp, monkeypatch):
    """What SET_VAR sets goes back by itself; the server tells of a change of state all the same."""
    if not site.through:
        pytest.skip("nobody is pinned there")
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", ADMIN[1])
    port = free_port()
    onramp = own_onramp(server, max_backends=1, workers=1, admin_listen=f"127.0.0.1:{port}")
    operator = pymysql.connect(host="127.0.0.1", port=port, user="admin", password=ADMIN[1])
    first, second = (pymysql.connect(host=onramp.host, port=onramp.port, user=APP[0], password=APP[1], ssl_disabled=True, autocommit=True) for _ in range(2))
    hinted = "SELECT /*+ SET_VAR(max_sort_length = 100) SET_VAR(optimizer_switch = 'mrr=off') */ @@max_sort_length"
    for _ in range(2):
        for connection in (first, second):
            assert rows(connection, hinted) == ((100,),)
            assert rows(connection, "SELECT @@max_sort_length") == ((1024,),)
    # Also where the statement fails: what is told then comes with the next answer.
    with pytest.raises(pymysql.err.MySQLError):
        rows(first, "SELECT /*+ SET_VAR(max_sort_length = 100) */ missing")
    assert rows(second, "SELECT @@max_sort_length") == ((1024,),)
    assert rows(operator, "SELECT reason FROM pins WHERE times > 0") == ()
    for connection in (operator, first, second):
        connection.close()


def test_changed_rights_hold_for_new_logins(site, connect, admin):
    admin("CREATE DATABASE IF NOT EXISTS forbidden")
    admin("CREATE TABLE IF NOT EXISTS forbidden.x (n INT)")
    admin("CREATE USER rights@'%' IDENTIFIED BY 'one'")

    def selected():
        """The error's number, 0 without one."""
        try:
            rows(connect("rights", "one", autocommit=True), "SELECT n FROM forbidden.x")
            return 0
        except pymysql.err.MySQLError as error:
            return error.args[0]

    def look(expected, change):
        # After up to accounts_refresh; direct at once.
        if site.through:
            until(lambda: selected() == expected, f"{change}: not {expected}")
        else:
            assert selected() == expected, change

    number = 1_000_000
    for change, expected in [("GRANT SELECT ON *.* TO rights@'%'", 0), ("REVOKE SELECT ON *.* FROM rights@'%'", 1142),
                             ("GRANT SELECT ON forbidden.* TO rights@'%'", 0), ("REVOKE SELECT ON forbidden.* FROM rights@'%'", 1142),
                             ("GRANT SELECT ON *.* TO rights@'%'", 0)]:
        admin(change)
        # A state that Onramp has known before would not be noticed if it came back before the one in between was seen.
        number += 1
        admin(f"ALTER USER rights@'%' WITH MAX_QUERIES_PER_HOUR {number}")
        look(expected, change)
    admin("DROP USER rights@'%'")
    admin("CREATE USER rights@'%' IDENTIFIED BY 'one'")
    look(1142, "another account of that name")
    admin("DROP USER rights@'%'")
    admin("DROP DATABASE forbidden")


def test_tls_required(connect, admin, note):
    """Without TLS the answer is that of a wrong password."""
    for required in ("SSL", "X509", "SUBJECT '/CN=app'"):
        admin(f"CREATE USER secure@'%' IDENTIFIED BY 'one' REQUIRE {required}")
        note(required, refusal(connect, "secure", "one"))
        admin("DROP USER secure@'%'")


@private_mysql.since(8, 0)
def test_roles(connect, admin, note):
    admin("CREATE ROLE readers")
    admin("GRANT SELECT ON forbidden.* TO readers")
    admin("CREATE USER member@'%' IDENTIFIED BY 'one'")
    admin("GRANT readers TO member@'%'")
    admin("SET DEFAULT ROLE readers TO member@'%'")
    note("default role", rows(connect("member", "one"), "SELECT CURRENT_ROLE()"))
    note("the role cannot log in", refusal(connect, "readers", ""))
    admin("DROP USER member@'%'")
    admin("DROP ROLE readers")


def test_the_server_forgets(connect, admin, note):
    """FLUSH PRIVILEGES empties its cache: new backends are asked for the password, clients are not."""
    note("before", rows(connect(), "SELECT 1"))
    admin("FLUSH PRIVILEGES")
    others = [connect() for _ in range(3)]
    for connection in others:
        connection.begin()
    for connection in others:
        note("in transactions, each on its own backend", rows(connection, "SELECT CURRENT_USER()"))
    for connection in others:
        connection.rollback()


def test_session_state(connect, note):
    first, second = connect(), connect()
    for connection, mode, zone in ((first, "ANSI_QUOTES", "+01:00"), (second, "", "+02:00")):
        rows(connection, f"SET SESSION sql_mode = '{mode}', time_zone = '{zone}'")
        rows(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED" if mode else "SET NAMES latin1")
    for _ in range(5):
        for connection in (first, second):
            note("state", rows(connection, "SELECT @@sql_mode, @@time_zone, @@transaction_isolation, "
                                           "@@character_set_client, @@collation_connection"))


def test_transactions(connect, note):
    first, second = connect(database="onramp_app"), connect(database="onramp_app")
    rows(first, "DROP TABLE IF EXISTS t")
    rows(first, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT)")
    first.begin()
    rows(first, "INSERT INTO t (a) VALUES (1), (2)")
    note("insert id", rows(first, "SELECT LAST_INSERT_ID()"))
    note("unseen", rows(second, "SELECT COUNT(*) FROM t"))
    first.commit()
    second.rollback()
    note("seen", rows(second, "SELECT * FROM t"))
    note("warnings", rows(second, "SELECT 1 / 0") + rows(second, "SHOW WARNINGS"))
    second.rollback()
    rows(first, "DROP TABLE t")


def test_reset_and_change_of_user(connect, note):
    connection = connect()
    rows(connection, "SET SESSION time_zone = '+01:00'")
    connection._execute_command(0x1F, b"")
    connection._read_ok_packet()
    note("reset", rows(connection, "SELECT @@time_zone, CURRENT_USER()"))


def test_a_reset_brings_back_the_servers_character_sets(site, note):
    """Not those of the login, as MariaDB."""
    for collation in (8, 33, 45):  # latin1_swedish_ci, utf8mb3_general_ci, utf8mb4_general_ci
        with raw.connect(site, collation=collation) as client:
            asked = "SELECT @@character_set_client, @@character_set_results, @@collation_connection"
            note(f"{collation}, login", client.query(asked).rows)
            note(f"{collation}, reset", client.reset())
            note(f"{collation}, behind it", client.query(asked).rows)
            # On a backend that the client holds, too.
            note(f"{collation}, pinned", [client.query(text) for text in ("SET NAMES latin1", "SELECT GET_LOCK('reset', 0)")][0])
            note(f"{collation}, reset again", client.reset())
            note(f"{collation}, at last", client.query(asked).rows)


def test_a_refused_change_of_user_ends_the_connection(site, note):
    with raw.connect(site) as client:
        note("refused", client.change_user(APP[0], "wrong"))
        assert client.at_end()


def test_a_refused_schema_leaves_the_present_one(site, server, own_onramp, note):
    """On a backend that is in no schema yet."""
    if site.through:
        site = own_onramp(server, max_backends=1)
    with raw.connect(site, *OTHER, schema="information_schema") as client:
        note("other", client.value("SELECT DATABASE()"))
        with raw.connect(site) as another:
            note("app", another.value("SELECT 1"))
        note("refused", client.use("forbidden"))
        note("as before", client.query("SELECT COUNT(*) > 0 FROM TABLES").rows)


def test_service_account_by_unix_socket(own_onramp, server):
    onramp = own_onramp(server, by_socket=True)
    connection = pymysql.connect(host=onramp.host, port=onramp.port, user=APP[0], password=APP[1])
    assert rows(connection, "SELECT CURRENT_USER()") == (("app@%",),)
    connection.close()


def test_no_setting_is_left_to_others(connect, admin, note):
    """Every variable that a session can set goes back to what a new connection has, before another client has the backend."""
    names = admin("SELECT variable_name, variable_value FROM performance_schema.session_variables "
                  "WHERE variable_value IN ('ON', 'OFF')")
    names = [(name, value) for name, value in names if not name.startswith(("session_track_", "gtid_", "pseudo_", "sql_log_"))]
    first, others = connect(), [connect() for _ in range(4)]
    changed = 0
    for name, value in sorted(names):
        with first.cursor() as cursor:
            try:
                cursor.execute(f"SET SESSION {name} = {'OFF' if value == 'ON' else 'ON'}")
                cursor.execute(f"SET SESSION {name} = {value}")
            except pymysql.err.Error:
                continue  # it is global, or needs a privilege
        changed += 1
        for number, other in enumerate(others):
            note(f"{name}, seen by {number}", rows(other, f"SELECT @@SESSION.{name}"))
    assert changed >= 20


# Which the list of warnings does not outlive, whoever answers them.
FORGETS = [
    "SET time_zone = '+01:00'", "SET autocommit = 1", "SET @a = 1", "SET NAMES utf8mb4", "USE onramp_app", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT x", "DO 1", "SELECT 1",
    "SELECT @@warning_count"]


def test_warnings_are_forgotten(connect, note, admin):
    admin("CREATE TABLE IF NOT EXISTS onramp_app.warned (a INT)")
    for statement in FORGETS:
        # Twice, for answers that are known by then.
        for attempt in range(2):
            connection = connect(database="onramp_app", autocommit=True)
            with connection.cursor() as cursor:
                cursor.execute("INSERT IGNORE INTO warned VALUES ('x')")
            note(f"{statement}: {attempt}", [rows(connection, statement), rows(connection, "SHOW WARNINGS")])


def test_warnings_in_a_transaction(connect, note, admin):
    admin("CREATE TABLE IF NOT EXISTS onramp_app.warned (a INT)")
    connection = connect(database="onramp_app")
    for statement in (
            "BEGIN", "INSERT IGNORE INTO warned VALUES ('x')", "SET character_set_results = utf8mb4", "GET DIAGNOSTICS @number = NUMBER", "SELECT @number", "SHOW WARNINGS",
            "ROLLBACK"):
        note(statement, rows(connection, statement))


def test_a_variable_that_was_set_to_null(connect, note):
    first, second = connect(database="onramp_app"), connect(database="onramp_app")
    rows(first, "SET @a = 1")
    rows(first, "SET @a = NULL")
    rows(second, "DO 1")
    with first.cursor() as cursor:
        cursor.execute("SELECT @a")
        note("column", cursor.description)


def test_rows_that_are_found_without_rows(connect, note, admin):
    admin("CREATE TABLE IF NOT EXISTS onramp_app.found (id INT PRIMARY KEY, v INT)")
    admin("REPLACE INTO onramp_app.found VALUES (1, 1), (2, 2), (3, 2)")
    first, second = connect(database="onramp_app"), connect(database="onramp_app")
    for statement in (
            "UPDATE found SET v = 2", "UPDATE found SET v = 2 ORDER BY id LIMIT 2", "UPDATE found SET v = 3 WHERE id = 9", "UPDATE found SET id = 1 WHERE id > 1", "DO 1"):
        rows(first, "SELECT id FROM found")
        try:
            rows(first, statement)
        except pymysql.err.IntegrityError as error:
            note(f"{statement}: error", error.args)
        rows(second, "SELECT 1")
        note(statement, rows(first, "SELECT FOUND_ROWS()"))


def test_accounts_of_networks(admin, connect):
    """MySQL prefers addresses and networks to `localhost`. No two prefixes: MySQL 8.0.31 puts the shorter one first."""
    hosts = ["127.0.0.1", "127.0.0.0/24", "127.0.0.0/255.255.0.0", "127.0.0.0/255.0.0.0", "localhost"]
    for host in hosts:
        admin(f"CREATE USER 'netted'@'{host}' IDENTIFIED WITH caching_sha2_password BY '{host}'")
    for host in hosts:
        until(lambda: chosen(connect, host) == f"netted@{host}", lambda: f"it is {chosen(connect, host)!r}, not {host}")
        admin(f"DROP USER 'netted'@'{host}'")


def chosen(connect, host):
    """The account that the password of this host opens."""
    try:
        return rows(connect("netted", host), "SELECT CURRENT_USER()")[0][0]
    except pymysql.err.OperationalError as error:
        return error


@private_mysql.since(8, 0)
def test_clients_without_plugins_do_not_hear_which_accounts_are_there(unauthenticated, site, note):
    """They can speak mysql_native_password alone, and the server asks for caching_sha2_password."""
    answers = {}
    for user in ("app", "nobody"):
        for token in (b"", b"x" * 20, b"xy"):
            connection = unauthenticated()
            connection.greet()
            connection.send(connection.login_request(user, "bad", capabilities=raw.USUAL & ~raw.PLUGIN_AUTH, token=token))
            answers[user, token] = connection.error(connection.receive())
            # By which of its methods it checks who is not there, the server draws by lot (decoy_user); of those of 9.0 each is new.
            if user == "app" or private_mysql.version() >= (9, 0):
                note(f"{user} {token}", answers[user, token])
    if site.through:
        assert len(set(answers.values())) == 1, answers
