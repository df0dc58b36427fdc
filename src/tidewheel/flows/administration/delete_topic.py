"""Delete a topic: one mark ends it for everybody, and the sweep takes away what is left of it.

    lives -> deleting: another generation, so that whatever is conditional on the old one is refused -> forgotten

A function that has read the topic state before may still put an object, a schedule or an item. None lives longer than
`MAX_FUNCTION_S`, so the topic state, which holds the name, goes last, after a pass that began later than that. What a
job puts even later, nothing names: the orphan sweep deletes it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from tidewheel.clock import Clock
from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.flows.ports import Ports, Topics, topic_prefixes
from tidewheel.model.settings import MAX_FUNCTION_S
from tidewheel.model.topic_state import TopicState

LATE_MS = (MAX_FUNCTION_S + 60) * 1000
"""After the mark, no function that has not seen it is at work any more; a minute for clocks that differ."""
_CLAIM_MS = MAX_FUNCTION_S * 1000
_ATTEMPTS = 20
_A_DELETE = 1000


def delete_topic(topics: Topics, clock: Clock, topic: str) -> None:
    """Ends a topic; the sweep does the rest. One that is being deleted already is fine.

    If it stops before the mark, nothing was done; after it, the sweep goes on.

    Raises:
        UnknownTopic: there is none of this name.
        Contended: the topic was deleted and created again under each attempt.
    """
    for _ in range(_ATTEMPTS):
        state = topics.state(topic)
        if state is None:
            if topics.deletion(topic) is None:
                raise UnknownTopic(topic)
            return
        if topics.mark_deleting(state, secrets.token_hex(8), clock.now_ms()):
            return
    raise ConcurrentModification("deletion", topic, _ATTEMPTS)


def finish_deletion(ports: Ports, topic: str, time_left: Callable[[], bool] = lambda: True) -> bool:
    """Takes away what is left of a topic that is being deleted; returns whether all of it is gone, its name too.

    If it stops
        after the claim: the next sweep goes on when that has run out.
        anywhere else: the next sweep finds less to do.

    Args:
        time_left: asked between pieces of a second or so; what is left when there is none, the next sweep takes away.
    """
    now_ms = ports.clock.now_ms()
    state = ports.topics.deletion(topic)
    # One at a time: a slow pass must not meet a topic that was created again since.
    if state is None or state.next_check_ms is None or state.next_check_ms > now_ms:
        return False
    if not ports.topics.claim_deletion(state, now_ms + _CLAIM_MS):
        return False
    claimed = replace(state, next_check_ms=now_ms + _CLAIM_MS)
    emptied = _empty(ports, topic, time_left)
    late_ms = _began_ms(state) + LATE_MS
    if emptied and now_ms >= late_ms:
        return ports.topics.forget_topic(claimed)
    ports.topics.claim_deletion(claimed, late_ms if emptied else now_ms)
    return False


def _began_ms(state: TopicState) -> int:
    return state.deleting_at_ms or 0


def _empty(ports: Ports, topic: str, time_left: Callable[[], bool]) -> bool:
    """Deletes schedules, items and objects; returns whether it came to the end."""
    ports.wheel.disarm(topic)
    while not ports.topics.delete_items(topic):
        if not time_left():
            return False
    for prefix in topic_prefixes(topic):
        names = (stored.name for stored in ports.objects.list(prefix))
        for chunk in _chunks(names):
            ports.objects.delete(chunk)
            if not time_left():
                return False
    return True


def _chunks(names: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(names, _A_DELETE)):
        yield chunk
