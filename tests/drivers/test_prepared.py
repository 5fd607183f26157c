"""The binary protocol: prepared statements, long data, cursors."""

import struct

import pytest

from harness import raw
from harness.raw import Err, Ok, Rows
from harness.waiting import in_background

BOTH = pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])

# CURSOR_TYPE_READ_ONLY in COM_STMT_EXECUTE.
CURSOR = 1

# SERVER_STATUS_METADATA_CHANGED.
METADATA_CHANGED = 1 << 10


@BOTH
def test_prepare_shapes(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    connection.query("CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50), n INT)")
    for text, values in [
        ("SELECT 1", []), ("SELECT ?", [b"x"]), ("SELECT ?, ?, ?", [b"a", None, b""]), ("DO 1", []),
        ("INSERT INTO p (v, n) VALUES (?, ?)", [b"one", b"1"]), ("UPDATE p SET n = n + ? WHERE v = ?", [b"2", b"one"]),
        ("SELECT * FROM p WHERE id = ?", [b"1"]), ("SELECT * FROM p WHERE id = ?", [b"99"]), ("DELETE FROM p", []),
        ("INSERT INTO p (v) VALUES (?)", [b"two"]), ("SELECT LAST_INSERT_ID()", []), ("SHOW TABLES", []),
        ("SELECT ? + 1", [b"not a number"]), ("INSERT INTO p VALUES (2, ?, 1)", [b"duplicate"]),
    ]:
        prepared = connection.prepare(text)
        note(f"prepare {text}", prepared[1:])
        note(f"execute {text} {values}", connection.execute(prepared.statement, values))
        connection.command(raw.STMT_CLOSE, struct.pack("<I", prepared.statement))
    note("usable", connection.query("SELECT 1"))


def test_prepare_errors(client, note, schema):
    connection = client(schema=schema)
    for text in ["SELEC", "SELECT * FROM missing", "SELECT 1; SELECT 2", "", "PREPARE x FROM 'SELECT 1'"]:
        note(text, connection.prepare(text))
    note("unknown statement", connection.execute(4711))
    note("unknown statement reset", connection.simple(raw.STMT_RESET, struct.pack("<I", 4711)))
    connection.command(raw.STMT_CLOSE, struct.pack("<I", 4711))  # has no reply
    note("usable", connection.query("SELECT 1"))


def test_execute_many_times(client, schema):
    """Statement ids belong to the client, however its backends change."""
    clients = [client(schema=schema) for _ in range(3)]
    prepared = [connection.prepare("SELECT ?, 'text of client'") for connection in clients]
    for count in range(20):
        for number, connection in enumerate(clients):
            value = b"%d-%d" % (number, count)
            rows = connection.execute(prepared[number].statement, [value])[0]
            assert rows.rows[0][0] == value


def test_clients_prepare_different_statements(client):
    """The same id means another statement for another client."""
    first, second = client(), client()
    one, two = first.prepare("SELECT 'first', ?"), second.prepare("SELECT 'second', ?")
    for _ in range(5):
        assert first.execute(one.statement, [b"a"])[0].rows == [(b"first", b"a")]
        assert second.execute(two.statement, [b"b"])[0].rows == [(b"second", b"b")]
        assert first.value("SELECT 'text'") == b"text"


def test_send_long_data(client, note, schema):
    connection = client(schema=schema)
    connection.query("CREATE TABLE l (b LONGBLOB)")
    prepared = connection.prepare("INSERT INTO l VALUES (?)")
    for piece in (b"x" * 100_000, b"y" * 100_000):
        connection.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", prepared.statement, 0) + piece)
    # The parameter's type is sent, its value is not: it came before.
    body = struct.pack("<IBI", prepared.statement, 0, 1) + b"\x00\x01\xfc\x00"
    connection.command(raw.STMT_EXECUTE, body)
    note("insert", connection.results(binary=True))
    note("stored", connection.query("SELECT LENGTH(b), MD5(b) FROM l"))
    note("reset", connection.simple(raw.STMT_RESET, struct.pack("<I", prepared.statement)))


@BOTH
def test_cursor(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT seq, REPEAT('x', seq) FROM seq_1_to_10")
    note("open", connection.execute(prepared.statement, flags=CURSOR))
    note("three", connection.fetch(prepared.statement, 3, prepared.columns))
    note("other statement between", connection.query("SELECT 'between'"))
    note("the rest", connection.fetch(prepared.statement, 100, prepared.columns))
    note("past the end", connection.fetch(prepared.statement, 1, prepared.columns)[:2])
    note("open again", connection.execute(prepared.statement, flags=CURSOR))
    note("reset closes it", connection.simple(raw.STMT_RESET, struct.pack("<I", prepared.statement)))
    note("fetch without a cursor", connection.fetch(prepared.statement, 1, prepared.columns)[:2])
    note("usable", connection.query("SELECT 1"))


@BOTH
def test_long_data_behind_the_last_row(client, note, schema, capabilities):
    """What was sent ahead while a cursor was open is forgotten with its last row, and not sooner."""
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT seq, ? FROM seq_1_to_4")
    for counts in ((2,), (2, 2, 2)):
        note("open", connection.execute(prepared.statement, [b"first"], flags=CURSOR))
        connection.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", prepared.statement, 0) + b"ahead")
        for count in counts:
            note(f"fetch {counts}", connection.fetch(prepared.statement, count, prepared.columns))
        note("again", connection.execute(prepared.statement, [b"second"]))


@pytest.mark.parametrize("text", ["COMMIT", "BEGIN", "ROLLBACK"])
def test_transactions_and_executions_that_are_refused(client, note, schema, text):
    """One without its number of iterations, and one behind long data for a parameter that is not there."""
    connection = client(schema=schema)
    connection.query("CREATE TABLE t (v INT)")
    prepared = connection.prepare(text)
    note("begun", connection.query("BEGIN"))
    note("short", connection.simple(raw.STMT_EXECUTE, struct.pack("<IB", prepared.statement, 0)))
    note("inserted", connection.query("INSERT INTO t VALUES (1)"))
    note("short again", connection.simple(raw.STMT_EXECUTE, struct.pack("<IB", prepared.statement, 0)))
    connection.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", prepared.statement, 0) + b"nowhere")
    note("behind long data", connection.execute(prepared.statement))
    note("back", connection.query("ROLLBACK"))
    note("nothing", connection.query("SELECT COUNT(*) FROM t"))


@BOTH
def test_long_data_for_nothing_and_the_last_row(client, note, schema, capabilities):
    """Its error stays until an execution tells of it."""
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT seq FROM seq_1_to_2")
    note("open", connection.execute(prepared.statement, flags=CURSOR))
    connection.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", prepared.statement, 2) + b"nowhere")
    note("all", connection.fetch(prepared.statement, 5, prepared.columns))
    assert isinstance(note("wrong", connection.execute(prepared.statement))[0], Err)
    note("again", connection.execute(prepared.statement))
    note("usable", connection.query("SELECT 1"))


@BOTH
def test_a_cursor_outlives_an_execution_without_values(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT seq FROM seq_1_to_5 WHERE seq > ?")
    note("open", connection.execute(prepared.statement, [b"1"], flags=CURSOR))
    note("two", connection.fetch(prepared.statement, 2, prepared.columns))
    assert isinstance(note("without its value", connection.execute(prepared.statement))[0], Err)
    assert isinstance(note("the rest", connection.fetch(prepared.statement, 100, prepared.columns)), Rows)
    note("again", connection.execute(prepared.statement, [b"3"]))


@BOTH
def test_cursor_without_rows(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    prepared = connection.prepare("SELECT 1 WHERE FALSE")
    note("open", connection.execute(prepared.statement, flags=CURSOR))
    note("fetch", connection.fetch(prepared.statement, 5, prepared.columns))


def test_reset_connection_forgets_statements(client):
    connection = client()
    prepared = connection.prepare("SELECT 1")
    assert isinstance(connection.reset(), Ok)
    answer = connection.execute(prepared.statement)[0]
    assert isinstance(answer, Err) and answer[:2] == (1243, "HY000")


def test_many_statements(client):
    connection = client()
    prepared = [connection.prepare(f"SELECT {n}, ?") for n in range(200)]
    for number in range(0, 200, 7):
        rows = connection.execute(prepared[number].statement, [b"v"])[0]
        assert isinstance(rows, Rows)
        assert rows.rows[0][0] == struct.pack("<i", number)
    assert len({each.statement for each in prepared}) == 200


def test_prepared_cursor_of_connector_python(site, note, schema, driver):
    if driver.name != "connector":
        pytest.skip("PyMySQL has no prepared statements")
    connection = driver(database=schema)
    cursor = connection.cursor(prepared=True)
    cursor.execute("CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50), d DATETIME(6), f DOUBLE, n DECIMAL(20,5))")
    for number in range(10):
        cursor.execute("INSERT INTO p (v, d, f, n) VALUES (?, ?, ?, ?)", (f"välue {number}", "2026-01-02 03:04:05.000006", 0.5, None))
        note("insert", (cursor.rowcount, cursor.lastrowid))
    connection.commit()
    cursor.execute("SELECT * FROM p WHERE id > ?", (3,))
    note("rows", cursor.fetchall())
    cursor.execute("SELECT * FROM p WHERE id > ?", (8,))
    note("again", cursor.fetchall())


def test_bulk_inserts(driver, note, schema):
    connection = driver(database=schema)
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50))")
    cursor.executemany("INSERT INTO p (v) VALUES (%s)", [(f"row {n}",) for n in range(1000)])
    note("count", (cursor.rowcount, cursor.lastrowid))
    connection.commit()
    cursor.execute("SELECT COUNT(*), MIN(id), MAX(id) FROM p")
    note("content", cursor.fetchall())


# What several clients on few backends make of statements that each has prepared for itself.


def close(connection, prepared):
    connection.command(raw.STMT_CLOSE, struct.pack("<I", prepared.statement))


def test_many_clients_few_backends(client, schema):
    """More clients than there are backends, each with statements of its own and with those that all have."""
    clients = [client(schema=schema) for _ in range(24)]
    clients[0].query("CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(50))")
    clients[0].query("INSERT INTO m SELECT seq, CONCAT('value ', seq) FROM seq_1_to_100")
    common = [connection.prepare("SELECT v FROM m WHERE id = ?") for connection in clients]
    own = [connection.prepare(f"SELECT {number}, ?") for number, connection in enumerate(clients)]
    for turn in range(5):
        for number, connection in enumerate(clients):
            found = connection.execute(common[number].statement, [b"%d" % (number + 1)])[0]
            assert found.rows == [(b"value %d" % (number + 1),)]
            found = connection.execute(own[number].statement, [b"%d" % turn])[0]
            assert found.rows == [(struct.pack("<i", number), b"%d" % turn)]
    for number, connection in enumerate(clients[:12]):
        close(connection, common[number])
        assert connection.execute(common[number].statement, [b"1"])[0][:2] == (1243, "HY000")
    for number, connection in enumerate(clients[12:]):
        assert connection.execute(common[number + 12].statement, [b"7"])[0].rows == [(b"value 7",)]


def test_types_of_parameters_are_each_clients_own(client, note):
    """A statement that clients share remembers the types that it was executed with last; a client may leave its own out."""
    def execute(connection, prepared, kind, value, named):
        types = struct.pack("<H", kind) if named else b""
        body = struct.pack("<IBI", prepared.statement, 0, 1) + b"\x00" + bytes([named]) + types + value
        connection.command(raw.STMT_EXECUTE, body)
        return connection.results(binary=True)

    long, double, text = 3, 5, 0xfd
    clients = [client() for _ in range(6)]
    prepared = [connection.prepare("SELECT HEX(?)") for connection in clients]
    kinds = [(long, struct.pack("<i", 255)), (double, struct.pack("<d", 16.0)), (text, b"\x03abc")] * 2
    for named in (True, False, False):
        for number, connection in enumerate(clients):
            kind, value = kinds[number]
            found = execute(connection, prepared[number], kind, value, named)
            assert found[0].rows == [([b"FF", b"10", b"616263"][number % 3],)]
    fresh = client()
    again = fresh.prepare("SELECT HEX(?)")
    note("types that nobody has named", execute(fresh, again, long, struct.pack("<i", 255), False))
    note("named then", execute(fresh, again, long, struct.pack("<i", 255), True))


def test_ddl_between(client, note, schema):
    """Tables change under statements that are prepared on several backends."""
    def execute(label, number):
        results = connection.execute(prepared[number].statement, [b"1"])
        # The server says once for each statement of its own that its columns have changed.
        note(label, [each._replace(status=each.status & ~METADATA_CHANGED) if isinstance(each, Rows) else each for each in results])

    clients = [client(schema=schema) for _ in range(6)]
    clients[0].query("CREATE TABLE d (id INT PRIMARY KEY, v VARCHAR(50))")
    clients[0].query("INSERT INTO d VALUES (1, 'one')")
    prepared = [connection.prepare("SELECT * FROM d WHERE id = ?") for connection in clients]
    for number, connection in enumerate(clients):
        execute("before", number)
    clients[0].query("ALTER TABLE d ADD COLUMN n INT DEFAULT 7")
    for number, connection in enumerate(clients):
        execute("with a column more", number)
    note("prepared anew", clients[1].prepare("SELECT * FROM d WHERE id = ?")[1:])
    clients[0].query("DROP TABLE d")
    for number, connection in enumerate(clients):
        execute("dropped", number)
        note("warnings", connection.query("SHOW WARNINGS"))
    clients[0].query("CREATE TABLE d (id INT PRIMARY KEY, other DOUBLE)")
    clients[0].query("INSERT INTO d VALUES (1, 1.5)")
    for number, connection in enumerate(clients):
        execute("another table", number)


def test_prepared_in_another_state(client, note, schema, admin):
    """The schema and sql_mode of its beginning decide what a statement means, and the present ones how it is executed."""
    admin.query("DROP DATABASE IF EXISTS onramp_other")
    admin.query("CREATE DATABASE onramp_other")
    admin.query("CREATE TABLE onramp_test.s (v VARCHAR(20))")
    admin.query("CREATE TABLE onramp_other.s (v VARCHAR(20))")
    admin.query("INSERT INTO onramp_test.s VALUES ('test')")
    admin.query("INSERT INTO onramp_other.s VALUES ('other')")
    others = [client(schema=schema) for _ in range(6)]
    connection = client(schema=schema)
    texts = ["SELECT v, DATABASE() FROM s", 'SELECT "quoted", ?', "SELECT 'a' || 'b', @@sql_mode", "SELECT NULL, 'bäm', @@collation_connection"]
    first = [connection.prepare(text) for text in texts]
    connection.query("USE onramp_other")
    connection.query("SET sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT'")
    connection.query("SET NAMES latin1")
    connection.query("CREATE TABLE IF NOT EXISTS quoted_column (quoted INT)")
    second = [connection.prepare(text) for text in (texts[0], "SELECT 'a' || 'b', @@sql_mode")]
    for turn in range(6):
        # Others keep this many backends busy, so that the client changes place.
        for other in others[:turn % 4]:
            other.query("BEGIN")
            other.query("SELECT COUNT(*) FROM s")
        for prepared in first:
            values = [b"v"] * len(prepared.parameters)
            note("prepared first", connection.execute(prepared.statement, values))
        for prepared in second:
            note("prepared second", connection.execute(prepared.statement))
        note("the state is the present one", connection.query("SELECT DATABASE(), @@sql_mode, @@character_set_client"))
        for other in others[:turn % 4]:
            other.query("ROLLBACK")


def test_what_executions_leave(client, note, schema):
    """LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS() and warnings of prepared statements, others being served in between."""
    connection, other = client(schema=schema), client(schema=schema)
    connection.query("CREATE TABLE w (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(5), n TINYINT)")
    insert = connection.prepare("INSERT IGNORE INTO w (v, n) VALUES (?, ?)")
    select = connection.prepare("SELECT id FROM w WHERE id > ?")
    last = connection.prepare("SELECT LAST_INSERT_ID(), @@identity")
    theirs = other.prepare("INSERT IGNORE INTO w (v, n) VALUES (?, ?)")
    for turn in range(4):
        note("insert", connection.execute(insert.statement, [b"short", b"1"]))
        other.execute(theirs.statement, [b"x", b"2"])
        note("last id", connection.execute(last.statement))
        note("row count", connection.query("SELECT ROW_COUNT()"))
        note("with warnings", connection.execute(insert.statement, [b"too long", b"1000"]))
        other.execute(theirs.statement, [b"also too long", b"2"])
        note("warnings", connection.query("SHOW WARNINGS"))
        note("select", connection.execute(select.statement, [b"2"]))
        other.query("SELECT 1")
        note("found", connection.query("SELECT FOUND_ROWS()"))
    rows = connection.prepare("SELECT ROW_COUNT(), FOUND_ROWS()")
    note("insert", connection.execute(insert.statement, [b"short", b"1"]))
    note("asked by a prepared statement", connection.execute(rows.statement))


def test_transactions_by_prepared_statements(client, note, schema):
    connection, other = client(schema=schema), client(schema=schema)
    connection.query("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    connection.query("INSERT INTO t VALUES (1, 0)")
    names = {name: connection.prepare(text) for name, text in {
        "begin": "BEGIN", "update": "UPDATE t SET n = n + ? WHERE id = 1", "commit": "COMMIT", "rollback": "ROLLBACK",
        "off": "SET autocommit=0", "on": "SET autocommit=1", "isolation": "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"}.items()}
    for program in ("begin update commit", "begin update rollback", "off update rollback update commit on", "isolation begin update commit"):
        for name in program.split():
            values = [b"1"] if name == "update" else []
            note(f"{program}: {name}", connection.execute(names[name].statement, values))
        note("seen by others", other.query("SELECT * FROM t"))


def test_long_data_of_several_clients(client, note, schema):
    clients = [client(schema=schema) for _ in range(6)]
    prepared = [connection.prepare("SELECT LENGTH(?), ?") for connection in clients]
    for number, connection in enumerate(clients):
        for piece in range(3):
            connection.command(
                raw.STMT_SEND_LONG_DATA, struct.pack("<IH", prepared[number].statement, 0) + b"%d" % number * 1000)
    for number, connection in enumerate(clients):
        body = struct.pack("<IBI", prepared[number].statement, 0, 1) + b"\x00\x01\xfc\x00\xfd\x00\x01v"
        connection.command(raw.STMT_EXECUTE, body)
        note("long data", connection.results(binary=True))
    connection, statement = clients[0], prepared[0].statement
    note("used up", connection.execute(statement, [b"four", b"v"]))
    connection.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", statement, 9) + b"no such parameter")
    note("no such parameter", connection.execute(statement, [b"four", b"v"]))
    note("reset", connection.simple(raw.STMT_RESET, struct.pack("<I", statement)))
    note("usable", connection.execute(statement, [b"four", b"v"]))
    connection.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", statement, 0) + b"forgotten")
    note("reset", connection.simple(raw.STMT_RESET, struct.pack("<I", statement)))
    note("forgotten", connection.execute(statement, [b"four", b"v"]))


def test_cursors_beside_each_other(client, note, schema):
    """Two cursors of one client, of the same text and of another one, and statements of others in between."""
    connection, others = client(schema=schema), [client() for _ in range(3)]
    one, two = connection.prepare("SELECT seq FROM seq_1_to_6"), connection.prepare("SELECT seq FROM seq_1_to_6")
    three = connection.prepare("SELECT seq * 10 FROM seq_1_to_3")
    for prepared in (one, two, three):
        note("open", connection.execute(prepared.statement, flags=CURSOR))
    for turn in range(3):
        for prepared in (one, two, three):
            note("fetch", connection.fetch(prepared.statement, 2, prepared.columns)[:2])
        for other in others:
            assert other.value("SELECT 'other'") == b"other"
    note("again", connection.execute(one.statement, flags=CURSOR))
    note("without a cursor, which closes it", connection.execute(one.statement))
    note("fetch", connection.fetch(one.statement, 2, one.columns)[:2])
    note("open", connection.execute(two.statement, flags=CURSOR))
    close(connection, two)
    note("closed", connection.fetch(two.statement, 2, two.columns)[:2])
    note("usable", connection.execute(three.statement))


def test_numbers_of_statements(client, note):
    connection = client()
    first = connection.prepare("SELECT 1").statement
    connection.prepare("nonsense")
    note("after a failure", connection.prepare("SELECT 1").statement - first)
    connection.reset()
    note("after a reset", connection.prepare("SELECT 1").statement - first)


def test_one_set_of_statements_per_backend(own_server, own_onramp):
    """Many clients with many statements each: the server holds one of each for each backend."""
    onramp = own_onramp(own_server, max_backends=3)
    with raw.connect(own_server, "admin", "admin-secret") as admin:
        admin.query("SET GLOBAL max_prepared_stmt_count = 150")
        clients = [raw.connect(onramp) for _ in range(20)]
        prepared = [[connection.prepare(f"SELECT {n}, ?") for n in range(36)] for connection in clients]
        for connection, statements in zip(clients, prepared):
            for number, statement in enumerate(statements):
                found = connection.execute(statement.statement, [b"v"])[0]
                assert found.rows == [(struct.pack("<i", number), b"v")]
        held = admin.query("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").rows[0][1]
        assert int(held) <= 3 * 36
        for connection in clients:
            connection.close()


def test_server_with_room_for_few_statements(own_server, own_onramp):
    """Where the server takes fewer statements than the clients have, they are prepared in turns."""
    # One worker: several close statements apart from each other, and a server with so few may refuse one meanwhile.
    onramp = own_onramp(own_server, max_backends=4, workers=1)
    with raw.connect(own_server, "admin", "admin-secret") as admin:
        admin.query("SET GLOBAL max_prepared_stmt_count = 20")
        clients = [raw.connect(onramp) for _ in range(8)]
        prepared = [[connection.prepare(f"SELECT {n}, ?") for n in range(36)] for connection in clients]
        refused = [statement for statements in prepared for statement in statements if isinstance(statement, Err)]
        assert not refused, refused[0]
        for turn in range(3):
            for connection, statements in zip(clients, prepared):
                for number, statement in enumerate(statements):
                    found = connection.execute(statement.statement, [b"v"])[0]
                    assert isinstance(found, Rows), found
                    assert found.rows == [(struct.pack("<i", number), b"v")]
        for connection in clients:
            connection.close()


def test_bounds_of_prepared_statements(own_server, own_onramp):
    onramp = own_onramp(own_server, max_backends=2, max_prepared_stmt_count=5)
    with raw.connect(onramp) as connection:
        prepared = [connection.prepare(f"SELECT {n}") for n in range(6)]
        assert isinstance(prepared[5], Err) and prepared[5][:2] == (1461, "42000"), prepared[5]
        close(connection, prepared[0])
        assert not isinstance(connection.prepare("SELECT 7"), Err)
    with raw.connect(onramp) as connection:
        assert not isinstance(connection.prepare("SELECT 8"), Err), "what a client had goes with it"


def few_statements(own_server, number):
    with raw.connect(own_server, "admin", "admin-secret") as admin:
        admin.query(f"SET GLOBAL max_prepared_stmt_count = {number}")


def test_text_with_calls_at_a_full_server(own_server, own_onramp):
    """What stands for a call is put in once, however often the statement is sent."""
    few_statements(own_server, 3)
    onramp = own_onramp(own_server, max_backends=4)
    with raw.connect(own_server) as other, raw.connect(onramp) as connection:
        others = [other.prepare("SELECT 1") for _ in range(2)]
        assert not any(isinstance(prepared, Err) for prepared in others)
        assert not isinstance(connection.prepare("SELECT 77"), Err)
        for text, rows in [("SELECT 5 + 0 * CONNECTION_ID()", 1), ("SELECT 1, 2 FROM DUAL WHERE 6 = CONNECTION_ID()", 0)]:
            prepared = connection.prepare(text)
            assert not isinstance(prepared, Err), prepared
            assert len(connection.execute(prepared.statement)[0].rows) == rows


def test_workers_make_room_for_each_other(own_server, own_onramp):
    """The server has room for one more statement, which one worker has taken when a client of another wants it."""
    few_statements(own_server, 3)
    onramp = own_onramp(own_server, max_backends=4, workers=2)
    with raw.connect(own_server) as other:
        others = [other.prepare("SELECT 1") for _ in range(2)]
        assert not any(isinstance(prepared, Err) for prepared in others)
        # So many that hardly ever all of them are with the same worker.
        clients = [raw.connect(onramp) for _ in range(16)]
        for number, connection in enumerate(clients):
            prepared = connection.prepare(f"SELECT {number}, ?")
            assert not isinstance(prepared, Err), (number, prepared)
            answer = connection.execute(prepared.statement, [b"x"])[0]
            assert isinstance(answer, Rows), (number, answer)
            assert answer.rows == [(struct.pack("<i", number), b"x")]
        for connection in clients:
            connection.close()


def test_more_transactions_than_statements_on_the_server(own_server, own_onramp):
    """Each has a backend, and the same statement has to be prepared on each: never is the one closed that is needed next."""
    few_statements(own_server, 4)
    onramp = own_onramp(own_server, max_backends=8)
    clients = [raw.connect(onramp) for _ in range(6)]
    for connection in clients:
        connection.query("BEGIN")
        connection.query("SELECT 1")
    for connection in clients:
        connection.mine = connection.prepare("SELECT 42, ?").statement
    for connection in clients:
        assert connection.execute(connection.mine, [b"x"])[0].rows == [(struct.pack("<i", 42), b"x")]
    for connection in clients:
        connection.close()


def test_cursors_leave_statements_to_others(own_server, own_onramp):
    """Nobody can close a cursor of somebody else's, and still everybody goes on."""
    few_statements(own_server, 40)
    onramp = own_onramp(own_server, max_backends=4)
    with raw.connect(onramp, schema="onramp_app") as holder:
        for number in range(32):
            prepared = holder.prepare(f"SELECT seq, {number} FROM seq_1_to_10")
            assert not isinstance(prepared, Err), (number, prepared)
            assert isinstance(holder.execute(prepared.statement, flags=CURSOR)[0], Rows)
        for _ in range(2):
            with raw.connect(onramp) as other:
                prepared = other.prepare("SELECT 43, ?")
                assert isinstance(other.execute(prepared.statement, [b"x"])[0], Rows)


def test_texts_that_nobody_has_any_more_make_room(own_server, own_onramp):
    onramp = own_onramp(own_server, max_backends=2, prepared_statement_memory="1MiB")
    with raw.connect(onramp) as connection:
        for number in range(150):
            prepared = connection.prepare(f"SELECT {number}, '{'x' * 10_000}'")
            assert not isinstance(prepared, Err), (number, prepared)
            close(connection, prepared)
        held = [connection.prepare(f"SELECT {number}, '{'y' * 10_000}'") for number in range(110)]
        assert isinstance(held[-1], Err) and not isinstance(held[90], Err), "what clients have themselves has a bound"


def test_executions_run_in_their_clients_state_while_statements_are_closed(own_server, own_onramp):
    few_statements(own_server, 8)
    onramp = own_onramp(own_server, max_backends=4)
    wrong = []

    def work(number):
        zone = f"+0{1 + number % 8}:00"
        with raw.connect(onramp) as connection:
            prepared = [connection.prepare(f"SELECT @@time_zone, {n}, ?") for n in range(6)]
            connection.query(f"SET time_zone = '{zone}'")
            for turn in range(150):
                chosen = prepared[(turn * 7 + number) % 6]
                if not isinstance(chosen, Err):
                    answer = connection.execute(chosen.statement, [b"x"])[0]
                    # A server that is full may refuse.
                    if isinstance(answer, Rows) and answer.rows[0][0] != zone.encode():
                        wrong.append((zone, answer.rows))

    joins = [in_background(work, number) for number in range(12)]
    for join in joins:
        join()
    assert not wrong


def test_statement_prepared_last(client, note):
    """MariaDB's name for it, which its libraries use to prepare and execute in one go."""
    connection = client()
    note("none", connection.execute(0xFFFFFFFF))
    statement = connection.prepare("SELECT 7").statement
    note("in one go", connection.execute(0xFFFFFFFF))
    note("again", connection.execute(0xFFFFFFFF))
    connection.prepare("nonsense")
    note("after a failure", connection.execute(0xFFFFFFFF))
    note("by its number", connection.execute(statement))
    second = connection.prepare("SELECT 8")
    note("the second", connection.execute(0xFFFFFFFF))
    close(connection, second)
    note("closed", connection.execute(0xFFFFFFFF))


def test_preparing_does_nothing(client, note, schema):
    """What only its executions do."""
    connection, other = client(schema=schema), client(schema=schema)
    connection.query("CREATE TABLE n (id INT PRIMARY KEY)")
    for text in ["COMMIT RELEASE", "SET NAMES latin1 COLLATE latin1_bin", "SET CHARACTER SET latin1", "COMMIT", "SELECT @a", "SELECT SQL_CALC_FOUND_ROWS * FROM n"]:
        note("one row", connection.query("SELECT 1"))
        note(text, isinstance(connection.prepare(text), Err))
        other.query("SELECT 1")
        note("found", connection.query("SELECT FOUND_ROWS(), @@collation_connection"))
    connection.query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    connection.prepare("COMMIT")
    other.query("SELECT 1")
    note("begin", connection.query("BEGIN"))
    note("level", connection.query("SELECT * FROM n"))
    note("commit", connection.query("COMMIT"))


def execute_bound_before(connection, statement, value):
    """An execution that does not say its one parameter's type again."""
    head = struct.pack("<IBI", statement, 0, 1) + b"\0\0"
    connection.command(raw.STMT_EXECUTE, head + raw.lenenc(len(value)) + value)
    return connection.results(binary=True)[0]


@pytest.mark.parametrize("packets", [1, 2])
def test_types_that_are_put_in_at_the_border_of_a_packet(own_server, own_onramp, packets):
    """The server gets one packet more than the client has sent: it counts its answer from there."""
    onramp = own_onramp(own_server, max_backends=2, max_allowed_packet="64MiB")
    with raw.connect(onramp) as connection:
        prepared = connection.prepare("SELECT LENGTH(?)")
        assert isinstance(connection.execute(prepared.statement, [b"x"])[0], Rows)
        connection.query("BEGIN")
        connection.query("SELECT 1")
        for total in (packets * 0xFFFFFF - 3, packets * 0xFFFFFF - 2, packets * 0xFFFFFF - 1, packets * 0xFFFFFF):
            # The command, what stands ahead of the value, and its length, which has more bytes from 16 MiB on.
            length = total - 1 - 11 - (4 if packets == 1 else 9)
            answer = execute_bound_before(connection, prepared.statement, b"y" * length)
            assert isinstance(answer, Rows) and int.from_bytes(answer.rows[0][0], "little") == length
        assert connection.query("SELECT 1").status & 1, "still in its transaction"


def test_definitions_schema_that_is_gone(own_server, own_onramp):
    """It costs its client the execution, not the transaction."""
    onramp = own_onramp(own_server, max_backends=2)
    with raw.connect(own_server, "admin", "admin-secret") as admin, raw.connect(onramp, schema="onramp_app") as connection:
        admin.query("CREATE DATABASE onramp_gone")
        admin.query("CREATE TABLE onramp_app.u (id INT)")
        connection.query("USE onramp_gone")
        prepared = connection.prepare("SELECT COUNT(*) FROM onramp_app.u")
        connection.query("USE onramp_app")
        # Takes the backend on which it is prepared.
        with raw.connect(onramp, schema="onramp_app") as other:
            other.query("BEGIN")
            other.query("SELECT 1")
            admin.query("DROP DATABASE onramp_gone")
            connection.query("START TRANSACTION")
            connection.query("INSERT INTO u VALUES (1)")
            for _ in range(2):
                answer = connection.execute(prepared.statement)[0]
                assert isinstance(answer, Rows) or answer[0] == 1049, answer
            assert connection.value("SELECT COUNT(*) FROM u") == b"1", "in the same transaction and schema"
            assert connection.query("SELECT DATABASE()").rows == [(b"onramp_app",)]
            connection.query("COMMIT")
        assert admin.value("SELECT COUNT(*) FROM onramp_app.u") == b"1"


def test_prepared_kill(client, note, schema):
    killer = client(schema=schema)
    by_number = killer.prepare("KILL ?")
    for name in ("text", "number"):
        victim = client(schema=schema)
        number = int(victim.value("SELECT CONNECTION_ID()"))
        if name == "text":
            answer = killer.execute(killer.prepare(f"KILL {number}").statement)[0]
        else:
            head = struct.pack("<IBI", by_number.statement, 0, 1) + b"\0\1\x08\0"
            killer.command(raw.STMT_EXECUTE, head + struct.pack("<Q", number))
            answer = killer.results(binary=True)[0]
        note(name, answer[:1])
        with pytest.raises((OSError, raw.Closed)):
            if isinstance(victim.query("SELECT 1"), Err):
                raise raw.Closed("told so")


@pytest.mark.slow
def test_lists_of_types_have_a_bound(own_server, own_onramp):
    """Each client's statement may keep one, which no other has."""
    onramp = own_onramp(own_server, max_backends=2, prepared_statement_memory="1MiB")
    with raw.connect(onramp) as connection:
        text = "SELECT 1 FROM DUAL WHERE 1 IN (" + ",".join("?" * 20_000) + ")"
        prepared = [connection.prepare(text) for _ in range(60)]
        assert isinstance(prepared[-1], Err) and prepared[-1][0] == 1041
        assert not isinstance(prepared[15], Err)
        for statement in prepared[:10]:
            close(connection, statement)
        assert not isinstance(connection.prepare(text), Err), "what is closed makes room"


@pytest.mark.parametrize("in_transaction", [False, True])
def test_prepared_row_count_is_the_clients_own(client, note, schema, in_transaction):
    """ROW_COUNT() and FOUND_ROWS() asked by prepared statements, others being served before and after each is prepared."""
    connection, other = client(schema=schema), client(schema=schema)
    connection.query("CREATE TABLE w (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    connection.query("INSERT INTO w (v) VALUES (1), (2), (3), (4), (5)")

    def disturb():
        other.query("SELECT * FROM w LIMIT 4")
        other.query("INSERT INTO w (v) VALUES (6), (7)")

    def asked(prepared, values=(), flags=0):
        disturb()
        rows = connection.execute(prepared.statement, list(values), flags=flags)[0]
        disturb()
        return [column.name for column in rows.columns], rows.rows

    if in_transaction:
        connection.query("BEGIN")
    connection.query("UPDATE w SET v = v + 1 WHERE id < 4")
    disturb()
    changed = connection.prepare("SELECT ROW_COUNT()")
    note("changed", asked(changed))
    note("after a result", asked(changed))
    connection.query("DELETE FROM w WHERE id = 5")
    note("asked again", asked(changed))
    connection.query("SELECT * FROM w WHERE id < 3")
    found = connection.prepare("SELECT ? + 0, FOUND_ROWS(), CONNECTION_ID() > 0 AS own")
    note("found", asked(found, [b"7"]))
    connection.query("SELECT * FROM w WHERE id < 4")
    rows = connection.execute(found.statement, [b"8"], flags=CURSOR)[0]
    # Through Onramp they come at once, which is documented.
    rows = rows if rows.rows else connection.fetch(found.statement, 5, rows.columns)
    note("found with a cursor", rows.rows)
    connection.query("SELECT * FROM no_such_table")
    note("counts", asked(connection.prepare("SELECT @@error_count, @@warning_count")))
    insert = connection.prepare("INSERT INTO w (v) VALUES (?), (?)")
    connection.execute(insert.statement, [b"1", b"2"])
    note("after an execution", asked(changed))
    connection.query("ROLLBACK")
    note("after a rollback", asked(changed))


def test_prepared_row_count_pins_nobody(own_server, own_onramp):
    onramp = own_onramp(own_server, max_backends=1)
    with raw.connect(onramp, schema="onramp_app") as one, raw.connect(onramp, schema="onramp_app") as two:
        for connection in (one, two):
            connection.mine = connection.prepare("SELECT ROW_COUNT(), FOUND_ROWS()").statement
        for rows in range(1, 8):
            for connection, found in ((one, rows), (two, rows + 1)):
                connection.query(f"SELECT seq FROM seq_1_to_{found}")
            for connection, found in ((one, rows), (two, rows + 1)):
                expected = (struct.pack("<q", -1), struct.pack("<q", found))
                assert connection.execute(connection.mine)[0].rows == [expected]
        with raw.connect(own_server, "admin", "admin-secret") as admin:
            held = int(admin.query("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").rows[0][1])
        assert held <= 2, "what was prepared for one execution is closed with it"

@pytest.mark.parametrize("text", ["SELECT CONNECTION_ID() + ROW_COUNT() > 5", "SELECT CONNECTION_ID() > 5, ROW_COUNT(), CONNECTION_ID() > 5, FOUND_ROWS()"])
def test_a_prepared_statement_with_literals_of_both_kinds(client, note, schema, text):
    """What is the same for each execution is replaced when it is prepared, the rest when it is executed."""
    connection = client(schema=schema)
    connection.query("SELECT 1")
    prepared = connection.prepare(text)
    note("executions", [connection.execute(prepared.statement)[0].rows for _ in range(2)])
    note("goes on", connection.query("SELECT 1").rows)


def test_a_text_that_takes_two_packets(own_server, own_onramp):
    """It is prepared again on another backend, too."""
    with raw.connect(own_server, "admin", "admin-secret") as admin:
        admin.query("SET GLOBAL max_allowed_packet = 67108864")
    onramp = own_onramp(own_server, max_backends=2, max_allowed_packet="64MiB")
    begin, end = "SELECT ? /*", "*/"
    text = begin + "x" * ((1 << 24) - 2 - len(begin + end)) + end
    with raw.connect(onramp, schema="onramp_app") as one, raw.connect(onramp, schema="onramp_app") as two:
        prepared = one.prepare(text)
        for _ in range(2):
            assert len(one.execute(prepared.statement, [b"v"])[0].rows) == 1
            # The backend of before is somebody else's now.
            two.query("START TRANSACTION")
            two.query("CREATE TEMPORARY TABLE kept (a INT)")
