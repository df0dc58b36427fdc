"""The waiting messages of a topic, by due time, or those that an id, a key or a key prefix finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.console.changes import time_of
from tidewheel.console.reading import Read
from tidewheel.errors import InvalidValue

if TYPE_CHECKING:
    from tidewheel.console.app import Console

A_PAGE = 50
BY = {"id": "id", "key": "key", "prefix": "key prefix"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A message of the list. body is None if no ledger was read."""

    id: str
    deliver_at: datetime
    key: str | None
    body: str | None
    state: str = ""


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads a page of messages. A filter that cannot be read is told beside its field."""
    topic, query = request.path_params["topic"], request.query_params
    by, q, after = query.get("by", "key"), query.get("q", "").strip(), query.get("after") or None
    errors: dict[str, str] = {}
    first: datetime | None = None
    try:
        first = time_of("from", query["from"]) if query.get("from") else None
    except InvalidValue as error:
        errors["from"] = error.advice
    found: Read[list[Row]] = Read()
    if by not in BY:
        errors["q"] = f"find by one of: {', '.join(BY)}"
    elif not errors:
        try:
            found = console.reader.read(_reading(console, topic, by, q, first, after))
        except InvalidValue as error:
            errors["from" if error.field in ("first", "after") and not after else "q"] = error.advice
    rows: list[Row] = found.value or []
    if q and by == "id" and rows and not rows[0].state:
        errors["q"] = "no ledger holds a message with this id: its page tells why"
    return "messages.html", {
        "topic": topic,
        "by": by,
        "ways": BY,
        "q": query.get("q", ""),
        "first": query.get("from", ""),
        "errors": errors,
        "found": found,
        "rows": rows[:A_PAGE],
        "later": _later(by, q, rows),
    }


def _reading(
    console: Console, topic: str, by: str, q: str, first: datetime | None, after: str | None
) -> Callable[[], list[Row]]:
    client = console.client

    def one() -> list[Row]:
        found = client.get(topic, q)
        body = None if found.message is None else found.message.body
        key = None if found.message is None else found.message.key
        state = "" if found.state == "unknown" else str(found.state)
        return [Row(id=found.id, deliver_at=found.deliver_at, key=key, body=body, state=state)]

    def by_key() -> list[Row]:
        matched = client.find(topic, key_prefix=q, first=first, after=after)
        if by == "key":
            matched = (
                each for each in islice(matched, 1) if each.key == q
            )  # in the order of keys: its own is the first
        return [
            Row(id=each.id, deliver_at=each.deliver_at, key=each.key, body=None) for each in islice(matched, A_PAGE + 1)
        ]

    def by_time() -> list[Row]:
        found = client.peek(topic, A_PAGE + 1, after=after or first)
        return [Row(id=each.id, deliver_at=each.deliver_at, key=each.key, body=each.body) for each in found]

    if q and by == "id":
        return one
    return by_key if q else by_time


def _later(by: str, q: str, rows: list[Row]) -> str | None:
    """Returns the parameter `after` of the next page."""
    if len(rows) <= A_PAGE:
        return None
    last = rows[A_PAGE - 1]
    return (last.key or last.id) if q and by != "id" else last.id
