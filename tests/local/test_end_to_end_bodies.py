"""Bodies arrive unchanged, with all characters allowed by SQS, JSON, bytes, attributes, and the largest message."""

from __future__ import annotations

import os
import random
import string
from collections import Counter
from typing import Any

import boto3
import pytest

from tests.conftest import TOPIC, Orders, orders
from tidewheel.errors import InvalidValue
from tidewheel.model import validation
from tidewheel.model.message import MAX_ATTRIBUTES, MAX_MESSAGE_BYTES, SQS_MAX_BYTES, Message

# SQS's SendMessage reference: #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF.
RANGES = ((0x9, 0xA), (0xD, 0xD), (0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))
EVERY_CHARACTER = "".join(chr(code) for first, last in RANGES for code in range(first, last + 1))
TRICKY = [
    " ",
    "\t\n\r ",
    "\r\n line ends \r of \n all kinds \n\r",
    "null",
    '"quoted" \\ and \\u0041 and &amp; <tag/> ]]> %41',
    "e\u0301 \u00e9 \ufb01 \u1e9e \u0130",
    "\u202eright to left\u202c \u05d0\u0644",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "\ufeff\ue000\ufffd\u007f\u0085\u2028\u2029\U0010ffff",
]
SOON, FAR = "90s", "2d"
"""Sent at once, and through a ledger."""


def _wait(service: Orders, delay: str) -> None:
    service.stack.advance(days=2, minutes=1) if delay == FAR else service.stack.advance(minutes=2)


def _noise(size: int, *, seed: int = 1) -> str:
    """Returns hardly compressible ASCII text."""
    return "".join(random.Random(seed).choices(string.printable[:94], k=size))


@pytest.mark.parametrize("delay", [SOON, FAR])
def test_text_with_every_character_that_sqs_takes_arrives_unchanged(delay: str) -> None:
    step = 200_000
    texts = [EVERY_CHARACTER[i : i + step] for i in range(0, len(EVERY_CHARACTER), step)] + TRICKY
    with orders() as service:
        sent = service.client.send_many(TOPIC, [Message(body=text, delay=delay) for text in texts])
        _wait(service, delay)
        found = {message.id: message.body for message in service.take()}
        assert found == {receipt.id: text for receipt, text in zip(sent, texts, strict=True)}


@pytest.mark.parametrize("delay", [SOON, FAR])
def test_json_arrives_as_it_was(delay: str) -> None:
    bodies: list[Any] = [
        None,
        True,
        0,
        -1.5e-300,
        2**70,
        [],
        [""],
        {},
        {"nested": [{"ä": [None, {"": "\U0001f600"}]}]},
        ["\x00\x1f", "SQS refuses these characters, but JSON escapes them"],
    ]
    with orders() as service:
        sent = service.client.send_many(TOPIC, [Message(body=body, delay=delay) for body in bodies])
        _wait(service, delay)
        found = {message.id: message.json() for message in service.take()}
        assert found == {receipt.id: body for receipt, body in zip(sent, bodies, strict=True)}


@pytest.mark.parametrize("delay", [SOON, FAR])
def test_bytes_arrive_as_they_were_beside_text(delay: str) -> None:
    bodies = [b"\x00", bytes(range(256)), b"\xff\xfe" * 999, b"text", "\u00e4 text", {"not": "bytes \u00e4"}]
    with orders() as service:
        sent = service.client.send_many(TOPIC, [Message(body=body, delay=delay) for body in bodies])
        _wait(service, delay)
        found = {message.id: message for message in service.take()}
        for receipt, body in zip(sent, bodies, strict=True):
            message = found.pop(receipt.id)
            if isinstance(body, dict):
                assert message.json() == body
            else:
                assert message.bytes() == (body.encode() if isinstance(body, str) else body)
        assert found == {}


@pytest.mark.parametrize("delay", [SOON, FAR])
def test_nine_attributes_arrive_and_a_plain_client_sees_one_of_ours_more(delay: str) -> None:
    attributes = {f"name-{i}.of_{i}": text for i, text in enumerate(TRICKY)}
    assert len(attributes) == MAX_ATTRIBUTES
    with orders("billing", "audit") as service:
        service.client.send_many(
            TOPIC, [Message(body="with", delay=delay, attributes=attributes), Message(body="without", delay=delay)]
        )
        _wait(service, delay)
        found = {message.body: message.attributes for message in service.take()}
        assert found == {"with": attributes, "without": {}}
        plain = _plain_receive(service, "audit")
        assert {body: set(values) - {"tidewheel"} for body, values in plain.items()} == {
            "with": set(attributes),
            "without": set(),
        }
        assert all("tidewheel" in values for values in plain.values())
        sent = {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items()}
        assert {name: value for name, value in plain["with"].items() if name != "tidewheel"} == sent


def _plain_receive(service: Orders, subscription: str) -> dict[str, dict[str, Any]]:
    """Returns bodies and attributes received by a plain boto3 client over HTTP, with checksums verified."""
    session = boto3.Session(aws_access_key_id="any", aws_secret_access_key="any", region_name="us-east-1")
    sqs: Any = session.client("sqs", endpoint_url=service.stack.endpoint_url)
    [url] = [each.queue_url for each in service.client.subscriptions(TOPIC) if each.name == subscription]
    found: dict[str, dict[str, Any]] = {}
    while True:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
        if not answer.get("Messages"):
            return found
        for message in answer["Messages"]:
            found[message["Body"]] = message.get("MessageAttributes", {})


@pytest.mark.parametrize("delay", [SOON, FAR])
def test_messages_of_the_largest_size_arrive_through_the_sdk_and_a_plain_client(delay: str) -> None:
    attributes = {f"name{i}": _noise(1000, seed=i) for i in range(MAX_ATTRIBUTES)}
    taken = sum(len(name) + len(value) + len("String") for name, value in attributes.items())
    texts = [
        _noise(MAX_MESSAGE_BYTES),
        "\\" * MAX_MESSAGE_BYTES,  # JSON doubles it
        "\U0010ffff" * (MAX_MESSAGE_BYTES // 4),
        _noise(MAX_MESSAGE_BYTES - taken),
    ]
    with orders("billing", "audit") as service:
        messages = [Message(body=text, delay=delay) for text in texts[:-1]]
        messages.append(Message(body=texts[-1], delay=delay, attributes=attributes))
        service.client.send_many(TOPIC, messages)
        _wait(service, delay)
        assert service.stack.failures == []
        assert sorted(message.body for message in service.take()) == sorted(texts)
        plain = _plain_receive(service, "audit")
        assert set(plain) == set(texts)
        for body, values in plain.items():
            size = len(body.encode()) + sum(len(k) + len(v["StringValue"]) + len("String") for k, v in values.items())
            assert size <= SQS_MAX_BYTES


@pytest.mark.parametrize("delay", [SOON, FAR])
def test_bytes_of_the_largest_size_arrive(delay: str) -> None:
    body = os.urandom(MAX_MESSAGE_BYTES // 4 * 3)
    with orders() as service:
        service.client.send(TOPIC, body, delay=delay)
        _wait(service, delay)
        [message] = service.take()
        assert message.bytes() == body


@pytest.mark.parametrize(
    ("size", "attributes"), [(MAX_MESSAGE_BYTES + 1, {}), (MAX_MESSAGE_BYTES - 9, {"name": "value"})]
)
def test_a_message_over_the_limit_is_kept_in_s3_and_comes_whole(size: int, attributes: dict[str, str]) -> None:
    with orders() as service:
        before = Counter(service.stack.requests)
        body = _noise(size)
        service.client.send(TOPIC, body, attributes=attributes, delay="1h")
        assert (Counter(service.stack.requests) - before)["s3.PutObject"] == 1
        service.stack.advance(hours=1, minutes=1)
        [message] = service.take()
        assert (message.body, message.attributes, message.payload) == (body, attributes, None)


def test_a_message_that_even_s3_is_not_asked_to_keep_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "MAX_PAYLOAD_BYTES", 2 * MAX_MESSAGE_BYTES)
    with orders() as service:
        service.client.send(TOPIC, "the client has read the topic state", delay="1h")
        before = dict(service.stack.requests)
        with pytest.raises(InvalidValue, match="Split the body"):
            service.client.send(TOPIC, _noise(2 * MAX_MESSAGE_BYTES + 1), delay="1h")
        assert dict(service.stack.requests) == before
