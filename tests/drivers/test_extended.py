"""MariaDB's own capabilities: extended and cached metadata, bulk executions, progress reports."""

import pytest

from harness import raw
from harness.raw import BULK_OPERATIONS, CACHE_METADATA, DEPRECATE_EOF, EXTENDED_METADATA, PROGRESS, USUAL, Err, Ok

TYPES, UNIT_RESULTS = 128, 64
NULL, DEFAULT, IGNORE = 1, 2, 3
VAR_STRING = b"\xfd\x00"

# What MariaDB's own libraries ask for.
ALL = USUAL | PROGRESS | BULK_OPERATIONS | EXTENDED_METADATA | CACHE_METADATA


def open_all(site, count, capabilities=ALL, schema="onramp_test"):
    return [raw.connect(site, schema=schema, capabilities=capabilities) for _ in range(count)]


@pytest.fixture
def tables(admin, schema):
    admin.query("CREATE TABLE onramp_test.kinds (id INT PRIMARY KEY, u UUID, i INET6, j JSON, g POINT, t TEXT)")
    admin.query("INSERT INTO onramp_test.kinds VALUES (1, '123e4567-e89b-12d3-a456-426655440000', '::1', '{\"a\": 1}', POINT(1, 2), 'text')")
    admin.query("CREATE TABLE onramp_test.filled (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20) DEFAULT 'usual', b VARCHAR(20) UNIQUE)")


def test_greeting_offers_what_the_server_offers(site, note):
    with raw.Connection(site) as connection:
        offered = connection.greet().capabilities
    # Compression and TLS are Onramp's own matter; no backend is to be had for a password that has expired.
    expired_passwords = 1 << 22
    note("capabilities", offered & ~(raw.COMPRESS | raw.SSL | expired_passwords))


@pytest.mark.parametrize("capabilities", [EXTENDED_METADATA, CACHE_METADATA, ALL, ALL & ~DEPRECATE_EOF])
def test_texts(site, note, tables, capabilities):
    first, second = open_all(site, 2, USUAL & ~DEPRECATE_EOF | capabilities)
    for connection in (first, second):
        for text in ("SELECT * FROM kinds", "SELECT id, u FROM kinds WHERE id = 7", "SHOW TABLES", "SHOW WARNINGS", "DO 1",
                     "SELECT CAST('x' AS INT)", "SHOW WARNINGS", "SELECT nope", "SHOW WARNINGS", "SHOW COUNT(*) WARNINGS",
                     "SELECT ROW_COUNT(), FOUND_ROWS()", "CREATE TEMPORARY TABLE t (u UUID)", "SELECT * FROM t", "DROP TABLE t",
                     "SELECT GET_LOCK('onramp extended', 0)", "SELECT RELEASE_LOCK('onramp extended')"):
            note(text, connection.query_all(text))
        connection.command(raw.FIELD_LIST, b"kinds\0%")
        definitions = []
        while (payload := connection.receive())[0] != 0xFE:
            definitions.append(payload)
        note("field list", definitions)
        connection.close()


def test_clients_of_both_kinds_on_few_backends(site, note, tables):
    kinds = [USUAL, ALL, USUAL | CACHE_METADATA, USUAL | EXTENDED_METADATA, USUAL & ~DEPRECATE_EOF, ALL & ~DEPRECATE_EOF]
    connections = [raw.connect(site, schema="onramp_test", capabilities=kind) for kind in kinds * 2]
    prepared = [connection.prepare("SELECT * FROM kinds WHERE id = ?") for connection in connections]
    note("prepared", [(statement.parameters, statement.columns) for statement in prepared])
    for turn in range(3):
        for number, (connection, statement) in enumerate(zip(connections, prepared)):
            note(f"text {turn}, {number}", connection.query("SELECT * FROM kinds"))
            connection.command(raw.STMT_EXECUTE, raw.execute_body(statement.statement, [b"1"]))
            note(f"execution {turn}, {number}", whole_result(connection))
    for connection in connections:
        connection.close()


def whole_result(connection):
    """The payloads of a result set of one row."""
    payloads, ends = [], 1 if connection.capabilities & DEPRECATE_EOF else 2
    while ends:
        payloads.append(connection.receive())
        ends -= payloads[-1][0] == 0xFE
    return payloads


def test_metadata_comes_again_only_when_it_has_changed(site, note, tables, admin):
    """After DDL the server describes even those columns again that are as they were, where it had to prepare a statement anew:
    on a connection of one's own each client meets that. What a client knows of the columns must be right in any case."""
    connections = open_all(site, 6)
    statements = [connection.prepare("SELECT * FROM filled") for connection in connections]
    known = [statement.columns for statement in statements]

    def execute(what, numbers=range(6)):
        for number in numbers:
            result, = connections[number].execute(statements[number].statement)
            known[number] = result.columns or known[number]
            note(f"{what}, {number}", (known[number], result.rows))

    for number in range(6):
        for turn in range(2):
            note(f"spared, {number}", connections[number].execute(statements[number].statement))
    admin.query("ALTER TABLE onramp_test.filled ADD COLUMN c UUID")
    # Half of them see the new table, then there is the old one again.
    execute("wider", range(0, 6, 2))
    admin.query("ALTER TABLE onramp_test.filled DROP COLUMN c")
    execute("narrow again")
    execute("and again")
    for connection in connections:
        connection.close()


def test_metadata_of_other_statements(site, note, tables, admin):
    admin.query("CREATE PROCEDURE onramp_test.twice() BEGIN SELECT 1 AS one; SELECT 2 AS two, 3 AS three; END")
    connection, = open_all(site, 1)
    for text in ("CALL twice()", "SHOW TABLES", "INSERT INTO filled (a) VALUES ('x') RETURNING a", "SELECT 'a', 1.5", "DO 1",
                 "SELECT u, i FROM kinds"):
        statement = connection.prepare(text)
        note(text, (statement.parameters, statement.columns))
        for turn in range(3):
            connection.command(raw.STMT_EXECUTE, raw.execute_body(statement.statement))
            note(f"{text}, {turn}", connection.results(binary=True))
    cursor = connection.prepare("SELECT id, u FROM kinds")
    for turn in range(2):
        connection.command(raw.STMT_EXECUTE, raw.execute_body(cursor.statement, flags=1))
        note(f"cursor {turn}", whole_result(connection))
        note(f"rows {turn}", connection.fetch(cursor.statement, 5, cursor.columns))
    connection.close()


def test_bulk(site, note, tables):
    first, second = open_all(site, 2)
    for connection in (first, second):
        insert = connection.prepare("INSERT INTO filled (a, b) VALUES (?, ?)").statement
        note("types unknown yet", connection.execute_bulk(insert, [[b"a", b"b"]]))
        lists = [[b"one", NULL], [DEFAULT, NULL], [NULL, NULL]]
        note("with types", connection.execute_bulk(insert, lists, VAR_STRING * 2, TYPES))
        note("without types", connection.execute_bulk(insert, [[b"more", NULL], [b"even more", NULL]]))
        note("once", connection.execute(insert, [b"single", None]))
        note("insert id", connection.query("SELECT LAST_INSERT_ID(), ROW_COUNT()"))
        note("rows", connection.query("SELECT a, b FROM filled ORDER BY id"))
        note("a key twice", connection.execute_bulk(insert, [[b"x", b"key"], [b"y", b"key"]]))
        note("warnings", connection.query("SHOW WARNINGS"))
        note("rows", connection.query("SELECT a, b FROM filled ORDER BY id"))
        note("nothing", connection.execute_bulk(insert, [], VAR_STRING * 2, TYPES))
        note("too short", connection.execute_bulk(insert, [], VAR_STRING, TYPES))
        returning = connection.prepare("INSERT INTO filled (a) VALUES (?) RETURNING a").statement
        note("returning", connection.execute_bulk(returning, [[b"r1"], [b"r2"]], VAR_STRING, TYPES))
        note("returning again", connection.execute_bulk(returning, [[b"r3"]]))
        update = connection.prepare("UPDATE filled SET a = ? WHERE a = ?").statement
        note("update", connection.execute_bulk(update, [[b"1", b"one"], [IGNORE, b"more"]], VAR_STRING * 2, TYPES))
        delete = connection.prepare("DELETE FROM filled WHERE a <> ?").statement
        note("delete", connection.execute_bulk(delete, [[b"none"]], VAR_STRING, TYPES))
        connection.close()


def test_bulk_in_transactions(site, note, tables):
    writer, reader = open_all(site, 2)
    insert = writer.prepare("INSERT INTO filled (a) VALUES (?)").statement
    note("begin", writer.query("BEGIN"))
    note("bulk", writer.execute_bulk(insert, [[str(number).encode()] for number in range(1000)], VAR_STRING, TYPES))
    note("others see nothing", reader.value("SELECT COUNT(*) FROM filled"))
    note("rollback", writer.query("ROLLBACK"))
    note("nothing", reader.value("SELECT COUNT(*) FROM filled"))
    note("bulk", writer.execute_bulk(insert, [[b"x"]]))
    note("one", reader.value("SELECT COUNT(*) FROM filled"))


def test_bulk_on_other_backends(site, note, tables):
    """More clients than backends, so that statements are prepared again."""
    connections = open_all(site, 9)
    statements = [connection.prepare("INSERT INTO filled (a) VALUES (?)").statement for connection in connections]
    for turn in range(3):
        types = (VAR_STRING, TYPES) if turn == 0 else ()
        for number, (connection, statement) in enumerate(zip(connections, statements)):
            note(f"{turn}, {number}", connection.execute_bulk(statement, [[b"a"], [b"b"]], *types))
    note("rows", connections[0].value("SELECT COUNT(*) FROM filled"))
    for connection in connections:
        connection.close()


def test_what_bulk_executions_may_not(site, note, tables):
    connection, = open_all(site, 1)
    select = connection.prepare("SELECT ?").statement
    insert = connection.prepare("INSERT INTO filled (a) VALUES (?)").statement
    constant = connection.prepare("INSERT INTO filled (a) VALUES ('constant')").statement
    note("a selection", connection.execute_bulk(select, [[b"x"]], VAR_STRING, TYPES))
    note("no parameters", connection.execute_bulk(constant, [[]]))
    note("unknown flag", connection.execute_bulk(insert, [[b"x"]], VAR_STRING, TYPES | 1))
    note("unit results", connection.execute_bulk(insert, [[b"x"]], VAR_STRING, TYPES | UNIT_RESULTS))
    note("unknown statement", connection.execute_bulk(99, [[b"x"]], VAR_STRING, TYPES))
    note("latest statement", connection.execute_bulk(0xFFFFFFFF, [[]]))
    plain = raw.connect(site, schema="onramp_test")
    insert = plain.prepare("INSERT INTO filled (a) VALUES (?)").statement
    note("not agreed on", plain.execute_bulk(insert, [[b"x"]], VAR_STRING, TYPES))
    note("still there", plain.value("SELECT 1"))


def test_progress_reports_end_no_reply(site, admin, tables):
    """Whether any comes depends on the time that it takes; the answer is whole in any case."""
    asked, plain = raw.connect(site, schema="onramp_test", capabilities=ALL), raw.connect(site, schema="onramp_test")
    admin.query("INSERT INTO onramp_test.filled (a) SELECT seq FROM seq_1_to_100000")
    for connection in (asked, plain):
        connection.query("SET progress_report_time = 1")
        connection.command(raw.QUERY, b"ALTER TABLE filled ENGINE = Aria, FORCE")
        reports = 0
        while (payload := connection.receive())[:3] == b"\xff\xff\xff":
            reports += 1
        assert isinstance(connection.ok_or_error(payload), Ok), payload
        assert connection is asked or not reports
        assert not isinstance(connection.query("SELECT 1"), Err)
