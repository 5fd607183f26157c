"""Results of every shape: types, sizes, counts, several at once."""

import hashlib
import time

import pytest

from harness import raw
from harness.raw import Err, LocalInfile, Ok, Rows
from harness.waiting import in_background

ALL_TYPES = """
CREATE TABLE types (
  id INT PRIMARY KEY AUTO_INCREMENT,
  t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, m MEDIUMINT, i INT, b BIGINT, bu BIGINT UNSIGNED,
  f FLOAT, d DOUBLE, n DECIMAL(30,10), bits BIT(13), bool BOOLEAN,
  c CHAR(10), v VARCHAR(100), bin BINARY(4), vb VARBINARY(20),
  tt TINYTEXT, tx TEXT, mt MEDIUMTEXT, lt LONGTEXT, tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB,
  da DATE, ti TIME(3), dt DATETIME(6), ts TIMESTAMP NULL, y YEAR,
  e ENUM('a','b','é'), st SET('x','y','z'), j JSON, g GEOMETRY, p POINT, u UUID, ip INET6
) CHARACTER SET utf8mb4"""

TYPE_ROWS = [
    "INSERT INTO types (t,tu,s,m,i,b,bu,f,d,n,bits,bool,c,v,bin,vb,tt,tx,mt,lt,tb,bl,mb,lb,da,ti,dt,ts,y,e,st,j,g,p,u,ip)"
    " VALUES (-128,255,-32768,-8388608,-2147483648,-9223372036854775808,18446744073709551615,1.5,2.25e-300,"
    "12345678901234567890.0123456789,b'1010101010101',TRUE,'char','värchar 😀','\\0\\1','\\0\\'\\\\','tiny','text','medium',"
    "'long','\\xff','blob','mblob','lblob','2026-02-28','-838:59:59.999','9999-12-31 23:59:59.999999','2026-01-01 00:00:01',"
    "2155,'é','x,z','{\"a\": [1, null]}',POINT(1,2),POINT(-1,0.5),UUID(),'::1')",
    "INSERT INTO types () VALUES ()",
    "INSERT INTO types (c,v,tx,bl,da,dt,ti,t) VALUES ('','','','','0001-01-01','0001-01-01 00:00:00','00:00:00',0)",
]


def test_statements_of_all_kinds(client, note, schema):
    connection = client(schema=schema)
    for text in [
        "SELECT 1", "SELECT 1, 2 AS two, NULL, 'x' x, 1.50, 1e10, TRUE, DATE '2026-01-02'", "SELECT 1 WHERE FALSE",
        "SELECT 'a' UNION SELECT 'b' ORDER BY 1", "WITH c AS (SELECT 3 n) SELECT * FROM c", "VALUES (1,2),(3,4)",
        "(SELECT 1)", "DO 1", "DO 1/0", "CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))",
        "INSERT INTO a (v) VALUES ('x')", "INSERT INTO a (v) VALUES ('y'),('z')", "INSERT INTO a SELECT NULL, v FROM a",
        "INSERT INTO a (v) VALUES ('r') RETURNING id, v", "UPDATE a SET v = 'q' WHERE id < 3", "UPDATE a SET v = 'q' WHERE id < 3",
        "REPLACE INTO a VALUES (1, 'replaced')", "INSERT INTO a VALUES (1, 'dup') ON DUPLICATE KEY UPDATE v = 'dup'",
        "INSERT INTO a VALUES (1, 'again')", "INSERT IGNORE INTO a VALUES (1, 'again')", "SHOW WARNINGS",
        "DELETE FROM a WHERE id > 4 RETURNING id", "DELETE FROM a", "TRUNCATE a", "ALTER TABLE a ADD w INT DEFAULT 7",
        "DESCRIBE a", "EXPLAIN SELECT * FROM a", "ANALYZE TABLE a", "CHECK TABLE a", "SHOW CREATE TABLE a", "SHOW TABLES",
        "SHOW COLUMNS FROM a", "SHOW VARIABLES LIKE 'sql_mode'", "CREATE VIEW w AS SELECT id FROM a", "SELECT * FROM w",
        "DROP VIEW w", "RENAME TABLE a TO b", "DROP TABLE b", "DROP TABLE IF EXISTS b", "SHOW WARNINGS",
        "SELEC 1", "SELECT * FROM missing", "SELECT missing", "", " ", ";", "-- only a comment", "/* c */", "#",
        "/*!50000 SELECT 'versioned' */", "SELECT /* inner */ 1 -- end", "SELECT 1;", "SELECT 1 ; ", "SELECT 'a;b'",
        "SHOW STATUS LIKE 'no_such_status'", "SHOW GRANTS", "FLUSH TABLES", "CREATE USER x", "SELECT SLEEP(0)",
        "BEGIN NOT ATOMIC SELECT 1; END", "HELP 'no such topic'", "SELECT 0x41, b'1', N'n', _latin1'\\xe9'",
    ]:
        note(text, connection.query_all(text))


def test_no_rows(driver, note):
    cursor = driver().cursor()
    cursor.execute("SELECT 1 AS one WHERE FALSE")
    note("rows", (cursor.fetchall(), [column[0] for column in cursor.description]))


def test_all_types(driver, note, schema):
    cursor = driver(database=schema).cursor()
    cursor.execute(ALL_TYPES)
    for insert in TYPE_ROWS:
        cursor.execute(insert.replace("UUID()", "'123e4567-e89b-12d3-a456-426655440000'"))
    cursor.execute("SELECT * FROM types")
    note("rows", [tuple(map(str, row)) for row in cursor.fetchall()])
    note("description", [tuple(column[:7]) for column in cursor.description])


@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
def test_all_types_on_the_wire(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    assert isinstance(connection.query(ALL_TYPES), Ok)
    for insert in TYPE_ROWS:
        assert isinstance(connection.query(insert.replace("UUID()", "'123e4567-e89b-12d3-a456-426655440000'")), Ok)
    note("text", connection.query("SELECT * FROM types"))
    prepared = note("prepared", connection.prepare("SELECT * FROM types WHERE id > ?")[1:])
    statement = connection.prepare("SELECT * FROM types WHERE id > ?").statement
    note("binary", connection.execute(statement, [b"0"]))
    assert len(prepared[1]) == 37


@pytest.mark.slow
def test_hundred_thousand_rows(driver, note, schema):
    cursor = driver(database=schema).cursor()
    cursor.execute("SELECT seq, REPEAT(CHAR(97 + seq MOD 26), seq MOD 50) FROM seq_1_to_100000")
    rows = cursor.fetchall()
    assert len(rows) == 100_000
    assert rows[99_999][0] == 100_000
    note("checksum", hash_of(rows))


def hash_of(rows):
    digest = hashlib.sha256()
    for row in rows:
        digest.update(repr(row).encode())
    return digest.hexdigest()


@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
@pytest.mark.parametrize("size", [
    raw.MAX_PAYLOAD - 5, raw.MAX_PAYLOAD - 4, raw.MAX_PAYLOAD - 3, 20 << 20, 2 * raw.MAX_PAYLOAD - 4], ids=str)
def test_one_large_row(client, capabilities, size):
    """Rows around the packet limit, where an empty or a continuation packet follows, and a value of 20 MiB."""
    connection = client(capabilities=capabilities)
    rows = connection.query(f"SELECT REPEAT(CHAR(254), {size})")
    assert isinstance(rows, Rows), rows
    assert len(rows.rows) == 1 and len(rows.rows[0][0]) == size
    assert rows.rows[0][0] == b"\xfe" * size
    assert connection.value("SELECT 'next'") == b"next"


@pytest.mark.parametrize("size", [raw.MAX_PAYLOAD - 20, raw.MAX_PAYLOAD - 18, raw.MAX_PAYLOAD - 17, 20 << 20], ids=str)
def test_large_statement(client, size):
    """Statements around the packet limit and of 20 MiB."""
    connection = client()
    for exact in range(size, size + 3):
        assert connection.value(f"SELECT LENGTH('{'x' * exact}')") == str(exact).encode()
    assert connection.ping()[0] == 0


def test_large_values_through_client_libraries(driver, note, schema):
    connection = driver(database=schema)
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE blobs (id INT PRIMARY KEY, b LONGBLOB)")
    value = bytes(range(256)) * (80 << 10)  # 20 MiB of every byte
    cursor.execute("INSERT INTO blobs VALUES (1, %s)", (value,))
    connection.commit()
    cursor.execute("SELECT b FROM blobs")
    assert cursor.fetchall()[0][0] == value


@pytest.mark.slow
def test_gibibyte_to_a_slow_reader(client, site, schema):
    """A result larger than memory should hold, to a client that reads slower than the server writes."""
    connection = client(schema=schema)
    before = site.onramp.memory() if site.through else 0
    peak, received = before, 0
    connection.command(raw.QUERY, b"SELECT REPEAT('x', 1048000) FROM seq_1_to_1024")
    tail = b""
    slow_until = time.monotonic() + 3
    while received <= 1024 * 1048000 or not ends_with_ok(tail):
        piece = connection.socket.recv(1 << 20)
        assert piece, "closed in the middle"
        received += len(piece)
        tail = (tail + piece)[-64:]
        if site.through:
            peak = max(peak, site.onramp.memory())
        if time.monotonic() < slow_until:
            time.sleep(0.01)
    connection.sequence = 0
    assert connection.value("SELECT 'after'") == b"after"
    assert peak - before < 64 << 20, f"grew by {(peak - before) >> 20} MiB"


def ends_with_ok(tail):
    """Whether the last packet is the OK that ends a result: 0xfe, 0 rows, 0 id, status, warnings."""
    return len(tail) > 11 and tail[-11:-8] == b"\x07\x00\x00" and tail[-7:-4] == b"\xfe\x00\x00"


def test_client_that_stops_reading_and_leaves(client, schema):
    """The rest of its result is nobody else's."""
    for _ in range(6):
        leaving = client(schema=schema)
        leaving.command(raw.QUERY, b"SELECT REPEAT('leak', 250000) FROM seq_1_to_100")
        assert leaving.socket.recv(1000)[:5] == b"\x01\x00\x00\x01\x01"  # one column
        leaving.close()
    for _ in range(8):
        assert client().value("SELECT 'mine'") == b"mine"


def test_multi_statements_without_the_capability(client, note):
    connection = client()
    answer = note("refused", connection.query("SELECT 1; SELECT 2"))
    assert answer.code == 1064
    note("afterwards", connection.query("SELECT 3"))


@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
def test_multi_statements(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities | raw.MULTI_STATEMENTS)
    for text in [
        "SELECT 1; SELECT 2, 3", "SELECT 1;", "DO 1; DO 2; SELECT 3", "CREATE TABLE m (a INT); INSERT INTO m VALUES (1),(2);"
        "UPDATE m SET a = a + 1; SELECT * FROM m; DELETE FROM m", "SELECT 1; SELECT missing; SELECT 3", "SELEC; SELECT 1",
        "BEGIN; INSERT INTO m VALUES (9); ROLLBACK; SELECT * FROM m", "SET @x = 5; SELECT @x",
        "USE information_schema; SELECT DATABASE()", "SELECT 1 WHERE FALSE; DO 1/0; SHOW WARNINGS",
    ]:
        note(text, connection.query_all(text))
    assert connection.value("SELECT 'next'") == b"next"


def test_set_option_switches_multi_statements(client, note):
    connection = client()
    note("on", connection.simple(raw.SET_OPTION, b"\0\0"))
    note("two", connection.query_all("SELECT 1; SELECT 2"))
    note("off", connection.simple(raw.SET_OPTION, b"\1\0"))
    note("refused", connection.query_all("SELECT 1; SELECT 2"))
    note("unknown", connection.simple(raw.SET_OPTION, b"\7\0"))


def test_set_option_is_one_clients_own(client, note):
    connections = [client() for _ in range(6)]
    assert isinstance(connections[0].simple(raw.SET_OPTION, b"\0\0"), Ok)
    for number, connection in enumerate(connections):
        note(f"client {number}", connection.query_all("SELECT 1; SELECT 2"))


PROCEDURES = [
    "CREATE PROCEDURE two_results() BEGIN SELECT 1 AS a; SELECT 'x' AS b, NULL AS c; END",
    "CREATE PROCEDURE outs(IN a INT, OUT b INT, INOUT c INT) BEGIN SET b = a + 1; SET c = c * 2; SELECT a, b, c; END",
    "CREATE PROCEDURE fails() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'own words', MYSQL_ERRNO = 3456; END",
    "CREATE PROCEDURE nothing() BEGIN END",
    "CREATE FUNCTION twice(a INT) RETURNS INT DETERMINISTIC RETURN a * 2",
]


@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
def test_call(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    for text in PROCEDURES + [
        "CALL two_results()", "CALL nothing()", "SET @c = 21", "CALL outs(1, @b, @c)", "SELECT @b, @c", "CALL fails()",
        "SHOW WARNINGS", "CALL missing()", "SELECT twice(21)", "CALL outs(1, 2, 3)",
    ]:
        note(text, connection.query_all(text))


@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
def test_call_prepared_with_out_parameters(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    for text in PROCEDURES:
        assert isinstance(connection.query(text), Ok)
    prepared = connection.prepare("CALL outs(?, ?, ?)")
    note("out parameters", connection.execute(prepared.statement, [b"1", None, b"21"]))
    note("again", connection.execute(prepared.statement, [b"5", None, b"1"]))


@pytest.mark.parametrize("lacks", [raw.MULTI_RESULTS, raw.PS_MULTI_RESULTS, raw.MULTI_RESULTS | raw.PS_MULTI_RESULTS], ids=["text", "prepared", "both"])
@pytest.mark.parametrize("with_several", [0, raw.MULTI_STATEMENTS], ids=["one", "several"])
def test_call_by_clients_that_take_one_result(client, note, schema, lacks, with_several):
    """While others, who take several, share the backends."""
    usual, connection = client(schema=schema), client(schema=schema, capabilities=raw.USUAL & ~lacks | with_several)
    for text in PROCEDURES:
        assert isinstance(usual.query(text), Ok)
    connection.query("SET lock_wait_timeout = 33")
    for number, each in enumerate((usual, connection, usual)):
        for text in ("SELECT @@lock_wait_timeout", "CALL two_results()", "CALL nothing()", "CALL outs(1, @b, @c)", "SELECT 1; SELECT 2"):
            note(f"{number}: {text}", each.query_all(text))
        prepared = each.prepare("CALL outs(?, ?, ?)")
        if isinstance(prepared, raw.Err):
            note(f"{number}: refused", prepared)
        else:
            note(f"{number}: prepared", each.execute(prepared.statement, [b"1", None, b"21"]))
        note(f"{number}: goes on", each.query("SELECT 3"))
        each.reset()


def test_call_in_client_libraries(driver, note, schema):
    connection = driver(database=schema)
    cursor = connection.cursor()
    for text in PROCEDURES:
        cursor.execute(text)
    note("callproc", cursor.callproc("outs", (1, 0, 21)))
    if driver.name == "connector":
        note("results", [result.fetchall() for result in cursor.stored_results()])
    else:
        note("results", (cursor.fetchall(), cursor.nextset()))
    cursor.close()
    cursor = connection.cursor()
    cursor.execute("SELECT 'usable'")
    note("usable", cursor.fetchall())


def send_file(connection, pieces):
    """Answers a LOCAL INFILE request, whose sequence number the pieces continue."""
    for piece in pieces:
        connection.send(piece)
    connection.send(b"")
    return connection.ok_or_error(connection.receive())


@pytest.mark.slow
@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
def test_load_data_local(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities | raw.LOCAL_FILES)
    connection.query("CREATE TABLE loaded (a INT, b VARCHAR(50))")
    load = "LOAD DATA LOCAL INFILE 'any name.csv' INTO TABLE loaded FIELDS TERMINATED BY ','"
    for label, pieces in {
        "small": [b"1,one\n2,two\n"],
        "none": [],
        "cut anywhere": [b"3,th", b"ree\n4,fo", b"ur", b"\n"],
        "warnings": [b"x,bad\n5,five,six\n"],
        "many packets": [b"".join(b"%d,row\n" % n for n in range(k * 100, k * 100 + 100)) for k in range(600)],
        "large packet": [b"7," + b"x" * 1000 + b"\n"] + [b"8,eight\n" * 1_000_000],
    }.items():
        assert note("request", connection.query(load)) == LocalInfile("any name.csv")
        note(label, send_file(connection, pieces))
        note("warnings", connection.query("SHOW WARNINGS"))
        note("content", connection.query("SELECT COUNT(*), SUM(a), MAX(b) FROM loaded"))


def test_load_data_local_refused(client, note, schema):
    connection = client(schema=schema, capabilities=raw.USUAL)
    connection.query("CREATE TABLE loaded (a INT)")
    note("without the capability", connection.query("LOAD DATA LOCAL INFILE 'f' INTO TABLE loaded"))
    note("missing table", connection.query("LOAD DATA LOCAL INFILE 'f' INTO TABLE nowhere"))
    note("afterwards", connection.query("SELECT 1"))


def test_load_data_local_in_client_libraries(driver, note, schema, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{n},name {n}\n" for n in range(10_000)))
    option = {"pymysql": "local_infile", "connector": "allow_local_infile"}[driver.name]
    connection = driver(database=schema, **{option: True})
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE loaded (a INT, b VARCHAR(50))")
    cursor.execute(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE loaded FIELDS TERMINATED BY ','")
    note("count", cursor.rowcount)
    connection.commit()
    cursor.execute("SELECT COUNT(*), SUM(a) FROM loaded")
    note("content", cursor.fetchall())


def test_pipelined_commands(client, note):
    """Commands written ahead are answered in order, one after the other."""
    connection = client()
    out = bytearray()
    texts = [b"SELECT %d" % n for n in range(100)] + [b"SELEC", b"SET @a = 7", b"SELECT @a", b"DO 1/0"]
    for text in texts:
        connection.sequence = 0
        out += connection.packets(bytes([raw.QUERY]) + text)
    connection.send_bytes(out)
    for text in texts:
        connection.sequence = 1
        note(text.decode(), connection.result())
    assert isinstance(connection.ping(), Ok)


def test_pipelined_then_gone(client, note):
    connection = client()
    connection.sequence = 0
    pieces = b""
    for kind, text in [(raw.QUERY, b"SELECT 1"), (raw.PING, b""), (raw.QUERY, b"SELECT 2"), (raw.QUIT, b"")]:
        connection.sequence = 0
        pieces += connection.packets(bytes([kind]) + text)
    connection.send_bytes(pieces)
    for _ in range(3):
        connection.sequence = 1
        note("reply", connection.result())
    assert connection.at_end()


def test_byte_by_byte(client, note):
    connection = client()
    connection.sequence = 0
    for byte in connection.packets(b"\x03SELECT 'slowly sent', 1 + 1, 2"):
        connection.send_bytes(bytes([byte]))
    note("answer", connection.result())


def test_clients_at_the_same_time(client, note):
    """Forty threads with tokens of their own: no reply goes astray."""
    def work(number):
        """Its tokens, and what came for them."""
        connection = client()
        tokens = [f"token-{number}-{count}" for count in range(50)]
        return tokens, [connection.value(f"SELECT '{token}'").decode() for token in tokens]

    for join in [in_background(work, number) for number in range(40)]:
        tokens, answers = join()
        assert answers == tokens
    assert not isinstance(client().query("SELECT 1"), Err)
