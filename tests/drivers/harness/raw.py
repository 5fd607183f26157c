"""A MySQL protocol client that hides nothing: every flag, count and packet is visible, and every rule can be broken.

Packet layouts follow the MySQL manual's "Client/Server Protocol" chapter and MariaDB's "Client/Server Protocol" pages.
"""

import hashlib
import select
import socket
import struct
from typing import NamedTuple

from .waiting import PATIENCE

LONG_PASSWORD = 1
FOUND_ROWS = 1 << 1
LONG_FLAG = 1 << 2
CONNECT_WITH_DB = 1 << 3
COMPRESS = 1 << 5
LOCAL_FILES = 1 << 7
IGNORE_SPACE = 1 << 8
PROTOCOL_41 = 1 << 9
INTERACTIVE = 1 << 10
SSL = 1 << 11
TRANSACTIONS = 1 << 13
SECURE_CONNECTION = 1 << 15
MULTI_STATEMENTS = 1 << 16
MULTI_RESULTS = 1 << 17
PS_MULTI_RESULTS = 1 << 18
PLUGIN_AUTH = 1 << 19
CONNECT_ATTRS = 1 << 20
PLUGIN_AUTH_LENENC_DATA = 1 << 21
SESSION_TRACK = 1 << 23
DEPRECATE_EOF = 1 << 24
QUERY_ATTRIBUTES = 1 << 27

# MariaDB's own, which travel in the filler of the greeting and the login request where both leave LONG_PASSWORD out.
PROGRESS = 1 << 32
BULK_OPERATIONS = 1 << 34
EXTENDED_METADATA = 1 << 35
CACHE_METADATA = 1 << 36

# What the usual client libraries ask for.
USUAL = (LONG_PASSWORD | LONG_FLAG | PROTOCOL_41 | TRANSACTIONS | SECURE_CONNECTION | MULTI_RESULTS | PS_MULTI_RESULTS
         | PLUGIN_AUTH | DEPRECATE_EOF)

IN_TRANS = 1
AUTOCOMMIT = 2
MORE_RESULTS = 8
CURSOR_EXISTS = 64
LAST_ROW_SENT = 128
QUERY_WAS_SLOW = 2048  # depends on the machine's load, never compared
SESSION_STATE_CHANGED = 0x4000

QUIT, INIT_DB, QUERY, FIELD_LIST, STATISTICS, PROCESS_KILL, DEBUG, PING = 1, 2, 3, 4, 9, 12, 13, 14
CHANGE_USER, STMT_PREPARE, STMT_EXECUTE, STMT_SEND_LONG_DATA = 0x11, 0x16, 0x17, 0x18
STMT_BULK_EXECUTE = 0xFA
STMT_CLOSE, STMT_RESET, SET_OPTION, STMT_FETCH, RESET_CONNECTION = 0x19, 0x1A, 0x1B, 0x1C, 0x1F

MAX_PAYLOAD = 0xFFFFFF


class Ok(NamedTuple):
    affected: int
    insert_id: int
    status: int
    warnings: int
    info: bytes


class Err(NamedTuple):
    code: int
    state: str
    message: str


class Column(NamedTuple):
    schema: str
    table: str
    original_table: str
    name: str
    original_name: str
    charset: int
    length: int
    kind: int
    flags: int
    decimals: int
    extended: bytes = b""


class Rows(NamedTuple):
    columns: list  # None where the client has them already (CACHE_METADATA)
    rows: list
    status: int
    warnings: int


class LocalInfile(NamedTuple):
    file: str


class Prepared(NamedTuple):
    statement: int
    parameters: list
    columns: list
    warnings: int


class Closed(Exception):
    """The peer closed the connection."""


class Reader:
    """Walks over one payload."""

    def __init__(self, payload):
        self.payload = payload
        self.at = 0

    def bytes(self, count):
        piece = self.payload[self.at:self.at + count]
        if len(piece) != count:
            raise ValueError("packet too short")
        self.at += count
        return piece

    def rest(self):
        return self.bytes(len(self.payload) - self.at)

    def more(self):
        return self.at < len(self.payload)

    def integer(self, width):
        return int.from_bytes(self.bytes(width), "little")

    def lenenc(self):
        first = self.integer(1)
        if first < 0xFB:
            return first
        if first == 0xFB:
            return None
        return self.integer({0xFC: 2, 0xFD: 3, 0xFE: 8}[first])

    def lenenc_bytes(self):
        length = self.lenenc()
        return None if length is None else self.bytes(length)

    def text(self):
        return self.lenenc_bytes().decode("utf-8", "backslashreplace")

    def terminated(self):
        end = self.payload.index(0, self.at)
        piece = self.payload[self.at:end]
        self.at = end + 1
        return piece


def lenenc(number):
    if number < 0xFB:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + number.to_bytes(2, "little")
    if number < 1 << 24:
        return b"\xfd" + number.to_bytes(3, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def lenenc_bytes(value):
    return lenenc(len(value)) + value


def native_token(password, scramble):
    """mysql_native_password: SHA1(password) XOR SHA1(scramble + SHA1(SHA1(password)))."""
    if not password:
        return b""
    stage1 = hashlib.sha1(password.encode()).digest()
    stage2 = hashlib.sha1(stage1).digest()
    mask = hashlib.sha1(scramble + stage2).digest()
    return bytes(a ^ b for a, b in zip(stage1, mask))


def sha2_token(password, scramble):
    """caching_sha2_password: SHA256(password) XOR SHA256(SHA256(SHA256(password)) + scramble)."""
    if not password:
        return b""
    digest = hashlib.sha256(password.encode()).digest()
    mask = hashlib.sha256(hashlib.sha256(digest).digest() + scramble).digest()
    return bytes(a ^ b for a, b in zip(digest, mask))


def encrypted_password(password, scramble, key):
    """A password for the other side's RSA key, which is PEM."""
    plain = bytes(byte ^ scramble[place % len(scramble)] for place, byte in enumerate(password.encode() + b"\0"))
    # Only against MySQL over TCP is it needed.
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding

    oaep = padding.OAEP(mgf=padding.MGF1(algorithm=hashes.SHA1()), algorithm=hashes.SHA1(), label=None)
    return serialization.load_pem_public_key(key).encrypt(plain, oaep)


TOKENS = {"mysql_native_password": native_token, "caching_sha2_password": sha2_token}


class Greeting:
    def __init__(self, payload):
        reader = Reader(payload)
        self.protocol = reader.integer(1)
        self.version = reader.terminated().decode()
        self.connection_id = reader.integer(4)
        self.scramble = reader.bytes(8)
        reader.bytes(1)
        self.capabilities = reader.integer(2)
        self.collation = reader.integer(1)
        self.status = reader.integer(2)
        self.capabilities |= reader.integer(2) << 16
        length = reader.integer(1)
        reader.bytes(6)
        filler = reader.integer(4)
        if not self.capabilities & LONG_PASSWORD:
            self.capabilities |= filler << 32
        self.scramble += reader.bytes(max(13, length - 8))[:12]
        self.plugin = reader.terminated().decode()

    @property
    def usual_plugin(self):
        """MariaDB's, or MySQL's where the other side says that this is what it has."""
        return "caching_sha2_password" if self.plugin == "caching_sha2_password" else "mysql_native_password"


class Connection:
    """A socket that speaks packets; nothing is sent by itself. `greet` and `login` are the usual first steps."""

    def __init__(self, site, timeout=PATIENCE, socket_path=None, source=None):
        """`source`: the address of this machine's that it comes from."""
        if socket_path:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(socket_path)
        else:
            self.socket = socket.create_connection((site.host, site.port), timeout=timeout, source_address=(source, 0) if source else None)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.sequence = 0
        self.checks_numbers = True
        self.capabilities = USUAL

    # Packets

    def receive_exactly(self, count):
        while len(self.buffer) < count:
            try:
                piece = self.socket.recv(1 << 18)
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise Closed("in the middle of a packet" if self.buffer else "between packets")
            self.buffer += piece
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def receive(self):
        """One message: joined packets, with their sequence numbers checked."""
        message = b""
        while True:
            header = self.receive_exactly(4)
            length = int.from_bytes(header[:3], "little")
            assert header[3] == self.sequence or not self.checks_numbers, f"sequence number {header[3]} instead of {self.sequence}"
            self.sequence = (header[3] + 1) % 256
            message += self.receive_exactly(length)
            if length < MAX_PAYLOAD:
                return message

    def send_bytes(self, raw):
        self.socket.sendall(raw)

    def send(self, payload):
        """One message from the current sequence number on."""
        self.socket.sendall(self.packets(payload))

    def packets(self, payload):
        out = []
        while True:
            piece = payload[:MAX_PAYLOAD]
            payload = payload[MAX_PAYLOAD:]
            out.append(len(piece).to_bytes(3, "little") + bytes([self.sequence]) + piece)
            self.sequence = (self.sequence + 1) % 256
            if len(piece) < MAX_PAYLOAD:
                return b"".join(out)

    def finish_sending(self):
        """Closes the sending half; the peer may have closed already."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def at_end(self):
        """Whether the peer closes without another byte."""
        try:
            return self.receive_exactly(1) is None
        except Closed:
            return True

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Login

    def greet(self):
        """Reads the greeting; an `Err` where the peer refuses at once."""
        payload = self.receive()
        if payload[0] == 0xFF:
            return self.error(payload)
        self.greeting = Greeting(payload)
        self.id = self.greeting.connection_id
        return self.greeting

    def ssl_request(self):
        """The packet that asks for TLS: the front of a login request."""
        return self.packets(struct.pack("<IIB23x", USUAL | SSL, 1 << 30, 45))

    def start_tls(self, context, server_name="localhost", session=None):
        """Behind the greeting: TLS, as Python's ssl does it."""
        self.send_bytes(self.ssl_request())
        self.socket = context.wrap_socket(self.socket, server_hostname=server_name, session=session)

    def login_request(self, user, password, schema=None, capabilities=None, attributes=None, collation=45,
                      plugin=None, token=None):
        capabilities = USUAL if capabilities is None else capabilities
        capabilities |= CONNECT_WITH_DB if schema is not None else 0
        capabilities |= CONNECT_ATTRS if attributes is not None else 0
        if capabilities >> 32:
            capabilities &= ~LONG_PASSWORD
        self.capabilities = capabilities
        if token is None:
            # Whoever names a plugin says it to see what becomes of it.
            token = TOKENS["mysql_native_password" if plugin else self.greeting.usual_plugin](password, self.greeting.scramble)
        plugin = plugin or self.greeting.usual_plugin
        out = struct.pack("<IIB19xI", capabilities & 0xFFFFFFFF, 1 << 30, collation, capabilities >> 32) + user.encode() + b"\0"
        out += bytes([len(token)]) + token
        if schema is not None:
            out += (schema if isinstance(schema, bytes) else schema.encode()) + b"\0"
        if capabilities & PLUGIN_AUTH:
            out += plugin.encode() + b"\0"
        if attributes is not None:
            pairs = b"".join(lenenc_bytes(k.encode()) + lenenc_bytes(v.encode()) for k, v in attributes.items())
            out += lenenc_bytes(pairs)
        return out

    def login(self, user, password, **options):
        """From the greeting to the final `Ok` or `Err`."""
        greeting = self.greet()
        if isinstance(greeting, Err):
            return greeting
        self.send(self.login_request(user, password, **options))
        return self.finish_login(password)

    def log_in_over_tls(self, user="app", password="app-secret"):
        """Behind `start_tls`: from the login to the final `Ok` or `Err`."""
        self.send(self.login_request(user, password, capabilities=USUAL | SSL))
        return self.finish_login(password)

    def finish_login(self, password):
        scramble = self.greeting.scramble
        while True:
            payload = self.receive()
            if payload[0] == 0xFE:
                reader = Reader(payload)
                reader.bytes(1)
                plugin = reader.terminated().decode()
                scramble = reader.rest()[:20]
                self.send(TOKENS[plugin](password, scramble))
            elif payload == b"\x01\x04":  # the password itself is asked for, over a channel that is not encrypted
                self.send(b"\x02")
                self.send(encrypted_password(password, scramble, self.receive()[1:]))
            elif payload != b"\x01\x03":  # the answer was right
                return self.ok_or_error(payload)

    # Commands

    def command(self, kind, body=b""):
        """Sends a command; replies are read by the caller."""
        self.sequence = 0
        self.send(bytes([kind]) + body)

    def has_answer(self):
        """Whether something has come that nobody has read."""
        return bool(self.buffer or select.select([self.socket], [], [], 0)[0])

    def simple(self, kind, body=b""):
        """A command whose reply is one OK or ERR (or EOF, as COM_DEBUG's and COM_SET_OPTION's)."""
        self.command(kind, body)
        return self.ok_or_error(self.receive())

    def query(self, text):
        """A statement and its first reply; the rest of several results comes with `more`."""
        results = self.query_all(text)
        assert len(results) == 1, results
        return results[0]

    def query_all(self, text):
        """A statement and all its results."""
        self.command(QUERY, text if isinstance(text, bytes) else text.encode())
        return self.results()

    def results(self, binary=False):
        out = []
        while True:
            result = self.result(binary)
            out.append(result)
            if isinstance(result, (Err, LocalInfile)) or not result.status & MORE_RESULTS:
                return out

    def value(self, text):
        """The only value of the only row."""
        rows = self.query(text)
        assert isinstance(rows, Rows) and len(rows.rows) == 1, rows
        return rows.rows[0][0]

    def ping(self):
        return self.simple(PING)

    def reset(self):
        return self.simple(RESET_CONNECTION)

    def use(self, schema):
        return self.simple(INIT_DB, schema.encode())

    def quit(self):
        self.command(QUIT)
        self.close()

    def change_user(self, user, password, schema=""):
        plugin = self.greeting.usual_plugin
        token = TOKENS[plugin](password, self.greeting.scramble)
        body = user.encode() + b"\0" + bytes([len(token)]) + token + schema.encode() + b"\0"
        body += struct.pack("<H", 45) + plugin.encode() + b"\0"
        self.command(CHANGE_USER, body)
        return self.finish_login(password)

    def prepare(self, text):
        self.command(STMT_PREPARE, text.encode())
        payload = self.receive()
        if payload[0] == 0xFF:
            return self.error(payload)
        reader = Reader(payload)
        reader.bytes(1)
        statement, columns, parameters = reader.integer(4), reader.integer(2), reader.integer(2)
        reader.bytes(1)
        warnings = reader.integer(2)
        definitions = []
        for count in (parameters, columns):
            definitions.append([self.column(self.receive()) for _ in range(count)])
            if count and not self.capabilities & DEPRECATE_EOF:
                assert self.receive()[0] == 0xFE
        return Prepared(statement, definitions[0], definitions[1], warnings)

    def forget(self, statement):
        """COM_STMT_CLOSE, which has no reply."""
        self.command(STMT_CLOSE, struct.pack("<I", statement))

    def execute(self, statement, values=(), flags=0):
        """COM_STMT_EXECUTE with every value bound as a string (or NULL)."""
        self.command(STMT_EXECUTE, execute_body(statement, values, flags))
        return self.results(binary=True)

    def execute_bulk(self, statement, lists, types=b"", flags=0):
        """COM_STMT_BULK_EXECUTE: each value as bytes, or the number of its indicator; all of the type VAR_STRING where types are
        sent (flag 128)."""
        body = struct.pack("<IH", statement, flags) + types
        for values in lists:
            body += b"".join(bytes([value]) if isinstance(value, int) else b"\0" + lenenc_bytes(value) for value in values)
        self.command(STMT_BULK_EXECUTE, body)
        return self.results(binary=True)

    def fetch(self, statement, count, columns):
        """COM_STMT_FETCH: the rows as raw payloads, then status and warnings."""
        self.command(STMT_FETCH, struct.pack("<II", statement, count))
        rows = []
        while True:
            payload = self.receive()
            if payload[0] == 0xFF:
                return self.error(payload)
            if payload[0] == 0xFE and len(payload) < MAX_PAYLOAD:
                status, warnings = self.end_of_rows(payload)
                return Rows(columns, rows, status, warnings)
            rows.append(binary_row(payload, columns))

    # Replies

    def result(self, binary=False):
        payload = self.receive()
        if payload[0] in (0x00, 0xFF):
            return self.ok_or_error(payload)
        if payload[0] == 0xFB:
            return LocalInfile(payload[1:].decode())
        head = Reader(payload)
        count, columns = head.lenenc(), None
        if not self.capabilities & CACHE_METADATA or head.integer(1):
            columns = [self.column(self.receive()) for _ in range(count)]
        assert not head.more(), "bytes left over in the head of a result set"
        if not self.capabilities & DEPRECATE_EOF:
            middle = self.receive()
            assert middle[0] == 0xFE and len(middle) == 5, middle
            if Reader(middle[3:]).integer(2) & CURSOR_EXISTS:
                return Rows(columns, [], *self.end_of_rows(middle))
        rows = []
        while True:
            payload = self.receive()
            if payload[:1] == b"\xff":
                return self.error(payload)
            limit = MAX_PAYLOAD if self.capabilities & DEPRECATE_EOF else 9
            if payload[:1] == b"\xfe" and len(payload) < limit:
                return Rows(columns, rows, *self.end_of_rows(payload))
            rows.append((binary_row(payload, columns) if columns else payload) if binary else text_row(payload, count))

    def end_of_rows(self, payload):
        if self.capabilities & DEPRECATE_EOF:
            ok = self.ok(payload)
            return ok.status, ok.warnings
        assert len(payload) == 5, payload
        warnings, status = struct.unpack("<HH", payload[1:5])
        return status & ~QUERY_WAS_SLOW, warnings

    def ok_or_error(self, payload):
        if payload[0] == 0xFF:
            return self.error(payload)
        if payload[0] == 0xFE and len(payload) == 5:
            warnings, status = struct.unpack("<HH", payload[1:5])
            return Ok(0, 0, status & ~QUERY_WAS_SLOW, warnings, b"")
        return self.ok(payload)

    def ok(self, payload):
        reader = Reader(payload)
        assert reader.integer(1) in (0x00, 0xFE), payload
        affected, insert_id = reader.lenenc(), reader.lenenc()
        status, warnings = reader.integer(2), reader.integer(2)
        info = b""
        if reader.more():
            info = reader.lenenc_bytes()
        if self.capabilities & SESSION_TRACK and status & SESSION_STATE_CHANGED:
            self.session_changes = reader.lenenc_bytes()
        assert not reader.more(), f"bytes left over in OK {payload}"
        return Ok(affected, insert_id, status & ~QUERY_WAS_SLOW, warnings, info)

    def error(self, payload):
        code = int.from_bytes(payload[1:3], "little")
        rest = payload[3:]
        state = ""
        if rest[:1] == b"#":
            state, rest = rest[1:6].decode(), rest[6:]
        return Err(code, state, rest.decode("utf-8", "backslashreplace"))

    def column(self, payload):
        reader = Reader(payload)
        assert reader.text() == "def"
        names = [reader.text() for _ in range(5)]
        extended = reader.lenenc_bytes() if self.capabilities & EXTENDED_METADATA else b""
        assert reader.lenenc() == 12
        charset, length = reader.integer(2), reader.integer(4)
        kind, flags, decimals = reader.integer(1), reader.integer(2), reader.integer(1)
        return Column(*names, charset, length, kind, flags, decimals, extended)


def connect(site, user="app", password="app-secret", timeout=PATIENCE, socket_path=None, **options):
    """A logged-in connection; an `AssertionError` with the server's words otherwise."""
    connection = Connection(site, timeout, socket_path)
    answer = connection.login(user, password, **options)
    if not isinstance(answer, Ok):
        connection.close()
    assert isinstance(answer, Ok), answer
    return connection


def text_row(payload, count):
    reader = Reader(payload)
    row = tuple(reader.lenenc_bytes() for _ in range(count))
    assert not reader.more(), "bytes left over in a row"
    return row


# Widths of the binary protocol's fixed values, by column type; all others are length-encoded.
FIXED = {1: 1, 2: 2, 13: 2, 3: 4, 9: 4, 4: 4, 8: 8, 5: 8}


def binary_row(payload, columns):
    """One row of a prepared statement's result: values as raw bytes, None for NULL."""
    reader = Reader(payload)
    assert reader.integer(1) == 0
    nulls = reader.bytes((len(columns) + 9) // 8)
    row = []
    for index, column in enumerate(columns):
        if nulls[(index + 2) // 8] >> ((index + 2) % 8) & 1:
            row.append(None)
        elif column.kind in FIXED:
            row.append(reader.bytes(FIXED[column.kind]))
        else:
            row.append(reader.lenenc_bytes())  # dates and times carry a length byte, which reads the same
    assert not reader.more(), "bytes left over in a binary row"
    return tuple(row)


def execute_body(statement, values=(), flags=0):
    body = struct.pack("<IBI", statement, flags, 1)
    if values:
        nulls = bytearray((len(values) + 7) // 8)
        for index, value in enumerate(values):
            if value is None:
                nulls[index // 8] |= 1 << (index % 8)
        body += bytes(nulls) + b"\x01"
        body += b"".join(b"\x06\x00" if value is None else b"\xfd\x00" for value in values)  # NULL, VAR_STRING
        body += b"".join(lenenc_bytes(value) for value in values if value is not None)
    return body
