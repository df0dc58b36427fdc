"""Tests positions, pause and resume, deletion and filters (point 5), and existing queues (point 14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import AlreadyExists, InvalidValue, QueueUnavailable, UnknownSubscription


def test_latest_is_what_is_not_sealed_yet_and_earliest_is_all_that_is_kept(topic: Topic) -> None:
    kept = topic.another("kept", retention_days=1)
    kept.send("past", delay="2h")
    kept.send("to come", delay="6h")
    kept.advance(hours=3)
    assert kept.bodies() == ["past"]
    kept.client.create_subscription(kept.name, "new", initial_position="latest")
    kept.client.create_subscription(kept.name, "all", initial_position="earliest")
    kept.advance(hours=4)
    assert (kept.bodies("new"), kept.bodies("all")) == (["to come"], ["past", "to come"])
    assert kept.bodies() == ["to come"]


@pytest.mark.parametrize("delay", [30, "8m", "30m", "2h"])
@pytest.mark.story
def test_nothing_new_enters_a_paused_queue_short_delays_included_and_nothing_is_lost(topic: Topic, delay: str) -> None:
    topic.client.create_subscription(topic.name, "audit")
    topic.client.pause(topic.name, "billing")
    topic.send("sent in the pause", delay=delay)
    topic.advance(hours=3)
    assert topic.everything_in(topic.queue_url()) == []
    assert topic.bodies("audit") == ["sent in the pause"]
    topic.client.resume(topic.name, "billing")
    topic.advance(seconds=30)
    assert topic.bodies() == ["sent in the pause"]
    topic.send("after it", delay=5)
    topic.advance(seconds=6)
    assert topic.bodies() == ["after it"]


def test_what_waited_in_ledgers_when_it_was_paused_comes_when_it_is_resumed(topic: Topic) -> None:
    topic.send_and_store("waited", delay="2h")
    topic.client.pause(topic.name, "billing")
    topic.advance(hours=3)
    assert topic.take() == []
    [line] = topic.client.stats(topic.name).subscriptions
    assert (line.state.value, line.lag_slots > 0) == ("PAUSED", True)
    topic.client.resume(topic.name, "billing")
    topic.advance(seconds=30)
    assert topic.bodies() == ["waited"]


def test_pause_and_resume_twice_are_harmless(topic: Topic) -> None:
    states = [topic.client.pause(topic.name, "billing").state.value for _ in range(2)]
    states += [topic.client.resume(topic.name, "billing").state.value for _ in range(2)]
    assert states == ["PAUSED", "PAUSED", "ACTIVE", "ACTIVE"]
    topic.send("x")
    topic.advance(seconds=1)
    assert topic.bodies() == ["x"]


def test_a_deleted_subscriptions_work_ends_and_others_are_untouched(topic: Topic) -> None:
    topic.client.create_subscription(topic.name, "audit")
    topic.client.pause(topic.name, "audit")
    topic.send("short", delay=60)
    topic.send("long", delay="2h")
    topic.advance(minutes=10)
    url = topic.queue_url("audit")
    topic.client.delete_subscription(topic.name, "audit")
    topic.advance(hours=3)
    assert topic.everything_in(url) == []
    assert topic.bodies() == ["long", "short"]
    assert [each.name for each in topic.client.subscriptions(topic.name)] == ["billing"]
    with pytest.raises(UnknownSubscription, match="audit"):
        topic.client.receive(topic.name, "audit")
    topic.advance(hours=2)
    assert topic.objects("parked/") == []


def test_its_queues_go_with_a_subscription_if_that_is_asked_for(topic: Topic) -> None:
    url = topic.queue_url()
    topic.client.delete_subscription(topic.name, "billing", delete_queue=True)
    found = topic.sqs.list_queues(QueueNamePrefix=url.rpartition("/")[2]).get("QueueUrls", [])
    assert found == []


FILTERS: dict[str, tuple[Any, set[str]]] = {
    "exact": ({"color": ["red", "green"]}, {"red", "green"}),
    "prefix": ({"color": [{"prefix": "gr"}]}, {"green", "grey"}),
    "anything but": ({"color": [{"anything-but": ["red"]}]}, {"green", "grey", "sized"}),
    "numeric": ({"size": [{"numeric": [">", 10, "<=", 20]}]}, {"sized"}),
    "exists": ({"color": [{"exists": False}]}, {"plain"}),
    "two names": ({"color": ["blue"], "size": [{"exists": True}]}, {"sized"}),
}
SENT: dict[str, dict[str, str]] = {
    "red": {"color": "red"},
    "green": {"color": "green"},
    "grey": {"color": "grey"},
    "sized": {"color": "blue", "size": "20"},
    "plain": {"shape": "round"},
}


@pytest.mark.parametrize("form", FILTERS)
def test_a_filter_in_snss_syntax_decides_by_attributes_what_a_subscription_gets(topic: Topic, form: str) -> None:
    policy, expected = FILTERS[form]
    topic.client.create_subscription(topic.name, "as-text", filter_policy=json.dumps(policy))
    topic.client.set_filter(topic.name, "billing", policy)
    topic.client.create_subscription(topic.name, "all")
    for delay in (60, "2h"):
        for name, attributes in SENT.items():
            topic.send(name, delay=delay, attributes=attributes)
    topic.advance(hours=2, seconds=2)
    assert topic.bodies() == topic.bodies("as-text") == sorted([*expected] * 2)
    assert topic.bodies("all") == sorted([*SENT] * 2)


@pytest.mark.parametrize("policy", ["no json", "[]", "{}", {}, {"color": "red"}, {"color": [{"like": "x"}]}, 7])
def test_a_filter_that_is_none_is_refused_and_nothing_is_made(topic: Topic, policy: Any) -> None:
    with topic.nothing_is_sent(), pytest.raises(InvalidValue, match="filter"):
        topic.client.create_subscription(topic.name, "audit", filter_policy=policy)
    with topic.nothing_is_sent(), pytest.raises(InvalidValue, match="filter"):
        topic.client.set_filter(topic.name, "billing", policy)
    assert [each.name for each in topic.client.subscriptions(topic.name)] == ["billing"]


def test_a_subscription_may_name_a_standard_queue_that_exists(topic: Topic) -> None:
    url = topic.sqs.create_queue(QueueName=f"mine-{topic.name}"[:80])["QueueUrl"]
    topic.client.create_subscription(topic.name, "mine", queue_url=url)
    topic.send("x", delay="2h")
    topic.advance(hours=2, seconds=2)
    assert [each.body for each in topic.everything_in(url)] == ["x"]
    topic.client.delete_subscription(topic.name, "mine", delete_queue=True)
    assert len(topic.everything_in(url)) == 1, "a queue that Tidewheel did not make stays"


def test_a_fifo_queue_is_refused_with_the_reason(topic: Topic) -> None:
    url = topic.queue_url() + ".fifo"
    with topic.nothing_is_sent(), pytest.raises(InvalidValue, match="FIFO queues take no delay for a single message"):
        topic.client.create_subscription(topic.name, "mine", queue_url=url)


def test_a_queue_that_does_not_exist_and_a_subscription_that_does_are_said(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidewheel.client.operations.subscription_queues.sleep", lambda seconds: None)
    with pytest.raises(QueueUnavailable, match="nobody"):
        topic.client.create_subscription(topic.name, "mine", queue_url=topic.queue_url() + "-nobody")
    with pytest.raises(AlreadyExists):
        topic.client.create_subscription(topic.name, "billing", filter_policy={"color": ["red"]})
