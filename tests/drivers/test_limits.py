"""Every bound of memory at once: crowds that each try one of them, while the process may have no more than their sum and some beside.

`ONRAMP_TEST_CROWD` has so many clients try instead of the usual number; each bound is in proportion.
"""

import os
import re
import resource
import threading
from pathlib import Path

import pymysql
import pytest

from harness import raw
from harness.raw import Err, Ok
from harness.server import free_port
from harness.waiting import until

PASSWORD = "admin-of-tests"
CROWD = int(os.environ.get("ONRAMP_TEST_CROWD", "640"))
MIB = 1 << 20

# A third of what the crowd would take, or less, and 1 MiB at least, which the options want.
LOGIN, STATEMENT, SESSION, PREPARED, WARNINGS = (max(MIB, CROWD * each) for each in (500, 20_000, 500, 1500, 1500))
# Apart from the bounds: client and connection tables, TLS handshakes that are kept, buffers, backends with what they answer.
BESIDE = 64 * MIB + CROWD * 14_000


def half_login(onramp, _):
    """The header of a login request, and nearly all of it."""
    client = raw.Connection(onramp)
    client.greet()
    client.send_bytes((16_000).to_bytes(3, "little") + b"\x01" + b"x" * 15_000)
    return client


def half_handshake(onramp, _):
    """The request for TLS, and nearly a whole record behind it."""
    client = raw.Connection(onramp)
    client.greet()
    flags = raw.USUAL | raw.SSL
    client.send(flags.to_bytes(4, "little") + (1 << 24).to_bytes(4, "little") + b"\x2d" + bytes(23))
    client.send_bytes(b"\x16\x03\x01\x3f\x00" + b"\x01\x00\x3e\xfc" + b"x" * 15_000)
    return client


def half_statement(onramp, _):
    client = raw.connect(onramp)
    client.send_bytes((900_000).to_bytes(3, "little") + b"\0\x03SELECT '" + b"x" * 400_000)
    return client


def long_data(onramp, _):
    client = raw.connect(onramp)
    statement = client.prepare("SELECT ?").statement
    for _ in range(4):
        client.sequence = 0
        client.send(bytes([raw.STMT_SEND_LONG_DATA]) + statement.to_bytes(4, "little") + b"\0\0" + b"x" * 100_000)
    return client


def prepared_texts(onramp, number):
    client = raw.connect(onramp)
    for each in range(4):
        client.prepare(f"SELECT {number}, {each}, '{'x' * 20_000}'")
    return client


def kept_warnings(onramp, _):
    client = raw.connect(onramp)
    client.query("SET max_error_count = 1000")
    casts = ",".join(f"CAST('{'x' * 80}{each}' AS INT)" for each in range(200))
    client.query(f"SELECT {casts}")
    return client


def session_state(onramp, number):
    client = raw.connect(onramp)
    client.query(f"SET @a = '{'x' * 1900}{number}'")
    names = ",".join(row[0].decode() for row in client.query("SHOW VARIABLES").rows)
    client.query(f"SET @@session.session_track_system_variables = '{names}'")
    client.query(f"SET time_zone = '+{number % 13:02}:{number % 60:02}', lc_time_names = 'de_DE', @@session.sql_mode = 'ANSI'")
    return client


def answers_unread(onramp, _):
    client = raw.connect(onramp)
    client.send_bytes(b"\x01\0\0\0\x0e" * 40_000)  # pings
    return client


ATTEMPTS = [half_login, half_handshake, half_statement, long_data, prepared_texts, kept_warnings, session_state,
            answers_unread]
REACHED = ["login_memory", "statement_memory", "session_memory", "prepared_statement_memory", "kept_warnings_memory"]


class Honest(threading.Thread):
    """A client that asks one thing after the other, and comes anew now and then."""

    def __init__(self, onramp):
        super().__init__(daemon=True)
        self.onramp, self.over, self.answers, self.wrong = onramp, threading.Event(), 0, []

    def run(self):
        try:
            while not self.over.is_set():
                with raw.connect(self.onramp) as client:
                    for number in range(20):
                        text = f"{'w' * 3000}{number}"
                        answer = client.query(f"SELECT '{text}'")
                        if isinstance(answer, Err) or answer.rows != [(text.encode(),)]:
                            self.wrong.append(answer)
                        self.answers += 1
        except Exception as error:  # whatever it is, it is what must not be
            self.wrong.append(error)


def status(onramp, name):
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{onramp.process.pid}/status").read_text())
    return int(found.group(1)) * 1024


def limits(port):
    with pymysql.connect(host="127.0.0.1", port=port, user="admin", password=PASSWORD) as admin:
        with admin.cursor() as cursor:
            cursor.execute("SELECT option, scope, in_use, bound, reached FROM limits WHERE unit = 'bytes'")
            return {option: rest for option, *rest in cursor.fetchall()}


def attempt(onramp, number):
    """One of the crowd; `None` where it has been sent away already."""
    try:
        return ATTEMPTS[number % len(ATTEMPTS)](onramp, number)
    except (AssertionError, AttributeError, OSError, ValueError, raw.Closed):
        return None


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="Linux alone has it")
def test_a_crowd_tries_every_bound(own_onramp, server, authority, monkeypatch):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    certificate, key = authority.sign("localhost")
    port = free_port()
    onramp = own_onramp(
        server, admin_listen=f"127.0.0.1:{port}", tls_certificate=certificate, tls_key=key, connect_timeout="10m",
        max_allowed_packet=MIB, login_memory=LOGIN, statement_memory=STATEMENT, prepared_statement_memory=PREPARED,
        session_memory=SESSION, kept_warnings_memory=WARNINGS, max_connections=CROWD + 100, workers=1)
    # A login's worth of everything is there, so that what is added is the crowd's.
    raw.connect(onramp).close()
    bounds = 2 * LOGIN + STATEMENT + SESSION + PREPARED + WARNINGS
    most = status(onramp, "VmData") + bounds + BESIDE
    resource.prlimit(onramp.process.pid, resource.RLIMIT_DATA, (most, most))
    resident = onramp.memory()
    honest = [Honest(onramp) for _ in range(4)]
    for each in honest:
        each.start()
    crowd = [attempt(onramp, number) for number in range(CROWD)]
    here = limits(port)
    answers = sum(each.answers for each in honest)
    until(lambda: sum(each.answers for each in honest) > answers + 40, lambda: f"nobody else is served: {honest[0].wrong}")
    for each in honest:
        each.over.set()
        each.join()
    peak = status(onramp, "VmHWM")
    print(f"{CROWD} clients, {sum(client is not None for client in crowd)} got through; {answers} answers to others; "
          f"resident {resident >> 20} MiB before, {peak >> 20} MiB at most, bounds {bounds >> 20} MiB; {here}")
    assert [each.wrong for each in honest] == [[]] * len(honest)
    assert onramp.process.poll() is None
    assert peak < resident + bounds + BESIDE
    for option in REACHED:
        scope, in_use, bound, reached = here[option]
        assert reached > 0, f"{option}: {in_use} of {bound} bytes for each {scope}"
        # One more than there is room for, before it is found out.
        assert in_use <= bound + MIB, option
        onramp.says(option)
    for client in crowd:
        if client is not None:
            client.close()
    with raw.connect(onramp) as client:
        assert isinstance(client.ping(), Ok)
