"""As test_rights, with a MySQL server. As test_mysql: skipped unless MYSQL_HOME names a server's folder."""

import pytest

from harness import mysql as private_mysql
from test_mysql import server  # noqa: F401 (fixture)
from test_rights import admin, start, test_global_right_for_a_moment, test_right_on_a_schema_for_a_moment  # noqa: F401 (tests and their fixtures)

pytestmark = private_mysql.needed


@pytest.fixture
def own_server(server):
    """No test here stops it."""
    return server
