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


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the counts, and the letters where this takes none. Shows those of the look that led here."""
    topic = request.path_params["topic"]
    result = console.results.get(request.query_params.get("result"))
    stats = console.reader.read(console.client.stats, topic)
    names = [each.name for each in stats.value.subscriptions if each.dead] if stats.value else []
    letters: dict[str, Read[Any]] = {}
    if console.local is not None:
        reads = console.reader.read_all(partial(console.local.dead_letters, topic, name, LETTERS) for name in names)
        letters = dict(zip(names, reads, strict=True))
    elif result is not None:
        letters = {name: Read(found) for name, found in result.letters.items()}
    return "dead.html", {"topic": topic, "stats": stats, "letters": letters}
