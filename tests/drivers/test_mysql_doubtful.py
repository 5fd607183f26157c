"""What `test_doubtful` tests, with a MySQL server behind Onramp.

As test_mysql: skipped unless MYSQL_HOME names a server's folder.
"""

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.server import ADMIN
from test_doubtful import LOCK_IS_FREE, NO_VARIABLE, ON_BOTH, STEALS, give_role, play
from test_mysql import server  # noqa: F401 (a fixture)
from test_mysql_left_behind import single_mysql, site  # noqa: F401 (the same here)

pytestmark = private_mysql.needed


@pytest.fixture(scope="module")
def roles(server):  # noqa: F811
    with raw.connect(server, *ADMIN) as connection:
        give_role(connection)


@pytest.fixture
def direct(server, roles):  # noqa: F811
    with raw.connect(server, *ADMIN) as connection:
        yield connection


PROGRAMS = {
    **ON_BOTH,
    "a function named like an operator of MariaDB's": [f"A: CREATE FUNCTION `minus`(x INT) {STEALS}", "A: SELECT minus(1)", "A: leaves", *LOCK_IS_FREE],
    "a function named like one of an older MySQL": [f"A: CREATE FUNCTION area(x INT) {STEALS}", "A: SELECT area(1)", "A: leaves", *LOCK_IS_FREE],
    "a variable behind a format of explanations": ["A: EXPLAIN FORMAT=JSON SELECT@a:=1", "A: leaves", *NO_VARIABLE],
    "how statements were optimised": [
        "A: SET optimizer_trace = 'enabled=on'", "A: SELECT 'secret'", "A: SET optimizer_trace = 'enabled=off'", "A: leaves",
        "B: SELECT COUNT(*) FROM information_schema.OPTIMIZER_TRACE"],
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_nothing_stays(client, note, direct, name):
    play(client, note, direct, PROGRAMS[name])
