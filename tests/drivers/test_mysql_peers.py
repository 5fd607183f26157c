"""Several Onramps in front of MySQL.

As test_mysql: skipped without a server.
"""

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.server import ADMIN
from test_mysql import server  # noqa: F401 (a fixture)
from test_peers import (  # noqa: F401
    start, test_a_lost_connection_takes_its_slot_again, test_connections_are_divided_and_one_that_is_killed_leaves_its_part,
    test_ids_say_whose_client_it_is, test_permits_are_divided_among_those_whose_statements_wait)

pytestmark = private_mysql.needed


@pytest.fixture
def own_server(server):
    return server


@pytest.fixture
def own_admin(server):
    with raw.connect(server, *ADMIN) as admin:
        before = admin.value("SELECT @@global.max_connections").decode()
        yield admin
        admin.query(f"SET GLOBAL max_connections = {before}")
