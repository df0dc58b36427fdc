"""Mended defects found by hostile input. Each test fails without its mend."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.flows.alone import sweep_payloads
from tests.fuzz.good import CHECKPOINT, IDS, ITEMS, NOW_MS, PACKS, PLAN
from tests.packs import fields_of, pack_of
from tidewheel import InvalidValue
from tidewheel.errors import CorruptMetadata, CorruptPack, NewerRelease, UnsupportedLayout
from tidewheel.flows.delivery.sending import queue_messages
from tidewheel.ledger.rows import pack_rows
from tidewheel.local import MemoryTidewheel
from tidewheel.model.checkpoint import decode_checkpoint
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.message import MAX_MESSAGE_BYTES, IdSource, Message
from tidewheel.model.pack import decode_pack, packs
from tidewheel.model.plan import decode_plan
from tidewheel.model.received import parse_received
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import LAYOUT
from tidewheel.model.validation import Options, check_key, check_message
from tidewheel.storage import items
from tidewheel.storage.table_keys import CLIENT_ITEMS


def _packed(message: Message, resend: Options | None = None) -> bytes:
    checked = check_message(message, IdSource(), NOW_MS, resend=resend)
    [(_, data)] = packs("orders", "g1", NOW_MS, [checked])
    return data


def _changed(**changes: Any) -> bytes:
    return pack_of(fields_of(PACKS[0]) | changes)


@pytest.mark.parametrize("options", [Options(only="ref"), Options(first_version=("ref", 1, 2))])
def test_bytes_for_a_subscription_or_with_a_key_called_ref_arrive_as_they_were_sent(options: Options) -> None:
    data = _packed(Message(body=b"\x00\xff\x80"), options)
    [release] = queue_messages(pack_rows(decode_pack(data, NOW_MS)), TopicSettings())
    assert release.text == "AP+A"


def test_a_time_that_no_clock_shows_is_refused_since_no_consumer_could_read_the_message() -> None:
    for changes in (
        {"sent": 253_402_300_800_000},
        {"opts": [{"expires_at_ms": 253_402_300_800_000}, None]},
        {"opts": [{"first_version": ["k", 253_402_300_800_000, 1]}, None]},
    ):
        with pytest.raises(CorruptPack):
            decode_pack(_changed(**changes), NOW_MS)
    pack = decode_pack(_changed(sent=253_402_300_799_999), NOW_MS)
    header = queue_messages(pack_rows(pack), TopicSettings())[0].header
    raw = {"Body": "x", "MessageId": "m", "ReceiptHandle": "r"}
    received = parse_received(raw | {"MessageAttributes": {"tidewheel": {"StringValue": header}}})
    assert received.sent_at.year == 9999


@pytest.mark.parametrize(
    "options", [{"key": "\\" * 250, "seq": 1}, {"recurring": "水" * 250}, {"first_version": ["水" * 250, 1, 2]}]
)
def test_a_message_that_its_header_makes_too_large_for_sqs_is_refused_by_ingest(options: dict[str, Any]) -> None:
    fields = fields_of(_packed(Message(body="x", key="k" if "key" in options else None))) | {"opts": [options]}
    with pytest.raises(CorruptPack, match="header come to"):
        decode_pack(pack_of(fields | {"bodies": ["x" * 1_048_100]}), NOW_MS)
    assert len(decode_pack(pack_of(fields), NOW_MS)) == 1


@pytest.mark.parametrize("character", ["\ufffe", "\uffff"])
def test_a_key_of_characters_that_sqs_refuses_is_refused_when_it_is_sent(character: str) -> None:
    with pytest.raises(InvalidValue, match="without control characters"):
        check_key(f"a{character}")


@pytest.mark.parametrize(
    "header",
    [
        {"seq": "3"}, {"attempt": None}, {"key": 7}, {"ref": "ledgers/orders/x"}, {"only": []}, {"sha256": 7},
        {"sha256": None}, {"bytes": -1}, {"bytes": 1.0},
    ],
)  # fmt: skip
def test_a_header_with_a_value_that_cannot_be_is_none_of_ours(header: dict[str, Any]) -> None:
    whole = {"id": "01KDVDNA00A000000000000000", "enc": 0, "sent": NOW_MS} | header
    raw = {"Body": "x", "MessageId": "m", "ReceiptHandle": "r"}
    with pytest.raises(InvalidValue, match="not a message that Tidewheel delivered"):
        parse_received(raw | {"MessageAttributes": {"tidewheel": {"StringValue": json.dumps(whole)}}})


def test_marks_of_large_bodies_that_a_sender_wrote_delete_nothing_and_are_not_read_whole() -> None:
    forged = [json.dumps([[0, 10**15]]).encode(), b"[" * 50_000, b"[[1e999, 5]]", b" " * 70_000 + b"[[0, 0]]"]
    for marks in forged:
        with MemoryTidewheel(start=datetime(2026, 1, 1, tzinfo=UTC)) as stack:
            client = stack.client()
            client.create_topic("orders")
            client.send("orders", "x" * 1_100_000, delay="20d")
            stack.advance(hours=1)
            stack.service.objects.put("payloads/orders/collected.json", sealed(marks))
            assert sweep_payloads(stack.service) == 0
            assert len([each for each in stack.service.objects.list("payloads/") if "2026-" in each.name]) == 1


@pytest.mark.parametrize("kind", ITEMS)
def test_an_item_of_a_newer_version_says_to_upgrade_and_one_of_a_newer_layout_too(kind: str) -> None:
    decode = getattr(items, f"decode_{kind}")
    with pytest.raises(CorruptMetadata, match="reads version 1: upgrade"):
        decode(ITEMS[kind] | {"v": {"N": "2"}})
    newer_layout = ITEMS[kind] | {"layout": {"N": str(LAYOUT + 1)}}
    if kind in CLIENT_ITEMS:  # a sender may put one, with any attribute: see below
        assert decode(newer_layout) == decode(ITEMS[kind])
        return
    with pytest.raises(UnsupportedLayout):
        decode(newer_layout)


@pytest.mark.parametrize("kind", CLIENT_ITEMS)
def test_an_item_that_a_sender_may_put_is_never_a_reason_to_wait_for_an_upgrade(kind: str) -> None:
    decode = getattr(items, f"decode_{kind}")
    with pytest.raises(CorruptMetadata) as refused:
        decode(ITEMS[kind] | {"v": {"N": "99"}, "layout": {"N": "99"}})
    assert type(refused.value) is CorruptMetadata


def test_a_plan_a_checkpoint_and_a_pack_of_a_newer_version_are_refused_as_such() -> None:
    with pytest.raises(CorruptMetadata, match="version 2; this release reads version 1"):
        decode_plan("orders", 1, 2, _newer(PLAN))
    with pytest.raises(UnsupportedLayout):
        decode_checkpoint(_newer(CHECKPOINT, LAYOUT + 1))
    with pytest.raises(NewerRelease, match="version 4; this release reads"):
        decode_pack(sealed(b"\x04" + opened(PACKS[0])[1:]), NOW_MS)


def _newer(stream: bytes, version: int = 2) -> bytes:
    return sealed(zlib.compress(json.dumps(json.loads(zlib.decompress(opened(stream))) | {"v": version}).encode()))


def test_a_purge_that_an_earlier_release_wrote_with_a_bound_before_1970_is_read() -> None:
    purges = [[-5, -1, 7], [-62_135_596_800_000, 9, 7]]
    state = items.decode_topic_state(ITEMS["topic_state"] | {"purges": {"S": json.dumps(purges)}})
    assert [[each.first_ms, each.end_ms, each.sent_before_ms] for each in state.purges] == purges
    document = json.loads(zlib.decompress(opened(CHECKPOINT))) | {"purges": purges}
    assert decode_checkpoint(sealed(zlib.compress(json.dumps(document).encode()))).purges == state.purges


@pytest.mark.parametrize(
    "resend",
    [
        Options(only="s" * 48, attempt=9, original_id=IDS[0], first_version=('"\\' * 128, NOW_MS, (1 << 53) - 1)),
        Options(only="s" * 48, attempt=9, original_id=IDS[0]),
        None,
    ],
)
def test_what_the_client_takes_ingest_takes_whatever_the_header_says(resend: Options | None) -> None:
    key = {} if resend is not None and resend.first_version else {"key": "k" * 256}
    small = check_message(Message(body="x", expires_in="3000d", **key), IdSource(), NOW_MS, resend=resend)
    body = "x" * (MAX_MESSAGE_BYTES - small.size + 1)
    largest = check_message(Message(body=body, expires_in="3000d", **key), IdSource(), NOW_MS, resend=resend)
    assert largest.size == MAX_MESSAGE_BYTES
    for _, data in packs("orders", "g1", NOW_MS, [largest]):
        assert len(decode_pack(data, NOW_MS)) == 1


@pytest.mark.parametrize("attributes", [None, [], "red"])
def test_a_checkpoint_whose_recurring_message_has_no_attributes_is_corrupt(attributes: object) -> None:
    document = json.loads(zlib.decompress(opened(CHECKPOINT)))
    document["recurring"][0][6] = attributes
    with pytest.raises(CorruptMetadata, match="checkpoint"):
        decode_checkpoint(sealed(zlib.compress(json.dumps(document).encode())))
