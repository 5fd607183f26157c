"""The relay that makes a server far."""

import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from processes import free_port

RELAY = Path(__file__).resolve().parent / "relay.py"


class RelayTest(unittest.TestCase):
    """What passes it."""

    def test_answers_come_later_and_in_order_and_an_end_is_handed_on(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = free_port()
            relay = subprocess.Popen(
                [sys.executable, "-B", str(RELAY), str(port), str(server.getsockname()[1]), "50"])
            self.addCleanup(relay.wait)
            self.addCleanup(relay.kill)

            def answer() -> None:
                far, _ = server.accept()
                with far:
                    while piece := far.recv(100):
                        far.sendall(piece.upper())

            threading.Thread(target=answer, daemon=True).start()
            with self.connected(port) as near:
                begun = time.monotonic()
                near.sendall(b"one")
                self.assertEqual(near.recv(3), b"ONE")
                self.assertGreaterEqual(time.monotonic() - begun, 0.05)
                near.sendall(b"two")
                near.sendall(b"three")
                near.shutdown(socket.SHUT_WR)
                said = b""
                while piece := near.recv(100):
                    said += piece
                self.assertEqual(said, b"TWOTHREE")

    def connected(self, port: int) -> socket.socket:
        """Once the relay listens."""
        deadline = time.monotonic() + 20.0
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=20)
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
