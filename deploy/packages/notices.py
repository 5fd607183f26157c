"""The licences of all that the program is built from, as their authors want them to go with it.

`notices.py` prints them: each text once, under the crates whose it is. What a crate brings of others' sources in C is looked for in it too.
"""

import os
from pathlib import Path

from sbom import PROGRAM, metadata, reached

# How files of licences are called, whatever their endings.
NAMES = ("license", "licence", "copying", "notice", "copyright", "unlicense")
# Sources in these folders of a crate are not built into the program.
ELSEWHERE = {"tests", "test", "benches", "examples", "fuzz", "doc", "docs", "sqlcipher"}
RULE = "=" * 100


def texts(folder):
    """The files of licences below a folder, nearest first."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - ELSEWHERE)
        here = [name for name in sorted(files) if name.lower().startswith(NAMES) and not name.endswith((".rs", ".go", ".py"))]
        # Beside another licence the GPL is a second choice (zstd), which is not taken.
        found += [Path(place, name) for name in here if len(here) == 1 or name != "COPYING"]
    return found


def main():
    everything = metadata()
    packages = {package["id"]: package for package in everything["packages"]}
    nodes = {node["id"]: node for node in everything["resolve"]["nodes"]}
    [program] = [package["id"] for package in packages.values() if package["name"] == PROGRAM and package["source"] is None]
    # By the words alone: many differ in where their lines end.
    users, originals, without = {}, {}, []
    for package in sorted((packages[one] for one in reached(nodes, program)), key=lambda package: (package["name"], package["version"])):
        if package["source"] is None:
            continue
        name = f"{package['name']} {package['version']} ({package['license']})"
        found = texts(Path(package["manifest_path"]).parent)
        if not found:
            without.append(name)
        for file in found:
            text = file.read_text(encoding="utf-8", errors="replace")
            words = " ".join(text.split())
            originals.setdefault(words, text.strip("\n"))
            if name not in users.setdefault(words, []):
                users[words].append(name)
    print("Onramp is licensed under the Apache License, Version 2.0. It is linked with the crates below, under their own licences.")
    for words, names in users.items():
        print(f"\n{RULE}\n{', '.join(names)}\n{RULE}\n\n{originals[words]}")
    if without:
        print(f"\n{RULE}\n{', '.join(without)}: they bring no text; where there is a choice, theirs are taken under the Apache License, Version 2.0.")


if __name__ == "__main__":
    main()
