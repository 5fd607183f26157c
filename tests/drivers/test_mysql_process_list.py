"""SHOW PROCESSLIST in front of MySQL.

As test_mysql: skipped without a server.
"""

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.server import ADMIN
from test_mysql_wait_timeout import client, one_backend, server, site  # noqa: F401 (fixtures)
from test_process_list import by_full_statement, by_statement, listed
from test_process_list import test_threads_of_others_keep_their_ids  # noqa: F401 (the same here)

pytestmark = private_mysql.needed


@pytest.fixture
def admin(server):
    with raw.connect(server, *ADMIN) as connection:
        yield connection


@pytest.mark.parametrize("show", [by_statement, by_full_statement])
def test_a_client_finds_itself_and_not_who_is_idle(client, note, show):
    own, idle = client(), client()
    note("idle", idle.query("SELECT 1").rows)
    found = listed(own, show)
    note("itself", found[own.id][1:2] + found[own.id][7:8])
    assert own.id in found
