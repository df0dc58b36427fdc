"""Writes the deployed archives and prints their sizes, with `python -m infra.bundle FOLDER`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tidewheel.bundling.functions import MB, write_bundle
from tidewheel.bundling.jobs import write_package
from tidewheel.bundling.pinned_packages import LAMBDA, X86

MACHINES = {machine.architecture: machine for machine in (LAMBDA, X86)}


def main(arguments: list[str] | None = None) -> int:
    """Writes the archives. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.bundle", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the archives go")
    parser.add_argument(
        "--architecture", choices=sorted(MACHINES), default=LAMBDA.architecture, help="the functions'; %(default)s"
    )
    options = parser.parse_args(arguments)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    write_bundle(folder, MACHINES[options.architecture])
    write_package(folder)
    print(f"tidewheel.zip for Glue's jobs: {(folder / 'tidewheel.zip').stat().st_size / MB:.1f} MB.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
