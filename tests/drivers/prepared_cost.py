"""What many clients with many prepared statements each cost: `ONRAMP_BIN=target/release/onramp python prepared_cost.py [CLIENTS]`."""

import os
import sys
import tempfile
import time

from harness import raw
from harness.onramp import Onramp
from harness.server import Server, free_port, make_template
from harness.streams import CREATE

PASSWORD = "admin-secret"

BACKENDS = 8

# As many as an ORM's page with a dozen of forms prepares, all different.
TEXTS = [f"SELECT id, v, {number} FROM things WHERE id = ? AND v LIKE ? LIMIT {number + 1}" for number in range(36)]


def log_in(target, count):
    """That many connections."""
    return [raw.connect(target, schema="onramp_app", timeout=120) for _ in range(count)]


def prepare(connections):
    """Each prepares all; the numbers of the statements."""
    return [[connection.prepare(text) for text in TEXTS] for connection in connections]


def execute(connections, statements, at_once=64):
    """Each executes one of its own, so many at a time: enough that all backends are in work."""
    for first in range(0, len(connections), at_once):
        numbers = range(first, min(first + at_once, len(connections)))
        for number in numbers:
            statement = statements[number][number % len(TEXTS)].statement
            connections[number].command(raw.STMT_EXECUTE, raw.execute_body(statement, [b"1", b"a%"]))
        for number in numbers:
            answer = connections[number].results(binary=True)[0]
            assert isinstance(answer, raw.Rows), answer


def status(server, name):
    with raw.connect(server, "admin", "admin-secret") as admin:
        return int(admin.query(f"SHOW GLOBAL STATUS LIKE '{name}'").rows[0][1])


def engine_bytes(port):
    """What Onramp counts itself, by what it is for."""
    with raw.connect(type("Admin", (), {"host": "127.0.0.1", "port": port}), "admin", PASSWORD) as admin:
        return {name.decode(): int(value) for name, value in admin.query("SELECT part, bytes FROM memory WHERE worker = 0").rows}


def main(clients):
    os.environ["ONRAMP_ADMIN_PASSWORD"] = PASSWORD
    with tempfile.TemporaryDirectory(prefix="onramp-prepared-") as folder:
        server = Server(folder, template=make_template(folder)).start()
        port = free_port()
        onramp = Onramp(server, folder, max_backends=BACKENDS, workers=1, admin_listen=f"127.0.0.1:{port}")
        try:
            with raw.connect(server, schema="onramp_app") as connection:
                connection.query(CREATE)
                bound = connection.query("SELECT @@max_prepared_stmt_count").rows[0][0].decode()
            onramp.start()
            start = onramp.memory()
            connections = log_in(onramp, clients)
            before = onramp.memory()
            begin = time.monotonic()
            statements = prepare(connections)
            took = time.monotonic() - begin
            refused = sum(isinstance(each, raw.Err) for each in statements[-1])
            after = onramp.memory()
            execute(connections, statements)
            counted = engine_bytes(port)
            print(f"clients {clients}, statements of each {len(TEXTS)}, refused {refused}, {clients * len(TEXTS) / took:,.0f} a second")
            print(f"server: Prepared_stmt_count {status(server, 'Prepared_stmt_count')} of max_prepared_stmt_count {bound}, backends {BACKENDS}")
            print(f"Onramp resident: {start:,} at first, {before:,} with the clients, {after:,} with their statements:"
                  f" {(before - start) / clients:,.0f} and {(after - before) / clients:,.0f} bytes for each client")
            print("counted:", {name: f"{value:,}" for name, value in counted.items() if "prepared" in name or "client" in name})
        finally:
            onramp.stop()
            server.stop()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
