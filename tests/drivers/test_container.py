"""The image: what is in it, who it runs as, how it ends, and what it runs on where io_uring is forbidden."""

import gzip
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness import raw
from harness.containers import DEPLOY, IMAGE, USER, Chroot, Container, Podman, need_tools
from harness.metrics import ask
from harness.onramp import USUAL, binary
from harness.server import SERVICE, free_port
from harness.waiting import PATIENCE, until

pytestmark = [pytest.mark.once, pytest.mark.heavy]

# As a cautious operator starts it.
HARDENED = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
OUR_CALLS = f"--security-opt=seccomp={DEPLOY}/seccomp.json"
NO_SERVER = "mysql://onramp@127.0.0.1:1/"


@pytest.fixture(scope="module")
def podman(folder):
    need_tools()
    podman = Podman(folder)
    try:
        podman.build()
        yield podman
    finally:
        podman.discard()


@pytest.fixture(scope="module")
def root(folder):
    """The files of the image, in a folder."""
    root = Path(folder) / "root-of-image"
    subprocess.run([DEPLOY / "container" / "assemble", binary(), root], check=True, timeout=PATIENCE)
    return root


@pytest.fixture(params=["podman", "chroot"])
def start(request, server, folder):
    """Starts an Onramp of the image in front of the server; returns it and where it is: for clients and for HTTP."""
    running = []

    def start(**variables):
        place = Place()
        user, password = SERVICE
        options = {
            **USUAL, "backend": f"mysql://{user}:{password}@{server.host}:{server.port}/", "backend_trusted_networks": "127.0.0.1",
            "listen": f"127.0.0.1:{place.port}", "http_listen": f"127.0.0.1:{place.http}", **variables}
        if request.param == "podman":
            onramp = Container(request.getfixturevalue("podman"), *HARDENED, OUR_CALLS, **options)
        else:
            if os.geteuid() != 0:
                pytest.skip("chroot is for root; podman has run the same")
            onramp = Chroot(request.getfixturevalue("root"), f"{folder}/chroot-{place.port}.log", **options)
        running.append(onramp)
        onramp.says("ready: listening on")
        until(lambda: onramp.health("--ready")[0] == 0, lambda: f"never ready:\n{onramp.log_text()}")
        return onramp, place

    yield start
    for onramp in running:
        onramp.__exit__()


class Place:
    """Where an Onramp is reached."""

    def __init__(self):
        self.host, self.port, self.http = "127.0.0.1", free_port(), free_port()


def status(process):
    """What the kernel says of a process, by the names that it uses."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@pytest.mark.parametrize("order", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_as_first_process_and_nobody_it_lets_transactions_end(start, order):
    onramp, place = start(shutdown_timeout="1h")
    seen = status(onramp.first_process())
    assert seen["NSpid"].split()[-1] == "1"
    if os.geteuid() == 0:
        # Others see their own users in a container as numbers of theirs.
        assert set(seen["Uid"].split()) == set(seen["Gid"].split()) == {str(USER)}
    assert int(seen["CapEff"], 16) == 0
    assert onramp.health() == (0, "live\n")
    with raw.connect(place) as client, raw.connect(place) as idle:
        client.query("BEGIN")
        assert client.value("SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'onramp_app'") == b"1"
        onramp.signal(order)
        onramp.says("ending: no new clients")
        code, said = onramp.health("--ready")
        assert (code, said) == (1, "not ready: it ends, and new clients should go elsewhere\n")
        assert idle.socket.recv(1) == b"", "idle clients go at once"
        assert client.value("SELECT 1") == b"1"
        client.query("COMMIT")
    assert onramp.wait() == 0, onramp.log_text()


def test_balancers_have_their_time(start):
    onramp, place = start(drain_wait="1h")
    onramp.signal(signal.SIGTERM)
    onramp.says("(drain_wait) clients are served as before")
    assert ask(place.http, "/readyz").status == 503
    with raw.connect(place) as late:
        assert late.value("SELECT 1") == b"1"
    # Whoever has no time says so once more.
    onramp.signal(signal.SIGTERM)
    assert onramp.wait() == 0, onramp.log_text()


def test_secrets_come_by_a_file(podman, server, tmp_path):
    """It ranks below the environment, and stands in the place of the image's own."""
    place = Place()
    user, password = SERVICE
    file = tmp_path / "onramp.toml"
    file.write_text(
        f'backend = "mysql://{user}:{password}@{server.host}:{server.port}/"\nlisten = "127.0.0.1:{place.port}"\n'
        f'backend_trusted_networks = "127.0.0.1"\nhttp_listen = "127.0.0.1:{place.http}"\nhttp_password = "of-the-file"\n')
    if os.geteuid() == 0:
        os.chown(file, USER, USER)
        file.chmod(0o400)
    with Container(podman, *HARDENED, OUR_CALLS, f"--volume={file}:/etc/onramp/onramp.toml:ro", http_password="of-the-environment") as onramp:
        onramp.says("ready: listening on")
        until(lambda: onramp.health("--ready")[0] == 0, lambda: f"never ready:\n{onramp.log_text()}")
        assert ask(place.http, "/drain", "POST", "of-the-file").status == 401
        assert ask(place.http, "/drain", "POST", "of-the-environment").status == 202
        assert onramp.wait() == 0, onramp.log_text()


def driver_of(onramp):
    """What it says it runs on."""
    onramp.says("driver = ")
    return onramp.log_text().split("driver = ")[1].split(",")[0]


def test_it_says_what_it_runs_on_where_io_uring_is_forbidden(podman, server, own_onramp):
    """The engines' own rules forbid it; ours allow it, where the machine does."""
    outside = driver_of(own_onramp(server, driver="auto"))
    options = {"backend": NO_SERVER, "listen": "127.0.0.1:0", "http_listen": "off"}
    with Container(podman, *HARDENED, OUR_CALLS, **options) as onramp:
        assert driver_of(onramp) == outside
        onramp.says("ready: listening on")
        assert "io_uring is not usable" not in onramp.log_text(), "what runs is usable"
    with Container(podman, *HARDENED, **options) as onramp:
        assert driver_of(onramp) == "epoll"
        assert "driver: epoll, because io_uring cannot be used: " in onramp.log_text()
    with Container(podman, *HARDENED, **options, driver="uring") as onramp:
        assert onramp.wait() == 1
        assert "auto takes epoll where io_uring cannot be used" in onramp.log_text()


@pytest.mark.parametrize("errno", [1, 38], ids=["EPERM", "ENOSYS"])
def test_whatever_the_engine_answers_to_forbidden_calls(podman, tmp_path, errno):
    """Docker's default says EPERM, podman's ENOSYS."""
    rules = json.loads((DEPLOY / "seccomp.json").read_text())
    rules["syscalls"] = [rule for rule in rules["syscalls"] if "io_uring_setup" not in rule["names"]]
    rules["defaultErrnoRet"] = errno
    file = tmp_path / "seccomp.json"
    file.write_text(json.dumps(rules))
    options = {"backend": NO_SERVER, "listen": "127.0.0.1:0", "http_listen": "off"}
    with Container(podman, *HARDENED, f"--security-opt=seccomp={file}", **options) as onramp:
        assert driver_of(onramp) == "epoll"
        onramp.says("ready: listening on")


def test_our_rules_are_no_wider_than_needed():
    rules = json.loads((DEPLOY / "seccomp.json").read_text())
    assert rules["defaultAction"] == "SCMP_ACT_ERRNO"
    allowed = {name for rule in rules["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert {"io_uring_setup", "io_uring_enter", "io_uring_register"} <= allowed
    # What engines give to nobody without a capability, and what gets out of a container or into another process.
    assert not allowed & {
        "bpf", "clone3", "delete_module", "finit_module", "fsopen", "init_module", "kexec_load", "keyctl", "mount", "move_mount", "open_by_handle_at",
        "open_tree", "perf_event_open", "pivot_root", "process_vm_readv", "process_vm_writev", "ptrace", "reboot", "setns", "umount2", "unshare",
        "userfaultfd"}
    # New namespaces are refused: CLONE_NEWTIME's neighbours in clone(2)'s flags.
    (clone,) = [rule for rule in rules["syscalls"] if rule["names"] == ["clone"]]
    assert clone["args"] == [{"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]


def test_what_is_in_the_image(podman, root):
    (image,) = json.loads(podman.run("image", "inspect", IMAGE).stdout)
    config = image["Config"]
    assert config["User"] == f"{USER}:{USER}"
    assert (config["Entrypoint"], config["Cmd"]) == (["/usr/bin/onramp"], ["serve"])
    assert config["StopSignal"] in ("SIGTERM", "15")
    assert image["HealthCheck" if "HealthCheck" in image else "Healthcheck"]["Test"] == ["CMD", "/usr/bin/onramp", "health"]
    assert list(config["ExposedPorts"]) == ["3306/tcp"]
    licenses = gzip.decompress((root / "usr/share/doc/onramp/third-party-licenses.gz").read_bytes()).decode()
    # One of a crate, and one of what a crate brings in C.
    assert "\nrustls " in licenses and "Zstandard software" in licenses
    files = {path.relative_to(root) for path in root.rglob("*") if not path.is_dir()}
    programs = {str(path) for path in files if os.access(root / path, os.X_OK) and ".so" not in path.name}
    assert programs == {"usr/bin/onramp"}
    assert {str(path) for path in files if path.parts[0] == "etc"} == {"etc/group", "etc/nsswitch.conf", "etc/onramp/onramp.toml", "etc/passwd"}
    for path in files:
        mode = (root / path).stat().st_mode
        assert mode & 0o7000 == 0 and mode & 0o022 == 0 and mode & 0o004, f"{path}: {mode:o}"


def test_the_check_of_the_engine_asks_the_image(podman):
    with Container(podman, *HARDENED, OUR_CALLS, backend=NO_SERVER, listen="127.0.0.1:0", http_listen=f"127.0.0.1:{free_port()}") as onramp:
        onramp.says("ready: listening on")
        assert podman.run("healthcheck", "run", onramp.name).returncode == 0
        onramp.signal(signal.SIGSTOP)
        try:
            assert podman.run("healthcheck", "run", onramp.name).returncode == 1
        finally:
            onramp.signal(signal.SIGCONT)


def test_names_are_looked_up(podman):
    """By what a C library without its usual surroundings finds."""
    with Container(podman, *HARDENED, "--add-host=database.internal:127.0.0.1", backend="mysql://onramp@database.internal:1/", listen="127.0.0.1:0",
                   http_listen="off") as onramp:
        onramp.says("server 127.0.0.1:1 cannot be used")


def test_without_a_server_it_says_what_is_missing(podman):
    """And not that one should be installed, which nobody can in an image."""
    with Container(podman, *HARDENED, listen="127.0.0.1:0", http_listen="off") as onramp:
        assert onramp.wait() == 2
        assert "onramp: no backend is given, and private_server = off: say where the server is" in onramp.log_text(), onramp.log_text()


def test_a_server_that_is_away_is_no_reason_to_start_anew(podman, own_server):
    place = Place()
    user, password = SERVICE
    with Container(podman, *HARDENED, OUR_CALLS, backend=f"mysql://{user}:{password}@{own_server.host}:{own_server.port}/",
                   backend_trusted_networks="127.0.0.1", listen=f"127.0.0.1:{place.port}", http_listen=f"127.0.0.1:{place.http}") as onramp:
        onramp.says("ready: listening on")
        until(lambda: onramp.health("--ready")[0] == 0, lambda: f"never ready:\n{onramp.log_text()}")
        own_server.kill()
        onramp.says("cannot be used")
        assert onramp.health() == (0, "live\n")
        assert podman.run("healthcheck", "run", onramp.name).returncode == 0
