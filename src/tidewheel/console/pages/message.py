"""One message, with its place, its next step, its recipients and its body."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tidewheel.client.waiting import ENDS, MessageState, MessageStatus, Place
from tidewheel.console.reading import FORESEEN, reason
from tidewheel.console.text import BODY_IN_DETAIL
from tidewheel.model.triggers import BULK_WINDOW_S

if TYPE_CHECKING:
    from tidewheel.console.app import Console

_WAY = ("ingest queue", "waiting", "sealed", "planned", "delivering", "sent")
"""The words of docs/states.md for a message that comes in time."""
_TAKEN_IN = timedelta(seconds=BULK_WINDOW_S + 60)
"""How long a message that was just sent may be in no ledger."""
_UNDER_WAY = (Place.PLANNED, Place.DELIVERING, Place.PARKED)


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the message's status."""
    topic, id = request.path_params["topic"], request.path_params["id"]
    found = console.reader.read(console.client.get, topic, id)
    status = found.value
    queued = None if status is None or console.local is None else console.reader.read(console.local.queued, topic, id)
    values: dict[str, Any] = {"topic": topic, "id": id, "found": found, "status": status, "queued": queued}
    if status is not None:
        in_queue = bool(queued and queued.value)
        values["steps"] = life(status, queued.value if queued else None)
        values["next"], sent_at = status.explanation, console.sent.get(id)
        if status.state is MessageState.UNKNOWN and in_queue:
            values["next"] = "It went to the queues without a ledger, since it was due soon after it was sent."
        elif status.state is MessageState.UNKNOWN and sent_at and console.now() < sent_at + _TAKEN_IN:
            values |= {"steps": _steps(_WAY[:1], _WAY[0], {_WAY[0]: sent_at}), "next": "It is being taken in."}
        values |= _body(console, status)
        values |= {"open": status.can_be_stopped, "ended": status.state in ENDS}
    return "message.html", values


def life(status: MessageStatus, queued: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Returns the steps of a message's life, with its present.

    Args:
        status: the message's status.
        queued: subscription -> state of its copy in the queue, which only a local service's console knows.
    """
    sent_at = None if status.message is None else status.message.sent_at
    sent = min((each.sent_from for each in status.subscriptions if each.sent_from is not None), default=None)
    taken = max((each.taken_at for each in status.subscriptions if each.taken_at is not None), default=None)
    times = {"ingest queue": sent_at, "sealed": status.seals_at, "sent": sent or status.deliver_at, "taken": taken}
    if status.state is MessageState.UNKNOWN and not queued:
        return _steps(["unknown"], "unknown", {})
    if status.state in ENDS:
        return _steps([*_WAY[:2], status.state], status.state, {"ingest queue": sent_at})
    present, way = str(status.state), list(_WAY)
    places = {each.place for each in status.subscriptions} & set(_UNDER_WAY)
    if places:
        present = min(places, key=_UNDER_WAY.index)
        if Place.PARKED in places:
            present = "parked"
            way.insert(way.index("sent"), present)
    elif queued or status.state is MessageState.SENT:
        present = "sent"
        if not status.ledger:
            way = ["ingest queue", "sent"]
        if status.claimable or status.claimed_by:
            way.append("taken")
            present = "taken" if status.claimed_by else "sent"
        if "dead letter" in (queued or {}).values():
            way.append(present := "dead letter")
    about = ("sealed",) if sent is not None or way.index("sent") <= way.index(present) else ("sealed", "sent")
    return _steps(way, present, times, about)


def _steps(
    way: Sequence[str], present: str, times: Mapping[str, datetime | None], about: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Returns the steps of a way. about: those whose time is expected or computed, not recorded."""
    at = way.index(present)
    return [
        {"word": word, "at": times.get(word), "about": word in about, "now": number == at, "past": number < at}
        for number, word in enumerate(way)
    ]


def download(console: Console, request: Request) -> Response:
    """Answers with the whole body as a file."""
    topic, id = request.path_params["topic"], request.path_params["id"]
    if console.hide_bodies:
        return PlainTextResponse("Refused: this console hides bodies.\n", status_code=403)
    try:
        message = console.client.get(topic, id).message
    except FORESEEN as error:
        return PlainTextResponse(f"{reason(error)}\n", status_code=404)
    if message is None or message.payload is not None:
        return PlainTextResponse("No ledger holds this body.\n", status_code=404)
    name = f'attachment; filename="{"".join(each for each in id if each.isalnum())}.bin"'
    return Response(message.bytes(), media_type="application/octet-stream", headers={"Content-Disposition": name})


def _body(console: Console, status: MessageStatus) -> dict[str, Any]:
    message = status.message
    if message is None or console.hide_bodies:
        return {"body": None, "cut": False, "kind": ""}
    if message.payload is not None:
        read = console.reader.read(console.client.read_body, message, BODY_IN_DETAIL)
        data = read.value or b""
        return {"body": read.missing or data.decode("utf-8", "replace"), "cut": True, "kind": "in S3"}
    text, kind = message.body, message.encoding.name.lower()
    if kind == "json" and len(text) <= BODY_IN_DETAIL:
        text = json.dumps(message.json(), indent=2, ensure_ascii=False)
    return {"body": text[:BODY_IN_DETAIL], "cut": len(text) > BODY_IN_DETAIL, "kind": kind}
