"""Global values that are changed, in front of MySQL. As test_mysql: skipped without a server."""

import pytest

from harness import mysql as private_mysql
from test_server_defaults import (  # noqa: F401
    sites,
    test_a_change_that_comes_through_is_noticed_at_once,
    test_a_transaction_goes_on,
    test_client_libraries_are_told_how_to_escape,
    test_who_was_there_keeps_the_old_values,
)

pytestmark = private_mysql.needed


@pytest.fixture
def own_server(folder):
    server = private_mysql.MySqlServer(folder).start()
    yield server
    server.discard()
