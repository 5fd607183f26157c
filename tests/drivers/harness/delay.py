"""A machine on which every server is slow to answer: a relay in front of each hands on what the server says some time later.

    ONRAMP_TEST_DELAY=200 tests/drivers/run usual

The relay takes the server's port, for direct clients as for Onramp, and is a process of its own, so that it does not wait for the
tests. It holds nothing up but the answers: what is said after each other comes after each other, each so much later. Connections by
Unix socket pass it by.

    python -m harness.delay PORT SERVER_PORT MILLISECONDS
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

# Pieces of 64 KiB at most that wait to be handed on: a server that sends a gigabyte is not read faster than its client reads.
PIECES = 64


def milliseconds():
    """By how much servers are to be late."""
    return int(os.environ.get("ONRAMP_TEST_DELAY") or 0)


def start(port, server_port):
    """Starts the relay; it takes connections as soon as the server is to be seen on the port."""
    command = [sys.executable, "-m", "harness.delay", str(port), str(server_port), str(milliseconds())]
    return subprocess.Popen(command, cwd=Path(__file__).parent.parent, stdin=subprocess.DEVNULL)


async def carry(reader, writer, delay):
    """Hands on what `reader` gets until its end, each piece `delay` seconds after it came."""
    clock = asyncio.get_running_loop().time
    waiting = asyncio.Queue(PIECES)

    async def receive():
        piece = True
        while piece:
            try:
                piece = await reader.read(1 << 16)
            except OSError:
                piece = b""
            await waiting.put((clock() + delay, piece))

    receiving = asyncio.create_task(receive())
    try:
        while True:
            due, piece = await waiting.get()
            await asyncio.sleep(max(0, due - clock()))
            if not piece:
                writer.write_eof()
                return
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass  # the other end has gone
    finally:
        receiving.cancel()


async def serve(port, server_port, delay):
    async def connected(reader, writer):
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", server_port)
        except OSError:
            return writer.close()
        there = asyncio.create_task(carry(reader, to_server, 0))
        back = asyncio.create_task(carry(from_server, writer, delay))
        # Where the server has ended there is nobody to hear the rest; what the client does not wait for, the server still gets.
        await back
        there.cancel()
        for end in (writer, to_server):
            with contextlib.suppress(OSError):
                end.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000))
