"""Accounts of which the server takes no more than a few connections at a time, as hosters have it for each customer."""

import time

import pytest

from harness import raw
from harness.raw import Err
from harness.relay import Relay
from harness.server import ADMIN, Server
from harness.waiting import in_background, wait_until_running

CLIENTS = 40
SECRET = "limited-secret"
# As many logins may be under way as there are permits when the server first says that there is no room.
PERMITS = 16
# Behind that one login at a time, a second after the last refusal and two later on: and soon behind one that was let in, which is once where a worker
# has all, and 20 times a second for each backend where several have them in turn.
REFUSED_BY_ONE = 2
REFUSED_IN_TURNS = 40


class Far(Relay):
    """A server some way off, and the number of connections that it has got."""

    connections = 0

    def from_server(self, piece):
        time.sleep(0.02)

    def connected(self, near, far):
        self.connections += 1
        super().connected(near, far)


def limit(server, most):
    with raw.connect(server, *ADMIN) as admin:
        answer = admin.query(f"CREATE USER limited@'%' IDENTIFIED BY '{SECRET}' WITH MAX_USER_CONNECTIONS {most}")
        assert not isinstance(answer, Err), answer


def refused(server):
    with raw.connect(server, *ADMIN) as admin:
        return int(dict(admin.query("SHOW GLOBAL STATUS LIKE 'Aborted_connects'").rows)[b"Aborted_connects"])


def limit_of_server(server, most):
    """The server's own limit, for accounts without one. A MariaDB that has begun without one takes none later on."""
    if type(server) is Server:
        server.stop()
        server.start("--max-user-connections=100")
    limit(server, 0)
    with raw.connect(server, *ADMIN) as admin:
        answer = admin.query(f"SET GLOBAL max_user_connections = {most}")
        assert not isinstance(answer, Err), answer


def others(server, count):
    """Connections of the account that are not Onramp's, of which it learns by being refused."""
    return [raw.connect(server, "limited", SECRET) for _ in range(count)]


def run_all(clients, text="SELECT SLEEP(0.01)", times=20):
    def run(client):
        return [client.value(text) for _ in range(times)]

    for join in [in_background(run, client) for client in clients]:
        assert join() == [b"0"] * times


@pytest.mark.parametrize("set_limit", [limit, limit_of_server])
def test_no_login_is_tried_that_the_server_would_refuse(own_server, own_onramp, set_limit):
    set_limit(own_server, 3)
    onramp = own_onramp(own_server)
    before = refused(own_server)
    clients = [raw.connect(onramp, "limited", SECRET) for _ in range(CLIENTS)]
    run_all(clients)
    assert refused(own_server) == before
    onramp.says("all that the account may have are Onramp's")
    for client in clients:
        client.close()


def test_an_account_that_may_have_more_gets_more(own_server, own_onramp):
    limit(own_server, 1)
    onramp = own_onramp(own_server, accounts_refresh="200ms", backend_connect_timeout="60s")
    with raw.connect(onramp, "limited", SECRET) as holder, raw.connect(onramp, "limited", SECRET) as waiting:
        assert holder.value("SELECT GET_LOCK('held', 0)") == b"1"
        answer = in_background(waiting.value, "SELECT 1")
        onramp.says("takes no more backends")
        with raw.connect(own_server, *ADMIN) as admin:
            assert not isinstance(admin.query("ALTER USER limited@'%' WITH MAX_USER_CONNECTIONS 2"), Err)
        assert answer() == b"1"


@pytest.mark.parametrize("most", [1, 2])
def test_clients_with_other_capabilities_share_what_the_account_may_have(own_server, own_onramp, most):
    limit(own_server, most)
    onramp = own_onramp(own_server)
    before = refused(own_server)
    # These need backends of their own.
    kinds = [raw.USUAL, raw.USUAL | raw.FOUND_ROWS, raw.USUAL & ~raw.PS_MULTI_RESULTS]
    clients = [raw.connect(onramp, "limited", SECRET, capabilities=kind) for kind in kinds for _ in range(3)]
    run_all(clients, times=10)
    # One kind alone, behind others that have gone to rest.
    for client in clients:
        run_all([client], times=1)
        client.close()
    # A server may not have noticed yet that the one before has gone.
    assert refused(own_server) - before <= len(clients)


@pytest.mark.parametrize(("workers", "most"), [(1, 3), (4, 3), (8, 1)])
def test_more_clients_share_what_others_leave_of_an_account(own_server, own_onramp, workers, most):
    limit(own_server, most + 2)
    strangers = others(own_server, 2)
    onramp = own_onramp(own_server, workers=workers)
    clients = [raw.connect(onramp, "limited", SECRET) for _ in range(CLIENTS)]
    before, begin = refused(own_server), time.monotonic()

    run_all(clients)
    count, seconds = refused(own_server) - before, time.monotonic() - begin
    for client in clients + strangers:
        client.close()
    # However long it takes.
    rate = REFUSED_BY_ONE if workers == 1 else REFUSED_IN_TURNS * most
    assert count <= PERMITS * workers + rate * (seconds + 1)
    lines = [line for line in onramp.log_text().splitlines() if "takes no more backends" in line]
    assert 1 <= len(lines) <= workers, lines
    assert all("ALTER USER 'limited'@'%' WITH MAX_USER_CONNECTIONS" in line for line in lines)


def test_whoever_waits_for_what_others_hold_is_told_whose_limit_it_is(own_server, own_onramp):
    limit(own_server, 1)
    onramp = own_onramp(own_server, backend_connect_timeout="1s")
    with raw.connect(onramp, "limited", SECRET) as holder, raw.connect(onramp, "limited", SECRET) as waiting:
        assert holder.value("SELECT GET_LOCK('held', 0)") == b"1"
        answer = waiting.query("SELECT 1")
        assert (answer.code, answer.state) == (1203, "42000"), answer
        assert "'limited'@'%' (MAX_USER_CONNECTIONS)" in answer.message
        assert holder.value("SELECT RELEASE_LOCK('held')") == b"1"
        assert waiting.value("SELECT 1") == b"1"


@pytest.mark.parametrize(("workers", "most"), [(1, 2), (2, 2)])
def test_a_kill_gets_the_room_of_who_is_idle(own_server, own_onramp, workers, most):
    """Were it to wait for the victim, it would come too late."""
    limit(own_server, most)
    onramp = own_onramp(own_server, workers=workers)
    kinds = [raw.USUAL, raw.USUAL | raw.FOUND_ROWS]
    with raw.connect(onramp, "limited", SECRET, capabilities=kinds[0]) as victim, raw.connect(own_server, *ADMIN) as admin:
        end = in_background(victim.query, "SELECT SLEEP(600) AS of_victim")
        wait_until_running(admin, "of_victim")
        others = [raw.connect(onramp, "limited", SECRET, capabilities=kinds[1]) for _ in range(2 * workers)]
        assert [client.value("SELECT 1") for client in others] == [b"1"] * len(others)
        killers = [raw.connect(onramp, "limited", SECRET, capabilities=kinds[0]) for _ in range(2 * workers)]
        assert isinstance(killers[-1].query(f"KILL QUERY {victim.greeting.connection_id}"), raw.Ok)
        end()
        for client in others + killers:
            client.close()


def test_whoever_waits_behind_a_full_account_is_looked_at_in_time(own_server, own_onramp):
    """Statements of another account, of which each other one needs a backend of its own kind."""
    limit(own_server, 1)
    with raw.connect(own_server, *ADMIN) as admin:
        assert not isinstance(admin.query(f"CREATE USER neighbour@'%' IDENTIFIED BY '{SECRET}' WITH MAX_USER_CONNECTIONS 1"), Err)
    onramp = own_onramp(own_server, backend_connect_timeout="600s")
    with raw.connect(onramp, "limited", SECRET) as holder:
        assert holder.value("SELECT GET_LOCK('held', 0)") == b"1"
        waiting = [raw.connect(onramp, "limited", SECRET) for _ in range(4)]
        ends = [in_background(client.value, "SELECT 1") for client in waiting]
        kinds = [raw.USUAL, raw.USUAL | raw.FOUND_ROWS]
        clients = [raw.connect(onramp, "neighbour", SECRET, capabilities=kind) for kind in kinds for _ in range(2)]
        begin = time.monotonic()
        run_all(clients)
        behind = time.monotonic() - begin
        assert holder.value("SELECT RELEASE_LOCK('held')") == b"1"
        assert [end() for end in ends] == [b"1"] * 4
        begin = time.monotonic()
        run_all(clients)
        alone = time.monotonic() - begin
        # The former way it was twenty times as long: each change waited for some other event.
        assert behind < 5 * alone + 1, (behind, alone)
        for client in waiting + clients:
            client.close()


def test_what_nobody_needs_on_one_worker_goes_to_another(own_server, own_onramp):
    """Each has one; where one of them is at work for long, the other's is idle."""
    limit(own_server, 2)
    onramp = own_onramp(own_server, workers=2)
    clients = [raw.connect(onramp, "limited", SECRET) for _ in range(8)]
    run_all(clients)
    with raw.connect(own_server, *ADMIN) as admin:
        end = in_background(clients[0].query, "SELECT SLEEP(600) AS at_work")
        wait_until_running(admin, "at_work")
        # Wherever they are, each gets its turn.
        assert [client.value("SELECT 1") for client in clients[1:]] == [b"1"] * 7
        admin.query(f"KILL QUERY {backend_of(admin, 'at_work')}")
        end()
    for client in clients:
        client.close()


def backend_of(admin, marker):
    rows = admin.query("SELECT ID, INFO FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()").rows
    return next(int(number) for number, info in rows if info and marker.encode() in info)


def on_workers(onramp, workers):
    """A client on each worker. A client's id tells which has it."""
    found, others = {}, []
    while len(found) < workers:
        client = raw.connect(onramp, "limited", SECRET)
        if found.setdefault(client.greeting.connection_id % workers, client) is not client:
            others.append(client)
    for client in others:
        client.close()
    return list(found.values())


def test_the_only_backend_of_an_account_is_worth_a_login_before_it_goes_to_another_worker(own_server, own_onramp):
    """Each has nothing more that waits whenever its client has an answer."""
    limit(own_server, 1)
    far = Far(own_server)
    onramp = own_onramp(far, workers=2)
    clients = on_workers(onramp, 2)
    before, statements = far.connections, 20
    run_all(clients, "SELECT 0", statements)
    logins = far.connections - before
    assert logins <= statements, f"{logins} logins for {2 * statements} statements"
    for client in clients:
        client.close()
    far.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_forgotten_transaction_ends_for_statements_of_its_full_account(own_server, own_onramp, workers):
    """There are places for backends, and the account may have no other one."""
    limit(own_server, 1)
    onramp = own_onramp(own_server, workers=workers, idle_hold_timeout="1s", backend_connect_timeout="600s")
    with raw.connect(onramp, "limited", SECRET) as holder:
        assert not isinstance(holder.query("BEGIN"), Err) and holder.value("SELECT 1") == b"1"
        clients = on_workers(onramp, workers)
        assert [client.value("SELECT 2") for client in clients] == [b"2"] * workers
        error = holder.query("SELECT 1")
        assert (error.code, error.state) == (1159, "08S01") and "idle_hold_timeout = 1000 ms" in error.message
        for client in clients:
            client.close()


def test_a_transaction_of_a_full_account_stays_while_nobody_waits_for_it(own_server, own_onramp):
    limit(own_server, 1)
    onramp = own_onramp(own_server, idle_hold_timeout="1s")
    with raw.connect(onramp, "limited", SECRET) as holder, raw.connect(onramp, *ADMIN) as other:
        assert not isinstance(holder.query("BEGIN"), Err) and holder.value("SELECT 1") == b"1"
        assert [other.value("SELECT SLEEP(0.1)") for _ in range(30)] == [b"0"] * 30
        assert holder.value("SELECT 1") == b"1"
