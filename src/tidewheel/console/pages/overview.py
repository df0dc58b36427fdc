"""The first screen: problems, sent and due messages, and the topics; and the findings of `health`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.client.operations.health import Problem
from tidewheel.console import wheel

if TYPE_CHECKING:
    from tidewheel.client.operations.stats import TopicStats
    from tidewheel.console.app import Console

TOPICS = 20
"""Topics a page. The stats of others are not read."""


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the topics' names, and the stats and sent messages of those in view."""
    topics = console.reader.read(console.client.topics)
    names = sorted(each.name for each in topics.value or ())
    after = request.query_params.get("after", "")
    behind = [name for name in names if name > after]
    shown = behind[:TOPICS]
    stats = console.reader.read_all(partial(console.client.stats, name) for name in shown)
    sent = console.sent_by_hour(shown)
    found = [each.value for each in stats if each.value is not None]
    waiting = {each.name: None if each.problem else each.waiting for each in topics.value or ()}
    oldest = console.reader.read_all(partial(console.local.oldest, name) for name in shown) if console.local else []
    alerts = [alert for each in found for alert in attention(each)]
    console.attention = sum(level != "paused" for level, *_ in alerts)
    return "overview.html", {
        "topics": topics,
        "names": names,
        "rows": list(zip(shown, stats, sent, strict=True)),
        "oldest": {name: each.value for name, each in zip(shown, oldest, strict=False)},
        "estimates": waiting,
        "later": shown[-1] if len(behind) > TOPICS else None,
        "hours": wheel.hours([each.value for each in sent if each.value], [each.by_hour for each in found]),
        "alerts": alerts,
    }


def attention(stats: TopicStats) -> list[tuple[str, str, str, str, Any]]:
    """Returns the problems of a topic, as level, address below the topic, place, words and since when."""
    found: list[tuple[str, str, str, str, Any]] = []
    for each in stats.subscriptions:
        where = f"{stats.topic}/{each.name}"
        if each.state == "PAUSED":
            words = f"is paused. Due messages that wait for it: about {each.late:,}"
            found.append(("paused", "", where, words, each.late_since))
        elif each.state == "BROKEN":
            words = f"is broken: its queue is gone or refuses messages, and {each.parked:,} are parked"
            found.append(("bad", "", where, words, each.late_since))
        elif each.late_since is not None:
            words = f"is late: its queue should have about {each.late:,} messages more"
            found.append(("bad", "", where, words, each.late_since))
        if each.queue_error is not None and each.state != "BROKEN":
            found.append(("bad", "", where, "has a queue that cannot be read", None))
        if each.dead:
            found.append(("bad", "/dead", where, f"has {each.dead:,} dead letters", None))
    if not stats.subscriptions and stats.waiting:
        words = f"has no subscription: nobody gets the messages that wait, about {stats.waiting:,}"
        found.append(("bad", "", stats.topic, words, None))
    if lost := stats.damaged + stats.unreadable:
        found.append(("bad", "", stats.topic, f"has {lost:,} parts of ledgers or items that cannot be read", None))
    return found


def trouble(console: Console, _: Request) -> tuple[str, dict[str, Any]]:
    """Reads the findings of `health`, with their remedies."""
    findings = console.reader.read(console.client.health)
    if findings.value is not None:
        console.attention = sum(each.problem is not Problem.PAUSED for each in findings.value)
    return "trouble.html", {"findings": findings}
