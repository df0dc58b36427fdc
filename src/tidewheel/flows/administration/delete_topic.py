"""Deletes topics. A mark ends the topic for all callers, then the sweep deletes the rest.

    lives -> deleting: another generation, so that writes that are conditional on the old generation are refused ->
        forgotten

A function that read the topic state before the mark may still put an object, a schedule or an item. No function lives
longer than `MAX_FUNCTION_S`. So the topic state, which holds the name, is deleted last, after a pass that began later
than that. No item names the objects that a job puts even later, so the orphan sweep deletes them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from tidewheel.clock import Clock
from tidewheel.errors import ConcurrentModification, UnknownTopic
from tidewheel.flows.ports import Ports
from tidewheel.model.object_names import topic_prefixes
from tidewheel.model.settings import MAX_FUNCTION_S
from tidewheel.model.triggers import RETENTION_S
from tidewheel.storage.storage import Storage

LATE_MS = (MAX_FUNCTION_S + 60) * 1000
"""This long after the mark, no function that has not seen the mark is still running. Includes a minute for clocks that
differ."""
_CLAIM_MS = MAX_FUNCTION_S * 1000
_ATTEMPTS = 20
_A_DELETE = 1000


def delete_topic(storage: Storage, clock: Clock, topic: str) -> None:
    """Ends a topic. The sweep does the rest. Does nothing if the topic is being deleted already.

    If it stops before the mark, nothing was done; after the mark, the sweep continues.

    Raises:
        UnknownTopic: there is no topic of this name.
        ConcurrentModification: the topic was deleted and created again under each attempt.
    """
    for _ in range(_ATTEMPTS):
        state = storage.topic_states.read(topic)
        if state is None:
            if storage.deletions.read(topic) is None:
                raise UnknownTopic(topic)
            return
        if storage.deletions.mark(state, secrets.token_hex(8), clock.now_ms()):
            return
    raise ConcurrentModification("deletion", topic, _ATTEMPTS)


def finish_deletion(ports: Ports, topic: str, time_left: Callable[[], bool] = lambda: True) -> bool:
    """Deletes the rest of a topic that is being deleted. Returns True once the name is free.

    If it stops
        after the claim: the next sweep continues when the claim has run out.
        anywhere else: the next sweep finds less to do.

    Args:
        time_left: asked between pieces of about a second; when no time is left, the next sweep deletes the rest.
    """
    now_ms = ports.clock.now_ms()
    state = ports.deletions.read(topic)
    # One pass at a time: a slow pass must not meet a topic that was created again since.
    if state is None or state.next_check_ms is None or state.next_check_ms > now_ms:
        return False
    if not ports.deletions.claim(state, now_ms + _CLAIM_MS):
        return False
    claimed = replace(state, next_check_ms=now_ms + _CLAIM_MS)
    emptied = _empty(ports, topic, time_left)
    late_ms = (state.deleting_at_ms or 0) + LATE_MS
    if emptied and now_ms >= late_ms:
        ports.topic_list.remove(topic)  # before the name is free: a new topic of this name is listed anew
        return ports.deletions.forget(claimed, now_ms // 1000 + 2 * RETENTION_S)
    ports.deletions.claim(claimed, late_ms if emptied else now_ms)
    return False


def _empty(ports: Ports, topic: str, time_left: Callable[[], bool]) -> bool:
    """Deletes schedules, items and objects. Returns False if the time ran out."""
    ports.wheel.unschedule(topic)
    while not ports.deletions.delete_items(topic):
        if not time_left():
            return False
    for prefix in topic_prefixes(topic):
        names = (stored.name for stored in ports.objects.list(prefix))
        while chunk := list(islice(names, _A_DELETE)):
            ports.objects.delete(chunk)
            if not time_left():
                return False
    return True
