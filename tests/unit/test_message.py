"""Tests ids, the checks before a send, and the parsing of received messages."""

from __future__ import annotations

import base64
import json
import os
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewheel.errors import InvalidValue
from tidewheel.model.duration import MAX_DELAY_MS
from tidewheel.model.message import (
    HEADER_ATTRIBUTE,
    HEADER_BYTES,
    MAX_MESSAGE_BYTES,
    Encoding,
    IdSource,
    Message,
    bytes_of_text,
    id_bytes,
    id_deliver_at_ms,
    id_floor,
    id_text,
    shift_ms,
)
from tidewheel.model.received import header_text, parse_received
from tidewheel.model.recurring import is_occurrence
from tidewheel.model.validation import OutgoingMessage, check_attributes, check_message

NOW_MS = 1_800_000_000_000
TIMES_MS = st.integers(0, NOW_MS + MAX_DELAY_MS)
# What SQS takes, as its SendMessage reference lists it.
GOOD_CHARACTERS = st.one_of(
    st.sampled_from("\t\n\r"), st.characters(min_codepoint=0x20, max_codepoint=0x10FFFF, exclude_categories=["Cs"])
).filter(lambda c: c not in "\ufffe\uffff")
ATTRIBUTE_NAMES = st.from_regex(r"[a-z][a-z0-9]{0,7}", fullmatch=True)
GOOD_TEXT = st.text(GOOD_CHARACTERS, min_size=1, max_size=200)


def check(body: Any = "x", **fields: Any) -> OutgoingMessage:
    return check_message(Message(body=body, **fields), IdSource(), NOW_MS)


def delivered(message: OutgoingMessage) -> dict[str, Any]:
    """The message as received from SQS."""
    message_id = id_text(message.id)
    values = {**message.attributes, HEADER_ATTRIBUTE: header_text(message_id, message.encoding, NOW_MS)}
    return {
        "MessageId": "m-1",
        "ReceiptHandle": "r-1",
        "Body": message.text,
        "Attributes": {"ApproximateReceiveCount": "2"},
        "MessageAttributes": {k: {"DataType": "String", "StringValue": v} for k, v in values.items()},
    }


@given(TIMES_MS, TIMES_MS)
def test_ids_sort_by_due_time_as_bytes_and_as_text(one_ms: int, other_ms: int) -> None:
    one, other = IdSource().next(one_ms), IdSource().next(other_ms)
    if one_ms != other_ms:
        assert (one < other) == (one_ms < other_ms) == (id_text(one) < id_text(other))


@given(st.binary(min_size=16, max_size=16))
def test_an_id_comes_back_from_its_text(binary: bytes) -> None:
    text = id_text(binary)
    assert len(text) == 26
    assert id_bytes(text) == binary


@given(TIMES_MS, st.sampled_from([1000, 60_000, 300_000]))
def test_an_id_alone_tells_its_slot(time_ms: int, slot_ms: int) -> None:
    binary = IdSource().next(time_ms)
    assert id_deliver_at_ms(binary) // slot_ms == time_ms // slot_ms
    assert id_floor(time_ms) <= binary < id_floor(time_ms + 1)


def test_ids_of_one_sender_and_millisecond_keep_their_order() -> None:
    source = IdSource()
    made = [source.next(NOW_MS) for _ in range(1000)]
    assert made == sorted(set(made))


def test_ids_made_by_many_threads_are_all_different() -> None:
    source, made = IdSource(), []

    def make() -> None:
        made.extend([source.next(NOW_MS + i % 3) for i in range(2000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(made)) == 8000


@given(TIMES_MS, st.integers(1, 604_800_000))
def test_the_low_bits_of_an_id_tell_by_how_much_its_window_shifted_it(time_ms: int, window_ms: int) -> None:
    binary = IdSource().next_in_window(time_ms, window_ms, topic="orders", key=None)
    shift = shift_ms(window_ms, topic="orders", key=None, random_bits=int.from_bytes(binary[8:]))
    assert id_deliver_at_ms(binary) == time_ms + shift
    assert 0 <= shift < window_ms
    assert not is_occurrence(binary)


def test_a_key_shifts_its_messages_by_a_hash_of_topic_and_key() -> None:
    shifts = [
        shift_ms(900_000, topic=topic, key=key, random_bits=bits)
        for topic, key, bits in [("orders", "cart-17", 1), ("orders", "cart-17", 2), ("carts", "cart-17", 1)]
    ]
    assert shifts == [501_404, 501_404, 417_457]  # of SHA-256's first eight bytes, big-endian


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_does_not_count_on_from_its_parents_id() -> None:
    source = IdSource()
    source.next(NOW_MS)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.next(NOW_MS))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 16) != source.next(NOW_MS)
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(
    "text", ["", "0" * 25, "0" * 27, "8" + "0" * 25, "I" * 26, "0" * 26 + "\n", "\uff10" * 26, None, 5]
)
def test_what_is_no_id_is_refused(text: Any) -> None:
    with pytest.raises(InvalidValue, match="message id"):
        id_bytes(text)


def test_text_json_and_bytes_each_say_their_encoding() -> None:
    assert (check("né").text, check("né").encoding) == ("né", Encoding.TEXT)
    assert (check({"né": [1, None]}).text, check({"né": [1, None]}).encoding) == ('{"né":[1,null]}', Encoding.JSON)
    for raw in (b"\0\xff", bytearray(b"\0\xff"), memoryview(b"\0.\xff")[::2]):
        assert (check(raw).text, check(raw).encoding) == ("AP8=", Encoding.BYTES)


def circular() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> list[Any]:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    "body",
    [
        "", b"", {1, 2}, pytest.param(object(), id="an object"), float("nan"), [float("inf")], {(1, 2): 3}, circular(),
        "\0", "a\x0bb", "\ud800", {"k": "\udfff"}, {"\ud83d": 1}, "\ufffe", "\uffff",
    ],
    ids=repr,
)  # fmt: skip
def test_a_body_that_sqs_or_json_refuses_is_refused_with_advice(body: Any) -> None:
    with pytest.raises(InvalidValue, match="body="):
        check(body)


def test_a_body_nested_too_deeply_for_json_is_refused() -> None:
    with pytest.raises(InvalidValue, match="nested too deeply"):
        check(deep())


@pytest.mark.parametrize("character", ["x", "é", "水", "🌊"])
def test_a_body_of_exactly_the_limit_goes_and_one_byte_more_does_not(character: str) -> None:
    width = len(character.encode())
    body = character * (MAX_MESSAGE_BYTES // width) + "x" * (MAX_MESSAGE_BYTES % width)
    assert check(body).text == body
    with pytest.raises(InvalidValue, match="SQS takes 1048320"):
        check(body + "x")


def test_attributes_count_towards_the_limit_with_their_name_and_type() -> None:
    attributes = {"né".encode("punycode").decode(): "é"}
    size = sum(len(name) + len(value.encode()) + len("String") for name, value in attributes.items())
    assert check_attributes(attributes) == size
    check("x" * (MAX_MESSAGE_BYTES - size), attributes=attributes)
    with pytest.raises(InvalidValue):
        check("x" * (MAX_MESSAGE_BYTES - size + 1), attributes=attributes)


@pytest.mark.parametrize(
    "name",
    ["", ".a", "a.", "a..b", "AWS.a", "aws.b", "Amazon.c", "a b", "é", "a" * 257, "a\n", HEADER_ATTRIBUTE, 5, None],
)
def test_an_attribute_name_that_sqs_refuses_is_refused(name: Any) -> None:
    with pytest.raises(InvalidValue, match="attribute name"):
        check(attributes={name: "x"})


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "a" * 256, "awsome", "amazon_x", "5", "Tidewheel"])
def test_an_attribute_name_that_sqs_takes_is_let_through(name: str) -> None:
    assert check(attributes={name: "x"}).attributes == {name: "x"}


@pytest.mark.parametrize("value", ["", None, 5, b"x", "\0", "\ud800"])
def test_an_attribute_value_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue, match="attribute a"):
        check(attributes={"a": value})


def test_nine_attributes_go_and_a_tenth_does_not() -> None:
    nine = {f"a{i}": "x" for i in range(9)}
    assert check(attributes=nine).attributes == nine
    with pytest.raises(InvalidValue, match="at most 9"):
        check(attributes={**nine, "b": "x"})
    with pytest.raises(InvalidValue, match="at most 9"):
        check(attributes={**nine, 5: "x"})


def test_a_checked_message_keeps_its_attributes_when_the_callers_mapping_changes() -> None:
    attributes = {"a": "1"}
    checked = check(attributes=attributes)
    attributes["a"] = "2"
    assert checked.attributes == {"a": "1"}


@given(
    st.one_of(GOOD_TEXT, st.binary(min_size=1), st.dictionaries(GOOD_TEXT, st.integers())),
    st.dictionaries(ATTRIBUTE_NAMES, GOOD_TEXT, max_size=9),
)
def test_a_delivered_message_is_what_was_sent(body: Any, attributes: dict[str, str]) -> None:
    checked = check(body, delay="3d", attributes=attributes)
    received = parse_received(delivered(checked))
    assert received.id == id_text(checked.id)
    assert received.attributes == attributes
    assert received.deliver_at == datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(days=3)
    assert received.sent_at == datetime.fromtimestamp(NOW_MS / 1000, UTC)
    assert received.receive_count == 2
    if isinstance(body, bytes):
        assert received.bytes() == body == bytes_of_text(checked.text, checked.encoding)
    elif isinstance(body, dict):
        assert received.json() == body
    else:
        assert received.body == body
        assert received.bytes() == body.encode()


@pytest.mark.parametrize(
    "header",
    [
        None, "", "[]", "7", "{}", "[" * 100_000, json.dumps({"id": "no", "enc": 0, "sent": 0}),
        json.dumps({"id": "0" * 26, "enc": 9, "sent": 0}), json.dumps({"id": "0" * 26, "enc": 0, "sent": 1e300}),
        json.dumps({"id": "0" * 26, "enc": 0, "sent": "x"}), json.dumps({"id": "7" + "Z" * 25, "enc": 0, "sent": 0}),
    ],
)  # fmt: skip
def test_a_message_that_tidewheel_did_not_deliver_is_refused(header: str | None) -> None:
    raw = delivered(check())
    raw["MessageAttributes"] = {} if header is None else {HEADER_ATTRIBUTE: {"StringValue": header}}
    with pytest.raises(InvalidValue, match="not a message that Tidewheel delivered"):
        parse_received(raw)


@given(st.binary(min_size=16, max_size=16), st.sampled_from(Encoding), st.integers(0, (1 << 48) - 1))
def test_our_attribute_fits_the_room_that_is_kept_for_it(binary: bytes, encoding: Encoding, sent_ms: int) -> None:
    text = header_text(id_text(binary), encoding, sent_ms)
    assert len(HEADER_ATTRIBUTE) + len("String") + len(text.encode()) < HEADER_BYTES
    assert json.loads(text) == {"id": id_text(binary), "enc": encoding, "sent": sent_ms}


def test_text_that_is_promised_to_be_base64_and_is_not_is_refused() -> None:
    for text in ("é", "a", "a b="):
        with pytest.raises(ValueError, match=r"base64|ASCII"):
            bytes_of_text(text, Encoding.BYTES)
    assert bytes_of_text(base64.b64encode(b"ok").decode(), Encoding.BYTES) == b"ok"
