"""Encodes the jobs in the work queue as JSON.

part        {"topic": ..., "subscription": ..., "generation": ..., "plan": ..., "part": ...}, and "replay" of a replay
drain       {"topic": ..., "subscription": ..., "generation": ..., "park": ...}
set aside   {"topic": ..., "subscription": ..., "generation": ..., "aside": ..., "tries": ...}
hold        {"topic": ..., "subscription": ..., "generation": ..., "hold": the ledger of a park, in base64}
catch up    {"topic": ..., "subscription": ..., "generation": ...}

Unknown fields are ignored: a newer release adds only fields that a function may ignore without harm. A job of a new
kind has the field `kind`, which this release does not know. SQS then delivers the job again, and at last moves it to
the dead-letter queue. A message that is no job at all is refused.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

from tidewheel.errors import InvalidValue, NewerRelease
from tidewheel.model.park import ParkKey
from tidewheel.model.set_aside import SetAsideKey
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
class PartJob:
    """Sends a part of a delivery."""

    key: DeliveryKey
    part: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainJob:
    """Sends the messages of a park."""

    key: ParkKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpJob(Owned):
    """Hands out missed plans and drains parks after a resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideJob:
    """Tries to read a set-aside item again.

    Attributes:
        tries: of the item when the job was made. The job is void once another has tried.
    """

    key: SetAsideKey
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldJob(Owned):
    """Parks messages that the table did not take at first.

    Attributes:
        since_s: when the messages were held first, in seconds of Unix time.
        ledger: the ledger of the park.
    """

    since_s: int
    ledger: bytes


Job = PartJob | DrainJob | HoldJob | CatchUpJob | SetAsideJob


def topic_of(job: Job) -> str:
    """Returns the topic to which a job belongs."""
    return job.key.topic if isinstance(job, PartJob | DrainJob | SetAsideJob) else job.topic


def job_body(job: Job) -> str:
    """Returns the work queue's message for a job."""
    match job:
        case PartJob(key=key, part=part):
            own: dict[str, object] = {"plan": key.plan, "part": part}
            if key.replay is not None:
                own["replay"] = key.replay
        case DrainJob(key=key):
            own = {"park": key.id}
        case SetAsideJob(key=key, tries=tries):
            own = {"aside": key.id, "tries": tries}
        case HoldJob() as key:
            own = {"hold": base64.b64encode(key.ledger).decode(), "since": key.since_s}
        case CatchUpJob() as key:
            own = {}
    return json.dumps({**key.owned, **own})


def job_of(body: str) -> Job:
    """Reads the result of `job_body`.

    Raises:
        InvalidValue: the text is not a job.
        NewerRelease: the job is of a newer release.
    """
    try:
        document = json_of(body)
    except ValueError as error:
        raise InvalidValue("work queue message", body, f"{_ADVICE} ({error})") from None
    if not isinstance(document, dict):
        raise InvalidValue("work queue message", body, _ADVICE)
    own: dict[str, type] = {}
    if "kind" in document:
        raise NewerRelease(f"a job of kind {document['kind']!r} is a newer release's: upgrade Tidewheel")
    if "plan" in document or "part" in document:
        own = {"plan": int, "part": int} | ({"replay": str} if "replay" in document else {})
    elif "park" in document:
        own = {"park": str}
    elif "aside" in document:
        own = {"aside": str, "tries": int}
    elif "hold" in document:
        own = {"hold": str, "since": int}
    return _job(_checked(document, body, _OWNER | own))


def _checked(document: dict[str, Any], body: str, kinds: dict[str, type]) -> dict[str, Any]:
    if not set(document) >= set(kinds) or ("park" in document and "park" not in kinds):
        raise InvalidValue("work queue message", body, f"{_ADVICE}, with the fields {', '.join(kinds)}")
    for name, kind in kinds.items():
        value = document[name]
        if type(value) is not kind or (isinstance(value, int) and not 0 <= value <= _MOST):
            raise InvalidValue(f"work queue message: {name}", value, _ADVICE)
        if name in ("topic", "subscription"):
            check_name(f"work queue message: {name}", value)
        elif name != "hold" and isinstance(value, str) and not _PART_OF_A_KEY.match(value):
            raise InvalidValue(f"work queue message: {name}", value, _ADVICE)
    return {name: document[name] for name in kinds}


def _job(document: dict[str, Any]) -> Job:
    if "part" in document:
        part = document.pop("part")
        return PartJob(key=DeliveryKey(**document), part=part)
    if "park" in document:
        return DrainJob(key=ParkKey(id=document.pop("park"), **document))
    if "aside" in document:
        tries = document.pop("tries")
        return SetAsideJob(key=SetAsideKey(id=document.pop("aside"), **document), tries=tries)
    if "hold" in document:
        return HoldJob(ledger=_ledger(document.pop("hold")), since_s=document.pop("since"), **document)
    return CatchUpJob(**document)


def _ledger(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidValue("work queue message: hold", text[:100], f"{_ADVICE} ({error})") from None
