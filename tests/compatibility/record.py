"""Records this release's data layout, by `python -m tests.compatibility.record`.

A layout is recorded once, by the last release before the next layout at the latest, and stays as it is from its release
on: every later release must go on from it. To record a layout again, before its release, give `--again`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.compatibility import scenario
from tests.compatibility.recording import Recording, data_of
from tidewheel import __version__
from tidewheel.local import MemoryTidewheel
from tidewheel.model.topic_state import LAYOUT

PATH = Path(__file__).parent / f"layout-{LAYOUT}" / "recording.json.gz"


def record() -> Recording:
    """Runs the stories on a new service, and records the service."""
    stack = MemoryTidewheel(start=scenario.START)
    script = scenario.drive(stack)
    story = {"expected": script.expected, "steps": sorted(script.steps), "gone": script.gone}
    return Recording(release=__version__, layout=LAYOUT, **data_of(stack), **story)


if __name__ == "__main__":
    if PATH.exists() and sys.argv[1:] != ["--again"]:
        raise SystemExit(f"{PATH} is there already: a layout that was released is not recorded again (--again)")
    PATH.parent.mkdir(exist_ok=True)
    record().write(PATH)
