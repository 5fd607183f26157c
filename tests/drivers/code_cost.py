"""How long another client waits while stored code is defined and read, where the server has much: `ONRAMP_BIN=target/release/onramp python
code_cost.py [--silent] [PROCEDURES]`.

The procedures read and write tables; with `--silent` each changes its session. Behind each definition the server is read again after one
second, four, sixteen. One client sends `SELECT 1` every 5 ms, over one worker, and is timed.
"""

import sys
import tempfile
import threading
import time

from harness import raw
from harness.onramp import Onramp
from harness.server import Server, make_template

PAUSE = 0.005  # seconds between two statements of the one that waits
SECONDS = 25  # so many are watched: what two definitions and the readings behind them take
HARMLESS = "UPDATE t SET b = a WHERE c = 1; SELECT a, b, c FROM t ORDER BY b"
SILENT = "SET @seen = 1; DO GET_LOCK('a', 0)"
DEFINITIONS = {
    "leads to nothing": "CREATE OR REPLACE VIEW leads_to_nothing AS SELECT 1 AS a",
    "takes a lock": "CREATE OR REPLACE VIEW takes_a_lock AS SELECT GET_LOCK('of a view', 0) AS a",
}


def create(server, count, body):
    """Straight in the server."""
    with raw.connect(server, schema="onramp_app", timeout=600) as connection:
        for number in range(count):
            answer = connection.query(f"CREATE PROCEDURE p{number}(a INT) BEGIN {body}; END")
            assert isinstance(answer, raw.Ok), answer


def watch(onramp, until, waits):
    """Times `SELECT 1` again and again."""
    with raw.connect(onramp, schema="onramp_app", timeout=120) as connection:
        while time.monotonic() < until:
            begin = time.monotonic()
            connection.query("SELECT 1")
            waits.append((time.monotonic() - begin) * 1000)
            time.sleep(PAUSE)


def main(count, body):
    with tempfile.TemporaryDirectory(prefix="onramp-code-") as folder:
        server = Server(folder, template=make_template(folder)).start()
        onramp = Onramp(server, folder, workers=1)
        try:
            create(server, count, body)
            onramp.start()
            for name, definition in [("nothing is defined", None), *DEFINITIONS.items()]:
                waits, took = [], []
                watching = threading.Thread(target=watch, args=(onramp, time.monotonic() + SECONDS, waits))
                watching.start()
                with raw.connect(onramp, schema="onramp_app", timeout=120) as connection:
                    for _ in range(2 if definition else 0):
                        time.sleep(1)
                        begin = time.monotonic()
                        answer = connection.query(definition)
                        assert isinstance(answer, raw.Ok), answer
                        took.append(f"{(time.monotonic() - begin) * 1000:.1f}")
                watching.join()
                waits.sort(reverse=True)
                longest = ", ".join(f"{wait:.0f}" for wait in waits[:8])
                print(f"{count} procedures, {name}: definitions {took} ms; longest waits {longest} ms", flush=True)
            print(f"resident {onramp.memory():,} bytes")
        finally:
            onramp.stop()
            server.stop()


if __name__ == "__main__":
    words = sys.argv[1:]
    silent = "--silent" in words
    numbers = [int(word) for word in words if word != "--silent"]
    sys.exit(main(numbers[0] if numbers else 40_000, SILENT if silent else HARMLESS))
