#!/usr/bin/env python3
"""Transfers between accounts by many connections, while the server is killed once and backends are killed at random.

    ledger.py --connections 1000 --seconds 60

Every connection moves money inside transactions, leaves a marker row for each transfer and reads back its own. The
server gets a kill -9 half-way and is started again. Afterwards the sum is unchanged, every balance is what the
markers say, every transfer that was confirmed is there once, none is there twice, and no client saw another's row.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "drivers"))

from harness import raw  # noqa: E402
from harness.onramp import Onramp  # noqa: E402
from harness.raw import Closed, Err, Ok, Rows  # noqa: E402
from harness.server import ADMIN, Server, end_in_order_on_sigterm, make_template  # noqa: E402
from harness.waiting import PATIENCE  # noqa: E402

START = 1_000_000  # the balance that every account begins with

# Seconds: transfers that wait for a row of one that was lost go on before the end.
LOCK_WAIT = "--innodb-lock-wait-timeout=5"

# What a transfer may end with while locks are fought over, connections are killed and the server is away.
EXPECTED = {
    1205: "lock wait timeout", 1213: "deadlock", 1317: "interrupted", 1927: "connection was killed", 1053: "server shutdown",
    1040: "too many connections", 2013: "lost connection", 2002: "server away", 2003: "server away", 1105: "server away", 1429: "server away",
}


class Failure(Exception):
    """Something that must never happen."""


class Worker(threading.Thread):
    """One connection and what it knows for certain."""

    def __init__(self, number, site, options, stop):
        super().__init__(daemon=True)
        self.number, self.site, self.options, self.stop = number, site, options, stop
        self.random = random.Random(options.seed * 100_003 + number)
        self.connection = None
        self.sequence = 0
        self.confirmed, self.unsure = [], []
        self.last_confirmed = 0.0
        self.errors = Counter()
        self.failure = None

    def run(self):
        try:
            while not self.stop.is_set():
                self.turn()
        except Exception as failure:  # recorded for the main thread, whatever it is
            self.failure = failure
        finally:
            if self.connection:
                self.connection.close()

    def turn(self):
        try:
            if self.connection is None:
                self.connection = raw.connect(self.site, schema="onramp_app")
            self.echo()
            self.transfer()
        except (Closed, ConnectionError, AssertionError) as lost:
            if isinstance(lost, AssertionError) and "sequence number" in str(lost):
                raise
            self.errors[f"{type(lost).__name__} {lost}"] += 1
            if self.connection:
                self.connection.close()
            self.connection = None
            self.stop.wait(0.05 + self.random.random() * 0.2)

    def echo(self):
        """A statement without state, which may run on any backend and share it with others in flight."""
        self.sequence += 1
        token = f"{self.number}-{self.sequence}"
        answer = self.connection.query(f"SELECT '{token}'")
        if isinstance(answer, Err):
            self.note(answer)
        elif answer.rows != [(token.encode(),)]:
            raise Failure(f"client {self.number} asked for {token} and saw {answer.rows}")

    def transfer(self):
        self.sequence += 1
        one, two = sorted(self.random.sample(range(1, self.options.accounts + 1), 2))
        amount = self.random.randrange(1, 101)  # 0 would change no row
        steps = [
            "BEGIN", f"UPDATE ledger SET balance = balance - {amount} WHERE id = {one}",
            f"UPDATE ledger SET balance = balance + {amount} WHERE id = {two}",
            f"INSERT INTO marker VALUES ({self.number}, {self.sequence}, {one}, {two}, {amount})"]
        for text in steps:
            answer = self.connection.query(text)
            if isinstance(answer, Err):
                self.note(answer)
                self.roll_back()
                return
            if text != "BEGIN" and answer.affected != 1:
                raise Failure(f"client {self.number}: {text} changed {answer.affected} rows")
            if not answer.status & raw.IN_TRANS:
                raise Failure(f"client {self.number}: outside of its transaction after {text}")
        self.read_back()
        self.commit()

    def read_back(self):
        answer = self.connection.query(f"SELECT client, sequence FROM marker WHERE client = {self.number} ORDER BY sequence DESC LIMIT 1")
        if isinstance(answer, Rows) and answer.rows != [(b"%d" % self.number, b"%d" % self.sequence)]:
            raise Failure(f"client {self.number} read {answer.rows} instead of its own marker {self.sequence}")

    def commit(self):
        self.unsure.append(self.sequence)
        answer = self.connection.query("COMMIT")
        if isinstance(answer, Ok):
            self.confirmed.append(self.unsure.pop())
            self.last_confirmed = time.monotonic()
        else:
            self.note(answer)
            self.roll_back()

    def roll_back(self):
        answer = self.connection.query("ROLLBACK")
        if isinstance(answer, Err):
            self.note(answer)
            raise Closed("after an error in ROLLBACK")

    def note(self, answer):
        self.errors[f"{answer.code} {EXPECTED.get(answer.code, answer.message)}"] += 1
        if answer.code not in EXPECTED:
            raise Failure(f"client {self.number}: {answer}")


def main():
    options = parse()
    end_in_order_on_sigterm()
    print(f"seed {options.seed}, {options.connections} connections, {options.seconds} s")
    threading.stack_size(256 << 10)  # a thousand threads with the usual 8 MiB each are many gigabytes of addresses
    with tempfile.TemporaryDirectory(prefix="onramp-ledger-") as folder:
        server = Server(folder, template=make_template(folder)).start(LOCK_WAIT)
        onramp = Onramp(server, folder, max_backends=options.backends)
        try:
            return run(server, onramp, options)
        finally:
            onramp.stop()
            server.stop()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--accounts", type=int, default=1000)
    parser.add_argument("--backends", type=int, default=16)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    return parser.parse_args()


def run(server, onramp, options):
    with raw.connect(server, *ADMIN, schema="onramp_app") as admin:
        for text in [
            "CREATE TABLE ledger (id INT PRIMARY KEY, balance BIGINT NOT NULL)",
            # No unique key: a transfer that is carried out twice shall be found, not refused.
            "CREATE TABLE marker (client INT, sequence INT, one INT, two INT, amount INT, KEY (client, sequence))",
            f"INSERT INTO ledger SELECT seq, {START} FROM seq_1_to_{options.accounts}",
        ]:
            answer = admin.query(text)
            assert isinstance(answer, Ok), answer
    onramp.start()
    stop = threading.Event()
    workers = [Worker(number, onramp, options, stop) for number in range(options.connections)]
    for worker in workers:
        worker.start()
    end = time.monotonic() + options.seconds
    restarted = disturb(server, onramp, workers, options, end)
    stop.set()
    for worker in workers:
        worker.join(2 * PATIENCE)
    problems = [f"{worker.name} hangs" for worker in workers if worker.is_alive()]
    problems += [repr(worker.failure) for worker in workers if worker.failure]
    if onramp.process.poll() is not None:
        problems.append(f"onramp has ended:\n{onramp.log_text()[-2000:]}")
    problems += check(server, workers, options)
    after = sum(worker.last_confirmed > restarted for worker in workers)
    if after < len(workers) // 2:
        problems.append(f"only {after} clients made a transfer after the restart")
    report(workers, after, problems, onramp)
    return 1 if problems else 0


def disturb(server, onramp, workers, options, end):
    """Kills backends at random, and the server once; says when the server was back."""
    draw = random.Random(options.seed)
    half = end - options.seconds / 2
    restarted = None
    while time.monotonic() < end and not any(worker.failure for worker in workers):
        time.sleep(draw.uniform(0.1, 0.6))
        if onramp.process.poll() is not None:
            break
        if restarted is None and time.monotonic() > half:
            server.kill()
            time.sleep(draw.uniform(0.1, 1))
            server.start(LOCK_WAIT)
            restarted = time.monotonic()
            # However long that took, there are transfers afterwards.
            end = max(end, restarted + options.seconds / 4)
            continue
        try:
            with raw.connect(server, *ADMIN) as admin:
                rows = admin.query("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app'").rows
                if rows:
                    admin.query(f"KILL {int(draw.choice(rows)[0])}")
        except (Closed, OSError):
            pass  # the one that was chosen may have been on its way out
    wait_for_transfers(workers, restarted or end)
    return restarted or end


def wait_for_transfers(workers, restarted):
    """Until half of the clients have made one since the restart; a busy machine takes its time."""
    deadline = time.monotonic() + PATIENCE
    while (sum(worker.last_confirmed > restarted for worker in workers) < len(workers) // 2 and time.monotonic() < deadline
           and not any(worker.failure for worker in workers)):
        time.sleep(0.1)


def check(server, workers, options):
    """What the tables say against what the clients know."""
    with raw.connect(server, *ADMIN, schema="onramp_app") as admin:
        balances = {int(k): int(v) for k, v in admin.query("SELECT id, balance FROM ledger").rows}
        markers = [tuple(map(int, row)) for row in admin.query("SELECT client, sequence, one, two, amount FROM marker").rows]
    problems = []
    if sum(balances.values()) != options.accounts * START:
        problems.append(f"the sum is {sum(balances.values())} instead of {options.accounts * START}")
    wanted = dict.fromkeys(balances, START)
    for _, _, one, two, amount in markers:
        wanted[one] -= amount
        wanted[two] += amount
    wrong = [number for number in balances if balances[number] != wanted[number]]
    if wrong:
        problems.append(f"{len(wrong)} balances differ from the markers, such as account {wrong[0]}")
    counts = Counter((client, sequence) for client, sequence, *_ in markers)
    problems += [f"transfer {key} was carried out {count} times" for key, count in counts.items() if count > 1][:5]
    for worker in workers:
        confirmed, unsure = set(worker.confirmed), set(worker.unsure)
        there = {sequence for client, sequence in counts if client == worker.number}
        if confirmed - there:
            problems.append(f"client {worker.number}: confirmed transfers are missing: {sorted(confirmed - there)[:5]}")
        if there - confirmed - unsure:
            problems.append(f"client {worker.number}: transfers that failed are there: {sorted(there - confirmed - unsure)[:5]}")
    return problems


def report(workers, after, problems, onramp):
    errors = Counter()
    for worker in workers:
        errors.update(worker.errors)
    print(f"{sum(len(worker.confirmed) for worker in workers)} transfers confirmed, {sum(len(worker.unsure) for worker in workers)} unsure, "
          f"{after} clients went on after the restart; errors: {dict(errors.most_common())}")
    for problem in problems[:20]:
        print(f"WRONG: {problem}")
    if problems:
        print(f"the end of onramp's log:\n{onramp.log_text()[-1500:]}")
    else:
        print("the sum is unchanged, every confirmed transfer is there once, and no client saw another's row")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
