"""Tests packs from senders and from strangers."""

from __future__ import annotations

import base64
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.packs import fields_of, pack_of
from tidewheel.errors import CorruptPack, NewerRelease
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.message import MAX_MESSAGE_BYTES, SQS_MAX_BYTES, TIMES_END_MS, IdSource, Message, id_text
from tidewheel.model.pack import (
    _MOST_HEADER_BYTES,
    MAX_MESSAGES,
    MAX_PACK_BYTES,
    SENDER_SKEW_MS,
    _header_bytes,
    decode_pack,
    packs,
)
from tidewheel.model.validation import MAX_PAYLOAD_BYTES, Options, OutgoingMessage, check_message

NOW_MS = 1_800_000_000_000
CHARACTERS = st.characters(min_codepoint=0x20, exclude_categories=["Cs"], exclude_characters="\ufffe\uffff")
TEXTS = st.text(CHARACTERS, min_size=1, max_size=60)
MESSAGES = st.builds(
    Message,
    body=st.one_of(TEXTS, st.binary(min_size=1, max_size=60), st.lists(st.integers(), max_size=5)),
    delay=st.integers(0, MAX_DELAY_MS // 1000),
    attributes=st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), TEXTS, max_size=3),
)


def checked(*messages: Message) -> list[OutgoingMessage]:
    ids = IdSource()
    return [check_message(each, ids, NOW_MS) for each in messages]


def document(**changes: Any) -> dict[str, Any]:
    """A good pack's fields, with changes. A change to None leaves the field out."""
    [(_, data)] = packs("orders", "g1", NOW_MS, checked(Message(body="one"), Message(body=b"two")))
    fields = fields_of(data) | changes
    return {name: value for name, value in fields.items() if value is not None}


@given(st.lists(MESSAGES, min_size=1, max_size=30))
def test_what_is_packed_comes_back_whole_and_in_order(messages: list[Message]) -> None:
    sent = checked(*messages)
    seen: list[int] = []
    for indexes, data in packs("orders", "g1", NOW_MS, sent):
        pack = decode_pack(data, NOW_MS)
        assert (pack.topic, pack.generation, pack.sent_at_ms) == ("orders", "g1", NOW_MS)
        assert len(pack) == len(indexes)
        for place, index in enumerate(indexes):
            message = sent[index]
            assert pack.ids[16 * place : 16 * place + 16] == message.id
            assert (pack.texts[place], pack.encodings[place]) == (message.text, message.encoding)
            assert (pack.attributes[place] if pack.attributes else {}) == message.attributes
        seen += indexes
    assert seen == list(range(len(messages)))


@pytest.mark.parametrize("character", ["x", '"', "\t", "é", "水", "🌊"])
def test_a_message_of_exactly_the_limit_fits_a_pack_and_is_read_back(character: str) -> None:
    body = character * (MAX_MESSAGE_BYTES // len(character.encode()))
    [(_, data)] = packs("orders", "g1", NOW_MS, checked(Message(body=body)))
    assert decode_pack(data, NOW_MS).texts == [body]


def test_the_text_that_compresses_worst_still_fits_sqs_and_is_read_back() -> None:
    chance = random.Random(7)
    # Each length of UTF-8 as often as makes the bytes least predictable.
    ranges = [(0x20, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0x10000, 0x10FFFF)]
    picked = chance.choices(ranges, weights=[0.66, 0.3, 0.03, 0.005], k=700_000)
    body = "".join(chr(chance.randint(*span)) for span in picked).encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
    assert len(body.encode()) > 900_000
    [(_, data)] = packs("orders", "g1", NOW_MS, checked(Message(body=body)))
    assert len(data) < SQS_MAX_BYTES - 200
    assert decode_pack(data, NOW_MS).texts == [body]


def test_many_large_messages_are_spread_over_packs_that_each_fit() -> None:
    chance = random.Random(7)
    sent = checked(*(Message(body=chance.randbytes(150_000)) for _ in range(20)))
    made = list(packs("orders", "g1", NOW_MS, sent))
    assert [i for indexes, _ in made for i in indexes] == list(range(20))
    assert all(len(data) <= MAX_PACK_BYTES for _, data in made)


@pytest.mark.parametrize("where", ["body", "attributes"])
def test_wide_characters_that_compress_well_do_not_pass_the_readers_bound(where: str) -> None:
    wide = "🌊" * 50_000
    fields: dict[str, Any] = {"body": wide} if where == "body" else {"body": "x", "attributes": {"a": wide}}
    sent = checked(*(Message(**fields) for _ in range(40)))
    made = list(packs("orders", "g1", NOW_MS, sent))
    assert sum(len(decode_pack(data, NOW_MS)) for _, data in made) == 40


def test_a_pack_holds_at_most_ten_thousand_messages() -> None:
    sent = checked(*(Message(body="x") for _ in range(MAX_MESSAGES + 1)))
    assert [len(indexes) for indexes, _ in packs("orders", "g1", NOW_MS, sent)] == [MAX_MESSAGES, 1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topic": "no topic"}, "bad field"),
        ({"topic": "orders\n"}, "bad field"),
        ({"gen": ""}, "generation"),
        ({"gen": "\ud800"}, "generation"),
        ({"sent": True}, "sending time"),
        ({"times": {}}, "sending times"),
        ({"times": [1]}, "sending times"),
        ({"times": [1, NOW_MS + SENDER_SKEW_MS + 1]}, "later than the pack"),
        ({"times": [True, 1]}, "bad field"),
        ({"ids": "AAAA"}, "columns"),
        ({"enc": "03"}, "bad field"),
        ({"enc": "\u0660\u0660"}, "bad field"),
        ({"enc": "0"}, "columns"),
        ({"sizes": [3]}, "columns"),
        ({"sizes": [3, 5]}, "sizes"),
        ({"sizes": [7, 0]}, "whole number"),
        ({"sizes": [8, -1]}, "whole number"),
        ({"sizes": [True, 6]}, "whole number"),
        ({"bodies": ["a", ""]}, "whole number"),
        ({"bodies": [b"\xff", "dHdv"]}, "UTF-8"),
        ({"bodies": ["\u00e9", "dHdv"], "sizes": [1, 5]}, "UTF-8"),
        ({"bodies": ["x\uffff", "dHdv"]}, "SQS refuses"),
        ({"bodies": ["one", "no base64"]}, "cannot be delivered"),
        ({"bodies": ["x" * (MAX_MESSAGE_BYTES + 1), "dHdv"]}, "come to"),
        ({"attrs": [{}]}, "do not fit"),
        ({"attrs": [{}, []]}, "not an object"),
        ({"attrs": [{}, {"a": 1}]}, "attribute a"),
        ({"attrs": [{}, {"a": "\ud800"}]}, "SQS refuses"),
        ({"attrs": [{}, {f"a{i}": "x" for i in range(10)}]}, "at most 9"),
    ],
)
def test_a_column_that_no_sender_writes_is_refused_with_the_reason(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(CorruptPack, match=reason):
        decode_pack(pack_of(document(**change)), NOW_MS)


def test_messages_keep_their_own_sending_times() -> None:
    one, two = checked(Message(body="one"), Message(body="two"))
    [(_, data)] = packs("orders", "g1", NOW_MS, [replace(one, sent_at_ms=NOW_MS - 7), two])
    pack = decode_pack(data, NOW_MS)
    assert [pack.sent_ms(0), pack.sent_ms(1)] == [NOW_MS - 7, NOW_MS] and pack.options is None


def test_a_delivery_time_over_ten_years_and_a_day_ahead_is_refused() -> None:
    latest = NOW_MS + MAX_DELAY_MS + 86_400_000
    for due_ms, fine in ((latest, True), (latest + 1, False)):
        ids = base64.b64encode(IdSource().next(due_ms) * 2).decode()
        if fine:
            assert len(decode_pack(pack_of(document(ids=ids)), NOW_MS)) == 2
        else:
            with pytest.raises(CorruptPack, match="ten years"):
                decode_pack(pack_of(document(ids=ids)), NOW_MS)


def test_other_versions_cut_packs_and_trailing_bytes_are_refused() -> None:
    good = pack_of(document())
    for data, reason in (
        (b"", "too few"),
        (good[:-3], "checksum"),
        (good + b"x", "checksum"),
        (sealed(b"\x00" + opened(good)[1:]), "version 0"),
        (sealed(opened(good)[:-3]), "cut short"),
        (sealed(opened(good) + b"x"), "followed by"),
    ):
        with pytest.raises(CorruptPack, match=reason):
            decode_pack(data, NOW_MS)
    with pytest.raises(NewerRelease, match="version 2"):
        decode_pack(sealed(b"\x02" + opened(good)[1:]), NOW_MS)


# ---- large bodies
_LARGE = {
    "payload": f"payloads/orders/2027-01-15/{'0' * 26}-{'0' * 16}",
    "payload_sha256": "a" * 64,
    "payload_bytes": 9,
}


def test_the_name_hash_and_length_of_a_body_in_s3_come_in_a_pack() -> None:
    [options, _] = decode_pack(pack_of(document(opts=[_LARGE, None])), NOW_MS).options or []
    assert options is not None and options.document() == _LARGE


@pytest.mark.parametrize(
    "wrong",
    [
        {"payload_sha256": None},
        {"payload_bytes": None},
        {"payload": None},
        {"payload_sha256": "A" * 64},
        {"payload_sha256": "a" * 63},
        {"payload_sha256": "a" * 64 + "\n"},
        {"payload_sha256": 7},
        {"payload_bytes": -1},
        {"payload_bytes": True},
        {"payload_bytes": MAX_PAYLOAD_BYTES + 1},
    ],
)
def test_a_hash_or_length_that_no_body_has_is_refused(wrong: dict[str, Any]) -> None:
    given = {name: value for name, value in (_LARGE | wrong).items() if value is not None}
    with pytest.raises(CorruptPack, match=r"payload|body in S3"):
        decode_pack(pack_of(document(opts=[given, None])), NOW_MS)


@pytest.mark.parametrize("wrong", ["", "x" * 513, "é", "a\n", 7, {}])
@pytest.mark.parametrize("name", ["traceparent", "tracestate"])
def test_a_trace_context_that_no_header_takes_is_refused(name: str, wrong: object) -> None:
    with pytest.raises(CorruptPack, match="trace context"):
        decode_pack(pack_of(document(opts=[{name: wrong}, None])), NOW_MS)


def test_the_largest_header_is_as_large_as_is_reckoned_with() -> None:
    key = "\U0010ffff" * 256
    options = Options(
        seq=(1 << 53) - 1,
        expires_at_ms=TIMES_END_MS - 1,
        attempt=(1 << 53) - 1,
        original_id=id_text(b"\x7f" * 16),
        payload=f"payloads/{'t' * 48}/2027-01-15/{'0' * 26}-{'0' * 16}",
        payload_sha256="a" * 64,
        payload_bytes=MAX_PAYLOAD_BYTES,
        recurring=key,
        only="s" * 48,
        first_version=(key, TIMES_END_MS - 1, (1 << 53) - 1),
        group="\\" * 128,
        traceparent="0" * 55,
        tracestate="\\" * 512,
    )
    assert _header_bytes(b"\x7f" * 16, TIMES_END_MS - 1, options) < _MOST_HEADER_BYTES
