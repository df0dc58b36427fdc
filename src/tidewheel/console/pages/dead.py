"""The dead letters of a topic, or of all topics, by cause."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from tidewheel.client.operations.dead_letters import MOST_LETTERS, grouped
from tidewheel.console.pages.overview import TOPICS

if TYPE_CHECKING:
    from tidewheel.console.app import Console


def screen(console: Console, request: Request) -> tuple[str, dict[str, Any]]:
    """Reads the counts, and the letters where this takes none. Shows those of the look that led here.

    SQS shows a message only to who receives it. So a deployed stack's letters are counted, and looked at on demand. A
    local service's queues can be looked into.
    """
    topic, reader = request.path_params.get("topic", ""), console.reader
    topics = None if topic else reader.read(console.client.topics)
    names = [topic] if topics is None else sorted(each.name for each in topics.value or ())[:TOPICS]
    stats = reader.read_all(partial(console.client.stats, name) for name in names)
    counts = [(each.value.topic, it) for each in stats if each.value for it in each.value.subscriptions if it.dead]
    asked = request.query_params
    result = console.results.get(asked.get("result"))
    letters = None if result is None else result.letters
    missing = [each for each in (topics, *stats) if each and each.missing]
    if console.local is not None:
        look = console.local.dead_letters
        reads = reader.read_all(partial(look, name, it.name, MOST_LETTERS) for name, it in counts)
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
        "groups": grouped(letters or ()),
    }
