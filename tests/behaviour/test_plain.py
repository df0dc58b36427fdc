"""Tests plain messages: what any program sends with SQS alone, by attributes or as an envelope."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tests.simulation.faults import SkewedClock
from tidewheel.model.plain import PREFIX


def attributes(**values: str) -> dict[str, Any]:
    return {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}


def send(topic: Topic, body: str, *, bulk: bool = False, group: str | None = None, **wishes: str) -> str:
    """Sends a plain message by attributes. Names with two underscores have a dot. Returns SQS's id."""
    named = {PREFIX + name: value for name, value in ({"topic": topic.name} | wishes).items() if value}
    return send_raw(topic, body, attributes(**named), bulk=bulk, group=group)


def send_raw(topic: Topic, body: str, given: Any = None, *, bulk: bool = False, group: str | None = None) -> str:
    more = {} if group is None else {"MessageGroupId": group}
    answer = topic.sqs.send_message(
        QueueUrl=topic.ingest_urls()[bulk], MessageBody=body, MessageAttributes=given or {}, **more
    )
    return str(answer["MessageId"])


def envelope(topic: Topic, messages: list[Any] | None = None, **rest: Any) -> str:
    shared = {"topic": topic.name} | rest.pop("shared", {})
    return json.dumps({"tidewheel": shared, **rest} | ({} if messages is None else {"messages": messages}))


def refused(topic: Topic) -> list[dict[str, Any]]:
    """Takes all documents of refused messages."""
    url = topic.client.core.connection.settings.refused_queue_url
    found = []
    while answer := topic.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for each in answer:
            found.append(json.loads(each["Body"]))
            topic.sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
    return found


@pytest.mark.parametrize("delay", ["0", "90s", "20m", "3d 4h", "31536000"])
def test_a_plain_message_comes_when_it_is_due_and_not_before(topic: Topic, delay: str) -> None:
    start = topic.stack.now()
    given = attributes(kind="new") | {"size": {"DataType": "Number", "StringValue": "3.5"}}
    named = attributes(**{"tidewheel.topic": topic.name, "tidewheel.delay": delay})
    send_raw(topic, "<order/>", given | named, group="tenant-7")
    wanted = {"0": 0, "90s": 90, "20m": 1200, "3d 4h": 273_600, "31536000": 31_536_000}[delay]
    topic.advance(seconds=wanted + 2)
    [message] = topic.take()
    assert (message.deliver_at - start).total_seconds() == wanted
    assert message.visible_at is not None and message.visible_at - message.deliver_at < timedelta(seconds=2)
    assert (message.body, message.attributes, message.group) == ("<order/>", {"kind": "new", "size": "3.5"}, "tenant-7")


@pytest.mark.parametrize("delay", ["20m", "7d"])
def test_plain_messages_of_five_minutes_share_one_ledger(topic: Topic, delay: str) -> None:
    for i in range(20):
        send(topic, f"{i}", delay=delay)
        topic.advance(seconds=10)
    topic.advance(seconds=301)
    stats = topic.client.stats(topic.name)
    assert (stats.buckets, stats.waiting) == (1, 20)
    topic.advance(days=8)
    assert len(topic.bodies()) == 20


@pytest.mark.story
def test_an_envelope_has_many_messages_with_their_own_options(topic: Topic) -> None:
    start = topic.stack.now()
    messages = [
        {"body": {"id": 1}, "attributes": {"kind": "new", "n": 7}, "group": "a"},
        {"body": "text", "deliver_at": (start + timedelta(hours=2)).isoformat()},
        {"body": [1, 2], "delay": 30},
    ]
    send_raw(topic, envelope(topic, messages, shared={"delay": "1h", "group": "b"}))
    topic.advance(hours=3)
    found = sorted(topic.take(), key=lambda each: each.deliver_at)
    assert [(each.body, (each.deliver_at - start).total_seconds(), each.group) for each in found] == [
        ("[1,2]", 30, "b"),
        ('{"id":1}', 3600, "a"),
        ("text", 7200, "b"),
    ]
    assert found[1].attributes == {"kind": "new", "n": "7"} and found[1].json() == {"id": 1}


def test_a_bad_message_of_an_envelope_is_refused_alone_with_its_reason(topic: Topic) -> None:
    messages: list[Any] = [{"body": str(i)} for i in range(1000)]
    messages[17] = {"body": "17", "delay": "tomorrow"}
    messages[400] = {"body": "400", "dealy": "1h"}
    send_raw(topic, envelope(topic, messages))
    topic.advance(seconds=2)
    assert len(topic.bodies()) == 998
    [document] = refused(topic)
    parts = json.loads(document["body"])
    assert [(each["place"], each["message"]) for each in parts] == [(17, messages[17]), (400, messages[400])]
    assert "delay='tomorrow'" in parts[0]["reason"] and "name='dealy'" in parts[1]["reason"]
    topic.stack.failures.clear()


def test_an_envelope_that_comes_again_for_hours_is_refused_once(topic: Topic) -> None:
    name = f"{topic.name}-later"[-48:].strip("-")
    message = {"tidewheel": {"topic": name}, "messages": [{"body": "good"}, {"body": "bad", "delay": "soon"}]}
    send_raw(topic, json.dumps(message))
    topic.advance(hours=2)
    topic.stack.failures.clear()
    assert refused(topic) == []
    later = Topic(topic.stack, name)
    topic.advance(minutes=5)
    assert later.bodies() == ["good"]
    [document] = refused(topic)
    assert "delay='soon'" in document["reason"]
    topic.stack.failures.clear()


def test_a_thousand_cancels_in_one_envelope_are_done(topic: Topic) -> None:
    send_raw(topic, envelope(topic, [{"body": "x", "key": str(i), "delay": "3h"} for i in range(1000)]))
    topic.advance(minutes=6)
    send_raw(topic, envelope(topic, [{"key": str(i), "cancel": True} for i in range(1000)]))
    topic.advance(hours=4)
    assert topic.bodies() == []


@pytest.mark.parametrize(
    ("body", "given", "reason"),
    [
        ("x", {}, "name the topic"),
        ("x", {"tidewheel.topic": "T", "tidewheel.delay": "soon"}, "delay='soon'"),
        ("x", {"tidewheel.topic": "T", "tidewheel.dely": "1h"}, "tidewheel.dely"),
        ("x", {"tidewheel.topic": "T", "kind": "a", "Kind": "b"}, "differ"),
        ("x", {"tidewheel.topic": "T", "data": b"\x00"}, "Binary"),
        ('{"Type": "Notification", "TopicArn": "arn", "Message": "x"}', {}, "RawMessageDelivery"),
        ('{"tidewheel": {"topic": "T"}}', {}, "body"),
        ('{"tidewheel": ' + "[" * 100_000, {}, "nested"),
    ],
)
def test_a_bad_message_is_refused_with_its_value_and_delays_no_other(
    topic: Topic, body: str, given: dict[str, Any], reason: str
) -> None:
    named = {
        name: {"DataType": "Binary", "BinaryValue": value}
        if isinstance(value, bytes)
        else {"DataType": "String", "StringValue": topic.name if value == "T" else value}
        for name, value in given.items()
    }
    body = body.replace('"T"', f'"{topic.name}"')
    send(topic, "good")
    send_raw(topic, body, named)
    topic.advance(seconds=2)
    assert topic.bodies() == ["good"]
    [document] = refused(topic)
    assert reason in document["reason"], document["reason"]
    assert document["body"] == body and document["attributes"].keys() == named.keys()
    topic.stack.failures.clear()


def test_a_trace_travels_as_given_and_a_tracers_binary_attribute_is_dropped(topic: Topic) -> None:
    given = attributes(**{"tidewheel.topic": topic.name, "traceparent": "00-1-2-01"})
    given["_datadog"] = {"DataType": "Binary", "BinaryValue": b"{}"}
    send_raw(topic, "x", given)
    topic.advance(seconds=2)
    [message] = topic.take()
    assert message.attributes == {"traceparent": "00-1-2-01"}


@pytest.mark.parametrize("way", ["attributes", "envelope", "SDK"])
def test_an_expiry_of_a_past_time_counts_from_the_sending(topic: Topic, way: str) -> None:
    wishes: dict[str, Any] = {"deliver_at": "2020-01-01T00:00:00Z", "expires_in": "10m"}
    if way == "attributes":
        send(topic, "x", **wishes)
    elif way == "envelope":
        send_raw(topic, envelope(topic, [{"body": "x"}], shared=wishes))
    else:
        topic.send("x", deliver_at=datetime(2020, 1, 1, tzinfo=UTC), expires_in="10m")
    sent = topic.stack.now()
    topic.advance(seconds=2)
    [message] = topic.take()
    assert message.expires_at == sent + timedelta(minutes=10)


# ---- keys
def test_shared_options_of_an_envelope_refuse_no_cancel_beside_a_replacement(topic: Topic) -> None:
    topic.send_and_store("old", delay="2h", key="k")
    messages = [{"key": "k", "cancel": True}, {"body": "new", "key": "k"}, {"body": "no key"}]
    shared = {"delay": "3h", "replace": True, "max_wait": "4h", "expires_in": "1h", "window": "1m"}
    send_raw(topic, envelope(topic, messages, shared=shared))
    topic.advance(hours=4)
    assert topic.bodies() == ["new", "no key"]


def test_a_later_plain_message_replaces_an_earlier_one(topic: Topic) -> None:
    for body in ("old", "new"):
        send(topic, body, delay="40m", key="cart-17", replace="true")
        topic.advance(minutes=1)
    send(topic, "dropped", delay="40m", key="cart-17")
    topic.advance(hours=2)
    assert topic.bodies() == ["new"]


@pytest.mark.parametrize("delay", ["20m", "3h"])
@pytest.mark.parametrize("ingested", [False, True])
def test_a_plain_cancel_stops_what_was_sent_before_it(topic: Topic, delay: str, ingested: bool) -> None:
    topic.send("by the SDK", delay=delay, key="a")
    send(topic, "plain", delay=delay, key="b")
    topic.advance(seconds=310 if ingested else 0.005)
    for key in ("a", "b"):
        send(topic, "-", key=key, cancel="true")
    topic.advance(hours=4)
    assert topic.bodies() == []


def test_an_envelope_can_cancel_and_send_anew_in_its_order(topic: Topic) -> None:
    send(topic, "old", delay="40m", key="a")
    topic.advance(minutes=1)
    send_raw(topic, envelope(topic, [{"key": "a", "cancel": True}, {"body": "new", "key": "a", "delay": "40m"}]))
    topic.advance(hours=2)
    assert topic.bodies() == ["new"]


# ---- topics that come and go
def test_a_message_that_was_sent_before_its_topic_was_deleted_is_refused(topic: Topic) -> None:
    other = topic.another("deleted")
    message = attributes(**{"tidewheel.topic": other.name})
    other.client.delete_topic(other.name)
    topic.advance(minutes=30)
    send_raw(topic, "taken, since the topic comes within four hours", message)
    topic.advance(minutes=1)
    topic.stack.failures.clear()
    other.client.create_topic(other.name)
    other.client.create_subscription(other.name, "billing")
    topic.advance(minutes=5)
    assert other.bodies() == ["taken, since the topic comes within four hours"]
    topic.stack.failures.clear()


def test_a_plain_message_of_an_unknown_topic_waits_four_hours_for_it_and_is_then_refused(topic: Topic) -> None:
    send_raw(topic, "x", attributes(**{"tidewheel.topic": "unknown"}))
    topic.advance(hours=5)
    [document] = refused(topic)
    assert "topic 'unknown' does not exist" in document["reason"]
    topic.stack.failures.clear()


def test_a_refused_message_is_listed_and_comes_by_a_redrive_with_its_first_id_and_time(topic: Topic) -> None:
    name = f"{topic.name}-later"[-48:].strip("-")
    start = topic.stack.now()
    named = attributes(**{"tidewheel.topic": name, "tidewheel.delay": "10h", "tidewheel.key": "k", "kind": "new"})
    id = send_raw(topic, "x", named, group="tenant-7")
    topic.advance(hours=5)
    [found] = topic.client.refused()
    assert (found.sqs_message_id, found.body, found.attributes["kind"]) == (id, "x", "new")
    assert "does not exist" in found.reason and found.sent_at is not None
    assert topic.client.refused() == [found], "it stays"
    topic.stack.failures.clear()
    later = Topic(topic.stack, name)
    assert sum(each.messages for each in topic.client.redrive_service()) == 1
    topic.advance(hours=6)
    [message] = later.take()
    assert message.deliver_at - start == timedelta(hours=10)
    assert (message.sent_at - start, message.attributes, message.group, message.key) == (
        timedelta(),
        {"kind": "new"},
        "tenant-7",
        "k",
    )
    assert topic.client.refused() == []


def test_a_redrive_brings_nothing_back_that_was_sent_before_its_topic_was_deleted(topic: Topic) -> None:
    first = topic.another("gone")
    send(first, "old", delay="10h", bulk=True)
    topic.advance(seconds=1)
    first.client.delete_topic(first.name)
    topic.advance(hours=5)
    topic.stack.failures.clear()
    again = Topic(topic.stack, first.name)
    send(again, "new", delay="1h")
    assert [each.body for each in topic.client.refused()] == ["old"]
    assert sum(each.messages for each in topic.client.redrive_service()) == 0
    topic.advance(hours=11)
    assert again.bodies() == ["new"]
    assert [each.body for each in topic.client.refused()] == ["old"]
    refused(topic)
    topic.stack.failures.clear()


def test_a_redrive_of_an_envelope_cancels_what_it_cancels(topic: Topic) -> None:
    name = f"{topic.name}-later"[-48:].strip("-")
    message = {"tidewheel": {"topic": name}, "messages": [{"key": "k", "cancel": True}, {"body": "x", "delay": "9h"}]}
    send_raw(topic, json.dumps(message))
    topic.advance(hours=5)
    topic.stack.failures.clear()
    later = Topic(topic.stack, name)
    later.client.core.clock = SkewedClock(topic.stack.clock, -6 * 3_600_000)  # sent before the envelope
    later.send("cancelled", deliver_at=topic.stack.now() + timedelta(hours=3), key="k")
    topic.advance(seconds=301)
    assert sum(each.messages for each in topic.client.redrive_service()) == 1
    topic.advance(hours=5)
    assert later.bodies() == ["x"]


def test_no_filter_sees_what_tracing_adds(topic: Topic) -> None:
    policy = {"kind": [{"exists": False}], "traceparent": [{"exists": False}]}
    topic.client.create_subscription(topic.name, "untraced", filter_policy=policy)
    for more in ({}, {"traceparent": "00-1-2-01"}):
        send_raw(topic, "x", attributes(**{"tidewheel.topic": topic.name, "size": "3", **more}))
    topic.advance(seconds=2)
    assert topic.bodies("untraced") == ["x", "x"]


def test_a_redrive_leaves_what_can_still_not_be_read(topic: Topic) -> None:
    send(topic, "x", delay="soon")
    send_raw(topic, envelope(topic, [{"body": "a"}, {"body": "b", "delay": "soon"}]))
    topic.advance(seconds=2)
    assert topic.bodies() == ["a"]
    assert sum(each.messages for each in topic.client.redrive_service()) == 0
    assert len(topic.client.refused()) == 2
    refused(topic)
    topic.stack.failures.clear()
