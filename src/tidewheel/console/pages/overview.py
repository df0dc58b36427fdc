"""The first screen, with the waiting messages of all topics, and the findings of `health`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.console import wheel

if TYPE_CHECKING:
    from tidewheel.client.operations.stats import TopicStats
    from tidewheel.console.app import Console

TOPICS = 20
"""Topics a page. The stats of others are not read."""


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the topics' names, and the stats of those in view."""
    topics = console.reader.read(console.client.topics)
    names = sorted(each.name for each in topics.value or ())
    after = request.query_params.get("after", "")
    behind = [name for name in names if name > after]
    shown = behind[:TOPICS]
    stats = console.reader.read_all(partial(console.client.stats, name) for name in shown)
    found = [each.value for each in stats if each.value is not None]
    waiting = {each.name: None if each.problem else each.waiting for each in topics.value or ()}
    return "overview.html", {
        "topics": topics,
        "names": names,
        "rows": list(zip(shown, stats, strict=True)),
        "estimates": waiting,
        "later": shown[-1] if len(behind) > TOPICS else None,
        "wheel": picture(console, found),
        "late": [(each.topic, it) for each in found for it in each.subscriptions if it.late_since is not None],
        "paused": [(each.topic, it) for each in found for it in each.subscriptions if it.state == "PAUSED"],
        "dead": sum(each.dead for each in found),
        "damaged": sum(each.damaged + each.unreadable for each in found),
    }


def trouble(console: Console, _: Request) -> tuple[str, dict[str, Any]]:
    """Reads the findings of `health`, with their remedies."""
    return "trouble.html", {"findings": console.reader.read(console.client.health)}


def picture(console: Console, found: list[TopicStats]) -> dict[str, Any] | None:
    """Returns the values of the wheel's template, for the stats of some topics."""
    if not found:
        return None
    now = console.now()
    together = wheel.together([each.by_due for each in found])
    due = min((each.next_due_at for each in found if each.next_due_at is not None), default=None)
    sealed = max(each.marks.sealed_until for each in found)
    lookahead_s = max(0.0, (sealed - now).total_seconds())
    return {
        "bars": wheel.bars(together, now),
        "lookahead_s": lookahead_s,
        "lookahead_x": wheel.place(lookahead_s, together),
        "next_at": due,
        "next_x": None if due is None else wheel.place((due - now).total_seconds(), together),
        "in_queues": sum(each.in_flight for each in found),
        "sealed": sum(each.sealed for each in found),
        "topic": found[0].topic if len(found) == 1 else None,
    }
