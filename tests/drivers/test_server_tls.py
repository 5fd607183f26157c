"""TLS with the server, and accounts that ask for it."""

import shutil
import signal
import ssl
from pathlib import Path

import pytest

from harness import raw
from harness.certificates import Authority
from harness.raw import Err, Ok
from harness.server import ADMIN, OTHER, Server
from harness.waiting import PATIENCE, until

# SHOW STATUS tells clients of their own.
BACKENDS_TLS = "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'SSL_VERSION'"


@pytest.fixture(scope="module")
def tls_server(folder, template, authority):
    """A MariaDB with a certificate for 127.0.0.1, which checks those of its clients."""
    certificate, key = authority.sign("mariadb", alternative="IP:127.0.0.1")
    server = Server(folder, template=template)
    server.start(f"--ssl-cert={certificate}", f"--ssl-key={key}", f"--ssl-ca={authority.path}")
    yield server
    server.discard()


def versions(onramp):
    """What the server says of the client's statements."""
    with raw.connect(onramp) as connection:
        rows = connection.query(BACKENDS_TLS)
        return rows.rows[0][1].decode()


def refusal(onramp):
    """Why the server cannot be used, from the log."""
    onramp.says("cannot be used: ")
    return onramp.log_text().split("cannot be used: ")[1].splitlines()[0]


def test_a_backend_changes_its_account_inside_tls(own_onramp, tls_server, authority):
    onramp = own_onramp(tls_server, workers=1, max_backends=1, backend_tls="verify-full", backend_tls_ca=authority.path)
    with raw.connect(tls_server, *ADMIN) as admin, raw.connect(onramp) as app, raw.connect(onramp, *OTHER) as other:

        def both_without_a_login():
            before = admin.query("SHOW GLOBAL STATUS LIKE 'Connections'").rows
            for client, name in ((other, b"other@%"), (app, b"app@%")):
                assert client.value("SELECT CURRENT_USER()") == name
                assert client.query(BACKENDS_TLS).rows[0][1] == b"TLSv1.3"
            return admin.query("SHOW GLOBAL STATUS LIKE 'Connections'").rows == before

        # Until the server's variables have been read, backends log in.
        until(both_without_a_login, "the backend changes its account")
        assert all(both_without_a_login() for _ in range(3))


def test_verified_in_full(own_onramp, tls_server, authority):
    onramp = own_onramp(tls_server, backend_tls="verify-full", backend_tls_ca=authority.path)
    assert versions(onramp) == "TLSv1.3"
    with raw.connect(onramp) as connection:
        assert connection.value("SELECT REPEAT('x', 2000000)") == b"x" * 2_000_000
        text = "y" * 2_000_000
        assert connection.value(f"SELECT LENGTH('{text}')") == b"2000000"


def test_preferred_stays_in_the_clear_on_this_machine(own_onramp, tls_server):
    assert versions(own_onramp(tls_server)) == ""
    assert versions(own_onramp(tls_server, backend_tls="required")) == "TLSv1.3"
    assert versions(own_onramp(tls_server, backend_tls="disabled")) == ""


def test_strangers_are_not_taken_for_the_server(own_onramp, tls_server, folder):
    stranger = Authority(f"{folder}/strange-servers").path
    for check in ("verify-full", "verify-ca"):
        onramp = own_onramp(tls_server, wait=False, backend_tls=check, backend_tls_ca=stranger)
        assert "certificate" in refusal(onramp)


def test_a_certificate_for_another_host(own_onramp, folder, template, authority):
    certificate, key = authority.sign("elsewhere", alternative="DNS:elsewhere.example")
    server = Server(folder, template=template).start(f"--ssl-cert={certificate}", f"--ssl-key={key}")
    try:
        onramp = own_onramp(server, wait=False, backend_tls="verify-full", backend_tls_ca=authority.path)
        assert "not valid for name" in refusal(onramp)
        assert versions(own_onramp(server, backend_tls="verify-ca", backend_tls_ca=authority.path)) == "TLSv1.3"
    finally:
        server.discard()


def test_a_server_without_tls(own_onramp, server):
    onramp = own_onramp(server, wait=False, backend_tls="required")
    assert "TLS is required (backend_tls), but the server does not offer it" in refusal(onramp)


def test_options_that_contradict_each_other(own_onramp, server, authority):
    for options, expected in [
        ({"backend_tls": "verify-full"}, "give backend_tls_ca"),
        ({"backend_tls_ca": authority.path}, "nothing is verified by it"),
        ({"backend_tls_certificate": authority.path}, "without backend_tls_key"),
    ]:
        onramp = own_onramp(server, wait=False, **options)
        assert onramp.process.wait(PATIENCE) != 0
        assert expected in onramp.log_text()


def test_accounts_that_ask_for_tls(own_onramp, tls_server, authority):
    """The client's own connection decides, as it would on the server."""
    ours = authority.sign("onramp", subject="/CN=onramp")
    server = authority.sign("front")
    onramp = own_onramp(tls_server, backend_tls="required", backend_tls_certificate=ours[0], backend_tls_key=ours[1],
                        tls_certificate=server[0], tls_key=server[1], tls_client_ca=authority.path)
    with raw.connect(tls_server, "admin", "admin-secret") as admin:
        for name, requirement in [("anytls", "SSL"), ("withcert", "X509"), ("named", "ISSUER '/O=Onramp tests/CN=authority'")]:
            answer = admin.query(f"CREATE OR REPLACE USER {name}@'%' IDENTIFIED BY 'one' REQUIRE {requirement}")
            assert isinstance(answer, Ok), answer
    bare = ssl.create_default_context(cafile=str(authority.path))
    known = ssl.create_default_context(cafile=str(authority.path))
    known.load_cert_chain(*authority.sign("client"))
    for site in (tls_server, onramp):
        for name, welcome in [("anytls", "bk"), ("withcert", "k"), ("named", "k")]:
            for context, letter in [(None, "p"), (bare, "b"), (known, "k")]:
                connection = raw.Connection(site)
                connection.greet()
                if context:
                    connection.start_tls(context, server_name="127.0.0.1" if site is tls_server else "localhost")
                    answer = connection.log_in_over_tls(name, "one")
                else:
                    connection.send(connection.login_request(name, "one"))
                    answer = connection.finish_login("one")
                if letter in welcome:
                    assert isinstance(answer, Ok), (site, name, letter, answer)
                    assert connection.value("SELECT CURRENT_USER()") == f"{name}@%".encode()
                else:
                    assert answer == (1045, "28000", f"Access denied for user '{name}'@'localhost' (using password: YES)")
                connection.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_resumed_session_has_its_certificate(own_onramp, tls_server, authority, folder, version):
    """And no other one: who came without a certificate has none after that either, and none counts whose authority has gone."""
    ours, front = authority.sign("onramp", subject="/CN=onramp"), authority.sign("front")
    vouched, clients = Path(folder) / "vouched.pem", Authority(f"{folder}/clients", name="clients")
    shutil.copy(clients.path, vouched)
    onramp = own_onramp(tls_server, backend_tls="required", backend_tls_certificate=ours[0], backend_tls_key=ours[1],
                        tls_certificate=front[0], tls_key=front[1], tls_client_ca=vouched)
    with raw.connect(tls_server, "admin", "admin-secret") as admin:
        assert isinstance(admin.query("CREATE OR REPLACE USER certified@'%' IDENTIFIED BY 'one' REQUIRE X509"), Ok)

    def context(*certificate):
        made = ssl.create_default_context(cafile=str(authority.path))
        made.minimum_version = made.maximum_version = version
        if certificate:
            made.load_cert_chain(*certificate)
        return made

    def login(made, session=None):
        connection = raw.Connection(onramp)
        connection.greet()
        connection.start_tls(made, session=session)
        answer = connection.log_in_over_tls("certified", "one")
        found = connection.socket.session, connection.socket.session_reused
        connection.close()
        return answer, *found

    bare, known = context(), context(*clients.sign("client"))
    for made, welcome in ((bare, Err), (known, Ok)):
        first, session, _ = login(made)
        second, _, reused = login(made, session)
        assert isinstance(first, welcome) and isinstance(second, welcome), (first, second)
        assert reused
    # Its authority is trusted no more.
    shutil.copy(authority.path, vouched)
    before = len(onramp.log_text())
    onramp.process.send_signal(signal.SIGHUP)
    until(lambda: "have been read again" in onramp.log_text()[before:], onramp.log_text)
    try:
        answer, _, reused = login(known, session)
        assert isinstance(answer, Err) and not reused
    except (ssl.SSLError, raw.Closed, ConnectionError):
        pass
