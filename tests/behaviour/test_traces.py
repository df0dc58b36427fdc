"""A trace of the sending and a trace of the work are linked over the delay."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
import threading
from typing import Any

import pytest

from tests.behaviour.topic import Topic
from tests.conftest import REPOSITORY
from tidewheel import AsyncTidewheel, BufferedSender, Consumer, InvalidValue, Message, RetryLater, SendFailed, Worker
from tidewheel.client import tracing
from tidewheel.model.message import MAX_MESSAGE_BYTES
from tidewheel.model.received import ReceivedMessage

OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NINE = {f"name-{i}": "value" for i in range(9)}


class Spans:
    """The spans that a program has ended, with OpenTelemetry's SDK as the only provider."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        sdk: Any = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")
        from opentelemetry import trace
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._exporter = InMemorySpanExporter()
        provider = sdk.TracerProvider(**options)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
        self.tracer = provider.get_tracer("test")

    def of(self, operation: str) -> list[Any]:
        name = "messaging.operation.name"
        return [each for each in self._exporter.get_finished_spans() if each.attributes.get(name) == operation]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    return Spans(monkeypatch)


def linked(span: Any) -> list[int]:
    """Returns the ids of the spans that a span links to."""
    return [each.context.span_id for each in span.links]


def ids(spans: list[Any]) -> list[int]:
    return [each.context.span_id for each in spans]


def work(topic: Topic, handle: Any = lambda message: None) -> list[ReceivedMessage]:
    """Handles the receivable messages as a Lambda function does. Returns them."""
    worker = Worker(topic.client)
    handled: list[ReceivedMessage] = []

    @worker.handles(f"{topic.name}/billing", retry=None)
    def function(message: ReceivedMessage) -> None:
        handled.append(message)
        handle(message)

    sqs: Any = topic.client.core.connection.sqs
    answer = sqs.receive_message(
        QueueUrl=topic.queue_url(), MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
    )
    for raw in answer.get("Messages", []):
        worker.record_handler(raw)
        sqs.delete_message(QueueUrl=topic.queue_url(), ReceiptHandle=raw["ReceiptHandle"])
    return handled


def in_the_header(message: ReceivedMessage) -> dict[str, str]:
    header = json.loads(message.header)
    return {name: header[name] for name in ("traceparent", "tracestate") if name in header}


# ---- the two traces
def test_after_thirty_days_the_work_is_a_new_trace_that_links_to_the_sending(topic: Topic, spans: Spans) -> None:
    with spans.tracer.start_as_current_span("request") as request:
        receipt = topic.send("x", delay="30d", attributes={"a": "b"}, key="k")
    topic.advance(days=30, minutes=1)
    [message] = work(topic)
    [send], [process] = spans.of("send"), spans.of("process")
    assert (send.name, send.kind.name, send.parent.span_id) == (
        f"{topic.name} send",
        "PRODUCER",
        request.get_span_context().span_id,
    )
    assert dict(send.attributes) == {
        "messaging.system": "tidewheel",
        "messaging.destination.name": topic.name,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": receipt.id,
    }
    assert (process.name, process.kind.name, process.parent) == (f"{topic.name} process", "CONSUMER", None)
    assert process.context.trace_id != send.context.trace_id and linked(process) == [send.context.span_id]
    assert process.attributes["messaging.message.id"] == receipt.id
    assert process.attributes["messaging.destination.subscription.name"] == "billing"
    assert message.attributes == {"a": "b", **message.trace_context} and in_the_header(message) == {}


def test_what_the_function_traces_is_in_the_trace_of_its_message(topic: Topic, spans: Spans) -> None:
    topic.send("x", delay=1)
    topic.advance(seconds=10)
    found = []
    with spans.tracer.start_as_current_span("invocation") as invocation:
        work(topic, lambda message: found.append(spans.tracer.start_span("charge")))
    [send], [process] = spans.of("send"), spans.of("process")
    assert found[0].parent.span_id == process.context.span_id
    assert linked(process) == [invocation.get_span_context().span_id, send.context.span_id]


def test_a_worker_and_an_asynchronous_worker_trace_each_message(topic: Topic, spans: Spans) -> None:
    from opentelemetry.trace import get_current_span

    stop = threading.Event()
    current: list[int] = []

    def note(message: ReceivedMessage) -> None:
        current.append(get_current_span().get_span_context().span_id)
        if len(current) % 2 == 0:
            stop.set()

    async def note_async(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        note(message)

    for function in (note, note_async):
        stop.clear()
        topic.client.send_many(topic.name, [Message(body="x", delay=1), Message(body="y", delay=1)])
        topic.advance(seconds=10)
        worker = Worker(topic.client, wait_s=0)
        worker.handles(f"{topic.name}/billing", at_once=1)(function)
        worker.run(stop=stop)
    assert len(current) == 4 and current == ids(spans.of("process"))
    assert [linked(each) for each in spans.of("process")] == [
        [each] for each in ids(spans.of("send")) for _ in range(2)
    ]


def test_receive_is_a_trace_with_a_link_to_each_sending_and_an_empty_poll_is_none(topic: Topic, spans: Spans) -> None:
    consumer = Consumer(topic.client, topic.name, "billing")
    for receive in (lambda: topic.client.receive(topic.name, "billing"), consumer.receive):
        assert receive() == []
        sent = [topic.send("x", delay=1).id, topic.send("y", delay=1).id]
        topic.advance(seconds=10)
        topic.client.delete(topic.name, "billing", receive())
        *_, span = spans.of("receive")
        assert (span.name, span.kind.name, span.parent) == (f"{topic.name} receive", "CLIENT", None)
        assert sorted(linked(span)) == sorted(ids(spans.of("send")[-2:]))
        assert {each.attributes["messaging.message.id"] for each in span.links} == set(sent)
        assert span.attributes["messaging.batch.message_count"] == 2 and span.end_time > span.start_time
    assert len(spans.of("receive")) == 2 and spans.of("process") == []


def test_every_way_to_send_makes_a_span(topic: Topic, spans: Spans) -> None:
    async def one() -> None:
        async with AsyncTidewheel(client=topic.client) as tw:
            await tw.send(topic.name, "async", delay=1)

    asyncio.run(one())
    topic.client.send_many(topic.name, [Message(body="many", delay=1), Message(body="more", delay=1)])
    with BufferedSender(topic.client) as sender:
        buffered = sender.add(topic.name, "buffered", delay=1).result()
        sender.add(topic.name, "cancelled", delay=1).cancel()
    topic.advance(seconds=10)
    single, many, alone, *_ = ids(spans.of("send"))
    assert spans.of("send")[1].attributes["messaging.batch.message_count"] == 2
    assert spans.of("send")[2].attributes["messaging.message.id"] == buffered.id
    handled = {each.body: each.trace_context["traceparent"].split("-")[2] for each in work(topic)}
    expected = {"async": single, "many": many, "more": many, "buffered": alone}
    assert handled == {body: f"{span_id:016x}" for body, span_id in expected.items()}


def test_the_example_links_the_reminder_to_its_order(
    topic: Topic, spans: Spans, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(REPOSITORY / "examples" / "linked_traces.py"))
    reminders = Topic(topic.stack, "reminders")
    example["order"](topic.client, 17)
    topic.advance(days=30, minutes=1)
    work(reminders, example["remind"])
    assert capsys.readouterr().out == "order 17 was a month ago\n"
    [send], [process] = spans.of("send"), spans.of("process")
    assert linked(process) == [send.context.span_id]


# ---- errors
def test_an_error_is_told_by_its_type_and_a_body_never(topic: Topic, spans: Spans) -> None:
    with pytest.raises(InvalidValue):
        topic.send("secret\x00")
    with pytest.raises(SendFailed):
        topic.client.send_many(topic.name, [Message(body="good"), Message(body="secret\x00")])
    for span in spans.of("send"):
        assert (span.status.status_code.name, span.attributes["error.type"]) == ("ERROR", "InvalidValue")
        assert "secret" not in span.to_json()


def test_the_error_of_a_function_is_in_the_trace_and_a_wanted_retry_is_none(topic: Topic, spans: Spans) -> None:
    topic.send("x", delay=1)
    topic.advance(seconds=10)

    def fails(message: ReceivedMessage) -> None:
        raise LookupError("no such order")

    def retries(message: ReceivedMessage) -> None:
        raise RetryLater(delay="1m")

    with pytest.raises(LookupError):
        work(topic, fails)
    [failed] = spans.of("process")
    assert (failed.status.status_code.name, failed.attributes["error.type"]) == ("ERROR", "LookupError")
    assert failed.events[0].attributes["exception.message"] == "no such order"
    topic.advance(minutes=10)
    work(topic, retries)
    assert spans.of("process")[-1].status.status_code.name == "UNSET"
    topic.advance(minutes=2)
    [again] = work(topic)
    assert again.attempt == 1 and linked(spans.of("process")[-1]) == ids(spans.of("send"))


# ---- what carries the context
@pytest.mark.parametrize("state", ["", "vendor=1", "a=" + "\\" * 252 + ",b=" + "y" * 254])
@pytest.mark.story
def test_beside_nine_attributes_the_context_travels_in_the_header_and_outlives_moves_and_retries(
    topic: Topic, spans: Spans, state: str
) -> None:
    from opentelemetry import trace
    from opentelemetry.trace.span import TraceState

    context = trace.SpanContext(1, 2, False, trace.TraceFlags(1), TraceState.from_header([state]))
    with trace.use_span(trace.NonRecordingSpan(context)):
        sent = topic.send_and_store("x", delay="2d", attributes=NINE, key="k" * 256)
    assert topic.client.reschedule(topic.name, sent.id, delay="3d")
    topic.advance(days=3, minutes=10)
    consumer = Consumer(topic.client, topic.name, "billing")
    [first] = topic.take()
    consumer.retry_later(first, delay="1m")
    topic.advance(minutes=2)
    [second] = work(topic)
    [send] = spans.of("send")
    for each in (first, second):
        assert each.attributes == NINE and in_the_header(each) == each.trace_context
        assert each.trace_context.get("tracestate", "") == state
    assert linked(spans.of("process")[0]) == [send.context.span_id]


def test_the_context_takes_the_header_if_only_one_attribute_is_free_for_its_two(topic: Topic, spans: Spans) -> None:
    from opentelemetry import trace
    from opentelemetry.trace.span import TraceState

    context = trace.SpanContext(1, 2, False, trace.TraceFlags(1), TraceState([("vendor", "1")]))
    eight = dict(list(NINE.items())[:8])
    topic.send("x", delay=1, attributes=eight)
    with trace.use_span(trace.NonRecordingSpan(context)):
        topic.send("y", delay=1, attributes=eight)
    topic.advance(seconds=10)
    found = {each.body: each for each in topic.take()}
    assert in_the_header(found["x"]) == {} and len(found["x"].attributes) == 9
    assert found["y"].attributes == eight and in_the_header(found["y"]).keys() == {"traceparent", "tracestate"}


@pytest.mark.parametrize(
    "own", [{"traceparent": OWN}, {"traceparent": OWN, "tracestate": "a=1"}, {"tracestate": "a=1"}]
)
def test_a_trace_context_of_the_senders_own_travels_as_given(topic: Topic, spans: Spans, own: dict[str, str]) -> None:
    topic.send("x", delay="2h", attributes=own)
    topic.advance(hours=2, minutes=1)
    [message] = work(topic)
    assert message.attributes == own and in_the_header(message) == {}
    assert linked(spans.of("process")[0]) == ([0xB7AD6B7169203331] if "traceparent" in own else [])


@pytest.mark.parametrize("wrong", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 2000])
def test_a_context_that_is_none_links_to_nothing_and_the_work_is_done(topic: Topic, spans: Spans, wrong: str) -> None:
    topic.send("x", delay=1, attributes={"traceparent": wrong or "-"})
    topic.advance(seconds=10)
    assert len(work(topic)) == 1
    assert linked(spans.of("process")[0]) == []


@pytest.mark.parametrize("left", [0, tracing.ROOM_BYTES - 1, tracing.ROOM_BYTES, -1])
@pytest.mark.parametrize("attributes", [{}, NINE])
def test_a_context_makes_no_message_too_large(
    topic: Topic, spans: Spans, left: int, attributes: dict[str, str]
) -> None:
    body = "x" * (MAX_MESSAGE_BYTES - left - sum(len(n) + len(v) + 6 for n, v in attributes.items()))
    topic.send(body, delay=1, attributes=attributes)
    topic.advance(seconds=10)
    [message] = work(topic)
    assert message.body == body
    assert ("ref" in json.loads(message.header)) == (left < 0), "the body is in S3 as without a trace"
    assert (message.trace_context == {}) == (0 <= left < tracing.ROOM_BYTES)


def test_a_long_tracestate_is_left_out(topic: Topic, spans: Spans) -> None:
    from opentelemetry import trace
    from opentelemetry.trace.span import TraceState

    state = TraceState([(f"vendor{i}", "x" * 200) for i in range(3)])
    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 2, False, trace.TraceFlags(1), state))):
        topic.send("x", delay=1)
    topic.advance(seconds=10)
    [message] = work(topic)
    assert message.trace_context.keys() == {"traceparent"}


# ---- without traces
def test_a_span_that_is_not_sampled_is_not_carried_and_what_the_function_traces_is_not_sampled(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    spans = Spans(monkeypatch, sampler=ParentBased(TraceIdRatioBased(0)))
    topic.send("x", delay=1, attributes=NINE)
    topic.advance(seconds=10)
    made: list[Any] = []
    [message] = work(topic, lambda message: made.append(spans.tracer.start_span("charge")))
    assert message.trace_context == {} and not made[0].is_recording() and made[0].get_span_context().is_valid
    assert spans.of("send") == spans.of("process") == []


@pytest.mark.parametrize("loaded", ["not installed", "no provider"])
def test_without_opentelemetry_or_a_provider_a_message_is_what_it_always_was(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, loaded: str
) -> None:
    if loaded == "not installed":
        for name in [each for each in sys.modules if each.partition(".")[0] == "opentelemetry"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "opentelemetry", None)
        monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    else:
        api: Any = pytest.importorskip("opentelemetry.trace", reason="opentelemetry-api is not installed")
        monkeypatch.setattr(api, "_TRACER_PROVIDER", None)
    topic.send("x", delay=1, attributes={"a": "b"})
    topic.client.send_many(topic.name, [Message(body="y", delay=1, attributes=NINE)])
    with BufferedSender(topic.client) as sender:
        sender.add(topic.name, "z", delay=1)
    assert all(b"trace" not in each for *_, each in topic.copies_of_what_is_on_its_way())
    topic.advance(seconds=10)
    found = {each.body: each for each in [*work(topic), *topic.client.receive(topic.name, "billing")]}
    assert {body: each.attributes for body, each in found.items()} == {"x": {"a": "b"}, "y": NINE, "z": {}}
    assert [in_the_header(each) for each in found.values()] == [{}, {}, {}]
