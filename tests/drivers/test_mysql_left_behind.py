"""What `test_left_behind` tests, as far as it is not MariaDB's alone, with a MySQL server behind Onramp.

As test_mysql: skipped unless MYSQL_HOME names a server's folder.
"""

import pytest

from conftest import site_through
from harness import mysql as private_mysql
from harness import raw
from harness.onramp import Onramp
from harness.server import ADMIN
from test_left_behind import LEFT_ON_BOTH, LOCK_IS_FREE, answers, play
from test_mysql import server  # noqa: F401 (a fixture)

pytestmark = private_mysql.needed

site = site_through("single_mysql")


@pytest.fixture(scope="module")
def single_mysql(folder, server):  # noqa: F811
    onramp = Onramp(server, folder, max_backends=1).start()
    yield onramp
    assert onramp.stop() == 0


@pytest.fixture
def direct(server):  # noqa: F811
    with raw.connect(server, *ADMIN) as connection:
        for statement in ("DROP DATABASE IF EXISTS onramp_a", "CREATE DATABASE onramp_a", "CREATE TABLE onramp_a.words (id INT PRIMARY KEY, w VARCHAR(40))",
                          "INSERT INTO onramp_a.words VALUES (1, 'one'), (2, 'two')"):
            assert isinstance(connection.query(statement), raw.Ok), statement
        yield connection


PROGRAMS = {
    **LEFT_ON_BOTH,
    "a clock that stood still for one statement": [
        "A: SELECT /*+ SET_VAR(timestamp = 4) */ UNIX_TIMESTAMP()", "A: leaves", "B: SET @then = NOW(6)", "B: SELECT @then = NOW(6)"],
    "an id that was for one statement": [
        "A: CREATE TABLE numbered (id INT AUTO_INCREMENT PRIMARY KEY)", "A: SELECT /*+ SET_VAR(insert_id = 400) */ 1", "A: leaves", "B: INSERT INTO numbered VALUES ()",
        "B: SELECT * FROM numbered"],
    "a collation by its number": [
        "A: SET character_set_server = 2", "B: SELECT @@collation_server", "A: SELECT @@collation_server", "B: SELECT @@collation_server"],
    "an engine whose name is a number": [
        "A: SET external_table_secondary_storage_engine = '1'", "B: SELECT 1", "A: SELECT @@external_table_secondary_storage_engine"],
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_two_clients(client, note, direct, name):
    play(client, note, PROGRAMS[name], direct=direct)


def test_a_function_named_like_one_of_mariadbs(client, note, direct):
    take = "CREATE FUNCTION nvl(wait INT) RETURNS INT NO SQL RETURN GET_LOCK('onramp_left', wait)"
    play(client, note, [f"A: {take}", "A: SELECT nvl(0)", "A: leaves", *LOCK_IS_FREE], direct=direct)


def run(connection, prepared):
    answer, = connection.execute(prepared.statement)
    return [column.kind for column in answer.columns], answer.rows


@pytest.mark.parametrize("setting", ["sql_mode = 'ANSI_QUOTES'", "NAMES latin1", "div_precision_increment = 12", "sql_mode = ''"])
def test_a_statement_that_the_server_prepares_again(client, note, direct, setting):
    """It does so where the values have other types, in the session state of the one who executes it."""
    text = "SELECT \"id\" AS l, CHAR_LENGTH('\u00e4') AS n, 7 / 3 AS q, ? + 1 AS a FROM words WHERE id = 1"
    first, second = client(schema="onramp_a"), client(schema="onramp_a")
    prepared = [connection.prepare(text) for connection in (first, second)]
    note("setting", first.query(f"SET {setting}"))
    for _ in range(2):
        note("first", answers(first, prepared[0], [b"7.5"]))
        note("second", answers(second, prepared[1], [b"7.5"]))
    third = client(schema="onramp_a")
    note("third", answers(third, third.prepare(text), [b"7.5"]))


@private_mysql.since(8, 0, 22)
def test_variables_keep_the_type_that_they_had(server, own_onramp):  # noqa: F811
    """The same text is prepared by two clients, whose variables have other types."""
    onramp = own_onramp(server, max_backends=2)
    text = "SELECT @a, CONCAT(@a, 1)"
    for name, place in (("direct", server), ("through", onramp)):
        with raw.connect(place) as first, raw.connect(place) as second:
            for client, value in ((first, "'abc'"), (second, "1")):
                assert isinstance(client.query(f"SET @a = {value}"), raw.Ok)
            prepared = [client.prepare(text) for client in (first, second)]
            seen = [run(client, statement) for _ in range(2) for client, statement in zip((first, second), prepared)]
        assert [rows for _, rows in seen[:2]] == [[(b"abc", b"abc1")], [((1).to_bytes(8, "little"), b"11")]], name
        assert seen[:2] == seen[2:], name


def test_prepared_again_in_a_transaction(server, own_onramp):  # noqa: F811
    """MySQL refuses to set `explicit_defaults_for_timestamp` in a transaction, and reads it where a statement defines columns alone."""
    onramp = own_onramp(server, max_backends=1, backend_prepared_statements=1)
    for name, place in (("direct", server), ("through", onramp)):
        with raw.connect(place, *ADMIN) as client:
            first, _ = [client.prepare(text) for text in ("SELECT 'first', @@explicit_defaults_for_timestamp", "SELECT 'second'")]
            for statement in ("SET explicit_defaults_for_timestamp = 0", "START TRANSACTION WITH CONSISTENT SNAPSHOT"):
                assert isinstance(client.query(statement), raw.Ok), (name, statement)
            assert run(client, first)[1] == [(b"first", (0).to_bytes(8, "little"))], name
            assert isinstance(client.query("COMMIT"), raw.Ok), name


def test_values_that_are_missing(server, own_onramp):  # noqa: F811
    """What stands in the place of types, in an execution without enough values, is not taken for the type of a NULL that follows."""
    onramp = own_onramp(server, max_backends=1)
    seen = []
    for place in (server, onramp):
        with raw.connect(place, *ADMIN) as client:
            statement = client.prepare("SELECT CONCAT(?, 'd'), ? IS NULL").statement
            answers = [client.execute(statement, values)[0] for values in ([b"abc"], [b"abc", None])]
            assert isinstance(answers[0], raw.Err) and isinstance(answers[1], raw.Rows), answers
            seen.append((answers[0].code, answers[1].rows))
    assert seen[0] == seen[1]


def test_readers_whose_state_cannot_be_set(server, own_onramp, direct):  # noqa: F811
    """The same text waits for all of them; what the first one needs fails, and concerns nobody else."""
    onramp = own_onramp(server, max_backends=1, workers=1, coalesce_reads="on")
    direct.query("CREATE DATABASE IF NOT EXISTS onramp_gone")
    text = b"SELECT w FROM onramp_a.words WHERE id = 1"
    holder = raw.connect(onramp, schema="onramp_a")
    readers = [raw.connect(onramp, schema="onramp_gone") for _ in range(3)]
    for reader in readers:
        # MySQL heeds it only behind the text in which it stands, so that the state goes ahead by itself.
        assert isinstance(reader.query("SET session_track_gtids = 'OWN_GTID'"), raw.Ok)
    assert isinstance(holder.query("BEGIN"), raw.Ok)
    assert holder.value("SELECT w FROM words WHERE id = 1") == b"one"
    for reader in readers:
        reader.command(raw.QUERY, text)
    onramp_sees = raw.connect(onramp)
    onramp_sees.ping()
    direct.query("DROP DATABASE onramp_gone")
    holder.query("COMMIT")
    for reader in readers:
        assert reader.result().code == 1049
    assert onramp_sees.value("SELECT 2") == b"2"


@pytest.fixture
def rolly(direct):
    """A user whose right to call a procedure comes from a default role."""
    for statement in ("CREATE PROCEDURE onramp_a.powers() SELECT 1", "DROP ROLE IF EXISTS onramp_powers", "CREATE ROLE onramp_powers", "GRANT EXECUTE ON onramp_a.* TO onramp_powers",
                      "DROP USER IF EXISTS rolly", "CREATE USER rolly IDENTIFIED BY 'rolly'", "GRANT SELECT ON onramp_a.* TO rolly", "GRANT onramp_powers TO rolly",
                      "SET DEFAULT ROLE ALL TO rolly"):
        assert isinstance(direct.query(statement), raw.Ok), statement
    yield
    for statement in ("DROP USER rolly", "DROP ROLE onramp_powers"):
        direct.query(statement)


@pytest.mark.parametrize("gives_up", [["SET ROLE NONE"], ["PREPARE s FROM 'SET ROLE NONE'", "EXECUTE s"]])
def test_a_role_that_was_given_up_stays_so_behind_a_reset(site, note, rolly, gives_up):
    with raw.connect(site, "rolly", "rolly", schema="onramp_a") as client:
        for statement in ["CALL powers()", *gives_up, "CALL powers()"]:
            note(f"before: {statement}", client.query_all(statement))
        note("reset", client.reset())
        note("behind it", client.query_all("CALL powers()"))
