"""Onramps whose counts are read from their admin ports."""

import contextlib
import os
import threading
from types import SimpleNamespace

from . import raw
from .onramp import Onramp
from .server import free_port
from .waiting import in_background, until

PASSWORD = "admin-secret"


class Counted(Onramp):
    def __init__(self, server, folder, **options):
        """As an Onramp's."""
        self.admin_port = free_port()
        super().__init__(server, folder, admin_listen=f"127.0.0.1:{self.admin_port}", **options)

    def start(self, wait=True):
        os.environ["ONRAMP_ADMIN_PASSWORD"] = PASSWORD
        try:
            return super().start(wait)
        finally:
            del os.environ["ONRAMP_ADMIN_PASSWORD"]

    def admin(self):
        """A connection to the admin port."""
        return raw.connect(SimpleNamespace(host=self.host, port=self.admin_port), "admin", PASSWORD)

    @contextlib.contextmanager
    def busy(self):
        """Its one permit is in use."""
        with raw.connect(self) as sleeper, raw.connect(self) as killer, self.admin() as admin:
            asleep = in_background(sleeper.query, "SELECT SLEEP(600)")
            until(lambda: admin.value("SELECT COUNT(*) FROM clients WHERE state = 'running'") == b"1", "the permit is free")
            try:
                yield
            finally:
                killer.query(f"KILL QUERY {sleeper.id}")
                asleep()

    def counts(self, names):
        """The counts of these names."""
        with self.admin() as admin:
            found = dict(admin.query("SELECT variable_name, variable_value FROM status").rows)
        return [int(found[name.encode()]) for name in names]

    def status(self, name):
        """One of them."""
        return self.counts([name])[0]

    def pin_reasons(self):
        """The reasons to pin that there have been."""
        with self.admin() as admin:
            return [reason.decode() for reason, in admin.query("SELECT reason FROM pins WHERE times > 0").rows]


class Reading(Counted):
    """One whose service account may read stored code."""

    def start_reading(self):
        """Starts, and waits until all code has been read once."""
        self.start()
        with self.stopped_on_error():
            self.wait_until_read()
            assert self.status("Onramp_stored_code_unreadable") == 0, self.log_text()
        return self

    def wait_until_read(self, times=1):
        """Until the code has been read so often."""
        until(lambda: self.status("Onramp_stored_code_read") >= times, f"the stored code was not read {times} times")


@contextlib.contextmanager
def load(onramp):
    """More statements at a time than there are permits. None of them fails."""
    ends = threading.Event()

    def run(client):
        answers = []
        while not ends.is_set():
            answers.append(client.query("SELECT SLEEP(0.02)"))
        return answers

    clients = [raw.connect(onramp) for _ in range(32)]
    joins = [in_background(run, client) for client in clients]
    try:
        yield
    finally:
        ends.set()
        answers = [answer for join in joins for answer in join()]
        for client in clients:
            client.close()
    assert not [answer for answer in answers if isinstance(answer, raw.Err)]
