"""The command lines of the comparisons: the options that all of them have, and how lists are read."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PAGE = ROOT / "docs" / "BENCHMARKS.md"
# The server that contenders stand in front of where nothing else is said.
USUAL_SERVER = "mariadb"
# For what is not for the page.
ASIDE = TARGET / "benchmark"

# Options that name files.
PATHS = ["--onramp", "--mysql-home", "--output", "--json", "--report-from"]


def options(target: str, description: str, sections: list[str]) -> argparse.ArgumentParser:
    """What every comparison takes; `target` is its word for make."""
    parser = argparse.ArgumentParser(
        prog=f"make {target}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(target=target, sections=sections, mysql_home=None, server=USUAL_SERVER)
    parser.add_argument("--only", type=names, default=sections, metavar="LIST", help=f"of {', '.join(sections)}")
    parser.add_argument("--quick", action="store_true", help="a short look, into target/benchmark")
    parser.add_argument("--onramp", type=Path, metavar="PROGRAM", help="the binary [ONRAMP_BIN, target/release/onramp]",
                        default=os.environ.get("ONRAMP_BIN", TARGET / "release" / "onramp"))
    parser.add_argument("--output", type=Path, default=None, metavar="FILE", help="page with the markers")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="every figure")
    parser.add_argument("--report-from", type=Path, default=None, metavar="FILE",
                        help="measure nothing; write the page from such a file")
    return parser


def add_mysql_home(parser: argparse.ArgumentParser) -> None:
    """For comparisons that MySQL takes part in."""
    parser.add_argument("--mysql-home", type=Path, default=os.environ.get("MYSQL_HOME"), metavar="FOLDER",
                        help="where a MySQL server is: bin/mysqld, or the root of another system's tree [MYSQL_HOME]")


def read(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Reads the words; files of a quick look are kept apart from the page."""
    arguments = parser.parse_args(words)
    arguments.words = words
    for section in arguments.only:
        if section not in arguments.sections:
            parser.error(f"no such part: {section}; there are {', '.join(arguments.sections)}")
    arguments.mysql_home = Path(arguments.mysql_home) if arguments.mysql_home else None
    arguments.onramp = Path(arguments.onramp).resolve()
    if arguments.report_from is None and not arguments.onramp.is_file():
        parser.error(f"{arguments.onramp} is not there: cargo build --release --package onramp")
    which = arguments.target.removeprefix("compare") + of_server(arguments.server)  # nothing, or "-pool" and the like
    arguments.output = arguments.output or (ASIDE / f"quick{which}.md" if arguments.quick else PAGE)
    figures = ASIDE / f"quick{which}.json" if arguments.quick else ROOT / "docs" / f"benchmarks{which}.json"
    arguments.json = arguments.json or figures
    # The rounds so far of a run that is still going, or was ended.
    arguments.unfinished = ASIDE / f"unfinished{which}.json"
    return arguments


def of_server(server: str) -> str:
    """What the names of files have in them, so that each server has its own."""
    return "" if server == USUAL_SERVER else f"-{server}"


def command_text(target: str, words: list[str], with_mysql: bool) -> str:
    """What somebody else has to type for the same: without the paths of this machine."""
    kept, skip = list[str](), False
    for word in words:
        if not skip and word.partition("=")[0] not in PATHS:
            kept.append(word)
        skip = not skip and word in PATHS
    arguments = f' ARGUMENTS="{" ".join(kept)}"' if kept else ""
    return f"{'MYSQL_HOME=FOLDER ' if with_mysql else ''}make {target}{arguments}"


def chooser(chosen: list[str]) -> Callable[[str], bool]:
    """Whether a contender's key is among those chosen; `onramp` stands for all of its variants, and nothing for all."""
    def wanted(key: str) -> bool:
        if not chosen or key in chosen:
            return True
        if key == "onramp":
            return any(each.startswith("onramp-") for each in chosen)
        return key.startswith("onramp-") and "onramp" in chosen

    return wanted


def numbers(text: str) -> list[int]:
    """A list of positive numbers."""
    found = sorted({int(word) for word in text.replace("_", "").split(",") if word})
    if not found or found[0] < 1:
        raise argparse.ArgumentTypeError("numbers from 1 on, with commas between")
    return found


def names(text: str) -> list[str]:
    """A list of names."""
    return [word.strip() for word in text.split(",") if word.strip()]
