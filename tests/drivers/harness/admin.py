"""An Onramp's admin port by a client library."""

import pymysql

from .server import free_port

PASSWORD = "admin-secret"


def start(own_onramp, monkeypatch, server, **options):
    """An Onramp with a connection to its admin port."""
    monkeypatch.setenv("ONRAMP_ADMIN_PASSWORD", PASSWORD)
    port = free_port()
    onramp = own_onramp(server, admin_listen=f"127.0.0.1:{port}", **options)
    onramp.admin = pymysql.connect(host="127.0.0.1", port=port, user="admin", password=PASSWORD)
    return onramp


def rows(onramp, statement):
    """What its admin port says, as dictionaries."""
    with onramp.admin.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def count(onramp, name):
    """A counter of SHOW STATUS."""
    return int(rows(onramp, f"SHOW STATUS LIKE 'Onramp_{name}'")[0]["Value"])
