"""A client's own wait_timeout in front of MySQL, which says why it ends a client.

As test_mysql: skipped without a server.
"""

import functools

import pytest

from conftest import closing, site_through
from harness import mysql as private_mysql
from harness import raw
from harness.onramp import Onramp
from test_mysql import server  # noqa: F401 (a fixture)
from test_wait_timeout import HALVES, end_of, rows, set_and_stop

pytestmark = private_mysql.needed

site = site_through("one_backend")


@pytest.fixture(scope="module")
def one_backend(folder, server):
    onramp = Onramp(server, folder, max_backends=1).start()
    yield onramp
    onramp.stop()


@pytest.fixture
def client(site):
    with closing(functools.partial(raw.connect, site)) as open_client:
        yield open_client


SHOWN = ("SELECT @@wait_timeout", "SHOW VARIABLES LIKE 'wait_timeout'", "SHOW GLOBAL VARIABLES LIKE 'wait_timeout'",
         "SELECT VARIABLE_VALUE FROM performance_schema.session_variables WHERE VARIABLE_NAME = 'wait_timeout'")


@pytest.mark.parametrize("texts", [
    ["SET wait_timeout = 770"], ["SET @@wait_timeout = 771"], ["SET wait_timeout = 1000", "SET @@session.wait_timeout = @@wait_timeout / 2 - 3"],
    ["SET wait_timeout = 1000", "SET wait_timeout = DEFAULT"], ["SET wait_timeout = 0", "SHOW WARNINGS"], ["SET wait_timeout = 'x'"],
    ["SET SESSION wait_timeout = 772, sql_mode = 'ANSI'"]])
def test_set_and_shown(client, note, texts):
    for turn in ("first", "second"):
        own, other = client(), client()
        for text in texts:
            note(f"{turn} {text}", rows(own.query(text)))
            note(f"{turn} other behind {text}", rows(other.query("SELECT @@wait_timeout")))
            # Nothing that hopes to come within a second.
            if text.endswith("= 0"):
                break
        else:
            for text in SHOWN:
                note(f"{turn} {text}", rows(own.query(text)))
                note(f"{turn} other: {text}", rows(other.query(text)))


def test_idle_client_is_told(client, note):
    idle, other = client(), client()
    note("other", other.query("SELECT 1").rows)
    note("set", idle.query("SET wait_timeout = 1"))
    said, end = note("end", end_of(idle))
    assert said[:2] == (4031, "HY000") and end == "closed"
    note("other is there", other.query("SELECT 2").rows)


@pytest.mark.parametrize("half", sorted(HALVES))
def test_half_a_command_ends(client, note, half):
    short, other = client(), client()
    note("set", [short.query("SET net_read_timeout = 500"), set_and_stop(short, HALVES[half])])
    said, end = note("end", end_of(short, sequence=int(half != "header")))
    assert said[0] == (4031 if half == "header" else 1159) and end == "closed"
    note("other is there", other.query("SELECT 2").rows)


def test_open_transaction_ends(client, note):
    idle, other = client(), client()
    other.query("CREATE DATABASE IF NOT EXISTS onramp_wait")
    other.query("DROP TABLE IF EXISTS onramp_wait.t")
    other.query("CREATE TABLE onramp_wait.t (id INT PRIMARY KEY)")
    idle.query("BEGIN")
    idle.query("INSERT INTO onramp_wait.t VALUES (1)")
    note("set", idle.query("SET wait_timeout = 1"))
    note("end", end_of(idle))
    note("rolled back", other.query("INSERT INTO onramp_wait.t VALUES (1)"))
