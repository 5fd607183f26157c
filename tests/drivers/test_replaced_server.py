"""A server that stops, and another one comes in its place at the same address: another version, or another kind.

Clients get a clear error, or a session that works; never answers of one server in the name of another.
"""

import threading

import pymysql
import pytest

from conftest import connect_pymysql
from harness import mysql as private_mysql
from harness import raw
from harness.raw import Closed, Err, Ok, Rows
from harness.waiting import SOON, until

LOST = 2013  # CR_SERVER_LOST


def assert_ends(connection):
    """The next statement says that the server is lost, and the connection ends."""
    try:
        answer = connection.query("SELECT 'of the other server'")
    except (Closed, ConnectionError):
        return
    assert isinstance(answer, Err) and answer.code == LOST, answer
    assert connection.at_end()


def test_another_version(own_server, own_onramp):
    """Clients without state go on, with their settings; new ones are greeted in the new server's name."""
    onramp = own_onramp(own_server, max_backends=4)
    with raw.connect(onramp, schema="onramp_app") as early:
        assert isinstance(early.query("SET time_zone = '+03:00'"), Ok)
        own_server.stop()
        own_server.start("--version=11.4.5-MariaDB")
        assert early.query("SELECT @@time_zone, DATABASE(), @@version").rows == [(b"+03:00", b"onramp_app", b"11.4.5-MariaDB")]

        def greeted():
            with raw.connect(onramp) as late:
                return late.greeting.version.endswith("11.4.5-MariaDB") and late.value("SELECT 1") == b"1"

        until(greeted, onramp.log_text)
        for zone in ("+04:00", "+05:00"):
            assert isinstance(early.query(f"SET time_zone = '{zone}', foreign_key_checks = 0"), Ok)
            assert early.query("SELECT @@time_zone, @@foreign_key_checks").rows == [(zone.encode(), b"0")]


def test_server_that_only_says_to_be_another_kind(own_server, own_onramp):
    """As long as the service account has not found out what it is, nothing runs there."""
    onramp = own_onramp(own_server, max_backends=4, backend_connect_timeout=SOON)
    with raw.connect(onramp) as early:
        until(lambda: isinstance(early.query("SELECT 1"), raw.Rows), onramp.log_text)
        own_server.stop()
        own_server.start("--version=8.4.0")
        answer = early.query("SELECT 1")
        # It cannot be reached, or no backend has become free: which, is a matter of the moment.
        assert isinstance(answer, Err) and answer.state in ("08S01", "08004"), answer
        own_server.stop()
        own_server.start()

        def served():
            answer = early.query("SELECT 'back'")
            return answer.rows if isinstance(answer, Rows) else None

        assert until(served, onramp.log_text) == [(b"back",)]


@pytest.fixture
def mysql_in_its_place(folder, own_server):
    """A MySQL server for the same port."""
    mysql = private_mysql.MySqlServer(folder)
    mysql.port = own_server.port
    yield mysql
    mysql.discard()


def version_of(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@version")
        return cursor.fetchone()[0]


def greeted_version(connection):
    return connection.get_server_info().removeprefix("5.5.5-")


def new_client(onramp, kind):
    """A connection as soon as it is greeted in the name of that kind."""
    def connected():
        try:
            connection = connect_pymysql(onramp)
        except pymysql.err.MySQLError:
            return None
        if ("MariaDB" in connection.get_server_info()) == (kind == "MariaDB"):
            return connection
        connection.close()
        return None

    return until(connected, onramp.log_text)


@private_mysql.needed
def test_mariadb_and_mysql_in_turns(own_server, own_onramp, mysql_in_its_place):
    onramp = own_onramp(own_server, max_backends=4, backend_trusted_networks="127.0.0.1")
    idle, in_transaction, pinned, prepared = [raw.connect(onramp, schema="onramp_app") for _ in range(4)]
    assert idle.value("SELECT 1") == b"1"
    for connection, texts in ((in_transaction, ["BEGIN", "SELECT 1"]), (pinned, ["CREATE TEMPORARY TABLE x (a INT)"])):
        assert not any(isinstance(connection.query(text), Err) for text in texts)
    assert not isinstance(prepared.prepare("SELECT ?"), Err)
    own_server.stop()
    mysql_in_its_place.start()
    for connection in (idle, in_transaction, pinned, prepared):
        assert_ends(connection)
        connection.close()
    late = new_client(onramp, "MySQL")
    assert version_of(late) == greeted_version(late)
    mysql_in_its_place.stop()
    own_server.start()
    with pytest.raises(pymysql.err.MySQLError):
        version_of(late)
    again = new_client(onramp, "MariaDB")
    assert version_of(again) == greeted_version(again)
    again.close()


@private_mysql.needed
def test_nobody_is_answered_by_another_server_than_greeted_it(own_server, own_onramp, mysql_in_its_place):
    """Clients come and go while the servers change places."""
    onramp = own_onramp(own_server, max_backends=4, backend_connect_timeout=SOON, backend_trusted_networks="127.0.0.1")
    done = threading.Event()
    wrong, served = [], set()

    def work():
        while not done.is_set():
            try:
                with connect_pymysql(onramp) as connection:
                    for _ in range(5):
                        versions = greeted_version(connection), version_of(connection)
                        served.add(versions[1])
                        if versions[0] != versions[1]:
                            wrong.append(versions)
            except (pymysql.err.MySQLError, OSError):
                pass  # what is told clearly is right

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        own_server.stop()
        mysql_in_its_place.start()
        until(lambda: any("MariaDB" not in version for version in list(served)), onramp.log_text)
        mysql_in_its_place.stop()
        served.clear()
        own_server.start()
        until(lambda: any("MariaDB" in version for version in list(served)), onramp.log_text)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong, wrong[:3]
