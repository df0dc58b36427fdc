"""One topic: its wheel, its subscriptions, how far its slots are, and its ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.console.pages.overview import picture

if TYPE_CHECKING:
    from tidewheel.console.app import Console

LEDGERS = 20


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
