"""A MariaDB and its replica that stand for two of RDS: by where their programs are, as they say, and by what the service account may ask them.

RDS gives nobody the right by which Onramp asks elsewhere from whom a server replicates, and has a procedure for that instead.
"""

import subprocess
from pathlib import Path

from .cluster import Cluster
from .server import SERVICE, find

PROGRAMS = "/rdsdbbin/mariadb-10.11.9.R1/"
PROCEDURE = "mysql.rds_replica_status"
EXECUTE = f"EXECUTE ON PROCEDURE {PROCEDURE}"


def elsewhere():
    """The options of a server that is to say that its programs are there: its files are where they are all the same."""
    said = subprocess.run([find("mariadbd", "/usr/sbin"), "--no-defaults", "--verbose", "--help"], capture_output=True, text=True, check=True)
    folders = dict(line.split(maxsplit=1) for line in said.stdout.splitlines() if line.startswith(("character-sets-dir ", "plugin-dir ")))
    messages = Path(folders["character-sets-dir"]).parent
    return [f"--basedir={PROGRAMS}", f"--lc-messages-dir={messages}", *(f"--{name}={folder}" for name, folder in folders.items())]


class Instances(Cluster):
    """The first is the writer, the second its read replica."""

    def __init__(self, folder, template):
        self.options = elsewhere()
        super().__init__(folder, template)
        try:
            self.order(0, f"CREATE PROCEDURE {PROCEDURE}() SQL SECURITY DEFINER SHOW SLAVE STATUS",
                       f"GRANT {EXECUTE} TO '{SERVICE[0]}'@'%'",
                       "CREATE TABLE onramp_app.kept (id BIGINT PRIMARY KEY, value BIGINT) ENGINE=InnoDB",
                       "INSERT INTO onramp_app.kept VALUES (1, 0)")
            self.until_followed()
        except BaseException:
            self.discard()
            raise
