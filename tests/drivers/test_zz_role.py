import pytest, time
from conftest import site_through
from harness import mysql as private_mysql
from harness import raw
from harness.onramp import Onramp
from test_mysql import server  # noqa
from harness.server import ADMIN
pytestmark = private_mysql.needed

@pytest.fixture(params=["epoll"])
def one(folder, server, request):
    onramp = Onramp(server, folder, service=ADMIN, max_backends=1, permits=1, statements_in_flight=1, workers=1, driver=request.param, coalesce_reads="off", log_level="debug").start()
    yield onramp
    print(onramp.log_text()[-3000:])
    onramp.stop()

def test_x(one, server):
    with raw.connect(server, *ADMIN) as d:
        for s in ("DROP DATABASE IF EXISTS onramp_b","CREATE DATABASE onramp_b","CREATE TABLE onramp_b.words(id int primary key)", "GRANT ALL ON onramp_b.* TO app","CREATE FUNCTION onramp_b.f_lock() RETURNS INT NO SQL RETURN GET_LOCK('leak2',0)"):
            print(s, d.query(s))
        for where in (one,):
            print("direct" if where is server else "through")
            c = raw.connect(where, schema="onramp_b", capabilities=9347597 | (1<<20 if False else 0))
            for t in ("SET GLOBAL max_connections = onramp_b.f_lock()",):
                c.command(22, t.encode()); print(t, c.receive())
                break
                c.socket.settimeout(3)
                try:
                    for _ in range(4): print(c.receive())
                except Exception as e:
                    print(repr(e))
            c.close()
        for r in d.query("SHOW PROCESSLIST").rows: print(r)
        time.sleep(0.2); c2 = raw.connect(one, schema="onramp_b")
        c2.socket.settimeout(10)
        try:
            print(c2.query("SELECT id FROM words"))
        except Exception as e: print(repr(e))
        finally:
            for r in d.query("SHOW PROCESSLIST").rows: print(r)
        assert 0
