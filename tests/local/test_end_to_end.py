"""The deployed functions together on the local stack, with failures, large plans and late subscriptions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.conftest import TOPIC, Orders, once, orders
from tests.marks import topic_state
from tidewheel.local.event_source import EventSource
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.message import IdSource, Message
from tidewheel.model.pack import PACK_ATTRIBUTE, packs
from tidewheel.model.validation import check_message

HOUR_S = 3600
DAY_S = 86_400


def _pack(service: Orders, *delays_s: float, topic: str = TOPIC, body: str = "hello") -> bytes:
    """Returns the SDK's pack with a message per delay."""
    now_ms = service.stack.clock.now_ms()
    ids = IdSource()
    checked = [check_message(Message(body=body, delay=delay_s), ids, now_ms) for delay_s in delays_s]
    [(_, data)] = packs(topic, topic_state(service.client, TOPIC).generation, now_ms, checked)
    return data


def _binary(data: bytes) -> dict[str, Any]:
    return {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": data}}


def _put(service: Orders, queue: str, *packs_: bytes) -> None:
    """Sends each pack to an ingest queue as a separate message."""
    sqs: Any = service.stack.session.client("sqs")
    for data in packs_:
        sqs.send_message(QueueUrl=service.queue_url(queue), MessageBody="a pack", MessageAttributes=_binary(data))


def _objects(service: Orders, prefix: str = "ledgers/") -> list[str]:
    s3: Any = service.stack.session.client("s3")
    [bucket] = s3.list_buckets()["Buckets"]
    found = s3.list_objects_v2(Bucket=bucket["Name"], Prefix=prefix)
    return [each["Key"] for each in found.get("Contents", [])]


def _fails_once(function: Callable[..., Any], when: str) -> Callable[..., Any]:
    """Returns the function with a single failure, before or after the work of the first call."""
    failed = False

    def failing(*args: Any, **kwargs: Any) -> Any:
        nonlocal failed
        fails, failed = not failed, True
        if fails and when == "before":
            raise RuntimeError(f"died {when}")
        result = function(*args, **kwargs)
        if fails:
            raise RuntimeError(f"died {when}")
        return result

    return failing


# ---- poison


@pytest.mark.parametrize(
    ("queue", "delays_s"),
    [("IngestionUrgentQueue", (5, 20 * 60, 59 * 60)), ("IngestionBulkQueue", (2 * HOUR_S, DAY_S, 9 * DAY_S))],
)
def test_poison_alone_is_refused_with_its_reason_and_the_rest_of_its_batch_is_delivered_once(
    queue: str, delays_s: Sequence[float]
) -> None:
    with orders("billing", "audit") as service:
        good = _pack(service, *delays_s)
        poison = {
            "garbage": _binary(sealed(b"\x01 this is no zlib stream")),
            "no attribute": {},
            "an empty version": _binary(sealed(b"\x00")),
            "a newer version": _binary(sealed(b"\x04" + opened(_pack(service, DAY_S))[1:])),
            "an unknown topic": _binary(_pack(service, DAY_S, topic="nobody")),
            "an attribute of the wrong type": {PACK_ATTRIBUTE: {"DataType": "String", "StringValue": "hello"}},
        }
        attributes = {"good": _binary(good), **poison, "also good": _binary(_pack(service, *delays_s))}
        entries = [
            {"Id": str(i), "MessageBody": body, "MessageAttributes": each}
            for i, (body, each) in enumerate(attributes.items())
        ]
        service.stack.session.client("sqs").send_message_batch(QueueUrl=service.queue_url(queue), Entries=entries)
        service.stack.advance(minutes=6)
        waiting = {"a newer version", "an unknown topic"}  # for a deployment, or a rebuild
        assert service.stack.failures[0].event["messages"] == len(attributes)  # they came in one batch
        assert service.bodies(service.queue_url(queue)) == sorted(waiting)
        assert refused(service).keys() == poison.keys() - waiting
        service.stack.advance(days=10)
        assert (
            service.bodies(service.queue_url(queue)) == service.bodies(service.queue_url(queue + "DeadLetters")) == []
        )
        found = refused(service)
        assert found.keys() == poison.keys()
        assert "version 4" in found["a newer version"] and "nobody" in found["an unknown topic"]
        for subscription in ("billing", "audit"):
            ids = service.ids(subscription)
            assert len(ids) == ids.total() == 2 * len(delays_s)


def test_a_pack_of_another_generation_keeps_no_other_pack_of_its_topic_from_delivery() -> None:
    with orders() as service:
        good = _pack(service, 2 * HOUR_S)
        now_ms = service.stack.clock.now_ms()
        [(_, stale)] = packs(TOPIC, "0" * 16, now_ms, [check_message(Message(body="x", delay=9), IdSource(), now_ms)])
        _put(service, "IngestionBulkQueue", good, stale)
        service.stack.advance(hours=12)
        assert service.ids().total() == 1
        assert service.bodies(service.queue_url("IngestionBulkQueueDeadLetters")) == []
        assert "deleted" in refused(service)["a pack"]


def refused(service: Orders) -> dict[str, str]:
    """Returns the reason of each refused message, by the message's body."""
    found = map(json.loads, service.bodies(service.queue_url("DeliveryRefusedQueue")))
    return {each["body"]: each["reason"] for each in found}


# ---- redelivery


def test_a_pack_that_sqs_delivers_again_is_committed_once() -> None:
    with orders("billing", "audit") as service:
        data = _pack(service, 3 * HOUR_S, 2 * DAY_S)
        _put(service, "IngestionBulkQueue", data)
        service.stack.advance(minutes=6)
        [ledger] = _objects(service)
        _put(service, "IngestionBulkQueue", data)
        service.stack.advance(minutes=6)
        assert service.stack.invocations["ingest"] == 2
        assert _objects(service) == [ledger]
        service.stack.advance(days=3)
        for subscription in ("billing", "audit"):
            ids = service.ids(subscription)
            assert len(ids) == ids.total() == 2
        assert service.stack.failures == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_ingest_that_fails_around_its_commit_is_repeated_without_copies(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with orders("billing", "audit") as service:
        module = service.function("ingest")
        monkeypatch.setattr(module, "ingest", _fails_once(module.ingest, when))
        sent = service.client.send_many(TOPIC, [Message(body="again", delay=HOUR_S + 60 * i) for i in range(1, 200)])
        service.stack.advance(hours=5)
        assert len(service.stack.failures) == 1 and service.stack.invocations["ingest"] == 2
        for subscription in ("billing", "audit"):
            assert service.ids(subscription) == once(receipt.id for receipt in sent)


def test_an_acknowledgement_that_is_lost_brings_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    with orders("billing", "audit") as service:
        monkeypatch.setattr(EventSource, "settle", _lost_once(EventSource.settle))
        sent = service.client.send_many(TOPIC, [Message(body="again", delay=HOUR_S + 60 * i) for i in range(1, 200)])
        service.stack.advance(hours=5)
        assert service.stack.invocations["ingest"] == 2
        for subscription in ("billing", "audit"):
            assert service.ids(subscription) == once(receipt.id for receipt in sent)


def _lost_once(settle: Callable[..., int]) -> Callable[..., int]:
    lost = False

    def lossy(*args: Any) -> int:
        nonlocal lost
        if not lost:
            lost = True
            return 0
        return settle(*args)

    return lossy


def test_the_failure_of_one_topic_holds_up_no_other_topic_of_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with orders() as service:
        service.client.create_topic("invoices")
        service.client.create_subscription("invoices", "billing")
        module = service.function("ingest")
        ingest = module.ingest

        def failing(ports: Any, topic: str, batch: Any) -> Any:
            if topic == TOPIC:
                raise RuntimeError("this topic fails")
            return ingest(ports, topic, batch)

        monkeypatch.setattr(module, "ingest", failing)
        kept = service.client.send(TOPIC, "held up", delay="14d")
        sent = service.client.send("invoices", "not held up", delay="2h")
        service.stack.advance(hours=2, seconds=2)
        assert service.ids(topic="invoices") == once([sent.id])
        service.stack.advance(days=8)
        # All tries of a week failed: the pack waits among the dead letters until somebody moves it back.
        dead = service.stack.queue(service.queue_url("IngestionBulkQueueDeadLetters"))
        [letter] = dead.everything
        monkeypatch.setattr(module, "ingest", ingest)
        _put(service, "IngestionBulkQueue", letter.message_attributes[PACK_ATTRIBUTE]["BinaryValue"])
        service.stack.advance(days=7)
        assert service.ids() == once([kept.id])


# ---- large plans


def _large_slot(service: Orders, count: int) -> list[str]:
    """Sends messages due in one slot of tomorrow. Returns the ids."""
    tomorrow = service.stack.now().timestamp() + DAY_S
    messages = [Message(body={"number": i}, deliver_at=tomorrow + i % 3000 / 10) for i in range(count)]
    return [receipt.id for receipt in service.client.send_many(TOPIC, messages)]


def test_a_large_plan_goes_through_the_work_queue_and_arrives_once() -> None:
    with orders("billing", "audit", inline_rows=100, part_rows=200) as service:
        sent = _large_slot(service, 3000)
        service.stack.advance(minutes=6)
        before = service.stack.invocations["dispatch"]  # the sweep has one done for new subscriptions
        service.stack.advance(days=1)
        assert service.stack.failures == []
        # A part holds about 200 messages, so each subscription has at least 15.
        assert service.stack.invocations["dispatch"] == before + 1
        assert 2 * 15 <= service.stack.invocations["deliver"] <= 2 * 20
        for subscription in ("billing", "audit"):
            messages = service.take(subscription)
            assert once(message.id for message in messages) == once(sent)
            assert {message.json()["number"] for message in messages} == set(range(3000))


def test_parts_that_the_work_queue_delivers_again_send_no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    with orders("billing", "audit", inline_rows=100, part_rows=200) as service:
        module = service.function("deliver")
        done: list[Any] = []
        do_job = module.do_job

        def twice(*args: Any) -> Any:
            first = do_job(*args)
            done.append(do_job(*args))
            return first

        monkeypatch.setattr(module, "do_job", twice)
        sent = _large_slot(service, 1000)
        service.stack.advance(days=1, minutes=6)
        assert len(done) >= 2 * 5 and set(done) == {None}
        for subscription in ("billing", "audit"):
            assert service.ids(subscription) == once(sent)


def test_a_part_that_could_not_be_read_comes_again_from_the_work_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    with orders("billing", "audit", inline_rows=100, part_rows=200) as service:
        objects = type(service.function("deliver").handler.telemetry.service.objects)
        monkeypatch.setattr(objects, "get_range", _fails_once(objects.get_range, "before"))
        sent = _large_slot(service, 1000)
        # Dispatched 8 minutes ahead and tried again after 12: some are late, but long before a sweep would help.
        service.stack.advance(days=1, minutes=6)
        assert len(service.stack.failures) == 1
        for subscription in ("billing", "audit"):
            assert once(message.id for message in service.stack.receive(TOPIC, subscription)) == once(sent)


# ---- subscriptions that come later


def test_a_later_subscription_to_the_latest_gets_only_what_becomes_due_from_then() -> None:
    with orders() as service:
        past = service.client.send(TOPIC, "before", delay="1h")
        future = service.client.send(TOPIC, "after", delay="3h")
        service.stack.advance(hours=2)
        service.client.create_subscription(TOPIC, "audit")
        direct = service.client.send(TOPIC, "soon", delay="10s")
        service.stack.advance(hours=2)
        assert service.ids("audit") == once([direct.id, future.id])
        assert service.ids("billing") == once([past.id, direct.id, future.id])


def test_a_later_subscription_to_the_earliest_gets_all_that_is_still_kept() -> None:
    with orders(collect_interval_s=21_600) as service:
        past = service.client.send(TOPIC, "before", delay="2h")
        future = service.client.send(TOPIC, "after", delay="4h")
        service.stack.advance(hours=2, minutes=10)
        service.client.create_subscription(TOPIC, "audit", initial_position="earliest")
        service.stack.advance(hours=2)
        messages = service.stack.receive(TOPIC, "audit")
        assert once(message.id for message in messages) == once([past.id, future.id])
        assert service.ids("billing") == once([past.id, future.id])


def test_topics_with_equal_subscription_names_keep_their_messages_apart() -> None:
    with orders() as service:
        service.client.create_topic("orders-billing")
        service.client.create_subscription("orders-billing", "billing")
        service.client.create_subscription(TOPIC, "billing-billing")
        mine = service.client.send(TOPIC, "mine", delay="2h")
        theirs = service.client.send("orders-billing", "theirs", delay="2h")
        service.stack.advance(hours=2, seconds=2)
        assert service.ids() == service.ids("billing-billing") == once([mine.id])
        assert service.ids(topic="orders-billing") == once([theirs.id])
        assert service.stack.failures == []
