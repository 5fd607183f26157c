"""As test_stored_code, with a MySQL server. As test_mysql: skipped unless MYSQL_HOME names a server's folder."""

import pytest

from conftest import site_through
from harness import mysql as private_mysql
from harness import raw
from harness.counted import Reading
from harness.server import ADMIN
from test_mysql import server  # noqa: F401 (fixture)
from test_stored_code import (  # noqa: F401 (a test)
    CLEAN, CODE, PROGRAMS, READER, defined, others_are_served, run, see, test_a_procedure_that_fails_like_an_unknown_statement_pins,
    test_the_server_understands_what_it_is_asked)

pytestmark = private_mysql.needed

# MySQL has no sequences, and no variables in computed columns.
MARIADB = ("onramp_code.numbers", "onramp_code.numbered", "onramp_code.computed")
PROGRAMS = {name: steps for name, steps in PROGRAMS.items() if "sequence" not in name and "computed" not in name}


@pytest.fixture(scope="module")
def code(server):
    with raw.connect(server, *ADMIN) as admin:
        run(admin, [
            f"CREATE USER '{READER[0]}'@'%' IDENTIFIED BY '{READER[1]}'", f"GRANT SELECT, SHOW VIEW, TRIGGER, PROCESS ON *.* TO '{READER[0]}'@'%'",
            *(line for line in CODE if not any(name in line for name in MARIADB))])


@pytest.fixture(scope="module")
def reading(folder, server, code):
    onramp = Reading(server, folder, service=READER, max_backends=1).start_reading()
    yield onramp
    onramp.stop()


site = site_through("reading")


@pytest.mark.parametrize("deprecate_eof", [True, False])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_two_clients(client, note, server, code, name, deprecate_eof):
    with raw.connect(server, *ADMIN, schema="onramp_code") as admin:
        run(admin, [step for step in CLEAN if "number" not in step and "computed" not in step])
    capabilities = raw.USUAL if deprecate_eof else raw.USUAL & ~raw.DEPRECATE_EOF
    clients = {who: client(schema="onramp_code", capabilities=capabilities) for who in "AB"}
    for number, step in enumerate(PROGRAMS[name]):
        who, text = step.split(": ", 1)
        note(f"{number} {step}", see(clients, who, text))


def test_a_trigger_is_known_at_once(reading):
    with raw.connect(reading, *ADMIN) as admin:
        defined(admin, [
            "CREATE TABLE onramp_defined.t (a INT)", "CREATE TRIGGER onramp_defined.x BEFORE INSERT ON onramp_defined.t FOR EACH ROW SELECT 5 INTO @defined"])
        # Who names a variable, in whatever text, holds the backend.
        admin.reset()
        with raw.connect(reading, schema="onramp_defined") as client:
            run(client, ["INSERT INTO t VALUES (1)"])
            assert not others_are_served(admin), "it keeps the only backend"
        assert admin.result().rows


def test_a_trigger_that_is_defined_elsewhere_is_found(reading, server):
    """What it does without a report reaches nobody else: the server counts its definition."""
    with raw.connect(server, *ADMIN) as direct:
        before = reading.status("Onramp_stored_code_read")
        defined(direct, ["CREATE TABLE onramp_defined.elsewhere (a INT)", """CREATE TRIGGER onramp_defined.tells BEFORE INSERT ON onramp_defined.elsewhere
            FOR EACH ROW BEGIN DECLARE got INT; SELECT GET_LOCK('elsewhere', 0) INTO got; SELECT NEW.a INTO @told; END"""])
        # The first reading may have begun before the trigger was there; the next one follows a second later.
        reading.wait_until_read(before + 2)
    with raw.connect(reading, *ADMIN) as other, raw.connect(reading, schema="onramp_defined") as client:
        run(client, ["INSERT INTO elsewhere VALUES (8)"])
        assert not others_are_served(other), "it keeps the only backend"
        assert client.query("SELECT @told").rows == [(b"8",)]
        client.close()
        assert other.result().rows
        assert other.query("SELECT @told, IS_FREE_LOCK('elsewhere')").rows == [(None, b"1")]


def test_a_role_that_a_function_gives_up_is_given_up_for_its_client_alone(folder, server, code):
    """COM_RESET_CONNECTION leaves it as it is: neither the client's own nor the one behind the client brings it back."""
    function = "CREATE FUNCTION onramp_roles.f() RETURNS INT NO SQL SQL SECURITY INVOKER BEGIN SET ROLE NONE; RETURN 1; END"
    with raw.connect(server, *ADMIN) as admin:
        run(admin, ["CREATE DATABASE onramp_roles", "CREATE ROLE onramp_reader", "GRANT SELECT ON mysql.* TO onramp_reader",
                    "CREATE USER rolly IDENTIFIED BY 'reads-secret'", "GRANT SELECT, EXECUTE ON onramp_roles.* TO rolly", "GRANT onramp_reader TO rolly",
                    "SET DEFAULT ROLE ALL TO rolly", function, "CREATE SQL SECURITY INVOKER VIEW onramp_roles.v AS SELECT onramp_roles.f() AS one"])
    onramp = Reading(server, folder, service=READER, max_backends=1, workers=1).start_reading()
    given_up, role = [(b"NONE",)], "SELECT CURRENT_ROLE()"
    try:
        for resets in (False, True):
            with raw.connect(onramp, "rolly", "reads-secret", schema="onramp_roles") as client, \
                    raw.connect(onramp, "rolly", "reads-secret", schema="onramp_roles") as other:
                before = other.query(role).rows
                assert before != given_up and client.query("SELECT one FROM v").rows == [(b"1",)]
                if resets:
                    client.reset()
                assert client.query(role).rows == given_up
                client.close()
                assert other.query(role).rows == before
    finally:
        onramp.stop()
