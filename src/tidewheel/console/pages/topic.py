"""One topic: its wheel, subscriptions, slots and ledgers; its recurring messages; its dead letters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.console.pages.overview import picture
from tidewheel.console.reading import Read

if TYPE_CHECKING:
    from tidewheel.console.app import Console

LEDGERS = 20
LETTERS = 50


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the topic's stats, its subscriptions' filters, and its nearest ledgers."""
    name, client = request.path_params["topic"], console.client
    after = request.query_params.get("after") or None
    # One after the other: the first tells the client of the topic, and the others need not ask again.
    stats = console.reader.read(client.stats, name)
    subscriptions = console.reader.read(client.subscriptions, name)
    ledgers = console.reader.read(client.ledgers, name, LEDGERS, after=after)
    return "topic.html", {
        "topic": name,
        "stats": stats,
        "filters": {each.name: each.filter_policy for each in subscriptions.value or ()},
        "ledgers": ledgers,
        "later": ledgers.value[-1].after if ledgers.value and len(ledgers.value) == LEDGERS else None,
        "wheel": None if stats.value is None else picture(console, [stats.value]),
    }


def recurring(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the rules of the recurring messages, with their next times."""
    topic = request.path_params["topic"]
    return "recurring.html", {"topic": topic, "found": console.reader.read(console.client.recurring, topic)}


def dead(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the counts, and the letters where this takes none. Shows those of the look that led here.

    SQS shows a message only to who receives it. So a deployed stack's letters are counted, and looked at on demand. A
    local service's queues can be looked into.
    """
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
