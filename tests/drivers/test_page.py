"""The page in a real browser: what it says of a pool that is idle, loaded, paused, without its server, or gone."""

import http.client
import json
import re
import time
import urllib.request
from types import SimpleNamespace

import pytest

from harness import raw
from harness.browser import Browser, program
from harness.metrics import ask
from harness.server import free_port
from harness.waiting import PATIENCE, in_background, until

pytestmark = pytest.mark.skipif(program() is None, reason="there is no Chromium; .ci/install test installs it")

# An answer is bounded however much there is: as much as a picture of a phone.
LARGEST_ANSWER = 300_000


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def site(own_server, own_onramp, monkeypatch):
    """An Onramp of the test's own, with an admin port and the page."""
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", "operator")
    port, admin = free_port(), free_port()
    onramp = own_onramp(own_server, http_listen=f"127.0.0.1:{port}", admin_listen=f"127.0.0.1:{admin}", permits=2, max_backends=12,
                        backend_connect_timeout="300s")
    onramp.http_port, onramp.admin = port, SimpleNamespace(host="127.0.0.1", port=admin)
    onramp.page = f"http://127.0.0.1:{port}/"
    return onramp


@pytest.fixture
def page(browser, site):
    """The page, once it has been filled."""
    browser.events.clear()
    browser.go(site.page)
    browser.shows("Options that are not at their defaults", "Statements, in the last ten minutes")
    yield browser
    assert not browser.troubles()
    # Nothing comes from elsewhere.
    assert all(address.startswith(site.page) for address in browser.addresses()), browser.addresses()
    browser.go("about:blank")


@pytest.fixture
def client(site):
    """Opens clients in a schema of theirs, and closes them."""
    opened = []

    def open_one(*account):
        opened.append(raw.connect(site, *account, schema="onramp_app"))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def legend(page, chart):
    """What a chart's legend says, by its words."""
    items = page.run(f"[...document.querySelectorAll('#chart-{chart} .legend li')].map((item) => item.innerText.trim())")
    return dict(item.rsplit(" ", 1) for item in items if " " in item)


def points(page, chart):
    """How many samples a chart shows."""
    return int(page.run(f"document.querySelector('#chart-{chart}').dataset.points ?? 0"))


def operator(site):
    return raw.connect(site.admin, "admin", "operator")


@pytest.mark.once
def test_idle(page):
    text = page.shows("All is well.", "Nobody waits.", "nobody holds anything", "Nobody was seen to wait for anybody's lock.")
    assert "live" in text and "not ready" not in text
    until(lambda: points(page, "throughput") >= 2, "the charts get no samples")
    assert legend(page, "throughput")["started"] == "0/s"
    assert legend(page, "permits")["limit"] == "2"
    until(lambda: page.run("document.body.className") == "good", lambda: page.run("document.body.className"))


def test_load_is_seen_with_what_it_waits_for(page, client):
    blocker, sleepers = client(), [client() for _ in range(2)]
    blocker.query("CREATE TABLE page (id INT PRIMARY KEY, v INT)")
    blocker.query("INSERT INTO page VALUES (1, 0)")
    blocker.query("BEGIN")
    blocker.query("UPDATE page SET v = 1")
    waiting = [in_background(client().query, "UPDATE page SET v = v + 1 WHERE id = 1") for _ in range(12)]
    page.shows(f"Client {blocker.id}", "by locks", within="header")
    tree = page.shows(f"{blocker.id}", "blocks", "update page set v = v + ? where id = ?", within="#locks")
    assert tree.index(f"{blocker.id}") < tree.index("update page")
    until(lambda: int(legend(page, "lacking")["a lock, on the server"]) >= 1, lambda: legend(page, "lacking"))
    page.shows("1 open transaction", within="#clients")
    blocker.query("COMMIT")
    assert all(isinstance(answer(), raw.Ok) for answer in waiting)
    page.shows("Nobody was seen to wait for anybody's lock.", within="#locks")
    page.shows("update page set v = v + ? where id = ?", within="#statements")
    asleep = [in_background(sleeper.value, "SELECT SLEEP(1)") for sleeper in sleepers]
    until(lambda: page.run("[...document.querySelectorAll('#chart-server path.line')].some((path) => path.getAttribute('d').length > 20)"), "no line is drawn")
    assert [answer() for answer in asleep] == [b"0"] * 2


def test_paused(page, site, client):
    clients = [client() for _ in range(3)]
    with operator(site) as order:
        order.query("PAUSE")
        answers = [in_background(one.value, f"SELECT {number}") for number, one in enumerate(clients)]
        page.shows("Paused by an operator: 3 statements wait until RESUME at the admin port.", within="header")
        until(lambda: legend(page, "lacking")["RESUME"] == "3", lambda: legend(page, "lacking"))
        text = page.shows("SELECT 1", within="#waiting")
        assert "app" in text
        until(lambda: page.run("document.body.className") == "told", lambda: page.run("document.body.className"))
        order.query("RESUME")
        assert [answer() for answer in answers] == [b"0", b"1", b"2"]
        page.shows("All is well.", within="header")
        page.shows("admin: ", "PAUSE", within="#events")


def test_a_dead_server(page, own_server, client):
    one = client()
    own_server.kill()
    page.shows("does not answer", within="header")
    answer = in_background(one.value, "SELECT 5")
    page.shows("1 statement wait", within="header")
    page.shows("does not answer", within="#server")
    until(lambda: legend(page, "lacking")["a connection"] == "1", lambda: legend(page, "lacking"))
    page.shows("server down", within="#state")
    own_server.start()
    assert answer() == b"5"
    page.shows("All is well.", within="header")


@pytest.mark.once
def test_old_data_are_said_to_be_old(page, site):
    page.shows("All is well.")
    site.process.kill()
    site.process.wait()
    page.shows("No data for", "what is shown is as old", "Onramp does not answer", within="header")
    assert "old" in page.run("document.body.className").split()


@pytest.mark.once
def test_pins_say_how_to_do_without(page, client):
    one = client()
    one.query("SELECT GET_LOCK('page', 1)")
    page.shows("Which applications pin", "named lock", "RELEASE_LOCK", "get_lock", within="#pins")
    page.shows("1 pinned", within="#strip")


def test_logins_by_stage_and_those_refused(page, site, client):
    assert client().value("SELECT 1") == b"1"
    with raw.Connection(site) as stranger:
        assert stranger.login("app", "wrong").code == 1045
    page.shows("greeting", "request", "password", "first backend", "1 refused (", within="#logins")
    page.shows("Not accepted yet: 0 of ", " at 127.0.0.1:", within="#logins")
    # Nobody has used TLS.
    assert page.run("[...document.querySelectorAll('#logins tbody tr')].length") == 5


@pytest.mark.once
def test_texts_of_others_stay_texts(page, client, own_admin):
    evil = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
    own_admin.query("CREATE USER '<b>evil</b>'@'%' IDENTIFIED BY 'x'")
    own_admin.query("GRANT ALL ON onramp_app.* TO '<b>evil</b>'@'%'")
    one = client("<b>evil</b>", "x")
    one.query(f"SELECT 1 AS `{evil}`")
    one.query("SELECT GET_LOCK('evil', 1)")
    page.shows("<script>document.title='owned'</script>", within="#statements")
    page.shows("<b>evil</b>", within="#pins")
    assert page.run("document.querySelectorAll('main script, main img, main b b').length") == 0
    assert "owned" not in page.run("document.title")


def test_a_thousand_digests_are_few(page, site, client):
    one = client()
    for number in range(1000):
        one.query(f"SELECT 1 AS column_{number}, '{'x' * 20}' AS {'long_' * 30}{number}"[:1000])
    page.shows("column_", within="#statements")
    assert page.run("document.querySelectorAll('#statements tbody tr').length") <= 45
    for path in ("/api/tables", "/api/now", "/api/now?span=day"):
        answer = until(lambda: (got := ask(site.http_port, path)).status == 200 and got, f"{path} is not answered")
        assert len(answer.body) < LARGEST_ANSWER
        json.loads(answer.body)


@pytest.mark.once
def test_what_is_asked_for_stands_in_the_address(page, site, client):
    with client() as one, client() as two:
        one.query("SELECT 1 AS first_one")
        two.query("SELECT 1 AS second_one")
        page.shows("first_one", "second_one", within="#statements")
        page.run("document.getElementById('filter').focus()")
        page.call("Input.insertText", text="first_one")
        until(lambda: "second_one" not in page.text("#statements") and "first_one" in page.text("#statements"), lambda: page.text("#statements"))
        assert page.run("location.search") == "?q=first_one"
        page.run("document.querySelector('[value=day]').click()")
        until(lambda: page.run("location.search") == "?span=day&q=first_one", "the span is not kept")
        page.go(f"{site.page}?q=second_one")
        page.shows("second_one", within="#statements")
        assert "first_one" not in page.text("#statements")


@pytest.mark.once
def test_by_keyboard_alone(page):
    until(lambda: points(page, "throughput") >= 4, "the charts get no samples")
    page.key("/", "/")
    assert page.run("document.activeElement.id") == "filter"
    page.run("document.getElementById('chart-throughput').focus()")
    page.key("ArrowLeft")
    page.key("ArrowLeft")
    assert page.run("document.querySelector('#chart-throughput .when')?.innerText.length") == len("12:34:56")
    page.key("Enter")
    page.shows("At ", " UTC", "back to now", within="#moment")
    assert "at=" in page.run("location.search")
    page.shows("Statements, in that minute", within="#statements")
    page.key("Escape")
    until(lambda: "back to now" not in page.text("#moment"), "the moment is not let go")


@pytest.mark.once
def test_a_narrow_window_has_no_sideways_scroll(page):
    page.resize(360, 800)
    try:
        until(lambda: page.run("document.documentElement.scrollWidth") <= 360, lambda: page.run("document.documentElement.scrollWidth"))
    finally:
        page.resize(1280, 900)


@pytest.mark.once
def test_why_it_was_slow_then(page, client):
    client().query("SELECT SLEEP(2)")
    page.shows("select sleep (?)", within="#statements")
    page.run("document.getElementById('chart-server').focus()")

    # Two seconds at least: as long as the statement slept.
    slow = re.compile(r"([2-9]|\d\d+)(\.\d+)?\u00a0s|\d+(\.\d+)?\u00a0min")

    def goes_back_to_the_peak():
        """From the last sample through all that there are."""
        page.key("End")
        for _ in range(points(page, "server")):
            if slow.fullmatch(legend(page, "server")["p99"]):
                return True
            page.key("ArrowLeft")
        return False

    until(goes_back_to_the_peak, lambda: page.text("#chart-server"), pause=0.1)
    page.key("Enter")
    moment = page.shows("At ", "back to now", "It is the server", "p99 on the server ", within="#moment")
    assert slow.match(moment.partition("p99 on the server ")[2]), moment


@pytest.mark.once
def test_a_foreign_host_gets_nothing(site):
    for path in ("/", "/api/now", "/api/tables", "/page.js"):
        connection = http.client.HTTPConnection("127.0.0.1", site.http_port, timeout=PATIENCE)
        connection.request("GET", path, headers={"Host": "evil.example"})
        answer = connection.getresponse()
        assert answer.status == 421 and b"All is well" not in answer.read()
        connection.close()


@pytest.mark.once
def test_answers_are_not_kept_and_nothing_else_is_loaded(site):
    for path in ("/", "/api/now", "/page.js"):
        with urllib.request.urlopen(f"{site.page.rstrip('/')}{path}", timeout=PATIENCE) as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self';")


@pytest.mark.once
def test_only_who_may_sees_it(own_server, own_onramp, browser):
    port = free_port()
    own_onramp(own_server, http_listen=f"127.0.0.1:{port}", http_password="secret")
    for path in ("/", "/page.js", "/page.css", "/api/now", "/api/tables"):
        assert ask(port, path).status == 401
        assert ask(port, path, method="POST", password="secret").status == 405
    browser.password("secret")
    try:
        browser.go(f"http://127.0.0.1:{port}/")
        browser.shows("All is well.")
        browser.go("about:blank")
    finally:
        browser.password(None)


# A day cannot be waited for: the page asks this in the place of Onramp, whose own answers these are but for the samples and what stands
# at the moment of the incident.
STAND_IN = """(() => {
  const recorded = %s;
  window.asked = [];
  window.fetch = async (path) => {
    asked.push(path);
    const query = new URLSearchParams(path.split("?")[1]);
    const since = Number(query.get("since") ?? 0), { at } = recorded.now.series;
    const first = at.findIndex((time) => time > since);
    const later = (values) => first < 0 ? [] : values.slice(first);
    const series = Object.fromEntries(Object.entries(recorded.now.series).map(([name, values]) => [name, later(values)]));
    const tables = query.get("from") === String(recorded.moment) ? recorded.then : recorded.tables;
    return new Response(JSON.stringify(path.startsWith("api/now") ? { ...recorded.now, series } : tables));
  };
})()"""

MINUTE = 60_000
DAY = 1440


def a_day(site, incident):
    """What this Onramp answers, with the samples of a day in which the server was slow for five minutes, from this one on."""
    now, tables = (json.loads(ask(site.http_port, path).body) for path in ("/api/now?span=day", "/api/tables"))
    end = now["at"] // MINUTE * MINUTE
    at = [end - (DAY - 1 - minute) * MINUTE for minute in range(DAY)]
    usual = {"statements": 500, "server_p50": 900, "server_p95": 4_000, "server_p99": 9_000, "wait_p50": 20, "wait_p95": 200, "wait_p99": 400,
             "clients": 100, "permits": 16, "permits_in_use": 3}
    bad = {"server_p95": 900_000, "server_p99": 2_000_000, "lacks_lock": 6, "blocking": 1}
    series = {name: [usual.get(name, 0)] * DAY for name in now["series"] if name != "at"}
    for name, figure in bad.items():
        series[name][incident:incident + 5] = [figure] * 5
    moment = at[incident]
    told = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment / 1000 - 30))
    event = {"number": 1, "time": told, "worker": 0, "level": "warn", "event": "log", "message": "an index was dropped, says somebody"}
    dear = {"digest": "00000000000000ab", "text": "update orders set paid = ?", "time_us": 9e8, "wait_us": 0, "errors": 0, "count": 300, "p50_us": 1,
            "p99_us": 2, "max_us": 3, "max_wait_us": 0, "taken_for": []}
    tables["events"] = [event]
    then = {**tables, "digests": {"time": [dear], "wait": [], "errors": []}}
    return {"now": {**now, "at": end, "seen": end, "began": at[0], "series": {"at": at, **series}}, "moment": moment, "tables": tables, "then": then}


@pytest.mark.once
def test_why_it_was_slow_hours_ago(browser, site):
    incident = 600
    day = a_day(site, incident)
    browser.events.clear()
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=STAND_IN % json.dumps(day))["identifier"]
    try:
        browser.go(f"{site.page}?span=day")
        until(lambda: browser.run("document.querySelector('#chart-server')?.dataset.points") == str(DAY), "the day is not drawn")
        at = day["now"]["series"]["at"]
        # The line of p99 has a point for each minute, and is highest for five of them.
        line = browser.run("document.querySelector('#chart-server g.c3 path.line').getAttribute('d')")
        heights = [float(point.split()[1]) for point in line.lstrip("M").split("L")]
        assert len(heights) == DAY
        assert [minute for minute, height in enumerate(heights) if height == min(heights)] == list(range(incident, incident + 5))
        # Its axis has whole hours, each as far from the next.
        hours = browser.run("[...document.querySelectorAll('#chart-server text.across')].map((text) => text.textContent)")
        assert len(hours) >= 4 and all(re.fullmatch(r"\d\d:00", hour) for hour in hours), hours
        apart = {(int(later[:2]) - int(earlier[:2])) % 24 for earlier, later in zip(hours, hours[1:])}
        assert len(apart) == 1, hours
        up = browser.run("[...document.querySelectorAll('#chart-server text.up')].map((text) => text.textContent)")
        assert "1\u00a0s" in up and "1\u00a0ms" in up, up
        # Onto the first minute of it by keys.
        browser.run("document.getElementById('chart-server').focus()")
        browser.key("Home")
        for _ in range(incident // 30):
            browser.key("PageDown")
        for _ in range(incident % 30):
            browser.key("ArrowRight")
        clock = time.strftime("%H:%M:%S", time.gmtime(day["moment"] / 1000))
        assert day["moment"] == at[incident] and clock in browser.text("#chart-server .when")
        browser.key("Enter")
        browser.shows(f"At {clock} UTC", "It is the server: p95 900\u00a0ms on it, where 6 wait for locks", "p99 on the server 2\u00a0s from 9\u00a0ms",
                      "waiting for locks on the server 6", "an index was dropped, says somebody", within="#moment")
        browser.shows("Statements, in that minute", "update orders set paid = ?", within="#statements")
        moment = day["moment"]
        assert f"api/tables?from={moment}&to={moment + MINUTE}" in browser.run("asked")
        assert browser.run("location.search") == f"?span=day&at={moment}"
        # Who is sent the address sees the same.
        browser.go(f"{site.page}?span=day&at={moment}")
        browser.shows(f"At {clock} UTC", "It is the server", within="#moment")
        assert not browser.troubles()
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
        browser.go("about:blank")
