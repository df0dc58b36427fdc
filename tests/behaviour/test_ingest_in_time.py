"""When its time runs out, the ingest function returns exactly the unread or unstarted packs for redelivery."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.marks import topic_state
from tidewheel.local import MemoryTidewheel, memory_functions
from tidewheel.model.message import IdSource, Message, id_text
from tidewheel.model.pack import PACK_ATTRIBUTE, packs
from tidewheel.model.validation import check_message

TOPIC, OTHER = "orders", "invoices"
PACKS = 5
INGEST = memory_functions.loaded("ingest")


@pytest.fixture
def service(memory: MemoryTidewheel) -> MemoryTidewheel:
    for topic in (TOPIC, OTHER):
        memory.client().create_topic(topic)
        memory.client().create_subscription(topic, "billing")
    return memory


class Time:
    """A call's remaining time, reduced after decoded packs or ingested groups of packs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left_ms = 10 * INGEST.HALF_MS
        self._left_after: dict[str, dict[int, int]] = {"pack_of": {}, "ingest": {}}
        context = SimpleNamespace(aws_request_id="", get_remaining_time_in_millis=lambda: self.left_ms)
        monkeypatch.setattr(memory_functions, "_CONTEXT", context)
        for name in self._left_after:
            monkeypatch.setattr(INGEST, name, self._timed(name, getattr(INGEST, name)))

    def runs_out(self, name: str, calls: int, left_ms: int) -> None:
        """Leaves so much after so many calls of a function."""
        self._left_after[name][calls] = left_ms
        self.left_ms = self._left_after[name].get(0, self.left_ms)

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        calls = 0

        def timed(*given: Any) -> Any:
            nonlocal calls
            calls += 1
            found = function(*given)
            self.left_ms = self._left_after[name].get(calls, self.left_ms)
            return found

        return timed


def records(service: MemoryTidewheel, *topics: str) -> dict[str, dict[str, Any]]:
    """Returns packs with a message due in two hours, each with the SQS record for the function."""
    found: dict[str, dict[str, Any]] = {}
    ids, now_ms = IdSource(), service.clock.now_ms()
    client = service.client()
    queue = service.queue(client.core.connection.settings.urgent_queue_url)
    for topic in topics:
        checked = check_message(Message(body="hello", delay="2h"), ids, now_ms)
        [(_, data)] = packs(topic, topic_state(client, topic).generation, now_ms, [checked])
        value = {"binaryValue": base64.b64encode(data).decode(), "dataType": "Binary"}
        name = id_text(checked.id)
        found[name] = {
            "messageId": name,
            "body": "a pack",
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": str(now_ms)},
            "eventSourceARN": queue.arn,
            "messageAttributes": {PACK_ATTRIBUTE: value},
        }
    return found


def ingest(service: MemoryTidewheel, batch: list[dict[str, Any]]) -> list[str]:
    """Ingests a batch by the function. Returns the ids of what comes again, in the order of the answer."""
    return list(service._functions._call("ingest", {"Records": batch}, {}))


def received(service: MemoryTidewheel) -> Counter[str]:
    """Counts the messages of both topics received in the next three hours."""
    service.advance(hours=3)
    return Counter(each.id for topic in (TOPIC, OTHER) for each in service.receive(topic, "billing") if each.id)


@pytest.mark.parametrize("in_time", range(PACKS + 1))
def test_exactly_the_packs_that_are_not_read_in_time_come_again(
    service: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch, in_time: int
) -> None:
    batch = records(service, *[TOPIC] * PACKS)
    names = list(batch)
    with monkeypatch.context() as patch:
        time = Time(patch)
        time.runs_out("pack_of", in_time, INGEST.HALF_MS - 1)
        assert ingest(service, list(batch.values())) == names[in_time:]
    assert ingest(service, [batch[name] for name in names[in_time:]]) == []
    assert received(service) == Counter(names), "what did not come again is stored, and nothing is stored twice"


@pytest.mark.parametrize("unread", [0, 2])
def test_packs_that_are_read_and_not_begun_in_time_come_again_too(
    service: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch, unread: int
) -> None:
    batch = records(service, TOPIC, OTHER, TOPIC, OTHER, *[TOPIC] * unread)
    first, second, third, fourth, *rest = batch
    with monkeypatch.context() as patch:
        time = Time(patch)
        time.runs_out("pack_of", 4, INGEST.HALF_MS - 1)
        time.runs_out("ingest", 1, INGEST.QUARTER_MS - 1)
        assert ingest(service, list(batch.values())) == [*rest, second, fourth]
    assert received(service) == Counter([first, third])


def test_a_group_is_begun_while_a_quarter_of_the_time_is_left(
    service: MemoryTidewheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = records(service, TOPIC, OTHER)
    with monkeypatch.context() as patch:
        Time(patch).runs_out("ingest", 1, INGEST.QUARTER_MS)
        assert ingest(service, list(batch.values())) == []
    assert received(service) == Counter(list(batch))
