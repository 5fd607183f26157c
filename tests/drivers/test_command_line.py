"""The `mariadb` and `mariadb-dump` programs, and `onramp bench`."""

import os
import re
import subprocess

import pytest

from harness.onramp import binary
from harness.server import find
from harness.waiting import PATIENCE


def run(site, *arguments, program="mariadb", user="app", password="app-secret", text=None):
    done = subprocess.run(
        [find(program), "--no-defaults", f"--host={site.host}", f"--port={site.port}", "--protocol=tcp", f"--user={user}",
         f"--password={password}", *arguments], input=text, capture_output=True, text=True, timeout=PATIENCE)
    timeless = re.sub(r"\(\d+\.\d+ sec\)", "(TIME)", done.stdout)
    return done.returncode, timeless, done.stderr.replace(str(site.port), "PORT")


@pytest.mark.parametrize("arguments", [
    ["-e", "SELECT 1, 'x', NULL"], ["-t", "-e", "SELECT 1 AS one, 'x' AS two"], ["-vvv", "-e", "SELECT 1; DO 1; SELECT 2"], ["-e", "SELEC"],
    ["--batch", "--skip-column-names", "-e", "SELECT 1; SELECT 2"], ["onramp_missing", "-e", "SELECT 1"], ["-X", "-e", "SELECT 1 AS a"],
    ["--force", "-e", "SELEC; SELECT 1"], ["--show-warnings", "-e", "SELECT 1/0; SELECT CAST('x' AS INT)"], ["-E", "-e", "SELECT 1 AS a, 2 AS b"],
    ["--default-character-set=latin1", "-e", "SELECT @@character_set_client"], ["-q", "-e", "SELECT seq FROM onramp_test.seq_1_to_1000"],
    ["onramp_test", "-e", "SHOW TABLES"], ["--comments", "-e", "/* c */ SELECT 1"], ["--init-command=SET @a = 5", "-e", "SELECT @a"],
    ["-A", "--column-type-info", "-e", "SELECT 1 AS a"],
])
def test_one_call(site, schema, note, arguments):
    note("outcome", run(site, *arguments))


def test_wrong_password(site, note):
    code, _, words = run(site, "-e", "SELECT 1", password="wrong")
    assert code == 1
    assert "ERROR 1045 (28000): Access denied for user 'app'@'localhost' (using password: YES)" in words
    note("words", words)


SCRIPT = """
CREATE TABLE s (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20));
INSERT INTO s (v) VALUES ('a'), ('b');
SELECT LAST_INSERT_ID(), ROW_COUNT();
delimiter //
CREATE PROCEDURE p() BEGIN SELECT * FROM s; SELECT COUNT(*) FROM s; END//
delimiter ;
CALL p();
START TRANSACTION;
DELETE FROM s;
ROLLBACK;
SELECT COUNT(*) FROM s;
SET @a = 5;
SELECT @a;
CREATE TEMPORARY TABLE t SELECT * FROM s;
SELECT * FROM t;
status_is_not_compared;
"""


def test_script(site, schema, note):
    note("outcome", run(site, "--force", "-vvv", schema, text=SCRIPT))
    note("again", run(site, "--force", "--batch", schema, text=SCRIPT.replace("CREATE TABLE s", "CREATE OR REPLACE TABLE s")))


def test_status_command(site, note):
    code, out, _ = run(site, "-e", "status")
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith(("Current user", "Server version", "Protocol version", "Client characterset"))]
    note("status", lines)


def test_load_data_local(site, schema, note, tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"{n}\tname {n}\n" for n in range(5000)))
    note("outcome", run(
        site, "--local-infile=1", schema, "-e",
        f"CREATE TABLE l (a INT, b VARCHAR(20)); LOAD DATA LOCAL INFILE '{path}' INTO TABLE l; SELECT COUNT(*), SUM(a) FROM l"))


def test_dump_and_restore(site, schema, note):
    note("create", run(site, schema, text="""
        CREATE TABLE d (id INT PRIMARY KEY, v VARCHAR(20), b BLOB); INSERT INTO d VALUES (1, 'é', x'00ff27'), (2, NULL, '');
        CREATE VIEW w AS SELECT id FROM d; CREATE TRIGGER g BEFORE INSERT ON d FOR EACH ROW SET NEW.v = UPPER(NEW.v);"""))
    code, dump, words = run(site, "--single-transaction", "--skip-dump-date", "--hex-blob", schema, program="mariadb-dump")
    assert (code, words) == (0, "")
    note("dump", [line for line in dump.splitlines() if "DEFINER" not in line and "Host:" not in line])
    locked = run(site, "--skip-comments", "--hex-blob", schema, program="mariadb-dump")  # LOCK TABLES around each table
    assert locked[0] == 0
    note("restore", run(site, schema, text=dump))
    note("content", run(site, schema, "-e", "SELECT id, v, HEX(b) FROM d; SELECT * FROM w"))


def test_administration_program(site, note):
    note("ping", run(site, "ping", program="mariadb-admin"))
    code, out, _ = run(site, "status", program="mariadb-admin")
    assert code == 0 and out.startswith("Uptime: ")
    note("processlist columns", run(site, "processlist", program="mariadb-admin")[1].splitlines()[1].split())
    note("refused", run(site, "shutdown", program="mariadb-admin")[0])


def test_a_load_goes_on_when_its_reader_has_gone(onramp):
    """As with `onramp bench run | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [binary(), "bench", "run", "echo", f"--port={onramp.port}", "--user=app", "--password=app-secret", "--events=10", "--time=0"],
        stdout=writer, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    os.close(writer)
    assert done.returncode == 0, done.stderr
