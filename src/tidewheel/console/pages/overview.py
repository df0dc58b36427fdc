"""The first screen, with problems, messages by hour, and topics; the findings of `health`; dead letters by cause."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.client.operations.dead_letters import MOST_LETTERS, grouped
from tidewheel.client.operations.health import Finding, Health, Problem
from tidewheel.console import wheel

if TYPE_CHECKING:
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
    health = Health(console.client.core.connection, 0)
    for each in found:
        health.find_in_stats(each)
    console.attention = count(health.findings)
    console.per_day = sum(hour.messages for each in sent for hour in (each.value or ())[-24:])
    return "overview.html", {
        "topics": topics,
        "names": names,
        "rows": list(zip(shown, stats, sent, strict=True)),
        "oldest": {name: each.value for name, each in zip(shown, oldest, strict=False)},
        "estimates": waiting,
        "later": shown[-1] if len(behind) > TOPICS else None,
        "hours": wheel.hours([each.value for each in sent if each.value], [each.by_hour for each in found]),
        "alerts": health.findings,
    }


def trouble(console: Console, _: Request) -> tuple[str, dict[str, Any]]:
    """Reads the findings of `health`, with their remedies."""
    findings = console.reader.read(console.client.health)
    if findings.value is not None:
        console.attention = count(findings.value)
    return "trouble.html", {"findings": findings}


def count(findings: Iterable[Finding]) -> int:
    """Counts the findings that need attention: a pause is somebody's wish."""
    return sum(each.problem is not Problem.PAUSED for each in findings)


def dead(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the counts of dead letters, and the letters where this takes none. Shows those of the look that led here.

    SQS shows a message only to who receives it. So a deployed stack's letters are counted, and looked at on demand. A
    local service's queues can be looked into.
    """
    topic, reader = request.path_params.get("topic", ""), console.reader
    topics = None if topic else reader.read(console.client.topics)
    names = [topic] if topics is None else sorted(each.name for each in topics.value or ())[:TOPICS]
    stats = reader.read_all(partial(console.client.stats, name) for name in names)
    counts = [(each.value.topic, it) for each in stats if each.value for it in each.value.subscriptions if it.dead]
    asked = request.query_params
    q = asked.get("q", "")
    result = console.results.get(asked.get("result"))
    letters = None if result is None else result.letters
    missing = [each for each in (topics, *stats) if each and each.missing]
    if console.local is not None:
        look = console.local.dead_letters
        most = 10 * MOST_LETTERS if q else MOST_LETTERS
        reads = reader.read_all(partial(look, name, it.name, most) for name, it in counts)
        missing += (each for each in reads if each.missing)
        letters = [letter for each in reads for letter in each.value or ()]
    return "dead.html", {
        "topic": topic,
        "missing": missing,
        "counts": counts,
        "everything": "all" in asked,
        "request_result": asked.get("result", ""),
        "dead": sum(it.dead for _, it in counts),
        "letters": letters,
        "q": q,
        "groups": grouped([it for it in letters or () if not q or q in (it.key, it.id, it.original_id)]),
    }
