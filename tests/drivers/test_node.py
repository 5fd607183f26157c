"""The Node client libraries, by scripts whose every step is a line of JSON."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.waiting import PATIENCE

HERE = Path(__file__).parent


@pytest.mark.parametrize("script", ["mysql2.mjs", "mariadb.mjs"])
def test_node(site, schema, note, script):
    node = shutil.which("node")
    assert node, "node is not installed (Debian, Ubuntu: apt install nodejs npm)"
    done = subprocess.run(
        [node, HERE / "node" / script, site.host, str(site.port)], cwd=HERE, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) > 20
    for number, (label, value) in enumerate(lines):
        note(f"{number} {label}", value)
