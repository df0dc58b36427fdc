"""Bad input raises an error before any send. The error names the value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tidewheel import BufferedSender, Consumer, InvalidValue, Message, SendFailed, UnknownSubscription, UnknownTopic

AN_ID = "01KDVDNA00A000000000000000"

BAD_MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "delay of a wrong type": ({"delay": []}, "delay=[]"),
    "a delay that is text of no time": ({"delay": "soon"}, "delay='soon'"),
    "a negative delay": ({"delay": -5}, "delay=-5"),
    "a delay that is no number": ({"delay": float("nan")}, "delay=nan"),
    "a delay of true": ({"delay": True}, "delay=True"),
    "more than ten years": ({"delay": "600w"}, "delay='600w'"),
    "a naive time": ({"deliver_at": datetime(2026, 5, 1)}, "deliver_at=datetime.datetime(2026, 5, 1, 0, 0)"),
    "a time of a wrong type": ({"deliver_at": "tomorrow"}, "deliver_at='tomorrow'"),
    "both delay and deliver_at": ({"delay": 5, "deliver_at": 2_000_000_000}, "delay, deliver_at=(5, 2000000000)"),
    "both delay and delay_level": ({"delay": 5, "delay_level": 3}, "delay, delay_level=(5, 3)"),
    "a key of over 256 characters": ({"key": "k" * 257}, "key='kkk"),
    "a key with a control character": ({"key": "a\nb"}, r"key='a\nb'"),
    "an empty key": ({"key": ""}, "key=''"),
    "a key of a wrong type": ({"key": 17}, "key=17"),
    "replace without a key": ({"replace": True}, "replace=True"),
    "replace of a wrong type": ({"key": "a", "replace": "yes"}, "replace='yes'"),
    "ten attributes": ({"attributes": {f"a{n}": "x" for n in range(10)}}, "attributes=["),
    "an attribute that is no text": ({"attributes": {"a": 1}}, "attribute a=1"),
    "our own attribute": ({"attributes": {"tidewheel": "x"}}, "attribute name='tidewheel'"),
    "attributes of a wrong type": ({"attributes": [("a", "b")]}, "attributes=[("),
    "an empty body": ({"body": ""}, "body=''"),
    "a body that is no JSON": ({"body": {1, 2}}, "body={1, 2}"),
    "an expiry at once": ({"expires_in": 0}, "expires_in=0"),
    "an expiry in the past": ({"expires_in": -1}, "expires_in=-1"),
    "an expiry that is text of no time": ({"expires_in": "soon"}, "expires_in='soon'"),
    "an expiry of true": ({"expires_in": True}, "expires_in=True"),
    "a window of no length": ({"window": 0}, "window=0"),
    "a window below a second": ({"window": "999ms"}, "window='999ms'"),
    "a negative window": ({"window": -60}, "window=-60"),
    "a window of over a week": ({"window": "8d"}, "window='8d'"),
    "a window that is text of no time": ({"window": "quarter"}, "window='quarter'"),
    "a window of true": ({"window": True}, "window=True"),
    "a character that SQS refuses": ({"body": "a\x00b"}, r"body='a\x00b'"),
}


@pytest.mark.parametrize("what", BAD_MESSAGES)
def test_a_message_that_cannot_be_delivered_is_refused_before_anything_is_sent(topic: Topic, what: str) -> None:
    options, named = BAD_MESSAGES[what]
    options = {"body": "x"} | options
    body = options.pop("body")
    with topic.nothing_is_sent(), pytest.raises(InvalidValue) as caught:
        topic.send(body, **options)
    text = str(caught.value)
    assert text.startswith(named), text
    assert len(text.partition(": ")[2]) > 10, "it says what to do"
    with topic.nothing_is_sent(), BufferedSender(topic.client) as sender, pytest.raises(InvalidValue):
        sender.add(topic.name, body, **options)


def test_in_send_many_the_good_ones_go_and_each_bad_one_is_reported_with_its_index(topic: Topic) -> None:
    bad = [Message(**({"body": "x"} | options)) for options, _ in BAD_MESSAGES.values()]
    good = [Message(body=f"good {n}") for n in range(3)]
    with pytest.raises(SendFailed, match=r"message 1: delay=\[\]") as caught:
        topic.client.send_many(topic.name, [good[0], *bad, good[1], "no message", good[2]])  # type: ignore[list-item]
    failures, receipts = caught.value.failures, caught.value.receipts
    assert list(failures) == [*range(1, len(bad) + 1), len(bad) + 2]
    assert all(isinstance(each, InvalidValue) for each in failures.values())
    assert [index for index, each in enumerate(receipts) if each is not None] == [0, len(bad) + 1, len(bad) + 3]
    topic.advance(seconds=1)
    assert topic.bodies() == ["good 0", "good 1", "good 2"]


def test_an_empty_batch_is_refused_but_nothing_to_acknowledge_is_fine(topic: Topic) -> None:
    with topic.nothing_is_sent():
        with pytest.raises(InvalidValue, match=r"messages=\[\]: give at least one message"):
            topic.client.send_many(topic.name, [])
        with pytest.raises(InvalidValue, match=r"ids=\[\]: give at least one id"):
            topic.client.cancel_many(topic.name, [])
        topic.client.delete(topic.name, "billing", [])


@pytest.mark.parametrize("messages", [None, 7, "text", Message(body="x"), {"body": "x"}], ids=repr)
def test_what_is_no_list_of_messages_is_refused(topic: Topic, messages: Any) -> None:
    with topic.nothing_is_sent(), pytest.raises(InvalidValue, match="messages="):
        topic.client.send_many(topic.name, messages)


Call = Callable[[Topic], Any]
BAD_CALLS: dict[str, tuple[Call, str]] = {
    "create_topic, name": (lambda t: t.client.create_topic("no spaces"), "topic='no spaces'"),
    "create_topic, setting": (lambda t: t.client.create_topic("x", colour=7), "colour=7"),
    "create_topic, value": (lambda t: t.client.create_topic("x", slot_s=0), "slot_s=0"),
    "create_topic, too long": (lambda t: t.client.create_topic("x", lookahead_s=900), "slot_s, lookahead_s="),
    "update_topic, fixed": (lambda t: t.client.update_topic(t.name, slot_s=60), "slot_s=60"),
    "update_topic, unknown": (lambda t: t.client.update_topic(t.name, colour=7), "colour=7"),
    "update_topic, number": (lambda t: t.client.update_topic(t.name, retention_days=3651), "retention_days=3651"),
    "update_topic, type": (lambda t: t.client.update_topic(t.name, part_rows="many"), "part_rows='many'"),  # type: ignore[arg-type]
    "create_subscription, name": (lambda t: t.client.create_subscription(t.name, "a/b"), "subscription='a/b'"),
    "create_subscription, position": (
        lambda t: t.client.create_subscription(t.name, "x", initial_position="first"),  # type: ignore[arg-type]
        "initial_position='first'",
    ),
    "create_subscription, timeout": (
        lambda t: t.client.create_subscription(t.name, "x", visibility_timeout_s=-1),
        "visibility_timeout_s=-1",
    ),
    "create_subscription, longer than SQS takes": (
        lambda t: t.client.create_subscription(t.name, "x", visibility_timeout_s=43_201),
        "visibility_timeout_s=43201",
    ),
    "pause": (lambda t: t.client.pause(t.name, ""), "subscription=''"),
    "resume": (lambda t: t.client.resume(t.name, 7), "subscription=7"),  # type: ignore[arg-type]
    "delete_subscription": (lambda t: t.client.delete_subscription(t.name, "a b"), "subscription='a b'"),
    "cancel, nothing": (lambda t: t.client.cancel(t.name), "id, key=(None, None)"),
    "cancel, both": (lambda t: t.client.cancel(t.name, AN_ID, key="a"), "id, key=("),
    "cancel, no id": (lambda t: t.client.cancel(t.name, "no id"), "message id='no id'"),
    "cancel, key": (lambda t: t.client.cancel(t.name, key="k" * 257), "key='kkk"),
    "cancel_many, one id": (lambda t: t.client.cancel_many(t.name, AN_ID), "ids='01K"),
    "cancel_many, index": (lambda t: t.client.cancel_many(t.name, [AN_ID, "no id"]), "ids[1]='no id'"),
    "reschedule, no time": (lambda t: t.client.reschedule(t.name, AN_ID), "delay=None"),
    "reschedule, naive": (
        lambda t: t.client.reschedule(t.name, AN_ID, deliver_at=datetime(2026, 5, 1)),
        "deliver_at=datetime.datetime(2026, 5, 1, 0, 0)",
    ),
    "reschedule, both": (lambda t: t.client.reschedule(t.name, AN_ID, delay=1, delay_level=1), "delay, delay_level="),
    "get, no id": (lambda t: t.client.get(t.name, "no id"), "message id='no id'"),
    "peek, none": (lambda t: t.client.peek(t.name, 0), "n=0"),
    "peek, too many": (lambda t: t.client.peek(t.name, 1001), "n=1001"),
    "peek, text": (lambda t: t.client.peek(t.name, "3"), "n='3'"),  # type: ignore[arg-type]
    "peek, true": (lambda t: t.client.peek(t.name, True), "n=True"),
    "peek, after": (lambda t: t.client.peek(t.name, after="yesterday"), "after='yesterday'"),
    "ledgers, none": (lambda t: t.client.ledgers(t.name, 0), "n=0"),
    "ledgers, text": (lambda t: t.client.ledgers(t.name, "3"), "n='3'"),  # type: ignore[arg-type]
    "ledgers, after": (lambda t: t.client.ledgers(t.name, after="x"), "after='x'"),
    "purge, nothing": (lambda t: t.client.purge(t.name, start=t.stack.now(), end=t.stack.now()), "end="),
    "purge, naive": (lambda t: t.client.purge(t.name, start=datetime(2026, 5, 1)), "start=datetime.datetime(2026, 5"),
    "receive, number": (lambda t: t.client.receive(t.name, "billing", max_messages=0), "max_messages=0"),
    "receive, wait": (lambda t: t.client.receive(t.name, "billing", wait_s=21), "wait_s=21"),
    "delete": (lambda t: t.client.delete(t.name, "billing", ["x"]), "messages='x'"),  # type: ignore[list-item]
    "consumer": (lambda t: Consumer(t.client, t.name, "billing", max_attempts=0), "max_attempts=0"),
    "buffer": (lambda t: BufferedSender(t.client, max_messages=0), "max_messages=0"),
}


@pytest.mark.parametrize("what", BAD_CALLS)
def test_every_call_names_the_bad_value_and_says_what_to_do(topic: Topic, what: str) -> None:
    call, named = BAD_CALLS[what]
    with topic.nothing_is_sent(), pytest.raises(InvalidValue) as caught:
        call(topic)
    text = str(caught.value)
    assert text.startswith(named), text
    assert len(text.partition(": ")[2]) > 10, "it says what to do"


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.client.send("nobody", "x"),
        lambda t: t.client.send_many("nobody", [Message(body="x")]),
        lambda t: t.client.cancel("nobody", AN_ID),
        lambda t: t.client.reschedule("nobody", AN_ID, delay=1),
        lambda t: t.client.get("nobody", AN_ID),
        lambda t: t.client.peek("nobody"),
        lambda t: t.client.ledgers("nobody"),
        lambda t: t.client.purge("nobody"),
        lambda t: t.client.delete_topic("nobody"),
        lambda t: t.client.stats("nobody"),
        lambda t: t.client.subscriptions("nobody"),
        lambda t: t.client.update_topic("nobody", retention_days=1),
        lambda t: t.client.recurring("nobody"),
        lambda t: t.client.send_recurring("nobody", "k", "x", every="1h"),
    ],
)
def test_a_topic_that_does_not_exist_is_named(topic: Topic, call: Call) -> None:
    with topic.nothing_is_sent(), pytest.raises(UnknownTopic, match="'nobody' does not exist; create it"):
        call(topic)


@pytest.mark.parametrize("name", ["pause", "resume", "delete_subscription", "receive", "redrive", "replay"])
def test_a_subscription_that_does_not_exist_is_named(topic: Topic, name: str) -> None:
    with topic.nothing_is_sent(), pytest.raises(UnknownSubscription, match="no subscription 'nobody'; create it"):
        getattr(topic.client, name)(topic.name, "nobody")
