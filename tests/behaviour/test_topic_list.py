"""Topics are listed by a query."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tidewheel import Tidewheel
from tidewheel.flows.administration.subscribe import create_topic
from tidewheel.local import LocalTidewheel, MemoryTidewheel
from tidewheel.model.settings import TopicSettings
from tidewheel.storage.storage import Storage


def storage_of(client: Tidewheel) -> Storage:
    return client.core.connection.storage


def names(client: Tidewheel) -> list[str]:
    return [each.name for each in client.topics()]


def test_topics_are_listed_at_once_with_their_settings(memory: MemoryTidewheel) -> None:
    client = memory.client()
    client.create_topic("orders")
    client.create_topic("mails", slot_s=60)
    client.create_topic("carts")
    client.update_topic("carts", max_buckets=33)
    found = {each.name: each.settings for each in client.topics()}
    assert list(found) == ["carts", "mails", "orders"]
    assert (found["mails"].slot_s, found["carts"].max_buckets) == (60, 33)


def test_a_deleted_topic_is_not_listed_and_neither_is_a_name_without_a_topic(memory: MemoryTidewheel) -> None:
    client = memory.client()
    for name in ("orders", "carts"):
        client.create_topic(name)
    client.create_subscription("orders", "billing")
    storage_of(client).topic_list.add("nothing")
    client.delete_topic("orders")
    assert names(client) == ["carts"]
    memory.advance(minutes=25)
    assert storage_of(client).topic_list.read() == ["carts", "nothing"]
    client.create_topic("orders")
    assert names(client) == ["carts", "orders"]


def test_a_list_of_topics_costs_a_query_and_a_read_a_hundred_topics() -> None:
    with LocalTidewheel() as stack:
        client = stack.client()
        for number in range(101):
            create_topic(storage_of(client), stack.clock, f"t-{number}", TopicSettings())
        before = Counter(stack.requests)
        assert len(client.topics()) == 101
        assert Counter(stack.requests) - before == {"dynamodb.Query": 1, "dynamodb.BatchGetItem": 2}


def test_a_topic_that_cannot_be_listed_is_not_created(memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not you"}}, "Any")

    client = memory.client()
    monkeypatch.setattr(storage_of(client).topic_list, "add", denied)
    with pytest.raises(ClientError, match="not you"):
        client.create_topic("orders")
    assert memory.service.topic_states.read("orders") is None
