"""What stands in the place of CONNECTION_ID() and its like, in front of a MySQL server: see test_session_state.

FOUND_ROWS() warns there that it will be removed, where the server sees it; the counts of warnings cannot be prepared.
"""

import pytest

from harness import mysql as private_mysql
from test_mysql_wait_timeout import client, one_backend, server, site  # noqa: F401 (fixtures)
from test_leftovers import numbers, test_found_rows_behind_a_reset, test_found_rows_count_what_was_passed_over  # noqa: F401 (the same here)
from test_session_state import EXPRESSIONS, note_types_and_names

pytestmark = private_mysql.needed


@EXPRESSIONS
@pytest.mark.parametrize("call", ["CONNECTION_ID()", "@@pseudo_thread_id", "ROW_COUNT()"])
def test_calls_have_types_and_names_of_the_server(client, note, schema, call, expression):  # noqa: F811
    note_types_and_names(client, note, schema, expression.format(call, call))
