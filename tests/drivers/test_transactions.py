"""Transactions: their ends, what they hide, and what happens when two meet."""

import threading

import pytest

from harness import raw
from harness.raw import Err, Ok


def table(connection, rows=3):
    assert isinstance(connection.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)"), Ok)
    values = ",".join(f"({n},0)" for n in range(1, rows + 1))
    assert isinstance(connection.query(f"INSERT INTO t VALUES {values}"), Ok)


def test_statuses(client, note, schema):
    connection = client(schema=schema)
    table(connection)
    for text in [
        "BEGIN", "SELECT 1", "UPDATE t SET v = 1", "SAVEPOINT one", "UPDATE t SET v = 2", "ROLLBACK TO one", "SELECT v FROM t",
        "RELEASE SAVEPOINT one", "ROLLBACK TO one", "COMMIT", "SELECT v FROM t", "START TRANSACTION READ ONLY",
        "UPDATE t SET v = 3", "ROLLBACK", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT AND CHAIN", "COMMIT",
        "SET autocommit = 0", "SELECT 1", "SELECT v FROM t", "UPDATE t SET v = 4", "ROLLBACK", "SELECT v FROM t", "COMMIT",
        "UPDATE t SET v = 5", "SET autocommit = 1", "SELECT v FROM t", "BEGIN", "UPDATE t SET v = 6",
        "CREATE TABLE implicit (a INT)", "ROLLBACK", "SELECT v FROM t", "BEGIN", "UPDATE t SET v = 7", "BEGIN", "ROLLBACK",
        "SELECT v FROM t", "BEGIN", "INSERT INTO t VALUES (1, 1)", "SELECT missing", "SELECT 1", "ROLLBACK",
        "XA START 'x'", "UPDATE t SET v = 8", "XA END 'x'", "XA PREPARE 'x'", "XA RECOVER", "XA ROLLBACK 'x'", "COMMIT WORK",
        "LOCK TABLES t WRITE", "UPDATE t SET v = 9", "UNLOCK TABLES", "BEGIN", "ROLLBACK RELEASE",
    ]:
        note(text, connection.query(text))
    assert connection.at_end()


def test_isolation_between_clients(client, note, schema):
    writer, reader = client(schema=schema), client(schema=schema)
    table(writer)
    note("begin", writer.query("BEGIN"))
    note("update", writer.query("UPDATE t SET v = 1 WHERE id = 1"))
    note("unseen", reader.query("SELECT v FROM t"))
    note("seen by itself", writer.query("SELECT v FROM t"))
    note("commit", writer.query("COMMIT"))
    note("seen", reader.query("SELECT v FROM t"))
    note("snapshot", reader.query("START TRANSACTION WITH CONSISTENT SNAPSHOT"))
    writer.query("UPDATE t SET v = 2")
    note("old snapshot", reader.query("SELECT v FROM t"))
    reader.query("COMMIT")
    note("new", reader.query("SELECT v FROM t"))


def test_more_transactions_than_backends_take_turns(client, schema):
    """Twelve clients with transactions that each end by themselves, on four backends."""
    first = client(schema=schema)
    first.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    first.query("INSERT INTO t VALUES (1, 0)")
    failures = []

    def work():
        connection = client(schema=schema)
        for _ in range(20):
            for text in ("BEGIN", "SELECT v FROM t WHERE id = 1 FOR UPDATE", "UPDATE t SET v = v + 1 WHERE id = 1", "COMMIT"):
                answer = connection.query(text)
                if isinstance(answer, Err):
                    failures.append((text, answer))

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert first.value("SELECT v FROM t") == b"240"


def test_deadlock(client, note, schema):
    """One of two is told 1213 and is out of its transaction, the other goes on."""
    one, two = client(schema=schema), client(schema=schema)
    table(one)
    for connection, row in ((one, 1), (two, 2)):
        connection.query("BEGIN")
        connection.query(f"UPDATE t SET v = {row} WHERE id = {row}")
    one.command(raw.QUERY, b"UPDATE t SET v = 10 WHERE id = 2")
    two.command(raw.QUERY, b"UPDATE t SET v = 20 WHERE id = 1")
    answers = [one.results()[0], two.results()[0]]
    losers = [answer for answer in answers if isinstance(answer, Err)]
    assert len(losers) == 1, answers
    assert note("loser", losers[0])[:2] == (1213, "40001")
    winner, loser = (one, two) if isinstance(answers[1], Err) else (two, one)
    assert not loser.query("SELECT 1").status & raw.IN_TRANS
    assert winner.query("SELECT 1").status & raw.IN_TRANS
    assert isinstance(winner.query("COMMIT"), Ok)
    assert loser.query("SELECT SUM(v > 0) FROM t").rows == [(b"2",)]


def test_lock_wait_timeout(client, note, schema):
    holder, waiter = client(schema=schema), client(schema=schema)
    table(holder)
    holder.query("BEGIN")
    holder.query("UPDATE t SET v = 1 WHERE id = 1")
    waiter.query("SET innodb_lock_wait_timeout = 1")
    assert note("waiter", waiter.query("UPDATE t SET v = 2 WHERE id = 1"))[:2] == (1205, "HY000")
    note("holder", holder.query("COMMIT"))
    note("now", waiter.query("UPDATE t SET v = 2 WHERE id = 1"))


def test_client_gone_in_a_transaction(client, note, schema):
    """Its work is rolled back and its locks are free."""
    other = client(schema=schema)
    table(other)
    for _ in range(6):
        leaving = client(schema=schema)
        leaving.query("BEGIN")
        assert isinstance(leaving.query("UPDATE t SET v = 99"), Ok)
        leaving.socket.close()
    note("rolled back", other.query("UPDATE t SET v = 1"))
    note("content", other.query("SELECT v FROM t"))


def test_quit_in_a_transaction(client, note, schema):
    other = client(schema=schema)
    table(other)
    leaving = client(schema=schema)
    leaving.query("SET autocommit = 0")
    leaving.query("UPDATE t SET v = 99")
    leaving.quit()
    note("rolled back", other.query("UPDATE t SET v = 1"))
    note("content", other.query("SELECT v FROM t"))


def test_client_libraries(driver, note, schema):
    connection, other = driver(database=schema), driver(database=schema)
    cursor, looking = connection.cursor(), other.cursor()
    cursor.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    cursor.execute("INSERT INTO t (v) VALUES (1)")
    looking.execute("SELECT COUNT(*) FROM t")
    note("before commit", looking.fetchall())
    other.rollback()
    connection.commit()
    looking.execute("SELECT COUNT(*) FROM t")
    note("after commit", looking.fetchall())
    other.rollback()
    cursor.execute("UPDATE t SET v = 2")
    connection.rollback()
    cursor.execute("SELECT v FROM t")
    note("after rollback", cursor.fetchall())
    note("insert id", cursor.lastrowid)


def test_next_transaction_only(client, note, schema):
    connection = client(schema=schema)
    table(connection)
    note("set", connection.query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"))
    note("session value", connection.query("SELECT @@tx_isolation"))
    note("set read only", connection.query("SET TRANSACTION READ ONLY"))
    note("used up", connection.query("UPDATE t SET v = 1"))
    note("back to normal", connection.query("UPDATE t SET v = 2"))
    connection.query("BEGIN")
    note("inside", connection.query("SET TRANSACTION READ ONLY"))
    connection.query("ROLLBACK")


def test_next_transaction_is_one_clients_own(client, schema):
    clients = [client(schema=schema) for _ in range(8)]
    table(clients[0])
    assert isinstance(clients[3].query("SET TRANSACTION READ ONLY"), Ok)
    for number, connection in enumerate(clients):
        answer = connection.query("UPDATE t SET v = v + 1 WHERE id = 1")
        assert isinstance(answer, Err) == (number == 3), (number, answer)


def test_isolation_set_within_a_transaction_that_autocommit_ends(own_server, own_onramp):
    """Until a COMMIT the server would begin transactions of that level as before, whoever has the backend then."""
    onramp = own_onramp(own_server, max_backends=1, workers=1)
    level = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"
    with raw.connect(onramp, schema="onramp_app") as one, raw.connect(onramp, schema="onramp_app") as other:
        for connection, text in [
            (one, "CREATE TABLE of_levels (id INT PRIMARY KEY)"), (other, level), (one, "SET autocommit = 0"),
            (one, "INSERT INTO of_levels VALUES (1)"), (one, level), (one, "SET autocommit = 1"),
        ]:
            assert isinstance(connection.query(text), Ok)
        for connection in [other, one]:
            # The level takes no snapshot, of which the server warns.
            assert connection.query("START TRANSACTION WITH CONSISTENT SNAPSHOT").warnings == 1
            connection.query("ROLLBACK")


ONLY_READS = {
    "begun so": ["SET autocommit = 0", "START TRANSACTION READ ONLY", "SELECT * FROM looked_at", "SET autocommit = 1"],
    "and nothing read": ["SET autocommit = 0", "START TRANSACTION READ ONLY", "SET autocommit = 1"],
    "in one text": ["SET autocommit = 0; START TRANSACTION READ ONLY; SET autocommit = 1"],
    "in a chain": ["SET TRANSACTION READ ONLY", "SET autocommit = 0", "SELECT * FROM looked_at", "COMMIT AND CHAIN", "SET autocommit = 1", "ROLLBACK"],
    "said behind a COMMIT": ["COMMIT; SET TRANSACTION READ ONLY", "ROLLBACK"],
}


@pytest.mark.parametrize("name", sorted(ONLY_READS))
def test_a_transaction_that_only_reads_is_nobody_elses(own_server, own_onramp, name):
    """The server would go on with such ones behind `SET autocommit` and AND CHAIN, whoever has the backend then."""
    onramp = own_onramp(own_server, max_backends=1, workers=1)
    several = raw.USUAL | raw.MULTI_STATEMENTS
    with raw.connect(onramp, schema="onramp_app", capabilities=several) as one, raw.connect(onramp, schema="onramp_app") as other:
        assert isinstance(one.query("CREATE TABLE looked_at (id INT PRIMARY KEY)"), Ok)
        for text in ONLY_READS[name]:
            for answer in one.query_all(text):
                assert not isinstance(answer, Err), (text, answer)
        assert isinstance(other.query("INSERT INTO looked_at VALUES (1)"), Ok)


@pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])
def test_every_packet_says_whether_a_transaction_is_open(client, note, schema, capabilities):
    """Some clients look at the packet between columns and rows, and answers that were kept from before BEGIN say it too."""
    connection = client(schema=schema, capabilities=capabilities)
    table(connection)
    for text in ["SELECT missing", "SHOW ERRORS", "BEGIN", "SHOW ERRORS", "SHOW WARNINGS", "SELECT v FROM t", "SELECT 1 / 0",
                 "SHOW WARNINGS", "COMMIT", "SHOW WARNINGS", "SELECT 1"]:
        connection.command(raw.QUERY, text.encode())
        note(text, status_flags(connection))


def status_flags(connection):
    """The flags of each packet that ends columns or rows, or is the whole answer."""
    found, first = [], connection.receive()
    if first[0] == 0xFF:
        return ["error"]
    if first[0] == 0:
        return [first[3] & (raw.IN_TRANS | raw.AUTOCOMMIT)]
    deprecate_eof = connection.capabilities & raw.DEPRECATE_EOF
    while len(found) < (1 if deprecate_eof else 2):
        packet = connection.receive()
        if packet[0] == 0xFE and len(packet) < 9:
            found.append(packet[3] & (raw.IN_TRANS | raw.AUTOCOMMIT))
    return found


def everybody_else(client, schema, times=8):
    """Other clients have every backend in turn."""
    for other in [client(schema=schema) for _ in range(times)]:
        other.query("INSERT INTO t VALUES (NULL, 5), (NULL, 6)")
        other.query("SELECT v FROM t")


def test_what_an_earlier_statement_of_the_same_text_leaves(client, note, schema):
    """As Entity Framework asks for the row that it has just inserted."""
    connection = client(schema=schema, capabilities=raw.USUAL | raw.MULTI_STATEMENTS)
    connection.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
    everybody_else(client, schema)
    note("inserted", connection.query_all(
        "INSERT INTO t (v) VALUES (1); SELECT v FROM t WHERE ROW_COUNT() = 1 AND id = LAST_INSERT_ID()"))
    note("found", connection.query_all("SELECT v FROM t LIMIT 3; SELECT FOUND_ROWS()"))
    everybody_else(client, schema)
    note("found before", connection.query_all("SET @@sql_notes = 1; SELECT FOUND_ROWS()"))
    note("warned", connection.query_all("INSERT IGNORE INTO t VALUES (1, 1), (1, 2); SELECT @@warning_count"))


def test_the_id_that_load_data_has_given(client, note, schema):
    connection = client(schema=schema, capabilities=raw.USUAL | raw.LOCAL_FILES)
    connection.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) AUTO_INCREMENT = 700")
    assert connection.query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t (v)") == raw.LocalInfile("x")
    connection.send(b"1\n2\n")
    connection.send(b"")
    note("loaded", connection.result(False))
    everybody_else(client, schema)
    note("id", connection.query("SELECT LAST_INSERT_ID()"))


def test_a_savepoint_before_the_first_table(client, note, schema):
    """Without autocommit a savepoint begins the transaction, which the status does not say yet."""
    connection = client(schema=schema)
    connection.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
    note("off", connection.query("SET autocommit = 0"))
    note("savepoint", connection.query("SAVEPOINT s"))
    everybody_else(client, schema)
    note("insert", connection.query("INSERT INTO t (v) VALUES (77)"))
    note("back", connection.query("ROLLBACK TO s"))
    note("commit", connection.query("COMMIT"))
    note("rows", connection.query("SELECT COUNT(*) FROM t WHERE v = 77"))


def test_becoming_somebody_else_ends_the_transaction_first(client, note, schema):
    """Ahead of the password, which may take its time, or never come."""
    connection, other = client(schema=schema), client(schema=schema)
    connection.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    connection.query("INSERT INTO t VALUES (1, 1)")
    other.query("SET innodb_lock_wait_timeout = 5")
    note("begun", connection.query("BEGIN"))
    note("updated", connection.query("UPDATE t SET v = 2"))
    token = raw.TOKENS[connection.greeting.usual_plugin]("wrong", connection.greeting.scramble)
    connection.command(raw.CHANGE_USER, b"app\0" + bytes([len(token)]) + token + b"\0")
    note("updated by another", other.query("UPDATE t SET v = v + 10"))
    note("rows", other.query("SELECT v FROM t"))
