"""Global values that are changed, in front of MySQL. As test_mysql: skipped without a server."""

import pytest

from harness import mysql as private_mysql
from test_server_defaults import test_a_transaction_goes_on, test_who_was_there_keeps_the_old_values, sites  # noqa: F401

pytestmark = private_mysql.needed


@pytest.fixture
def own_server(folder):
    server = private_mysql.MySqlServer(folder).start()
    yield server
    server.stop()
