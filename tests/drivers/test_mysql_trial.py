"""`onramp trial` in front of MySQL: its logins, its texts and what pins there are read by rules of their own.

As test_mysql: skipped without a server.
"""

import pytest

from harness import mysql as private_mysql
from test_mysql import server  # noqa: F401 (a fixture)
from test_trial import (  # noqa: F401 (the same here)
    connect,
    test_each_client_has_a_backend_of_its_own,
    test_the_report_names_what_an_application_does,
    trial,
)

pytestmark = private_mysql.needed


@pytest.fixture
def own_server(server):  # noqa: F811 (the fixture that it stands for)
    """One for both, since none ends it."""
    return server
