"""The waiting messages of a topic, by due time, or those that an id, a key or a key prefix finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request

from tidewheel.client.waiting import WaitingMessage
from tidewheel.console.changes import time_of
from tidewheel.console.reading import Read, reason
from tidewheel.errors import InvalidValue, PeekIncomplete
from tidewheel.model.message import Encoding

if TYPE_CHECKING:
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.console.app import Console

A_PAGE = 50
BY = {"id": "id", "key": "key", "prefix": "key prefix"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A message of the list. body is None if its ledger was not read, or has no body. note says more of the body."""

    id: str
    deliver_at: datetime
    key: str | None
    body: str | None = None
    note: str = ""
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
    unread: list[str] = []
    if by not in BY:
        errors["q"] = f"find by one of: {', '.join(BY)}"
    elif not errors:
        try:
            found = console.reader.read(_reading(console.client, topic, by, q, first, after, unread))
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
        "unread": unread,
        "rows": rows[:A_PAGE],
        "later": _later(by, q, rows),
    }


def _reading(
    client: Tidewheel,
    topic: str,
    by: str,
    q: str,
    first: datetime | None,
    after: str | None,
    unread: list[str],
) -> Callable[[], list[Row]]:
    """Returns the call that finds the rows. It adds to unread why some ledgers are missing."""

    def one() -> list[Row]:
        found = client.get(topic, q)
        if found.message is not None:
            return [replace(_row(found.message), state=str(found.state))]
        state = "" if found.state == "unknown" else str(found.state)
        return [Row(id=found.id, deliver_at=found.deliver_at, key=None, note="on its page", state=state)]

    def by_key() -> list[Row]:
        matched = client.find(topic, key_prefix=q, first=first, after=after)
        if by == "key":
            matched = (
                each for each in islice(matched, 1) if each.key == q
            )  # in the order of keys: its own is the first
        return [
            Row(id=each.id, deliver_at=each.deliver_at, key=each.key, note="on its page")
            for each in islice(matched, A_PAGE + 1)
        ]

    def by_time() -> list[Row]:
        try:
            found = client.peek(topic, A_PAGE + 1, after=after or first)
        except PeekIncomplete as error:
            found = cast("list[WaitingMessage]", error.messages)
            unread.append(reason(error))
        return [_row(each) for each in found]

    if q and by == "id":
        return one
    return by_key if q else by_time


def _row(message: WaitingMessage) -> Row:
    row = Row(id=message.id, deliver_at=message.deliver_at, key=message.key, body=message.body)
    if message.payload is not None:
        return replace(row, body=None, note="in S3")
    return replace(row, note="base64") if message.encoding is Encoding.BYTES else row


def _later(by: str, q: str, rows: list[Row]) -> str | None:
    """Returns the parameter `after` of the next page."""
    if len(rows) <= A_PAGE:
        return None
    last = rows[A_PAGE - 1]
    return (last.key or last.id) if q and by != "id" else last.id
