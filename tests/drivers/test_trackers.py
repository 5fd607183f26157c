"""What the servers' session trackers say of each of some hundred statements, against golden files: Onramp's model of session
state rests on it, so that a server that says something else has to be noticed before its users notice.

`UPDATE_GOLDEN=1 tests/drivers/run -k trackers` writes the files anew. MySQL is asked where MYSQL_HOME names its folder.
"""

import os
from pathlib import Path

from harness import mysql as private_mysql
from harness import raw
from harness.raw import Err
from harness.server import ADMIN
from harness.trackers import golden as told

FOLDER = Path(__file__).parent / "trackers"

PREPARATION = [
    "DROP DATABASE IF EXISTS onramp_trackers", "CREATE DATABASE onramp_trackers",
    "CREATE TABLE onramp_trackers.t (id INT PRIMARY KEY)",
    "CREATE PROCEDURE onramp_trackers.settles() BEGIN SET sql_notes = 0; SET @d = 1; SET SESSION sql_mode = 'ANSI'; END",
    "CREATE FUNCTION onramp_trackers.settled() RETURNS INT DETERMINISTIC BEGIN SET @e = 1; SET lc_time_names = 'de_DE'; RETURN 1; END",
]
TRACKERS = ("SET session_track_system_variables = '*', session_track_schema = ON, session_track_state_change = ON,"
            " session_track_transaction_info = 'CHARACTERISTICS'")


def test_mariadb(server):
    with raw.connect(server, *ADMIN, capabilities=raw.USUAL | raw.SESSION_TRACK) as connection:
        compare(connection, "mariadb", connection.greeting.version)


@private_mysql.needed
def test_mysql(folder):
    server = private_mysql.MySqlServer(folder).start("--log-bin-trust-function-creators=1")
    try:
        # The account has no password, to which every method's answer is nothing.
        with raw.connect(server, "root", "", socket_path=server.socket, plugin="caching_sha2_password", token=b"",
                         capabilities=raw.USUAL | raw.SESSION_TRACK) as connection:
            compare(connection, "mysql", connection.greeting.version)
    finally:
        server.discard()


def compare(connection, flavour, version):
    """What is seen, with the golden file of this server, or of its series, in which releases may differ."""
    number = version.removeprefix("5.5.5-").split("-")[0]
    golden = FOLDER / f"{flavour}-{number}.txt"
    if not golden.exists():
        golden = FOLDER / f"{flavour}-{'.'.join(number.split('.')[:2])}.txt"
    assert golden.exists() or os.environ.get("UPDATE_GOLDEN"), f"no golden file {golden.name}: UPDATE_GOLDEN=1 writes it, to be looked through"
    for statement in PREPARATION:
        answer = connection.query(statement)
        assert not isinstance(answer, Err), (statement, answer)
    assert not isinstance(connection.query(TRACKERS), Err)
    seen = "".join(told(connection, statement) for statement in statements(flavour))
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(seen)
    assert seen.splitlines() == golden.read_text().splitlines()


def statements(flavour):
    for line in (FOLDER / "statements.txt").read_text().splitlines():
        kind, _, statement = line.rpartition(": ") if line.startswith(("mariadb: ", "mysql: ")) else ("", "", line)
        if line and not line.startswith("#") and kind in ("", flavour):
            yield statement
