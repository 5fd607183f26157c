"""The PROXY protocol from load balancers, as MariaDB takes it: the same clients at both."""

import ssl
import struct

import pytest

from harness import raw
from harness.onramp import Onramp
from harness.raw import Ok
from harness.server import Server

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def version_1(address, port=4711):
    return f"PROXY TCP4 {address} 127.0.0.1 {port} 3306\r\n".encode()


def version_2(address, extra=b""):
    body = bytes(map(int, address.split("."))) + bytes([127, 0, 0, 1]) + struct.pack(">HH", 4711, 3306) + extra
    return SIGNATURE + b"\x21\x11" + struct.pack(">H", len(body)) + body


@pytest.fixture(scope="module")
def sites(folder, template):
    """A MariaDB that trusts this machine, one Onramp that does, and one that trusts others."""
    server = Server(folder, template=template).start("--proxy-protocol-networks=127.0.0.1,localhost")
    trusting = Onramp(server, folder, proxy_protocol_networks="127.0.0.0/8,localhost").start()
    wary = Onramp(server, folder, proxy_protocol_networks="10.0.0.0/8").start()
    with raw.connect(server, "admin", "admin-secret") as admin:
        for host in ("192.0.2.%", "198.51.100.7"):
            admin.query(f"CREATE USER proxied@'{host}' IDENTIFIED BY 'for {host}'")
        # Onramp's own address: what the server must see for the same account. One account covers both.
        admin.query("CREATE USER covered@'%' IDENTIFIED BY 'c'")
    yield {"server": server, "trusting": trusting, "wary": wary}
    trusting.stop()
    wary.stop()
    server.discard()


def login(site, header, user="covered", password="c"):
    connection = raw.Connection(site)
    connection.send_bytes(header)
    return connection, connection.login(user, password)


@pytest.mark.parametrize("header", [
    version_1("192.0.2.1"), version_2("192.0.2.1"), version_2("192.0.2.1", b"\x05\0\x03abc"), b"PROXY UNKNOWN\r\n",
    SIGNATURE + b"\x20\0\0\0", b"",
])
def test_clients_behind_a_balancer_are_served(sites, header):
    for name in ("server", "trusting"):
        connection, answer = login(sites[name], header)
        assert isinstance(answer, Ok), (name, answer)
        assert connection.value("SELECT CURRENT_USER()") == b"covered@%"
        connection.quit()


def test_the_announced_address_is_refused_by_its_name(sites):
    for name in ("server", "trusting"):
        for header, address in [(version_1("203.0.113.9"), "203.0.113.9"), (version_2("198.51.100.8"), "198.51.100.8")]:
            _, answer = login(sites[name], header, "proxied", "x")
            assert answer == (1045, "28000", f"Access denied for user 'proxied'@'{address}' (using password: YES)"), name


def test_accounts_match_by_the_announced_address(sites):
    """The password of the account for the announced network is the right one, and that of another is not."""
    _, answer = login(sites["trusting"], version_1("198.51.100.7"), "proxied", "for 192.0.2.%")
    assert answer[:2] == (1045, "28000")
    # The right one gets past the login; the server, which sees Onramp's address, has no such account for it.
    connection, answer = login(sites["trusting"], version_1("192.0.2.200"), "proxied", "for 192.0.2.%")
    assert isinstance(answer, Ok), answer
    connection.close()


@pytest.mark.parametrize("by_socket", [False, True])
def test_the_server_chooses_by_the_clients_address(sites, folder, by_socket):
    """Accounts that do not cover Onramp's address, direct by the same header and through Onramp."""
    onramp = Onramp(sites["server"], folder, by_socket=by_socket, proxy_protocol_networks="127.0.0.1",
                    backend_proxy_protocol="v2").start()
    try:
        for address, account in [("192.0.2.1", "192.0.2.%"), ("192.0.2.77", "192.0.2.%"), ("198.51.100.7", "198.51.100.7")]:
            for site in (sites["server"], onramp):
                connection, answer = login(site, version_2(address), "proxied", f"for {account}")
                assert isinstance(answer, Ok), answer
                assert connection.value("SELECT CURRENT_USER()") == f"proxied@{account}".encode()
                connection.quit()
        # Of the two clients of one account, that for which the backend was opened.
        connection, _ = login(onramp, version_2("192.0.2.77"), "proxied", "for 192.0.2.%")
        assert connection.value("SELECT USER()") in (b"proxied@192.0.2.1", b"proxied@192.0.2.77")
        connection.quit()
        # Who comes without a header is not at a loss.
        connection, answer = login(onramp, b"")
        assert isinstance(answer, Ok), answer
        assert connection.value("SELECT CURRENT_USER()") == b"covered@%"
        connection.quit()
    finally:
        onramp.stop()


def test_the_header_cut_anywhere(sites):
    for header in (version_1("192.0.2.1"), version_2("192.0.2.1")):
        connection = raw.Connection(sites["trusting"])
        for byte in header:
            connection.send_bytes(bytes([byte]))
        connection.greet()
        for byte in connection.packets(connection.login_request("covered", "c")):
            connection.send_bytes(bytes([byte]))
        assert isinstance(connection.finish_login("c"), Ok)
        connection.close()


def test_others_are_not_believed(sites):
    connection = raw.Connection(sites["wary"])
    connection.send_bytes(version_1("192.0.2.1"))
    connection.greet()
    try:
        answer = connection.receive()
        assert answer[0] == 0xFF, answer
    except (raw.Closed, AssertionError, ConnectionResetError):
        pass
    with raw.connect(sites["wary"], "covered", "c") as usual:
        assert usual.value("SELECT 1") == b"1"


def test_a_broken_header_ends_the_connection(sites):
    for header in (b"PROXY TCP4 nonsense\r\n", SIGNATURE + b"\x21\x11\0\x02ab", SIGNATURE + b"\xff\x11\0\0"):
        connection = raw.Connection(sites["trusting"])
        connection.greet()
        connection.send_bytes(header)
        assert connection.at_end()


def test_before_tls(sites, authority, own_onramp):
    certificate, key = authority.sign("proxied")
    context = ssl.create_default_context(cafile=str(authority.path))
    onramp = own_onramp(sites["server"], proxy_protocol_networks="*", tls="required", tls_certificate=certificate, tls_key=key)
    connection = raw.Connection(onramp)
    connection.send_bytes(version_2("192.0.2.1"))
    connection.greet()
    connection.start_tls(context)
    connection.send(connection.login_request("covered", "c", capabilities=raw.USUAL | raw.SSL))
    assert isinstance(connection.finish_login("c"), Ok)
    connection.close()
