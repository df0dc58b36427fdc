"""The waiting messages of a topic, by due time, or those that an id, a key or a key prefix finds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.client.finding import MatchedMessage
from tidewheel.client.waiting import MessageState, MessageStatus, WaitingMessage
from tidewheel.console.changes import time_of
from tidewheel.console.reading import Read
from tidewheel.errors import InvalidValue

if TYPE_CHECKING:
    from tidewheel.client.tidewheel import Tidewheel
    from tidewheel.console.app import Console

A_PAGE = 50
BY = {"id": "id", "key": "key", "prefix": "key prefix"}


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
    found: Read[Sequence[WaitingMessage | MatchedMessage | MessageStatus]] = Read()
    if by not in BY:
        errors["q"] = f"find by one of: {', '.join(BY)}"
    elif not errors:
        try:
            found = console.reader.read(_find, console.client, topic, by, q, first, after)
        except InvalidValue as error:
            errors["from" if error.field in ("first", "after") and not after else "q"] = error.advice
    rows = [_row(each) for each in found.value or ()]
    if q and by == "id" and rows and not rows[0][1]:
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


def _find(
    client: Tidewheel, topic: str, by: str, q: str, first: datetime | None, after: str | None
) -> Sequence[WaitingMessage | MatchedMessage | MessageStatus]:
    if not q:
        # A message that is due at `first` counts.
        return client.peek(topic, A_PAGE + 1, after=after or (first and first - timedelta(microseconds=1)))
    if by == "id":
        return [client.get(topic, q)]
    matched = client.find(topic, key_prefix=q, first=first, after=after)
    if by == "key":  # in the order of keys, so its own is the first
        return [each for each in islice(matched, 1) if each.key == q]
    return list(islice(matched, A_PAGE + 1))


def _row(found: WaitingMessage | MatchedMessage | MessageStatus) -> tuple[Any, str]:
    """Returns what is known of a message, at least id and due time, and its state if it is known to be another."""
    state = str(found.state) if isinstance(found, MessageStatus) and found.state is not MessageState.UNKNOWN else ""
    return found if isinstance(found, WaitingMessage) else found.message or found, state


def _later(by: str, q: str, rows: list[tuple[Any, str]]) -> str | None:
    """Returns the parameter `after` of the next page."""
    if len(rows) <= A_PAGE:
        return None
    last, _ = rows[A_PAGE - 1]
    return str((last.key or last.id) if q and by != "id" else last.id)
