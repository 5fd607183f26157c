"""KILL in front of MySQL, which says less than MariaDB to whom it ends.

As test_mysql: skipped without a server.
"""

import pytest

from harness import mysql as private_mysql
from harness import raw
from harness.server import ADMIN
from test_kill import (  # noqa: F401 (the same here)
    test_kill_ends_the_rest_of_a_text_or_procedure,
    test_kill_of_an_expression_is_not_of_oneself,
    test_kill_oneself_by_a_prepared_function,
    test_kill_query_oneself_by_function,
)
from test_kill import kill_that_comes_late, kill_without_a_report, same_as_the_server_whose_own
from test_mysql_wait_timeout import client, one_backend, server, site  # noqa: F401 (fixtures)

pytestmark = private_mysql.needed


@pytest.fixture
def admin(server):
    with raw.connect(server, *ADMIN) as connection:
        yield connection


def test_a_killed_connection_is_no_loss_to_report(server, own_onramp):
    kill_without_a_report(server, own_onramp(server))


@pytest.mark.parametrize("kind", ["", "QUERY "])
def test_a_statement_that_ends_before_its_kill_arrives(server, own_onramp, kind):
    kill_that_comes_late(server, own_onramp, kind)


def test_whose_own_a_client_is(server, own_onramp):
    """MySQL goes by the name alone."""
    same_as_the_server_whose_own(server, own_onramp(server))
