"""Global values of session variables that are changed while clients are logged in. Those keep what they have logged in with, on
whichever backend they are; who logs in later has the new values.

No comparison by the fixture: the server is set back for nobody.
"""

import pytest

from conftest import connect_pymysql
from harness import raw
from harness.server import ADMIN
from harness.waiting import until

CHANGED = {"time_zone": "'+05:00'", "sql_mode": "'ANSI_QUOTES'", "autocommit": "0", "group_concat_max_len": "5000",
           "max_sort_length": "2000", "long_query_time": "7.5", "foreign_key_checks": "0"}



def values(client):
    return client.query("SELECT " + ", ".join(f"@@session.{variable}" for variable in CHANGED)).rows


@pytest.fixture
def sites(own_server, own_onramp):
    """The server, and Onramp in front of it with a backend for all clients, and one worker: of several each looks by itself."""
    onramp = own_onramp(own_server, max_backends=1, workers=1)
    wait_until_known(own_server)
    return own_server, onramp


def change(server):
    with raw.connect(server, *ADMIN) as admin:
        # In one statement: Onramp, which looks each second, would find some of them.
        answer = admin.query("SET " + ", ".join(f"GLOBAL {variable} = {value}" for variable, value in CHANGED.items()))
        assert isinstance(answer, raw.Ok), answer


def wait_until_known(server):
    """Until Onramp has asked for the values, which it does behind the start, and has its answer: before, nothing could differ."""
    with raw.connect(server, *ADMIN) as admin:
        def known():
            asked = int(admin.query("SHOW GLOBAL STATUS LIKE 'Com_show_variables'").rows[0][1])
            busy = admin.query("SELECT 1 FROM information_schema.PROCESSLIST WHERE USER = 'onramp' AND COMMAND <> 'Sleep'").rows
            return asked and not busy

        until(known, "the global values are not asked for")


def wait_until_seen(onramp):
    """It looks each second."""
    onramp.says("have changed: backends are renewed")


def test_who_was_there_keeps_the_old_values(sites):
    server = sites[0]
    seen, later = [], []
    with raw.connect(server, *ADMIN) as admin:
        admin.query("CREATE TABLE onramp_app.kept (id INT PRIMARY KEY)")
    clients = [raw.connect(site, schema="onramp_app") for site in sites]
    try:
        prepared = [client.prepare('SELECT "text", @@sql_mode').statement for client in clients]
        before = [values(client) for client in clients]
        change(server)
        wait_until_seen(sites[1])
        seen.append(before)
        seen.append([values(client) for client in clients])
        for site in sites:
            later.append(raw.connect(site))
        seen.append([values(client) for client in later])
        assert all(new != old for new, old in zip(seen[-1][0][0], before[0][0], strict=True))
        seen.append([values(client) for client in clients])
        seen.append([client.query('SELECT "text"').rows for client in clients])
        seen.append([client.execute(statement)[0].rows for client, statement in zip(clients, prepared, strict=True)])
        # It commits by itself.
        for number, client in enumerate(clients):
            client.query(f"INSERT INTO kept VALUES ({number})")
        with raw.connect(server, *ADMIN) as admin:
            assert admin.query("SELECT COUNT(*) FROM onramp_app.kept").rows == [(b"2",)]
        for client in clients:
            client.query("SET time_zone = DEFAULT")
        seen.append([values(client) for client in clients])
        for client in clients:
            client.reset()
        seen.append([values(client) for client in clients])
    finally:
        for client in clients + later:
            client.close()
    for direct, through in seen:
        assert through == direct


def test_a_transaction_goes_on(sites):
    server = sites[0]
    with raw.connect(sites[1], schema="onramp_app") as client:
        before = values(client)
        client.query("BEGIN")
        client.query("CREATE TEMPORARY TABLE mine (id INT)")
        client.query("INSERT INTO mine VALUES (1)")
        change(server)
        with raw.connect(server) as other:
            new = values(other)
        assert all(one != other for one, other in zip(new[0], before[0], strict=True))
        wait_until_seen(sites[1])
        assert values(client) == before
        client.query("ROLLBACK")
        assert values(client) == before
        assert client.query("SELECT COUNT(*) FROM mine").rows == [(b"0",)]


def test_a_change_that_comes_through_is_noticed_at_once(own_server, own_onramp):
    """Nobody looks by the clock here."""
    onramp = own_onramp(own_server, accounts_refresh="1h", max_backends=4)
    wait_until_known(own_server)
    with raw.connect(onramp, *ADMIN) as one, raw.connect(onramp, *ADMIN) as other:
        before = values(one)
        assert values(other) == before
        assert isinstance(one.query("SET GLOBAL time_zone = '+03:00'"), raw.Ok)
        wait_until_seen(onramp)

        def is_new():
            with raw.connect(onramp) as later:
                return later.query("SELECT @@time_zone").rows == [(b"+03:00",)]

        until(is_new, onramp.log_text)
        assert values(one) == values(other) == before


def flags(site):
    """Those of a greeting, a login, COM_PING, COM_RESET_CONNECTION and COM_CHANGE_USER."""
    with raw.Connection(site) as client:
        login = client.login("app", "app-secret")
        return [client.greeting.status, login.status, client.ping().status, client.reset().status,
                client.change_user("app", "app-secret").status]


@pytest.mark.parametrize("mode", ["NO_BACKSLASH_ESCAPES", "ANSI_QUOTES", "ANSI,NO_BACKSLASH_ESCAPES"])
def test_client_libraries_are_told_how_to_escape(sites, mode):
    """They go by the status flags, also before the first statement: what is escaped in another way is an injection."""
    with raw.connect(sites[0], *ADMIN) as admin:
        assert isinstance(admin.query(f"SET GLOBAL sql_mode = '{mode}'"), raw.Ok)
    wait_until_seen(sites[1])
    # The greeting's are read behind what is logged.
    until(lambda: flags(sites[1]) == flags(sites[0]), "the flags are others")
    for site in sites:
        client = connect_pymysql(site, autocommit=None)
        with client, client.cursor() as cursor:
            text = "x' UNION SELECT 7 -- "
            cursor.execute("SELECT %s", (text,))
            assert cursor.fetchall() == ((text,),)
