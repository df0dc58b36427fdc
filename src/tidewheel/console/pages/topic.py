"""One topic: its next messages, its subscriptions and wheel, its ledgers; its recurring messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.client.operations.stats import TopicStats
from tidewheel.console import wheel

if TYPE_CHECKING:
    from tidewheel.console.app import Console

LEDGERS = 20
SHOWN = 6
"""Upcoming messages."""


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the topic's stats, the next messages, and its nearest ledgers if they are asked for."""
    name, client = request.path_params["topic"], console.client
    after, folded = request.query_params.get("after") or None, "ledgers" not in request.query_params
    # The first read tells the client of the topic, and the others need not ask again.
    stats = console.reader.read(client.stats, name)
    upcoming = console.reader.read(client.peek, name, SHOWN)
    ledgers = None if folded else console.reader.read(client.ledgers, name, LEDGERS, after=after)
    return "topic.html", {
        "topic": name,
        "stats": stats,
        "upcoming": upcoming,
        "ledgers": ledgers,
        "later": ledgers.value[-1].after if ledgers and ledgers.value and len(ledgers.value) == LEDGERS else None,
        "wheel": None if stats.value is None else picture(console, stats.value),
    }


def picture(console: Console, stats: TopicStats) -> dict[str, Any]:
    """Returns the values of the wheel's template."""
    now = console.now()
    lookahead_s = max(0.0, (stats.marks.sealed_until - now).total_seconds())
    due = stats.next_due_at
    return {
        "bars": wheel.bars(stats.by_due, now),
        "lookahead_s": lookahead_s,
        "lookahead_x": wheel.place(lookahead_s, stats.by_due),
        "next_at": due,
        "next_x": None if due is None else wheel.place((due - now).total_seconds(), stats.by_due),
        "in_queues": stats.in_flight,
        "sealed": stats.sealed,
    }


def recurring(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the rules of the recurring messages, with their next times, and their last."""
    topic = request.path_params["topic"]
    found = console.reader.read(console.client.recurring, topic)
    return "recurring.html", {"topic": topic, "found": found}
