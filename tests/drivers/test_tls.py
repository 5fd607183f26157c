"""TLS with clients: libraries, programs and what breaks it."""

import hashlib
import shutil
import signal
import ssl
import subprocess

import mysql.connector
import pymysql
import pytest

from harness import raw
from harness.certificates import Authority
from harness.onramp import Onramp
from harness.raw import Err, Ok
from harness.server import free_port
from harness.waiting import PATIENCE, until

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.sign("server")


@pytest.fixture(scope="module")
def secured(folder, server, authority, certificate):
    """Onramp with a certificate that clients can check, and that checks theirs."""
    onramp = Onramp(server, folder, max_backends=4, tls_certificate=certificate[0], tls_key=certificate[1],
                    tls_client_ca=authority.path)
    onramp.start()
    yield onramp
    onramp.stop()


@pytest.fixture
def context(authority):
    return ssl.create_default_context(cafile=str(authority.path))


def tls_login(site, context, user="app", password="app-secret", session=None):
    connection = raw.Connection(site)
    connection.greet()
    connection.start_tls(context, session=session)
    return connection, connection.log_in_over_tls(user, password)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rsa", [False, True], ids=["ecdsa", "rsa"])
def test_versions(own_onramp, server, authority, context, version, rsa):
    certificate, key = authority.sign("versions", rsa=rsa)
    onramp = own_onramp(server, tls_certificate=certificate, tls_key=key)
    context.minimum_version = context.maximum_version = VERSIONS[version]
    connection, answer = tls_login(onramp, context)
    assert isinstance(answer, Ok), answer
    assert connection.socket.version() == f"TLSv{version}"
    assert connection.value("SELECT CURRENT_USER()") == b"app@%"
    # Many records both ways.
    text = "x" * 3_000_000
    assert connection.value(f"SELECT LENGTH('{text}')") == b"3000000"
    assert connection.value("SELECT REPEAT('y', 3000000)") == b"y" * 3_000_000
    connection.quit()


@pytest.mark.parametrize("version", VERSIONS)
def test_show_status_tells_of_the_clients_own_tls(own_onramp, server, authority, context, version):
    certificate, key = authority.sign("shown")
    onramp = own_onramp(server, tls_certificate=certificate, tls_key=key, max_backends=1, workers=1)
    context.minimum_version = context.maximum_version = VERSIONS[version]
    connection, answer = tls_login(onramp, context)
    assert isinstance(answer, Ok), answer
    cipher = connection.socket.cipher()[0].encode()

    def told(asks, condition="LIKE 'Ssl%'"):
        rows = dict(asks.query(f"SHOW SESSION STATUS {condition}").rows)
        return rows.get(b"Ssl_version"), rows.get(b"Ssl_cipher")

    with raw.connect(onramp) as plain:
        for _ in range(2):
            assert told(connection) == (f"TLSv{version}".encode(), cipher)
            assert told(plain) == (b"", b"")
            assert told(connection, "LIKE 'ssl_version'") == (f"TLSv{version}".encode(), None)
    connection.quit()


def test_the_request_and_the_handshake_in_one_write(secured, context):
    """Clients that do not wait between the two, cut in the worst ways."""
    for piece in (1, 7, 1 << 20):
        connection = raw.Connection(secured)
        connection.greet()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        hello = connection.ssl_request() + outgoing.read()
        for start in range(0, len(hello), piece):
            connection.send_bytes(hello[start:start + piece])
        login = connection.packets(connection.login_request("app", "app-secret", capabilities=raw.USUAL | raw.SSL))
        done = sent = False
        answer = b""
        while not answer:
            incoming.write(connection.socket.recv(1 << 16))
            try:
                if not done:
                    tls.do_handshake()
                    done = True
                if not sent:
                    tls.write(login)
                    sent = True
                answer = tls.read(1 << 16)
            except ssl.SSLWantReadError:
                pass
            for byte in outgoing.read():
                connection.send_bytes(bytes([byte]))
        assert answer[4] == 0, answer
        connection.close()


def test_plain_clients_are_as_welcome_where_tls_is_allowed(secured):
    with raw.connect(secured) as connection:
        assert connection.greeting.capabilities & raw.SSL
        assert connection.value("SELECT 1") == b"1"


def test_wrong_password_inside_tls(secured, context):
    _, answer = tls_login(secured, context, password="wrong")
    assert answer[:2] == (1045, "28000")


def test_required(own_onramp, server, context, certificate, folder):
    path = f"{folder}/tls-required.sock"
    onramp = own_onramp(server, tls="required", tls_certificate=certificate[0], tls_key=certificate[1], listen=path)
    connection = raw.Connection(onramp)
    answer = connection.login("app", "app-secret")
    assert answer == Err(3159, "HY000", "Connections using insecure transport are prohibited while tls = required")
    assert connection.at_end()
    assert isinstance(tls_login(onramp, context)[1], Ok)
    # Nobody else can read what goes over a Unix socket.
    with raw.connect(onramp, socket_path=path) as local:
        assert local.value("SELECT 1") == b"1"


def test_each_address_for_itself(own_onramp, server, folder):
    port = free_port()
    onramp = own_onramp(server, tls="off", listen=f"127.0.0.1:{port}?tls=required")
    with raw.connect(onramp) as connection:
        assert not connection.greeting.capabilities & raw.SSL
    onramp.port, usual = port, onramp.port
    assert raw.Connection(onramp).login("app", "app-secret")[0] == 3159
    onramp.port = usual


def test_off(own_onramp, server):
    onramp = own_onramp(server, tls="off")
    connection = raw.Connection(onramp)
    connection.greet()
    assert not connection.greeting.capabilities & raw.SSL
    connection.send_bytes(connection.ssl_request())
    assert connection.ok_or_error(connection.receive())[0] == 1043
    assert connection.at_end()


def test_without_a_certificate_one_is_made(own_onramp, server):
    onramp = own_onramp(server)
    context = ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError):
        tls_login(onramp, context)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection, answer = tls_login(onramp, context)
    assert isinstance(answer, Ok)
    assert connection.value("SELECT 2") == b"2"


def test_a_server_that_nobody_vouches_for_is_left(secured, context):
    """The client breaks off; the server goes on with others."""
    connection = raw.Connection(secured)
    connection.greet()
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.start_tls(context, server_name="elsewhere.example")
    assert isinstance(tls_login(secured, context)[1], Ok)


def test_clients_certificates(secured, context, authority, folder):
    context.load_cert_chain(*authority.sign("client", subject="/C=SE/CN=client"))
    assert isinstance(tls_login(secured, context)[1], Ok)
    stranger = ssl.create_default_context(cafile=str(authority.path))
    stranger.load_cert_chain(*Authority(f"{folder}/strangers").sign("client"))
    stranger.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="(?i)alert"):
        tls_login(secured, stranger)


def test_noise_instead_of_a_handshake(secured, context):
    for noise in (b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(70_000), bytes(100), b"\x80" * 100):
        connection = raw.Connection(secured)
        connection.greet()
        connection.send_bytes(connection.ssl_request())
        try:
            connection.send_bytes(noise)
        except OSError:
            pass
        connection.finish_sending()
        answer = b""
        try:
            while piece := connection.socket.recv(4096):
                answer += piece
        except ConnectionResetError:
            pass
        assert len(answer) < 100, "an alert at most"
    # A login in the clear where TLS was asked for is no login.
    connection = raw.Connection(secured)
    connection.greet()
    connection.send_bytes(connection.ssl_request())
    connection.send(connection.login_request("app", "app-secret"))
    answer = connection.socket.recv(100)
    assert answer[:1] in (b"\x15", b""), answer
    assert isinstance(tls_login(secured, context)[1], Ok)


def test_ends_from_either_side(secured, context, admin):
    connection, _ = tls_login(secured, context)
    before = connection.id
    connection.socket.unwrap()  # close_notify, and waits for ours
    connection.close()
    killed, _ = tls_login(secured, context)
    with raw.connect(secured) as other:
        assert isinstance(other.query(f"KILL {killed.id}"), Ok)
    assert killed.at_end() and before != killed.id


def test_sessions_are_resumed(secured, context):
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    connection, _ = tls_login(secured, context)
    session = connection.socket.session
    assert not connection.socket.session_reused
    connection.close()
    connection, answer = tls_login(secured, context, session=session)
    assert isinstance(answer, Ok) and connection.socket.session_reused


def test_certificates_are_read_again(own_onramp, server, authority, context):
    certificate, key = authority.sign("renewed")
    onramp = own_onramp(server, tls_certificate=certificate, tls_key=key)

    def shown():
        connection, answer = tls_login(onramp, context)
        assert isinstance(answer, Ok)
        return connection, connection.socket.getpeercert()["serialNumber"]

    def hang_up(expected):
        onramp.process.send_signal(signal.SIGHUP)
        until(lambda: expected in onramp.log_text()[before:], onramp.log_text)

    connection, first = shown()
    authority.sign("renewed")
    assert shown()[1] == first
    before = len(onramp.log_text())
    hang_up("have been read again")
    _, second = shown()
    assert second != first
    assert connection.value("SELECT 1") == b"1", "those that stand go on"
    with open(key, "w", encoding="ascii") as file:
        file.write("nonsense")
    before = len(onramp.log_text())
    hang_up(f"tls_key ({key}) holds no private key")
    assert shown()[1] == second


def test_the_certificate_of_the_start_stays(own_onramp, server):
    onramp = own_onramp(server)

    def shown():
        connection, answer = tls_login(onramp, ssl._create_unverified_context())
        assert isinstance(answer, Ok)
        return connection.socket.getpeercert(binary_form=True)

    first = shown()
    onramp.process.send_signal(signal.SIGHUP)
    onramp.says("have been read again")
    assert shown() == first


def test_each_side_is_read_again_for_itself(own_onramp, server, authority, context):
    certificate, key = authority.sign("sided")
    own_certificate, own_key = authority.sign("of-backends")
    onramp = own_onramp(server, tls_certificate=certificate, tls_key=key, backend_tls_certificate=own_certificate, backend_tls_key=own_key)

    def shown():
        connection, answer = tls_login(onramp, context)
        assert isinstance(answer, Ok)
        return connection.socket.getpeercert()["serialNumber"]

    first = shown()
    with open(own_key, "w", encoding="ascii") as file:
        file.write("nonsense")
    authority.sign("sided")
    onramp.process.send_signal(signal.SIGHUP)
    onramp.says(f"backend_tls_key ({own_key}) holds no private key")
    renewed = shown()
    assert renewed != first, "towards clients all is well"
    with open(key, "w", encoding="ascii") as file:
        file.write("nonsense")
    authority.sign("of-backends")
    before = len(onramp.log_text())
    onramp.process.send_signal(signal.SIGHUP)
    until(lambda: f"tls_key ({key}) holds no private key" in onramp.log_text()[before:], onramp.log_text)
    assert shown() == renewed


def test_files_that_cannot_be_used_are_said_at_the_start(own_onramp, server, certificate, authority):
    _, other_key = authority.sign("other")
    for options, expected in [
        ({"tls_certificate": certificate[0], "tls_key": "/nowhere"}, "tls_key (/nowhere) cannot be read"),
        ({"tls_certificate": certificate[0]}, "without tls_key"),
        ({"tls_certificate": certificate[0], "tls_key": other_key}, f"tls_key ({other_key}) is not the key of the certificate in tls_certificate ({certificate[0]})"),
        ({"tls_client_ca": certificate[1]}, f"tls_client_ca ({certificate[1]}) holds no certificate"),
    ]:
        onramp = own_onramp(server, wait=False, **options)
        assert onramp.process.wait(PATIENCE) != 0
        assert expected in onramp.log_text()


def test_pymysql(secured, authority):
    connection = pymysql.connect(host="localhost", port=secured.port, user="app", password="app-secret",
                                 ssl_ca=str(authority.path), ssl_verify_cert=True, ssl_verify_identity=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        assert cursor.fetchall() == (("app@%",),)
    connection.ping()
    connection.close()


def test_connector(secured, authority):
    connection = mysql.connector.connect(
        host="localhost", port=secured.port, user="app", password="app-secret", use_pure=True,
        ssl_ca=str(authority.path), ssl_verify_cert=True, ssl_verify_identity=True, charset="utf8mb4",
        collation="utf8mb4_general_ci", auth_plugin="mysql_native_password")
    cursor = connection.cursor()
    cursor.execute("SELECT 1, REPEAT('a', 100000)")
    assert cursor.fetchall() == [(1, "a" * 100000)]
    connection.close()


def mariadb(site, *options):
    return subprocess.run(
        [shutil.which("mariadb"), "--no-defaults", "--protocol=tcp", f"--port={site.port}", "--user=app", "-papp-secret", *options],
        capture_output=True, text=True, timeout=PATIENCE)


def test_the_mariadb_program(secured, authority):
    ca = f"--ssl-ca={authority.path}"
    checked = mariadb(secured, "--host=localhost", ca, "--ssl-verify-server-cert", "-Ne", "SELECT 1; \\s")
    assert checked.returncode == 0, checked.stderr
    assert "Cipher in use is TLS_" in checked.stdout
    old = mariadb(secured, "--host=localhost", ca, "--ssl-verify-server-cert", "--tls-version=TLSv1.2", "-Ne", "SELECT 1; \\s")
    assert "Cipher in use is ECDHE-" in old.stdout, old.stderr
    plain = mariadb(secured, "--host=localhost", "--skip-ssl", "-Ne", "SELECT 1")
    assert plain.stdout == "1\n"


def test_many_at_once(secured, context):
    """Logins beside each other while statements go on."""
    busy = raw.connect(secured)
    pending = []
    for _ in range(50):
        connection = raw.Connection(secured)
        connection.greet()
        connection.send_bytes(connection.ssl_request())
        connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost", do_handshake_on_connect=False)
        connection.socket.setblocking(False)
        try:
            connection.socket.do_handshake()
        except ssl.SSLWantReadError:
            pass
        pending.append(connection)
    for _ in range(20):
        assert busy.value("SELECT 1") == b"1"
    for connection in pending:
        connection.socket.setblocking(True)
        connection.socket.settimeout(PATIENCE)
        connection.socket.do_handshake()
        assert isinstance(connection.log_in_over_tls(), Ok)
    for number, connection in enumerate(pending):
        assert connection.value(f"SELECT {number}") == str(number).encode()
        connection.close()


def proof(scramble, certificate):
    """What MariaDB 11.4 says with the OK of a login, for the account `app`."""
    stored = hashlib.sha1(hashlib.sha1(b"app-secret").digest()).digest()
    return b"\x01" + hashlib.sha256(stored + scramble + hashlib.sha256(certificate).digest()).hexdigest().upper().encode()


def test_a_certificate_that_nobody_vouches_for_is_proved_by_the_password(own_onramp, server):
    """MariaDB's clients from 11.4 on trust such a certificate if the server shows that it knows the password's hash."""
    onramp = own_onramp(server)
    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    with raw.Connection(onramp) as connection:
        scramble = connection.greet().scramble
        connection.start_tls(unchecked)
        certificate = connection.socket.getpeercert(binary_form=True)
        assert connection.log_in_over_tls().info == proof(scramble, certificate)
    with raw.Connection(onramp) as connection:
        assert connection.login("app", "app-secret").info == b""  # there is no certificate to prove
