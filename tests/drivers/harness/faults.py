"""A relay that does to the connection of Onramp's check something else than to all others."""

import socket
import threading
import time
from dataclasses import dataclass

from .relay import Relay

# What only a check asks.
OF_A_CHECK = b"SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid'"


@dataclass
class Fault:
    """What happens to connections of a kind, from each moment on at which it is set."""

    # Seconds by which what the server says is late.
    late: float = 0
    # Seconds for which Onramp does not hear that the server has hung up.
    end_late: float = 0


class Faults(Relay):
    """A connection is one of `data` until it has asked what only a check does."""

    def __init__(self, server):
        self.check, self.data = Fault(), Fault()
        self.lines = []
        super().__init__(server)

    def has_seen_a_check(self):
        return any(line.of_check for line in self.lines)

    def cut(self, of_check):
        """Hangs up on all of a kind that there are, towards both ends."""
        for line in self.lines:
            if line.of_check == of_check:
                line.shut()

    def connected(self, near, far):
        line = Line(self, near, far)
        self.lines = [line for line in self.lines if not line.has_ended] + [line]
        line.start()


class Line:
    """One connection."""

    def __init__(self, relay, near, far):
        self.relay, self.near, self.far = relay, near, far
        self.of_check = self.has_ended = False

    def start(self):
        for carry in (self.to_server, self.from_server):
            threading.Thread(target=carry, daemon=True).start()

    @property
    def fault(self):
        return self.relay.check if self.of_check else self.relay.data

    def to_server(self):
        for piece in pieces(self.near):
            self.of_check = self.of_check or OF_A_CHECK in piece
            if not sent(self.far, piece):
                break
        shut(self.far)

    def from_server(self):
        for piece in pieces(self.far):
            time.sleep(self.fault.late)
            if not sent(self.near, piece):
                break
        time.sleep(self.fault.end_late)
        self.has_ended = True
        self.shut()

    def shut(self):
        shut(self.near)
        shut(self.far)


def pieces(source):
    try:
        while piece := source.recv(1 << 16):
            yield piece
    except OSError:
        pass


def sent(target, piece):
    try:
        target.sendall(piece)
    except OSError:
        return False
    return True


def shut(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
