"""What a collection deletes while others plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidewheel.flows.upkeep import collect as collecting
from tidewheel.model.settings import TopicSettings


def test_a_plan_that_was_made_since_the_topic_state_was_read_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[int] = []
    monkeypatch.setattr(collecting, "delete_plan", lambda _ports, _topic, first_slot, _kept: deleted.append(first_slot))
    ports: Any = SimpleNamespace(
        plans=SimpleNamespace(ranges=lambda _: [(5, 10), (10, 16)]),
        tombstones=SimpleNamespace(delete_expired=lambda *_: None),
        objects=SimpleNamespace(delete=None),
        clock=SimpleNamespace(now_ms=lambda: 0),
    )
    state: Any = SimpleNamespace(topic="orders", collected_until=10, planned=10, settings=TopicSettings())
    collecting._delete(ports, state, [], [], set(), collecting.Collected())
    assert deleted == [5]
