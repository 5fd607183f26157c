#!/usr/bin/env python3
"""Differential fuzzing: random programs of session-changing statements on N clients, direct and through Onramp.

    differential.py --seed 1 --seconds 60
    differential.py --seed 1 --seeds 20      however long they take

Each seed draws its number of clients, of backends and its programs. They run first on N direct connections, then on N
clients over M < N backends: step for step in the same order, or (every other seed or so) each client on a thread of
its own, all at once. Every result, error, count, id and warning is compared. A seed that differs is printed with its first difference and the command that repeats it, and is added to
--failures if that file is given. `failing_seeds.txt` holds those that once failed: `run` repeats them.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from types import SimpleNamespace

from harness import raw
from harness.onramp import Onramp
from harness.programs import KINDS, Session, first_difference, prepare_schemas, random_step
from harness.server import ADMIN, Server, end_in_order_on_sigterm, make_template
from harness.transcript import same, shorten


def main():
    options = parse()
    end_in_order_on_sigterm()
    end = time.monotonic() + options.seconds
    seeds = 1 if options.only else options.seeds
    with tempfile.TemporaryDirectory(prefix="onramp-differential-") as folder:
        server = Server(folder, template=make_template(folder)).start()
        try:
            ran, failed = fuzz(server, folder, options, seeds, end)
        finally:
            server.stop()
    print(f"{ran} seeds from {options.seed}: {len(failed)} differ" + (f": {failed}" if failed else ""))
    return 1 if failed or not ran else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; the next ones follow")
    parser.add_argument("--seconds", type=float, default=30, help="no new seed is begun after this long")
    parser.add_argument("--seeds", type=int, help="this many seeds, however long they take")
    parser.add_argument("--only", action="store_true", help="just this seed, each step printed")
    parser.add_argument("--steps", type=int, default=400, help="steps of a program, of all clients together")
    parser.add_argument("--without", action="append", default=[], choices=[*KINDS, "pinning"], help="leave out this kind of step")
    parser.add_argument("--failures", help="a file to which failing seeds are added")
    parser.add_argument("--stop-at", type=int, default=5, help="stop after this many failing seeds")
    return parser.parse_args()


def fuzz(server, folder, options, seeds, end):
    ran, failed, seed = 0, [], options.seed
    while time.monotonic() < end if seeds is None else ran < seeds:
        ran += 1
        if not one_seed(server, folder, seed, options):
            failed.append(seed)
            if options.failures:
                with open(options.failures, "a", encoding="utf-8") as file:
                    file.write(f"{seed} {options.steps}\n")
            if len(failed) >= options.stop_at:
                break
        seed += 1
    return ran, failed


def one_seed(server, folder, seed, options):
    """Whether the two runs are the same."""
    draw = random.Random(seed)
    clients = draw.choice([2, 5, 8, 20])
    backends = draw.choice([b for b in (2, 3, 4) if b < clients] or [1])
    in_flight = draw.choice([1, 4, 16])
    at_once = draw.random() < 0.5
    direct = SimpleNamespace(host=server.host, port=server.port)
    with raw.connect(server, *ADMIN) as admin:
        prepare_schemas(admin, clients)
        # With threads nobody can say who holds a backend when: only so many clients may ever pin one.
        pinners = range(backends - 1) if at_once else range(clients)
        schedule, one = first_run(direct, clients, backends, pinners, draw, options)
        prepare_schemas(admin, clients)
    onramp = Onramp(server, folder, max_backends=backends, statements_in_flight=in_flight).start()
    try:
        run = run_at_once if at_once else run_in_order
        two = run(onramp, clients, schedule, options.only, one)
        alive = onramp.process.poll() is None
    finally:
        onramp.stop()
    difference = first_difference(schedule, one, two)
    if difference is None and alive:
        return True
    print(f"seed {seed}: {clients} clients, {backends} backends, {in_flight} statements in flight, {'all at once' if at_once else 'in order'}")
    if not alive:
        print(f"  onramp has ended:\n{onramp.log_text()[-2000:]}")
    if difference:
        place, client, step, direct_saw, through_saw = difference
        print(f"  step {place}, client {client}: {step.action} {step.text!r}\n    direct:  {shorten(direct_saw, 600)}"
              f"\n    through: {shorten(through_saw, 600)}")
        for other_place, (other, earlier) in enumerate(schedule[:place + 1]):
            if other == client:
                print(f"      {other_place}: {earlier.action} {earlier.text}")
    print(f"  repeat: tests/drivers/run differential --seed {seed} --steps {options.steps}"
          f"{''.join(f' --without {kind}' for kind in options.without)} --only", flush=True)
    return False


def first_run(site, clients, backends, pinners, draw, options):
    """Draws the schedule while it runs direct: who may pin depends on who holds a transaction open."""
    sessions = [Session(site) for _ in range(clients)]
    pinned, transactions, schedule, saw = set(), set(), [], []
    try:
        for _ in range(options.steps):
            client = draw.randrange(clients)
            holding = pinned | transactions
            may_pin = client in holding or (client in pinners and len(holding) < backends - 1)
            step = random_step(client, draw, may_pin, options.without)
            schedule.append((client, step))
            saw.append(perform(sessions[client], step))
            if step.pins:
                pinned.add(client)
            if step.action in ("reset", "change_user"):
                pinned.discard(client)
            if in_transaction(saw[-1], client in transactions):
                transactions.add(client)
            else:
                transactions.discard(client)
    finally:
        for session in sessions:
            session.close()
    return schedule, saw


def in_transaction(seen, before):
    """As the last status says; errors carry none."""
    last = seen[-1] if isinstance(seen, (list, tuple)) and seen and not hasattr(seen, "_fields") else seen
    status = getattr(last, "status", None)
    return before if status is None else bool(status & raw.IN_TRANS)


def run_in_order(onramp, clients, schedule, verbose, expected):
    sessions, saw = [], []
    try:
        sessions += [Session(onramp) for _ in range(clients)]
        for place, (client, step) in enumerate(schedule):
            seen = perform(sessions[client], step)
            saw.append(seen)
            if verbose:
                print(f"{'  ' if same(expected[place], seen) else '! '}{place} client {client}: {step.action} {step.text}\n"
                      f"       {shorten(seen, 300)}")
            if not same(expected[place], seen):
                break  # what follows a difference is no news
    finally:
        for session in sessions:
            session.close()
    return saw


def run_at_once(onramp, clients, schedule, verbose, expected):
    """Each client's own steps are in order; between clients there is none."""
    saw = ["not performed"] * len(schedule)

    def work(client):
        session = Session(onramp)
        try:
            for place, (owner, step) in enumerate(schedule):
                if owner == client:
                    saw[place] = perform(session, step)
                    if not same(expected[place], saw[place]):
                        return
        finally:
            session.close()

    threads = [threading.Thread(target=work, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if verbose:
        for place, (client, step) in enumerate(schedule):
            if not same(expected[place], saw[place]):
                print(f"! {place} client {client}: {step.action} {step.text}\n       {shorten(saw[place], 300)}")
    return saw


def perform(session, step):
    """What the step showed; a lost connection is also something that can be seen."""
    try:
        return session.perform(step)
    except (raw.Closed, OSError, AssertionError, ValueError) as broken:
        return f"{type(broken).__name__}: {broken}"


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
