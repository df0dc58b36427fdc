"""Partial AWS faults at ingest, with refusing stores, other programs' messages, and lying senders."""

from __future__ import annotations

import json
import random
import string
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.half_well import HalfWell
from tests.recorded_queues import RecordedTidewheel
from tidewheel.client.tidewheel import Tidewheel
from tidewheel.errors import ClockDoubted, ConcurrentModification, CorruptMetadata, CorruptPack
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import IdSource, Message, MessageId, id_text
from tidewheel.model.pack import PACK_ATTRIBUTE, Pack, packs
from tidewheel.model.triggers import WORK_QUEUE
from tidewheel.model.validation import Options, OutgoingMessage, check_message
from tidewheel.storage.buckets import Commit

TOPIC, DAY_S, HOUR_S, MINUTE_S = "orders", 86_400, 3600, 60
QUEUES = ("tidewheel_urgent", "tidewheel_bulk")


def opened() -> tuple[HalfWell, RecordedTidewheel, Tidewheel]:
    """Makes a service with a topic and the subscription "billing", and its faults."""
    faults = HalfWell()
    stack = RecordedTidewheel(wrap=faults)
    client = stack.client()
    client.create_topic(TOPIC)
    client.create_subscription(TOPIC, "billing")
    return faults, stack, client


def generation(stack: RecordedTidewheel) -> str:
    state = stack.service.topic_states.read(TOPIC)
    assert state is not None
    return state.generation


def put_pack(
    stack: RecordedTidewheel,
    *messages: OutgoingMessage,
    queue: str = QUEUES[0],
    topic: str = TOPIC,
    sent_in_ms: int = 0,
    **attributes: Any,
) -> None:
    """Sends a pack, as a program with only the permission `send` does."""
    now_ms = stack.clock.now_ms()
    sent_from = attributes.pop("generation", None) or generation(stack)
    for _, data in packs(topic, sent_from, now_ms + sent_in_ms, messages):
        put(stack, queue, data)


def put(stack: RecordedTidewheel, queue: str, data: bytes | None, body: str = "a pack") -> None:
    given = {} if data is None else {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": data}}
    stack.sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=given)


def a_message(stack: RecordedTidewheel, body: str, delay_s: float, **options: Any) -> OutgoingMessage:
    message = Message(body=body, delay=delay_s, key=options.get("key"))
    checked = check_message(message, IdSource(), stack.clock.now_ms())
    return replace(checked, options=Options(**options)) if options else checked


def taken(stack: RecordedTidewheel) -> list[tuple[str, float]]:
    """Receives all messages. Returns each body with its lateness in seconds."""
    received = stack.receive(TOPIC, "billing")
    return sorted((each.body, (each.visible_at - each.deliver_at).total_seconds()) for each in received)  # type: ignore[operator]


def refused(stack: RecordedTidewheel) -> list[dict[str, Any]]:
    return stack.service.queues.refused


def bad_packs(stack: RecordedTidewheel) -> dict[str, bytes | None]:
    """Permanently invalid packs, by a part of their refusal's reason."""
    now_ms = stack.clock.now_ms()
    [(_, good)] = packs(TOPIC, generation(stack), now_ms, [a_message(stack, "good", HOUR_S)])
    [(_, stale)] = packs(TOPIC, "0" * 16, now_ms, [a_message(stack, "stale", HOUR_S)])
    bare = replace(a_message(stack, "bare", HOUR_S), options=Options(key="k", seq=1))
    [(_, contradicts)] = packs(TOPIC, generation(stack), now_ms, [bare])
    return {
        "does not say whether the message has a key": contradicts,
        "name the topic": None,
        "checksum": good[:-1] + bytes([good[-1] ^ 1]),
        "generation 0000000000000000 was deleted": stale,
        "": b"\0",
    }


@pytest.mark.parametrize("queue", QUEUES)
def test_a_message_of_another_program_is_refused_in_one_call_with_the_reason(queue: str) -> None:
    _, stack, client = opened()
    wanted = bad_packs(stack)
    for number, data in enumerate(wanted.values()):
        put(stack, queue, data, body=f"message {number}")
    receipt = client.send(TOPIC, "neighbour", delay=2 * MINUTE_S)
    stack.advance(hours=5)
    calls = stack.invocations["ingest"]
    assert calls <= 2, "one for the bad messages, and one for the neighbour if its queue is another"
    found = {each["body"]: each for each in refused(stack)}
    assert len(found) == len(refused(stack)) == len(wanted)
    for number, reason in enumerate(wanted):
        assert reason in found[f"message {number}"]["reason"]
        assert found[f"message {number}"]["sqs_message_id"]
    assert stack.queue(queue).everything == stack.queue(f"{queue}-dead").everything == []
    assert stack.failures == []
    [message] = stack.receive(TOPIC, "billing")
    assert message.id == receipt.id


def test_a_work_message_that_is_no_job_is_refused_in_one_call() -> None:
    _, stack, _ = opened()
    stack.sqs.send_message(QueueUrl="tidewheel_work", MessageBody="no job")
    stack.sqs.send_message(QueueUrl="tidewheel_work", MessageBody=json.dumps({"kind": "newer"}))
    stack.advance(hours=1)
    [document] = refused(stack)
    assert (document["body"], document["reason"][:11]) == ("no job", "not a task:")
    assert stack.invocations["deliver"] <= 1 + WORK_QUEUE.receives
    assert [each.body for each in stack.queue("tidewheel_work-dead").everything] == ['{"kind": "newer"}']


def an_entry_that_cannot_be_read(_: str, entry: KeyEntry) -> None:
    raise CorruptMetadata(f"the item of the key {entry.key} is not readable")


def a_pack_that_cannot_be_read(_: str) -> None:
    raise CorruptPack("in one try")


def of_cart_17(_: str, entry: KeyEntry) -> bool:
    return entry.key == "cart-17"


@pytest.mark.parametrize("delay_s", [MINUTE_S, 20 * HOUR_S])
def test_a_key_that_cannot_be_read_keeps_its_messages_waiting_and_no_other_of_their_pack(delay_s: float) -> None:
    faults, stack, _ = opened()
    faults.refuse("keys.claim", minutes=60, instead=an_entry_that_cannot_be_read, applies=of_cart_17)
    keys = ("cart-17", None, "cart-18")
    bodies = [
        a_message(stack, f"{key}", delay_s, **({} if key is None else {"key": key, "seq": place}))
        for place, key in enumerate(keys)
    ]
    put_pack(stack, *bodies)
    stack.advance(minutes=59)
    soon = [body for body, _ in taken(stack)]
    assert soon == (["None", "cart-18"] if delay_s == MINUTE_S else [])
    stack.advance(hours=20)
    assert sorted([*soon, *(body for body, _ in taken(stack))]) == ["None", "cart-17", "cart-18"], "each once"
    assert refused(stack) == []


@pytest.mark.parametrize("call", ["tombstones.may_move", "tombstones.cancel"])
def test_a_move_that_cannot_be_read_keeps_its_message_waiting_and_no_other_of_its_pack(call: str) -> None:
    def unread(*_: object) -> None:
        raise CorruptMetadata("an item is not readable")

    faults, stack, client = opened()
    old = client.send(TOPIC, "old", delay="20h")
    stack.advance(minutes=10)
    moved = a_message(stack, "moved", 30 * HOUR_S, moves=MessageId(old.id))
    stack.service.tombstones.allow_move(
        TOPIC, id_text(moved.id), MessageId(old.id), stack.clock.now_ms() // 1000 + DAY_S
    )
    faults.refuse(call, minutes=60, instead=unread)
    put_pack(stack, moved, a_message(stack, "beside", MINUTE_S))
    stack.advance(minutes=59)
    assert [body for body, _ in taken(stack)] == ["beside"]
    stack.advance(hours=40)
    assert [body for body, _ in taken(stack)] == ["moved"]
    assert refused(stack) == []


def test_what_is_too_large_for_sqs_is_an_object_and_comes_back_as_it_was() -> None:
    _, stack, client = opened()
    noise = "".join(
        random.Random(7).choices(string.ascii_letters + string.digits + "!#$%&()*+,-./:;<=>?@", k=1_030_000)
    )
    put_pack(stack, a_message(stack, noise, 3 * HOUR_S), topic="missing")
    stack.advance(hours=5)
    [document] = refused(stack)
    [name] = stack.service.objects.names("refused/")
    assert document["object_name"] == name
    client.create_topic("missing")
    [moved] = [each for each in client.redrive_service() if each.messages]
    assert (moved.queue_url.rpartition("/")[2], moved.messages) == (QUEUES[0], 1)
    assert refused(stack) == []
    [back] = stack.queue(QUEUES[0]).everything
    assert back.message_attributes[PACK_ATTRIBUTE]["BinaryValue"]
    stack.advance(minutes=5)
    assert "generation" in refused(stack)[0]["reason"], "it is read again, and the new topic is another"


def test_a_refused_queue_that_takes_nothing_keeps_the_message_in_its_queue() -> None:
    faults, stack, _ = opened()
    faults.refuse("queues.refuse", minutes=30)
    put(stack, QUEUES[0], None, body="hello")
    stack.advance(minutes=20)
    assert refused(stack) == []
    assert len(stack.queue(QUEUES[0]).everything) == 1
    stack.advance(minutes=15)
    assert [each["body"] for each in refused(stack)] == ["hello"]


def test_messages_that_need_no_s3_are_on_time_while_s3_refuses_put_for_40_minutes() -> None:
    faults, stack, client = opened()
    faults.refuse("objects.put", minutes=40)
    for number in range(75):
        due = [Message(body=f"soon {number}", delay=MINUTE_S), Message(body=f"later {number}", delay=6 * HOUR_S)]
        client.send_many(TOPIC, due)
        stack.advance(seconds=30)
    stack.advance(hours=1)
    soon = taken(stack)
    assert [body for body, _ in soon] == sorted(f"soon {number}" for number in range(75))
    assert max(late_s for _, late_s in soon) < 1
    stack.advance(hours=7)
    assert [body for body, _ in taken(stack)] == sorted(f"later {number}" for number in range(75))


@pytest.mark.parametrize("refuses", ["buckets.commit", "objects.put"])
def test_a_table_that_takes_nothing_for_40_minutes_makes_one_copy_at_most(refuses: str) -> None:
    faults, stack, _ = opened()
    faults.refuse(refuses, minutes=40)
    faults.refuse("notes.put", minutes=40)
    put_pack(stack, a_message(stack, "soon", MINUTE_S), a_message(stack, "later", 6 * HOUR_S))
    stack.advance(hours=1)
    assert [body for body, _ in taken(stack)] in (["soon"], ["soon", "soon"])
    stack.advance(hours=7)
    assert [body for body, _ in taken(stack)] == ["later"]


@pytest.mark.parametrize("bounds", [{}, {"start": 0.0}], ids=["all", "a range"])
@pytest.mark.parametrize("delay_s", [MINUTE_S, 3 * HOUR_S])
def test_what_is_sent_after_a_purge_by_a_sender_whose_clock_is_behind_comes(
    bounds: dict[str, float], delay_s: float
) -> None:
    _, stack, client = opened()
    put_pack(stack, a_message(stack, "before", delay_s), sent_in_ms=-30_000)
    client.purge(TOPIC, **bounds)
    stack.advance(seconds=1)
    put_pack(stack, a_message(stack, "after", delay_s), sent_in_ms=-30_000)
    put_pack(stack, a_message(stack, "another", delay_s, key="k", seq=1), sent_in_ms=-200_000)
    stack.advance(hours=4)
    assert [body for body, _ in taken(stack)] == ["after", "another"]


def test_keys_of_a_sender_whose_clock_is_behind_are_in_order_after_a_purge() -> None:
    _, stack, client = opened()
    client.purge(TOPIC)
    stack.advance(seconds=1)
    for number in range(3):
        put_pack(
            stack, a_message(stack, f"{number}", 3 * HOUR_S, key="k", seq=number, replace=True), sent_in_ms=-30_000
        )
        stack.advance(seconds=1)
    client.send(TOPIC, "the last", delay=3 * HOUR_S, key="k", replace=True)
    stack.advance(hours=4)
    assert [body for body, _ in taken(stack)] == ["the last"]


@pytest.mark.parametrize("minutes", [1, 20])
def test_what_was_refused_before_a_purge_stays_purged_when_it_is_redriven(minutes: int) -> None:
    faults, stack, client = opened()
    faults.refuse("topic_states.existing", minutes=1, instead=a_pack_that_cannot_be_read)
    put_pack(stack, a_message(stack, "before", 3 * HOUR_S, key="cart-17", seq=1))
    stack.advance(minutes=minutes)
    assert len(refused(stack)) == 1
    client.purge(TOPIC)
    stack.advance(seconds=1)
    client.redrive_service()
    stack.advance(hours=4)
    assert taken(stack) == [] and refused(stack) == []


def test_a_sender_cannot_hold_a_key_for_ever_by_a_time_in_the_future() -> None:
    _, stack, client = opened()
    forged = a_message(stack, "forged", 3 * HOUR_S, key="k", replace=True, seq=1)
    put_pack(stack, forged, sent_in_ms=365 * DAY_S * 1000)
    stack.advance(minutes=10)
    client.send(TOPIC, "mine", delay=2 * HOUR_S, key="k", replace=True)
    stack.advance(hours=4)
    assert [body for body, _ in taken(stack)] == ["mine"]


def test_a_few_refused_calls_after_an_outage_keep_their_own_packs_alone() -> None:
    faults, stack, _ = opened()
    faults.refuse("objects.put", minutes=40)
    seeded = random.Random(25)
    faults.refuse("notes.*", minutes=240, applies=lambda *_, **__: seeded.random() < 0.05)
    for number in range(300):
        put_pack(
            stack,
            a_message(stack, f"soon {number:03}", 20 * MINUTE_S),
            a_message(stack, f"later {number:03}", 2 * HOUR_S),
            queue=QUEUES[1],
        )
    stack.advance(hours=3)
    found = taken(stack)
    assert [body for body, _ in found] == sorted(f"{when} {i:03}" for i in range(300) for when in ("soon", "later"))
    late = [body for body, late_s in found if late_s >= 1]
    assert len(late) < 30 and not [body for body in late if body.startswith("later")]
    assert max(late_s for _, late_s in found) < 2 * 16 * MINUTE_S


def test_an_outage_of_the_table_does_not_cost_a_try_for_each_pack_or_key() -> None:
    faults, stack, _ = opened()
    faults.refuse("notes.read", minutes=30)
    faults.refuse("keys.claim", minutes=30)
    for number in range(300):
        put_pack(stack, a_message(stack, "a", 2 * HOUR_S, key=f"{number}", seq=number), queue=QUEUES[1])
    stack.advance(minutes=25)
    assert stack.invocations["ingest"] >= 2
    portions = 5  # of 300 packs that come again, since each has twice as many as the one before
    assert faults.calls["notes.read"] + faults.calls["keys.claim"] <= 10 * portions * stack.invocations["ingest"]
    stack.advance(hours=2)
    assert len(taken(stack)) == 300


def hot(_: str, entry: KeyEntry, *__: object) -> bool:
    return entry.key == "hot"


def throttled(*_: object) -> None:
    raise ConcurrentModification("settle key", TOPIC, 50)


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("refused_too", ["", "objects.put", "buckets.commit", "queues.send"])
def test_a_key_that_is_throttled_for_an_hour_keeps_its_own_messages_waiting_alone(queue: str, refused_too: str) -> None:
    faults, stack, _ = opened()
    faults.refuse("keys.*", minutes=60, instead=throttled, applies=hot)
    if refused_too:
        faults.refuse(refused_too, minutes=20)
    for number in range(4):
        put_pack(
            stack,
            a_message(stack, f"hot {number}", 3 * HOUR_S, key="hot", seq=number, replace=True),
            a_message(stack, f"cold {number}", 45 * MINUTE_S, key=f"cold {number}", seq=number),
            a_message(stack, f"near {number}", 40 * MINUTE_S),
            a_message(stack, f"far {number}", 6 * HOUR_S),
            queue=queue,
        )
        stack.advance(seconds=1)
    stack.advance(minutes=59)
    others = [f"{name} {number}" for name in ("cold", "near") for number in range(4)]
    found = taken(stack)
    assert [body for body, _ in found] == others
    assert max(late_s for _, late_s in found) < 1
    stack.advance(hours=3)
    assert [body for body, _ in taken(stack)] == ["hot 3"], "the newest"
    stack.advance(hours=3)
    assert [body for body, _ in taken(stack)] == [f"far {number}" for number in range(4)]
    assert refused(stack) == []


@pytest.mark.parametrize("minutes", [30, 80])
def test_a_table_that_takes_no_notes_while_a_key_is_throttled_makes_no_copies(minutes: int) -> None:
    faults, stack, _ = opened()
    faults.refuse("keys.*", minutes=60, instead=throttled, applies=hot)
    faults.refuse("notes.put", minutes=minutes)
    put_pack(
        stack,
        a_message(stack, "hot", 3 * HOUR_S, key="hot", seq=1),
        a_message(stack, "soon", MINUTE_S),
        a_message(stack, "far", 6 * HOUR_S),
    )
    put_pack(stack, a_message(stack, "beside", MINUTE_S))
    stack.advance(minutes=2)
    assert [body for body, _ in taken(stack)] == ["beside"]
    stack.advance(hours=7)
    assert [body for body, _ in taken(stack)] == ["far", "hot", "soon"]


def test_a_message_that_waits_for_its_key_beside_messages_that_were_sent_is_not_lost_while_s3_refuses() -> None:
    faults, stack, _ = opened()
    faults.refuse("keys.*", minutes=60, instead=throttled, applies=hot)
    faults.refuse("objects.put", minutes=30)
    put_pack(
        stack,
        a_message(stack, "hot", 2 * MINUTE_S, key="hot", seq=1),
        a_message(stack, "soon", 3 * MINUTE_S),
        a_message(stack, "far", 6 * HOUR_S),
    )
    stack.advance(hours=7)
    assert [body for body, _ in taken(stack)] == ["far", "hot", "soon"]


@pytest.mark.parametrize("refuses", ["", "tombstones.ids"], ids=["", "and the sending is refused at first"])
def test_a_commit_that_moved_sends_what_was_sealed_since_once(refuses: str) -> None:
    faults, stack, _ = opened()

    def sealed_meanwhile(*_: object) -> Commit:
        fault.applies = lambda *_: False
        state = stack.service.topic_states.read(TOPIC)
        assert state is not None
        stack.service.topic_states.seal(state, (stack.clock.now_ms() + 20 * MINUTE_S * 1000) // state.slot_ms)
        faults.refuse(refuses, minutes=20)
        return Commit.MOVED

    state = stack.service.topic_states.read(TOPIC)
    assert state is not None
    fault = faults.refuse("buckets.commit", instead=sealed_meanwhile)
    soon, since, later = (
        a_message(stack, name, minutes * MINUTE_S) for name, minutes in (("a", 1), ("b", 14), ("c", 25))
    )
    put_pack(stack, soon, since, later)
    stack.advance(hours=3)
    assert [body for body, _ in taken(stack)] == ["a", "b", "c"]


class Death(BaseException):
    """The process ends."""


def test_a_call_that_dies_of_packs_that_came_again_keeps_what_it_did() -> None:
    faults, stack, client = opened()
    for i in range(100):
        client.send(TOPIC, str(i), delay="3h")
    faults.refuse("objects.put", minutes=6)
    stack.advance(minutes=6)
    reads = count(1)

    def die(*_: object) -> None:
        raise Death

    faults.refuse("notes.read", applies=lambda *_: next(reads) == 50, instead=die)
    stack.advance(minutes=12)
    assert isinstance(stack.failures[-1].error, Death)
    assert client.stats(TOPIC).waiting == 32
    assert sum(len(stack.queue(name).everything) for name in QUEUES) == 68
    stack.advance(hours=4)
    assert [(body, late_s < 2) for body, late_s in taken(stack)] == [
        (body, True) for body in sorted(map(str, range(100)))
    ]


def test_a_doubt_while_plain_messages_are_adopted_makes_no_copies_of_what_the_call_has_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, stack, client = opened()
    client.create_topic("others")
    doubted = []

    def doubtful(pack: Pack, now_ms: int) -> bool:
        if pack.topic == "others" and not doubted:
            doubted.append(pack)
            raise ClockDoubted("now", "later")
        return False

    monkeypatch.setattr("tidewheel.flows.delivery.adopt._may_wait", doubtful)
    put_pack(stack, a_message(stack, "direct", 5))
    given = {"tidewheel.topic": "others", "tidewheel.delay": "1d"}
    attributes: Any = {name: {"DataType": "String", "StringValue": value} for name, value in given.items()}
    stack.sqs.send_message(QueueUrl=QUEUES[0], MessageBody="x" * 5000, MessageAttributes=attributes)
    stack.advance(hours=1)
    assert doubted
    assert [body for body, _ in taken(stack)] == ["direct"]
    assert client.stats("others").waiting == 1
