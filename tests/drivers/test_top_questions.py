"""Ten questions of a bad day, each asked of `onramp top`: a look at one screen answers it.

With UPDATE_DOCS=1 the screens go into docs/TOP.md, in the places that are marked there.
"""

import os
import re
from pathlib import Path

import pytest

from harness.bad_day import OPTIONS, BadDay
from harness.counted import PASSWORD, Counted
from harness.onramp import binary
from harness.server import Server
from harness.terminal import Terminal
from harness.waiting import until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "TOP.md"

# Of a screen in the docs so many rows of its table are shown.
ROWS_SHOWN = 5


@pytest.fixture(scope="module")
def day(folder, template):
    """One Onramp for all questions: each cause is taken back."""
    server = Server(folder, template=template).start()
    onramp = Counted(server, folder, **OPTIONS)
    try:
        onramp.start()
        yield BadDay(onramp, onramp.admin)
    finally:
        onramp.stop()
        server.discard()


@pytest.fixture(scope="module")
def screen(day):
    """`onramp top`, started once: an operator has it open when the day goes bad."""
    terminal = Terminal(width=120, height=30, ONRAMP_ADMIN_PASSWORD=PASSWORD)
    try:
        terminal.run([binary(), "top", "--port", day.onramp.admin_port, "--interval", "0.5"])
        terminal.shows("A restart now breaks off")
        yield terminal
    finally:
        terminal.close()


def answers(screen, name, key, *patterns):
    """Presses the one key, and waits until the screen has all of these (regular expressions) in it, in this order of its lines or not."""
    screen.keys(key)

    def found():
        text = screen.screen()
        return text if all(re.search(pattern, text) for pattern in patterns) else None

    text = until(found, lambda: f"not on the screen: {patterns}\n{screen.screen()}", pause=0.1)
    in_the_docs(name, text)
    return [line.rstrip() for line in text.splitlines()]


def in_the_docs(name, screen):
    """The screen's place in the docs; there it is put where that is wanted."""
    text = PAGE.read_text(encoding="utf-8")
    place = re.compile(rf"(<!-- screen: {name} -->\n```text\n).*?(\n```\n)", re.DOTALL)
    assert place.search(text), f"docs/TOP.md has no place for the screen {name}"
    if os.environ.get("UPDATE_DOCS"):
        # The first line has an address of this machine, and the last one is the same on all.
        lines = [line.rstrip() for line in screen.splitlines()][1:]
        shown = "\n".join(lines[:table(lines)] + rows(lines)[:ROWS_SHOWN])
        PAGE.write_text(place.sub(lambda match: match[1] + shown + match[2], text), encoding="utf-8")


def table(lines):
    """At which line the rows of the table begin: below the tabs and its heads."""
    return 2 + next(number for number, line in enumerate(lines) if line.startswith("1 clients"))


def rows(lines):
    """Those of the table; the last line is below it."""
    return [line for line in lines[table(lines):-1] if line]


def test_is_it_us_or_the_server(day, screen):
    """The first of all: what is compared is the last half minute."""
    with day.a_slow_server():
        answers(screen, "server", "1", r"It is the server: p95 [\d.]+ m?s on it, [\d.]+ [mu]s waiting before it\.")


def test_why_did_p99_rise_at_that_minute(day, screen):
    """Before there is anything slow on the server in that minute."""
    with day.too_much_work():
        minute = r"(?m)^20\d\d-\d\d-\d\d \d\d:\d\d:00 waiting +[\d.]+m?s +[\d.]+m?s +[\d.]+ +\d permit"
        answers(screen, "minutes", "9", minute)


def test_who_blocks_everyone(day, screen):
    with day.a_lock() as holder:
        lines = answers(screen, "blocks", "4", r"\d clients? blocks? others: \d statements? waits? for locks", rf"(?m)^{holder.id} +app +idle .* [123] ")
        assert rows(lines)[0].startswith(str(holder.id))
        assert rows(lines)[1].startswith("`- ")


def test_which_application_pins(day, screen):
    with day.pins():
        lines = answers(screen, "pins", "5", r"(?m)^ +3 .*named_lock +app@127\.0\.0\.1 3 +select get_lock", r"temporary_table +app@127\.0\.0\.1 1",
                        r"; 4 clients would have to connect again")
        assert "named_lock" in rows(lines)[0]


def test_a_pause_is_neither(day, screen):
    with day.a_pause():
        answers(screen, "paused", "1", r"Paused by an operator: 2 statements wait until RESUME", r"It is an operator's PAUSE")


def test_may_i_restart(day, screen):
    with day.work_that_a_restart_breaks_off():
        answers(screen, "restart", "1", r"A restart now breaks off 2 open transactions, 1 pinned client; 3 clients would have to connect again\.")


def test_who_waits_and_for_what(day, screen):
    with day.too_much_work():
        answers(screen, "waits", "2", r"(?m)^ *1 +\d+ +(low|high|long) +[\d.]+\w+ +permit +app .*DO SLEEP\(0\.2\)",
                r"; 8 clients would have to connect again")


def test_which_statement_costs_most(day, screen):
    with day.dear_statements():
        day.ask("SELECT 1")
        lines = answers(screen, "statements", "3", r"select sleep \(\?\), \?")
        times = [line.split()[0] for line in rows(lines)]
        assert len(times) > 2
        shares = [int(line.split()[2]) for line in rows(lines)]
        assert shares == sorted(shares, reverse=True) and sum(shares) <= 105


def test_what_changed(day, screen):
    with day.a_crowd():
        answers(screen, "changes", "c", r"(?m)^ +[\d.]+ logins +[\d.]+/s", r"(?m)^ +[\d.]+ clients +\d")


def test_who_is_refused_and_by_which_limit(day, screen):
    with day.refusals():
        lines = answers(screen, "refused", "r", r"a second are refused, since a limit is reached", r"(?m)^ +\d+ queue_limit +limit +app +127\.0\.0\.1")
        assert "queue_limit" in rows(lines)[0]


def test_do_logins_get_through_and_where_do_they_hang(day, screen):
    with day.logins_that_hang():
        lines = answers(screen, "logins", "0", r"(?m)^request +2 ", r"(?m)^password +0 +\d+ ", r"; 2 clients would have to connect again")
        # Where somebody is stands first.
        assert {line.split()[0] for line in rows(lines)[:2]} == {"request", "whole"}
        screen.keys("r")
        screen.shows("denied", "login")
