"""Texts above `large_statement_size`, which other threads than the workers read, do what they do direct, in their client's order."""

import threading

import pytest

from harness import raw
from harness.raw import Err, Ok

# More than `large_statement_size` (64 KiB), which no answer shows again.
PADDING = f"/* {'x' * 70_000} */ "

PROGRAM = [
    "SET @a = 5, time_zone = '+01:00'",
    "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    "BEGIN",
    "INSERT INTO t (v) VALUES (1), (2)",
    "SELECT LAST_INSERT_ID(), ROW_COUNT(), @a, @@time_zone",
    "INSERT INTO t VALUES (1, 1)",
    "SHOW WARNINGS",
    "ROLLBACK",
    "SELECT SQL_CALC_FOUND_ROWS 1 UNION SELECT 2 LIMIT 1",
    "SELECT FOUND_ROWS(), DATABASE()",
    "SELECT 1 +",
    "PREPARE p FROM 'SELECT ? + @a'",
    "EXECUTE p USING @a",
    "DEALLOCATE PREPARE p",
    "USE mysql",
    "SELECT DATABASE(), 'é', @@character_set_client",
    "SET NAMES latin1",
    "SELECT @@character_set_client, HEX('é')",
    "SELECT GET_LOCK('onramp_large', 0)",
    "DO RELEASE_LOCK('onramp_large')",
    "COMMIT",
]


def seen(answer):
    """What does not hang on who has padded which text."""
    if isinstance(answer, Err):
        return answer.code, answer.state
    if isinstance(answer, Ok):
        return answer.affected, answer.insert_id, answer.status, answer.warnings
    return answer.rows, answer.status, answer.warnings


@pytest.mark.parametrize("large", ["all", "even", "odd"])
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "in one write"])
def test_a_program(client, note, schema, large, at_once):
    connection = client(schema=schema, capabilities=raw.USUAL | raw.MULTI_STATEMENTS)
    padded = {"all": lambda place: True, "even": lambda place: place % 2 == 0, "odd": lambda place: place % 2 == 1}[large]
    texts = [(PADDING if padded(place) else "") + text for place, text in enumerate(PROGRAM)]
    if at_once:
        sent = b""
        for text in texts:
            connection.sequence = 0
            sent += connection.packets(bytes([raw.QUERY]) + text.encode())
        # From another thread: nobody reads the answers meanwhile.
        sender = threading.Thread(target=connection.send_bytes, args=(sent,))
        sender.start()
        for text in PROGRAM:
            connection.sequence = 1
            note(text, [seen(answer) for answer in connection.results()])
        sender.join()
    else:
        for text, program in zip(texts, PROGRAM):
            note(program, [seen(answer) for answer in connection.query_all(text)])


def test_prepared_ones(client, note, schema):
    connection = client(schema=schema)
    for text in ["SELECT ? + 1", "SET @b = ?", "SELECT @b, ?", "SELECT missing"]:
        prepared = connection.prepare(PADDING + text)
        if isinstance(prepared, Err):
            note(text, prepared.code)
            continue
        note(text, [[seen(answer) for answer in connection.execute(prepared.statement, (value,))] for value in (b"1", b"2")])
        connection.forget(prepared.statement)


def test_a_client_that_leaves_before_its_text_is_read(own_onramp, server):
    """Nothing of it is run for others, and its backend goes on."""
    onramp = own_onramp(server, max_backends=1, workers=1)
    with raw.connect(onramp) as witness:
        for _ in range(20):
            leaves = raw.connect(onramp)
            leaves.command(raw.QUERY, (PADDING * 20 + "SELECT GET_LOCK('onramp_left', 0)").encode())
            leaves.close()
        assert witness.value("SELECT 1") == b"1"
        assert isinstance(witness.query("DO RELEASE_ALL_LOCKS()"), Ok)
        assert witness.value("SELECT COALESCE(GET_LOCK('onramp_left', 60), 0)") == b"1"


@pytest.mark.slow
def test_texts_around_the_length_of_a_packet(client, note, server):
    """They are sent on in the buffer that they came in, whatever the packets."""
    connection = client()
    for more in (-2, -1, 0, 1, 70_000):
        text = "SELECT LENGTH('{}')"
        length = raw.MAX_PAYLOAD + more - 1 - len(text.format(""))
        note(more, [seen(answer) for answer in connection.query_all(text.format("x" * length))])
        prepared = connection.prepare(text.format("x" * length) + ", ?")
        note(f"{more}, prepared", [seen(answer) for answer in connection.execute(prepared.statement, (b"1",))])
        connection.forget(prepared.statement)


def test_a_large_prepared_text_runs_stored_code(client, note, schema, admin):
    """What it names is known, so that it is not read again with each execution; what has been defined since is found by that."""
    connection, other = client(schema=schema), client(schema=schema)
    for text in ["CREATE TABLE t (a INT)", "CREATE TABLE other (a INT)"]:
        connection.query(text)
    prepared = [connection.prepare(PADDING + f"INSERT INTO {table} VALUES (?)") for table in ("t", "other")]
    admin.query(f"CREATE TRIGGER {schema}.runs BEFORE INSERT ON {schema}.t FOR EACH ROW SET @set_by_trigger = NEW.a")
    for value in (b"1", b"2"):
        for statement in prepared:
            note(value, [seen(answer) for answer in connection.execute(statement.statement, (value,))])
        note("seen by its own client", connection.value("SELECT @set_by_trigger"))
        note("seen by another", other.value("SELECT @set_by_trigger"))
