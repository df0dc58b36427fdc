"""The local runtimes do the sweep's daily work in virtual time, and skip days without work."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tidewheel import Message
from tidewheel.flows.upkeep.payloads import KEPT_MS
from tidewheel.local import LocalTidewheel, MemoryTidewheel
from tidewheel.model.message import MAX_MESSAGE_BYTES
from tidewheel.model.object_names import LEDGERS, PAYLOADS

DAY_S = 86_400
TOPIC = "orders"


class Stored:
    """A stack and its stored objects."""

    def __init__(self, stack: Any) -> None:
        self.stack = stack
        self.client = stack.client()
        self.client.create_topic(TOPIC)
        self.client.create_subscription(TOPIC, "billing")

    def size_bytes(self, prefix: str) -> int:
        if isinstance(self.stack, MemoryTidewheel):
            return sum(each.size_bytes for each in self.stack.service.objects.list(prefix))
        s3, [bucket] = self._bucket()
        return sum(each["Size"] for each in s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", []))

    def put(self, name: str, data: bytes) -> None:
        if isinstance(self.stack, MemoryTidewheel):
            self.stack.service.objects.put(name, data)
        else:
            s3, [bucket] = self._bucket()
            s3.put_object(Bucket=bucket, Key=name, Body=data)

    def _bucket(self) -> tuple[Any, list[str]]:
        s3 = self.stack.session.client("s3")
        return s3, [each["Name"] for each in s3.list_buckets()["Buckets"]]


@pytest.fixture(params=[MemoryTidewheel, pytest.param(LocalTidewheel, marks=pytest.mark.long)])
def stored(request: pytest.FixtureRequest) -> Iterator[Stored]:
    with request.param() as stack:
        yield Stored(stack)


def test_what_was_cancelled_in_an_idle_topic_is_not_kept_beside_what_waits(stored: Stored) -> None:
    numbers = random.Random(1)
    sent = stored.client.send_many(
        TOPIC, [Message(body=numbers.randbytes(300).hex(), delay=(10 + n % 300) * DAY_S) for n in range(600)]
    )
    stored.stack.advance(hours=25)
    before = stored.size_bytes(LEDGERS)
    for receipt in sent[12:]:
        stored.client.cancel(TOPIC, receipt.id)
    stored.stack.advance(days=3)
    assert 0 < stored.size_bytes(LEDGERS) < before / 20
    stored.stack.advance(days=18)
    assert {each.id for each in stored.stack.receive(TOPIC, "billing")} == {each.id for each in sent[:12]}
    assert not stored.stack.failures


def test_an_object_whose_writer_died_is_deleted_after_a_day(stored: Stored) -> None:
    stored.stack.advance(days=10)
    stored.put(f"{LEDGERS}{TOPIC}/2026-01-11/000000000001-{32 * 'a'}-{16 * 'b'}.parquet", b"cut off")
    stored.client.send(TOPIC, "another writer", delay="2h")
    stored.stack.advance(hours=23)
    assert stored.size_bytes(LEDGERS) > 0
    stored.stack.advance(days=2)
    assert stored.size_bytes(LEDGERS) == 0


def test_a_large_body_is_deleted_28_days_after_its_message_was_handed_out(stored: Stored) -> None:
    stored.client.send(TOPIC, "x" * (MAX_MESSAGE_BYTES + 1), delay="2h")
    stored.stack.advance(milliseconds=KEPT_MS)
    assert stored.size_bytes(PAYLOADS) > MAX_MESSAGE_BYTES
    stored.stack.advance(days=4)
    assert stored.size_bytes(PAYLOADS) < MAX_MESSAGE_BYTES


def test_ten_idle_years_have_a_few_sweeps(stored: Stored) -> None:
    stored.client.send(TOPIC, "far off", delay=3600 * DAY_S)
    stored.stack.advance(days=3650)
    assert stored.stack.invocations["sweep"] <= 20


def test_a_stack_that_changes_every_day_has_daily_work_every_day(stored: Stored) -> None:
    stored.client.send_recurring(TOPIC, "tick", "x", every="24h")
    stored.stack.advance(days=2)
    before = stored.stack.invocations["sweep"]
    stored.stack.advance(days=10)
    assert stored.stack.invocations["sweep"] - before >= 9
