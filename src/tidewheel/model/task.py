"""Encodes the tasks in the work queue as JSON.

part        {"topic": ..., "subscription": ..., "generation": ..., "plan": ..., "part": ...}, and "replay" of a replay
drain       {"topic": ..., "subscription": ..., "generation": ..., "park": ...}
catch up    {"topic": ..., "subscription": ..., "generation": ...}

Unknown fields are ignored: a newer release adds only fields that a function may ignore without harm. A task of a new
kind has the field `kind`, which this release does not know. SQS then delivers the task again, and at last moves it to
the dead-letter queue. A message that is no task at all is refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tidewheel.errors import InvalidValue, NewerRelease
from tidewheel.model.park import ParkKey
from tidewheel.model.subscription_state import DeliveryKey, Owned
from tidewheel.model.topic import check_name
from tidewheel.model.untrusted import json_of

_ADVICE = "give a JSON object as the service's functions put it into the work queue"
_PART_OF_A_KEY = re.compile(r"[A-Za-z0-9_.:-]{1,128}\Z")
"""Generations, and the ids of parks and replays. They stand between the separators of a table's key."""
_MOST = 10**12 - 1
"""Slots have twelve digits in keys, and no plan has as many parts."""
_OWNER: dict[str, type] = {"topic": str, "subscription": str, "generation": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """Sends a part of a delivery."""

    key: DeliveryKey
    part: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainTask:
    """Sends the messages of a park."""

    key: ParkKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpTask(Owned):
    """Hands out missed plans and drains parks after a resume."""


Task = PartTask | DrainTask | CatchUpTask


def topic_of(task: Task) -> str:
    """Returns the topic to which a task belongs."""
    return task.key.topic if isinstance(task, PartTask | DrainTask) else task.topic


def task_body(task: Task) -> str:
    """Returns the work queue's message for a task."""
    match task:
        case PartTask(key=key, part=part):
            own: dict[str, object] = {"plan": key.plan, "part": part}
            if key.replay is not None:
                own["replay"] = key.replay
        case DrainTask(key=key):
            own = {"park": key.id}
        case CatchUpTask() as key:
            own = {}
    return json.dumps({**key.owned, **own})


def task_of(body: str) -> Task:
    """Reads the result of `task_body`.

    Raises:
        InvalidValue: the text is not a task.
        NewerRelease: the task is of a newer release.
    """
    try:
        document = json_of(body)
    except ValueError as error:
        raise InvalidValue("work queue message", body, f"{_ADVICE} ({error})") from None
    if not isinstance(document, dict):
        raise InvalidValue("work queue message", body, _ADVICE)
    if "kind" in document:
        raise NewerRelease(f"a task of kind {document['kind']!r} is a newer release's: upgrade Tidewheel")
    if "plan" in document or "part" in document:
        own = {"plan": int, "part": int} | ({"replay": str} if "replay" in document else {})
        found = _checked(document, body, _OWNER | own)
        part = found.pop("part")
        return PartTask(key=DeliveryKey(**found), part=part)
    if "park" in document:
        found = _checked(document, body, _OWNER | {"park": str})
        return DrainTask(key=ParkKey(id=found.pop("park"), **found))
    return CatchUpTask(**_checked(document, body, _OWNER))


def _checked(document: dict[str, Any], body: str, kinds: dict[str, type]) -> dict[str, Any]:
    if not set(document) >= set(kinds) or ("park" in document and "park" not in kinds):
        raise InvalidValue("work queue message", body, f"{_ADVICE}, with the fields {', '.join(kinds)}")
    for name, kind in kinds.items():
        value = document[name]
        if type(value) is not kind or (isinstance(value, int) and not 0 <= value <= _MOST):
            raise InvalidValue(f"work queue message: {name}", value, _ADVICE)
        if name in ("topic", "subscription"):
            check_name(f"work queue message: {name}", value)
        elif isinstance(value, str) and not _PART_OF_A_KEY.match(value):
            raise InvalidValue(f"work queue message: {name}", value, _ADVICE)
    return {name: document[name] for name in kinds}
