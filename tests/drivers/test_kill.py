"""KILL in all its forms, of running, idle and queued statements, with and without the right to."""

import functools
import select
import struct
import threading

import pytest

from conftest import closing
from harness import raw
from harness.raw import Closed, Err, Ok, Rows
from harness.relay import Relay
from harness.waiting import PATIENCE, SOON, until, wait_until_backends_are_gone, wait_until_running


def kill_by_statement(killer, victim):
    return killer.query(f"KILL {victim.id}")


def kill_by_command(killer, victim):
    return killer.simple(raw.PROCESS_KILL, struct.pack("<I", victim.id))


def kill_by_keyword(killer, victim):
    return killer.query(f"kill hard connection {victim.id}")


KILLS = pytest.mark.parametrize("kill", [kill_by_statement, kill_by_command, kill_by_keyword])


def end_of(victim):
    """How a killed client sees its end: the reply if there is one, then the close."""
    try:
        reply = victim.result()
    except Closed:
        return "closed"
    return reply, "closed" if victim.at_end() else "open"


@KILLS
def test_kill_running(client, admin, note, kill):
    victim, killer = client(), client()
    victim.command(raw.QUERY, b"SELECT SLEEP(10000), 'victim'")
    wait_until_running(admin, "SLEEP(10000), 'victim'")
    note("kill", kill(killer, victim))
    end = end_of(victim)
    # Direct, the server's thread may close the socket before it has written 1317: both are seen there.
    assert end in ("closed", (Err(1317, "70100", "Query execution was interrupted"), "closed"),
                   (Err(1927, "70100", "Connection was killed"), "closed")), end
    note("killer goes on", killer.query("SELECT 1"))


@pytest.mark.parametrize("by", ["admin", "app"])
def test_kill_during_a_login(client, unauthenticated, note, by):
    """Whoever has not logged in yet is nobody's own."""
    victim, killer = unauthenticated(), client(by, f"{by}-secret")
    victim.greet()
    answer = killer.query(f"KILL {victim.greeting.connection_id}")
    note("kill", answer._replace(message="") if isinstance(answer, Err) else answer)
    if isinstance(answer, Err):
        victim.send(victim.login_request("app", "app-secret"))
    note("end", victim.at_end() if isinstance(answer, Ok) else victim.finish_login("app-secret"))


@KILLS
def test_kill_idle(client, note, kill):
    victim, killer = client(), client()
    note("before", victim.query("SELECT 1"))
    note("kill", kill(killer, victim))
    note("end", end_of(victim))
    note("killer goes on", killer.query("SELECT 1"))


def test_kill_never_used(client, note):
    """A client that has logged in and has not sent anything."""
    victim, killer = client(), client()
    note("kill", killer.query(f"KILL {victim.id}"))
    note("end", end_of(victim))


def test_kill_in_transaction(client, note, schema):
    victim, killer = client(schema=schema), client(schema=schema)
    killer.query("CREATE TABLE t (id INT PRIMARY KEY)")
    victim.query("BEGIN")
    victim.query("INSERT INTO t VALUES (1)")
    note("kill", killer.query(f"KILL {victim.id}"))
    note("end", end_of(victim))
    note("rolled back", killer.query("INSERT INTO t VALUES (1)"))


def test_kill_query(client, admin, note):
    victim, killer = client(), client()
    victim.command(raw.QUERY, b"SELECT SLEEP(10000), 'query victim'")
    wait_until_running(admin, "SLEEP(10000), 'query victim'")
    note("kill", killer.query(f"KILL QUERY {victim.id}"))
    note("reply", victim.results())
    note("goes on", victim.query("SELECT 'alive'"))


def test_kill_query_reports_1317(client, admin, note, schema):
    victim, killer, holder = client(schema=schema), client(schema=schema), client(schema=schema)
    holder.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    holder.query("INSERT INTO t VALUES (1, 1)")
    holder.query("BEGIN")
    holder.query("UPDATE t SET v = 2")
    victim.command(raw.QUERY, b"UPDATE t SET v = 3 WHERE id = 1")
    wait_until_running(admin, "SET v = 3")
    note("kill", killer.query(f"KILL QUERY {victim.id}"))
    assert note("reply", victim.results())[0][:2] == (1317, "70100")
    note("goes on", victim.query("SELECT 'alive'"))
    holder.query("ROLLBACK")


def test_kill_query_of_idle(client, note):
    """It does nothing, and nobody else's statement is hit."""
    victim, killer = client(), client()
    others = [client() for _ in range(6)]
    victim.query("SELECT 1")
    note("kill", killer.query(f"KILL QUERY {victim.id}"))
    for number, other in enumerate([victim, *others]):
        note(f"client {number}", other.query("SELECT SLEEP(0.01)"))


def end_holders(admin, holders):
    """By the server's own thread numbers, until each of them has its answer."""
    def ended():
        for (thread,) in admin.query("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(10000), ''holder %'").rows:
            admin.query(f"KILL QUERY {int(thread)}")
        return len(select.select([holder.socket for holder in holders], [], [], 0)[0]) == len(holders)

    until(ended, "they hold on")


def test_kill_queued(site, client, admin, note):
    """A statement that waits for a backend is killed where it waits and never runs."""
    holders = [client() for _ in range(8)]
    for number, holder in enumerate(holders):
        holder.command(raw.QUERY, b"SELECT SLEEP(10000), 'holder %d'" % number)
    victim, killer = client(), client()
    victim.command(raw.QUERY, b"SELECT SLEEP(10000), 'queued victim'")
    killer.command(raw.QUERY, b"KILL %d" % victim.id)
    end = end_of(victim)
    assert end == "closed" or end[0][0] in (1317, 1927), end
    assert isinstance(killer.results()[0], Ok)
    end_holders(admin, holders)
    for holder in holders:
        note("holder", holder.results())


def test_kill_query_queued(site, client, admin, note):
    holders = [client() for _ in range(8)]
    for number, holder in enumerate(holders):
        holder.command(raw.QUERY, b"SELECT SLEEP(10000), 'holder %d'" % number)
    victim, killer = client(), client()
    victim.command(raw.QUERY, b"SELECT SLEEP(10000) + 5")

    def killed():
        # That the statement is in the queue nothing outside shows: a KILL that comes before it finds nothing to end.
        assert isinstance(killer.query(f"KILL QUERY {victim.id}"), Ok)
        return victim.has_answer()

    until(killed, "the statement goes on")
    answer = victim.results()[0]
    assert isinstance(answer, Rows) or answer[:2] == (1317, "70100"), answer
    # Several workers have a backend or two each, which the holders may have all of.
    end_holders(admin, holders)
    note("goes on", victim.query("SELECT 'alive'"))
    for holder in holders:
        note("holder", holder.results())


def own_words(answer, victim):
    """The error with the id taken out, which differs from run to run."""
    return answer._replace(message=answer.message.replace(str(victim), "ID"))


def rows(answers):
    return [answer.rows if isinstance(answer, Rows) else answer for answer in answers]


def several(client, *account, **options):
    return client(*account, capabilities=raw.USUAL | raw.MULTI_STATEMENTS, **options)


def test_kill_in_front_of_other_statements(client, note):
    """As applications kill and wait in one text."""
    victims, killer = [client() for _ in range(4)], several(client)
    for victim in victims[:3]:
        victim.query("SELECT 1")
    ids = [victim.id for victim in victims]
    note("with a wait", rows(killer.query_all(f"kill {ids[0]}; select sleep(0.05), 'a;b'; SELECT ROW_COUNT()")))
    note("two", killer.query_all(f"KILL {ids[1]};KILL CONNECTION {ids[2]} ;"))
    note("one of a query", rows(killer.query_all(f"KILL QUERY {ids[3]}; SELECT 5; DO 1")))
    note("a mistake behind it", killer.query_all(f"KILL QUERY {ids[3]}; KILL QUERY {ids[3]}; SELEC"))
    for victim in victims[:3]:
        note("end", end_of(victim))
    note("alive", victims[3].query("SELECT 1"))
    unknown = until(lambda: isinstance(killer.query(f"KILL {ids[0]}"), Err) and killer.query_all(f"KILL {ids[0]}; SELECT 1"), "still there")
    note("unknown", [own_words(answer, ids[0]) for answer in unknown])
    unknown = killer.query_all(f"KILL QUERY {ids[3]}; KILL {ids[0]}; SELECT 1")
    note("unknown behind another", [answer if isinstance(answer, Ok) else own_words(answer, ids[0]) for answer in unknown])
    note("usable", killer.query("SELECT 1"))


def test_kill_of_a_running_statement_in_front_of_others(client, admin, note):
    victim, killer = client(), several(client)
    victim.command(raw.QUERY, b"SELECT SLEEP(10000), 'behind it'")
    wait_until_running(admin, "SLEEP(10000), 'behind it'")
    note("kill", rows(killer.query_all(f"KILL {victim.id}; SELECT 5")))
    end = end_of(victim)
    assert end == "closed" or end[0][0] in (1317, 1927), end


# Each with a COMMIT behind what is killed, and with a row of its own before that.
WITH_A_REST = pytest.mark.parametrize("text", [
    b"DO SLEEP(10000); COMMIT", b"SELECT 1; SELECT SLEEP(10000); COMMIT", b"CALL p()", b"SELECT 1; CALL p(); COMMIT"])


def sleeps(admin):
    return admin.query("SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep'").rows


def begin_with_a_rest(victim, text):
    """Leaves the victim where the server is to sleep, in a transaction with a row, and with more to do."""
    victim.query("CREATE TABLE t (id INT PRIMARY KEY)")
    victim.query("CREATE PROCEDURE p() BEGIN DO SLEEP(10000); INSERT INTO t VALUES (2); COMMIT; END")
    victim.query("BEGIN")
    victim.query("INSERT INTO t VALUES (1)")
    victim.command(raw.QUERY, text)


def assert_killed_with_its_rest(victim):
    """Whatever comes of the answer, its end is no OK."""
    try:
        answers = victim.results()
    except (Closed, ConnectionResetError):
        return
    assert isinstance(answers[-1], Err) and answers[-1].code in (1053, 1317, 1927), answers
    assert victim.at_end()


def rows_left(client, schema):
    """Waits for the end of the transaction that has the first row, and says which rows were there before."""
    with client(schema=schema) as other:
        return [other.query("INSERT INTO t VALUES (1)"), other.query("SELECT * FROM t").rows]


@WITH_A_REST
def test_kill_ends_the_rest_of_a_text_or_procedure(client, admin, note, schema, text):
    victim, killer = several(client, schema=schema), client()
    begin_with_a_rest(victim, text)
    until(lambda: sleeps(admin), "it never sleeps")
    note("kill", killer.query(f"KILL {victim.id}"))
    assert_killed_with_its_rest(victim)
    note("rolled back", rows_left(client, schema))
    note("killer goes on", killer.query("SELECT 1"))


@pytest.mark.parametrize("most", [1, 3])
def test_kill_where_every_backend_is_held(own_server, own_onramp, most):
    """A KILL has one more then, since it may be what frees one; nobody takes that away before."""
    onramp = own_onramp(own_server, max_backends=most)
    with raw.connect(own_server, "admin", "admin-secret") as admin, raw.connect(onramp) as killer, closing(functools.partial(raw.connect, onramp)) as client:
        for _ in range(5):
            victims = [client() for _ in range(most)]
            for victim in victims:
                victim.query("BEGIN")
                victim.command(raw.QUERY, b"DO SLEEP(10000)")
            until(lambda: len(sleeps(admin)) == most, "some never sleep")
            for victim in victims:
                assert isinstance(killer.query(f"KILL {victim.id}"), Ok)
                assert_killed_with_its_rest(victim)
            assert killer.query("SELECT 'goes on'").rows == [(b"goes on",)]


def test_a_killed_connection_is_no_loss_to_report(own_server, own_onramp):
    kill_without_a_report(own_server, own_onramp(own_server))


def kill_without_a_report(server, onramp):
    before = len(onramp.log_text())  # as the warning of a limit, at the start
    with raw.connect(server, "admin", "admin-secret") as admin, raw.connect(onramp) as killer:
        for text in (b"DO SLEEP(10000)", b"SELECT SLEEP(10000)"):
            victim = raw.connect(onramp)
            victim.command(raw.QUERY, text)
            until(lambda: sleeps(admin), "it never sleeps")
            assert isinstance(killer.query(f"KILL {victim.id}"), Ok)
            assert_killed_with_its_rest(victim)
            assert killer.query("SELECT 'goes on'").rows == [(b"goes on",)]
    assert " WARN " not in onramp.log_text()[before:], onramp.log_text()


@pytest.mark.parametrize("kind", ["", "QUERY "])
def test_a_statement_that_ends_before_its_kill_arrives(own_server, own_onramp, kind):
    kill_that_comes_late(own_server, own_onramp, kind)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ["", "QUERY "])
def test_a_text_goes_on_behind_a_kill_of_what_ends_before_it_arrives(own_server, own_onramp, kind, workers):
    kill_that_comes_late(own_server, own_onramp, kind, "; SELECT 5", workers=workers)


class LateKill(Relay):
    """The server hears of a KILL when the test says so."""

    def __init__(self, server):
        self.asked, self.let_go = threading.Event(), threading.Event()
        super().__init__(server)

    def to_server(self, piece):
        if b"KILL" in piece:
            self.asked.set()
            assert self.let_go.wait(PATIENCE)


def pair(onramp, workers):
    """Two clients, of which each is another worker's where there are two: their ids follow each other then."""
    one, rest = raw.connect(onramp, capabilities=raw.USUAL | raw.MULTI_STATEMENTS), []
    while not rest or (rest[-1].id - one.id) % workers != workers - 1:
        rest.append(raw.connect(onramp))
    for other in rest[:-1]:
        other.close()
    return one, rest[-1]


def kill_that_comes_late(server, own_onramp, kind, rest="", **options):
    """What was to be ended has ended: that is no error, least of all one about a thread that the killer has not named."""
    relay = LateKill(server)
    onramp = own_onramp(relay, **options)
    killer, victim = pair(onramp, options.get("workers", 1))
    with raw.connect(server, "admin", "admin-secret") as admin, killer, victim:
        for text in ("DROP TABLE IF EXISTS onramp_app.late",
                     "CREATE TABLE onramp_app.late (a INT)", "INSERT INTO onramp_app.late VALUES (1)", "BEGIN", "SELECT a FROM onramp_app.late FOR UPDATE"):
            assert not isinstance(admin.query(text), Err)
        victim.command(raw.QUERY, b"SELECT 'ends', a FROM onramp_app.late FOR UPDATE")
        wait_until_running(admin, "'ends', a")
        thread = int(admin.value("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT ''ends'', a%'"))
        killer.command(raw.QUERY, f"KILL {kind}{victim.id}{rest}".encode())
        assert relay.asked.wait(PATIENCE)
        admin.query("COMMIT")
        assert isinstance(victim.result(), Rows)
        until(lambda: not admin.query(f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {thread}").rows, "it stays")
        relay.let_go.set()
        answers = rows(killer.results())
        assert isinstance(answers[0], Ok) and answers[1:] == ([[(b"5",)]] if rest else []), answers
        assert killer.value("SELECT @@warning_count") == b"0"
        assert victim.value("SELECT 'goes on'") == b"goes on" if kind else victim.at_end()
    relay.close()


def test_a_transaction_that_is_open_for_too_long_ends_with_its_rest(own_server, own_onramp):
    onramp = own_onramp(own_server, transaction_timeout=SOON)
    schema = "onramp_app"
    with raw.connect(own_server, "admin", "admin-secret", schema=schema) as admin:
        with raw.connect(onramp, schema=schema, capabilities=raw.USUAL | raw.MULTI_STATEMENTS) as victim:
            begin_with_a_rest(victim, b"DO SLEEP(10000); COMMIT")
            assert_killed_with_its_rest(victim)
        until(lambda: not sleeps(admin), "the server sleeps on")
        assert isinstance(admin.query("INSERT INTO t VALUES (1)"), Ok)


def test_kill_spares_the_reads_of_others_on_the_same_backend(own_server, own_onramp):
    """With one permit short reads share a backend. The first of them meets a lock; those behind it get their answers."""
    onramp = own_onramp(own_server, permits=1, workers=1, shared_backends=1, max_backends=8)
    connect = functools.partial(raw.connect, onramp, schema="onramp_app")
    with raw.connect(own_server, "admin", "admin-secret", schema="onramp_app") as admin, connect() as killer, closing(connect) as client:
        admin.query("CREATE TABLE locked (id INT PRIMARY KEY)")
        # Short ones again and again: they may share from then on.
        for _ in range(30):
            killer.query("SELECT id FROM locked WHERE id = 0")
        admin.query("LOCK TABLES locked WRITE")
        clients = [client() for _ in range(8)]
        for number, reader in enumerate(clients):
            reader.command(raw.QUERY, b"SELECT id FROM locked WHERE id = %d" % number)

        def stuck():
            return admin.query("SELECT INFO FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table%' AND TIME >= 2").rows

        waiting = until(stuck, "nobody waits")
        assert len(waiting) < len(clients), "none shares"
        [victim] = {int(text.rpartition(b"= ")[2]) for (text,) in waiting[:1]}
        assert isinstance(killer.query(f"KILL {clients[victim].id}"), Ok)
        assert_killed_with_its_rest(clients[victim])
        admin.query("UNLOCK TABLES")
        answers = [reader.result() for number, reader in enumerate(clients) if number != victim]
        assert all(isinstance(answer, Rows) for answer in answers), answers


def test_kill_without_the_right_in_front_of_others(client, note):
    victim, own, killer = client(), client("other", "other-secret"), several(client, "other", "other-secret")
    denied = killer.query_all(f"KILL {victim.id}; SELECT 1")
    note("denied", [own_words(answer, victim.id) for answer in denied])
    denied = killer.query_all(f"KILL QUERY {own.id}; KILL {victim.id}; SELECT 1")
    note("denied behind another", [answer if isinstance(answer, Ok) else own_words(answer, victim.id) for answer in denied])
    note("alive", [victim.query("SELECT 1").rows, own.query("SELECT 1").rows])


def test_kill_by_another_user(client, note):
    """Without the right to kill others' connections: 1095, and the victim lives."""
    victim, killer = client(), client("other", "other-secret")
    for text in ("KILL", "KILL QUERY", "KILL CONNECTION"):
        answer = killer.query(f"{text} {victim.id}")
        assert answer[:2] == (1095, "HY000"), answer
        note(text, own_words(answer, victim.id))
    note("command", own_words(killer.simple(raw.PROCESS_KILL, struct.pack("<I", victim.id)), victim.id))
    note("alive", victim.query("SELECT 1"))


def test_whose_own_a_client_is(own_server, own_onramp):
    """Two accounts of one name, and clients of one account from different addresses; MariaDB goes by the account."""
    same_as_the_server_whose_own(own_server, own_onramp(own_server))


def same_as_the_server_whose_own(server, onramp):
    with raw.connect(server, "admin", "admin-secret") as admin:
        for host in ("127.0.0.2", "127.0.0.3", "%"):
            assert isinstance(admin.query(f"CREATE USER 'twin'@'{host}' IDENTIFIED BY 'twin-secret'"), Ok)

    def connect(site, address):
        connection = raw.Connection(site, source=address)
        assert isinstance(connection.login("twin", "twin-secret"), Ok)
        return connection

    def outcomes(site):
        for killer, victim in (("127.0.0.2", "127.0.0.3"), ("127.0.0.4", "127.0.0.5"), ("127.0.0.4", "127.0.0.3")):
            with connect(site, killer) as killer, connect(site, victim) as victim:
                answer = killer.query(f"KILL QUERY {victim.id}")
                assert isinstance(answer, Ok) or answer.code == 1095, answer
                yield type(answer)

    seen = list(outcomes(server))
    assert seen[1] is Ok
    assert list(outcomes(onramp)) == seen


def test_kill_by_an_administrator(client, note):
    victim, killer = client(), client("admin", "admin-secret")
    victim.query("SELECT 1")
    note("kill", killer.query(f"KILL {victim.id}"))
    note("end", end_of(victim))


def test_kill_unknown(client, note):
    connection = client()
    note("unknown", connection.query("KILL 999999999"))
    note("unknown query", connection.query("KILL QUERY 999999999"))
    note("command", connection.simple(raw.PROCESS_KILL, struct.pack("<I", 999_999_999)))
    note("zero", connection.query("KILL 0"))
    note("not a number", connection.query("KILL 'x'"))
    note("negative", connection.query("KILL -1"))
    note("nothing", connection.query("KILL"))
    note("usable", connection.query("SELECT 1"))


def test_kill_oneself(client, note):
    connection = client()
    connection.query("SELECT 1")
    answer = note("answer", connection.query(f"KILL {connection.id}"))
    assert isinstance(answer, Err) and answer.code in (1317, 1927)
    assert connection.at_end()


def test_kill_oneself_by_function(client, note):
    connection = client()
    answer = note("answer", connection.query("KILL CONNECTION_ID()"))
    assert isinstance(answer, Err)
    assert connection.at_end()


@pytest.mark.parametrize("text", ["KILL CONNECTION_ID() + 1000000", "KILL CONNECTION CONNECTION_ID() + 1000000", "KILL 1000000 + CONNECTION_ID()",
                                  "KILL QUERY CONNECTION_ID() * 1000"])
def test_kill_of_an_expression_is_not_of_oneself(client, note, text):
    connection = client()
    note("as a text", connection.query(text)[:2])
    note("prepared", connection.execute(connection.prepare(text).statement)[0][:2])
    note("goes on", connection.query("SELECT 1"))


def test_kill_of_an_expression_with_a_parameter(client, note):
    killer, other = client(), client()
    other.query("SELECT 1")
    prepared = killer.prepare("KILL ? + 1000000").statement
    # One BIGINT: of text Onramp makes no id anyway.
    killer.command(raw.STMT_EXECUTE, struct.pack("<IBI", prepared, 0, 1) + b"\0\1\x08\0" + struct.pack("<Q", other.id))
    note("kill", killer.results(binary=True)[0][:2])
    note("other goes on", other.query("SELECT 1"))


@pytest.mark.parametrize("text", ["KILL QUERY CONNECTION_ID()", "kill query connection_id() ;", "KILL /* a */ QUERY CONNECTION_ID() -- b"])
def test_kill_query_oneself_by_function(client, note, text):
    connection = client()
    note("as a text", connection.query(text))
    note("prepared", connection.execute(connection.prepare(text).statement))
    note("goes on", connection.query("SELECT 1"))


def test_kill_oneself_by_a_prepared_function(client):
    connection = client()
    statement = connection.prepare("KILL CONNECTION_ID()").statement
    try:
        [answer] = connection.execute(statement)
    except Closed:
        return
    assert isinstance(answer, Err) and answer.code in (1053, 1317, 1927), answer
    assert connection.at_end()


def test_kill_query_oneself(client, note):
    connection = client()
    note("answer", connection.query(f"KILL QUERY {connection.id}"))
    note("usable", connection.query("SELECT 1"))


def test_ids_of_killed_clients_are_dead(client, note):
    """A second KILL of the same id does not hit whoever came after."""
    killer, victim = client(), client()
    victim.query("SELECT 1")
    assert isinstance(killer.query(f"KILL {victim.id}"), Ok)
    assert victim.at_end()
    others = [client() for _ in range(5)]
    # The server's thread may still be on its way out.
    until(lambda: killer.query(f"KILL {victim.id}")[:2] == (1094, "HY000"), "the id still stands for somebody")
    for other in others:
        note("alive", other.query("SELECT 1"))


def test_backend_killed_while_idle(own_server, own_onramp):
    """From the server's side: a client without state never notices; direct, the same KILL is its own end."""
    onramp = own_onramp(own_server, max_backends=4)
    with raw.connect(onramp) as connection, raw.connect(own_server, "admin", "admin-secret") as admin:
        assert connection.value("SELECT 1") == b"1"
        for _ in range(5):
            kill_backends(admin)
            wait_until_backends_are_gone(own_server, admin)
            assert connection.query("SELECT 'goes on'").rows == [(b"goes on",)]


def test_backend_killed_while_running(site, client, admin):
    """The client gets an error at once and its next statement works."""
    if not site.through:
        return
    connection = client()
    connection.command(raw.QUERY, b"SELECT SLEEP(10000), 'on a backend'")
    wait_until_running(admin, "'on a backend'")
    kill_backends(admin)
    answer = connection.results()[0]
    assert isinstance(answer, Err) and answer.code in (1317, 1927, 2013), answer
    try:
        assert connection.query("SELECT 'goes on'").rows == [(b"goes on",)]
    except (Closed, BrokenPipeError):
        assert answer.code != 1317, "1317 says that only the statement was ended"


def test_backend_killed_in_a_transaction(site, client, admin, schema):
    """The transaction is lost: the client is told, and never goes on as if it were still open."""
    if not site.through:
        return
    connection = client(schema=schema)
    connection.query("CREATE TABLE t (id INT PRIMARY KEY)")
    connection.query("BEGIN")
    connection.query("INSERT INTO t VALUES (1)")
    kill_backends(admin)
    try:
        answer = connection.query("INSERT INTO t VALUES (2)")
        assert isinstance(answer, Err), answer
    except (Closed, BrokenPipeError, ConnectionResetError):
        pass
    assert client(schema=schema).value("SELECT COUNT(*) FROM t") == b"0"


def kill_backends(admin):
    """Kills every connection of `app` from the server's side."""
    rows = admin.query("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app'").rows
    for (number,) in rows:
        admin.query(f"KILL {int(number)}")


def thread_states(admin):
    return admin.query("SELECT STATE FROM information_schema.PROCESSLIST WHERE INFO LIKE '%slow victim%' AND ID <> CONNECTION_ID()").rows


def test_kill_while_a_file_is_sent(client, admin, note, schema):
    """The server waits for the rest of the file, which never comes."""
    victim, killer = client(schema=schema, capabilities=raw.USUAL | raw.LOCAL_FILES), client()
    victim.query("CREATE TABLE t (a INT)")
    victim.command(raw.QUERY, b"LOAD DATA LOCAL INFILE 'slow victim' INTO TABLE t")
    assert victim.receive()[:1] == b"\xfb"
    victim.send(b"1\n2\n")
    note("kill", killer.query(f"KILL {victim.id}"))
    until(lambda: not thread_states(admin), "the server waits on")
    assert end_of(victim) == "closed" or victim.at_end()
    note("rolled back", killer.query(f"SELECT * FROM {schema}.t"))
    note("killer goes on", killer.query("SELECT 1"))


def test_kill_of_a_slow_reader(client, admin, note, schema):
    """The server waits until its client takes more of the rows."""
    victim, killer = client(schema=schema), client()
    victim.command(raw.QUERY, b"SELECT REPEAT('x', 10000), 'slow victim' FROM seq_1_to_20000")
    until(lambda: thread_states(admin) == [(b"Writing to net",)], lambda: f"it does not wait: {thread_states(admin)}")
    note("kill", killer.query(f"KILL {victim.id}"))
    until(lambda: not thread_states(admin), "the server waits on")
    try:
        end = end_of(victim)
    except ConnectionResetError:
        end = "closed"
    # Where the server was killed before its client's connection was full, it says so.
    assert end == "closed" or (end[0].code, end[1]) == (1317, "closed")
    note("killer goes on", killer.query("SELECT 1"))
