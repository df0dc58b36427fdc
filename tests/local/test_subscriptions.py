"""Subscriptions through the client, with pause, resume, filters, deletion and broken queues, in memory and on moto."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tidewheel import AlreadyExists, InvalidValue, UnknownSubscription, UnknownTopic
from tidewheel.local import LocalTidewheel, MemoryTidewheel
from tidewheel.model.subscription_state import State

_numbers = itertools.count()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTidewheel]:
    with LocalTidewheel(start="2026-01-01T00:00:00Z") as stack:
        yield stack


@pytest.fixture(params=["memory", "aws"])
def stack(request: pytest.FixtureRequest) -> Any:
    return MemoryTidewheel() if request.param == "memory" else request.getfixturevalue("local")


@pytest.fixture
def topic(stack: Any) -> str:
    name = f"orders-{next(_numbers)}"
    stack.client().create_topic(name)
    return name


def received(stack: Any, topic: str, name: str) -> list[str]:
    return sorted(message.body for message in stack.receive(topic, name))


def parked(stack: Any, topic: str) -> dict[str, int]:
    return {each.name: each.parked for each in stack.client().stats(topic).subscriptions}


def queue_name(stack: Any, topic: str, name: str) -> str:
    url = next(each.queue_url for each in stack.client().subscriptions(topic) if each.name == name)
    return str(url.rpartition("/")[2])


def sqs_of(stack: Any) -> Any:
    return stack.sqs if isinstance(stack, MemoryTidewheel) else stack.session.client("sqs")


def queues(stack: Any) -> set[str]:
    return {url.rpartition("/")[2] for url in sqs_of(stack).list_queues().get("QueueUrls", [])}


def test_nothing_arrives_while_a_subscription_is_paused_and_all_of_it_when_it_is_resumed(
    stack: Any, topic: str
) -> None:
    client = stack.client()
    for name in ("billing", "audit"):
        client.create_subscription(topic, name)
    assert client.pause(topic, "billing").state is State.PAUSED
    client.pause(topic, "billing")
    for delay in ("10s", "2h", "3d"):
        client.send(topic, delay, delay=delay)
    stack.advance(days=1)
    assert received(stack, topic, "billing") == []
    assert received(stack, topic, "audit") == ["10s", "2h"]
    assert parked(stack, topic) == {"billing": 1, "audit": 0}
    assert client.resume(topic, "billing").state is State.ACTIVE
    client.resume(topic, "billing")
    stack.advance(seconds=5)
    assert received(stack, topic, "billing") == ["10s", "2h"]
    assert parked(stack, topic) == {"billing": 0, "audit": 0}
    stack.advance(days=3)
    assert received(stack, topic, "billing") == received(stack, topic, "audit") == ["3d"]


def test_a_queue_that_was_gone_gets_everything_once_it_is_back(stack: Any, topic: str) -> None:
    client = stack.client()
    for name in ("billing", "audit"):
        client.create_subscription(topic, name)
    sqs, name = sqs_of(stack), queue_name(stack, topic, "audit")
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    sqs.delete_queue(QueueUrl=url)
    for delay in ("10s", "2h"):
        client.send(topic, delay, delay=delay)
    stack.advance(hours=3)
    assert {each.name: each.state for each in client.subscriptions(topic)} == {
        "audit": State.BROKEN,
        "billing": State.ACTIVE,
    }
    assert received(stack, topic, "billing") == ["10s", "2h"]
    assert parked(stack, topic) == {"billing": 0, "audit": 2}
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == url
    stack.advance(minutes=10)
    assert received(stack, topic, "audit") == ["10s", "2h"]
    assert {each.state for each in client.subscriptions(topic)} == {State.ACTIVE}
    forget_failures(stack)


def forget_failures(stack: Any) -> None:
    """The stack is used by other tests, too."""
    stack.failures.clear()


def test_a_filter_takes_what_matches_and_can_be_changed(stack: Any, topic: str) -> None:
    client = stack.client()
    client.create_subscription(topic, "all")
    made = client.create_subscription(topic, "red", filter_policy={"color": ["red"]})
    assert made.filter_policy == '{"color":["red"]}'
    assert client.create_subscription(topic, "red", filter_policy='{"color": ["red"]}') == made
    assert client.create_subscription(topic, "red") == made
    with pytest.raises(AlreadyExists, match="filter"):
        client.create_subscription(topic, "red", filter_policy={"color": ["blue"]})
    for delay in ("10s", "2h"):
        client.send(topic, f"red {delay}", delay=delay, attributes={"color": "red"})
        client.send(topic, f"blue {delay}", delay=delay, attributes={"color": "blue"})
        client.send(topic, f"plain {delay}", delay=delay)
    stack.advance(hours=3)
    assert received(stack, topic, "red") == ["red 10s", "red 2h"]
    assert len(received(stack, topic, "all")) == 6
    assert client.set_filter(topic, "red", {"color": [{"anything-but": "red"}]}).filter_policy is not None
    client.send(topic, "blue", delay="1h", attributes={"color": "blue"})
    client.send(topic, "red", delay="1h", attributes={"color": "red"})
    stack.advance(hours=2)
    assert received(stack, topic, "red") == ["blue"]
    assert client.set_filter(topic, "red", None).filter_policy is None


def test_what_is_no_filter_is_refused_before_anything_is_made(stack: Any, topic: str) -> None:
    client = stack.client()
    for bad in ("no json", {}, {"color": "red"}, {"color": [{"unknown": 1}]}, 7):
        with pytest.raises(InvalidValue, match="filter_policy"):
            client.create_subscription(topic, "billing", filter_policy=bad)
    assert client.subscriptions(topic) == [] and not {name for name in queues(stack) if topic in name}


def test_a_deleted_subscription_is_gone_and_the_others_get_theirs(stack: Any, topic: str) -> None:
    client = stack.client()
    for name in ("billing", "audit"):
        client.create_subscription(topic, name)
    client.send(topic, "later", delay="2h")
    name = queue_name(stack, topic, "audit")
    deleted = client.delete_subscription(topic, "audit")
    assert deleted.name == "audit" and [each.name for each in client.subscriptions(topic)] == ["billing"]
    with pytest.raises(UnknownSubscription, match="audit"):
        client.delete_subscription(topic, "audit")
    with pytest.raises(UnknownSubscription, match="audit"):
        client.receive(topic, "audit")
    assert {name, f"{name}-dead"} <= queues(stack)
    stack.advance(hours=3)
    assert received(stack, topic, "billing") == ["later"]


def test_its_queues_go_too_if_they_were_made_for_it(stack: Any, topic: str) -> None:
    client, sqs = stack.client(), sqs_of(stack)
    client.create_subscription(topic, "billing")
    own = queue_name(stack, topic, "billing")
    given = sqs.create_queue(QueueName=f"{topic}-mine")["QueueUrl"]
    client.create_subscription(topic, "audit", queue_url=given)
    for name in ("billing", "audit"):
        client.delete_subscription(topic, name, delete_queue=True)
    assert not {own, f"{own}-dead"} & queues(stack)
    assert f"{topic}-mine" in queues(stack)


def test_unknown_and_impossible_names_are_said(stack: Any, topic: str) -> None:
    client = stack.client()
    for call in (client.pause, client.resume, client.delete_subscription, lambda *a: client.set_filter(*a, None)):
        with pytest.raises(UnknownSubscription, match="nobody"):
            call(topic, "nobody")
        with pytest.raises(UnknownTopic, match="nowhere"):
            call("nowhere", "billing")
        with pytest.raises(InvalidValue, match="subscription"):
            call(topic, "no name")


def test_who_may_not_send_to_the_work_queue_resumes_with_the_next_sweep(stack: Any, topic: str) -> None:
    client = stack.client()
    client.create_subscription(topic, "billing")
    client.pause(topic, "billing")
    client.send(topic, "soon", delay="10s")
    stack.advance(minutes=1)
    connection = client.core.connection
    gone = connection.settings.work_queue_url + "-of-another"
    connection._made["settings"] = replace(connection.settings, work_queue_url=gone)
    client.resume(topic, "billing")
    stack.advance(minutes=6)
    assert received(stack, topic, "billing") == ["soon"]
