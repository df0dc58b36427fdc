"""Tests the port TopicList, and reads of many topic states."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.builders import Store, a_state
from tests.contract.conftest import aws_store
from tidewheel.errors import ConcurrentModification
from tidewheel.storage.table import THROTTLED_ATTEMPTS


def test_many_topic_states_are_read_by_name_without_those_that_are_absent_or_deleted(store: Store) -> None:
    names = [f"topic-{number:03d}" for number in range(130)]  # of more than DynamoDB takes in a request, a few exist
    states = {name: a_state(name) for name in names[::11]}
    for state in states.values():
        assert store.topic_states.create(state)
    assert store.deletions.mark(states.pop("topic-011"), "g2", 5)
    assert store.topic_states.of(names[::-1]) == [states[name] for name in sorted(states)]
    assert store.topic_states.of([]) == []


def test_a_batch_that_dynamodb_left_in_part_is_read_on_and_not_for_ever(
    dynamodb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = aws_store(dynamodb)
    for name in "abc":
        store.topic_states.create(a_state(name))
    table: Any = store.topic_states._table
    monkeypatch.setattr(table, "_sleep", lambda _: None)
    read, asked = table._client.batch_get_item, []

    def first_only(*, RequestItems: dict[str, Any]) -> Any:
        [(name, part)] = RequestItems.items()
        asked.append(len(part["Keys"]))
        answer = read(RequestItems={name: {**part, "Keys": part["Keys"][:1]}})
        left = {"UnprocessedKeys": {name: {"Keys": part["Keys"][1:]}}} if len(part["Keys"]) > 1 else {}
        return {**answer, **left}

    monkeypatch.setattr(table._client, "batch_get_item", first_only)
    assert [state.topic for state in store.topic_states.of("abc")] == list("abc")
    assert asked == [3, 2, 1]

    def none(*, RequestItems: dict[str, Any]) -> Any:
        asked.append(0)
        return {"Responses": {}, "UnprocessedKeys": RequestItems}

    asked.clear()
    monkeypatch.setattr(table._client, "batch_get_item", none)
    with pytest.raises(ConcurrentModification):
        store.topic_states.of("abc")
    assert len(asked) == THROTTLED_ATTEMPTS
