"""Passwords on their way to a MySQL server: they go only where nobody else can have them."""

import pymysql
import pytest

from harness import mysql as private_mysql
from harness.server import ADMIN, APP
from harness.waiting import PATIENCE

pytestmark = private_mysql.needed

WITHHELD = "goes to the server only where nobody else can have it"


@pytest.fixture(scope="module")
def server(folder):
    server = private_mysql.MySqlServer(folder).start()
    if not (server.data / "public_key.pem").exists():
        server.discard()
        pytest.skip("this server has made no keys")
    yield server
    server.discard()


@pytest.fixture
def forgotten(server):
    """The server remembers nobody, so that it asks for each password itself."""
    def flush():
        connection = pymysql.connect(host=server.host, port=server.port, user=ADMIN[0], password=ADMIN[1])
        with connection.cursor() as cursor:
            cursor.execute("FLUSH PRIVILEGES")
        connection.close()

    flush()
    return flush


def log_in(onramp):
    connection = pymysql.connect(host=onramp.host, port=onramp.port, user=APP[0], password=APP[1], ssl_disabled=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        rows = cursor.fetchall()
    connection.close()
    return rows


def log_in_refused(onramp):
    with pytest.raises(pymysql.err.MySQLError) as refused:
        log_in(onramp)
    return refused.value.args


# Neither a port of this machine, nor TLS with a certificate that nobody has checked, says who answers.
@pytest.mark.parametrize("options", [{}, {"backend_tls": "required"}], ids=["in the clear", "unverified TLS"])
def test_by_default_none_goes_over_tcp(own_onramp, server, forgotten, options):
    onramp = own_onramp(server, wait=False, backend_public_key="", **options)
    onramp.says(WITHHELD)
    said = onramp.log_text().split("cannot be used: ")[1].splitlines()[0]
    assert said.startswith("the service account 'onramp' cannot log in: "), said
    for name in ("backend_tls = verify-ca", "backend_tls_ca", "backend_public_key", "backend_trusted_networks", "docs/TLS.md"):
        assert name in said
    code, message = log_in_refused(onramp)
    assert code == 1158 and WITHHELD in message and "backend_trusted_networks" in message, (code, message)


def test_clients_are_told_the_same(own_onramp, server, forgotten):
    """Where the server remembers the service account but not the client's."""
    log_in(own_onramp(server))  # Now it remembers both.
    connection = pymysql.connect(host=server.host, port=server.port, user=ADMIN[0], password=ADMIN[1], autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute("ALTER USER %s@'%%' IDENTIFIED BY %s", APP)
    connection.close()
    onramp = own_onramp(server, backend_public_key="")
    code, message = log_in_refused(onramp)
    assert code == 3159 and WITHHELD in message, message
    onramp.says('backends of "app" cannot log in: ')


@pytest.mark.parametrize("way", ["known key", "verified", "trusted", "trusted TLS", "socket"])
def test_where_it_goes(own_onramp, server, forgotten, way):
    options = {"known key": {}, "verified": {"backend_tls": "verify-ca", "backend_tls_ca": server.data / "ca.pem"},
               "trusted": {"backend_public_key": "", "backend_trusted_networks": "127.0.0.0/8"},
               "trusted TLS": {"backend_tls": "required", "backend_trusted_networks": "127.0.0.0/8"},
               "socket": {"backend_public_key": "", "by_socket": True}}[way]
    onramp = own_onramp(server, **options)
    assert log_in(onramp) == (("app@%",),)
    forgotten()
    assert log_in(onramp) == (("app@%",),)


def test_another_servers_key(own_onramp, server, forgotten, folder):
    """Somebody else answers, or the server has new keys: the password is not encrypted for it."""
    other = private_mysql.MySqlServer(folder)
    for name in ("public_key.pem", "private_key.pem"):
        (other.data / name).unlink()
    other.start()
    try:
        onramp = own_onramp(server, wait=False, backend_public_key=other.data / "public_key.pem")
        onramp.says("the server's RSA key is none of those in backend_public_key")
    finally:
        other.stop()
    both = folder + "/both.pem"
    with open(both, "wb") as file:
        for each in (other, server):
            file.write((each.data / "public_key.pem").read_bytes())
    assert log_in(own_onramp(server, backend_public_key=both)) == (("app@%",),)


def test_a_key_that_is_none(own_onramp, server, folder):
    path = folder + "/none.pem"
    with open(path, "w") as file:
        file.write("no key\n")
    onramp = own_onramp(server, wait=False, backend_public_key=path)
    assert onramp.process.wait(PATIENCE) == 1
    assert f"backend_public_key ({path}) holds no RSA public key" in onramp.log_text()
