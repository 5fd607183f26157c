"""Test suites of client libraries, from their own repositories, against a server and through Onramp.

Each is a function that takes the folder with the library's sources and a `Target`, and gives the outcome of each test by
name: "passed", "failed" or "skipped".
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import mysqltest  # noqa: F401  its path leads to the harness
from harness import raw

USER, PASSWORD = "suite", "suite-secret"

# The repositories and the commits that were looked at; another one may have other tests and other reasons.
SOURCES = {
    "PyMySQL": ("https://github.com/PyMySQL/PyMySQL", "0305ab3"),
    "mysqlclient": ("https://github.com/PyMySQL/mysqlclient", "4742adc"),
    "mysql2": ("https://github.com/sidorares/node-mysql2", "928c3c511"),
    "mysql_async": ("https://github.com/blackbeam/mysql_async", "08e9a99"),
    "sqlx": ("https://github.com/launchbadge/sqlx", "9d6bf662"),
}
# Its tests come with the package's sources; the repository's history is large.
SQLALCHEMY = "sqlalchemy==2.0.44"

# Longer than any of the suites takes on two cores, building included.
PATIENCE = 900
# Longer than any file of mysql2's suite takes that ends.
FILE_PATIENCE = 60


class Target(NamedTuple):
    port: int
    socket: str


def sources(name, folder):
    """The library's sources, cloned where they are not there."""
    place = Path(folder) / name.lower()
    if not place.exists() and name == "SQLAlchemy":
        Path(folder).mkdir(exist_ok=True)
        pip = [sys.executable, "-m", "pip"]
        subprocess.run([*pip, "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", "sqlalchemy", "-d", folder, SQLALCHEMY], check=True)
        archive = next(Path(folder).glob("sqlalchemy-*.tar.gz"))
        subprocess.run(["tar", "xf", archive, "-C", folder], check=True)
        archive.with_name(archive.name.removesuffix(".tar.gz")).rename(place)
    elif not place.exists():
        address, commit = SOURCES[name]
        subprocess.run(["git", "clone", "-q", address, place], check=True)
        subprocess.run(["git", "checkout", "-q", commit], cwd=place, check=True)
    return place


def pymysql(place, target):
    """pytest with the databases in a file."""
    account = {"host": "127.0.0.1", "port": target.port, "user": USER, "passwd": PASSWORD}
    databases = [dict(account, database="test1", use_unicode=True, local_infile=True), dict(account, database="test2")]
    folder = next(path.parent for path in place.rglob("base.py") if path.parent.name == "tests")
    (folder / "databases.json").write_text(json.dumps(databases))
    python = environment(place, ["pytest", "pytest-timeout", "cryptography", "PyNaCl"])
    # They want accounts with plugins that have to be installed first, and the server's own TLS.
    return pytest(place, python, target, ["pymysql/tests", "--ignore=tests/test_auth.py", "--ignore=pymysql/tests/test_auth.py"])


def mysqlclient(place, target):
    """pytest, after building the C extension."""
    headers = place.parent / "libmariadb-dev"
    if not headers.exists():
        subprocess.run(["apt-get", "download", "-q", "libmariadb-dev"], cwd=place.parent, check=True, stderr=subprocess.DEVNULL)
        package = next(place.parent.glob("libmariadb-dev_*.deb"))
        subprocess.run(["dpkg", "-x", package, headers], check=True)
    # The library itself comes with the server's client programs.
    os.environ["MYSQLCLIENT_CFLAGS"] = f"-I{headers}/usr/include/mariadb -I{headers}/usr/include/mariadb/mysql"
    os.environ["MYSQLCLIENT_LDFLAGS"] = "-l:libmariadb.so.3"
    python = environment(place, ["pytest", "pytest-timeout", "."])
    (place / "suite.cnf").write_text(
        f"[MySQLdb-tests]\nhost = 127.0.0.1\nport = {target.port}\nuser = {USER}\npassword = {PASSWORD}\ndatabase = test1\n"
        "default-character-set = utf8mb4\n")
    (place / "tests" / "suite.cnf").write_text((place / "suite.cnf").read_text())
    return pytest(place, python, target, ["tests"], TESTDB="suite.cnf")


def sqlalchemy(place, target):
    """pytest: what a dialect has to do, that of MySQL and MariaDB, and the object-relational mapper, with PyMySQL."""
    python = environment(place, ["pytest", "pytest-timeout", "PyMySQL", "."])
    url = f"mysql+pymysql://{USER}:{PASSWORD}@127.0.0.1:{target.port}/test1?charset=utf8mb4"
    tests = ["test/dialect/test_suite.py", "test/dialect/mysql", "test/orm", "test/engine"]
    # Its plugin reads the schemas of its tests from this file; the two others are those of its documentation.
    with raw.connect(SimpleNamespace(host="127.0.0.1", port=target.port), USER, PASSWORD) as admin:
        for schema in ("test_schema", "test_schema_2"):
            admin.query(f"DROP DATABASE IF EXISTS {schema}")
            admin.query(f"CREATE DATABASE {schema}")
    return pytest(place, python, target, [*tests, "--dburi", url, "--backend-only"])


def environment(place, packages):
    """A Python environment beside the sources."""
    python = place.parent / f"{place.name}-python" / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], cwd=place, check=True)
    return python


def pytest(place, python, target, arguments, **more):
    report = place / f"report-{target.port}.xml"
    report.unlink(missing_ok=True)
    subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=60", f"--junitxml={report}", *arguments],
        cwd=place, env=dict(os.environ, **more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False)
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        kinds = {child.tag for child in case}
        outcomes[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    report.unlink()
    return outcomes


def mysql2(place, target):
    """Every file that needs a server is a test, as its runner takes it: those in `integration` four at a time."""
    if not (place / "node_modules").exists():
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=place, check=True)
    variables = {
        "MYSQL_HOST": "127.0.0.1", "MYSQL_PORT": str(target.port), "MYSQL_USER": USER, "MYSQL_PASSWORD": PASSWORD,
        "MYSQL_DATABASE": "test1", "CI": "1"}

    def outcome(file):
        # In a group of its own: what a file that does not end has started would hold its connections for ever.
        process = subprocess.Popen(
            ["node", "--import", "tsx", file], cwd=place, env=dict(os.environ, **variables), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            return "passed" if process.wait(FILE_PATIENCE) == 0 else "failed"
        except subprocess.TimeoutExpired:
            return "failed"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    files = {str(file.relative_to(place)): file for file in sorted(place.glob("test/**/*.test.mts")) if "unit" not in file.parts}
    alone = {name: file for name, file in files.items() if name.startswith("test/global")}
    together = {name: file for name, file in files.items() if name not in alone}
    with ThreadPoolExecutor(4) as pool:
        outcomes = dict(zip(together, pool.map(outcome, together.values())))
    return outcomes | {name: outcome(file) for name, file in alone.items()}


def mysql_async(place, target):
    """cargo test; one test after the other, since they share their tables."""
    manifest = place / "Cargo.toml"
    if "[workspace]" not in manifest.read_text():
        manifest.write_text(manifest.read_text() + "\n[workspace]\n")  # it lies inside another one
    url = f"mysql://{USER}:{PASSWORD}@127.0.0.1:{target.port}/test1?prefer_socket=false"  # else it goes to the server's own socket, past Onramp
    done = subprocess.run(
        ["cargo", "test", "--quiet", "--no-default-features", "--features", "default-rustls-ring", "--lib", "--", "--test-threads=1", "--format=pretty"],
        cwd=place, env=dict(os.environ, DATABASE_URL=url, CARGO_TARGET_DIR=str(place / "target")), capture_output=True, text=True, timeout=PATIENCE, check=False)
    found = re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", done.stdout, re.M)
    return {name: {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}[outcome] for name, outcome in found}


# Without what asks a server at build time (sqlx's macros), which would be one build for each site.
SQLX_TESTS = ["mysql", "mysql-types", "mysql-describe", "mysql-error", "mysql-derives", "mysql-migrate", "mysql-test-attr", "mysql-rustsec"]


def sqlx(place, target):
    """cargo test, as its continuous integration runs it for MariaDB, in a schema of its own; one test after the other."""
    with raw.connect(SimpleNamespace(host="127.0.0.1", port=target.port), USER, PASSWORD, capabilities=raw.USUAL | raw.MULTI_STATEMENTS) as admin:
        admin.query_all("DROP DATABASE IF EXISTS sqlx; CREATE DATABASE sqlx; USE sqlx; DROP USER IF EXISTS no_password")
        for script in ("setup.sql", "setup-mariadb.sql"):
            for answer in admin.query_all((place / "tests/mysql" / script).read_text().rstrip()):
                assert not isinstance(answer, raw.Err), answer
    chosen = [word for name in SQLX_TESTS for word in ("--test", name)]
    variables = {
        "DATABASE_URL": f"mysql://{USER}:{PASSWORD}@127.0.0.1:{target.port}/sqlx?ssl-mode=disabled", "CARGO_TARGET_DIR": str(place / "target"),
        "RUSTFLAGS": '--cfg mariadb="10_11"', "RUSTUP_TOOLCHAIN": "stable"}
    features = "any,mysql,derive,macros,migrate,_unstable-all-types,runtime-tokio,tls-none"
    done = subprocess.run(
        ["cargo", "test", "--quiet", "--no-default-features", "--features", features, "--no-fail-fast", *chosen, "--", "--test-threads=1", "--format=pretty"],
        cwd=place, env=dict(os.environ, **variables), capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    found = re.findall(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", done.stdout, re.M)
    assert found, done.stderr[-3000:]
    return {name: {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}[outcome] for name, outcome in found}


SUITES = {"PyMySQL": pymysql, "mysqlclient": mysqlclient, "mysql2": mysql2, "mysql_async": mysql_async, "sqlx": sqlx, "SQLAlchemy": sqlalchemy}
