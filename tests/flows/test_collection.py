"""A collection's deletions while other processes plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidewheel.flows.maintenance import collect as collecting
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import ALL_SEALED


def deleted_plans(monkeypatch: pytest.MonkeyPatch, ranges: list[tuple[int, int]], planned: int) -> list[int]:
    """Collects a topic with plans in these ranges up to `planned`. Returns the first slots of the deleted plans."""
    deleted: list[int] = []
    monkeypatch.setattr(collecting, "delete_plan", lambda _ports, _topic, first_slot, _kept: deleted.append(first_slot))
    ports: Any = SimpleNamespace(
        merges=SimpleNamespace(last_trash=lambda _: None),
        objects=SimpleNamespace(delete=None),
        clock=SimpleNamespace(now_ms=lambda: 0),
    )
    state: Any = SimpleNamespace(topic="orders", collected_until=planned, planned=planned, settings=TopicSettings())
    collecting._delete(ports, state, [], ranges, [], [], collecting.Collected())
    return deleted


def test_a_plan_that_was_made_since_the_topic_state_was_read_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert deleted_plans(monkeypatch, [(5, 10), (10, 16)], planned=10) == [5]


def test_a_last_plan_whose_end_cannot_be_read_goes_when_everything_planned_is_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert deleted_plans(monkeypatch, [(5, 10), (10, ALL_SEALED)], planned=16) == [5, 10]
