"""What session trackers report: the items of OK packets, as lines."""

from .raw import SESSION_STATE_CHANGED, Err, Reader

KINDS = {0: "variable", 1: "schema", 2: "state change", 3: "gtids", 4: "characteristics", 5: "transaction state"}


def parse(changes):
    """The items as lines."""
    reader = Reader(changes)
    while reader.more():
        kind, body = reader.integer(1), Reader(reader.lenenc_bytes())
        if kind == 0:
            # MariaDB puts several variables into an item.
            while body.more():
                name, value = body.text(), body.text()
                # MySQL counts its statements in a variable, which changes with each.
                yield f"variable {name} = {'(a counter)' if name == 'statement_id' else repr(value)}"
        elif kind == 2:
            yield f"state change {body.rest().decode()}"
        elif kind == 3:
            yield f"gtids {body.integer(1)} {body.text()}"
        else:
            yield f"{KINDS.get(kind, kind)} {body.text()!r}"


def told(connection, play):
    """What `play` returns, and for each OK of its answers what that tells, with whether it says that it tells anything. Servers order
    variables by addresses in memory."""
    packets = []
    parse_ok = connection.ok

    def keep(payload):
        connection.session_changes = b""
        ok = parse_ok(payload)
        packets.append((bool(ok.status & SESSION_STATE_CHANGED), sorted(parse(connection.session_changes))))
        return ok

    connection.ok = keep
    try:
        return play(), packets
    finally:
        connection.ok = parse_ok


def golden(connection, statement):
    """The statement, its status and the items of all its packets, as lines of a golden file."""
    results, packets = told(connection, lambda: connection.query_all(statement))
    last = results[-1]
    outcome = f"error {last.code}" if isinstance(last, Err) else f"status {last.status:#06x}"
    items = sorted(item for _, items in packets for item in items)
    return "".join([f"{statement}\n  {outcome}\n", *(f"  {item}\n" for item in items)])
