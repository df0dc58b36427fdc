"""Measures all peers, saves the figures as `benchmarks/results/peers.json`, and draws the plots.

Ctrl-C saves nothing and exits with 130.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import results
from benchmarks.arguments import check_directory
from benchmarks.child import INTERRUPTED
from benchmarks.peers.measure import FULL, QUICK, measure
from benchmarks.peers.plots import IMAGES, save_plots
from benchmarks.peers.section import markdown
from tidewheel.errors import InvalidValue


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it from the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=(__doc__ or "").partition("\n")[0])
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--quick", action="store_true", help="small: to see that it works; nothing is saved")
    only.add_argument("--plots", action="store_true", help="measure nothing: draw the plots of the saved figures")
    given = parser.parse_args(arguments)
    try:
        if given.plots:
            save_plots(results.load("peers"))
            return 0
        if not given.quick:
            check_directory(results.RESULTS)
            check_directory(IMAGES)
    except InvalidValue as error:
        parser.error(str(error))
    try:
        load_at_start = results.load_now()
        if results.is_busy(load_at_start):
            print("other programs run on this machine: lateness in real time will suffer", file=sys.stderr)
        figures = measure(QUICK if given.quick else FULL, say=lambda what: print(what, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        print("stopped; nothing is saved", file=sys.stderr)
        return INTERRUPTED
    with TemporaryDirectory() as elsewhere:
        kept = Path(elsewhere) if given.quick else results.RESULTS
        results.save("peers", figures, command="make peers", directory=kept, load_at_start=load_at_start)
        found = results.load("peers", kept)
        save_plots(found, kept if given.quick else IMAGES)
        print(markdown(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
