"""A primary and a replica whose network is cut, so that both take writes for a time, and where each write is afterwards."""

import time
from typing import NamedTuple

from .admin import rows
from .cluster import Cluster
from .network import Network
from .several import Load, until_in_use
from .waiting import until

# Writes before and behind each step.
MORE = 200


class Parting(NamedTuple):
    """What has come of a cut network."""

    # When the new primary took writes (or was to be used), by time.monotonic().
    writable: float
    # Of the load: nothing from here on may be on the former primary.
    mark: int
    # What the former primary has carried out behind the choice of the new one.
    late: set


class Parted(Cluster):
    """Each has a network of its own. A primary that hears nothing of the replica for a second acknowledges alone, as those do that are to go on."""

    options = ("--rpl-semi-sync-master-timeout=1000",)

    def __init__(self, folder, template):
        self.network = Network(2)
        try:
            super().__init__(folder, template, places=self.network.places)
            self.hold_markers()
        except BaseException:
            self.network.discard()
            raise

    def discard(self):
        super().discard()
        self.network.discard()

    def until_idle(self, number):
        """Until a server carries out nothing of a client's."""
        running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'app' AND COMMAND <> 'Sleep'"
        until(lambda: self.value(number, running) == b"0", "what it carries out does not come to its end")

    def fence(self, number):
        """What an operator does with a primary that is to be none any more."""
        self.order(number, "SET GLOBAL read_only = 1")

    def balance(self, load, mark):
        """Holds the ledger against both servers: what is on the first alone was begun before `mark`. Gives of that what was acknowledged, and
        what is in doubt."""
        former, new = self.stored(0), self.stored(1)
        alone = former - new
        assert all(number < mark for number in alone), f"written on the former primary: {sorted(alone)[-10:]}, and not before {mark}"
        assert load.acknowledged <= former | new, f"lost: {sorted(load.acknowledged - former - new)[:10]}"
        refused = load.refused & (former | new)
        assert not refused, f"refused, and there: {sorted(refused)[:10]}"
        assert former | new <= load.acknowledged | load.unknown
        return alone & load.acknowledged, alone & load.unknown


def lose_primary(cluster, onramp, load: Load, script=0, more=MORE, in_time=True):
    """The primary is cut off from all others, and back later, as writable as it was; somebody's script has promoted the replica in the meantime. It is
    fenced then, or where that is not `in_time` once all has arrived there that ever will."""
    cluster.network.cut_off(0)
    time.sleep(script)
    cluster.promote(1)
    writable = time.monotonic()
    until_in_use(onramp, [0, 1])
    mark = load.mark()
    cluster.until_idle(0)
    before = cluster.stored(0)
    load.until_acknowledged(more)
    cluster.network.cut_off(0, off=False)
    # Both take writes, so that nobody gets any.
    until_in_use(onramp, [0, 0])
    if not in_time:
        cluster.network.until_arrived(0)
        cluster.until_idle(0)
    cluster.fence(0)
    until_in_use(onramp, [0, 1])
    load.until_acknowledged(more)
    late = cluster.stored(0) - before
    return Parting(writable, mark, late)


def keep_primary(cluster, onramp, load: Load, script=0, more=MORE):
    """The replica is cut off, and promoted by somebody who sees it alone; clients go on with the primary, until both are to be seen and it is fenced."""
    cluster.network.cut_off(1)
    time.sleep(script)
    cluster.promote(1)
    # Somebody there writes.
    elsewhere = load.mark()
    cluster.order(1, f"INSERT INTO onramp_app.markers VALUES ({elsewhere})")
    load.acknowledged.add(elsewhere)
    load.until_acknowledged(more)
    cluster.network.cut_off(1, off=False)
    until_in_use(onramp, [0, 0])
    mark = load.mark()
    cluster.fence(0)
    # What was acknowledged on the former one in the meantime is given up by whoever says so, and by nobody else.
    onramp.says("lacks of what the former primary was known to have")
    rows(onramp, "SET GLOBAL failover_behind = 'allow'")
    writable = time.monotonic()
    until_in_use(onramp, [0, 1])
    load.until_acknowledged(more)
    return Parting(writable, mark, set())
