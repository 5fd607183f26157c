"""The root folder of an image, run by podman as an image, or under chroot with its user where nothing but chroot is wanted."""

import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

from .onramp import binary
from .waiting import PATIENCE, until

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
IMAGE = "localhost/onramp:tested"
# Whom the image names.
USER = 65532

# Some machines have both kinds of control groups mounted, which crun refuses to look at.
HYBRID = Path("/sys/fs/cgroup/unified")
WITHOUT_HYBRID = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'umount "$0"; exec "$@"', str(HYBRID)]


def environment(**variables):
    """Ours, without what is said to the Onramps of other tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONRAMP_")}
    return {**kept, **variables}


def need_tools():
    """Fails where podman is not installed: these tests are not skipped in silence."""
    missing = [name for name in ("podman", "crun") if shutil.which(name) is None]
    assert not missing, f"{' and '.join(missing)} not installed: .ci/install test does it (Debian: apt install podman crun)"


class Podman:
    """podman with a store of its own, and bounds that nobody has to be allowed to raise."""

    def __init__(self, folder):
        self.folder = Path(folder) / "podman"
        self.folder.mkdir()
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Far more than the threads of one Onramp; podman's own numbers are above what some machines allow.
        bounds = [f"nofile={files}:{files}", "nproc=4096:4096"]
        (self.folder / "containers.conf").write_text(
            # No address of its own and no share of the machine: what is tested is the image.
            f'[containers]\ncgroups = "disabled"\nnetns = "host"\ndefault_ulimits = {json.dumps(bounds)}\n'
            '[engine]\nruntime = "crun"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n')
        (self.folder / "storage.conf").write_text(
            # Plain copies: layers cannot be laid over each other in every file system.
            f'[storage]\ndriver = "vfs"\ngraphroot = "{self.folder}/store"\nrunroot = "{self.folder}/run"\n')
        self.environment = environment(
            CONTAINERS_CONF=str(self.folder / "containers.conf"), CONTAINERS_STORAGE_CONF=str(self.folder / "storage.conf"))
        self.before = WITHOUT_HYBRID if os.path.ismount(HYBRID) else []

    def build(self):
        subprocess.run(
            [*self.before, DEPLOY / "container" / "build", binary(), IMAGE], check=True, timeout=PATIENCE,
            env={**self.environment, "CONTAINER_ENGINE": "podman"})

    def run(self, *arguments):
        """Whatever podman says and how it ends."""
        return subprocess.run(
            [*self.before, "podman", *arguments], env=self.environment, timeout=PATIENCE, text=True, capture_output=True, check=False)

    def discard(self):
        self.run("rm", "--all", "--force", "--time", "0")
        shutil.rmtree(self.folder, ignore_errors=True)


class Container:
    """One `onramp serve` as the image has it, by podman."""

    number = 0

    def __init__(self, podman, *options, arguments=(), **variables):
        """`options` are podman's, `arguments` stand in the place of `serve`, `variables` are Onramp's options."""
        Container.number += 1
        self.podman = podman
        self.name = f"onramp-{os.getpid()}-{Container.number}"
        named = [f"--env=ONRAMP_{name.upper()}={value}" for name, value in variables.items()]
        command = ["podman", "run", "--name", self.name, "--log-driver", "none", *named, *options, IMAGE, *arguments]
        self.log = podman.folder / f"{self.name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*podman.before, *command], env=podman.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.podman.run("rm", "--force", "--time", "0", self.name)
        self.process.wait(PATIENCE)

    def first_process(self):
        """Its number on this machine."""
        return int(self.podman.run("inspect", "--format", "{{.State.Pid}}", self.name).stdout)

    def health(self, *arguments):
        """The exit code of the health check, and what it said."""
        found = self.podman.run("exec", self.name, "/usr/bin/onramp", "health", *arguments)
        return found.returncode, found.stdout + found.stderr

    def signal(self, number):
        self.podman.run("kill", "--signal", signal.Signals(number).name, self.name)

    def log_text(self):
        return self.log.read_text(errors="replace")

    def says(self, text):
        until(lambda: text in self.log_text() or self.process.poll() is not None, lambda: f"no {text!r}:\n{self.log_text()}")
        assert text in self.log_text(), self.log_text()

    def wait(self):
        """The exit code, once it has ended."""
        return self.process.wait(PATIENCE)


class Chroot(Container):
    """The same files under chroot, as the same user, as first process of its own: what is left where no engine may run."""

    def __init__(self, root, log, **variables):
        self.root, self.log = root, Path(log)
        self.variables = {"ONRAMP_CONFIG": "/etc/onramp/onramp.toml", **{f"ONRAMP_{name.upper()}": str(value) for name, value in variables.items()}}
        command = ["unshare", "--pid", "--fork", "--kill-child", *self.inside("serve")]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=self.variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(PATIENCE)

    def inside(self, *arguments):
        return ["/usr/sbin/chroot", f"--userspec={USER}:{USER}", str(self.root), "/usr/bin/onramp", *arguments]

    def first_process(self):
        """unshare's only child."""
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text())

    def signal(self, number):
        os.kill(self.first_process(), number)

    def health(self, *arguments):
        found = subprocess.run(
            self.inside("health", *arguments), env=self.variables, timeout=PATIENCE, text=True, capture_output=True, check=False)
        return found.returncode, found.stdout + found.stderr
