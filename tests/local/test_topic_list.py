"""Topics are listed by a query, beside clients, functions and policies of releases that know no list."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.local.conftest import Stack
from tidewheel import Tidewheel
from tidewheel.flows.administration.subscribe import create_topic
from tidewheel.flows.upkeep.sweep import sweep
from tidewheel.local import LocalTidewheel, MemoryTidewheel
from tidewheel.memory import MemoryService
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.storage.storage import Storage


def storage_of(client: Tidewheel) -> Storage:
    return client.core.connection.storage


def names(client: Tidewheel) -> list[str]:
    return [each.name for each in client.topics()]


def listed(client: Tidewheel) -> tuple[list[str], bool]:
    return storage_of(client).topic_list.read()


def created_earlier(stack: Stack, *topics: str) -> None:
    """Creates topics as a client of an earlier release does, which lists none."""
    for topic in topics:
        state = new_topic_state(topic, f"g-{topic}", TopicSettings(), stack.clock.now_ms())
        assert storage_of(stack.client()).topic_states.create(state)


def of_a_new_process(memory: MemoryTidewheel) -> None:
    """Lets the functions begin as in a process of their own."""
    memory.service.topic_list.checked = False
    memory.service.topic_list._known.clear()


def no_scan(monkeypatch: pytest.MonkeyPatch, client: Tidewheel) -> None:
    monkeypatch.setattr(storage_of(client).topic_states, "all", lambda: 1 / 0)


def denied(*_: Any, **__: Any) -> Any:
    raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not you"}}, "Any")


# ---- a new stack


def test_topics_are_listed_at_once_and_by_a_query_once_a_sweep_has_run(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = stack.client()
    for name in ("orders", "carts"):
        client.create_topic(name)
        assert name in names(client)
    assert listed(client) == (["carts", "orders"], False)
    client.create_subscription("orders", "billing")
    stack.advance(minutes=6)
    client.topics()
    no_scan(monkeypatch, client)
    client.create_topic("mails", slot_s=60)
    client.update_topic("carts", max_buckets=33)
    found = {each.name: each.settings for each in client.topics()}
    assert list(found) == ["carts", "mails", "orders"]
    assert (found["mails"].slot_s, found["carts"].max_buckets) == (60, 33)


def test_the_first_sweep_of_a_new_table_marks_the_list(memory: MemoryTidewheel) -> None:
    client = memory.client()
    client.create_topic("orders")
    sweep(memory.service)
    assert listed(client) == (["orders"], True)


def test_a_deleted_topic_is_not_listed_and_neither_is_a_name_without_a_topic(stack: Stack) -> None:
    client = stack.client()
    for name in ("orders", "carts"):
        client.create_topic(name)
    client.create_subscription("orders", "billing")
    stack.advance(minutes=6)
    client.topics()
    storage_of(client).topic_list.add(["nothing"])
    client.delete_topic("orders")
    assert names(client) == ["carts"]
    stack.advance(minutes=20)
    assert listed(client) == (["carts", "nothing"], True)
    client.create_topic("orders")
    assert names(client) == ["carts", "orders"]


def test_a_list_of_topics_costs_a_query_and_a_read_a_hundred_topics() -> None:
    with LocalTidewheel() as stack:
        client = stack.client()
        for number in range(101):
            create_topic(storage_of(client), stack.clock, f"t-{number}", TopicSettings())
        stack.advance(minutes=6)
        client.topics()
        before = Counter(stack.requests)
        assert len(client.topics()) == 101
        assert Counter(stack.requests) - before == {"dynamodb.Query": 1, "dynamodb.BatchGetItem": 2}


# ---- earlier releases


def upgraded(memory: MemoryTidewheel, *topics: str) -> Tidewheel:
    """Returns a client of a stack whose functions were of an earlier release until now."""
    created_earlier(memory, *topics)
    memory.service.checks.claim_daily("ORPHANS", memory.clock.now_ms(), memory.clock.now_ms() + 86_400_000)
    return memory.client()


def test_after_an_upgrade_the_first_listing_after_a_sweep_reads_the_table_and_completes_the_list(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = upgraded(memory, "a", "b")
    client.create_topic("c")
    assert names(client) == ["a", "b", "c"]
    assert listed(client) == (["c"], False), "functions of an earlier release keep no list"
    sweep(memory.service)
    assert listed(client) == (["c"], False), "the sweep cannot know the others"
    assert names(client) == ["a", "b", "c"]
    assert listed(client) == (["a", "b", "c"], True)
    no_scan(monkeypatch, client)
    assert names(client) == ["a", "b", "c"]


def test_a_topic_of_an_earlier_client_is_listed_once_it_has_a_subscription(stack: Stack) -> None:
    client = stack.client()
    client.create_topic("orders")
    client.create_subscription("orders", "billing")
    stack.advance(minutes=6)
    client.topics()
    created_earlier(stack, "earlier")
    assert names(client) == ["orders"]
    client.create_subscription("earlier", "billing")
    stack.advance(minutes=6)
    assert names(client) == ["earlier", "orders"]


def test_topics_that_were_created_while_an_earlier_release_ran_are_found_after_the_next_upgrade(
    memory: MemoryTidewheel,
) -> None:
    client = memory.client()
    client.create_topic("orders")
    sweep(memory.service)
    assert listed(client)[1]
    memory.clock.advance_ms(7_200_000)
    created_earlier(memory, "meanwhile")
    of_a_new_process(memory)
    sweep(memory.service)
    assert listed(client) == (["orders"], False)
    assert names(client) == ["meanwhile", "orders"] and listed(client)[1]
    memory.clock.advance_ms(1_800_000)
    of_a_new_process(memory)
    sweep(memory.service)
    assert listed(client)[1], "sweeps of half an hour may be missing"


# ---- policies


def test_with_a_policy_that_does_not_allow_the_list_topics_are_listed_as_before(
    memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = upgraded(memory, "a")
    sweep(memory.service)
    storage = storage_of(client)
    with monkeypatch.context() as policy:
        policy.setattr(storage.topic_list, "add", denied)
        client.create_topic("b")
        assert names(client) == ["a", "b"]
    with monkeypatch.context() as policy:
        policy.setattr(storage.topic_list, "mark", denied)
        assert names(client) == ["a", "b"] and not listed(client)[1]
    with monkeypatch.context() as policy:
        policy.setattr(storage.checks, "swept_at_ms", denied)
        assert names(client) == ["a", "b"] and not listed(client)[1]
    assert names(client) == ["a", "b"] and listed(client)[1]
    for method, port in (("of", storage.topic_states), ("read", storage.topic_list)):
        with monkeypatch.context() as policy:
            policy.setattr(port, method, denied)
            assert names(client) == ["a", "b"]


def test_an_error_other_than_a_denial_is_told(memory: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch) -> None:
    def throttled(*_: Any) -> Any:
        raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slowly"}}, "Any")

    client = memory.client()
    monkeypatch.setattr(storage_of(client).topic_list, "add", throttled)
    with pytest.raises(ClientError, match="slowly"):
        client.create_topic("orders")
    assert memory.service.topic_states.read("orders") is None, "it is listed first"


def test_a_topic_is_listed_before_it_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryTidewheel()
    service: MemoryService = memory.service
    seen: list[list[str]] = []
    create = service.topic_states.create

    def creating(state: Any) -> bool:
        seen.append(service.topic_list.read()[0])
        return create(state)

    monkeypatch.setattr(service.topic_states, "create", creating)
    memory.client().create_topic("orders")
    assert seen == [["orders"]]
