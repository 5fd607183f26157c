"""Servers with networks of their own (network namespaces), and lines between them and this machine that can be cut.

Needs Linux, root, iproute2 and util-linux. Nothing has a name that could stay behind: a namespace goes with its last process, the lines go with it,
and the process that keeps it goes with this one.
"""

import functools
import itertools
import os
import random
import shutil
import socket
import subprocess
import sys

from .waiting import until

PROGRAMS = ("ip", "unshare", "nsenter", "setpriv")

# Networks of this kind that a machine can have at a time. Each has 256 addresses of 198.18.0.0/15, which is set aside for tests (RFC 2544).
NETWORKS = 512

# The last byte of the address of this machine's end.
HERE = 254

# Of each place's end of its line to this machine: two stations, and no others that could have the same.
STATION = "02:00:00:00:00:01"


@functools.cache
def missing():
    """What keeps networks from being had; None where they are."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian, Ubuntu: apt install iproute2 util-linux)"
    if os.geteuid() != 0:
        return "servers with networks of their own need root"
    line = ["ip", "link", "add", "one", "type", "veth", "peer", "name", "other"]
    tried = subprocess.run(["unshare", "--net", *line], capture_output=True, text=True)
    return f"no network namespaces, or no lines between them: {tried.stderr.strip()}" if tried.returncode else None


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


class Place:
    """A network namespace. It has one address, which all its lines lead to."""

    def __init__(self):
        self.address = None
        # Its keeper ends with this process, whatever ends that.
        self.keeper = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        here = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{self.keeper.pid}/ns/net") != here, "there is no network namespace")

    def inside(self):
        """What goes in front of a command that runs there."""
        return ["nsenter", f"--net=/proc/{self.keeper.pid}/ns/net", "--"]

    def end(self, device, peer):
        """Gives an end of a line its address, and takes it into use."""
        run(*self.inside(), "ip", "address", "add", self.address, "peer", peer, "dev", device)
        self.switch(device, "up")

    def switch(self, device, state):
        run(*self.inside(), "ip", "link", "set", device, state)

    def discard(self):
        self.keeper.kill()
        self.keeper.wait()


class Network:
    """Places, each with a line to this machine and one to each other place."""

    def __init__(self, count):
        self.places = []
        try:
            for _ in range(count):
                self.places.append(Place())
            self.number = self._first_line()
            for each, place in enumerate(self.places):
                place.address = self._address(each + 1)
                if each > 0:
                    self._line_from_here(self.number, each)
                place.switch("lo", "up")
                place.end("here", self._address(HERE))
                run("ip", "address", "add", self._address(HERE), "peer", place.address, "dev", self._name(self.number, each))
                run("ip", "link", "set", self._name(self.number, each), "up")
                # Or the system would look for it as the line is cut, and keep for seconds what waits for the answer, below TCP.
                run("ip", "neighbour", "replace", place.address, "lladdr", STATION, "dev", self._name(self.number, each), "nud", "permanent")
            for one, other in itertools.combinations(range(count), 2):
                self._line(one, other)
        except BaseException:
            self.discard()
            raise

    def _address(self, last):
        return f"198.{18 + self.number // 256}.{self.number % 256}.{last}"

    @staticmethod
    def _name(number, each):
        """Of this machine's end of a line."""
        return f"onramp{number}-{each}"

    def _first_line(self):
        """Lays it by a number that nobody else has, and gives that."""
        for number in random.sample(range(NETWORKS), NETWORKS):
            if not os.path.exists(f"/sys/class/net/{self._name(number, 0)}"):
                self._line_from_here(number, 0)
                return number
        raise AssertionError(f"{NETWORKS} networks are in use")

    def _line_from_here(self, number, each):
        run("ip", "link", "add", self._name(number, each), "type", "veth", "peer", "name", "here", "address", STATION,
            "netns", str(self.places[each].keeper.pid))

    def _line(self, one, other):
        """Between two places, each of which has its end by the number of the other one."""
        first, second = self.places[one], self.places[other]
        run(*first.inside(), "ip", "link", "add", f"to{other}", "type", "veth", "peer", "name", f"to{one}", "netns", str(second.keeper.pid))
        first.end(f"to{other}", second.address)
        second.end(f"to{one}", first.address)

    def cut_off(self, number, off=True):
        """A place hears nobody and is heard by nobody, or is again. Nobody is told."""
        others = [f"to{other}" for other in range(len(self.places)) if other != number]
        for device in ["here", *others]:
            self.places[number].switch(device, "down" if off else "up")

    def until_arrived(self, number):
        """Until a place has got all that this machine's system was given for it, also by who has closed his connection since."""
        until(lambda: not self._unacknowledged(number), "it does not get what was sent to it")

    def _unacknowledged(self, number):
        """Bytes, by /proc/net/tcp (proc(5)): addresses are in the machine's order, and the fifth field is the queue to send."""
        address = f"{int.from_bytes(socket.inet_aton(self.places[number].address), sys.byteorder):08X}:"
        with open("/proc/net/tcp") as sockets:
            rows = [line.split() for line in sockets]
        return sum(int(row[4].split(":")[0], 16) for row in rows if row[2].startswith(address))

    def discard(self):
        for place in self.places:
            place.discard()
