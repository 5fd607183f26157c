"""Query attributes with a MySQL server behind Onramp: by MySQL's own library, which sends them with every statement where the
server has them, and packet by packet.

As test_mysql: skipped without a server.
"""

import functools
import struct

import pymysql
import pytest
from pymysql.constants import COMMAND

from conftest import closing
from harness import mysql as private_mysql
from harness.raw import QUERY_ATTRIBUTES, lenenc_bytes
from harness.server import ADMIN, APP
from test_mysql import admin, connect_by_library as connect, onramp, server  # noqa: F401 (fixtures)

pytestmark = [private_mysql.needed, private_mysql.since(8, 0, 23)]

NONE = b"\x00\x01"
ASK = "mysql_query_attribute_string('n')"


@pytest.fixture(scope="module", autouse=True)
def component(server):  # noqa: F811
    with pymysql.connect(host=server.host, port=server.port, user=ADMIN[0], password=ADMIN[1]) as connection:
        try:
            connection.cursor().execute("INSTALL COMPONENT 'file://component_query_attributes'")
        except pymysql.err.MySQLError as error:
            # ER_CANT_OPEN_LIBRARY: some distributions leave components out.
            if error.args[0] != 1126:
                raise
            pytest.skip("this server has no component_query_attributes")


def attributes(values):
    """In front of a COM_QUERY: strings, all with names; None for NULL."""
    if not values:
        return NONE
    nulls = sum(1 << place for place, (_, value) in enumerate(values) if value is None)
    block = bytes([len(values), 1]) + nulls.to_bytes((len(values) + 7) // 8, "little") + b"\x01"
    block += b"".join(b"\xfe\x00" + lenenc_bytes(name.encode()) for name, _ in values)
    return block + b"".join(lenenc_bytes(value.encode()) for _, value in values if value is not None)


class Client(pymysql.Connection):
    """Sends these attributes with each text."""

    block = NONE

    def _execute_command(self, command, sql):
        if command == COMMAND.COM_QUERY:
            sql = self.block + (sql.encode() if isinstance(sql, str) else sql)
        super()._execute_command(command, sql)


@pytest.fixture
def client(site):
    account = {"host": site.host, "port": site.port, "user": APP[0], "password": APP[1]}
    options = {"ssl_disabled": True, "client_flag": QUERY_ATTRIBUTES, "autocommit": None}
    with closing(functools.partial(Client, **account, **options)) as open_client:
        yield open_client


def ask(connection, text, block=NONE):
    """The rows of all results, or the error."""
    connection.block = block
    try:
        with connection.cursor() as cursor:
            cursor.execute(text)
            found = [cursor.fetchall()]
            while cursor.nextset():
                found.append(cursor.fetchall())
            return found
    except pymysql.err.Error as error:
        return error.args
    finally:
        connection.block = NONE


def test_texts(client, note, admin):  # noqa: F811
    named = attributes([("n", "value"), ("other", None), ("", "nameless")])
    clients = [client() for _ in range(6)]
    for turn in range(2):
        for number, connection in enumerate(clients):
            note(f"{turn}, {number}", ask(connection, f"SELECT {ASK}", attributes([("n", f"of {number}")])))
            note(f"{turn}, {number}, none", ask(connection, f"SELECT {ASK}"))
            # Session state goes ahead of it on a backend of another's.
            note(f"{turn}, {number}, state", ask(connection, f"SET NAMES {('latin1', 'utf8mb4')[number % 2]}"))
            note(f"{turn}, {number}, two", ask(connection, f"SELECT {ASK}, mysql_query_attribute_string('other')", named))
    first = clients[0]
    note("none at all", ask(first, f"SELECT {ASK}", b"\x00\x01"))
    note("begin", ask(first, "BEGIN", named))
    note("in a transaction", ask(first, f"SELECT {ASK}, CONNECTION_ID() > 0", named))
    note("commit", ask(first, "COMMIT", named))
    note("long", ask(first, f"SELECT LENGTH({ASK})", attributes([("n", "x" * 70_000)])))
    note("pinned", ask(first, "SET @a = 1", named))
    note("there", ask(first, f"SELECT @a, {ASK}", named))
    note("warnings", ask(first, "SHOW WARNINGS", named))


def test_several_statements(client, note):
    connection = client()
    named = attributes([("n", "value")])
    connection._execute_command(COMMAND.COM_SET_OPTION, b"\x00\x00")
    connection._read_packet()
    note("both", ask(connection, f"SELECT {ASK}; SELECT {ASK}", named))


def test_malformed(client, note):
    for name, block in (("two sets", b"\x00\x02"), ("nothing", b""), ("no types", b"\x01\x01\x00\x00"), ("cut off", b"\x01\x01\x00\x01\xfe\x00\x01n\x05ab"),
                        ("too many", b"\xfd\x00\x00\x01\x01")):
        connection = client()
        connection.block = block
        try:
            connection._execute_command(COMMAND.COM_QUERY, b"")
            answer = connection._read_packet()
        except pymysql.err.Error as error:
            answer = error.args
        note(name, answer)
        connection.block = NONE
        note(f"after {name}", ask(connection, "SELECT 1"))


def execution(statement, count, nulls, kinds, values, flags=8):
    body = struct.pack("<IBI", statement, flags, 1) + bytes([count]) + nulls
    return body + (b"\x01" if kinds else b"\x00") + b"".join(kind + lenenc_bytes(name) for kind, name in kinds) + values


def answer(connection, command, body):
    """The payloads of an answer: an error, an OK, or a result set of at most one row."""
    connection._execute_command(command, body)
    payloads, ends = [], 2
    while ends:
        try:
            packet = connection._read_packet()
        except pymysql.err.Error as error:
            return error.args
        payloads.append(packet.get_all_data())
        if payloads[0][:1] == b"\x00" and len(payloads) == 1 and command != COMMAND.COM_STMT_PREPARE:
            break
        ends -= packet.is_eof_packet()
    return payloads


def prepare(connection, text):
    found = answer(connection, COMMAND.COM_STMT_PREPARE, text.encode())
    return struct.unpack("<I", found[0][1:5])[0]


def test_executions(client, note):
    LONG, STRING = b"\x03\x00", b"\xfe\x00"
    connections = [client() for _ in range(6)]
    statements = [prepare(connection, f"SELECT ?, {ASK}") for connection in connections]
    seven = struct.pack("<i", 7)
    for turn in range(2):
        for number, (connection, statement) in enumerate(zip(connections, statements)):
            def execute(what, *parts, **options):
                note(f"{turn}, {number}, {what}", answer(connection, COMMAND.COM_STMT_EXECUTE, execution(statement, *parts, **options)))

            execute("no attributes", 1, b"\x00", [(LONG, b"")], seven)
            execute("types known", 1, b"\x00", [], seven)
            execute("without the flag", 1, b"\x00", [], seven, flags=0)
            execute("one more", 2, b"\x00", [(LONG, b""), (STRING, b"n")], seven + lenenc_bytes(b"value"))
            execute("NULL", 2, b"\x01", [(LONG, b""), (STRING, b"n")], lenenc_bytes(b"value"))
            execute("text", 2, b"\x00", [(STRING, b""), (STRING, b"n")], lenenc_bytes(b"text") + lenenc_bytes(b"value"))
            execute("named", 1, b"\x00", [(STRING, b"n")], lenenc_bytes(b"value"))
            execute("no attributes again", 1, b"\x00", [(LONG, b"")], seven)


def test_by_mysqls_library(connect, note):
    for number in range(6):
        connection = connect()
        connection.query_attrs_append(("n", f"value {number}"))
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {ASK}")
            note(f"{number}", cursor.fetchall())
            connection.query_attrs_clear()
            cursor.execute(f"SELECT {ASK}")
            note(f"{number}, cleared", cursor.fetchall())
        with connection.cursor(prepared=True) as cursor:
            connection.query_attrs_append(("n", f"value {number}"))
            for turn in range(2):
                cursor.execute(f"SELECT ?, {ASK}", (f"parameter {number}",))
                note(f"{number}, prepared {turn}", cursor.fetchall())


# Values that the server reads otherwise than as it says: NULL without its bit has a length and a value, a type has 15 bits, and of
# a length of 8 bytes 4 count. What the statement is would depend on who reads it.
AMBIGUOUS = {
    "NULL without its bit": (b"\x01\x01\x00\x01\x06\x00\x01n", b"\x20SELECT 1 #".ljust(33, b"x")),
    "a type of two bytes": (b"\x01\x01\x00\x01\x01\x01\x01n", b"\x20SELECT 1 #".ljust(33, b"x")),
    "INT24": (b"\x01\x01\x00\x01\x09\x00\x01n", b"\x00"),
    "a length of 8 bytes": (b"\x01\x01\x00\x01\xfe\x00\x01n\xfe\x03\0\0\0\x01\0\0\0abc", b""),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_ambiguous_values(site, client, name):
    """The server takes some of them; through Onramp nobody finds a statement that was not looked at."""
    if site.name == "direct":
        return
    block, front = AMBIGUOUS[name]
    one, other = client(), client()
    for turn in range(3):
        found = ask(one, front + b"SET SESSION max_execution_time = 1234", block)
        assert found[0] == 1835, found  # ER_MALFORMED_PACKET
        for connection in (one, other):
            assert ask(connection, "SELECT @@max_execution_time") == [((0,),)]


def test_other_forms_of_the_same(client, note):
    """Numbers and lengths in more bytes than they need, and a NULL of the type NULL."""
    connection = client()
    note("longer", ask(connection, f"SELECT {ASK}", b"\xfc\x01\x00\xfd\x01\x00\x00\x00\x01\xfd\x00\xfc\x01\x00n\xfe\x02\0\0\0\0\0\0\0ab"))
    note("NULL", ask(connection, f"SELECT {ASK}", b"\x01\x01\x01\x01\x06\x00\x01n"))
    note("a number", ask(connection, f"SELECT {ASK}", b"\x01\x01\x00\x01\x08\x80\x01n" + struct.pack("<q", 7)))


def test_the_flag_of_clients_that_count_nothing(site, note):
    """It means nothing to the server where the client lacks the capability, and must not between Onramp and the server."""
    with pymysql.connect(host=site.host, port=site.port, user=APP[0], password=APP[1], ssl_disabled=True) as connection:
        for text, values in (("SELECT ?", b"\x00\x01\x03\x00" + struct.pack("<i", 7)), ("SELECT ? + 1", b"\x00\x01\x08\x00" + struct.pack("<q", 8))):
            statement = prepare(connection, text)
            for flags in (8, 0, 8):
                note(f"{text} {flags}", answer(connection, COMMAND.COM_STMT_EXECUTE, struct.pack("<IBI", statement, flags, 1) + values))
