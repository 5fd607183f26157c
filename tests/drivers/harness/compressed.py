"""The compressed protocol, from a client's side."""

import zlib

from . import raw


def log_in(site, capabilities):
    """A client that has logged in and compresses; it asks for these capabilities, too."""
    connection = raw.Connection(site)
    greeting = connection.greet()
    assert greeting.capabilities & raw.COMPRESS
    connection.send(connection.login_request("app", "app-secret", capabilities=raw.USUAL | raw.COMPRESS | capabilities))
    answer = connection.finish_login("app-secret")
    assert isinstance(answer, raw.Ok), answer
    connection.socket = Compressed(connection.socket)
    # The server numbers what is inside by the compressed packets, Onramp by what would be without: clients look at neither.
    connection.checks_numbers = False
    return connection


class Compressed:
    """What a socket does, with packets inside compressed ones."""

    def __init__(self, inner):
        self.inner = inner
        self.number = 0
        self.plain = b""
        self.arrived = b""

    def sendall(self, raw_bytes):
        self.inner.sendall(self.packed(raw_bytes))

    def packed(self, raw_bytes):
        if raw_bytes[3] == 0:
            self.number = 0
        packed = zlib.compress(raw_bytes)
        if len(raw_bytes) < 50:
            packed, original = raw_bytes, 0
        else:
            original = len(raw_bytes)
        header = len(packed).to_bytes(3, "little") + bytes([self.number]) + original.to_bytes(3, "little")
        self.number = (self.number + 1) % 256
        return header + packed

    def exactly(self, count):
        while len(self.arrived) < count:
            piece = self.inner.recv(1 << 18)
            if not piece:
                return b""
            self.arrived += piece
        taken, self.arrived = self.arrived[:count], self.arrived[count:]
        return taken

    def recv(self, _count):
        header = self.exactly(7)
        if not header:
            return b""
        assert header[3] == self.number, f"compressed packet {header[3]} instead of {self.number}"
        self.number = (self.number + 1) % 256
        content = self.exactly(int.from_bytes(header[:3], "little"))
        original = int.from_bytes(header[4:], "little")
        plain = zlib.decompress(content) if original else content
        assert not original or len(plain) == original
        return plain

    def close(self):
        self.inner.close()
