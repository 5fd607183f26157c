"""Every command of the protocol, the rare ones too."""

import struct

import pytest

from harness import raw
from harness.raw import Closed, Err, Ok, Rows

BOTH = pytest.mark.parametrize("capabilities", [raw.USUAL, raw.USUAL & ~raw.DEPRECATE_EOF], ids=["ok", "eof"])


def test_ping(client, note):
    connection = client()
    for _ in range(3):
        note("ping", connection.ping())


def test_ping_in_a_transaction(client, note):
    connection = client()
    connection.query("BEGIN")
    note("ping", connection.ping())
    connection.query("COMMIT")
    note("ping after", connection.ping())
    connection.query("SET autocommit = 0")
    note("ping without autocommit", connection.ping())


def test_ping_in_client_libraries(driver):
    driver().ping(reconnect=False)


def test_init_db(client, note, schema):
    connection = client()
    for name in [schema, "missing", "forbidden", "", "onramp_app", "x" * 100]:
        note(name, connection.use(name))
        note("database", connection.query("SELECT DATABASE()"))


def test_statistics(client):
    """A line for people, neither OK nor ERR."""
    connection = client()
    connection.command(raw.STATISTICS)
    assert connection.receive().startswith(b"Uptime: ")
    assert isinstance(connection.ping(), Ok)


def test_debug(client, note):
    note("refused", client().simple(raw.DEBUG))
    note("allowed", client("admin", "admin-secret").simple(raw.DEBUG))


@BOTH
def test_field_list(client, note, schema, capabilities):
    connection = client(schema=schema, capabilities=capabilities)
    connection.query("CREATE TABLE f (id INT PRIMARY KEY, name VARCHAR(20) DEFAULT 'x', nothing INT)")
    for body in [b"f\0", b"f\0n%", b"missing\0", b"f\0zzz"]:
        note(f"{body}", fields_of(connection, body))
    note("usable", connection.query("SELECT 1"))


def test_field_list_without_a_schema_behind_a_common_table_expression(client, note):
    """MariaDB answers such a one with a bare OK."""
    connection = client()
    note("held", connection.query("SELECT GET_LOCK('field_list', 0)"))
    note("read", connection.query("WITH c AS (SELECT 1 FROM t) SELECT * FROM c"))
    note("fields", fields_of(connection, b"t\0%"))
    note("usable", connection.query("SELECT 1"))


def fields_of(connection, body):
    connection.command(raw.FIELD_LIST, body)
    fields = []
    while True:
        payload = connection.receive()
        if payload[0] == 0xFF:
            return [*fields, connection.error(payload)]
        if payload[0] == 0xFE and len(payload) < 10:
            return [*fields, connection.end_of_rows(payload)]
        fields.append(payload)
        if payload[0] == 0:
            return fields


@pytest.mark.parametrize("byte", [0x00, 0x05, 0x06, 0x0B, 0x0F, 0x10, 0x14, 0x1D, 0x20, 0x40, 0x7F, 0xF0, 0xFF])
def test_unknown_and_internal_commands(client, note, byte):
    """Each is answered as the server answers it, and the connection goes on."""
    connection = client()
    connection.command(byte)
    try:
        payload = connection.receive()
        answer = connection.error(payload) if payload[0] == 0xFF else payload[:1]
        note("usable", connection.query("SELECT 1"))
    except Closed:
        answer = "closed"
    note("answer", answer)


def test_process_info(client, note):
    """COM_PROCESS_INFO: SHOW PROCESSLIST as a command; the rows are the server's own affair."""
    connection = client()
    connection.command(0x0A)
    rows = connection.result()
    note("columns", [column.name for column in rows.columns])
    assert isinstance(connection.ping(), Ok)


def test_unknown_command_is_1047(client):
    assert client().simple(0x7F) == Err(1047, "08S01", "Unknown command")


def test_statements_by_command_without_right(client, note):
    """COM_SHUTDOWN, COM_REFRESH, COM_BINLOG_DUMP need rights that `app` does not have."""
    connection = client()
    note("shutdown", connection.simple(0x08, b"\0"))
    note("refresh", connection.simple(0x07, b"\1"))
    note("usable", connection.query("SELECT 1"))


def test_shutdown_statement_without_right(client, note):
    note("shutdown", client().query("SHUTDOWN"))


def test_empty_packet(client, note):
    connection = client()
    connection.sequence = 0
    connection.send(b"")
    try:
        note("answer", connection.ok_or_error(connection.receive()))
    except Closed:
        note("answer", "closed")


def test_quit(client):
    connection = client()
    connection.command(raw.QUIT)
    assert connection.at_end()


def test_quit_of_many_leaves_the_rest(client):
    staying = client()
    for _ in range(20):
        client().quit()
    assert staying.value("SELECT 1") == b"1"


def test_reset_connection(client, note):
    connection = client(schema="onramp_app")
    for _ in range(10):
        note("reset", connection.reset())
        note("state", connection.query("SELECT DATABASE(), @@sql_mode, @@character_set_client, @@collation_connection"))


def test_change_user_changes_id(client, note):
    """CONNECTION_ID() stays the greeting's through COM_CHANGE_USER and COM_RESET_CONNECTION."""
    connection = client()
    for step in (lambda: connection.reset(), lambda: connection.change_user("other", "other-secret")):
        note("step", step())
        assert connection.value("SELECT CONNECTION_ID()") == str(connection.id).encode()


def test_short_bodies(client, note):
    """Commands that are too short for what they should hold."""
    for kind, body in [(raw.STMT_EXECUTE, b""), (raw.STMT_EXECUTE, b"\1\0\0\0"), (raw.STMT_FETCH, b"\1"), (raw.STMT_RESET, b"\1"),
                       (raw.PROCESS_KILL, b"\1"), (raw.FIELD_LIST, b"")]:
        connection = client()
        connection.command(kind, body)
        try:
            answer = connection.ok_or_error(connection.receive())
        except Closed:
            answer = "closed"
        assert answer == "closed" or isinstance(answer, Err), (kind, answer)
    note("others go on", client().query("SELECT 1"))


def test_long_data_and_close_have_no_reply(client, note):
    connection = client()
    connection.command(raw.STMT_CLOSE, struct.pack("<I", 99))
    connection.command(raw.STMT_SEND_LONG_DATA, struct.pack("<IH", 99, 0) + b"data")
    note("next", connection.query("SELECT 1"))


def test_statement_with_zero_bytes_and_bad_utf8(client, note):
    connection = client()
    for text in [b"SELECT '\0'", b"SELECT '\xff\xfe'", b"SELECT 1 \0", b"\0", b"\xff\xff\xff", b"SELECT `\xff`"]:
        note(repr(text), connection.query_all(text))


def test_rows_found_instead_of_changed(client, note, schema):
    """CLIENT_FOUND_ROWS belongs to the client that asked for it."""
    plain, found = client(schema=schema), client(schema=schema, capabilities=raw.USUAL | raw.FOUND_ROWS)
    plain.query("CREATE TABLE t (id INT, v INT)")
    plain.query("INSERT INTO t VALUES (1, 1), (2, 2)")
    for _ in range(5):
        assert note("plain", plain.query("UPDATE t SET v = v")).affected == 0
        assert note("found", found.query("UPDATE t SET v = v")).affected == 2


def test_a_reset_forgets_ignore_space(client, note):
    """The servers heed the capability at the login alone."""
    by_reset, by_user = (client(capabilities=raw.USUAL | raw.IGNORE_SPACE) for _ in range(2))
    asked = "SELECT FIND_IN_SET('IGNORE_SPACE', @@sql_mode) > 0"
    for spaced in (by_reset, by_user):
        assert note("login", spaced.value(asked)) == b"1"
    note("reset", by_reset.reset())
    note("change of user", by_user.change_user("other", "other-secret"))
    for spaced in (by_reset, by_user):
        assert note("later", spaced.value(asked)) == b"0"


def test_ignore_space_and_interactive(client, note):
    spaced, plain = client(capabilities=raw.USUAL | raw.IGNORE_SPACE), client()
    interactive = client(capabilities=raw.USUAL | raw.INTERACTIVE)
    for _ in range(3):
        note("spaced", spaced.query("SELECT COUNT (*)"))
        note("plain", plain.query("SELECT COUNT (*)"))
        note("interactive", interactive.query("SELECT @@wait_timeout = @@interactive_timeout"))
    assert isinstance(plain.query("SELECT 1"), Rows)
