"""The causes of ten bad days, each made on a running Onramp with a real server, and taken back at its end.

Operators' questions are asked of these, on the page and in `onramp top`, and the pictures of both are made of them.
"""

import contextlib
import socket
import threading

from . import raw
from .server import APP
from .waiting import in_background, until

# Statements that may run at a time: few, so that some more wait.
PERMITS = 2

# Fixed where a question depends on them.
OPTIONS = {"permits": PERMITS, "max_backends": 12, "thread_pool_stall_limit": "60s", "backend_connect_timeout": "300s", "connect_timeout": "1h"}


class BadDay:
    """What causes need: an Onramp, and its operator's connection, which has real SQL over what it knows."""

    def __init__(self, onramp, operator):
        """`operator` makes a connection to the admin port."""
        self.onramp, self.operator = onramp, operator

    def ask(self, statement):
        with self.operator() as connection:
            answer = connection.query(statement)
            assert not isinstance(answer, raw.Err), answer
            return getattr(answer, "rows", [])

    def wait_for(self, statement):
        """Until a statement at the admin port gives a row whose first column is true."""
        return until(lambda: [row for row in self.ask(statement) if row[0] not in (None, b"0")], f"never true: {statement}", pause=0.1)

    @contextlib.contextmanager
    def clients(self, count):
        with contextlib.ExitStack() as cleanup:
            yield [cleanup.enter_context(raw.connect(self.onramp, *APP, schema="onramp_app")) for _ in range(count)]

    @contextlib.contextmanager
    def busy(self, count, statement, rest=0):
        """So many clients that send a statement again and again, and rest so many seconds between two."""
        ends = threading.Event()

        def work(client):
            while not ends.is_set():
                client.query(statement)
                ends.wait(rest)
            return True

        with self.clients(count) as clients:
            joins = [in_background(work, client) for client in clients]
            try:
                yield clients
            finally:
                ends.set()
                for join in joins:
                    join()

    @contextlib.contextmanager
    def a_lock(self):
        """One who locks a row and does nothing, three who want it, and others who have work. Yields the holder.

        The server is asked who waits for whom only as long as somebody waits for a permit."""
        with self.busy(4 * PERMITS, "DO SLEEP(0.05)"), self.clients(4) as (holder, *waiters):
            holder.query("CREATE TABLE IF NOT EXISTS stock (id INT PRIMARY KEY, left_over INT)")
            holder.query("INSERT IGNORE INTO stock VALUES (1, 5)")
            holder.query("BEGIN")
            holder.query("UPDATE stock SET left_over = left_over - 1 WHERE id = 1")
            joins = [in_background(one.query, "UPDATE stock SET left_over = left_over - 1 WHERE id = 1") for one in waiters]
            try:
                self.wait_for("SELECT COUNT(*) FROM clients WHERE waits_for_client IS NOT NULL")
                yield holder
            finally:
                holder.query("ROLLBACK")
                for join in joins:
                    join()

    @contextlib.contextmanager
    def a_slow_server(self):
        """Statements that take their time on the server, and nobody waits in front of it."""
        with self.busy(PERMITS, "SELECT SLEEP(0.3)"):
            yield

    @contextlib.contextmanager
    def too_much_work(self):
        """More statements than permits: they take as long as ever on the server, and wait in front of it. Reads would share backends."""
        with self.busy(4 * PERMITS, "DO SLEEP(0.2)"):
            yield

    @contextlib.contextmanager
    def a_pause(self):
        """An operator's PAUSE, and two who wait for its end."""
        with self.clients(2) as clients:
            self.ask("PAUSE")
            # Where identical reads run once, one of them would follow the other and wait for nothing itself.
            joins = [in_background(one.query, f"SELECT {number} + 1") for number, one in enumerate(clients)]
            try:
                yield
            finally:
                self.ask("RESUME")
                for join in joins:
                    join()

    @contextlib.contextmanager
    def pins(self):
        """An application that keeps named locks, and another that keeps a temporary table."""
        with self.clients(3) as clients, self.clients(1) as (another,):
            for number, one in enumerate(clients):
                one.query(f"SELECT GET_LOCK('job {number}', 1)")
            another.query("CREATE TEMPORARY TABLE report (id INT)")
            yield

    @contextlib.contextmanager
    def work_that_a_restart_breaks_off(self):
        with self.clients(3) as (first, second, third):
            for one in (first, second):
                one.query("BEGIN")
                one.query("SELECT COUNT(*) FROM information_schema.SCHEMATA")
            third.query("SELECT GET_LOCK('restart', 1)")
            yield

    @contextlib.contextmanager
    def dear_statements(self):
        """One kind takes nearly all of the server's time, and is not the one that is sent most."""
        with self.clients(1) as (one,):
            for number in range(40):
                one.query(f"SELECT {number}")
            for number in range(3):
                one.query(f"SELECT SLEEP(0.{3 + number}), 'report'")
            yield

    @contextlib.contextmanager
    def a_crowd(self):
        """An application has been started on many machines."""
        with self.clients(90):
            yield

    @contextlib.contextmanager
    def refusals(self):
        """A queue that may hold nobody more than two, and eight who come."""
        self.ask("SET GLOBAL queue_limit = 2")
        try:
            with self.busy(4 * PERMITS, "DO SLEEP(0.1)", rest=0.1):
                yield
        finally:
            self.ask("SET GLOBAL queue_limit = 0")

    @contextlib.contextmanager
    def logins_that_hang(self):
        """Two who connect and do not say who they are, and one with a wrong password."""
        with contextlib.ExitStack() as cleanup:
            for _ in range(2):
                cleanup.enter_context(socket.create_connection((self.onramp.host, self.onramp.port)))
            with raw.Connection(self.onramp) as stranger:
                assert stranger.login("app", "wrong").code == 1045
            yield
