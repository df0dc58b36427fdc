"""Damage stops only its own rows."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from tests.behaviour.test_half_well_ingest import opened
from tests.flows.alone import sweep_payloads
from tests.half_well import HalfWell
from tests.recorded_queues import RecordedTidewheel
from tests.stored import stored
from tidewheel import Consumer, InvalidValue, Message, NothingToRestore, UnknownDamaged, Worker
from tidewheel.client.operations.health import Problem
from tidewheel.client.waiting import Place
from tidewheel.errors import ObjectRefused
from tidewheel.ledger.bucket import Bucket

LARGE = "x" * 1_200_000


class _Denied(ClientError):
    """S3's answer for a missing object to a client without permission to list, and for a revoked key."""

    def __init__(self) -> None:
        super().__init__({"Error": {"Code": "AccessDenied", "Message": "Access Denied"}}, "GetObject")


@pytest.mark.parametrize("trouble", ["missing", "denied", "slow"])
def test_a_large_body_that_cannot_be_had_fails_its_own_message_alone(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, stack, client = opened()
    client.send("orders", LARGE)
    client.send_many("orders", [Message(body=f"m{i}", delay=1) for i in range(9)])
    stack.advance(seconds=5)
    [name] = stack.service.objects.names("payloads/")
    if trouble == "missing":
        stack.service.objects.delete([name])
    else:
        error = _Denied() if trouble == "denied" else TimeoutError()

        def refuse(*_: object) -> bytes:
            raise error

        monkeypatch.setattr(type(stack.service.objects), "get_range", refuse)
    worker = Worker(client)
    handled: list[str] = []
    worker.handles("orders/billing", retry=None)(lambda message: handled.append(message.body))
    stack.drain(worker, "2h", errors="count")
    assert sorted(handled) == [f"m{i}" for i in range(9)]
    [billing] = client.subscriptions("orders")
    queue = stack.queue(billing.queue_url)
    assert queue.dead_letters is not None
    assert (len(queue.everything), len(queue.dead_letters.everything)) == (0, 1)


class _Shop:
    """Five ledgers of twenty messages. One of the ledgers is then damaged or gone."""

    def __init__(self, damage: str) -> None:
        self.faults, self.stack, self.client = opened()
        self.sent: list[dict[str, int]] = []
        for _ in range(5):
            receipts = [self.client.send("orders", "x", delay="6h") for _ in range(20)]
            self.sent.append({each.id: each.deliver_at_ms for each in receipts})
            self.stack.advance(minutes=6)
        self.ledgers = [each.object_name for each in sorted(self.stack.service.buckets.all("orders"), key=_first_ms)]
        self.whole = self.object(2)
        if damage == "bit":
            middle = len(self.whole) // 3
            flipped = bytes([self.whole[middle] ^ 1])
            self.stack.service.objects.put(self.ledgers[2], self.whole[:middle] + flipped + self.whole[middle + 1 :])
        elif damage == "gone":
            self.stack.service.objects.delete([self.ledgers[2]])

    def object(self, number: int) -> bytes:
        return self.stack.service.objects.get_range(self.ledgers[number], 0, 1 << 30)

    def received(self) -> dict[str, list[int]]:
        """The lateness of each message, with an entry for each copy."""
        due = {id: at for each in self.sent for id, at in each.items()}
        return _lateness(self.stack, due)


def _first_ms(bucket: Bucket) -> int:
    return bucket.segments[0].first_deliver_at_ms


@pytest.mark.parametrize("damage", ["bit", "gone"])
def test_one_damaged_ledger_of_five_delays_no_other(damage: str) -> None:
    shop = _Shop(damage)
    calls = sum(shop.stack.invocations.values())
    shop.stack.advance(hours=30)
    late = shop.received()
    on_time = {id for number in (0, 1, 3, 4) for id in shop.sent[number]}
    assert set(late) == on_time
    assert all(len(each) == 1 and 0 <= each[0] <= 2000 for each in late.values())
    [item] = shop.client.damaged("orders")
    assert item.damaged and item.objects == (shop.ledgers[2],) and item.messages == 20
    found = [each for each in shop.client.health("orders") if each.problem is Problem.DAMAGED]
    assert [(each.subscription, each.count) for each in found] == [("billing", 20)]
    assert sum(shop.stack.invocations.values()) - calls <= 90
    assert shop.stack.failures == [] and shop.stack.queue("tidewheel_work-dead").everything == []


def _lateness(stack: RecordedTidewheel, due: dict[str, int]) -> dict[str, list[int]]:
    late: dict[str, list[int]] = {}
    for each in stack.service.queues.sent():
        id = json.loads(each.header)["id"]
        late.setdefault(id, []).append(each.visible_at_ms - due.get(id, each.deliver_at_ms))
    return late


def _with_a_large_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[RecordedTidewheel, HalfWell, dict[str, int], dict[str, int]]:
    """A ledger with an index too large for its item, another ledger, and the due times of both."""
    monkeypatch.setattr("tidewheel.ledger.bucket.INLINE_SEGMENTS_BYTES", 60)
    faults, stack, client = opened()
    source = random.Random(1)
    messages = [Message(body=source.randbytes(500).hex(), delay=7200 + 60 * i) for i in range(400)]
    large = {each.id: each.deliver_at_ms for each in client.send_many("orders", messages)}
    stack.advance(minutes=6)
    buckets = stored(stack.service).of("orders").buckets
    for bucket in list(buckets.values()):  # as an item of the table holds it
        buckets[bucket.id] = bucket.without_tail()
    small = {
        each.id: each.deliver_at_ms for each in (client.send("orders", "x", delay=7000 + i) for i in range(3000, 3020))
    }
    stack.advance(minutes=6)
    return stack, faults, large, small


@pytest.mark.parametrize("damage", ["bit", "gone", "refused for an hour"])
def test_a_large_ledger_whose_index_cannot_be_read_keeps_no_other_from_being_on_time(
    damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack, faults, large, small = _with_a_large_ledger(monkeypatch)
    client = stack.client()
    [bucket] = [each for each in stack.service.buckets.all("orders") if not each.complete]
    objects = stack.service.objects
    assert bucket.tail is not None
    whole = objects.get_range(bucket.object_name, 0, bucket.size_bytes)
    if damage == "bit":
        place = bucket.tail.offset + bucket.tail.length - 3
        objects.put(bucket.object_name, whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    elif damage == "gone":
        objects.delete([bucket.object_name])
    else:
        stack.advance(hours=1, minutes=40)
        faults.refuse("objects.get_range", minutes=60, applies=lambda name, *_: name == bucket.object_name)
    stack.advance(hours=12)
    late = _lateness(stack, large | small)
    assert all(late[id] == [lateness] and 0 <= lateness <= 2000 for id in small for lateness in late[id])
    assert all(len(each) == 1 for each in late.values())
    if damage != "refused for an hour":
        assert not set(large) & set(late)
        assert {each.damaged for each in client.damaged("orders")} == {True}
        objects.put(bucket.object_name, whole)
        stack.advance(hours=2)
        late = _lateness(stack, large | small)
    assert set(late) == set(large | small) and all(len(each) == 1 for each in late.values())
    assert client.damaged("orders") == [] and stack.failures == []


def test_the_large_body_of_a_damaged_message_is_kept() -> None:
    _, stack, client = opened()
    client.send("orders", LARGE, delay="2h")
    stack.advance(minutes=10)
    [ledger] = stack.service.objects.names("ledgers/")
    whole = stack.service.objects.get_range(ledger, 0, 1 << 30)
    stack.service.objects.delete([ledger])
    for _ in range(40):
        stack.advance(days=1)
        sweep_payloads(stack.service)
    [item] = client.damaged("orders")
    assert item.damaged and item.id is not None
    stack.service.objects.put(ledger, whole)
    client.retry_damaged("orders", item.id)
    stack.advance(minutes=6)
    [message] = Consumer(client, "orders", "billing").receive(wait_s=0)
    assert message.body == LARGE


def test_a_restore_brings_back_all_that_can_be_and_names_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    _, stack, client = opened()
    for body in ("gone", "kept"):
        client.send("orders", body, deliver_at=datetime(2026, 1, 1, 6, tzinfo=UTC))
        stack.advance(minutes=6)
    objects = stack.service.objects
    gone, kept = objects.names("ledgers/")
    versions = {kept: objects.get_range(kept, 0, 1 << 30)}
    objects.delete([gone, kept])
    stack.advance(hours=8)
    [item] = client.damaged("orders")
    assert item.id is not None and set(item.objects) == {gone, kept}

    def restore(_: object, name: str, *__: object) -> bool:
        if name in versions:
            objects.put(name, versions[name])
        return name in versions

    monkeypatch.setattr(type(objects), "restore", restore)
    with pytest.raises(NothingToRestore) as error:
        client.restore_damaged("orders", item.id)
    assert gone in str(error.value)
    stack.advance(minutes=6)
    assert len(stack.service.queues.sent()) == 1
    [item] = client.damaged("orders")
    assert item.damaged and item.objects == (gone,)


def test_a_damaged_part_is_listed_retried_and_given_up() -> None:
    shop = _Shop("gone")
    client = shop.client
    shop.stack.advance(hours=8)
    [item] = client.damaged("orders")
    assert (item.what, item.name, item.messages, item.damaged) == ("messages", "billing", 20, True)
    assert item.id is not None and item.objects == (shop.ledgers[2],) and "does not exist" in item.reason
    with pytest.raises(NothingToRestore, match="production keeps"):
        client.restore_damaged("orders", item.id)
    client.retry_damaged("orders", item.id)
    shop.stack.advance(minutes=6)
    assert [each.damaged for each in client.damaged("orders")] == [True]
    shop.stack.service.objects.put(shop.ledgers[2], shop.whole)
    client.retry_damaged("orders", item.id)
    shop.stack.advance(minutes=6)
    assert client.damaged("orders") == []
    late = shop.received()
    assert set(late) == {id for each in shop.sent for id in each} and {len(each) for each in late.values()} == {1}
    for again in (client.retry_damaged, client.restore_damaged):
        with pytest.raises(UnknownDamaged, match="sent or given up since"):
            again("orders", item.id)


def test_what_was_given_up_is_told_in_the_queue_of_refused_messages() -> None:
    shop = _Shop("bit")
    shop.stack.advance(hours=5, minutes=44)
    [item] = shop.client.damaged("orders")
    assert item.id is not None and not item.damaged
    with pytest.raises(InvalidValue, match="still tries"):
        shop.client.give_up_damaged("orders", item.id, "no backup")
    shop.stack.advance(hours=2)
    shop.client.give_up_damaged("orders", item.id, "no backup")
    [record] = shop.stack.service.queues.refused
    assert (record["reason"], record["messages"], record["objects"]) == ("no backup", 20, [shop.ledgers[2]])
    [shown] = shop.client.refused()
    assert (shown.queue, shown.reason) == ("billing", "no backup") and shown.body.startswith("20 messages: ")
    assert shop.client.damaged("orders") == []
    with pytest.raises(UnknownDamaged):
        shop.client.give_up_damaged("orders", item.id, "again")


def test_a_retry_sends_nothing_that_was_cancelled_or_purged_since() -> None:
    shop = _Shop("gone")
    gone = list(shop.sent[2])
    assert shop.client.cancel("orders", gone[0])
    shop.stack.advance(hours=8)
    shop.client.purge("orders", start=datetime(2026, 1, 1, 6, tzinfo=UTC), end=datetime(2026, 1, 1, 7, tzinfo=UTC))
    shop.stack.advance(days=40)
    shop.client.send("orders", "x", delay="1h")  # with its collection, marks out of force are forgotten
    shop.stack.advance(hours=30)
    shop.stack.service.objects.put(shop.ledgers[2], shop.whole)
    [item] = shop.client.damaged("orders")
    assert item.id is not None
    shop.client.retry_damaged("orders", item.id)
    shop.stack.advance(minutes=6)
    assert shop.client.damaged("orders") == []
    assert not set(shop.received()) & set(gone)
    assert shop.client.damaged("orders") == []


def test_nothing_of_a_deleted_subscription_stays_damaged() -> None:
    shop = _Shop("gone")
    shop.stack.advance(hours=8)
    shop.client.delete_subscription("orders", "billing")
    assert shop.client.damaged("orders") == []


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("error", [ObjectRefused("ledgers/x", "AccessDenied"), TimeoutError("no answer")])
def test_what_s3_does_not_give_for_a_day_comes_within_an_hour_after_that(everything: bool, error: Exception) -> None:
    shop = _Shop("none")

    def refuse(*_: object) -> None:
        raise error

    shop.stack.advance(hours=5)
    applies = (lambda *_: True) if everything else (lambda name, *_: name == shop.ledgers[2])
    shop.faults.refuse("objects.get_range", applies=applies, instead=refuse)
    shop.stack.advance(hours=24)
    assert set(shop.received()) == {id for number in (0, 1, 3, 4) for id in shop.sent[number] if not everything}
    assert shop.ledgers[2] in shop.stack.service.objects.names("ledgers/")
    shop.faults.heal()
    shop.stack.advance(minutes=70)
    late = shop.received()
    assert set(late) == {id for each in shop.sent for id in each} and {len(each) for each in late.values()} == {1}
    assert shop.client.damaged("orders") == []


def test_a_message_that_a_note_has_no_room_to_name_is_not_said_to_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidewheel.flows.delivery.unread._MOST_NAMES", 0)
    _, stack, client = opened()
    id = client.send("orders", "x", delay="1h").id
    stack.advance(minutes=10)
    [name] = stack.service.objects.names("ledgers/")
    whole = stack.service.objects.get_range(name, 0, 10**9)
    stack.service.objects.delete([name])
    stack.advance(hours=3)
    stack.service.objects.put(name, whole)
    found = client.get("orders", id)
    assert found is not None
    assert [each.place for each in found.subscriptions] == [Place.DELIVERING]
    [item] = client.damaged("orders")
    assert item.damaged and item.messages == 0 and item.objects == ()
    stack.advance(hours=2)
    assert [each.body for each in stack.receive("orders", "billing")] == ["x"]
