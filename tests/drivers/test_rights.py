"""Rights that are given and taken away again while Onramp has not looked: nobody who comes later has them."""

import pytest

from harness import raw
from harness.raw import Err, Ok, Rows
from harness.server import ADMIN, OTHER

REFUSED = 1142  # ER_TABLEACCESS_DENIED_ERROR


@pytest.fixture
def admin(own_server):
    with raw.connect(own_server, *ADMIN) as connection:
        yield lambda *texts: [connection.query(text) for text in texts]


@pytest.fixture
def start(own_server, own_onramp):
    """One backend, and the accounts are read at the start and when a login fails, not in between."""
    return lambda: own_onramp(own_server, workers=1, max_backends=1, accounts_refresh="1h")


def look(onramp):
    """Has the accounts read: a login is refused by a copy that is newer than it."""
    with raw.Connection(onramp) as connection:
        answer = connection.login("app", "wrong")
        assert isinstance(answer, Err) and answer.code == 1045, answer


def thread_of(client):
    """The server's thread that runs a client's statements; one that has been left may still be in the list."""
    return client.value("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app' AND COMMAND = 'Query'")


def assert_refused(answer):
    assert isinstance(answer, Err) and answer.code == REFUSED, answer


def test_global_right_for_a_moment(admin, start):
    onramp = start()
    assert all(isinstance(answer, Ok) for answer in admin("GRANT SELECT ON *.* TO 'app'@'%'"))
    with raw.connect(onramp) as early:
        assert isinstance(early.query("SELECT COUNT(*) FROM mysql.db"), Rows)
        admin("REVOKE SELECT ON *.* FROM 'app'@'%'")
        look(onramp)
        with raw.connect(onramp) as late:
            assert_refused(late.query("SELECT COUNT(*) FROM mysql.db"))
        assert early.value("SELECT 1") == b"1"


def test_right_on_a_schema_for_a_moment(admin, start):
    """The backend's login is beyond doubt; it takes up the schema, once more, in the moment."""
    user, password = OTHER
    admin("CREATE DATABASE rights", "CREATE TABLE rights.t (a INT)", f"GRANT SELECT ON rights.* TO '{user}'@'%'")
    onramp = start()
    before = raw.connect(onramp, user, password, schema="rights")
    assert before.value("SELECT COUNT(*) FROM t") == b"0"
    look(onramp)
    with raw.connect(onramp, user, password) as other:
        admin(f"GRANT INSERT ON rights.* TO '{user}'@'%'")
        assert isinstance(other.use("rights"), Ok)
        assert isinstance(other.query("INSERT INTO t VALUES (1)"), Ok)
        admin(f"REVOKE INSERT ON rights.* FROM '{user}'@'%'")
    look(onramp)
    assert_refused(before.query("INSERT INTO t VALUES (2)"))
    assert before.value("SELECT COUNT(*) FROM t") == b"1"
    before.close()


def test_what_a_client_holds_survives_others_changes(admin, start):
    """A backend in doubt that somebody holds goes when it is given back."""
    onramp = start()
    with raw.connect(onramp) as holder:
        assert isinstance(holder.query("CREATE TEMPORARY TABLE onramp_app.held AS SELECT 5 AS a"), Ok)
        thread = thread_of(holder)
        admin("GRANT SELECT ON rights_of_others.* TO 'app'@'%'", "REVOKE SELECT ON rights_of_others.* FROM 'app'@'%'")
        look(onramp)
        assert holder.value("SELECT a FROM onramp_app.held") == b"5"
        assert isinstance(holder.query("DROP TEMPORARY TABLE onramp_app.held"), Ok)
        assert thread_of(holder) != thread


def test_backends_that_cannot_be_replaced_stay(admin, start):
    """Who is logged in goes on behind a change of password, as directly."""
    onramp = start()
    with raw.connect(onramp) as early:
        assert early.value("SELECT 1") == b"1"
        admin("ALTER USER 'app'@'%' IDENTIFIED BY 'another-secret'")
        look(onramp)
        assert early.value("SELECT 2") == b"2"


def test_backends_stay_where_nothing_changes(admin, start):
    onramp = start()
    with raw.connect(onramp) as client:
        thread = thread_of(client)
        admin("SET GLOBAL max_connect_errors = 1000")
        look(onramp)
        assert thread_of(client) == thread
