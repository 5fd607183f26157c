"""An account, a schema and a role for each of many customers: what the server is asked of them takes as long as they are many, and no longer."""

from harness import raw
from harness.raw import Err
from harness.server import ADMIN

CUSTOMERS = 400
SECRET = "secret"


def rows_read(admin):
    """By all statements so far, of whatever table and by whatever key."""
    return sum(int(row[1]) for row in admin("SHOW GLOBAL STATUS LIKE 'Handler_read%'").rows)


def test_each_account_is_read_with_its_own_rights_alone(own_server, own_onramp):
    with raw.connect(own_server, *ADMIN) as connection:

        def admin(text):
            answer = connection.query(text)
            assert not isinstance(answer, Err), (text, answer)
            return answer

        is_mariadb = b"MariaDB" in connection.value("SELECT VERSION()")
        admin("CREATE ROLE reader")
        for number in range(CUSTOMERS):
            user = f"customer{number}@'%'"
            admin(f"CREATE USER {user} IDENTIFIED BY '{SECRET}'")
            admin(f"GRANT SELECT ON customer{number}.* TO {user}")
            admin(f"GRANT reader TO {user}")
            admin(f"SET DEFAULT ROLE reader {'FOR' if is_mariadb else 'TO'} {user}")
        before = rows_read(admin)
        onramp = own_onramp(own_server, workers=1)
        with raw.connect(onramp, "customer7", SECRET) as customer:
            assert customer.value("SELECT CURRENT_USER()") == b"customer7@%"
        read = rows_read(admin) - before
    # The tables of accounts, of rights on schemas, and of roles given and taken by default, some of them twice, and what a probe reads; where one of
    # them is read whole for each account it is 160,000 and more.
    assert read < 60 * CUSTOMERS, read


def test_a_long_list_of_accounts_is_read_beside_the_statements(own_server, own_onramp):
    """So long that no worker reads it itself: 256 KiB are some 1,500 of them."""
    with raw.connect(own_server, *ADMIN) as admin:
        users = ", ".join(f"customer{number}@'%' IDENTIFIED BY '{SECRET}'" for number in range(3000))
        assert not isinstance(admin.query(f"CREATE USER {users}"), Err)
        onramp = own_onramp(own_server, workers=2)
        for number in (0, 2999):
            with raw.connect(onramp, f"customer{number}", SECRET) as customer:
                assert customer.value("SELECT CURRENT_USER()") == f"customer{number}@%".encode()
        # A list that is longer still is read while clients are in.
        with raw.connect(onramp, "customer7", SECRET) as customer:
            assert not isinstance(admin.query(f"CREATE USER late@'%' IDENTIFIED BY '{SECRET}'"), Err)
            with raw.connect(onramp, "late", SECRET) as late:
                assert late.value("SELECT CURRENT_USER()") == b"late@%"
            assert customer.value("SELECT 1") == b"1"
