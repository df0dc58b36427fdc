"""Creates schedules of slots. A schedule is a hint: the sweep finds the slots whose schedules are missing."""

from __future__ import annotations

from tidewheel.flows.ports import Ports
from tidewheel.model.settings import TopicSettings
from tidewheel.model.wheel import fires_at_ms
from tidewheel.storage.topic_states import AT_ONCE_MS

_ATTEMPTS = 10


def schedule(ports: Ports, topic: str, slot: int, settings: TopicSettings) -> bool:
    """Creates a slot's schedule. Returns False if the scheduler refused or did not answer.

    A schedule only makes a dispatch earlier, so a refusal never fails the caller. The caller does all its other work
    first. The topic state names the slot, and the sweep dispatches the topic at its next check.
    """
    try:
        ports.wheel.schedule(topic, slot, fires_at_ms(topic, slot, settings))
    except Exception:  # the function's telemetry has counted and logged it
        return False
    return True


def schedule_again(ports: Ports, topic: str) -> bool:
    """Creates the missing schedule of a next slot, and sets the next check. Returns False if the scheduler refused.

    A caller without access to schedules lowered the next slot. If it stops between the two, or the scheduler refuses,
    the next sweep does both again. The schedule is created even for a next slot that is due, because the sweep may have
    no dispatch left for the topic, or fail to start the dispatch.
    """
    for _ in range(_ATTEMPTS):
        state = ports.topic_states.read(topic)
        if state is None or state.next_check_ms != AT_ONCE_MS:
            return True
        if state.next_slot is not None and not schedule(ports, topic, state.next_slot, state.settings):
            return False
        if ports.topic_states.set_collect_at(
            state, state.collect_at_ms, state.check_at(state.next_slot, state.collect_at_ms)
        ):
            return True
    return True
