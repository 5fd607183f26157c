"""Names of hosts of a program's own, which lead elsewhere when the test says so: it sees a file of the test's in the place of /etc/hosts."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

PROGRAMS = ("unshare", "mount")


@functools.cache
def missing():
    """What keeps a program from having names of its own; None where nothing does."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian, Ubuntu: apt install util-linux mount)"
    if os.geteuid() != 0:
        return "names of a program's own need root"
    tried = subprocess.run(["unshare", "--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"], capture_output=True, text=True)
    return f"no mount namespaces: {tried.stderr.strip()}" if tried.returncode else None


class Names:
    """The file. Each name leads to the addresses that it was last said to lead to."""

    def __init__(self, folder, **names):
        self.file = Path(folder) / "hosts"
        self.names = {}
        self.lead(**names)

    def lead(self, **names):
        """`db=["127.0.0.2"]` is for `db.test`; a name without addresses is not found. The file stays the same one, since it is that which is seen."""
        self.names.update(names)
        lines = [f"{address} {name}.test\n" for name, addresses in self.names.items() for address in addresses]
        self.file.write_text("127.0.0.1 localhost\n" + "".join(lines))

    def before(self):
        """What goes in front of the program's command."""
        see = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", see, str(self.file)]
