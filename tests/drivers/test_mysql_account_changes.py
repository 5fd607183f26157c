"""As test_account_changes, with a MySQL server. As test_mysql: skipped unless MYSQL_HOME names a server's folder."""

import pytest

from harness import mysql as private_mysql
from test_account_changes import (  # noqa: F401 (tests and their fixtures)
    admin, onramp, test_a_password_that_is_not_right_any_more, test_a_role_is_not_handed_on, test_killed_meanwhile, test_nothing_of_the_former_account_is_left,
    test_off, test_what_a_server_does_at_logins_alone)
from test_mysql import server  # noqa: F401 (fixture)

pytestmark = private_mysql.needed


@pytest.fixture
def own_server(server):  # noqa: F811
    """No test here stops it."""
    return server
