"""When its time runs out, the ingest function returns exactly the unread or unstarted packs for redelivery."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import TOPIC, Orders, once, orders
from tests.marks import topic_state
from tidewheel.local.handlers import LambdaContext
from tidewheel.model.message import IdSource, Message, id_text
from tidewheel.model.pack import PACK_ATTRIBUTE, packs
from tidewheel.model.validation import check_message

OTHER = "invoices"
PACKS = 5


@pytest.fixture(scope="module")
def service() -> Iterator[Orders]:
    with orders() as opened:
        opened.client.create_topic(OTHER)
        opened.client.create_subscription(OTHER, "billing")
        yield opened


class Time:
    """A call's remaining time, reduced after decoded packs or ingested groups of packs."""

    def __init__(self, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left_ms = 10 * module.HALF_MS
        self._left_after: dict[str, dict[int, int]] = {"pack_of": {}, "ingest": {}}
        monkeypatch.setattr(LambdaContext, "get_remaining_time_in_millis", lambda _: self.left_ms)
        for name in self._left_after:
            monkeypatch.setattr(module, name, self._timed(name, getattr(module, name)))

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


def records(service: Orders, *topics: str) -> dict[str, dict[str, Any]]:
    """Returns packs with a message due in two hours, each with the SQS record for the function."""
    found: dict[str, dict[str, Any]] = {}
    ids = IdSource()
    now_ms = round(service.stack.now().timestamp() * 1000)
    for topic in topics:
        checked = check_message(Message(body="hello", delay="2h"), ids, now_ms)
        [(_, data)] = packs(topic, topic_state(service.client, topic).generation, now_ms, [checked])
        value = {"binaryValue": base64.b64encode(data).decode(), "dataType": "Binary"}
        name = id_text(checked.id)
        found[name] = {
            "messageId": name,
            "body": "a pack",
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": str(now_ms)},
            "eventSourceARN": "arn:aws:sqs:us-east-1:" + ":".join(queue_of(service).split("/")[-2:]),
            "messageAttributes": {PACK_ATTRIBUTE: value},
        }
    return found


def queue_of(service: Orders) -> str:
    return service.queue_url("IngestionUrgentQueue")


def ingest(service: Orders, batch: list[dict[str, Any]]) -> list[str]:
    """Ingests a batch by the function. Returns the redelivered ids in the order of the answer."""
    answer = service._handler("ingest").invoke({"Records": batch})
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


def received(service: Orders) -> dict[str, int]:
    """Counts the messages of both topics received in the next three hours."""
    service.stack.advance(hours=3)
    return dict(service.ids() + service.ids(topic=OTHER))


@pytest.mark.parametrize("in_time", range(PACKS + 1))
def test_exactly_the_packs_that_are_not_read_in_time_come_again(
    service: Orders, monkeypatch: pytest.MonkeyPatch, in_time: int
) -> None:
    batch = records(service, *[TOPIC] * PACKS)
    names = list(batch)
    with monkeypatch.context() as patch:
        time = Time(service.function("ingest"), patch)
        time.runs_out("pack_of", in_time, service.function("ingest").HALF_MS - 1)
        assert ingest(service, list(batch.values())) == names[in_time:]
    assert ingest(service, [batch[name] for name in names[in_time:]]) == []
    assert received(service) == once(names), "what did not come again is stored, and nothing is stored twice"


@pytest.mark.parametrize("unread", [0, 2])
def test_packs_that_are_read_and_not_begun_in_time_come_again_too(
    service: Orders, monkeypatch: pytest.MonkeyPatch, unread: int
) -> None:
    batch = records(service, TOPIC, OTHER, TOPIC, OTHER, *[TOPIC] * unread)
    first, second, third, fourth, *rest = batch
    with monkeypatch.context() as patch:
        module = service.function("ingest")
        time = Time(module, patch)
        time.runs_out("pack_of", 4, module.HALF_MS - 1)
        time.runs_out("ingest", 1, module.QUARTER_MS - 1)
        assert ingest(service, list(batch.values())) == [*rest, second, fourth]
    assert received(service) == once([first, third])


def test_a_group_is_begun_while_a_quarter_of_the_time_is_left(service: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = records(service, TOPIC, OTHER)
    with monkeypatch.context() as patch:
        module = service.function("ingest")
        Time(module, patch).runs_out("ingest", 1, module.QUARTER_MS)
        assert ingest(service, list(batch.values())) == []
    assert received(service) == once(list(batch))
