"""Compression towards a MySQL server, by zlib and by zstd.

MYSQL_HOME names the server's folder; without it the tests are skipped.
"""

import pymysql
import pytest

from harness import mysql as private_mysql
from harness.onramp import Onramp
from harness.server import ADMIN, APP

pytestmark = [private_mysql.needed, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(folder):
    server = private_mysql.MySqlServer(folder).start("--max-allowed-packet=64M", "--local-infile=ON")
    yield server
    server.discard()


@pytest.fixture(scope="module", params=["zlib", "zstd"])
def compression(request):
    return request.param


@pytest.fixture(scope="module")
def onramp(folder, server, compression):
    onramp = Onramp(server, folder, backend_compression=compression, max_backends=4, max_allowed_packet="64MiB").start()
    yield onramp
    assert onramp.stop() == 0


def connect(site, account=APP, **options):
    return pymysql.connect(host=site.host, port=site.port, user=account[0], password=account[1], ssl_disabled=True,
                           max_allowed_packet=1 << 26, **options)


def rows(connection, statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def algorithm(site):
    with connect(site) as connection:
        return dict(rows(connection, "SHOW SESSION STATUS LIKE 'Compression%'"))


def test_what_the_server_says_of_it(onramp, server, compression):
    found = algorithm(onramp)
    assert (found["Compression"], found["Compression_algorithm"]) == ("ON", compression)
    if compression == "zstd":
        assert found["Compression_level"] == "3"
    assert algorithm(server)["Compression"] == "OFF"
    assert "not compressed" not in onramp.log_text()


@pytest.mark.parametrize("size", [0, 1, 40, 60, 16_370, 16_384, 300_000, (1 << 24) - 40, 20_000_000])
def test_sizes(onramp, size):
    with connect(onramp) as connection:
        value = "x" * size
        # Not in the assertions, which would print them.
        same = rows(connection, f"SELECT '{value}', LENGTH('{value}')") == ((value, size),)
        assert same
        same = rows(connection, f"SELECT REPEAT('y', {size}), 2") == (("y" * size, 2),)
        assert same
        assert rows(connection, "SELECT 'behind'") == (("behind",),)


def test_many_rows_and_results(onramp):
    """Answers whose compressed packets go round, and several results of one text."""
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i, REPEAT('d', 16000) FROM n"
    with connect(onramp, client_flag=pymysql.constants.CLIENT.MULTI_STATEMENTS) as connection:
        for count in range(240, 264):
            found = rows(connection, numbers.format(count))
            right = [row[0] for row in found] == list(range(1, count + 1)) and all(len(row[1]) == 16_000 for row in found)
            assert right
            assert rows(connection, f"SELECT {count}") == ((count,),)
        with connection.cursor() as cursor:
            cursor.execute(";".join(f"SELECT {number}, REPEAT('e', 300)" for number in range(300)))
            for number in range(300):
                assert cursor.fetchall() == ((number, "e" * 300),)
                assert bool(cursor.nextset()) == (number < 299)


def test_many_on_few_backends(server, own_onramp, compression):
    onramp = own_onramp(server, backend_compression=compression, workers=2, max_backends=4, permits=2, shared_backends=1)
    clients = [connect(onramp) for _ in range(20)]
    for turn in range(10):
        for number, client in enumerate(clients):
            client._execute_command(pymysql.constants.COMMAND.COM_QUERY, f"SELECT {number}, {turn}, REPEAT('s', {number * 5000})")
        for number, client in enumerate(clients):
            client._read_query_result()
            right = client._result.rows == ((number, turn, "s" * (number * 5000)),)
            assert right
    for client in clients:
        client.close()


def test_files(onramp, tmp_path):
    with connect(onramp, local_infile=True, autocommit=True) as connection:
        rows(connection, "DROP TABLE IF EXISTS onramp_app.loaded")
        rows(connection, "CREATE TABLE onramp_app.loaded (id INT PRIMARY KEY, v VARCHAR(100)) CHARSET utf8mb4")
        for count in (0, 10, 200_000):
            file = tmp_path / "file"
            file.write_text("".join(f"{number},line {number}\n" for number in range(count)))
            rows(connection, f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE onramp_app.loaded FIELDS TERMINATED BY ','")
            assert rows(connection, "SELECT COUNT(*), SUM(id) FROM onramp_app.loaded")[0][0] == count
            rows(connection, "DELETE FROM onramp_app.loaded")


def test_a_server_that_wants_it(server, own_onramp, compression):
    """One that takes no others, and one that offers another one only."""
    with connect(server, ADMIN) as admin:
        other = {"zlib": "zstd", "zstd": "zlib"}[compression]
        try:
            rows(admin, f"SET GLOBAL protocol_compression_algorithms = '{compression}'")
            onramp = own_onramp(server, backend_compression=compression)
            assert algorithm(onramp)["Compression_algorithm"] == compression
            rows(admin, f"SET GLOBAL protocol_compression_algorithms = '{other},uncompressed'")
            onramp = own_onramp(server, backend_compression=compression)
            assert algorithm(onramp)["Compression"] == "OFF"
            onramp.says(f"not compressed: it does not offer {compression}")
        finally:
            rows(admin, "SET GLOBAL protocol_compression_algorithms = 'zlib,zstd,uncompressed'")
