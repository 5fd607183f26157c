"""Schemas with names beyond ASCII, of clients with other character sets than UTF-8, whose backend changes."""

import pytest

from conftest import site_through
from harness import raw

site = site_through("single")

LATIN1 = 8  # latin1_swedish_ci


@pytest.fixture
def schemas(admin):
    """As the server writes them, in UTF-8; the second is what the bytes of the first are in latin1."""
    names = ["onramp_ä", "onramp_Ã¤"]
    for name in names:
        for statement in (f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}`", f"CREATE TABLE `{name}`.t (name VARCHAR(40))",
                          f"INSERT INTO `{name}`.t VALUES (HEX('{name}'))"):
            assert isinstance(admin.query(statement), raw.Ok), statement
    yield names
    for name in names:
        admin.query(f"DROP DATABASE `{name}`")


READS = ("SELECT name FROM t", "SELECT HEX(DATABASE()), HEX('\xe4')", "SELECT @@character_set_client, @@character_set_results, @@collation_connection")


def look(client, note, label):
    for text in READS:
        answer = client.query(text.encode("latin1"))
        note(f"{label}: {text}", answer.rows if isinstance(answer, raw.Rows) else answer)


def by_command(client, name):
    return client.simple(raw.INIT_DB, name.encode("latin1"))


def by_statement(client, name):
    return client.query(f"USE `{name}`".encode("latin1"))


@pytest.mark.parametrize("choose", [by_command, by_statement])
@pytest.mark.parametrize("names", ["SET NAMES latin1", "SET NAMES latin1 COLLATE latin1_german1_ci", "SET character_set_client = latin1"])
def test_schema_follows_its_client(client, note, schema, schemas, choose, names):
    own, second, plain, utf8 = client(), client(), client(schema=schema), client(schema=schemas[0])
    for number, connection in enumerate((own, second)):
        note("names", connection.query(names))
        note("choose", choose(connection, schemas[number]))
    for turn in range(2):
        for number, connection in enumerate((own, second)):
            look(connection, note, f"{turn} {number}")
            note("plain", plain.query("SELECT DATABASE()").rows)
            note("in UTF-8", utf8.query("SELECT HEX(DATABASE()), HEX('ä')").rows)
    prepared = own.prepare("SELECT name FROM t").statement
    for turn in range(2):
        note("prepared", [answer.rows for answer in own.execute(prepared)])
        note("plain", plain.query("SELECT DATABASE()").rows)
    note("back", own.query(f"USE {schema}"))
    note("names again", second.query("SET NAMES utf8mb4"))
    for number, connection in enumerate((own, second)):
        note(f"schema {number}", connection.query("SELECT HEX(DATABASE())").rows)


def test_schema_of_a_login(client, note, schemas):
    """The same bytes are the names of two schemas, in two character sets."""
    for _ in range(2):
        utf8 = client(schema=schemas[0])
        latin1 = client(schema=schemas[0].encode(), collation=LATIN1)
        other = client(schema=schemas[0].encode("latin1"), collation=LATIN1)
        again = client(schema=schemas[0].encode("latin1"), collation=LATIN1)
        for label, connection in (("utf8", utf8), ("latin1", latin1), ("other", other), ("again", again)):
            for _ in range(2):
                note(label, [connection.query(text).rows for text in ("SELECT name FROM t", "SELECT HEX(DATABASE())")])
