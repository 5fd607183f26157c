"""What `make packages` has made, where a run names it."""

import os
from pathlib import Path

# Its folders are `out`, and `later` for what only has a later version; None where none is named.
PACKAGES = os.environ.get("ONRAMP_PACKAGES")


def package(folder, ending):
    [found] = (Path(PACKAGES) / folder).glob(f"*.{ending}")
    return found
