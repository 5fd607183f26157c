"""Twenty clients on four backends: everything that belongs to a session stays with its client."""

import pytest

from harness import raw
from harness.programs import COUNTS, DIAGNOSTICS, PROBES, SETTINGS, Session, Step, prepare_schemas, query, writes
from harness.raw import Err, Ok, Rows

CLIENTS = 20

# Clients that hold a backend at the same time: one backend of the four stays for all others.
HOLDERS = 3


@pytest.fixture
def sessions(site, admin):
    prepare_schemas(admin, CLIENTS)
    opened = [Session(site) for _ in range(CLIENTS)]
    yield opened
    for session in opened:
        session.close()


def interleave(sessions, programs, random, note):
    """Performs each client's program, in an order drawn from the seed; a pinning program runs while others go on."""
    places = [0] * len(programs)
    holders = set()
    while True:
        open_ones = [n for n, program in enumerate(programs) if places[n] < len(program)]
        if not open_ones:
            return
        choice = [n for n in open_ones if n in holders or not programs[n][places[n]].pins or len(holders) < HOLDERS]
        number = random.choice(choice)
        step = programs[number][places[number]]
        places[number] += 1
        note(f"{number}: {step.action} {step.text}", sessions[number].perform(step))
        if step.pins:
            holders.add(number)
        if step.action in ("reset", "change_user"):
            holders.discard(number)


def texts(*statements):
    return [query(statement) for statement in statements]


@pytest.mark.parametrize("round", range(5))
def test_settings(sessions, seeded, note, round):
    """Settings and probes in random order."""
    seeded.seed(f"settings {round}")
    programs = [[query(seeded.choice(SETTINGS if seeded.random() < 0.4 else PROBES)) for _ in range(25)] for _ in sessions]
    interleave(sessions, programs, seeded, note)


def test_each_client_has_its_own_settings(sessions, seeded, note):
    values = [
        ("time_zone", "'+0%d:00'"), ("sql_select_limit", "1%d"), ("group_concat_max_len", "10%d"), ("div_precision_increment", "%d"),
        ("max_sort_length", "10%d"), ("wait_timeout", "10%d"), ("net_read_timeout", "10%d")]
    programs = []
    for number in range(CLIENTS):
        name, value = values[number % len(values)]
        programs.append(texts(f"SET {name} = {value % (number % 10)}") + [query(f"SELECT @@{name}"), query("SELECT 1")] * 8)
    interleave(sessions, programs, seeded, note)


def test_use(sessions, seeded, note):
    programs = [
        [Step("use", "onramp_b")] * (n % 2) + texts("SELECT DATABASE()", "SELECT w FROM words WHERE id = 1") * 4
        + texts("USE onramp_a", "SELECT DATABASE()", "USE missing", "USE forbidden", "SELECT DATABASE()", "SHOW TABLES LIKE 'w%'")
        for n in range(CLIENTS)]
    interleave(sessions, programs, seeded, note)


def test_dropped_schema(client, admin, note):
    admin.query("CREATE OR REPLACE DATABASE onramp_gone")
    admin.query("CREATE TABLE onramp_gone.t (a INT)")
    connections = [client(schema="onramp_gone") for _ in range(6)]
    note("drop", connections[0].query("DROP DATABASE onramp_gone"))
    for number, connection in enumerate(connections):
        note(f"{number} table", connection.query("SELECT * FROM t"))
        note(f"{number} database", connection.query("SELECT DATABASE()"))
        note(f"{number} use", connection.query("USE onramp_app"))
        note(f"{number} database after", connection.query("SELECT DATABASE()"))


def test_character_sets_in_bytes(sessions, seeded, note):
    """The bytes of a statement and of its result follow the client's own character set."""
    programs = []
    for number in range(CLIENTS):
        name = ["utf8mb4", "latin1", "utf8mb4 COLLATE utf8mb4_bin", "cp1251"][number % 4]
        programs.append(texts(f"SET NAMES {name}") + texts("SELECT w, HEX(w) FROM words", "SELECT 'é', HEX('é')", PROBES[1]) * 4)
    interleave(sessions, programs, seeded, note)


def test_definitions_of_warnings(client):
    """SHOW WARNINGS has the server's column types, however it is answered."""
    clients = [client() for _ in range(8)]
    for connection in clients:
        connection.query("SELECT CAST('x' AS INT)")
    for connection in clients:
        assert [column[6:10] for column in connection.query("SHOW WARNINGS").columns] == [
            (28, 253, 1, 39), (4, 3, 161, 0), (2048, 253, 1, 39)]


def test_collation_of_results(client):
    """The collation's number in column definitions is the one that SET NAMES ... COLLATE set, on every backend."""
    wanted = {"SET NAMES utf8mb4": 45, "SET NAMES utf8mb4 COLLATE utf8mb4_bin": 46, "SET NAMES utf8mb3 COLLATE utf8mb3_unicode_ci": 192,
              "SET collation_connection = utf8mb4_german2_ci": 45, "SET NAMES latin1": 8}
    clients = [(client(), text, number) for text, number in wanted.items() for _ in range(3)]
    for connection, text, _ in clients:
        assert isinstance(connection.query(text), Ok)
    for _ in range(3):
        for connection, text, number in clients:
            assert (text, connection.query("SELECT 'x'").columns[0].charset) == (text, number)


@pytest.mark.parametrize("round", range(3))
def test_ids_counts_and_warnings(sessions, seeded, note, round):
    """What a statement leaves for the next one: LAST_INSERT_ID(), ROW_COUNT(), FOUND_ROWS(), warnings."""
    seeded.seed(f"counts {round}")
    ids = ["SELECT LAST_INSERT_ID()", "SELECT @@identity", "SELECT @@last_insert_id"]
    failing = ["DO 1/0", "SELECT 1/0", "SELEC", "SELECT CAST('a' AS INT), CAST('b' AS INT)", "DROP TABLE IF EXISTS nothing"]
    programs = []
    for number in range(CLIENTS):
        programs.append([
            query(seeded.choice(seeded.choice([writes(number), writes(number), ids, COUNTS, DIAGNOSTICS, failing])))
            for _ in range(30)])
    interleave(sessions, programs, seeded, note)


def test_last_insert_id_stays(sessions, seeded, note):
    """It survives other clients' inserts, reads, failures and a switch of backends."""
    programs = []
    for number in range(CLIENTS):
        programs.append(texts(
            f"INSERT INTO t{number} (v) VALUES ('a'),('b')", "SELECT LAST_INSERT_ID()", "SELECT 1", "SELECT LAST_INSERT_ID()", "SELEC",
            f"INSERT INTO t{number} VALUES ({number * 1000 + 500}, 'explicit', 0)", "SELECT LAST_INSERT_ID()",
            f"SELECT COUNT(*) FROM t{number} WHERE id = LAST_INSERT_ID()", f"INSERT INTO t{number} (v, n) VALUES ('child', 1)",
            "SELECT LAST_INSERT_ID(), @@identity", f"UPDATE t{number} SET v = LAST_INSERT_ID() WHERE id = {number * 1000 + 500}",
            f"SELECT v FROM t{number} ORDER BY id", f"INSERT INTO t{number} (v) SELECT LAST_INSERT_ID()",
            f"SELECT v FROM t{number} ORDER BY id", "SELECT LAST_INSERT_ID() AS a, LAST_INSERT_ID() + 0 AS b"))
    interleave(sessions, programs, seeded, note)


def test_warnings_stay(sessions, seeded, note):
    programs = [texts(
        "SELECT CAST('x%d' AS INT)" % number, "SHOW WARNINGS", "SHOW COUNT(*) WARNINGS", "SHOW WARNINGS", "SELECT @@warning_count",
        "SHOW WARNINGS", f"SELECT missing{number}", "SHOW ERRORS", "SHOW COUNT(*) ERRORS", "SELECT @@error_count", "SHOW WARNINGS",
        "SELECT 1", "SHOW WARNINGS") for number in range(CLIENTS)]
    interleave(sessions, programs, seeded, note)


def test_connection_id(sessions, seeded, note):
    programs = [[Step("connection_id"), *texts("SELECT 1", "SELECT CONNECTION_ID() = @@pseudo_thread_id"), Step("connection_id"),
                 Step("reset"), Step("connection_id"), Step("change_user", "onramp_b"), Step("connection_id")] for _ in sessions]
    interleave(sessions, programs, seeded, note)
    ids = {session.connection.id for session in sessions}
    assert len(ids) == CLIENTS
    for session in sessions:
        assert session.connection.value("SELECT CONNECTION_ID()") == str(session.connection.id).encode()
        assert session.connection.query("SELECT CONNECTION_ID()").columns[0].name == "CONNECTION_ID()"


def test_connection_id_fits_an_int(client, note, schema):
    """Applications keep it in an INT, and drivers in a signed number."""
    connection = client(schema=schema)
    connection.query("CREATE TABLE t (id INT)")
    note("insert", connection.query("INSERT INTO t VALUES (CONNECTION_ID())"))
    assert connection.value("SELECT id FROM t") == str(connection.id).encode()


EXPRESSIONS = pytest.mark.parametrize("expression", ["{}", "{} + 1", "HEX(CONCAT({}))", "({})", "{} * 2.5", "IF({}, {}, 1)", "{} AS a", "{} a"])


@EXPRESSIONS
@pytest.mark.parametrize("call", ["CONNECTION_ID()", "@@pseudo_thread_id", "ROW_COUNT()", "FOUND_ROWS()", "@@warning_count", "@@error_count"])
def test_calls_have_types_and_names_of_the_server(client, note, schema, call, expression):
    note_types_and_names(client, note, schema, expression.format(call, call))


def note_types_and_names(client, note, schema, expression):
    """In the text protocol, in the binary one, and in tables that are made of them."""
    connection = client(schema=schema)
    note("columns", connection.query(f"SELECT {expression}, 1").columns)
    prepared = connection.prepare(f"SELECT 1, {expression}")
    note("prepared", prepared.columns)
    note("executed", connection.execute(prepared.statement)[0].columns)
    note("created", connection.query(f"CREATE TABLE t AS SELECT {expression}"))
    note("table", connection.query("SHOW CREATE TABLE t"))


def test_process_list(client, note):
    """It shows the server's connections, which are not the clients; but one does what we do, as us."""
    connection = client(schema="onramp_app")
    note("own row", connection.query(
        "SELECT USER, DB, COMMAND FROM information_schema.PROCESSLIST WHERE INFO LIKE '%own words%'"))


def pinned(*statements):
    """A program that holds a backend from its first step to its reset."""
    return [query(statement, pins=True) for statement in statements] + [Step("reset"), query("SELECT 'free'")]


PINNING_PROGRAMS = {
    "user variables": lambda n: pinned(f"SET @v = {n}, @w = 'w{n}'", "SELECT @v, @w", "SELECT @v := @v + 1", "SELECT @v", "SELECT @w INTO @v", "SELECT @v"),
    "temporary tables": lambda n: pinned(
        "CREATE TEMPORARY TABLE same_name (v INT)", f"INSERT INTO same_name VALUES ({n})", "SELECT * FROM same_name", "SELECT 1",
        "SELECT * FROM same_name", "ALTER TABLE same_name ADD w INT", "SELECT * FROM same_name"),
    "named locks": lambda n: pinned(
        f"SELECT GET_LOCK('mine{n}', 0)", f"SELECT IS_USED_LOCK('mine{n}') > 0", "SELECT 1", f"SELECT RELEASE_LOCK('mine{n}')",
        f"SELECT RELEASE_LOCK('mine{n}')", f"SELECT GET_LOCK('a{n}', 0), GET_LOCK('b{n}', 0)", "SELECT RELEASE_ALL_LOCKS()"),
    "locked tables": lambda n: pinned(
        f"LOCK TABLES t{n} WRITE", f"INSERT INTO t{n} (v) VALUES ('locked')", "SELECT * FROM words", f"SELECT v FROM t{n}", "UNLOCK TABLES",
        "SELECT w FROM words"),
    "prepared by text": lambda n: pinned(
        f"PREPARE s FROM 'SELECT {n}, ?'", "SET @p = 5", "EXECUTE s USING @p", "SELECT 1", "EXECUTE s USING @p", "DEALLOCATE PREPARE s",
        "EXECUTE s USING @p"),
    "prepared binary": lambda n: [
        Step("prepare", f"SELECT {n}, ?", True), Step("execute", "a", True), query("SELECT 1"), Step("execute", "b", True),
        Step("prepare", "SELECT @@sql_mode, ?", True), Step("execute", "c", True), Step("close_statement", "", True), Step("execute", "d", True),
        Step("reset"), query("SELECT 1")],
    "found rows": lambda n: pinned(
        "SELECT SQL_CALC_FOUND_ROWS * FROM words LIMIT 1", "SELECT FOUND_ROWS()", f"SELECT SQL_CALC_FOUND_ROWS {n} FROM words LIMIT 2",
        "SELECT FOUND_ROWS()", "SELECT 1", "SELECT FOUND_ROWS()"),
    "transactions": lambda n: pinned(
        "BEGIN", f"INSERT INTO t{n} (v) VALUES ('in')", f"SELECT COUNT(*) FROM t{n}", "SAVEPOINT s", f"DELETE FROM t{n}", "ROLLBACK TO s",
        f"SELECT COUNT(*) FROM t{n}", "ROLLBACK", f"SELECT COUNT(*) FROM t{n}"),
    "autocommit off": lambda n: pinned(
        "SET autocommit = 0", "SELECT @@autocommit", f"INSERT INTO t{n} (v) VALUES ('in')", "SELECT @@in_transaction", "ROLLBACK",
        f"SELECT COUNT(*) FROM t{n}", "SET autocommit = 1", f"INSERT INTO t{n} (v) VALUES ('in')", f"SELECT COUNT(*) FROM t{n}"),
    "timestamp": lambda n: pinned(f"SET timestamp = {86400 * (n + 1)}", "SELECT @@timestamp", "SELECT 1", "SELECT @@timestamp"),
    "procedures": lambda n: pinned(f"CALL remember({n})", "SELECT @remembered", "CALL warn()", "SHOW WARNINGS", "SELECT bump()", "SELECT bump(), @bumped"),
    "sequences": lambda n: pinned(
        f"CREATE SEQUENCE q{n} START WITH {n + 1}", f"SELECT NEXTVAL(q{n})", f"SELECT LASTVAL(q{n})", "SELECT 1", f"SELECT LASTVAL(q{n})"),
    "handlers": lambda n: pinned("HANDLER words OPEN", "HANDLER words READ FIRST", "SELECT 1", "HANDLER words READ NEXT", "HANDLER words CLOSE"),
    # A reset leaves a role as it is, and with it the pin.
    "roles": lambda n: pinned("SELECT CURRENT_ROLE()", "SET ROLE NONE", "SELECT CURRENT_ROLE()", "SET ROLE missing")[:-2] + [
        Step("change_user", "onramp_a"), query("SELECT 'free'")],
}


@pytest.mark.parametrize("name", sorted(PINNING_PROGRAMS))
def test_pinning_state(sessions, seeded, note, name):
    """Each client in turn holds such state, three at a time, while the others go on."""
    programs = []
    for number in range(CLIENTS):
        program = PINNING_PROGRAMS[name](number)
        programs.append([query("SELECT 'before'")] * 3 + program + [query(probe) for probe in seeded.sample(PROBES, 3)])
    interleave(sessions, programs, seeded, note)


def test_all_kinds_of_pins_at_once(sessions, seeded, note):
    makers = [PINNING_PROGRAMS[name] for name in sorted(PINNING_PROGRAMS)]
    programs = [makers[number % len(makers)](number) + makers[(number * 7 + 3) % len(makers)](number) for number in range(CLIENTS)]
    interleave(sessions, programs, seeded, note)


def test_state_of_a_client_that_left(site, admin, note):
    """A newcomer never finds what another left, neither after a QUIT nor after a broken connection."""
    prepare_schemas(admin, 1)
    leavings = ["SET @v = 'left'", "CREATE TEMPORARY TABLE leftover (a INT)", "SELECT GET_LOCK('left', 0)", "LOCK TABLES words WRITE",
                "PREPARE s FROM 'SELECT 1'", "SET sql_mode = 'ANSI'", "SET NAMES latin1", "USE onramp_b", "SET autocommit = 0",
                "SET time_zone = '+07:00'", "BEGIN", "HANDLER words OPEN", "SET timestamp = 1", "SET SESSION TRANSACTION READ ONLY"]
    for leaving in leavings:
        for leave in (lambda s: s.connection.quit(), lambda s: s.connection.close()):
            session = Session(site)
            first = session.connection.query(leaving)
            assert not isinstance(first, Err), (leaving, first)
            leave(session)
            newcomer = Session(site)
            for probe in ["SELECT @v IS NULL, CHARSET(@v)", "SELECT * FROM leftover", "EXECUTE s", "SELECT @@timestamp > 1e9", "INSERT INTO words VALUES (9, 'x')",
                          "DELETE FROM words WHERE id = 9", *PROBES[:5]]:
                note(f"{leaving}: {probe}", newcomer.connection.query(probe))
            newcomer.close()


def test_named_lock_between_clients(client, note):
    """A lock that one client holds is refused to another, is waited for, and is free when its holder leaves."""
    holder, other = client(), client()
    note("held", holder.query("SELECT GET_LOCK('shared', 0)"))
    note("refused", other.query("SELECT GET_LOCK('shared', 0)"))
    assert other.value("SELECT IS_USED_LOCK('shared')") not in (None, b"0")
    other.command(raw.QUERY, b"SELECT GET_LOCK('shared', 20)")
    holder.close()
    note("waited", other.results())
    # The end of a connection frees it a moment later, and the next one of this test asks for it at once.
    assert other.value("SELECT RELEASE_LOCK('shared')") == b"1"


def test_reset_connection(sessions, note):
    session = sessions[0]
    for setting in ["SET NAMES latin1", "SET sql_mode = 'ANSI'", "SET @v = 1", "USE onramp_b", "CREATE TEMPORARY TABLE gone (a INT)", "BEGIN"]:
        assert not isinstance(session.connection.query(setting), Err)
    note("reset", session.connection.reset())
    for probe in [*PROBES[:7], "SELECT @v", "SELECT * FROM gone", "SELECT @@in_transaction", "SELECT ROW_COUNT()", "SHOW WARNINGS"]:
        note(probe, session.connection.query(probe))


def test_change_user(client, note):
    connection = client(schema="onramp_app")
    connection.query("SET @v = 1, sql_mode = 'ANSI'")
    note("to other", connection.change_user("other", "other-secret"))
    for probe in ["SELECT CURRENT_USER(), USER()", "SELECT DATABASE()", "SELECT @v", "SELECT @@sql_mode", "USE onramp_app"]:
        note(probe, connection.query(probe))
    note("to empty", connection.change_user("empty", ""))
    note("who", connection.query("SELECT CURRENT_USER()"))
    note("back", connection.change_user("app", "app-secret", "onramp_app"))
    note("who again", connection.query("SELECT CURRENT_USER(), DATABASE()"))


@pytest.mark.parametrize("before", ["DO 1", "PREPARE s FROM 'SELECT 1'"], ids=["reset", "closed"])
def test_change_user_is_over_with_its_locks(client, note, schema, before):
    """The server gives up what the client held before it answers, however long the rollback takes."""
    connection = client(schema=schema)
    connection.query("CREATE TABLE many (a INT PRIMARY KEY) ENGINE=InnoDB")
    for text in [before, "BEGIN", "INSERT INTO many SELECT seq FROM seq_1_to_100000", "SELECT GET_LOCK('held', 0)"]:
        note(text, connection.query(text))
    note("changed", connection.change_user("app", "app-secret", schema))
    connection.query("SET innodb_lock_wait_timeout = 0")
    note("named lock", connection.query("SELECT GET_LOCK('held', 0)"))
    note("rows", connection.query("INSERT INTO many VALUES (7)"))


@pytest.mark.parametrize("user, password, schema", [
    ("other", "wrong", ""), ("nobody", "x", ""), ("app", "app-secret", "forbidden"), ("app", "app-secret", "onramp_missing")])
def test_change_user_refused(client, note, user, password, schema):
    connection = client()
    note("refused", connection.change_user(user, password, schema))
    try:
        note("afterwards", connection.query("SELECT CURRENT_USER()"))
    except raw.Closed:
        note("afterwards", "closed")


def test_more_pinned_clients_than_backends(client, site, schema):
    """A pin is waited for: who asks while all backends are held gets one when a holder ends."""
    if not site.through:
        return
    # Logged in before: the first login with a schema needs a backend itself.
    waiting = client(schema=schema)
    holders = [client(schema=schema) for _ in range(4)]
    for holder in holders:
        assert isinstance(holder.query("BEGIN"), Ok)
        holder.query("SELECT * FROM information_schema.SCHEMATA LIMIT 1")
        holder.query("CREATE TEMPORARY TABLE held (a INT)")
    waiting.command(raw.QUERY, b"SELECT 'waited'")
    assert isinstance(holders[0].reset(), Ok)
    assert waiting.results()[0].rows == [(b"waited",)]


def test_global_variable_change_leaves_sessions_alone(client, admin, note):
    """Sessions that stand keep their value (new ones see the change with their backend, at the latest)."""
    old = client()
    assert old.value("SELECT @@div_precision_increment") == b"4"
    admin.query("SET GLOBAL div_precision_increment = 6")
    try:
        note("old", old.query("SELECT 1/3"))
    finally:
        admin.query("SET GLOBAL div_precision_increment = 4")


def test_init_connect(client, admin, note):
    assert isinstance(client().query("SELECT 1"), Rows)  # by a backend that stands
    admin.query("SET GLOBAL init_connect = 'SET @from_init = 5'")
    try:
        note("value", client().query("SELECT @from_init"))
    finally:
        admin.query("SET GLOBAL init_connect = ''")
