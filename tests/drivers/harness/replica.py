"""Replicas: what they send for a binary log, and the events that they get."""

import struct

from . import raw
from .server import ADMIN

REGISTER_REPLICA, BINLOG_DUMP, BINLOG_DUMP_GTID = 0x15, 0x12, 0x1E
NON_BLOCKING = 1


def dump_body(name, flags=NON_BLOCKING, position=4, server_id=4711):
    return struct.pack("<IHI", position, flags, server_id) + name.encode()


def events(connection):
    """The events up to the end of the log, as they came."""
    found = []
    while True:
        payload = connection.receive()
        if payload[0] == 0xFF:
            return found, connection.error(payload)
        if payload[0] == 0xFE:
            return found, connection.ok_or_error(payload[:5]), len(payload)
        found.append(payload)


def contents(found):
    """Without the event at the front that says where it begins, which has a time of its own, and those that the server writes when it likes (BINLOG_CHECKPOINT_EVENT)."""
    return [event for event in found if event[5] not in (4, 161)]


def replica(site, checksums=True, **options):
    connection = raw.connect(site, *ADMIN, **options)
    assert isinstance(connection.query("SET @mariadb_slave_capability = 4"), raw.Ok)
    if checksums:
        assert isinstance(connection.query("SET @master_binlog_checksum = @@global.binlog_checksum"), raw.Ok)
    return connection


def whole_log(site, log, **options):
    """The events as the site sends them, and how they end. The server closes the connection then."""
    with replica(site, **options) as connection:
        connection.command(BINLOG_DUMP, dump_body(log))
        found, *end = events(connection)
        assert connection.at_end()
        return contents(found), end
