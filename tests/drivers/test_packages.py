"""The packages, in a small Debian of their own: `make test-packages` makes both and runs this."""

import collections
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import raw
from harness.machine import RELEASES, Debian, Machine
from harness.packages import PACKAGES, package
from harness.server import SERVICE, free_port
from harness.waiting import PATIENCE, until

Place = collections.namedtuple("Place", "host port")

pytestmark = [
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.skipif(not PACKAGES, reason="ONRAMP_PACKAGES names no folder of packages: make test-packages"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a machine of one's own takes root"),
]


@pytest.fixture(scope="module", params=RELEASES)
def debian(tmp_path_factory, request):
    """Clean, with both packages beside it."""
    debian = Debian(tmp_path_factory.mktemp("debian") / "root", request.param)
    for folder in ("out", "later"):
        (debian.root / "packages").mkdir(exist_ok=True)
        for ending in ("deb", "rpm"):
            shutil.copy(package(folder, ending), debian.root / f"packages/{folder}.{ending}")
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


def configure(debian, place, *lines):
    """The package's file with another `listen`, and more lines."""
    file = debian.root / "etc/onramp/onramp.toml"
    kept = [line for line in file.read_text().splitlines() if not line.startswith("listen = ")]
    # In its place, with the rights that it has.
    file.write_text("\n".join([*kept, f'listen = "{place.host}:{place.port}"', 'http_listen = "off"', *lines, ""]))


def nothing_is_left(debian):
    assert {path for path in debian.files() if "onramp" in path} == set()
    debian.run("! getent passwd onramp && ! getent group onramp")


def test_a_life_without_systemd(debian, server):
    before = debian.files(), debian.read("etc/passwd"), debian.read("etc/group")
    said = debian.run("dpkg -i /packages/out.deb")
    assert "set backend in /etc/onramp/onramp.toml" in said
    assert debian.run("stat -c '%a %U %G' /etc/onramp /etc/onramp/onramp.toml /etc/onramp/credentials") == (
        "750 root onramp\n640 root onramp\n700 root root\n")
    assert debian.run("getent passwd onramp").endswith(":/nonexistent:/usr/sbin/nologin\n")
    for path in ["man/man1/onramp.1.gz", "man/man1/onramp-serve.1.gz", "bash-completion/completions/onramp", "zsh/vendor-completions/_onramp",
                 "fish/vendor_completions.d/onramp.fish", "doc/onramp/changelog.gz", "doc/onramp/copyright", "doc/onramp/docs/bad-days/README.md",
                 "doc/onramp/deploy/alerts.yml"]:
        # Small systems leave out most of the documentation (dpkg's path-exclude); this one does not.
        assert (debian.root / "usr/share" / path).stat().st_size > 0, path
    assert debian.run("bash -c 'source /usr/share/bash-completion/completions/onramp && complete -p onramp'").endswith(" -F _onramp onramp\n")
    # The file's own name and `listen`.
    assert debian.run("onramp serve --check --config /etc/onramp/onramp.toml").startswith("well: 2 options are given, of ")
    assert debian.run("onramp serve --check --config /usr/share/onramp/all-options.toml").startswith("well: 1 options are given, of ")
    place = Place("127.0.0.1", free_port())
    configure(debian, place, f'backend = "{url(server)}"')
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
    debian.install("systemd", "needrestart", "rpm")
    machine = Machine(debian)
    yield machine
    machine.stop()


def test_a_life_with_systemd(debian, machine, server):
    machine.run("dpkg -i /packages/out.deb")
    # Without a server it does not start, and says why.
    machine.run("! systemctl start onramp")
    assert "no backend is given, and private_server = off" in machine.run("journalctl --unit=onramp --output=cat")
    place, later = Place("127.0.0.1", free_port()), Place("127.0.0.1", free_port())
    configure(debian, place)
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
    nothing_is_left(debian)


def show(machine, what):
    return machine.run(f"systemctl show --value --property={what} onramp").strip()


def test_who_is_connected_when_it_is_purged(debian, machine, server):
    place = Place("127.0.0.1", free_port())
    machine.run("dpkg -i /packages/out.deb")
    configure(debian, place, f'backend = "{url(server)}"', 'shutdown_timeout = "1h"')
    machine.run("systemctl start onramp")
    with raw.connect(place) as client, raw.connect(place) as idle:
        client.query("BEGIN")
        client.query("SELECT 1 FROM information_schema.ENGINES")
        purging = subprocess.Popen(machine.inside("dpkg", "-P", "onramp"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert idle.socket.recv(1) == b"", "who rests goes at once"
            assert client.value("SELECT 7") == b"7" and purging.poll() is None, "a transaction is waited for"
            client.query("COMMIT")
            assert purging.wait(PATIENCE) == 0
        finally:
            purging.kill()
    nothing_is_left(debian)


def test_the_same_version_again(debian, machine, server):
    place = Place("127.0.0.1", free_port())
    machine.run("dpkg -i /packages/out.deb")
    configure(debian, place, f'backend = "{url(server)}"')
    machine.run("systemctl start onramp")
    process, file = show(machine, "MainPID"), debian.read("etc/onramp/onramp.toml")
    with raw.connect(place) as client:
        machine.run("dpkg -i /packages/out.deb")
        # What apt runs behind each upgrade on some systems, with the answer that restarts all that has changed.
        said = machine.run("needrestart -m a -r a")
        assert "systemctl restart onramp.service" in said.split("deferred")[1], said
        assert client.value("SELECT 7") == b"7"
    assert (show(machine, "MainPID"), debian.read("etc/onramp/onramp.toml")) == (process, file)
    machine.run("dpkg -P onramp")
    nothing_is_left(debian)


def test_an_upgrade_that_brings_another_file(debian, machine, server):
    # Not compressed, which takes as long as all else together.
    debian.run("cd /var/cache && dpkg-deb -R /packages/later.deb opened && echo '# more' >>opened/etc/onramp/onramp.toml"
               " && dpkg-deb -Znone -b opened /packages/other.deb && rm -r opened")
    place = Place("127.0.0.1", free_port())
    machine.run("dpkg -i /packages/out.deb")
    configure(debian, place, f'backend = "{url(server)}"')
    machine.run("systemctl start onramp")
    process, file = show(machine, "MainPID"), debian.read("etc/onramp/onramp.toml")
    # Nobody answers dpkg's question.
    assert "end of file on stdin" in machine.run("! dpkg -i /packages/other.deb")
    query(place)
    machine.run("dpkg --force-confold -i /packages/other.deb")
    assert (show(machine, "MainPID"), debian.read("etc/onramp/onramp.toml")) == (process, file)
    assert debian.read("etc/onramp/onramp.toml.dpkg-dist").endswith("# more\n")
    machine.run("systemctl restart onramp")
    query(place)
    machine.run("dpkg -P onramp")
    nothing_is_left(debian)


def test_a_file_that_is_wrong(debian, machine):
    """What is wrong is said to whoever looks, and the service is not tried again and again."""
    machine.run("dpkg -i /packages/out.deb")
    with open(debian.root / "etc/onramp/onramp.toml", "a", encoding="utf-8") as file:
        file.write("bakcend = 3\n")
    line = len(debian.read("etc/onramp/onramp.toml").splitlines())
    reason = f'/etc/onramp/onramp.toml:{line}: unknown option "bakcend"; did you mean backend?'
    assert "systemctl status onramp.service" in machine.run("! systemctl start onramp")
    assert reason in machine.run("systemctl status --lines=0 onramp", check=False)
    assert f"onramp: {reason}\n" in machine.run("journalctl --unit=onramp --output=cat")
    assert (show(machine, "ActiveState"), show(machine, "NRestarts"), show(machine, "ExecMainStatus")) == ("failed", "0", "2")
    machine.run("dpkg -P onramp")
    nothing_is_left(debian)


def test_a_life_of_the_rpm_with_systemd(debian, machine, server):
    """With its scripts; what it needs is there, but rpm does not know that in a Debian."""
    place = Place("127.0.0.1", free_port())
    machine.run("rpm -i --nodeps /packages/out.rpm")
    assert debian.run("stat -c '%a %U %G' /etc/onramp /etc/onramp/onramp.toml /etc/onramp/credentials") == (
        "750 root onramp\n640 root onramp\n700 root root\n")
    configure(debian, place, f'backend = "{url(server)}"')
    machine.run("systemctl enable --now onramp")
    process, file = show(machine, "MainPID"), debian.read("etc/onramp/onramp.toml")
    with raw.connect(place) as client:
        assert "the old version goes on serving" in machine.run("rpm -U --nodeps /packages/later.rpm")
        assert client.value("SELECT 7") == b"7"
    assert machine.run("rpm -q onramp").startswith("onramp-99.0.0-1.")
    assert (show(machine, "MainPID"), debian.read("etc/onramp/onramp.toml")) == (process, file)
    machine.run("rpm -e onramp")
    assert machine.run("systemctl is-active onramp", check=False) == "inactive\n"
    assert {path for path in debian.files() if "onramp" in path} == {"./etc/onramp", "./etc/onramp/onramp.toml.rpmsave"}
    assert debian.read("etc/onramp/onramp.toml.rpmsave") == file
    shutil.rmtree(debian.root / "etc/onramp")
    machine.run("userdel onramp")


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
    assert (root / "usr/share/doc/onramp/docs/bad-days/README.md").is_file()
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
