"""The command line: `tidewheel --help`."""

from __future__ import annotations

import sys


def run() -> None:
    """Runs the command; where only the SDK is installed, says what to install."""
    try:
        from tidewheel.cli import main
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("tidewheel: the command line needs more packages: pip install 'tidewheel[cli]'")
    main.run()
