"""SHOW STATUS in front of MySQL: counts of commands about prepared statements.

As test_mysql: skipped without a server.
"""

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.server import ADMIN
from test_counters import pair, site, two_backends  # noqa: F401 (fixtures)
from test_counters import test_commands, test_each_its_own_at_once, test_forms, test_texts, test_what_ends_counting  # noqa: F401
from test_mysql import server  # noqa: F401 (a fixture)

pytestmark = private_mysql.needed


@pytest.fixture
def admin(server):
    with raw.connect(server, *ADMIN) as connection:
        yield connection
