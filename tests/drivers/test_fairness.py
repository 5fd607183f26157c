"""What one user can take from the others: backends that it holds."""

import select

import pytest

from harness import raw
from harness.raw import Err
from harness.server import OTHER
from harness.waiting import until

LOCK = "SELECT GET_LOCK(CONCAT('of ', CONNECTION_ID()), 0)"


def readable(clients):
    """Those of them that have been answered."""
    return select.select([client.socket for client in clients], [], [], 0)[0]


def begin_to_hold(onramp, count):
    """Clients of an account without rights that ask for a backend of their own, and never read what is answered."""
    clients = [raw.connect(onramp, *OTHER) for _ in range(count)]
    for client in clients:
        client.sequence = 0
        client.send(b"\x03" + LOCK.encode())
    return clients


def hold(onramp, count, *statements):
    """Clients of it that hold one."""
    clients = [raw.connect(onramp, *OTHER) for _ in range(count)]
    for client in clients:
        for statement in statements:
            assert not isinstance(client.query(statement), Err), statement
    return clients


@pytest.mark.parametrize("statements", [(LOCK,), ("BEGIN", "SELECT 1")], ids=["locks", "transactions"])
def test_who_holds_all_it_can_leaves_room_for_others(own_onramp, own_server, statements):
    """128 clients that hold something and are silent from then on; the last of them do not get it."""
    onramp = own_onramp(own_server, max_backends=128)
    holders = hold(onramp, 116, *statements)
    holders += begin_to_hold(onramp, 12)
    for turn in range(20):
        with raw.connect(onramp) as client:
            assert client.value("SELECT 1") == b"1"
            # One each: that of a client that has just gone may still be held.
            assert client.value(f"SELECT GET_LOCK('mine {turn}',0)") == b"1"
    assert not readable(holders[116:]), "somebody had more than the share"
    holders.pop(0).close()
    until(lambda: readable(holders[115:]), "nobody had the place that was given back")


def test_who_is_over_its_share_is_told_so(own_onramp, own_server):
    onramp = own_onramp(own_server, max_backends=10, user_backends_share=50, backend_connect_timeout="4s")
    holders = hold(onramp, 5, LOCK)
    with raw.connect(onramp, *OTHER) as client:
        for _ in range(2):
            error = client.query(LOCK)
            assert (error.code, error.state) == (1205, "HY000")
            assert "'other' uses 5 backends" in error.message and "user_backends_share = 50" in error.message
            assert client.value("SELECT 2") == b"2", "what keeps no backend goes on"
        assert holders[0].value("SELECT 1") == b"1", "who holds one goes on"
        holders[0].close()
        assert client.value(LOCK) == b"1"


def test_idle_holders_give_way(own_onramp, own_server):
    """Of one user alone: those that have been idle go, once others wait."""
    onramp = own_onramp(own_server, max_backends=4, idle_hold_timeout="1s")
    holders = hold(onramp, 4, LOCK)
    with raw.connect(onramp, *OTHER) as client:
        assert client.value(LOCK) == b"1"
        gone = [holder.query("SELECT 1") for holder in holders]
        lost = [answer for answer in gone if isinstance(answer, Err)]
        assert lost, gone
        for error in lost:
            assert (error.code, error.state) == (1159, "08S01") and "idle_hold_timeout = 1000 ms" in error.message
    onramp.says("idle_hold_timeout")
