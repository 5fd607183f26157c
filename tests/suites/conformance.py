#!/usr/bin/env python3
"""Runs others' test suites direct and through Onramp, and writes what differs into docs/CONFORMANCE.md.

    conformance.py [SUITE...]      default: all; suites that are left out keep their part of the page

Why a test differs is in `reasons.txt`: suite, test and reason, separated by tabs. A difference without a reason fails.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import clients
import mysqltest
from harness import raw
from harness.counted import Counted
from harness.server import Server, end_in_order_on_sigterm, make_template

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs/CONFORMANCE.md"
KEPT = HERE / "outcomes.json"
COUNTED = HERE / "statements.json"
BEGIN, END = "<!-- generated: tests/suites/conformance.py -->", "<!-- end of the generated part -->"
MTR = "mysql-test"
# Four files of mysql2's suite run at once, and one of them has temporary tables on five connections.
BACKENDS = {"mysql2": 12}


def main():
    end_in_order_on_sigterm()
    known = [MTR, *clients.SUITES]
    wanted = sys.argv[1:] or known
    if not set(wanted) <= set(known):
        print(f"{__doc__}\nSuites: {', '.join(known)}", file=sys.stderr)
        return 2
    for suite in wanted:
        print(f"{suite} ...", flush=True)
        with tempfile.TemporaryDirectory(prefix="onramp-suites-") as folder:
            os.chmod(folder, 0o755)  # the server's user reads the tests' files in it
            of_suite, statements = run_mysqltest(folder) if suite == MTR else run_client(suite, folder)
        keep(COUNTED, suite, statements)
        outcomes = keep(KEPT, suite, of_suite)
    reasons = {tuple(line.split("\t")[:2]): line.split("\t")[2] for line in (HERE / "reasons.txt").read_text().splitlines() if line.count("\t") == 2}
    write(outcomes, reasons)
    unexplained = [f"{suite}: {name}" for suite, of_suite in outcomes.items() for name in differences(of_suite) if (suite, name) not in reasons]
    print("\n".join(["without a reason:", *unexplained]) if unexplained else "every difference has its reason")
    return 1 if unexplained else 0


def kept(file):
    return json.loads(file.read_text()) if file.exists() else {}


def keep(file, suite, found):
    """Puts what was found with a suite beside the rest of the file, which is returned."""
    everything = kept(file) | {suite: found}
    text = json.dumps(everything, indent=1, sort_keys=True)
    # A line for each test.
    file.write_text(re.sub(r"\[\s+([^\[\]]*?)\s+\]", lambda pair: "[" + re.sub(r",\s+", ", ", pair[1]) + "]", text) + "\n")
    return everything


def differences(of_suite):
    """Tests that pass direct and not through."""
    return [name for name, (direct, through) in sorted(of_suite.items()) if direct == "passed" != through]


def run_mysqltest(folder):
    suite, names = mysqltest.Suite(folder), mysqltest.listed()
    word = {None: "passed"}
    direct = {name: word.get(wrong, "failed") for name, wrong in suite.run(names, through=False)}
    through = {}
    for name, wrong in suite.run([name for name in names if direct[name] == "passed"], through=True):
        through[name] = word.get(wrong, "failed")
        if wrong:
            print(f"  {name}: {wrong[-1500:]}", flush=True)
    return {name: (direct[name], through.get(name, "not run")) for name in names}, suite.statements


def run_client(name, folder):
    place = clients.sources(name, HERE / ".packages")
    server = Server(folder, template=make_template(folder)).start()
    socket_path = str(Path(folder) / "clients.sock")
    onramp = Counted(server, folder, listen=socket_path, max_backends=BACKENDS.get(name, mysqltest.BACKENDS), backend_connect_timeout="20s")
    try:
        onramp.start()
        results = []
        for target in (clients.Target(server.port, server.socket), clients.Target(onramp.port, socket_path)):
            with raw.connect(server, "root", "", socket_path=server.socket, token=b"") as admin:
                for statement in (
                        f"DROP USER IF EXISTS {clients.USER}", f"CREATE USER {clients.USER} IDENTIFIED BY '{clients.PASSWORD}'",
                        f"GRANT ALL ON *.* TO {clients.USER} WITH GRANT OPTION", "DROP DATABASE IF EXISTS test1", "CREATE DATABASE test1",
                        "DROP DATABASE IF EXISTS test2", "CREATE DATABASE test2"):
                    admin.query(statement)
            results.append(clients.SUITES[name](place, target))
        statements = mysqltest.Statements(0, 0).plus(onramp)
    finally:
        onramp.stop()
        server.stop()
    direct, through = results
    return {test: (outcome, through.get(test, "not run")) for test, outcome in direct.items()}, statements


def write(outcomes, reasons):
    outcomes = dict(sorted(outcomes.items()))
    version = subprocess.run(["mariadbd", "--version"], capture_output=True, text=True, check=True, env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin")).stdout
    lines = [BEGIN, "", f"Server: {version.split(' Ver ')[-1].strip()}. Through Onramp with `max_backends = {mysqltest.BACKENDS}`"
             f" ({', '.join(f'{suite}: {number}' for suite, number in BACKENDS.items())}).", "",
             "| suite | tests | pass direct | of these pass through Onramp | differ | statements | doubtful |", "|---|--:|--:|--:|--:|--:|--:|"]
    statements = kept(COUNTED)
    for suite, of_suite in outcomes.items():
        passed = sum(direct == "passed" for direct, _ in of_suite.values())
        differ = len(differences(of_suite))
        counted = "{:,} | {:,}".format(*statements[suite]) if suite in statements else "not counted | "
        lines.append(f"| {suite} | {len(of_suite)} | {passed} | {passed - differ} | {differ} | {counted} |")
    lines += ["", "| suite | test that differs | why |", "|---|---|---|"]
    for suite, of_suite in outcomes.items():
        for name in differences(of_suite):
            lines.append(f"| {suite} | `{name}` | {reasons.get((suite, name), '**not known yet**')} |")
    text = PAGE.read_text()
    PAGE.write_text(text[:text.index(BEGIN)] + "\n".join([*lines, "", END]) + text[text.index(END) + len(END):])


if __name__ == "__main__":
    sys.exit(main())
