"""SHOW PROCESSLIST: clients find themselves and each other by the ids that they know."""

import pytest

from harness import raw
from harness.raw import Closed, Ok
from harness.waiting import until, wait_until_running

PROCESS_INFO = 10

ID, USER, COMMAND, INFO = 0, 1, 4, 7


def by_statement(client):
    return client.query("SHOW PROCESSLIST")


def by_full_statement(client):
    return client.query("show full\tprocesslist;")


def by_command(client):
    client.command(PROCESS_INFO)
    return client.result()


LISTS = pytest.mark.parametrize("show", [by_statement, by_full_statement, by_command])


def listed(client, show=by_statement):
    return {int(row[ID]): row for row in show(client).rows}


@LISTS
@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF])
def test_a_client_finds_itself(client, note, show, capabilities):
    for _ in range(3):
        connection = client(capabilities=capabilities)
        answer = show(connection)
        note("columns", [column.name for column in answer.columns])
        note("end", (answer.status, answer.warnings))
        own = [row for row in answer.rows if int(row[ID]) == connection.id]
        note("itself", [(row[USER], row[COMMAND], row[INFO]) for row in own])
        assert len(own) == 1
        note("goes on", connection.query("SELECT 1").rows)


@LISTS
def test_a_transaction_is_listed(client, note, schema, show):
    holder, other = client(schema=schema), client(schema=schema)
    holder.query("CREATE TABLE t (a INT) ENGINE = InnoDB")
    holder.query("BEGIN")
    holder.query("INSERT INTO t VALUES (1)")
    # The server shows a thread as asleep a moment after its answer.
    row = until(lambda: (found := listed(other, show).get(holder.id)) and found[COMMAND] == b"Sleep" and found, "the holder is not listed")
    note("holder", (row[USER], row[COMMAND], row[INFO]))
    holder.query("ROLLBACK")


def test_a_running_statement_is_killed_by_what_is_listed(site, client, admin, note):
    victim, other = client(), client()
    # By another text in each run: what was killed in the one before may still be on its way out.
    text = f"SELECT SLEEP(10000), 'listed {site.name}'".encode()
    victim.command(raw.QUERY, text)
    wait_until_running(admin, text.decode())
    found = [thread for thread, row in listed(other).items() if row[INFO] == text]
    assert found == [victim.id]
    note("kill", other.query(f"KILL {found[0]}"))
    try:
        assert victim.result()[0] in (1317, 1927)
        assert victim.at_end()
    except Closed:
        pass
    until(lambda: victim.id not in listed(other), "it is still listed")


def test_threads_of_others_keep_their_ids(client, admin, note):
    """A connection to the server itself, which an administrator sees."""
    operator = client("admin", "admin-secret")
    own_thread = int(admin.value("SELECT CONNECTION_ID()"))
    note("listed", own_thread in listed(operator))
    assert {operator.id, own_thread} <= set(listed(operator))


def test_a_long_list(site, client, admin, note):
    """More than is held to be written anew: the answer is whole."""
    victim, operator = client(), client("admin", "admin-secret")
    begin = f"SELECT SLEEP(10000), 'long {site.name} ".encode()
    text = begin + b"x" * (3 << 19) + b"'"
    victim.command(raw.QUERY, text)
    wait_until_running(admin, begin.decode())
    note("found", [row[INFO] == text for row in by_full_statement(operator).rows if row[INFO] and row[INFO].startswith(begin)])
    note("short", [row[INFO] == text[:100] for row in by_statement(operator).rows if row[INFO] and row[INFO].startswith(begin)])
    note("goes on", operator.query("SELECT 1").rows)
    assert isinstance(operator.query(f"KILL {victim.id}"), Ok)


def test_in_a_text_of_several_statements(client, note):
    """The server's own ids are shown there, and the answer is whole."""
    connection = client(capabilities=raw.USUAL | raw.MULTI_STATEMENTS)
    answers = connection.query_all("SELECT 1; SHOW PROCESSLIST; SELECT 2")
    note("rows", [answers[0].rows, len(answers), answers[2].rows])


def test_clients_of_all_workers(own_server, own_onramp):
    onramp = own_onramp(own_server, max_backends=16, workers=3)
    clients = [raw.connect(onramp) for _ in range(12)]
    for number, client in enumerate(clients):
        assert client.value(f"SELECT GET_LOCK('listed {number}', 0)") == b"1"
    for client in clients:
        assert {one.id for one in clients} <= set(listed(client))
    for client in clients:
        client.close()
