"""systemd's own opinion of the units in deploy/systemd."""

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.onramp import binary

UNITS = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
# systemd calls a service of less than 2.0 well protected. Ours needs a network, Unix sockets, users' ids and limits of the system.
EXPOSURE = 1.5

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"),
]


@pytest.fixture
def units(tmp_path):
    """As they are shipped, but for where the program is."""
    for unit in UNITS.iterdir():
        text = unit.read_text()
        (tmp_path / unit.name).write_text(text.replace("/usr/bin/onramp", str(Path(binary()).resolve())))
    return sorted(tmp_path.iterdir())


def analyze(*arguments):
    done = subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_units_are_understood(units):
    assert [unit.name for unit in units] == ["onramp-admin.socket", "onramp-http.socket", "onramp.service", "onramp.socket"]
    # The manual pages come with the package.
    assert analyze("verify", "--man=no", *units) == (0, "")


def test_the_service_is_protected(units):
    [service] = [unit for unit in units if unit.name == "onramp.service"]
    code, said = analyze("security", "--offline=yes", f"--threshold={EXPOSURE * 10:.0f}", service)
    assert code == 0, said
    # io_uring is in none of systemd's groups for services, so that it has to be allowed by name.
    allowed = {word for line in service.read_text().splitlines() if line.startswith("SystemCallFilter=") for word in line.split("=")[1].split()}
    assert {"io_uring_setup", "io_uring_enter", "io_uring_register"} <= allowed
