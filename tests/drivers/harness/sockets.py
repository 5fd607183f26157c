"""The kernel's table of TCP sockets by IPv4, as /proc/net/tcp has it (proc(5))."""

import socket
import sys
from typing import NamedTuple

# States, by include/net/tcp_states.h of the kernel.
ESTABLISHED, CLOSE_WAIT, LISTEN = "01", "08", "0A"


class Socket(NamedTuple):
    """Addresses are pairs of a host and a port. Of a socket that listens, what is to be read is how many connections it holds."""

    local: tuple
    peer: tuple
    state: str
    to_send: int
    to_read: int


def sockets():
    """All of this network namespace."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        return [_socket(*row.split()[1:5]) for row in list(table)[1:]]


def _socket(local, peer, state, queues):
    to_send, to_read = (int(length, 16) for length in queues.split(":"))
    return Socket(_address(local), _address(peer), state, to_send, to_read)


def _address(text):
    host, port = text.split(":")
    # A number in the machine's own order of bytes.
    return socket.inet_ntoa(int(host, 16).to_bytes(4, sys.byteorder)), int(port, 16)
