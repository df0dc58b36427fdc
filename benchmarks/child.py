"""One benchmark in a process of its own: what one leaves in memory, threads or caches does not touch the next.

    python -m benchmarks.child NAME FILE [--quick]

Writes the figures and the load before them as JSON into the file, for `python -m benchmarks`, which keeps them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.registry import run
from benchmarks.results import load_now

INTERRUPTED = 130
"""What a shell calls a program that ended with Ctrl-C."""


def main() -> int:
    """Runs it from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    try:
        load_at_start = load_now()
        figures = run(given.name, quick=given.quick)
    except KeyboardInterrupt:
        return INTERRUPTED
    given.file.write_text(json.dumps({"figures": figures, "load_at_start": load_at_start}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
