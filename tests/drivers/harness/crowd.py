"""Clients of one account whose reads follow each other on few backends. Each stands in a list with the row that it is to read."""

from contextlib import contextmanager

from . import raw
from .raw import Err
from .server import ADMIN

CLIENTS = 36
# One permit, so that whoever does not share a backend waits.
FEW = {"workers": 1, "max_backends": 3, "permits": 1, "shared_backends": 1, "statements_in_flight": 16}
# In the first rounds the reads prove that they are harmless.
ROUNDS = 20


@contextmanager
def schemas(server, names):
    """An administrator, who has made schemas with a table each that holds the schema's name."""
    with raw.connect(server, *ADMIN) as admin:
        for name in names:
            for text in (f"CREATE DATABASE {name}", f"CREATE TABLE {name}.own AS SELECT '{name}' AS name",
                         f"GRANT SELECT ON {name}.* TO app"):
                assert not isinstance(admin.query(text), Err)
        yield admin


def ask(clients, read):
    for client, _ in clients:
        client.command(raw.QUERY, read)


def answers(clients):
    return [answer if isinstance(answer, Err) else tuple(field.decode() for field in answer.rows[0])
            for answer in (client.result() for client, _ in clients)]


def expected(clients):
    return [row for _, row in clients]


def ask_often(clients, read):
    for _ in range(ROUNDS):
        ask(clients, read)
        assert answers(clients) == expected(clients)


# By what one of those has been told before that miss a schema, what it may be told. A USE of it fails (1049), and behind that there is none (1046). On
# a backend that stands in it, its tables are missed (1146), as on a connection of the client's own.
BEHIND = {None: (1049, 1146), 1146: (1049, 1146), 1049: (1046,)}


def miss_schema(clients, read, missed):
    """The schema of those has been dropped that are to read such a row."""
    told = [None] * len(clients)
    for _ in range(2):
        ask(clients, read)
        for place, ((_, row), answer) in enumerate(zip(clients, answers(clients), strict=True)):
            if missed(row):
                assert isinstance(answer, Err) and answer.code in BEHIND[told[place]], (answer, row, told[place])
                told[place] = answer.code
            else:
                assert answer == row, (answer, row)


def leave_in_the_middle(clients, read):
    for _ in range(3):
        ask(clients, read)
        # Each third, so that those who leave stand behind others and before others.
        for client, _ in clients[::3]:
            client.socket.close()
        del clients[::3]
        assert answers(clients) == expected(clients)
        ask(clients, read)
        assert answers(clients) == expected(clients)
