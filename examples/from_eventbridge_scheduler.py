"""Moves a group of EventBridge's schedules, with `tidewheel import --format eventbridge-schedules` in between."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from tidewheel import Tidewheel


def export(scheduler: Any, group: str, path: Path) -> None:
    """Writes a group's schedules, one a line. Takes boto3's client "scheduler"."""
    with path.open("w") as file:
        for name in names(scheduler, group):
            with suppress(scheduler.exceptions.ResourceNotFoundException):  # deleted a moment ago
                schedule = scheduler.get_schedule(GroupName=group, Name=name)
                file.write(json.dumps(schedule, default=datetime.isoformat) + "\n")


# region move
def cancel_deleted(
    tw: Tidewheel, topic: str, scheduler: Any, group: str, taken: Sequence[str], now: datetime, cut: datetime
) -> list[str]:
    """Cancels imported messages whose schedules are gone. Takes the import's lines. Never after `remove`."""
    if now >= cut:
        raise ValueError(f"{cut} has passed: schedules may be gone because they were due")
    left = {f"{group}/{name}" for name in names(scheduler, group)}
    gone = [columns for line in taken if (columns := line.rstrip().split("\t"))[0] not in left]
    tw.cancel_many(topic, [id for _, _, _, *ids in gone for id in ids])
    keys = {key for key, *_ in gone}
    for key in keys & {each.key for each in tw.recurring(topic)}:
        tw.cancel_recurring(topic, key)
    return sorted(keys)


# endregion


def remove(scheduler: Any, group: str, taken: Sequence[str]) -> None:
    """Deletes the schedules that are messages now. Run it again if it stops."""
    for line in taken:
        with suppress(scheduler.exceptions.ResourceNotFoundException):
            scheduler.delete_schedule(GroupName=group, Name=line.split("\t")[0].removeprefix(f"{group}/"))


def names(scheduler: Any, group: str) -> Iterator[str]:
    """Yields the names of a group's schedules."""
    for page in scheduler.get_paginator("list_schedules").paginate(GroupName=group):
        yield from (each["Name"] for each in page["Schedules"])
