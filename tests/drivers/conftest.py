"""Fixtures: one server, one Onramp in front of it, and every test once direct and once through."""

import contextlib
import functools
import os
import random
import tempfile
from collections import Counter

import mysql.connector
import pymysql
import pytest

from harness import lanes
from harness import mysql as private_mysql
from harness import raw
from harness.certificates import Authority
from harness.folders import place
from harness.onramp import Onramp
from harness.server import ADMIN, Server, end_in_order_on_sigterm, make_template
from harness.transcript import Transcript

# Fewer than the clients of most suites, so that clients share backends and change places on them.
MAX_BACKENDS = 4

transcripts = {}


def pytest_configure(config):
    lane = lanes.plugin()
    if lane is not None:
        config.pluginmanager.register(lane)


end_in_order_on_sigterm()


class Site:
    """An address that clients connect to: the server itself or Onramp."""

    def __init__(self, name, target, server, onramp=None):
        self.name = name
        self.host = target.host
        self.port = target.port
        self.server = server
        self.onramp = onramp

    @property
    def through(self):
        return self.onramp is not None


@pytest.fixture(scope="session")
def folder():
    with tempfile.TemporaryDirectory(prefix="onramp-drivers-", dir=place()) as path:
        yield path


@pytest.fixture(scope="session")
def template(folder):
    return make_template(folder)


@pytest.fixture(scope="module")
def authority(folder, request):
    """Signs the certificates of a test file."""
    return Authority(f"{folder}/{request.module.__name__}-certificates")


@pytest.fixture(scope="session")
def server(folder, template):
    server = Server(folder, template=template).start()
    yield server
    server.discard()


@pytest.fixture(scope="session")
def onramp(folder, server):
    onramp = Onramp(server, folder, max_backends=MAX_BACKENDS, max_allowed_packet="64MiB")
    onramp.start()
    yield onramp
    onramp.stop()


@pytest.fixture(scope="session")
def single(folder, server):
    """One with a single backend, on which each client would see what the other leaves there."""
    onramp = Onramp(server, folder, max_backends=1).start()
    yield onramp
    onramp.stop()


def site_through(name):
    """The fixture `site` for tests that go through the Onramp of this fixture; a module may have one of its own.

    Every test that asks for a site runs twice, and what it notes is compared.
    """
    @pytest.fixture(name="site", params=["direct", "onramp"])
    def site(request, server):
        if request.param == "direct":
            return Site("direct", server, server)
        onramp = request.getfixturevalue(name)
        assert onramp.process.poll() is None, f"onramp has ended:\n{onramp.log_text()[-3000:]}"
        return Site("onramp", onramp, server, onramp)

    return site


site = site_through("onramp")


@pytest.fixture
def transcript():
    return Transcript()


@pytest.fixture
def note(transcript):
    return transcript.note


@pytest.fixture
def admin(server):
    """A direct connection with all rights, whatever the site is."""
    with raw.connect(server, *ADMIN) as connection:
        yield connection


@pytest.fixture
def own_admin(own_server):
    """Likewise, to the test's own server."""
    with raw.connect(own_server, *ADMIN) as connection:
        yield connection


@pytest.fixture
def schema(admin):
    """A fresh, empty schema, by the same name each time."""
    admin.query("SET lock_wait_timeout = 100")
    for statement in ("DROP DATABASE IF EXISTS onramp_test", "CREATE DATABASE onramp_test"):
        answer = admin.query(statement)
        assert isinstance(answer, raw.Ok), answer
    return "onramp_test"


@contextlib.contextmanager
def closing(connect):
    """`connect`, with all that it opens closed at the end."""
    opened = []

    def open_one(*arguments, **options):
        opened.append(connect(*arguments, **options))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def client(site):
    """Opens protocol-level clients."""
    with closing(functools.partial(raw.connect, site)) as open_client:
        yield open_client


@pytest.fixture
def unauthenticated(site):
    """Opens sockets that have not logged in."""
    with closing(functools.partial(raw.Connection, site)) as open_socket:
        yield open_socket


def connect_pymysql(site, user="app", password="app-secret", **options):
    options.setdefault("charset", "utf8mb4")
    return pymysql.connect(host=site.host, port=site.port, user=user, password=password, **options)


def connect_connector(site, user="app", password="app-secret", **options):
    options.setdefault("charset", "utf8mb4")
    options.setdefault("collation", "utf8mb4_general_ci")
    return mysql.connector.connect(
        host=site.host, port=site.port, user=user, password=password, use_pure=True, ssl_disabled=True,
        auth_plugin="mysql_native_password", **options)


DRIVERS = {"pymysql": connect_pymysql, "connector": connect_connector}


@pytest.fixture(params=sorted(DRIVERS))
def driver(request, site):
    """Opens connections with one of the Python client libraries."""
    with closing(functools.partial(DRIVERS[request.param], site)) as open_driver:
        open_driver.name = request.param
        yield open_driver


@pytest.fixture
def own_server(folder, template):
    """A server of the test's own, to be stopped and killed at will."""
    server = Server(folder, template=template).start()
    yield server
    server.discard()


@pytest.fixture
def own_onramp(folder):
    """Starts Onramps with options of the test's own."""
    started = []

    def start(server, wait=True, **options):
        onramp = Onramp(server, folder, **options)
        started.append(onramp)
        return onramp.start(wait)

    yield start
    for onramp in started:
        onramp.stop()


# What differs on purpose, each with its entry in docs/DIFFERENCES.md. A test of this list that passes fails the run: then
# the entry there and the one here have had their time.
DIFFERENCES = {
    "test_dropped_schema[onramp": "error 1049, and no schema afterwards",
    "test_collation_of_results[onramp": "the collation number of results follows the connection",
    "test_change_user_refused[onramp-app-app-secret-forbidden]": "COM_CHANGE_USER to a forbidden schema closes",
    "test_change_user_refused[onramp-app-app-secret-onramp_missing]": "COM_CHANGE_USER to a missing schema closes",
    "test_init_connect[onramp": "init_connect runs when a backend logs in, which may have been before it was set",
}


def pytest_collection_modifyitems(items):
    private_mysql.skip_where_there_is_none(items)
    for item in items:
        for name, reason in DIFFERENCES.items():
            if item.name.startswith(name):
                # With several workers a client may be the first on its worker, where backends and accounts are fresh.
                strict = os.environ.get("ONRAMP_WORKERS", "1") == "1"
                item.add_marker(pytest.mark.xfail(reason=reason, strict=strict))


# Why tests are skipped that lack nothing: there is nothing to test in them. Any other reason is something that was missing.
NOTHING_TO_TEST = ("PyMySQL has no prepared statements", "nobody is pinned there", "the server itself takes no more",
                   "accounts of this kind are named after the user who runs the suites")


def pytest_terminal_summary(terminalreporter):
    """What was missing, and how many tests were skipped for it, which nobody should overlook; what was not selected is not among them.

    NOT_TESTED names a file for the reasons: of all runs of `.ci/run` it tells at its end.
    """
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped"))
    for reason in NOTHING_TO_TEST:
        del reasons[reason]
    ran = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    # Parameters of this name are keywords, too.
    if (version := private_mysql.version()) and any("mysql" in report.keywords for report in ran):
        terminalreporter.write_line(f"with MySQL {'.'.join(map(str, version))}")
    for reason, tests in sorted(reasons.items()):
        terminalreporter.write_line(f"NOT TESTED ({tests} skipped): {reason}", red=True)
    if os.environ.get("NOT_TESTED"):
        with open(os.environ["NOT_TESTED"], "a", encoding="utf-8") as file:
            file.writelines(f"{reason}\n" for reason in reasons)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    result = yield
    site, transcript = pyfuncitem.funcargs.get("site"), pyfuncitem.funcargs.get("transcript")
    if site is not None and transcript is not None:
        compare(pyfuncitem, site, transcript)
    return result


def compare(item, site, transcript):
    """Keeps the direct run's transcript and holds the other against it."""
    key = (item.path, item.originalname, str(sorted((k, str(v)) for k, v in item.callspec.params.items() if k != "site")))
    if not site.through:
        transcripts[key] = transcript
        return
    direct = transcripts.get(key)
    assert direct is not None, "there is no direct run to compare with: it failed, or was not selected"
    differences = direct.differences(transcript)
    assert not differences, "differs from the direct connection:\n" + "\n".join(differences)


@pytest.fixture
def seeded(request):
    """Random numbers that are the same in both runs."""
    return random.Random(request.node.originalname)
