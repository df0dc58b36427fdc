"""Tests the contents of checkpoints and their bytes."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest

from tidewheel.errors import CorruptMetadata
from tidewheel.model.checkpoint import Checkpoint, checkpoint_of, decode_checkpoint, encode_checkpoint
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.message import Encoding, MessageId
from tidewheel.model.recurring import Recurring
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import Delivery, DeliveryKey, State, SubscriptionState
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import Purge, TopicState

STATE = TopicState(
    topic="orders",
    generation="g1",
    settings=TopicSettings(slot_s=60),
    sealed=9,
    planned=8,
    collected_until=5,
    purge_ms=7,
)
BILLING = SubscriptionState(
    topic="orders", name="billing", generation="s1", queue_url="https://q", cursor=8, start=3, created_at_ms=2
)
AUDIT = SubscriptionState(
    topic="orders",
    name="audit",
    generation="s2",
    queue_url="https://a",
    cursor=6,
    start=0,
    state=State.PAUSED,
    created_at_ms=1,
    created_slot=4,
)
DOCUMENT = {
    "v": 1,
    "topic": "orders",
    "generation": "g1",
    "settings": {"slot_s": 60},
    "written_at_ms": 1234,
    "marks": [9, 8, 5, 7],
    "subscriptions": [
        ["audit", "s2", "https://a", 6, 0, "PAUSED", 1, 4, {}],
        ["billing", "s1", "https://q", 5, 3, "ACTIVE", 2, 0, {}],
    ],
    "tombstones": [[10, "a", 50, None, 1], [11, "b", 60, None, 1]],
    "created_at_ms": None,
    "purges": [],
    "recurring": [],
    "keys": [],
    "keys_read": [0, 0],
}


def open_delivery(plan: int, generation: str = "s1") -> Delivery:
    key = DeliveryKey(topic="orders", subscription="billing", generation=generation, plan=plan)
    return Delivery(key=key, queue_url="https://q", parts=1, start=0, next_check_ms=0)


def a_checkpoint(**changes: Any) -> Checkpoint:
    deliveries = [open_delivery(7), open_delivery(5), open_delivery(6), open_delivery(1, generation="s0")]
    tombstones = [Tombstone(11, MessageId("b"), 60), Tombstone(10, MessageId("a"), 50)]
    return replace(checkpoint_of(STATE, [BILLING, AUDIT], deliveries, tombstones, 1234), **changes)


def test_a_cursor_goes_back_to_the_first_plan_that_is_still_being_delivered() -> None:
    assert [(each.name, each.cursor) for each in a_checkpoint().subscriptions] == [("audit", 6), ("billing", 5)]


def test_a_checkpoint_is_read_as_it_was_written() -> None:
    data = encode_checkpoint(a_checkpoint())
    assert decode_checkpoint(data) == a_checkpoint()
    written = json.loads(zlib.decompress(opened(data)))
    assert written == DOCUMENT | {"settings": json.loads(STATE.settings.to_json())}
    assert decode_checkpoint(sealed(zlib.compress(json.dumps(DOCUMENT).encode()))) == a_checkpoint()


DAILY = Recurring(
    topic="orders",
    name="daily",
    generation="r1",
    rule="{}",
    first_ms=5,
    text="hello",
    encoding=Encoding.TEXT,
    attributes={"color": "red"},
    expires_in_ms=60_000,
    group="tenant-7",
    window_ms=900_000,
)
KEPT: list[dict[str, Any]] = [
    {"subscriptions": (AUDIT, replace(BILLING, cursor=5, filter_policy='{"color":["red"]}', carry="id"))},
    {"created_at_ms": 76, "subscriptions": (replace(AUDIT, created_at_ms=77), BILLING)},
    {"purges": (Purge(first_ms=1, end_ms=2, sent_before_ms=3), Purge(first_ms=4, end_ms=5, sent_before_ms=6))},
    {"recurring": (DAILY, replace(DAILY, attributes={}, expires_in_ms=None, group=None, window_ms=None))},
]


@pytest.mark.parametrize("changes", KEPT, ids=["settings", "creation", "purges", "recurring"])
def test_each_field_is_kept_and_makes_a_difference(changes: dict[str, Any]) -> None:
    checkpoint = a_checkpoint(**changes)
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint
    assert not checkpoint.says_the_same(a_checkpoint())


def test_a_replay_does_not_take_a_cursor_back() -> None:
    again = replace(open_delivery(1), key=replace(open_delivery(1).key, replay="r1"))
    found = checkpoint_of(STATE, [BILLING], [again], [], 1234)
    assert found.subscriptions == (BILLING,)


def test_the_time_alone_makes_no_difference() -> None:
    assert a_checkpoint().says_the_same(a_checkpoint(written_at_ms=9))
    assert not a_checkpoint().says_the_same(a_checkpoint(sealed=10))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zlib",
        sealed(b"no zlib"),
        sealed(zlib.compress(b"no JSON")),
        sealed(zlib.compress(json.dumps(DOCUMENT | {"v": "2.0"}).encode())),
        sealed(zlib.compress(json.dumps(DOCUMENT | {"marks": [1]}).encode())),
        sealed(zlib.compress(json.dumps(DOCUMENT | {"subscriptions": [["a"]]}).encode())),
        sealed(zlib.compress(json.dumps(DOCUMENT | {"settings": {"slot_s": 0}}).encode())),
        sealed(zlib.compress(b"[]")),
    ],
)
def test_what_is_no_checkpoint_is_said(data: bytes) -> None:
    with pytest.raises(CorruptMetadata, match="checkpoint is not readable"):
        decode_checkpoint(data)
