"""Bodies arrive unchanged, with all characters allowed by SQS, JSON, bytes, attributes, and the largest message."""

from __future__ import annotations

import os
import random
import string
from typing import Any

import boto3
import pytest

from tests.conftest import TOPIC, Orders, orders
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
DELAYS = ("90s", "2d")
"""Sent at once, and through a ledger."""


def _noise(size: int, *, seed: int = 1) -> str:
    """Returns hardly compressible ASCII text."""
    return "".join(random.Random(seed).choices(string.printable[:94], k=size))


def test_text_with_every_character_that_sqs_takes_arrives_unchanged() -> None:
    step = 200_000
    texts = [EVERY_CHARACTER[i : i + step] for i in range(0, len(EVERY_CHARACTER), step)] + TRICKY
    messages = [Message(body=text, delay=delay) for delay in DELAYS for text in texts]
    with orders() as service:
        sent = service.client.send_many(TOPIC, messages)
        service.stack.advance(days=2, minutes=1)
        found = {message.id: message.body for message in service.take()}
        assert found == {receipt.id: each.body for receipt, each in zip(sent, messages, strict=True)}


def test_nine_attributes_arrive_and_a_plain_client_sees_one_of_ours_more() -> None:
    attributes = {f"name-{i}.of_{i}": text for i, text in enumerate(TRICKY)}
    assert len(attributes) == MAX_ATTRIBUTES
    expected: dict[str, dict[str, str]] = {}
    with orders("billing", "audit") as service:
        for delay in DELAYS:
            expected |= {f"with {delay}": attributes, f"without {delay}": {}}
            service.client.send(TOPIC, f"with {delay}", delay=delay, attributes=attributes)
            service.client.send(TOPIC, f"without {delay}", delay=delay)
        service.stack.advance(days=2, minutes=1)
        assert {message.body: message.attributes for message in service.take()} == expected
        plain = _plain_receive(service, "audit")
        assert all(values.pop("tidewheel") for values in plain.values())
        sent = {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items()}
        assert plain == {body: sent if values else {} for body, values in expected.items()}


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


@pytest.mark.parametrize("delay", DELAYS)
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
        service.stack.advance(days=2, minutes=1)
        assert service.stack.failures == []
        assert sorted(message.body for message in service.take()) == sorted(texts)
        plain = _plain_receive(service, "audit")
        assert set(plain) == set(texts)
        for body, values in plain.items():
            size = len(body.encode()) + sum(len(k) + len(v["StringValue"]) + len("String") for k, v in values.items())
            assert size <= SQS_MAX_BYTES


def test_bytes_of_the_largest_size_arrive() -> None:
    body = os.urandom(MAX_MESSAGE_BYTES // 4 * 3)
    with orders() as service:
        for delay in DELAYS:
            service.client.send(TOPIC, body, delay=delay)
        service.stack.advance(days=2, minutes=1)
        assert [message.bytes() for message in service.take()] == [body] * 2
