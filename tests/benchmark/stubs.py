"""For tests: a load generator that is a script, and servers that do nothing."""

import json
import stat
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import load
import measure
import pool_measure
from load import Bench
from processes import Program
from servers import Server


class Stubs(unittest.TestCase):
    """`SCRIPT` stands for the load generator; where REPORT stands in it, `REPORT` is put."""

    SCRIPT = ""
    REPORT: dict[str, Any] = {}

    def setUp(self) -> None:
        """Writes the load generator."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        binary = self.folder / "onramp"
        binary.write_text(self.SCRIPT.replace("REPORT", json.dumps(self.REPORT)))
        binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
        self.bench = Bench(binary, self.folder / "bench")
        self.addCleanup(self.bench.stop)
        for patch in (mock.patch.object(load, "has_option", return_value=False),
                      mock.patch.object(measure, "SETTLING", 0.0), mock.patch.object(pool_measure, "SETTLING", 0.0)):
            patch.start()
            self.addCleanup(patch.stop)

    def server(self, key: str) -> Server:
        """One that is running."""
        server = Server(key, self.folder / key, 20_000)
        server.program = Program(key, ["sleep", "600"], self.folder / key / "log")
        server.program.start(lambda: True)
        self.addCleanup(server.stop)
        return server
