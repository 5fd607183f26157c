"""A small Debian in a folder: by itself (chroot), or started with a systemd of its own."""

import os
import signal
import subprocess
from pathlib import Path

from .waiting import PATIENCE, until

# What would change the machine around it, or wait for what is not there.
MASKED = [
    "systemd-sysctl.service", "systemd-modules-load.service", "systemd-udevd.service", "systemd-logind.service", "systemd-random-seed.service",
    "systemd-pstore.service", "systemd-update-utmp.service", "kmod-static-nodes.service", "console-getty.service", "dev-hugepages.mount",
    "dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-kernel-config.mount", "sys-fs-fuse-connections.mount",
]

# Those with the oldest systemd and the newest one that the packages have been tried with.
RELEASES = ["bookworm", "trixie"]

SPACES = ["--mount", "--pid", "--ipc", "--uts"]

# Runs in namespaces of its own. What systemd mounts for a service has to be seen by the service, so mounts are shared within.
BOOT = """
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t proc proc proc
mount --rbind /sys sys
mkdir -p .before
pivot_root . .before
umount -l /.before
mount --make-rshared /
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd
"""


class Debian:
    """Made by debootstrap, of one of its releases."""

    def __init__(self, root, release):
        self.root = Path(root)
        mirror = [release, str(self.root), "http://deb.debian.org/debian"]
        made = subprocess.run(["debootstrap", "--variant=minbase", *mirror], capture_output=True, text=True)
        assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]

    def run(self, command, check=True):
        """Runs a command of the shell's there."""
        return finish(["chroot", str(self.root), "/bin/sh", "-c", command], check)

    def install(self, *packages):
        """By apt; nothing is started for it."""
        policy = self.root / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        self.run(f"DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=5 install -q -y --no-install-recommends {' '.join(packages)}")
        policy.unlink()

    def files(self):
        """All that is there but for what the package manager keeps for itself."""
        own = ["var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "run", "tmp", "proc", "sys", "dev"]
        pruned = " -o ".join(f"-path ./{folder}" for folder in own)
        listed = self.run(f"cd / && find . \\( {pruned} \\) -prune -o -print")
        # The copies that those who change these files leave.
        return {line for line in listed.split("\n") if not line.endswith(("passwd-", "group-", "shadow-", "gshadow-", ".pwd.lock"))}

    def read(self, path):
        return (self.root / path).read_text()


class Machine:
    """One whose systemd runs; with the network around it, or with one of its own, where the usual ports are free."""

    def __init__(self, debian, own_network=False):
        units = debian.root / "etc/systemd/system"
        for unit in MASKED:
            if not (units / unit).is_symlink():
                (units / unit).symlink_to("/dev/null")
        self.spaces = [*SPACES, "--net"] if own_network else SPACES
        boot = f"set -e\n{'ip link set lo up' if own_network else ''}\n{BOOT}"
        self.process = subprocess.Popen(["unshare", *self.spaces, "--fork", "--kill-child", "/bin/sh", "-c", boot, "boot", str(debian.root)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        try:
            self.first = until(self._first, lambda: "it does not start")
            until(lambda: self.run("systemctl is-system-running", check=False).strip() in ("running", "degraded"), "its systemd does not come up")
        except BaseException:
            # Its process 1 goes with it (--kill-child), and all others with that one.
            self.process.kill()
            self.process.wait()
            raise

    def _first(self):
        """Its process 1, once it is systemd."""
        assert self.process.poll() is None, self.process.stderr.read()
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next((int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd"), None)

    def inside(self, *command):
        """A command of this machine that runs one there, with nothing of our environment."""
        enter = ["nsenter", f"--target={self.first}", *self.spaces, "--"]
        return [*enter, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *command]

    def run(self, command, check=True):
        return finish(self.inside("/bin/sh", "-c", command), check)

    def stop(self):
        os.kill(self.first, signal.SIGKILL)
        self.process.wait(PATIENCE)


def finish(command, check):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    said = done.stdout + done.stderr
    assert not check or done.returncode == 0, f"{command[-1]}: {done.returncode}\n{said}"
    return said
