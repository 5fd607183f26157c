"""The packages, in a small Debian of their own: `make test-packages` makes both and runs this."""

import collections
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import raw
from harness.machine import Debian, Machine
from harness.server import SERVICE, free_port
from harness.waiting import PATIENCE, until

PACKAGES = os.environ.get("ONRAMP_PACKAGES")
Place = collections.namedtuple("Place", "host port")

pytestmark = [
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.skipif(not PACKAGES, reason="ONRAMP_PACKAGES names no folder of packages: make test-packages"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a machine of one's own takes root"),
]


def package(folder, ending):
    [found] = (Path(PACKAGES) / folder).glob(f"*.{ending}")
    return found


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    """Clean, with both packages beside it."""
    debian = Debian(tmp_path_factory.mktemp("debian") / "root")
    for folder in ("out", "later"):
        (debian.root / "packages").mkdir(exist_ok=True)
        shutil.copy(package(folder, "deb"), debian.root / f"packages/{folder}.deb")
    yield debian
    shutil.rmtree(debian.root, ignore_errors=True)


def url(server):
    return f"mysql://{SERVICE[0]}:{SERVICE[1]}@{server.host}:{server.port}/"


def query(place):
    with raw.connect(place) as client:
        assert client.value("SELECT 7") == b"7"


def wait_until_served(place):
    def served():
        try:
            with raw.Connection(place) as probe:
                return probe.receive_exactly(5)[4:5] == b"\x0a"
        except (OSError, raw.Closed):
            return False

    until(served, f"nobody serves at {place}")


def test_a_life_without_systemd(debian, server):
    before = debian.files(), debian.read("etc/passwd"), debian.read("etc/group")
    said = debian.run("dpkg -i /packages/out.deb")
    assert "set backend in /etc/onramp/onramp.toml" in said
    assert debian.run("stat -c '%a %U %G' /etc/onramp /etc/onramp/onramp.toml /etc/onramp/credentials") == (
        "750 root onramp\n640 root onramp\n700 root root\n")
    assert debian.run("getent passwd onramp").endswith(":/nonexistent:/usr/sbin/nologin\n")
    for path in ["man/man1/onramp.1.gz", "man/man1/onramp-serve.1.gz", "bash-completion/completions/onramp", "zsh/vendor-completions/_onramp",
                 "fish/vendor_completions.d/onramp.fish", "doc/onramp/changelog.gz", "doc/onramp/copyright"]:
        # Small systems leave out most of the documentation (dpkg's path-exclude); this one does not.
        assert (debian.root / "usr/share" / path).stat().st_size > 0, path
    assert debian.run("bash -c 'source /usr/share/bash-completion/completions/onramp && complete -p onramp'").endswith(" -F _onramp onramp\n")
    # Nothing is set, and all of it is well.
    assert debian.run("onramp serve --check --config /etc/onramp/onramp.toml").startswith("well: 1 options are given, of ")
    place = Place("127.0.0.1", free_port())
    with open(debian.root / "etc/onramp/onramp.toml", "a", encoding="utf-8") as file:
        file.write(f'backend = "{url(server)}"\nlisten = "{place.host}:{place.port}"\nhttp_listen = "off"\n')
    assert f"in front of {server.host}:{server.port}" in debian.run("onramp serve --check --config /etc/onramp/onramp.toml")
    process = subprocess.Popen(["chroot", "--userspec=onramp:onramp", str(debian.root), "onramp", "serve", "--config", "/etc/onramp/onramp.toml"],
                               stderr=subprocess.DEVNULL)
    try:
        wait_until_served(place)
        query(place)
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0
    changed = debian.read("etc/onramp/onramp.toml")
    debian.run("chmod 600 /etc/onramp/onramp.toml && dpkg -i /packages/later.deb")
    assert "99.0.0-1" in debian.run("dpkg-query -W onramp")
    assert debian.read("etc/onramp/onramp.toml") == changed
    assert debian.run("stat -c '%a %G' /etc/onramp/onramp.toml") == "600 onramp\n", "who changed its rights keeps them"
    debian.run("dpkg -r onramp")
    assert not (debian.root / "usr/bin/onramp").exists()
    assert debian.read("etc/onramp/onramp.toml") == changed
    debian.run("dpkg -P onramp")
    assert (debian.files(), debian.read("etc/passwd"), debian.read("etc/group")) == before


@pytest.fixture
def machine(debian):
    debian.run("DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -q -y --no-install-recommends systemd")
    machine = Machine(debian)
    yield machine
    machine.stop()


def test_a_life_with_systemd(debian, machine, server):
    machine.run("dpkg -i /packages/out.deb")
    # Without a server it does not start, and says why.
    machine.run("! systemctl start onramp")
    assert "no backend is given, and private_server = off" in machine.run("journalctl --unit=onramp --output=cat")
    place, later = Place("127.0.0.1", free_port()), Place("127.0.0.1", free_port())
    with open(debian.root / "etc/onramp/onramp.toml", "a", encoding="utf-8") as file:
        file.write(f'listen = "{place.host}:{place.port}"\nhttp_listen = "off"\n')
    secret = debian.root / "etc/onramp/credentials/backend"
    secret.write_text(url(server) + "\n")
    secret.chmod(0o600)
    machine.run("systemctl start onramp")
    query(place)
    process = machine.run("systemctl show --value --property=MainPID onramp")
    assert machine.run(f"stat -c %U /proc/{process.strip()}") == "onramp\n"
    until(lambda: "clients: " in machine.run("systemctl show --value --property=StatusText onramp"), "it says nothing of how it stands")
    with raw.connect(place) as client:
        client.query("BEGIN")
        client.query("SELECT 1 FROM information_schema.ENGINES")
        said = machine.run("dpkg -i /packages/later.deb")
        assert "version 0.1.0-1 goes on serving" in said
        assert machine.run("systemctl show --value --property=MainPID onramp") == process
        until(lambda: "have been read again" in machine.run("journalctl --unit=onramp --output=cat"), "it was not told")
        assert client.value("SELECT 7") == b"7", "its transaction goes on"
        client.query("COMMIT")
    # systemd's own socket in the place of the option.
    folder = debian.root / "etc/systemd/system/onramp.socket.d"
    folder.mkdir()
    (folder / "here.conf").write_text(f"[Socket]\nListenStream=\nListenStream={later.host}:{later.port}\n")
    machine.run("systemctl daemon-reload; systemctl stop onramp; systemctl enable --now onramp.socket")
    query(later)
    assert machine.run("systemctl is-active onramp") == "active\n"
    machine.run("systemctl enable onramp")
    machine.run("dpkg -r onramp")
    assert machine.run("systemctl is-active onramp.service onramp.socket", check=False).split() == ["inactive", "inactive"]
    machine.run("dpkg -P onramp")
    shutil.rmtree(folder)
    left = {path for path in debian.files() if "onramp" in path}
    assert left == set(), "nothing is left"
    machine.run("! getent passwd onramp")


@pytest.mark.skipif(shutil.which("rpm") is None, reason="rpm is not installed")
def test_the_rpm(tmp_path):
    rpm = package("out", "rpm")
    assert "digests OK" in subprocess.run(["rpm", "-K", rpm], check=True, capture_output=True, text=True).stdout
    listed = subprocess.run(["rpm", "-qpl", rpm], check=True, capture_output=True, text=True).stdout.split()
    assert {"/usr/bin/onramp", "/etc/onramp/onramp.toml", "/usr/lib/systemd/system/onramp.service", "/usr/share/man/man1/onramp-serve.1.gz",
            "/usr/share/licenses/onramp/LICENSE"} <= set(listed)
    assert subprocess.run(["rpm", "-qpc", rpm], check=True, capture_output=True, text=True).stdout == "/etc/onramp/onramp.toml\n"
    root = tmp_path / "root"
    # Its scripts need a system around them.
    place = ["--root", str(root), "--nodeps", "--noscripts"]
    subprocess.run(["rpm", *place, "-i", rpm], check=True)
    assert subprocess.run([root / "usr/bin/onramp", "--version"], check=True, capture_output=True, text=True).stdout == "onramp 0.1.0\n"
    with open(root / "etc/onramp/onramp.toml", "a", encoding="utf-8") as file:
        file.write("workers = 2\n")
    subprocess.run(["rpm", *place, "-U", package("later", "rpm")], check=True)
    assert (root / "etc/onramp/onramp.toml").read_text().endswith("workers = 2\n")
    subprocess.run(["rpm", *place, "-e", "onramp"], check=True)
    assert not (root / "usr/bin/onramp").exists()
    for script in (Path(__file__).parents[2] / "deploy/packages/rpm").iterdir():
        subprocess.run(["sh", "-n", script], check=True)


def test_what_lies_beside_them():
    folder = Path(PACKAGES) / "out"
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True)
    assert len((folder / "SHA256SUMS").read_text().splitlines()) == len(list(folder.iterdir())) - 1
    bill = json.loads(package("out", "cdx.json").read_text())
    parts = {part["name"]: part for part in bill["components"]}
    assert bill["specVersion"] == "1.5" and {"rustls", "io-uring", "engine"} <= set(parts)
    assert "proptest" not in parts, "tests are not part of the program"
    assert len(parts["rustls"]["hashes"][0]["content"]) == 64 and parts["rustls"]["licenses"][0]["expression"]
    references = {part["bom-ref"] for part in bill["components"]} | {"onramp"}
    assert {one["ref"] for one in bill["dependencies"]} == references
    assert {used for one in bill["dependencies"] for used in one["dependsOn"]} <= references
