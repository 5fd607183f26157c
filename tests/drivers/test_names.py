"""Names of servers that lead elsewhere while Onramp runs: statements go there, and what runs where it was comes to its end there."""

from types import SimpleNamespace

import pymysql
import pytest

from harness import admin, delay, names, raw
from harness.names import Names
from harness.raw import Closed, Err, Ok, Rows
from harness.server import ADMIN, SERVICE, Server, free_port
from harness.waiting import SOON, in_background, until, wait_until_running

pytestmark = [
    pytest.mark.skipif(names.missing() is not None, reason=str(names.missing())),
    pytest.mark.skipif(bool(delay.milliseconds()), reason="relays stand at 127.0.0.1 alone"),
]

# As often as one likes to wait for in a test; two look-ups have to agree.
OFTEN = {"backend_lookup_interval": "100ms"}

WHO = "SELECT @@server_id"
# What is read on replicas has to read something.
WHO_READS = "SELECT @@global.server_id FROM kept"


@pytest.fixture
def servers(folder, template):
    """With one port, at 127.0.0.2, 127.0.0.3 and 127.0.0.4; the last byte is their server_id. What one writes others can get."""
    port, started = free_port(), []
    try:
        for number in (2, 3, 4):
            server = Server(folder, template=template)
            server.host, server.port = f"127.0.0.{number}", port
            started.append(server)
            server.start(f"--bind-address={server.host}", f"--server-id={number}", "--log-bin=log")
        yield started
    finally:
        for server in started:
            server.discard()


@pytest.fixture
def start(servers, folder, own_onramp, monkeypatch):
    """An Onramp in front of `db.test`, and with `others` in front of more."""
    def start(known, others=(), **options):
        port = servers[0].port
        service = ":".join(SERVICE)
        backends = [f"mysql://{service}@{host}:{port}/" for host in others]
        at = SimpleNamespace(host="db.test", port=port)
        return admin.start(own_onramp, monkeypatch, at, names=known, **({"backend": backends} if backends else {}), **{**OFTEN, **options})

    return start


def order(server, *statements):
    with raw.connect(server, *ADMIN) as console:
        for statement in statements:
            assert not isinstance(console.query(statement), Err), statement


def is_served_by(connection, number, text=WHO):
    def served():
        answer = connection.query(text)
        return isinstance(answer, Rows) and answer.rows == [(str(number).encode(),)]

    return served


def test_statements_go_where_the_name_leads(servers, folder, start):
    """Sessions keep what they have set. Transactions end where they began, as on a connection of the client's own."""
    known = Names(folder, db=["127.0.0.2"])
    onramp = start(known)
    with raw.connect(onramp) as idle, raw.connect(onramp) as open_, raw.connect(onramp) as busy, raw.connect(servers[0], *ADMIN) as console:
        assert isinstance(idle.query("SET time_zone = '+03:00'"), Ok)
        assert idle.value(WHO) == b"2"
        assert isinstance(open_.query("BEGIN"), Ok) and open_.value(WHO) == b"2"
        order(servers[0], "CREATE TABLE onramp_app.held (id INT PRIMARY KEY) ENGINE=InnoDB", "INSERT INTO onramp_app.held VALUES (1)")
        assert isinstance(busy.query("BEGIN"), Ok)
        assert isinstance(console.query("BEGIN"), Ok) and isinstance(console.query("SELECT * FROM onramp_app.held FOR UPDATE"), Rows)
        answer = in_background(busy.query, "SELECT id, @@server_id FROM onramp_app.held FOR UPDATE")
        wait_until_running(console, "@@server_id FROM onramp_app.held")
        known.lead(db=["127.0.0.3"])
        until(is_served_by(idle, 3), onramp.log_text)
        assert idle.query(f"SELECT @@time_zone, ({WHO})").rows == [(b"+03:00", b"3")]
        assert open_.value(WHO) == b"2", "the transaction is where it was"
        assert isinstance(console.query("COMMIT"), Ok)
        assert answer().rows == [(b"1", b"2")] and busy.value(WHO) == b"2"
        for connection in (open_, busy):
            assert isinstance(connection.query("COMMIT"), Ok)
            assert connection.value(WHO) == b"3"
    onramp.says("server db.test is at 127.0.0.3", times=1)
    with raw.connect(onramp) as late:
        assert late.value(WHO) == b"3"
    until(lambda: connections(servers[0]) == 0, "connections to the former address stay")


def connections(server):
    with raw.connect(server, *ADMIN) as console:
        text = f"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER IN ('app', '{SERVICE[0]}')"
        return int(console.value(text))


def test_a_kill_of_what_runs_at_the_former_address_meets_nobody_at_the_new_one(servers, folder, start):
    """The number of a thread there is another one's here."""
    known = Names(folder, db=["127.0.0.2"])
    onramp = start(known, max_backends=8)
    with raw.connect(onramp) as victim, raw.connect(onramp) as killer, raw.connect(servers[0], *ADMIN) as console:
        assert isinstance(victim.query("BEGIN"), Ok)
        number = int(victim.value("SELECT CONNECTION_ID()"))
        answer = in_background(outcome, victim, "SELECT SLEEP(300)")
        wait_until_running(console, "SLEEP(300)")
        thread = int(console.value("SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP(300)%'"))
        known.lead(db=["127.0.0.3"])
        until(is_served_by(killer, 3), onramp.log_text)
        with reaching(servers[1], thread) as bystander:
            assert isinstance(killer.query(f"KILL {number}"), Ok)
            ended = answer()
            assert isinstance(ended, (Err, Closed, ConnectionError)), ended
            assert bystander.value("SELECT 'untouched'") == b"untouched"
        # The server ends what runs for a connection that has ended.
        until(lambda: connections(servers[0]) == 0, "what was killed goes on")


def outcome(connection, text):
    try:
        return connection.query(text)
    except (Closed, ConnectionError) as error:
        return error


def reaching(server, thread):
    """A connection whose thread has this number, or the first beyond it."""
    while True:
        connection = raw.connect(server, *ADMIN)
        if int(connection.value("SELECT CONNECTION_ID()")) >= thread:
            return connection
        connection.close()


def test_a_name_that_is_lost_or_goes_round_changes_nothing(servers, folder, start):
    known = Names(folder, db=["127.0.0.2"])
    onramp = start(known)
    with raw.connect(onramp) as client:
        known.lead(db=[])
        onramp.says("the host \"db.test\" cannot be found any more", times=1)
        assert client.value(WHO) == b"2"
        known.lead(db=["127.0.0.3", "127.0.0.2"])
        onramp.says("is found now", times=1)
        assert client.value(WHO) == b"2"
    assert "is at 127.0.0.3" not in onramp.log_text()


def test_a_server_that_cannot_be_found_out_gets_nothing(servers, folder, start):
    """The service account is not let in there."""
    order(servers[1], f"ALTER USER '{SERVICE[0]}'@'%' IDENTIFIED BY 'another'")
    known = Names(folder, db=["127.0.0.2"])
    onramp = start(known, backend_connect_timeout=SOON)
    with raw.connect(onramp) as client:
        assert client.value(WHO) == b"2"
        known.lead(db=["127.0.0.3"])
        refused = until(lambda: is_error(client.query(WHO)), onramp.log_text)
        assert refused.code in (1040, 1158), refused
        order(servers[1], f"ALTER USER '{SERVICE[0]}'@'%' IDENTIFIED BY '{SERVICE[1]}'")
        until(lambda: isinstance(client.query(WHO), Rows), onramp.log_text)
        assert client.value(WHO) == b"3"


def is_error(answer):
    return answer if isinstance(answer, Err) else None


def test_of_several_servers_the_new_one_is_asked_before_it_gets_anything(servers, folder, start):
    """The primary's name leads to one that takes no writes: clients wait until it does."""
    order(servers[2], "SET GLOBAL read_only = 1")
    order(servers[1], "SET GLOBAL read_only = 1")
    known = Names(folder, db=["127.0.0.2"])
    onramp = start(known, others=["db.test", servers[2].host], workers=2)
    with raw.connect(onramp) as client, raw.connect(onramp) as other:
        assert client.value(WHO) == b"2"
        assert isinstance(other.query("BEGIN"), Ok) and other.value(WHO) == b"2"
        known.lead(db=["127.0.0.3"])
        onramp.says("no server is up and takes writes")
        answers = [in_background(client.value, WHO), in_background(other.query, WHO)]
        order(servers[1], "SET GLOBAL read_only = 0")
        assert answers[0]() == b"3"
        ended = answers[1]()
        assert isinstance(ended, Err) and ended.code == 1213, ended
        assert other.value(WHO) == b"3"
    rows = admin.rows(onramp, "SELECT address, role FROM servers ORDER BY address")
    assert [(row["address"].partition(":")[0], row["role"]) for row in rows] == [("127.0.0.3", "primary"), ("127.0.0.4", "replica")], rows


@pytest.fixture
def replicating(servers):
    """The second and the third are replicas of the first."""
    order(servers[0], "CREATE TABLE onramp_app.kept (id INT)", "INSERT INTO onramp_app.kept VALUES (1)")
    for server in servers[1:]:
        order(server, "SET GLOBAL read_only = 1",
              f"CHANGE MASTER TO MASTER_HOST='{servers[0].host}', MASTER_PORT={servers[0].port}, MASTER_USER='{ADMIN[0]}', "
              f"MASTER_PASSWORD='{ADMIN[1]}', MASTER_USE_GTID=slave_pos", "START SLAVE")
        order(server, f"GRANT REPLICA MONITOR ON *.* TO '{SERVICE[0]}'@'%'")
    return servers


def test_reads_go_to_the_replica_that_the_name_leads_to(replicating, folder, start):
    known = Names(folder, db=["127.0.0.3"])
    onramp = start(known, others=[replicating[0].host, "db.test"], read_split="replicas", read_consistency="eventual", workers=2)
    with raw.connect(onramp, schema="onramp_app") as client:
        until(is_served_by(client, 3, WHO_READS), onramp.log_text)
        known.lead(db=["127.0.0.4"])
        until(is_served_by(client, 4, WHO_READS), onramp.log_text)
        until(lambda: connections(replicating[1]) == 0, "connections to the former address stay")


def servers_rows(onramp):
    return {row["address"].partition(":")[0]: row for row in admin.rows(onramp, "SELECT address, role, state, reason FROM servers")}


def test_a_replica_whose_name_is_found_later_takes_reads(replicating, folder, start):
    """A container that is started behind Onramp."""
    known = Names(folder, db=[])
    onramp = start(known, others=[replicating[0].host, "db.test"], read_split="replicas", read_consistency="eventual", workers=2)
    onramp.says('the host "db.test" cannot be found')
    with raw.connect(onramp, schema="onramp_app") as client:
        assert client.value(WHO) == b"2"
        until(lambda: servers_rows(onramp)["db.test"]["state"] == "down", lambda: servers_rows(onramp))
        assert "its host cannot be found" in servers_rows(onramp)["db.test"]["reason"]
        known.lead(db=["127.0.0.3"])
        until(is_served_by(client, 3, WHO_READS), onramp.log_text)
        onramp.says("its name has been found")
    rows = servers_rows(onramp)
    assert rows.keys() == {"127.0.0.2", "127.0.0.3"} and rows["127.0.0.3"]["role"] == "replica", rows


def test_a_switchover_ends_where_a_server_of_it_has_moved_meanwhile(replicating, folder, start, tmp_path):
    """It waits for a transaction. What is at the new address nobody has judged."""
    command = tmp_path / "change-primary"
    command.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    command.chmod(0o755)
    known = Names(folder, db=["127.0.0.3"])
    onramp = start(known, others=[replicating[0].host, "db.test"], switchover_command=command, switchover_wait="300s", switchover_timeout="60s")
    until(lambda: servers_rows(onramp)["127.0.0.3"]["role"] == "replica", lambda: servers_rows(onramp))
    with raw.connect(onramp) as client:
        assert isinstance(client.query("BEGIN"), Ok) and client.value(WHO) == b"2"
        said = in_background(told, onramp, f"SWITCHOVER TO '127.0.0.3:{replicating[0].port}'")
        onramp.says("new transactions wait")
        known.lead(db=["127.0.0.4"])
        onramp.says("is at 127.0.0.4")
        assert isinstance(client.query("COMMIT"), Ok)
        error = said()
        assert client.value(WHO) == b"2"
    assert "127.0.0.4" in error and "meanwhile" in error, error
    assert not (tmp_path / "called").exists()


def told(onramp, statement):
    try:
        return str(admin.rows(onramp, statement))
    except pymysql.err.MySQLError as error:
        return str(error.args[1])


def test_clients_wait_for_a_primary_whose_name_is_found_later(servers, folder, own_onramp):
    order(servers[2], "SET GLOBAL read_only = 1")
    known = Names(folder, db=[])
    backend = [f"mysql://{SERVICE[0]}:{SERVICE[1]}@{host}:{servers[0].port}/" for host in ("db.test", servers[2].host)]
    onramp = own_onramp(servers[0], wait=False, names=known, backend=backend, connect_timeout="1h", **OFTEN)
    onramp.says("no server is up and takes writes")
    answer = in_background(lambda: raw.connect(onramp).value(WHO))
    known.lead(db=["127.0.0.2"])
    assert answer() == b"2"


def test_names_are_looked_up_at_the_start_alone_where_that_is_asked_for(servers, folder, start):
    known = Names(folder, db=["127.0.0.2"])
    onramp = start(known, backend_lookup_interval="0s")
    with raw.connect(onramp) as client, onramp.admin.cursor() as operator:
        known.lead(db=["127.0.0.3"])
        assert client.value(WHO) == b"2"
        operator.execute("SET GLOBAL backend_lookup_interval = '100ms'")
        until(is_served_by(client, 3), onramp.log_text)
