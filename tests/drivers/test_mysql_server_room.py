"""How many backends there are in front of MySQL, where no number is given.

As test_mysql: skipped without a server.
"""

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.server import ADMIN
from test_mysql import server  # noqa: F401 (a fixture)
from test_server_room import bound, onramp, test_the_server_says_how_many, test_what_others_use_is_theirs  # noqa: F401

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
