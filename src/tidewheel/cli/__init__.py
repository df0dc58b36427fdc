"""Runs the command line, `tidewheel --help`."""

from __future__ import annotations

import sys

from tidewheel.errors import ExtraMissing, needs_extra


def run() -> None:
    """Runs the command. Names the missing extra if only the SDK is installed."""
    try:
        with needs_extra("the command line", "cli"):
            from tidewheel.cli import main
    except ExtraMissing as error:
        sys.exit(f"tidewheel: {error}")
    except KeyboardInterrupt:  # while it was being loaded
        sys.exit(130)
    main.run()
