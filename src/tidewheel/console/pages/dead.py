"""The dead letters of a topic's subscriptions.

SQS shows a message only to who receives it. So a deployed stack's letters are counted, and looked at on demand. A local
service's queues can be looked into.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.console.reading import Read

if TYPE_CHECKING:
    from tidewheel.console.app import Console

LETTERS = 50
TAKEN = 10


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the counts, and the letters where this takes none or was asked for."""
    topic = request.path_params["topic"]
    asked = request.query_params.get("look", "")
    stats = console.reader.read(console.client.stats, topic)
    names = [each.name for each in stats.value.subscriptions if each.dead] if stats.value else []
    letters: dict[str, Read[Any]] = {}
    if console.local is not None:
        reads = console.reader.read_all(partial(console.local.dead_letters, topic, name, LETTERS) for name in names)
        letters = dict(zip(names, reads, strict=True))
    elif asked in names and console.may_change:
        letters = {asked: console.reader.read(console.client.dead_letters, topic, asked, TAKEN)}
    return "dead.html", {"topic": topic, "stats": stats, "letters": letters}
