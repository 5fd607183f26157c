"""A relay between Onramp and a server, for tests that want to see or hold back what passes."""

import socket
import threading


class Relay:
    """Hands on what Onramp and the server send each other. Takes the server's place: `Onramp(Relay(server), ...)`."""

    def __init__(self, server):
        self.server, self.host, self.socket = server, server.host, server.socket
        self.listener = socket.create_server((self.host, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def to_server(self, piece):
        """Hears what the server gets next, on a thread of that connection's own; as long as it takes, nothing is sent. What it returns, if
        anything, is sent in its place."""

    def from_server(self, piece):
        """The same for what Onramp gets."""

    def close(self):
        """Accepts no more connections; those that stand stay."""
        self.listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection((self.server.host, self.server.port))
            except OSError:
                # The server is gone: whoever wants it hears that, and the relay stays.
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connected(near, far)

    def connected(self, near, far):
        """There is a connection of Onramp's at the near end, and one to the server at the far one."""
        for hear, source, target in ((self.to_server, near, far), (self.from_server, far, near)):
            threading.Thread(target=_carry, args=(hear, source, target), daemon=True).start()


def _carry(hear, source, target):
    try:
        while piece := source.recv(1 << 16):
            target.sendall(hear(piece) or piece)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
