"""Records this release's data layout, by `python -m tests.compatibility.record`.

A layout is recorded once, by the last release before the next layout at the latest, and stays as it is from its release
on: every later release must go on from it. To record a layout again, before its release, give `--again`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.compatibility import aftermath, scenario
from tests.compatibility.recording import Recording, restored, take
from tidewheel import __version__
from tidewheel.local import LocalTidewheel
from tidewheel.model.topic_state import LAYOUT

FOLDER = Path(__file__).parent


def path_of(layout: int) -> Path:
    """Returns where the recording of a layout is."""
    return FOLDER / f"layout-{layout}" / "recording.json.gz"


def record() -> Recording:
    """Runs the stories on a new stack, and records the stack. Checks that this release goes on from the recording."""
    with LocalTidewheel(start=scenario.START) as stack:
        story = scenario.drive(stack)
        recording = take(stack, release=__version__, layout=LAYOUT, story=story)
    with restored(recording) as stack:
        aftermath.check(recording, aftermath.live_on(stack, recording))
        aftermath.nothing_is_left(stack, recording)
    return recording


def main() -> None:
    """Writes the file, unless the file exists."""
    parser = argparse.ArgumentParser(description="Records this release's data layout.")
    parser.add_argument("--again", action="store_true", help="take the place of a recording that no release had yet")
    again: bool = parser.parse_args().again
    path = path_of(LAYOUT)
    if path.exists() and not again:
        raise SystemExit(f"{path} is there already: a layout that was released is not recorded again (--again)")
    recording = record()
    recording.write(path)
    messages = sum(map(len, recording.story.expected.values()))
    print(
        f"{path}: {path.stat().st_size} bytes, {len(recording.items)} items, {len(recording.objects)} objects, "
        f"{sum(len(each.messages) for each in recording.queues)} in queues, {messages} messages to come"
    )


if __name__ == "__main__":
    main()
