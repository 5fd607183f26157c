"""Accounts of which a MySQL takes no more than a few connections at a time. As test_mysql: skipped without a server."""

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.server import ADMIN
from test_full_accounts import (  # noqa: F401
    test_an_account_that_may_have_more_gets_more, test_clients_with_other_capabilities_share_what_the_account_may_have,
    test_no_login_is_tried_that_the_server_would_refuse)
from test_mysql import server  # noqa: F401 (a fixture)

pytestmark = private_mysql.needed


@pytest.fixture
def own_server(server):  # noqa: F811
    yield server
    with raw.connect(server, *ADMIN) as admin:
        admin.query("DROP USER limited@'%'")
        admin.query("SET GLOBAL max_user_connections = 0")
