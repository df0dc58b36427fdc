"""Does daily work for each topic with objects, in portions that fit into a sweep's time.

A portion that reaches the end of its time notes how far it came, and the next sweep continues there. For 100,000
topics, at 40 ms each, a day's work is 67 portions: five and a half hours of sweeps every five minutes. If a portion
stops anywhere else, the next day's portion starts where this portion began.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, islice

from tidewheel.flows.ports import Ports
from tidewheel.model.object_names import topic_of
from tidewheel.storage.objects import StoredObject

PORTION_MS = 60_000
"""How long one sweep does daily work of one name. Two such portions, and as long for deletions, fit into a sweep's
time."""
_DAY_MS = 24 * 3600 * 1000
_BEHIND = "0"
"""The character behind the slash that ends a topic's name: names from this character on are those of later topics."""

Visit = Callable[[str, str, list[StoredObject]], None]
"""Does the work for a prefix such as LEDGERS, a topic, and the objects under both."""


def walk(
    ports: Ports,
    prefixes: Sequence[str],
    visit: Visit,
    after: str | None = None,
    time_left: Callable[[], bool] = lambda: True,
    *,
    most: int | None = None,
) -> str | None:
    """Visits each topic with objects under a prefix, one prefix after the other.

    Args:
        after: the result of an earlier walk over the same prefixes.
        time_left: asked after each visit.
        most: objects of one visit. A topic with more is visited several times. None: a topic is visited once.

    Returns:
        Where the walk stopped when its time ended; None if it came to the end.
    """
    begun = next((i for i, prefix in enumerate(prefixes) if after is not None and after.startswith(prefix)), 0)
    for prefix in prefixes[begun:]:
        behind = after if after is not None and after.startswith(prefix) else None
        # Names sort by topic, so memory holds the names of one topic only.
        for topic, listed in groupby(ports.objects.list(prefix, behind), key=lambda each: topic_of(each.name)):
            while some := list(islice(listed, most)):
                visit(prefix, topic, some)
                if not time_left():
                    return prefix + topic + _BEHIND if most is None or len(some) < most else some[-1].name
    return None


def walk_daily(
    ports: Ports,
    name: str,
    prefixes: Sequence[str],
    visit: Visit,
    ends_ms: int | None = None,
    *,
    most: int | None = None,
) -> dict[str, Exception] | None:
    """Scans the next portion of the daily walk.

    Returns None if today's walk is complete or already running. A failure of one topic does not delay the others.

    Args:
        ends_ms: when the portion ends, even before PORTION_MS.
        most: as for `walk`.

    Returns:
        Topic -> the error; the topic's work is tried again the next day.
    """
    now_ms = ports.clock.now_ms()
    claim = ports.checks.claim_daily(name, now_ms, now_ms + _DAY_MS)
    if claim is None:
        return None
    failures: dict[str, Exception] = {}
    portion_ends_ms = now_ms + PORTION_MS if ends_ms is None else min(now_ms + PORTION_MS, ends_ms)

    def guarded(prefix: str, topic: str, listed: list[StoredObject]) -> None:
        try:
            visit(prefix, topic, listed)
        except Exception as error:
            failures[topic] = error

    stopped = walk(ports, prefixes, guarded, claim.after, lambda: ports.clock.now_ms() < portion_ends_ms, most=most)
    if stopped is not None:
        ports.checks.put_off_daily(name, now_ms, stopped)
    elif claim.after is not None:
        ports.checks.put_off_daily(name, now_ms + _DAY_MS, None)
    return failures
