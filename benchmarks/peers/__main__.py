"""Measures all peers, saves the figures as `benchmarks/results/peers.json`, and draws the plots."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import results
from benchmarks.peers.measure import FULL, QUICK, measure
from benchmarks.peers.plots import IMAGES, save_plots
from benchmarks.peers.section import markdown


def main() -> None:
    """Runs it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small: to see that it works; nothing is saved")
    parser.add_argument("--plots", action="store_true", help="measure nothing: draw the plots of the saved figures")
    given = parser.parse_args()
    if given.plots:
        save_plots(results.load("peers"))
        return
    if results.is_busy():
        print("other programs run on this machine: lateness in real time will suffer", file=sys.stderr)
    figures = measure(QUICK if given.quick else FULL, say=lambda what: print(what, file=sys.stderr, flush=True))
    with TemporaryDirectory() as elsewhere:
        kept = Path(elsewhere) if given.quick else results.RESULTS
        results.save("peers", figures, command="make peers", directory=kept)
        found = results.load("peers", kept)
        save_plots(found, kept if given.quick else IMAGES)
        print(markdown(found))


if __name__ == "__main__":
    main()
