"""Tests topics whose messages can be cancelled until a consumer has them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.behaviour.topic import Topic
from tidewheel import Cancelled, ClaimFailed, Consumer, MessageState, QueueUnavailable, ReceivedMessage, TooLate, Worker
from tidewheel.client import receiving
from tidewheel.client.worker import serving


@pytest.fixture
def orders(topic: Topic) -> Topic:
    """A topic with claims and two subscriptions."""
    return topic.another("claims", "billing", "audit", claims="all")


def sealed(orders: Topic, body: Any = "x", **options: Any) -> str:
    """Sends a message, and waits until its slot is sealed and its copies are in the queues, not yet due."""
    receipt = orders.send_and_store(body, delay="1h", **options)
    orders.advance(minutes=53)
    assert len(orders.everything_in(orders.queue_url())) >= 1
    return str(receipt.id)


def test_a_message_in_the_queues_is_cancelled_and_nobody_gets_it(orders: Topic) -> None:
    message = sealed(orders)
    assert orders.client.cancel(orders.name, message) == Cancelled(id=message)
    orders.advance(minutes=10)
    assert (orders.bodies("billing"), orders.bodies("audit")) == ([], [])
    assert orders.everything_in(orders.queue_url("billing")) == []
    status = orders.client.get(orders.name, message)
    assert (status.state, status.cancelled_late, status.claimed_by) == (MessageState.CANCELLED, True, ())


def test_a_message_that_a_consumer_has_is_not_cancelled_and_the_answer_names_the_consumer(orders: Topic) -> None:
    message = sealed(orders)
    orders.advance(minutes=10)
    assert orders.bodies("billing") == ["x"]
    too_late = TooLate(id=message, subscriptions=("billing",))
    assert orders.client.cancel(orders.name, message) == too_late
    assert orders.client.reschedule(orders.name, message, delay="1h") == too_late
    assert orders.client.get(orders.name, message).claimed_by == ("billing",)
    assert orders.bodies("audit") == ["x"]


def test_a_replacement_stops_the_older_message_for_those_that_do_not_have_it(orders: Topic) -> None:
    sealed(orders, "older", key="k")
    orders.advance(minutes=9)
    assert orders.bodies("billing") == ["older"]
    orders.send("newer", key="k", replace=True, delay="30m")
    orders.advance(minutes=1)
    assert orders.bodies("audit") == []
    orders.advance(hours=1)
    assert (orders.bodies("billing"), orders.bodies("audit")) == (["newer"], ["newer"])


def test_a_message_whose_consumer_died_comes_again_under_the_same_claim(orders: Topic) -> None:
    message = sealed(orders)
    orders.advance(minutes=9)
    [first] = orders.client.receive(orders.name, "billing")
    orders.advance(minutes=2)  # the visibility time-out
    [again] = orders.client.receive(orders.name, "billing")
    assert first.id == again.id == message
    assert not orders.client.cancel(orders.name, message)


def one_of_two_is_cancelled(orders: Topic) -> Consumer:
    """Sends "x", which is cancelled late, and "kept". Returns a consumer when both are due."""
    message = sealed(orders)
    sealed(orders, "kept")
    orders.client.cancel(orders.name, message)
    orders.advance(minutes=10)
    return Consumer(orders.client, orders.name, "billing")


def test_a_consumer_counts_what_was_cancelled(orders: Topic) -> None:
    consumer = one_of_two_is_cancelled(orders)
    assert [each.body for each in consumer.receive()] == ["kept"]
    assert consumer.counts.cancelled == 1


def test_a_decoded_message_is_claimed_by_hand(orders: Topic) -> None:
    consumer = one_of_two_is_cancelled(orders)
    raw = orders.sqs.receive_message(
        QueueUrl=orders.queue_url(), MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )["Messages"]
    found = {each.body: consumer.claim(each) for each in map(consumer.decode, raw)}
    assert found == {"x": False, "kept": True}


def worker_of(orders: Topic, function: Callable[[ReceivedMessage], object]) -> Worker:
    worker = Worker(orders.client, wait_s=0)
    worker.handles(f"{orders.name}/billing", at_once=2, retry=None)(function)
    return worker


def failing(orders: Topic, monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
    """Makes the next claims fail."""
    claims, left = orders.client.core.connection.storage.claims, list(errors)
    claim = claims.claim

    def asked(*given: Any) -> Any:
        if left:
            raise left.pop()
        return claim(*given)

    monkeypatch.setattr(claims, "claim", asked)


def test_while_a_claim_gets_no_answer_a_worker_keeps_the_message_and_receives_nothing(
    orders: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(orders)
    orders.advance(minutes=10)
    monkeypatch.setattr(serving, "_FIRST_PAUSE_S", 0.2)
    orders.sqs.set_queue_attributes(QueueUrl=orders.queue_url(), Attributes={"VisibilityTimeout": "1"})
    failing(orders, monkeypatch, *(EndpointConnectionError(endpoint_url="dynamodb") for _ in range(3)))
    stop, handled = Event(), []
    receives, hidden = [], []
    receive, hide = receiving.receive, receiving.hide
    monkeypatch.setattr(receiving, "receive", lambda *given: (receives.append(given), receive(*given))[1])
    monkeypatch.setattr(receiving, "hide", lambda *given: (hidden.append(given[3]), hide(*given))[1])

    def handle(message: ReceivedMessage) -> None:
        handled.append((message.body, message.receive_count, len(receives) <= 2))
        stop.set()

    worker_of(orders, handle).run(stop=stop)
    assert handled == [("x", 1, True)] and set(hidden) == {1}
    assert orders.everything_in(orders.queue_url()) == []


def test_a_worker_without_the_permission_to_claim_is_told_which(orders: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    sealed(orders)
    orders.advance(minutes=10)
    denied: Any = {"Error": {"Code": "AccessDeniedException", "Message": "not allowed"}}
    failing(orders, monkeypatch, ClientError(denied, "UpdateItem"))
    with pytest.raises(ClaimFailed, match="tidewheel policy consumer"):
        orders.client.receive(orders.name, "billing")


def test_a_worker_that_may_not_claim_ends_although_another_is_idle(
    orders: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(orders)
    orders.advance(minutes=10)
    denied: Any = {"Error": {"Code": "AccessDeniedException", "Message": "not allowed"}}
    failing(orders, monkeypatch, *(ClientError(denied, "UpdateItem") for _ in range(1_000)))
    with pytest.raises(QueueUnavailable, match="tidewheel policy consumer"):
        worker_of(orders, print).run()


def test_an_error_of_a_handler_is_no_claim_of_its_message(orders: Topic) -> None:
    sealed(orders)
    orders.advance(minutes=10)
    stop = Event()

    def handle(message: ReceivedMessage) -> None:
        stop.set()
        raise ClaimFailed("another", message.id, "no answer", refused=False)

    worker = worker_of(orders, handle)
    worker.run(stop=stop)
    assert worker.counts[f"{orders.name}/billing"].failed == 1


def test_an_item_that_is_no_claim_concerns_its_message_alone(orders: Topic) -> None:
    forged, other = sealed(orders), sealed(orders, "y")
    key = {"pk": {"S": f"T#{orders.name}#CLAIM#{forged}"}, "sk": {"S": "CLAIM"}}
    table = orders.client.core.connection.storage.claims._table
    table._client.put_item(TableName=table._name, Item={**key, "claimed": {"S": "x"}})
    orders.advance(minutes=10)
    assert [each.id for each in orders.client.receive(orders.name, "billing")] == [other]
    assert not orders.client.cancel(orders.name, forged)


def test_what_gets_no_answer_is_left_out_of_a_batch_and_comes_again(
    orders: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(orders)
    sealed(orders, "y")
    orders.advance(minutes=10)
    failing(orders, monkeypatch, EndpointConnectionError(endpoint_url="dynamodb"))
    first = orders.client.receive(orders.name, "billing")
    orders.advance(minutes=2)
    again = orders.client.receive(orders.name, "billing")
    assert len(first) == 1 and {each.body for each in again} == {"x", "y"}


def test_without_a_dead_letter_queue_a_message_that_fails_is_handed_out_again(orders: Topic) -> None:
    message = sealed(orders)
    orders.sqs.set_queue_attributes(QueueUrl=orders.queue_url(), Attributes={"RedrivePolicy": ""})
    orders.advance(minutes=9)
    for _ in range(receiving.MAX_RECEIVES + 3):
        assert [each.id for each in orders.client.receive(orders.name, "billing")] == [message]
        orders.advance(minutes=2)


@pytest.mark.story
def test_a_replay_hands_out_again_what_was_claimed_and_not_what_was_cancelled(topic: Topic) -> None:
    orders = topic.another("kept", claims="all", retention_days=1)
    start = orders.stack.now()
    cancelled, kept = sealed(orders), sealed(orders, "kept")
    orders.client.cancel(orders.name, cancelled)
    orders.advance(minutes=10)
    assert orders.bodies() == ["kept"]
    orders.client.replay(orders.name, "billing", start=start, end=orders.stack.now())
    orders.advance(minutes=1)
    assert [each.id for each in orders.take()] == [kept]


def test_the_setting_is_fixed_and_its_messages_say_so(orders: Topic) -> None:
    sealed(orders)
    orders.advance(minutes=10)
    [message] = orders.client.receive(orders.name, "billing")
    assert message.claim is not None
    with pytest.raises(Exception, match="claims"):
        orders.client.update_topic(orders.name, claims="none")  # type: ignore[call-arg]
