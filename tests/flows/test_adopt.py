"""Tests how plain messages become packs: cancels, large bodies, and forwarding."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.flows.world import HOUR, TOPIC, World, ids_of
from tidewheel.errors import QueueUnavailable, TopicReplaced
from tidewheel.flows.delivery.adopt import FORWARD_MS, Adopted, adopt
from tidewheel.flows.delivery.ingest_batch import pack_of
from tidewheel.model.key import KeyEntry
from tidewheel.model.message import SQS_MAX_BYTES
from tidewheel.model.pack import PACK_ATTRIBUTE, Arrival, Pack
from tidewheel.model.plain import PREFIX, read_plain
from tidewheel.model.received import QueuedMessage
from tidewheel.model.triggers import KEYED_URGENT_MS

Named = tuple[str, Pack]
FAR_S = 7_200


def queued(name: str, body: str, sent_at_ms: int, **wishes: str) -> QueuedMessage:
    attributes = {PREFIX + key: {"StringValue": value} for key, value in ({"topic": TOPIC} | wishes).items()}
    return QueuedMessage(
        id=name,
        body=body,
        attributes=attributes if body[:1] != "{" else {},
        sent_at_ms=sent_at_ms,
        receives=1,
        queue_arn="",
    )


def plain(world: World, name: str, body: str = "x", *, retried: bool = False, age_ms: int = 0, **wishes: Any) -> Named:
    """Returns a plain message as ingest reads it."""
    message = queued(name, body, world.clock.now_ms() - age_ms, **{key: str(value) for key, value in wishes.items()})
    arrival = Arrival(name=name, retried=retried, taken_ms=message.sent_at_ms)
    return name, read_plain(message, None).pack(arrival)


def envelope(world: World, name: str, *messages: Any) -> Named:
    return plain(world, name, json.dumps({"tidewheel": {"topic": TOPIC}, "messages": messages}))


class Bulk:
    """Keeps forwarded packs. Refuses the packs from a number on."""

    def __init__(self, takes: int = 1000) -> None:
        self.packs: list[bytes] = []
        self.takes = takes

    def __call__(self, _messages: int, pack: bytes) -> None:
        if len(self.packs) >= self.takes:
            raise QueueUnavailable("bulk", "not now")
        self.packs.append(pack)


def adopted(world: World, batch: Sequence[Named], forward: Callable[[int, bytes], None] | None = None) -> Adopted:
    return adopt(world.ports, TOPIC, batch, "bucket", forward)


def names(done: Adopted) -> list[str]:
    return [name for name, _ in done.packs]


# ---- forwarding
def test_what_can_wait_is_forwarded_together_and_the_rest_is_ingested_here() -> None:
    world, bulk = World(), Bulk()
    batch = [plain(world, "far", delay=FAR_S), plain(world, "near", delay=60), plain(world, "far too", delay=FAR_S)]

    done = adopted(world, batch, bulk)

    assert (names(done), done.forwarded, len(bulk.packs), done.pending) == (["near"], 2, 1, [])
    assert done.packs[0][1].generation == world.state.generation


@pytest.mark.parametrize(("wishes", "least_ms"), [({}, FORWARD_MS), ({"key": "k"}, KEYED_URGENT_MS)])
def test_a_message_is_forwarded_only_if_it_is_in_time_although_a_call_dies(
    wishes: dict[str, str], least_ms: int
) -> None:
    world, bulk = World(), Bulk()
    batch = [plain(world, f"{ms}", delay=(least_ms + ms) / 1000, **wishes) for ms in (0, 1)]

    assert names(adopted(world, batch, bulk)) == ["0"]


def test_messages_of_an_envelope_go_one_way_together() -> None:
    world, bulk = World(), Bulk()
    batch = [envelope(world, "mixed", {"body": "a", "delay": FAR_S}, {"body": "b", "delay": 5})]

    done = adopted(world, batch, bulk)

    assert [len(pack) for _, pack in done.packs] == [2] and not bulk.packs


def test_a_forwarded_pack_keeps_ids_sending_times_and_the_generation() -> None:
    world, bulk = World(), Bulk()
    now_ms = world.clock.now_ms()
    batch = [plain(world, "a", age_ms=70_000, delay=FAR_S), plain(world, "b", delay=FAR_S, key="k", replace="true")]

    adopted(world, batch, bulk)
    data = {PACK_ATTRIBUTE: {"BinaryValue": bulk.packs[0]}}
    pack = pack_of(QueuedMessage(id="", body="", attributes=data, sent_at_ms=now_ms, receives=1, queue_arn=""))

    assert pack.generation == world.state.generation
    assert ids_of(pack) == [*ids_of(batch[0][1]), *ids_of(batch[1][1])]
    assert pack.own_sent_ms == [now_ms - 70_000, now_ms] and pack.options is not None and pack.options[0] is None


def test_messages_are_all_ingested_here_if_the_bulk_queue_takes_only_some() -> None:
    world, bulk = World(), Bulk(takes=1)
    batch = [envelope(world, f"{i}", *[{"body": "x", "delay": FAR_S}] * 900) for i in range(2)]

    done = adopted(world, batch, bulk)

    assert (names(done), done.forwarded, len(bulk.packs)) == (["0", "1"], 0, 1)


def test_a_message_that_was_tried_before_is_not_forwarded() -> None:
    world, bulk = World(), Bulk()

    assert names(adopted(world, [plain(world, "a", delay=FAR_S, retried=True)], bulk)) == ["a"]
    assert not bulk.packs


# ---- large bodies
@pytest.mark.parametrize("character", ["x", "ä", "\U0001f600"])
def test_a_body_that_fits_with_its_attributes_and_not_with_our_header_is_stored_under_one_name(character: str) -> None:
    world = World()
    used = sum(len(PREFIX + name) + len(value) + len("String") for name, value in (("topic", TOPIC), ("delay", "60")))
    room = SQS_MAX_BYTES - used
    body = character * (room // len(character.encode()))
    message = plain(world, "large", body, delay=60)

    tries = [adopted(world, [message]).packs[0][1] for _ in range(2)]

    [name] = world.service.objects.names("payloads/")
    assert tries[0] == tries[1]
    options = (tries[0].options or [None])[0]
    assert options is not None and (options.payload, options.payload_bytes) == (name, len(body.encode()))


def test_a_body_beside_large_attributes_is_stored_too() -> None:
    world = World()
    attributes = {"data": {"StringValue": "v" * 500_000}, PREFIX + "topic": {"StringValue": TOPIC}}
    message = replace(queued("large", "x" * 548_400, world.clock.now_ms()), attributes=attributes)
    pack = read_plain(message, None).pack(Arrival(name="large", retried=False))

    adopted(world, [("large", pack)])

    assert len(world.service.objects.names("payloads/")) == 1


def test_a_body_that_cannot_be_stored_keeps_its_message_alone_in_the_queue() -> None:
    world = World()
    body = "x" * (SQS_MAX_BYTES - 100)
    batch = [plain(world, "large", body), plain(world, "small")]

    with patch.object(world.service.objects, "put", side_effect=OSError("no S3")):
        done = adopted(world, batch)

    assert names(done) == ["small"]
    assert [(each.names, str(each.error)) for each in done.pending] == [(["large"], "no S3")]


# ---- cancels
def cancel_of(world: World, name: str = "cancel", key: str = "k", **given: Any) -> Named:
    return plain(world, name, key=key, cancel="true", **given)


def entry(world: World, key: str = "k") -> KeyEntry:
    found = world.service.keys.read(TOPIC, key)
    assert found is not None
    return found


def test_a_cancel_that_fails_leaves_its_own_message_alone() -> None:
    world, bulk = World(), Bulk()
    read = world.service.keys.read

    def fails(topic: str, key: str) -> KeyEntry | None:
        if key == "bad":
            raise OSError("no answer")
        return read(topic, key)

    batch = [
        cancel_of(world, "bad", key="bad"),
        cancel_of(world, "good"),
        plain(world, "near"),
        plain(world, "far", delay=FAR_S),
    ]
    with patch.object(world.service.keys, "read", fails):
        done = adopted(world, batch, bulk)

    assert [each.names for each in done.pending] == [["bad"]]
    assert (names(done), done.forwarded) == (["near"], 1)
    assert entry(world).cancelled


def test_the_messages_of_an_envelope_wait_while_its_cancel_fails() -> None:
    world, bulk = World(), Bulk()
    batch = [envelope(world, "both", {"key": "k", "cancel": True}, {"body": "x", "delay": FAR_S})]

    with patch.object(world.service.keys, "claim", side_effect=OSError("no answer")):
        done = adopted(world, batch, bulk)

    assert not done.packs and not bulk.packs and [each.names for each in done.pending] == [["both"]]


def test_a_cancel_has_the_version_of_its_sending_and_never_a_higher_one() -> None:
    world = World()
    world.send(HOUR, key="k", replace=True)
    newest = entry(world)

    adopted(world, [cancel_of(world, age_ms=1000)])
    assert entry(world) == newest

    world.clock.advance_ms(1000)
    adopted(world, [cancel_of(world)])
    assert entry(world).version[0] == world.clock.now_ms() and entry(world).cancelled


# ---- topics that come and go
def recreated(world: World) -> None:
    """Replaces the topic by a successor, as a deletion ten minutes ago and a creation do."""
    state = world.state
    assert world.service.deletions.mark(state, "deleting", world.clock.now_ms())
    marked = world.service.deletions.read(TOPIC)
    world.clock.advance_ms(600_000)
    assert marked is not None and world.service.deletions.forget(marked, 10**10)
    successor = replace(state, generation="successor", created_at_ms=world.clock.now_ms())
    assert world.service.topic_states.create(successor)


def test_a_message_sent_before_the_deletion_is_refused_and_cancels_nothing() -> None:
    world, bulk = World(), Bulk()
    before = [plain(world, "message", delay=FAR_S), cancel_of(world)]
    world.clock.advance_ms(3 * world.service.max_skew_ms)
    recreated(world)

    done = adopted(world, [*before, plain(world, "after", age_ms=500_000)], bulk)

    assert names(done) == ["after"] and not bulk.packs
    assert all(isinstance(each.error, TopicReplaced) for each in done.pending) and len(done.pending) == 2
    assert world.service.keys.read(TOPIC, "k") is None


def test_a_deleters_clock_behind_sqs_lets_no_message_through() -> None:
    world = World()
    sent = plain(world, "message", age_ms=-world.service.max_skew_ms + 1)
    recreated(world)

    assert not adopted(world, [sent]).packs


def test_a_topic_whose_creation_time_is_unknown_asks_when_the_name_was_deleted() -> None:
    world = World()
    sent = plain(world, "message", age_ms=1000)
    recreated(world)
    state = replace(world.state, created_at_ms=None)

    with patch.object(world.service.topic_states, "read", lambda _: state):
        assert not adopted(world, [sent]).packs
