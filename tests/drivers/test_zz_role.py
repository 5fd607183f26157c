import pytest
from conftest import site_through
from harness import mysql as private_mysql
from harness import raw
from test_left_behind import play
from test_mysql import server  # noqa
from test_mysql_left_behind import single_mysql, site, direct  # noqa

pytestmark = private_mysql.needed
R="A: SELECT CURRENT_ROLE()"
C="A: CALL onramp_a.powers()"
P = {
 "none, reset": [R, C, "A: SET ROLE NONE", R, C, "A: COM_RESET_CONNECTION", R, C],
 "reset": [R, C, "A: COM_RESET_CONNECTION", R, C],
 "none in other words": ["A: /*!80000 SET ROLE NONE */", R,"A: COM_RESET_CONNECTION", R, C],
 "prepared": ["A: PREPARE s FROM 'SET ROLE NONE'", "A: EXECUTE s", R, "A: COM_RESET_CONNECTION", R, C],
 "prepared2": ["A: SET ROLE NONE", "A: PREPARE s FROM 'SET ROLE NONE'", "A: EXECUTE s", R, "A: COM_RESET_CONNECTION", R, C],
 "in call": ["A: CALL onramp_a.nobody()", R, "A: COM_RESET_CONNECTION", R, C],
 "lock": ["A: SET ROLE NONE", "A: SELECT GET_LOCK('a',1)", R, "A: COM_RESET_CONNECTION", R, C],
 "temp": ["A: SET ROLE NONE", "A: CREATE TEMPORARY TABLE onramp_a.tt (i INT)", R, "A: COM_RESET_CONNECTION", R, C],
 "doubt": ["A: SET ROLE NONE", "A: SET NAMES gbk", R, "A: COM_RESET_CONNECTION", R, C],
}

@pytest.fixture
def role(direct):
    for s in ("DROP ROLE IF EXISTS onramp_powers","CREATE ROLE onramp_powers","GRANT EXECUTE ON onramp_a.* TO onramp_powers","CREATE TABLE IF NOT EXISTS onramp_a.x(i INT)",
      "CREATE PROCEDURE onramp_a.powers() SELECT 1","CREATE PROCEDURE onramp_a.nobody() SET ROLE NONE",
      "DROP USER IF EXISTS rolly", "CREATE USER rolly IDENTIFIED BY 'rolly'", "GRANT SELECT,CREATE TEMPORARY TABLES ON onramp_a.* TO rolly", "GRANT onramp_powers TO rolly", "SET DEFAULT ROLE ALL TO rolly"):
        a=direct.query(s)
        assert isinstance(a, raw.Ok), (s,a)

@pytest.mark.parametrize("name", sorted(P))
def test_x(site, note, direct, role, name):
    import test_left_behind as t
    c={"A": raw.connect(site, "rolly", "rolly", schema="onramp_a")}
    print(name)
    for n, step in enumerate(P[name]):
        w, text = step.split(": ",1)
        r = t.see(c, w, text)
        print("   ", step, r)
        note(f"{n} {step}", r)
    for x in c.values(): x.close()
