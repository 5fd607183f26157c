"""Several Onramps in front of MySQL.

As test_mysql: skipped without a server.
"""

from harness import mysql as private_mysql
from test_mysql import server  # noqa: F401 (a fixture)
from test_mysql_server_room import own_admin, own_server  # noqa: F401
from test_peers import (  # noqa: F401
    both, start, test_a_driver_cancels_by_another_onramp, test_a_kill_at_another_onramp_is_that_of_ones_own,
    test_a_lost_connection_takes_its_slot_again, test_connections_are_divided_and_one_that_is_killed_leaves_its_part,
    test_permits_are_divided_among_those_whose_statements_wait)
from test_peer_kills import (  # noqa: F401
    test_a_transaction_goes_on_behind_a_cancel_that_comes_late, test_ids_of_an_onramp_that_is_gone_mean_nobody_at_the_next_one,
    test_names_that_somebody_has_seen_forge_nothing, test_the_admin_port_kills_clients_of_others, test_what_comes_behind_a_cancelled_statement_goes_on)

pytestmark = private_mysql.needed
