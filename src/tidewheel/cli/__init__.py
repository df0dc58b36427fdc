"""Runs the command line, `tidewheel --help`."""

from __future__ import annotations

import sys

from tidewheel.errors import ExtraMissing, needs_extra

INTERRUPTED = 130


def run() -> None:
    """Runs the command. Names the missing extra if only the SDK is installed."""
    try:
        with needs_extra("the command line", "cli"):
            from tidewheel.cli import main
        main.run()
    except ExtraMissing as error:
        sys.exit(f"tidewheel: {error}")
    except KeyboardInterrupt:  # while something was being loaded
        sys.exit(INTERRUPTED)
