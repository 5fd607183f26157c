"""A backend that changes its account by COM_CHANGE_USER: nothing of the former account is left, and who must log in does."""

import pytest

from harness import raw
from harness.raw import Err, Ok
from harness.server import ADMIN
from harness.waiting import until

SECRET = "secret"
DENIED = 1142  # ER_TABLEACCESS_DENIED_ERROR
WRONG_PASSWORD = 1045  # ER_ACCESS_DENIED_ERROR

# What a session shows of itself that a new connection has, too.
STATE = (
    "SELECT CURRENT_USER(), USER(), DATABASE(), CURRENT_ROLE(), @left, @@sql_mode, @@time_zone, @@autocommit, @@sql_select_limit,"
    " @@character_set_client, @@character_set_results, @@collation_connection, @@lock_wait_timeout, LAST_INSERT_ID(), IS_USED_LOCK('left')")


@pytest.fixture
def admin(own_server):
    with raw.connect(own_server, *ADMIN) as connection:

        def run(*texts):
            answers = [connection.query(text) for text in texts]
            assert not any(isinstance(answer, Err) for answer in answers), answers
            return answers

        run("DROP DATABASE IF EXISTS first", "DROP DATABASE IF EXISTS second",
            "CREATE DATABASE first", "CREATE TABLE first.words (id INT AUTO_INCREMENT PRIMARY KEY, w CHAR(3))", "CREATE DATABASE second")
        for user in ("first", "second"):
            run(f"DROP USER IF EXISTS {user}@'%'", f"CREATE USER {user}@'%' IDENTIFIED BY '{SECRET}'", f"GRANT ALL ON {user}.* TO {user}@'%'")
        yield run


@pytest.fixture
def onramp(own_server, own_onramp, admin):
    """Once its backend changes its account: until the server's variables have been read, none does."""
    onramp = own_onramp(own_server, workers=1, max_backends=1, accounts_refresh="1s")
    with raw.connect(onramp, "first", SECRET) as first, raw.connect(onramp, "second", SECRET) as second:

        def changes():
            assert first.value("SELECT 1") == b"1"
            before = backend_of(admin, "first")
            assert second.value("SELECT 1") == b"1"
            return backend_of(admin, "second") == before

        until(changes, "the backend changes its account")
    return onramp


def connections(admin):
    """How many the server has ever had."""
    return int(admin("SHOW GLOBAL STATUS LIKE 'Connections'")[0].rows[0][1])


def backend_of(admin, user):
    rows = admin(f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{user}'")[0].rows
    return [int(row[0]) for row in rows]


def only_backend_of(admin, user):
    """One that was closed is in the server's list until the server has noticed."""
    [backend] = until(lambda: (found := backend_of(admin, user)) and len(found) == 1 and found, lambda: f"backends of {user}: {backend_of(admin, user)}")
    return backend


def leave_much(client):
    for text in ("SET @left = 5", "SET sql_mode = 'ANSI', time_zone = '+03:00', sql_select_limit = 7, lock_wait_timeout = 9",
                 "SET NAMES latin1", "CREATE TEMPORARY TABLE first.left_there (a INT)", "DO GET_LOCK('left', 0)",
                 "INSERT INTO first.words (w) VALUES ('one')", "INSERT IGNORE INTO first.words (w) VALUES ('longer')"):
        assert isinstance(client.query(text), Ok), text
    client.prepare("SELECT * FROM first.words WHERE id = ?")
    client.query("SELECT * FROM nowhere.at_all")


def test_nothing_of_the_former_account_is_left(own_server, onramp, admin):
    with raw.connect(own_server, "second", SECRET) as direct:
        expected = direct.query(STATE).rows
    with raw.connect(onramp, "second", SECRET) as second:
        with raw.connect(onramp, "first", SECRET, schema="first") as first:
            leave_much(first)
        # The backend has been cleaned behind that client, and goes to the other account as it is.
        with raw.connect(onramp, "first", SECRET, schema="first") as first:
            assert isinstance(first.query("SELECT 1 FROM words"), raw.Rows)
            before = only_backend_of(admin, "first")
            opened = connections(admin)
            assert second.query("SHOW WARNINGS").rows == []
            assert second.query(STATE).rows == expected
            assert backend_of(admin, "second") == [before] and connections(admin) == opened
            assert second.query("SELECT * FROM first.words").code == DENIED
            assert isinstance(second.query("CREATE TABLE second.own (a INT)"), Ok)
            # And back: the schema is the client's again.
            assert first.value("SELECT COUNT(*) FROM words") == b"2"
            assert first.value("SELECT DATABASE()") == b"first"
            assert backend_of(admin, "first") == [before] and connections(admin) == opened


def test_a_role_is_not_handed_on(onramp, admin):
    """Both servers leave the former account's role on the connection; MariaDB with its rights."""
    admin("DROP ROLE IF EXISTS reader", "CREATE ROLE reader", "GRANT SELECT ON first.* TO reader", "DROP USER IF EXISTS roled@'%'",
          f"CREATE USER roled@'%' IDENTIFIED BY '{SECRET}'", "GRANT reader TO roled@'%'", default_role(admin))
    with raw.connect(onramp, "roled", SECRET) as roled, raw.connect(onramp, "second", SECRET) as second:
        assert roled.value("SELECT COUNT(*) FROM first.words") == b"0"
        before = only_backend_of(admin, "roled")
        assert second.query("SELECT * FROM first.words").code == DENIED
        assert second.value("SELECT CURRENT_ROLE()") in (None, b"NONE")
        assert backend_of(admin, "second") != [before]
        # Nor does the other way round anybody have to know whose role it is.
        before = only_backend_of(admin, "second")
        assert roled.value("SELECT COUNT(*) FROM first.words") == b"0"
        assert roled.value("SELECT CURRENT_ROLE()") in (b"reader", b"`reader`@`%`")
        assert backend_of(admin, "roled") != [before]


def test_who_is_interactive_has_the_time_for_that(onramp, admin):
    """A MariaDB looks at CLIENT_INTERACTIVE in a login alone."""
    usual = raw.USUAL | raw.INTERACTIVE
    admin("SET GLOBAL interactive_timeout = 77")
    with raw.connect(onramp, "first", SECRET, capabilities=usual) as first, raw.connect(onramp, "second", SECRET, capabilities=usual) as second:
        for client in (first, second) * 3:
            assert client.value("SELECT @@wait_timeout") == b"77"
    admin("SET GLOBAL interactive_timeout = DEFAULT")


def test_a_limit_of_the_former_account_is_not_handed_on(onramp, admin):
    """MAX_STATEMENT_TIME of an account is a session variable that its login sets; a change of account does, too."""
    admin("ALTER USER first@'%' WITH MAX_STATEMENT_TIME 7")
    with raw.connect(onramp, "first", SECRET) as first, raw.connect(onramp, "second", SECRET) as second:
        for _ in range(2):
            assert first.value("SELECT @@max_statement_time") == b"7.000000"
            assert second.value("SELECT @@max_statement_time") == b"0.000000"
        assert len(backend_of(admin, "second")) == 1


def default_role(admin):
    word = "FOR" if b"MariaDB" in admin("SELECT VERSION()")[0].rows[0][0] else "TO"
    return f"SET DEFAULT ROLE reader {word} roled@'%'"


def test_what_a_server_does_at_logins_alone(onramp, admin):
    admin("SET GLOBAL init_connect = 'SET @by_login = 1'")
    try:
        with raw.connect(onramp, "first", SECRET) as first, raw.connect(onramp, "second", SECRET) as second:

            def login_for_each():
                assert first.value("SELECT 1") == second.value("SELECT 1") == b"1"
                # None where it has just been replaced: the server's variables are other ones.
                before = backend_of(admin, "second")
                assert first.value("SELECT 1") == b"1"
                after = backend_of(admin, "first")
                return len(before) == len(after) == 1 and after != before

            until(login_for_each, "each account logs in")
    finally:
        admin("SET GLOBAL init_connect = ''")


def test_off(own_server, own_onramp, admin):
    onramp = own_onramp(own_server, workers=1, max_backends=1, backend_change_user="off")
    with raw.connect(onramp, "first", SECRET) as first, raw.connect(onramp, "second", SECRET) as second:
        assert first.value("SELECT 1") == b"1"
        before = only_backend_of(admin, "first")
        assert second.value("SELECT 1") == b"1"
        assert backend_of(admin, "second") != [before]


def test_a_password_that_is_not_right_any_more(onramp, admin):
    with raw.connect(onramp, "first", SECRET) as first, raw.connect(onramp, "second", SECRET) as second:
        assert first.value("SELECT 1") == second.value("SELECT 1") == b"1"
        admin("ALTER USER first@'%' IDENTIFIED BY 'another'")
        answer = first.query("SELECT 1")
        assert isinstance(answer, Err) and answer.code == WRONG_PASSWORD, answer
        assert second.value("SELECT CURRENT_USER()") == b"second@%"
        with raw.connect(onramp, "first", "another") as renewed:
            assert renewed.value("SELECT CURRENT_USER()") == b"first@%"
            assert second.value("SELECT CURRENT_USER()") == b"second@%"
        assert first.value("SELECT CURRENT_USER()") == b"first@%"


def test_killed_meanwhile(onramp, admin):
    """The server ends the idle backend just when it is to change its account."""
    with raw.connect(onramp, "first", SECRET) as first, raw.connect(onramp, "second", SECRET) as second:
        for client, other, user in [(first, second, "first"), (second, first, "second")] * 5:
            assert client.value("SELECT 1") == b"1"
            admin(f"KILL {backend_of(admin, user)[0]}")
            assert other.value("SELECT 1") == b"1"
