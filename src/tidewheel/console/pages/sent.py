"""The messages that were sent, the newest first; and a key in all topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from tidewheel.client.history import History, SentMessage
from tidewheel.client.waiting import MessageState, MessageStatus
from tidewheel.console.changes import time_of
from tidewheel.console.pages.overview import TOPICS
from tidewheel.console.reading import FORESEEN, Read, reason
from tidewheel.errors import InvalidValue, UnknownMessage
from tidewheel.model.message import looks_like_id

if TYPE_CHECKING:
    from tidewheel.console.app import Console

A_PAGE = 50
LINES = 10_000
BACK = {"1": "a day", "7": "7 days", "30": "30 days", "": "all that is kept"}
_FIELDS = ("key", "subscription", "until", "back")


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads a page of sent messages. A look for a key ends at a day, unless more is asked for."""
    topic, typed = request.path_params["topic"], _typed(request)
    count = request.query_params.get("n", "")
    most = int(count) if count.isdecimal() and 0 < int(count) < A_PAGE else A_PAGE
    errors: dict[str, str] = {}
    found: Read[tuple[History, list[SentMessage]]] = Read()
    try:
        look = _look(console, topic, typed)
        found = console.reader.read(lambda: (it := look(), list(islice(it, most + 1))))
    except InvalidValue as error:
        errors[error.field if error.field in typed else "until"] = error.advice
    history, rows = found.value or (None, [])
    further: str | None = None
    if len(rows) > most:
        further = rows[most - 1].id
    elif history is not None and not history.complete:
        further = history.looked_back_to.isoformat()
    return "sent.html", {
        "topic": topic,
        "typed": typed,
        "errors": errors,
        "ways": BACK,
        "found": found,
        "history": history,
        "rows": rows[:most],
        "further": further,
        "still": bool(typed["key"]) or console.local is None,
    }


def _typed(request: Request) -> dict[str, str]:
    query = request.query_params
    typed = {name: query.get(name, "").strip() for name in _FIELDS}
    return typed if "back" in query or not typed["key"] else typed | {"back": "1"}


def _look(console: Console, topic: str, typed: dict[str, str]) -> Callable[[], History]:
    """Returns what begins a look.

    Raises:
        InvalidValue: a time cannot be read.
    """
    text = typed["until"]
    until: datetime | str | None = text or None
    if text and not looks_like_id(text):
        until = time_of("until", text)
    days, since = typed["back"], None
    if days.isdecimal():
        from_ = until if isinstance(until, datetime) else console.now()
        with suppress(OverflowError):
            since = from_ - timedelta(days=int(days))
    subscription, key = typed["subscription"] or None, typed["key"] or None
    return partial(console.client.history, topic, subscription, since, until, key)


def download(console: Console, request: Request) -> Response:
    """Answers with a line of JSON for each message."""
    topic = request.path_params["topic"]
    if console.hide_bodies:
        return PlainTextResponse("Refused: this console hides bodies.\n", status_code=403)
    try:
        history = _look(console, topic, _typed(request))()
    except FORESEEN as error:
        return PlainTextResponse(f"{reason(error)}\n", status_code=404)
    name = f'attachment; filename="{topic}-sent.jsonl"'
    return StreamingResponse(_lines(history), media_type="application/x-ndjson", headers={"Content-Disposition": name})


def _lines(history: History) -> Iterator[str]:
    count = 0
    try:
        for each in islice(history, LINES):
            count += 1
            yield json.dumps(each, default=_plain, ensure_ascii=False) + "\n"
        end = {"messages": count, "looked_back_to": history.looked_back_to, "complete": history.complete}
    except FORESEEN as error:
        end = {"messages": count, "error": reason(error)}
    yield json.dumps(end, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    return value.isoformat() if isinstance(value, datetime) else dict(value)


def search(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Looks for a key, or an id, in a topic or in all."""
    q, client = request.query_params.get("q", "").strip(), console.client
    topics: Read[Any] = Read()
    names = [name for name in request.query_params.getlist("topic") if name]
    if not names:
        topics = console.reader.read(client.topics)
        names = sorted(each.name for each in topics.value or ())[:TOPICS]

    def of(topic: str) -> MessageStatus | None:
        with suppress(UnknownMessage):
            found = client.get(topic, q) if looks_like_id(q) else client.get(topic, key=q)
            return None if found.state is MessageState.UNKNOWN else found
        return None

    reads = console.reader.read_all(partial(of, name) for name in (names if q else ()))
    rows = sorted(zip(names, reads, strict=False), key=lambda row: row[1].value is None)
    since = f"{console.now() - timedelta(days=28):%Y-%m-%dT%H:%MZ}"
    return "search.html", {"q": q, "topics": topics, "rows": rows, "since": since}
