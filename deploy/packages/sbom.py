"""The crates that the program is built from, as a bill of materials in CycloneDX 1.5 (https://cyclonedx.org).

`sbom.py VERSION` prints it. It is cargo's own answer (`cargo metadata`, Cargo.lock) in another form: what is built for tests alone, and for
other systems, is left out.
"""

import json
import os
import platform
import subprocess
import sys
import time
import tomllib
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "onramp"


def metadata():
    target = f"{platform.machine()}-unknown-linux-gnu"
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def reached(nodes, start):
    """All packages that one is built from, each with what it uses itself."""
    used = {}
    left = [start]
    while left:
        package = left.pop()
        if package in used:
            continue
        kinds = lambda dependency: {kind["kind"] for kind in dependency["dep_kinds"]}
        used[package] = sorted(one["pkg"] for one in nodes[package]["deps"] if kinds(one) - {"dev"})
        left += used[package]
    return used


def reference(package):
    if package["source"] is None:
        return f"{PROGRAM}:{package['name']}@{package['version']}"
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    """A crate; one of ours has neither a place in the registry nor a checksum there."""
    found = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
    }
    if package["description"]:
        found["description"] = package["description"].strip()
    if package["source"] is not None:
        found["purl"] = reference(package)
        found["hashes"] = [{"alg": "SHA-256", "content": checksums[package["name"], package["version"]]}]
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def bill(version):
    found = metadata()
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    [program] = [package["id"] for package in packages.values() if package["name"] == PROGRAM and package["source"] is None]
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in lock}
    used = reached(nodes, program)
    components = [component(packages[package], checksums) for package in used if package != program]
    own = {"type": "application", "bom-ref": PROGRAM, "name": PROGRAM, "version": version, "licenses": [{"expression": "Apache-2.0"}]}
    name = lambda package: PROGRAM if package == program else reference(packages[package])
    depends = [{"ref": name(package), "dependsOn": sorted(map(name, uses))} for package, uses in used.items()]
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    parts = sorted(components, key=lambda part: part["bom-ref"])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # Of what it says: the same sources have the same.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([version, parts]))}",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", moment), "component": own},
        "components": parts,
        "dependencies": sorted(depends, key=lambda one: one["ref"]),
    }


if __name__ == "__main__":
    json.dump(bill(sys.argv[1]), sys.stdout, indent=1)
    print()
