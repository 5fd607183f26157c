"""Onramp in front of several servers: started, asked by its admin port, and loaded with writes of which it is known what became."""

import itertools
import threading

from . import admin, raw
from .admin import rows
from .raw import Closed, Err, Ok
from .server import SERVICE
from .waiting import PATIENCE, until

CLIENTS = 40

# What clients do, by their numbers: the first reads, and so does each fourth from there on.
KINDS = ("read", "write", "write", "transaction")


def start(own_onramp, monkeypatch, cluster, **options):
    """With a connection to its admin port."""
    # Neither statements nor logins give up while there is no primary.
    patience = f"{PATIENCE}s"
    usual = {"backend": cluster.backends(*SERVICE), "max_backends": 16, "failover_hold": patience, "connect_timeout": patience}
    return admin.start(own_onramp, monkeypatch, cluster.servers[0], **{**usual, **options})


def in_use(onramp):
    """1 for the server that gets all statements, by the order of the servers."""
    return [row["in_use"] for row in rows(onramp, "SELECT in_use FROM servers")]


def until_in_use(onramp, values):
    until(lambda: in_use(onramp) == values, lambda: f"not {values}: {state(onramp)}")


def until_seen(onramp, column, values):
    """Until the servers have these values in a column of the table, by their order."""
    seen = lambda: [row[column] for row in rows(onramp, "SELECT * FROM servers")]
    until(lambda: seen() == values, lambda: f"not {values}: {state(onramp)}")


def state(onramp):
    return f"{rows(onramp, 'SELECT * FROM servers')}\n{onramp.log_text()[-3000:]}"


class Load:
    """Clients of three kinds, each of which goes on until it is told to stop, and what became of their markers."""

    def __init__(self, onramp, clients=CLIENTS, undecided=()):
        """`undecided`: errors of the server's own that do not say whether what was to be committed is."""
        self.onramp = onramp
        self.undecided = {2013, *undecided}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.acknowledged, self.refused, self.unknown = set(), set(), set()
        self.errors = {"read": [], "write": [], "transaction": []}
        # Of clients that did not come to their end.
        self.given_up = []
        self.reads = 0
        self.ends = threading.Event()
        self.logged_in = 0
        kinds = itertools.cycle(KINDS)
        self.threads = [threading.Thread(target=self.run, args=(kind, client), daemon=True) for kind, client in zip(kinds, range(clients))]
        for thread in self.threads:
            thread.start()
        # Nobody is at a login when something happens to the servers.
        until(lambda: self.logged_in == clients or self.given_up, lambda: f"{self.logged_in} of {clients}\n{self.onramp.log_text()[-3000:]}")

    def connect(self, client):
        """Logs in a client, by its number from 0."""
        return raw.connect(self.onramp, schema="onramp_app")

    def run(self, kind, client):
        connection = None
        try:
            connection = self.connect(client)
            with self.lock:
                self.logged_in += 1
            while not self.ends.is_set():
                try:
                    getattr(self, kind)(connection)
                except (Closed, ConnectionError) as error:
                    self.note_error(kind, error)
                    connection.close()
                    connection = self.connect(client)
        except Exception as error:
            # A login that is refused, for one: nobody would miss this client.
            self.note_error(kind, error)
            with self.lock:
                self.given_up.append(error)
        finally:
            if connection is not None:
                connection.close()

    def note_error(self, kind, error):
        with self.lock:
            self.errors[kind].append(error)

    def read(self, connection):
        answer = connection.query("SELECT COUNT(*) FROM markers")
        if isinstance(answer, Err):
            self.note_error("read", answer)
        with self.lock:
            self.reads += 1

    def write(self, connection):
        """True if it was acknowledged."""
        with self.lock:
            number = next(self.numbers)
        outcome = self.unknown
        try:
            answer = connection.query(f"INSERT INTO markers VALUES ({number})")
            if isinstance(answer, Ok):
                outcome = self.acknowledged
            else:
                self.note_error("write", answer)
                outcome = self.unknown if answer.code in self.undecided else self.refused
        finally:
            with self.lock:
                outcome.add(number)
        return outcome is self.acknowledged

    def transaction(self, connection):
        with self.lock:
            numbers = [next(self.numbers), next(self.numbers)]
        steps = ["BEGIN", *(f"INSERT INTO markers VALUES ({number})" for number in numbers), "COMMIT"]
        outcome = self.refused
        try:
            for step in steps:
                # Only what is in flight at the COMMIT is in doubt.
                outcome = self.unknown if step == "COMMIT" else self.refused
                answer = connection.query(step)
                if isinstance(answer, Err):
                    self.note_error("transaction", answer)
                    outcome = self.unknown if answer.code in self.undecided and step == "COMMIT" else self.refused
                    return
            outcome = self.acknowledged
        finally:
            with self.lock:
                outcome.update(numbers)

    def mark(self):
        """A number above those of all writes that were begun, and below those of all that will be."""
        with self.lock:
            return next(self.numbers)

    def until_acknowledged(self, more):
        """Until so many more writes were."""
        target = len(self.acknowledged) + more
        until(lambda: len(self.acknowledged) >= target,
              lambda: f"{len(self.acknowledged)} of {target}, {self.errors}\n{self.onramp.log_text()[-3000:]}")

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), self.onramp.log_text()[-3000:]
        assert not self.given_up, f"{self.given_up}\n{self.onramp.log_text()[-3000:]}"

    def balance(self, cluster, number):
        """The ledger against what the server has in the end."""
        stored = cluster.stored(number)
        assert self.acknowledged <= stored, f"lost: {sorted(self.acknowledged - stored)[:10]}"
        assert not self.refused & stored, f"refused, and there: {sorted(self.refused & stored)[:10]}"
        assert stored <= self.acknowledged | self.unknown
