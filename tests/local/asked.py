"""Compares the service's AWS requests with the flows listed in `tidewheel.cost.figures`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.bench_function_time import stop_daily_work
from tests.conftest import TOPIC, Orders
from tests.local.client_requests import ALL_FLOWS
from tidewheel.model.message import Message

DAY_S = 86_400
Counts = tuple[Counter[str], Counter[str]]


def settle(service: Orders) -> None:
    """Runs the sweep and collection for new subscriptions, so that nothing is due afterwards.

    From then on the sweep does its daily work only if a test calls it.
    """
    service.stack.advance(days=1)
    stop_daily_work(service.stack)


def far(service: Orders, count: int, days: int) -> Callable[[], object]:
    """Returns an action that sends messages due days later, all in one slot and one pack."""
    at = service.stack.now().timestamp() // DAY_S * DAY_S + days * DAY_S
    messages = [Message(body=f"message {i}", deliver_at=at + i % 100) for i in range(count)]
    return lambda: service.client.send_many(TOPIC, messages)


def send_plain(service: Orders, messages: Sequence[Message]) -> None:
    """Sends plain messages: a single one by attributes, several as an envelope."""
    connection = service.client.core.connection
    url, [first, *rest] = connection.settings.ingest_queues(TOPIC)[0], messages
    if not rest:
        named = {"tidewheel.topic": TOPIC, "tidewheel.delay": str(first.delay)}
        given: Any = {name: {"DataType": "String", "StringValue": value} for name, value in named.items()}
        connection.sqs.send_message(QueueUrl=url, MessageBody=str(first.body), MessageAttributes=given)
    else:
        parts = [{"body": each.body, "delay": each.delay} for each in messages]
        body = json.dumps({"tidewheel": {"topic": TOPIC}, "messages": parts})
        connection.sqs.send_message(QueueUrl=url, MessageBody=body)


def batch_window(service: Orders) -> Callable[[], object]:
    """Returns an action that waits for the bulk queue's window, so that all sent messages are ingested."""
    return lambda: service.stack.advance(minutes=5)


def sweep(service: Orders) -> None:
    """Invokes the sweep, counted as if invoked by its rule."""
    service.invoke("sweep")
    service.stack.requests.invoked()


def counts(service: Orders) -> Counts:
    """Returns requests and units so far."""
    return Counter(service.stack.requests), Counter(service.stack.requests.units)


def assert_asked(service: Orders, before: Counts, flows: Mapping[str, Mapping[str, int]]) -> None:
    """Asserts that the AWS requests since a count are the requests listed for these flows, with the same price.

    The meter does not count the surcharge of fair queues.
    """
    assert service.stack.failures == []
    asked, billed = (now - then for now, then in zip(counts(service), before, strict=True))
    requests: Counter[str] = Counter()
    units: Counter[str] = Counter()
    for name, measures in flows.items():
        requests.update(ALL_FLOWS[name].requests(measures))
        units.update(ALL_FLOWS[name].units(measures))  # type: ignore[arg-type]
    del units["sqs.fair"]
    assert asked == requests, f"more: {asked - requests}, less: {requests - asked}"
    assert billed == units, f"more: {billed - units}, less: {units - billed}"


def assert_asks(service: Orders, action: Callable[[], object], **flows: Mapping[str, int]) -> None:
    """Asserts the AWS requests of an action, given its flows. Underscores in the flows' names stand for blanks."""
    before = counts(service)
    action()
    assert_asked(service, before, {name.replace("_", " "): measures for name, measures in flows.items()})
