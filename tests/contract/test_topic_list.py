"""Tests the port TopicList, and reads of many topic states."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.builders import Store, a_state
from tests.contract.conftest import aws_store
from tidewheel.errors import ConcurrentModification
from tidewheel.storage.table import THROTTLED_ATTEMPTS


def test_names_are_read_in_their_order_and_the_mark_is_none_of_them(store: Store) -> None:
    topics = store.topic_list
    assert topics.read() == ([], False)
    topics.add(["zebra", "STATE", "a-1"])
    topics.mark()
    topics.mark()
    assert topics.read() == (["STATE", "a-1", "zebra"], True)
    topics.remove("STATE")
    topics.remove("nothing")
    topics.unmark()
    topics.unmark()
    assert topics.read() == (["a-1", "zebra"], False)
    assert store.topic_states.all() == []


def test_only_names_that_are_missing_are_listed_and_only_new_ones_cost_a_read(store: Store) -> None:
    topics = store.topic_list
    topics.add(["a", "b"])
    topics.add_missing(["b", "c"])
    assert topics.read()[0] == ["a", "b", "c"]
    table: Any = topics._table
    topics._table = None  # type: ignore[assignment]
    topics.add_missing(["a", "b", "c"])
    topics._table = table
    topics.remove("c")
    topics.add_missing(["c"])
    assert topics.read()[0] == ["a", "b", "c"]


def test_many_topic_states_are_read_by_name_without_those_that_are_absent_or_deleted(store: Store) -> None:
    states = {name: a_state(name) for name in (f"topic-{number:03d}" for number in range(130))}
    for state in states.values():
        assert store.topic_states.create(state)
    assert store.deletions.mark(states.pop("topic-007"), "g2", 5)
    found = store.topic_states.of(["nothing", "topic-007", *reversed(states)])
    assert found == [states[name] for name in sorted(states)]
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
