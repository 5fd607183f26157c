"""`onramp doctor` in front of MySQL.

As test_mysql: skipped without a server.
"""

from harness import mysql as private_mysql
from test_doctor import test_a_wrong_password_leaves_it_unknown, test_all_limits_are_read, test_what_it_says_to_do_is_enough  # noqa: F401
from test_mysql import server  # noqa: F401 (a fixture)

pytestmark = private_mysql.needed
