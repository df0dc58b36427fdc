"""Updates the settings of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidewheel.clock import Clock
from tidewheel.errors import ConcurrentModification, InvalidValue
from tidewheel.model.setting import check_names, settings_of
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import TopicState
from tidewheel.storage.storage import Storage
from tidewheel.storage.topic_states import check_again_at

FIXED = tuple(name for name, declared in settings_of(TopicSettings).items() if declared.setting.fixed)
"""Ledgers, plans and cursors count in slots, and existing schedules depend on the lookahead."""
_ATTEMPTS = 50


def update_topic(storage: Storage, clock: Clock, topic: str, changes: Mapping[str, Any]) -> TopicState:
    """Changes some settings of a topic. Returns the topic state afterwards.

    If it stops after the settings: a shorter retention takes effect with the next collection that is due anyway.

    Args:
        changes: fields of TopicSettings and their new values; None where a field may be None.

    Raises:
        InvalidValue: there is no such setting, it cannot change, or the value is invalid; nothing was changed.
        UnknownTopic: there is no topic of this name.
        ConcurrentModification: other changes came first each time.
    """
    check_names(TopicSettings, changes, "a topic")
    for name, value in changes.items():
        if name in FIXED:
            advice = "this setting is fixed when a topic is created; create another topic with the new value"
            raise InvalidValue(name, value, advice)
    for _ in range(_ATTEMPTS):
        state = storage.topic_states.existing(topic)
        settings = replace(state.settings, **changes)
        if settings == state.settings:
            return state
        if storage.topic_states.update_settings(state, settings, clock.now_ms()):
            changed = replace(state, settings=settings)
            if settings.retention_ms < state.settings.retention_ms:
                _collect_now(storage, clock, topic)
            return changed
    raise ConcurrentModification("update", topic, _ATTEMPTS)


def _collect_now(storage: Storage, clock: Clock, topic: str) -> None:
    """Has the next dispatch or sweep collect. If another change comes first, the time of the collection stays."""
    state = storage.topic_states.read(topic)  # again: the change of the settings may have set the next check
    if state is not None:
        now_ms = clock.now_ms()
        storage.topic_states.set_collect_at(state, now_ms, check_again_at(state, now_ms))
