"""docs/bad-days: what the pages have one ask and say at the admin port works there as it stands."""

import re
from pathlib import Path

import pymysql
import pytest

from harness.onramp import Onramp
from harness.server import free_port

pytestmark = pytest.mark.once

PAGES = Path(__file__).resolve().parents[2] / "docs" / "bad-days"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:SELECT|SET GLOBAL|SHOW) [^`]+)`")
PASSWORD = "admin-secret"


def statements(page):
    """Those in blocks of SQL, behind a prompt in what was seen, and in the text."""
    text = page.read_text()
    for language, block in BLOCK.findall(text):
        if language == "sql":
            yield from (part for part in re.sub(r"--.*", "", block).split(";") if part.strip())
        else:
            yield from re.findall(r"^> (SELECT .*|PAUSE|RESUME|RELOAD)$", block, re.MULTILINE)
    for statement in INLINE.findall(BLOCK.sub("", text)):
        yield " ".join(statement.split())


@pytest.fixture(scope="module")
def admin(folder, server):
    port = free_port()
    onramp = Onramp(server, folder, admin_listen=f"127.0.0.1:{port}", admin_password=PASSWORD, max_backends=4).start()
    connection = pymysql.connect(host="127.0.0.1", port=port, user="admin", password=PASSWORD)
    yield connection
    connection.close()
    onramp.stop()


def test_what_the_pages_ask_is_answered(admin):
    asked = [(page.name, statement) for page in sorted(PAGES.glob("*.md")) for statement in statements(page)]
    assert len(asked) > 25, "the statements were not found"
    refused = []
    with admin.cursor() as cursor:
        for page, statement in asked:
            try:
                cursor.execute(statement)
            except pymysql.MySQLError as error:
                refused.append((page, statement, error))
    assert not refused
