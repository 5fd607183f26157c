"""`onramp trial`: an application is served as ever, and the report names what a pool would make of it."""

import json
import os
import re
import signal
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pymysql
import pytest

from harness.onramp import Onramp, binary
from harness.server import free_port
from harness.waiting import PATIENCE, until

SECRET = "a-literal-that-nobody-else-may-see"


class Trial(Onramp):
    """One `onramp trial` process."""

    def __init__(self, server, folder, time, **options):
        super().__init__(server, folder, **options)
        self.json, self.html = Path(folder) / f"trial-{self.port}.json", Path(folder) / f"trial-{self.port}.html"
        self.told = Path(folder) / f"trial-{self.port}.txt"
        self.time = time

    def start(self, wait=True):
        user, password = self.service
        command = [binary(), "trial", "--for", self.time, "--json", self.json, "--html", self.html,
                   "--listen", f"{self.host}:{self.port}", "--http-listen", "off"]
        for name, value in {**self.trust(), **self.options}.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        environment = dict(os.environ, ONRAMP_BACKEND=f"mysql://{user}:{password}@{self.server.host}:{self.server.port}/")
        environment.pop("ONRAMP_BIN", None)
        with open(self.told, "wb") as told, open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=told, stderr=log)
        if wait:
            self.wait_until_ready()
        return self

    def reports(self):
        """The reports that were printed."""
        return re.split(r"(?m)^(?=Onramp trial: )", self.told.read_text())[1:]

    def ask(self):
        """Has a report written, and gives it as text, data and page."""
        before = len(self.reports())
        self.process.send_signal(signal.SIGUSR1)
        # The page is written last.
        self.says(f"the report is in {self.html}", before + 1)
        return self.reports()[-1], json.loads(self.json.read_text()), self.html.read_text()


@pytest.fixture
def trial(own_server, folder):
    started = []

    def start(time="1h", **options):
        started.append(Trial(own_server, folder, time, **options))
        return started[-1].start()

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def connect():
    opened = []

    def open_one(trial, user="app", password="app-secret", **options):
        opened.append(pymysql.connect(host=trial.host, port=trial.port, user=user, password=password, autocommit=True, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def run(connection, *statements):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.handlers, self.words = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.handlers += [name for name, _ in attributes if name.startswith("on") or name in ("href", "src")]

    def handle_data(self, data):
        self.words.append(data)


def application(trial, connect):
    """Does what pins, what takes time to think, and what shows where one is; gives the clients that go on with it."""
    basket, lock, thinker, reader = (connect(trial, database="onramp_app") for _ in range(4))
    run(basket, "CREATE TABLE IF NOT EXISTS stock (id INT PRIMARY KEY, note VARCHAR(80)) ENGINE=InnoDB",
        "REPLACE INTO stock VALUES (1, 'x'), (2, 'y')", "CREATE TEMPORARY TABLE basket (id INT)")
    assert run(lock, "SELECT GET_LOCK('job', 10)") == ((1,),)
    run(thinker, "BEGIN", f"UPDATE stock SET note = '{SECRET}' WHERE id = 1")
    for number in range(50):
        run(reader, f"SELECT note FROM stock WHERE id = {number}")
    run(reader, "SELECT CONNECTION_ID()", f"SELECT '{SECRET}' AS `<script>alert(1)</script>`")
    for _ in range(2):
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            connect(trial, password="wrong")
    return basket, lock, thinker, reader


def test_the_report_names_what_an_application_does(trial, connect):
    onramp = trial()
    _, _, thinker, _ = application(onramp, connect)
    # Once a look has seen the transaction with nothing running in it for a while.
    until(lambda: onramp.ask()[1]["transactions"]["seen_idle"] == 1, "no transaction was seen to stand idle")
    run(thinker, "COMMIT")
    text, data, page = onramp.ask()

    assert data["clients"]["max"] == 4
    # Those with a temporary table, with a lock and in a transaction, and the reader at times.
    assert 3 <= data["backends_needed"]["max"] <= 4
    assert f"{data['backends_needed']['max']} backends would have done for 4 clients" in text
    pins = {pin["reason"]: pin for pin in data["pins"]}
    assert {"temporary_table", "named_lock"} == set(pins)
    assert pins["named_lock"]["causes"][0]["text"].startswith("select get_lock")
    assert pins["named_lock"]["clients_now"] == 1 and "RELEASE_LOCK" in pins["named_lock"]["avoid"]
    assert data["transactions"]["seen"] == 1 and data["transactions"]["longest_idle_us"] >= 100_000
    [refused] = data["refused_logins"]
    assert (refused["user"], refused["from"], refused["count"]) == ("app", "127.0.0.1", 2)
    assert any("CONNECTION_ID()" in difference["what"] for difference in data["differences"])
    options = {option["option"]: option["value"] for option in data["options"]}
    assert options["thread_handling"] == "pool-of-threads"
    reads = [kind for kind in data["load"]["dearest"] if kind["text"] == "select note from stock where id = ?"]
    assert [kind["count"] for kind in reads] == [50]

    # All three say the same.
    words = " ".join(Page(page).words)
    for reason in pins:
        assert re.search(rf"^  {reason}: once,", text, re.MULTILINE) and reason in words
    for kind in data["load"]["dearest"]:
        assert kind["digest"] in text and kind["digest"] in words
    assert re.search(r"login of app from 127.0.0.1 refused: 2", text) and "127.0.0.1" in words
    assert f"{data['load']['statements']} statements of {data['load']['kinds']} kinds" in text


def test_no_literal_and_no_markup_of_users_is_in_it(trial, connect):
    onramp = trial()
    application(onramp, connect)
    text, _, page = onramp.ask()
    for form in (text, page, onramp.json.read_text()):
        assert SECRET not in form
    read = Page(page)
    assert "script" not in read.tags and not read.handlers
    assert "default-src 'none'" in page


def test_it_serves_on_when_the_time_is_over_and_tells_again_at_the_end(trial, connect):
    onramp = trial(time="1s")
    client = connect(onramp)
    onramp.says("the time is over; serving goes on", 1)
    assert len(onramp.reports()) == 1
    assert run(client, "SELECT 7") == ((7,),)
    assert connect(onramp).open
    before = json.loads(onramp.json.read_text())
    assert onramp.stop() == 0
    assert len(onramp.reports()) == 2
    after = json.loads(onramp.json.read_text())
    assert after["load"]["statements"] > before["load"]["statements"] and after["until_ms"] > before["until_ms"]
    assert after["since_ms"] == before["since_ms"]


def test_each_client_has_a_backend_of_its_own(trial, connect):
    onramp = trial()
    ids = set()
    for _ in range(5):
        client = connect(onramp, "admin", "admin-secret")
        [(thread,)] = run(client, "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%this very text%'")
        ids.add(thread)
    assert len(ids) == 5


def test_a_bound_on_backends_is_held_against_what_was_needed(trial, connect):
    onramp = trial(max_backends=2, workers=1, user_backends_share=50)
    keep = [connect(onramp) for _ in range(4)]
    for number, client in enumerate(keep):
        assert run(client, f"SELECT GET_LOCK('job {number}', 10)") == ((1,),)
    until(lambda: onramp.ask()[1]["backends_needed"]["max"] == 4, "they were not seen")
    limits = {limit["option"]: limit for limit in onramp.ask()[1]["limits"]}
    assert limits["max_backends"]["backends_too_few"] == 2 and limits["max_backends"]["count"] is None
    assert limits["user_backends_share"]["users"] == ["app"]


def test_one_that_runs_is_watched_over_its_admin_port(own_server, own_onramp, connect, tmp_path, monkeypatch):
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", "admin-secret")
    port = free_port()
    onramp = own_onramp(own_server, admin_listen=f"127.0.0.1:{port}", thread_handling="one-thread-per-connection")
    client = connect(onramp)
    assert run(client, "SELECT GET_LOCK('afar', 10)") == ((1,),)
    file = tmp_path / "trial.json"
    words = [binary(), "trial", "--from", f"127.0.0.1:{port}", "--for", "1s", "--json", file]
    told = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    assert told.returncode == 0, told.stderr
    data = json.loads(file.read_text())
    assert data["clients"]["max"] == data["backends_needed"]["max"] == 1
    assert [pin["reason"] for pin in data["pins"]] == ["named_lock"]
    assert "1 backend would have done for 1 client" in told.stdout
    assert run(client, "SELECT 7") == ((7,),)
    told = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE,
                          env={**os.environ, "ONRAMP_ADMIN_PASSWORD": "wrong"})
    assert told.returncode == 1 and "1045" in told.stderr


@pytest.mark.parametrize("words, code, part", [
    (["--help"], 0, "onramp trial"),
    (["--for", "soon"], 2, "--for soon"),
    (["--thread-handling", "pool-of-threads"], 2, "a trial is"),
    (["--json", "/nowhere/at/all.json"], 1, "/nowhere/at/all.json"),
    (["--permitz", "3"], 2, "--permits"),
    (["--from", "127.0.0.1:1", "--nothing"], 2, "--nothing"),
])
def test_what_cannot_be_used_is_said_at_the_start(words, code, part):
    told = subprocess.run([binary(), "trial", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    assert told.returncode == code
    assert part in told.stdout + told.stderr
