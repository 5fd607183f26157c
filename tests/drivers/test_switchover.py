"""SWITCHOVER TO at the admin port: the primary is changed by a command of the operator's, and whatever fails, statements go on."""

import contextlib
import functools
import re
from pathlib import Path

import pymysql
import pytest

from harness import raw, several
from harness.admin import rows
from harness.cluster import CHANGE, Cluster
from harness.raw import Err, Ok
from harness.server import ADMIN
from harness.several import Load, in_use, until_in_use, until_seen
from harness.waiting import in_background

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "CLUSTERS.md").read_text(encoding="utf-8")
# The example there, as it stands.
[EXAMPLE] = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@contextlib.contextmanager
def primary_and_replica(folder, template):
    cluster = Cluster(folder, template)
    try:
        cluster.hold_markers()
        yield cluster
    finally:
        cluster.discard()


@pytest.fixture(scope="module")
def cluster(folder, template):
    """The first server is the primary, and stays it."""
    with primary_and_replica(folder, template) as cluster:
        yield cluster


@pytest.fixture
def own_cluster(folder, template):
    with primary_and_replica(folder, template) as cluster:
        yield cluster


@pytest.fixture
def start_with(own_onramp, monkeypatch, tmp_path):
    """In front of a cluster, with this text as the command; the first server is the primary."""
    def start(cluster, text, **options):
        command = tmp_path / "change-primary"
        command.write_text(text)
        command.chmod(0o755)
        # Nothing here is to take part of switchover_wait but what a test leaves open.
        usual = {"switchover_command": command, "switchover_wait": "60s", "switchover_timeout": "60s"}
        onramp = several.start(own_onramp, monkeypatch, cluster, **{**usual, **options})
        until_in_use(onramp, [1, 0])
        return onramp

    return start


@pytest.fixture
def start(cluster, start_with):
    return functools.partial(start_with, cluster)


def switch_over(onramp, server):
    """None, or the error."""
    try:
        rows(onramp, f"SWITCHOVER TO '127.0.0.1:{server.port}'")
    except pymysql.err.MySQLError as error:
        return str(error.args[1])
    return None


def goes_on(onramp, number):
    with raw.connect(onramp, schema="onramp_app") as client:
        answer = client.query(f"INSERT INTO markers VALUES ({number})")
        assert isinstance(answer, Ok), answer


def test_what_cannot_be_is_said_before_anybody_waits(cluster, start):
    onramp = start("#!/bin/sh\nexit 0\n")
    assert "primary already" in switch_over(onramp, cluster.servers[0])
    with pytest.raises(pymysql.err.MySQLError, match="SELECT address FROM servers"):
        rows(onramp, "SWITCHOVER TO '127.0.0.1:1; true'")
    assert rows(onramp, "SELECT * FROM failovers") == ()


def drain(onramp, server, order="DRAIN"):
    """None, or the error."""
    try:
        rows(onramp, f"{order} '127.0.0.1:{server.port}'")
    except pymysql.err.MySQLError as error:
        return str(error.args[1])
    return None


def test_a_drained_replica_is_not_switched_over_to_and_the_primary_is_not_drained(cluster, start):
    onramp = start("#!/bin/sh\nexit 0\n")
    first, second = cluster.servers
    assert f"SWITCHOVER TO '127.0.0.1:{second.port}'" in drain(onramp, first)
    with pytest.raises(pymysql.err.MySQLError, match=f"did you mean '127.0.0.1:{second.port}'"):
        rows(onramp, f"DRAIN '127.0.0.2:{second.port}'")
    assert drain(onramp, second) is None
    onramp.says(f"server 127.0.0.1:{second.port} is drained")
    assert [row["drained"] for row in rows(onramp, "SELECT drained FROM servers")] == [0, 1]
    assert "is drained" in switch_over(onramp, second) and "last server" in drain(onramp, first)
    # One that takes writes while it is worked on stops nobody.
    cluster.order(1, "SET GLOBAL read_only = 0")
    until_seen(onramp, "writable", [1, 1])
    goes_on(onramp, -8)
    assert in_use(onramp) == [1, 0]
    assert "set read_only" in drain(onramp, second, "UNDRAIN")
    cluster.order(1, "SET GLOBAL read_only = 1")
    until_seen(onramp, "writable", [1, 0])
    assert drain(onramp, second, "UNDRAIN") is None
    assert [row["drained"] for row in rows(onramp, "SELECT drained FROM servers")] == [0, 0]
    assert rows(onramp, "SELECT * FROM failovers") == ()


def test_a_drained_server_is_used_where_nobody_else_takes_writes(own_cluster, start_with):
    """What waited runs there, and nobody has an error."""
    cluster = own_cluster
    onramp = start_with(cluster, "#!/bin/sh\nexit 0\n", failover_hold="10s")
    assert drain(onramp, cluster.servers[1]) is None
    with raw.connect(onramp, schema="onramp_app") as client:
        assert isinstance(client.query("INSERT INTO markers VALUES (1)"), Ok)
        cluster.servers[0].kill()
        cluster.promote(1)
        onramp.says("no server that is not drained is up and takes writes")
        answer = client.query("INSERT INTO markers VALUES (2)")
        assert isinstance(answer, Ok), answer
    onramp.says("is drained no more: no other one has taken writes")
    assert in_use(onramp) == [0, 1]
    assert [row["drained"] for row in rows(onramp, "SELECT drained FROM servers")] == [0, 0]
    assert cluster.order(1, "SELECT id FROM onramp_app.markers").rows == [(b"1",), (b"2",)]


def test_a_command_that_fails_leaves_the_primary_as_it_was(cluster, start):
    onramp = start("#!/bin/sh\necho the orchestrator says no >&2\nexit 3\n", switchover_wait="1s")
    with raw.connect(onramp, schema="onramp_app") as client:
        for statement in ("BEGIN", "INSERT INTO markers VALUES (-1)"):
            assert isinstance(client.query(statement), Ok)
        reason = switch_over(onramp, cluster.servers[1])
        assert "exit status: 3" in reason and "the orchestrator says no" in reason, reason
        # It was open for longer than switchover_wait.
        answer = client.query("INSERT INTO markers VALUES (-2)")
        assert isinstance(answer, Err) and (answer.code, answer.state) == (1213, "40001"), answer
        until_in_use(onramp, [1, 0])
        assert isinstance(client.query("INSERT INTO markers VALUES (-3)"), Ok)
    onramp.says("the orchestrator says no")
    assert cluster.order(0, "SELECT id FROM onramp_app.markers WHERE id IN (-1, -2)").rows == []


def test_what_a_pause_keeps_open_is_not_rolled_back(cluster, start):
    onramp = start("#!/bin/sh\necho it was run\n", switchover_wait="1s")
    with raw.connect(onramp, schema="onramp_app") as client:
        for statement in ("BEGIN", "INSERT INTO markers VALUES (-9)"):
            assert isinstance(client.query(statement), Ok)
        rows(onramp, "PAUSE")
        try:
            assert "RESUME first" in switch_over(onramp, cluster.servers[1])
        finally:
            rows(onramp, "RESUME")
        assert isinstance(client.query("COMMIT"), Ok)
    assert "it was run" not in onramp.log_text()
    assert cluster.order(0, "DELETE FROM onramp_app.markers WHERE id = -9").affected == 1


def test_a_command_that_does_not_end_is_killed(cluster, start):
    onramp = start("#!/bin/sh\nexec sleep 1000\n", switchover_timeout="1s")
    assert "switchover_timeout" in switch_over(onramp, cluster.servers[1])
    until_in_use(onramp, [1, 0])
    goes_on(onramp, -4)


def test_a_command_that_only_says_so_changes_nothing(cluster, start):
    onramp = start("#!/bin/sh\necho done\n", switchover_timeout="10s")
    assert "is the primary" in switch_over(onramp, cluster.servers[1])
    until_in_use(onramp, [1, 0])
    goes_on(onramp, -5)


def test_a_new_primary_that_does_not_catch_up_is_none(cluster, start):
    onramp = start(CHANGE, switchover_wait="1s")
    cluster.order(1, "STOP SLAVE SQL_THREAD")
    goes_on(onramp, -6)
    assert "still lacks" in switch_over(onramp, cluster.servers[1])
    cluster.order(1, "START SLAVE SQL_THREAD")
    until_in_use(onramp, [1, 0])
    goes_on(onramp, -7)


@pytest.mark.parametrize("command, said", [(CHANGE, "promoted 127.0.0.1:"), (EXAMPLE, "said: nothing")], ids=["command", "example"])
def test_a_switchover_is_no_error_for_anybody(own_cluster, start_with, monkeypatch, tmp_path, command, said):
    cluster = own_cluster
    # Where the page's example has its account from.
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".my.cnf").write_text("[client]\nuser = {}\npassword = {}\n".format(*ADMIN))
    onramp = start_with(cluster, command)
    cluster.order(0, "TRUNCATE onramp_app.markers")
    load = Load(onramp)
    load.until_acknowledged(200)
    with raw.connect(onramp, schema="onramp_app") as client, raw.connect(onramp) as reader:
        for statement in ("BEGIN", "INSERT INTO markers VALUES (1000000)"):
            assert isinstance(client.query(statement), Ok)
        outcome = in_background(switch_over, onramp, cluster.servers[1])
        onramp.says("new transactions wait")
        # What is open goes on, and what is new waits for it.
        waiting = in_background(reader.query, "SELECT @@server_id")
        for statement in ("INSERT INTO markers VALUES (1000001)", "COMMIT"):
            assert isinstance(client.query(statement), Ok)
        load.acknowledged |= {1000000, 1000001}
        assert outcome() is None
        assert waiting().rows == [(b"2",)]
    assert in_use(onramp) == [0, 1]
    load.until_acknowledged(200)
    load.stop()
    load.balance(cluster, 1)
    assert load.errors == {"read": [], "write": [], "transaction": []} and load.unknown == set()
    onramp.says(said)
    change = rows(onramp, "SELECT * FROM failovers")[0]
    assert (change["rolled_back"], change["unknown"], change["lacks"]) == (0, 0, ""), change
