"""Dead letters are looked at where they are, with the reason for which a consumer gave up."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tidewheel import (
    Consumer,
    DeadLetter,
    InvalidValue,
    ReceivedMessage,
    RetryLater,
    Tidewheel,
    UnknownSubscription,
    Worker,
)
from tidewheel.client.operations.dead_letters import grouped
from tidewheel.client.receiving import MAX_RECEIVES
from tidewheel.client.worker.claiming import SPENT
from tidewheel.errors import QueueUnavailable
from tidewheel.local import MemoryTidewheel
from tidewheel.model.message import MAX_MESSAGE_BYTES

TOPIC = "orders"
NO_ROOM = "a consumer gave up, and the message had no room for the reason"


def topic(stack: MemoryTidewheel, **settings: Any) -> Tidewheel:
    client = stack.client()
    client.create_topic(TOPIC, **settings)
    client.create_subscription(TOPIC, "billing")
    return client


def buried(
    stack: MemoryTidewheel, client: Tidewheel, fail: Callable[[Consumer, ReceivedMessage], object], **sent: Any
) -> None:
    """Sends a message, and lets a consumer fail once."""
    client.send(TOPIC, sent.pop("body", "x"), **sent)
    stack.advance(seconds=2)
    consumer = Consumer(client, TOPIC, "billing", max_attempts=1)
    [message] = consumer.receive()
    fail(consumer, message)


def drained(stack: MemoryTidewheel, client: Tidewheel, function: Callable[[ReceivedMessage], None]) -> None:
    """Sends a message, and lets a worker try once."""
    client.send(TOPIC, "x")
    worker = Worker(client)
    worker.handles(f"{TOPIC}/billing", max_attempts=1)(function)
    stack.drain(worker, "2s")


def only(client: Tidewheel) -> DeadLetter:
    [found] = client.dead_letters(TOPIC, "billing")
    return found


def only_of(client: Tidewheel, body: str) -> DeadLetter:
    [found] = [each for each in client.dead_letters(TOPIC, "billing") if each.body == body]
    return found


def charge(consumer: Consumer, message: ReceivedMessage) -> None:
    try:
        raise ValueError("card 17 is expired")
    except ValueError:
        consumer.retry_later(message)


def test_a_dead_letter_is_shown_with_its_error_and_stays_where_it_is(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    buried(memory, client, charge, body={"id": 17}, attributes={"kind": "card"}, key="cart-17")
    before = only(client)
    found = only(client)
    assert (found.key, found.body, found.attributes) == ("cart-17", '{"id":17}', {"kind": "card"})
    assert (found.reason, found.sent_at) == ("ValueError: card 17 is expired", before.sent_at)
    assert found.receives > before.receives >= 1, "a look is a receive"
    client.redrive(TOPIC, "billing")
    memory.advance(seconds=1)
    [again] = client.receive(TOPIC, "billing")
    assert (again.id, again.body, again.key) == (found.id, found.body, "cart-17")
    assert client.dead_letters(TOPIC, "billing") == []


def test_the_local_runtime_looks_at_dead_letters_without_receiving_them(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    assert memory.dead_letters(TOPIC, "billing") == []
    for body in "ab":
        buried(memory, client, charge, body=body)
    found = memory.dead_letters(TOPIC, "billing")
    assert memory.dead_letters(TOPIC, "billing", 1) == found[:1] and memory.dead_letters(TOPIC, "billing") == found
    assert [(each.body, each.receives) for each in found] == [("b", 0), ("a", 0)]
    assert only_of(client, "a") == replace(found[1], receives=1)


def test_the_local_runtime_tells_where_in_its_queues_a_message_is(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.create_subscription(TOPIC, "mail")
    id = client.send(TOPIC, "x", delay=60).id
    memory.advance(seconds=10)
    assert memory.queued(TOPIC, id) == {"billing": "delayed", "mail": "delayed"}
    memory.advance(seconds=60)
    assert memory.queued(TOPIC, id) == {"billing": "receivable", "mail": "receivable"}
    [message] = client.receive(TOPIC, "mail")
    assert memory.queued(TOPIC, id)["mail"] == "in flight"
    client.delete(TOPIC, "mail", [message])
    assert memory.queued(TOPIC, id) == {"billing": "receivable"}
    for _ in range(MAX_RECEIVES + 1):
        client.receive(TOPIC, "billing")
        memory.advance(minutes=2)
    assert memory.queued(TOPIC, id) == {"billing": "dead letter"}


def test_what_sqs_moved_itself_has_no_reason(memory: MemoryTidewheel) -> None:
    client = topic(memory, claims="none")
    client.send(TOPIC, "x")
    for _ in range(6):
        memory.advance(minutes=2)
        client.receive(TOPIC, "billing")
    assert only(client).reason == "received 5 times, never finished: perhaps the process died"


def test_letters_of_all_topics_are_grouped_by_the_reason_without_its_numbers(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    client.create_subscription(TOPIC, "idle")
    client.create_topic("others")
    client.create_subscription("others", "mail")
    for number in (17, 18):
        buried(memory, client, failing(f"card {number} is expired"))
    buried(memory, client, failing("no such customer"))
    client.send("others", "x")
    memory.advance(minutes=1)
    Consumer(client, "others", "mail", max_attempts=1).retry_later(client.receive("others", "mail")[0])
    groups = grouped(client.dead_letters())
    assert [(each[0].topic, each[0].cause, len(each)) for each in groups] == [
        ("others", "the last of # attempts", 1),
        (TOPIC, "ValueError: no such customer", 1),
        (TOPIC, "ValueError: card # is expired", 2),
    ]
    assert groups[2][0].dead_at > groups[2][1].dead_at, "newest first"
    assert len(client.dead_letters(TOPIC)) == 3
    with pytest.raises(InvalidValue, match="name its topic too"):
        client.dead_letters(None, "billing")


def test_a_chosen_letter_or_a_group_is_redriven_or_deleted_and_the_others_stay(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    consumer = Consumer(client, TOPIC, "billing", max_attempts=2)
    client.send(TOPIC, "retried", attributes={"kind": "a"}, group="g")
    for _ in range(2):
        memory.advance(minutes=1)
        consumer.retry_later(*consumer.receive(), delay="1s")
    for number in range(12):
        buried(memory, client, failing(f"card {number}"), body=f"card {number}")
    chosen = only_of(client, "retried")
    assert client.redrive(TOPIC, "billing", ids=[chosen.id]).messages == 1
    [again] = client.receive(TOPIC, "billing")
    assert (again.id, again.original_id) == (chosen.id, chosen.original_id)
    assert (again.attempt, again.receive_count, again.group, again.attributes) == (0, 1, "g", {"kind": "a"})
    assert client.delete_dead_letters(TOPIC, "billing", ids=[only_of(client, "card 7").id, "unknown"]) == 1
    assert len(client.dead_letters(TOPIC, "billing", 100)) == 11, "the others can be seen at once"
    assert client.redrive(TOPIC, "billing", cause="ValueError: card #").messages == 11
    assert client.dead_letters(TOPIC, "billing") == []
    for given in ({}, {"ids": ["a"], "cause": "b"}, {"ids": "a"}):
        with pytest.raises(InvalidValue, match="ids="):
            client.delete_dead_letters(TOPIC, "billing", **given)


@pytest.mark.parametrize("broken", ["send_message", "delete_message", "change_message_visibility_batch"])
def test_a_redrive_that_stops_loses_nothing_and_makes_at_most_one_copy(
    memory: MemoryTidewheel, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = topic(memory)
    for number in range(5):
        buried(memory, client, failing(f"card {number}"), body=str(number))

    def refuse(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, broken)

    chosen = only_of(client, "3").id
    monkeypatch.setattr(client.core.connection.sqs, broken, refuse)
    with nullcontext() if broken.startswith("change") else pytest.raises(QueueUnavailable, match="stay"):
        client.redrive(TOPIC, "billing", ids=[chosen])
    monkeypatch.undo()
    memory.advance(minutes=3)
    client.redrive(TOPIC, "billing", cause="ValueError: card #")
    bodies = sorted(each.body for each in client.receive(TOPIC, "billing", max_messages=100))
    assert bodies == sorted([*"01234", *("3" if broken == "delete_message" else "")])


def failing(text: str) -> Callable[[Consumer, ReceivedMessage], object]:
    def fail(consumer: Consumer, message: ReceivedMessage) -> None:
        try:
            raise ValueError(text)
        except ValueError:
            consumer.retry_later(message)

    return fail


def test_as_many_letters_are_shown_as_asked_for_each_once(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    for i in range(25):
        buried(memory, client, charge, body=str(i))
    assert len(client.dead_letters(TOPIC, "billing")) == 10
    assert sorted(int(each.body) for each in client.dead_letters(TOPIC, "billing", 100)) == list(range(25))


@pytest.mark.parametrize("explicit", [True, False])
def test_a_wish_to_retry_stands_for_the_error_that_it_was_raised_for(memory: MemoryTidewheel, explicit: bool) -> None:
    def function(_: ReceivedMessage) -> None:
        try:
            raise KeyError("rate")
        except KeyError as cause:
            if explicit:
                raise RetryLater(delay="1h") from cause
            raise RetryLater(delay="1h")  # noqa: B904

    client = topic(memory)
    drained(memory, client, function)
    assert only(client).reason == "KeyError: 'rate'"


def test_without_an_error_the_reason_is_that_it_was_the_last_attempt(memory: MemoryTidewheel) -> None:
    def function(_: ReceivedMessage) -> None:
        raise RetryLater

    client = topic(memory)
    buried(memory, client, lambda consumer, message: consumer.retry_later(message))
    drained(memory, client, function)
    assert [each.reason for each in client.dead_letters(TOPIC, "billing")] == ["the last of 1 attempts"] * 2


@pytest.mark.parametrize("receive", ["client", "consumer"])
@pytest.mark.parametrize("claims", ["keyed", "all"])
def test_a_message_that_was_handed_out_too_often_says_so_claimed_or_not(
    memory: MemoryTidewheel, claims: str, receive: str
) -> None:
    client = topic(memory, claims=claims)
    consumer = Consumer(client, TOPIC, "billing")
    client.send(TOPIC, "x")
    for _ in range(MAX_RECEIVES + 1):
        assert not client.dead_letters(TOPIC, "billing")
        memory.advance(minutes=2)
        if receive == "client":
            client.receive(TOPIC, "billing")
        else:
            consumer.receive()
    assert only(client).reason == SPENT


def test_a_reason_is_cut_and_has_only_characters_that_sqs_takes(memory: MemoryTidewheel) -> None:
    def fail(consumer: Consumer, message: ReceivedMessage) -> None:
        try:
            raise ValueError("a\x00\n\ud800\uffff é" + "z" * 500)
        except ValueError:
            consumer.retry_later(message)

    client = topic(memory)
    buried(memory, client, fail)
    assert only(client).reason == "ValueError: a     é" + "z" * 181


def test_a_message_without_room_for_a_reason_goes_to_the_dead_letters_all_the_same(memory: MemoryTidewheel) -> None:
    def fail(consumer: Consumer, message: ReceivedMessage) -> None:
        try:
            raise ValueError("z" * 500)
        except ValueError:
            consumer.retry_later(message)

    client = topic(memory)
    for room in (0, 500):
        buried(memory, client, fail, body="x" * (MAX_MESSAGE_BYTES - room))
    shown = {MAX_MESSAGE_BYTES - len(each.body): each.reason for each in client.dead_letters(TOPIC, "billing")}
    assert shown == {0: NO_ROOM, 500: "ValueError: " + "z" * 188}


def test_a_look_that_cannot_be_is_refused(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    for n in (0, 101, "1", True):
        with pytest.raises(InvalidValue, match="n="):
            client.dead_letters(TOPIC, "billing", n)  # type: ignore[arg-type]
    with pytest.raises(UnknownSubscription):
        client.dead_letters(TOPIC, "audit")
    url = client.subscriptions(TOPIC)[0].queue_url
    memory.sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    with pytest.raises(InvalidValue, match="give it a RedrivePolicy"):
        client.dead_letters(TOPIC, "billing")


def test_a_letter_of_a_foreign_sender_is_skipped_and_a_strange_reason_is_none(memory: MemoryTidewheel) -> None:
    client = topic(memory)
    buried(memory, client, charge)
    dead_url = f"{client.subscriptions(TOPIC)[0].queue_url}-dead"
    [letter] = memory.queue(dead_url).everything
    header = json.loads(letter.message_attributes["tidewheel"]["StringValue"]) | {"why": 17}
    value = {"DataType": "String", "StringValue": json.dumps(header)}
    memory.sqs.purge_queue(QueueUrl=dead_url)
    memory.sqs.send_message(QueueUrl=dead_url, MessageBody="mine", MessageAttributes={"tidewheel": value})
    memory.sqs.send_message(QueueUrl=dead_url, MessageBody="foreign")
    assert (only(client).body, only(client).reason) == ("mine", NO_ROOM)
