"""A server that is some way off: a relay that takes the server's place, and hands on what it answers some time later.

    python3 relay.py PORT SERVER_PORT MILLISECONDS

harness/delay.py does the same for tests. This one is for figures: it takes half of that one's processor time, and is exact to a part of
a millisecond, where asyncio waits in whole ones. One process hands on some 20,000 answers a second beside a server and its load on two
cores, so that what is measured through it has to need fewer.
"""

import collections
import contextlib
import select
import socket
import sys
import time

# Bytes that are read at a time: half of what a receive buffer has by default (tcp_rmem).
PIECE = 1 << 16
# Clients that may ask for a connection at a time: as many as a server's --back-log.
BACKLOG = 4_096


def serve(port: int, server_port: int, delay: float) -> None:
    """Relays until it is ended."""
    listener = socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    # By file descriptor: an end, its other end, and by how much what it says is late.
    ends: dict[int, tuple[socket.socket, socket.socket, float]] = {}
    # All are late by as much: what comes first is due first, and there is no more than comes within the delay. Nothing is the end of a
    # connection.
    waiting: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()

    def connected() -> None:
        near, _ = listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", server_port))
        except OSError:
            near.close()
            return
        for end, other, late in ((near, far, 0.0), (far, near, delay)):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ends[end.fileno()] = (end, other, late)
            poller.register(end, select.EPOLLIN)

    def hand_on(target: socket.socket, piece: bytes) -> None:
        # Waits where the buffers are full, and all others with it: those who take part read what comes.
        with contextlib.suppress(OSError):
            if piece:
                target.sendall(piece)
            else:
                target.shutdown(socket.SHUT_WR)

    def hear(number: int) -> None:
        end, other, late = ends[number]
        try:
            piece = end.recv(PIECE)
        except OSError:
            piece = b""
        if not piece:
            poller.unregister(end)
            del ends[number]
        if late:
            waiting.append((time.monotonic() + late, other, piece))
        else:
            hand_on(other, piece)

    while True:
        # epoll itself waits in whole milliseconds.
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        select.select([poller], [], [], wait)
        for number, _ in poller.poll(0):
            if number == listener.fileno():
                connected()
            else:
                hear(number)
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, target, piece = waiting.popleft()
            hand_on(target, piece)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1_000)
