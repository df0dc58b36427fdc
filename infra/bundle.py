"""Both bundles, as they would be deployed: `python -m infra.bundle FOLDER` writes them and says how large they are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tidewheel.cdk.bundles import BUNDLES
from tidewheel.cdk.bundling import write_bundle


def main(arguments: list[str] | None = None) -> int:
    """Write the bundles; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.bundle", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the archives go")
    folder: Path = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    for bundle in BUNDLES:
        write_bundle(bundle, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
