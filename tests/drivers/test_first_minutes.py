"""docs/FIRST_HOUR.md, its short way: the package on a machine that has a server and a systemd, from the install to the first query."""

import os
import shutil
import time

import pytest

from harness.machine import RELEASES, Debian, Machine
from harness.packages import PACKAGES, package
from harness.waiting import until
from test_first_hour import PAGE, blocks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.skipif(not PACKAGES, reason="ONRAMP_PACKAGES names no folder of packages: make test-packages"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a machine of one's own takes root"),
]


@pytest.fixture(params=RELEASES)
def machine(tmp_path, request):
    """A clean one, with what the page takes for granted: a server of its package, and an application's account."""
    debian = Debian(tmp_path / "root", request.param)
    debian.install("systemd", "mariadb-server", "sudo")
    # sudo looks up the name of the machine that it is on.
    (debian.root / "etc/hosts").write_text(f"127.0.0.1 localhost {os.uname().nodename}\n")
    shutil.copy(package("out", "deb"), debian.root / "root")
    machine = Machine(debian, own_network=True)
    yield machine
    machine.stop()
    shutil.rmtree(debian.root, ignore_errors=True)


def test_the_short_way_works_as_it_stands(machine):
    page = PAGE.read_text()
    [account] = [commands for purpose, commands in blocks(page) if "CREATE USER 'shop'" in commands]
    machine.run(account)
    steps = [commands for purpose, commands in blocks(page) if purpose == "service"]
    assert len(steps) == 5, "the page says how many there are"
    for number, commands in enumerate(steps, 1):
        begin = time.monotonic()
        said = machine.run(f"cd /root\n{commands}")
        print(f"step {number}: {time.monotonic() - begin:.2f} s")
    account, client = said.split("\n")[1].split("\t")
    assert account == "shop@localhost" and int(client) > 1 << 30, said
    # What the page says of what is to be seen afterwards.
    assert machine.run("systemctl is-enabled onramp") == "enabled\n"
    assert "ready: listening on 127.0.0.1:3307" in machine.run("journalctl --unit=onramp")
    # The probe looks once a second, so that it may know later than the first client.
    health = "onramp health --ready --config /etc/onramp/onramp.toml"
    until(lambda: machine.run(health, check=False) == "ready\n", lambda: machine.run(health, check=False))
