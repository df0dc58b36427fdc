"""What the service asks of AWS, pinned: a change here is a change of the bill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.conftest import TOPIC, Orders, orders
from tidewheel.message import Message

DAY_S = 86_400


def _settled(service: Orders) -> None:
    """Lets the sweep look at the new subscriptions and collect after them: afterwards nothing is due."""
    service.stack.advance(days=1)


def _far(service: Orders, count: int, days: int) -> Callable[[], object]:
    """Returns what sends messages that are due so many days later, all in one slot, as one pack."""
    at = service.stack.now().timestamp() // DAY_S * DAY_S + days * DAY_S
    messages = [Message(body=f"message {i}", deliver_at=at + i % 100) for i in range(count)]
    return lambda: service.client.send_many(TOPIC, messages)


def _asked(service: Orders, action: Callable[[], object]) -> Counter[str]:
    before = Counter(service.stack.requests)
    action()
    assert service.stack.failures == []
    return Counter(service.stack.requests) - before


def _batch_window(service: Orders) -> Callable[[], object]:
    return lambda: service.stack.advance(minutes=5)


@pytest.mark.parametrize("count", [1, 1000])
def test_sending_is_one_request_for_up_to_thousands_of_messages(count: int) -> None:
    with orders() as service:
        _settled(service)
        service.client.send(TOPIC, "the client reads the topic's fence once a minute", delay="3d")
        assert _asked(service, _far(service, count, days=2)) == Counter(
            {"sqs.SendMessageBatch": 1}  # one pack holds them all
        )


@pytest.mark.parametrize("count", [1, 1000])
def test_one_ingest_call_asks_the_same_of_aws_whatever_the_number_of_messages(count: int) -> None:
    with orders("billing", "audit") as service:
        _settled(service)
        _far(service, count, days=2)()
        first = _asked(service, _batch_window(service))
        assert first == Counter(
            {
                "sqs.ReceiveMessage": 1,  # the event source mapping takes the pack
                "lambda.Invoke": 1,  # ingest
                "dynamodb.GetItem": 1,  # the fence: where the open slots begin
                "s3.PutObject": 1,  # the ledger
                "dynamodb.TransactWriteItems": 1,  # the bucket, and wake lowered in the fence
                "scheduler.CreateSchedule": 1,  # the first slot's schedule, since wake was lowered
                "sqs.DeleteMessageBatch": 1,  # the pack is done
            }
        )
        _far(service, count, days=3)()
        assert _asked(service, _batch_window(service)) == first - Counter(
            {"scheduler.CreateSchedule": 1}  # an earlier slot's schedule is to come, and leads to this one's
        )


@pytest.mark.parametrize("subscriptions", [("billing",), ("billing", "audit")])
def test_one_slots_dispatch_asks_for_each_subscription_only_its_sends_and_one_delete_more(
    subscriptions: tuple[str, ...],
) -> None:
    with orders(*subscriptions) as service:
        _settled(service)
        _far(service, 25, days=2)()
        _far(service, 1, days=3)()
        _batch_window(service)()
        sweeps = service.stack.invocations["sweep"]
        asked = _asked(service, lambda: service.stack.advance(days=2))
        assert service.stack.invocations == {
            "ingest": 1,
            "dispatch": 1,
            "deliver": 0,
            "sweep": sweeps,
            "compact": 0,
        }
        n = len(subscriptions)
        assert asked == Counter(
            {
                "scheduler.Invoke": 1,  # the slot's schedule fires
                "lambda.Invoke": 1,  # dispatch
                "dynamodb.GetItem": 1,  # the fence
                "dynamodb.UpdateItem": 1,  # seal: no new ledger for the slot from now on
                "dynamodb.Query": 1 + 1 + 1,  # buckets; tombstones of the plan's slots; subscriptions
                "dynamodb.TransactWriteItems": 1,  # the plan, all cursors and deliveries, and the next wake
                "scheduler.CreateSchedule": 1,  # the next slot's schedule
                "s3.GetObject": 1,  # the one segment that holds the slot, read once for all subscriptions
                "sqs.SendMessageBatch": 3 * n,  # 25 messages in tens, to each subscription
                "dynamodb.DeleteItem": n,  # each subscription's delivery is done
            }
        )
        for name in subscriptions:
            assert len(service.take(name)) == 25


def test_a_sweep_that_finds_nothing_asks_one_query_a_shard() -> None:
    with orders() as service:
        _far(service, 10, days=3)()
        _settled(service)
        assert _asked(service, lambda: service.invoke("sweep")) == Counter(
            {"dynamodb.Query": 16}  # one for each shard of the wake index; no topic is read
        )


def test_a_waiting_topic_asks_nothing_of_aws_until_its_slot_is_near() -> None:
    with orders("billing", "audit") as service:
        _far(service, 10, days=30)()
        _settled(service)
        assert _asked(service, lambda: service.stack.advance(days=28)) == Counter()
