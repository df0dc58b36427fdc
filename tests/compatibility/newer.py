"""A recording of an imagined newer release, in the same layout with additions, or in the next layout."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.compatibility.recording import RecordedQueue, Recording
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.object_names import CHECKPOINTS
from tidewheel.model.topic_state import LAYOUT
from tidewheel.storage import layout

ATTRIBUTE = "of_a_newer_release"
_VALUE = {"M": {"count": {"N": "7"}, "names": {"L": [{"S": "x"}]}}}
_DOCUMENT = {ATTRIBUTE: {"count": 7}}


def with_more(recording: Recording) -> Recording:
    """Returns a recording with all additions allowed within a layout, in every place."""
    return replace(
        recording,
        items=[_item(each) for each in recording.items],
        objects={name: _object(name, data) for name, data in recording.objects.items()},
        queues=[_queue(each) for each in recording.queues],
        schedules=[each | {"input": _json(each["input"])} for each in recording.schedules],
    )


def with_next_layout(recording: Recording) -> Recording:
    """Returns a recording whose topics were all moved to the next layout, which this release does not know."""
    moved = {"layout": {"N": str(LAYOUT + 1)}}
    items = [each | moved if each["sk"]["S"] == layout.STATE else each for each in recording.items]
    return replace(recording, items=items)


def _json(text: str) -> str:
    return json.dumps(json.loads(text) | _DOCUMENT)


def _item(item: dict[str, Any]) -> dict[str, Any]:
    changed = item | {ATTRIBUTE: _VALUE}
    if "settings" in item:
        changed["settings"] = {"S": _json(item["settings"]["S"])}
    if "purges" in item:
        changed["purges"] = {"S": json.dumps([[*each, "more"] for each in json.loads(item["purges"]["S"])])}
    if "manifest" in item:
        changed["manifest"] = {"B": _manifest(item["manifest"]["B"])}
    return changed


def _queue(queue: RecordedQueue) -> RecordedQueue:
    if queue.role != "work":
        return queue
    return replace(queue, messages=[each | {"body": _json(each["body"])} for each in queue.messages])


def _object(name: str, data: bytes) -> bytes:
    return _checkpoint(data) if name.startswith(CHECKPOINTS) else data


def _rewritten(change: Callable[[dict[str, Any]], None], data: bytes) -> bytes:
    document = json.loads(zlib.decompress(opened(data)))
    change(document)
    return sealed(zlib.compress(json.dumps(document | _DOCUMENT).encode()))


def _manifest(data: bytes) -> bytes:
    def change(document: dict[str, Any]) -> None:
        document["segments"] = [[*each, "more"] for each in document["segments"]]

    return _rewritten(change, data)


def _checkpoint(data: bytes) -> bytes:
    def change(document: dict[str, Any]) -> None:
        for name, length in (("subscriptions", 9), ("tombstones", 4), ("recurring", 9), ("purges", 3)):
            rows = document.get(name, [])
            # Behind all that this release knows, absent ones included.
            document[name] = [[*each, *[None] * (length - len(each)), "more"] for each in rows]
        document["settings"] |= _DOCUMENT

    return _rewritten(change, data)
