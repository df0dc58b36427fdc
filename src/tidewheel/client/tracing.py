"""Traces messages in a program that uses OpenTelemetry.

    send     span "<topic> send"  --traceparent, tracestate-->  message
    consume  span "<topic> process" or "<topic> receive", the root of a new trace, with a link to the sending span

The consuming span is no child of the sending span, because no backend waits days for the end of a trace.

A message carries the context as attributes, or in its header if SQS takes no more attributes. A message that is sent
in a span that nobody records carries nothing. This module never loads OpenTelemetry: a program that records spans has
loaded it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidewheel import __version__
from tidewheel.errors import SendFailed
from tidewheel.model.message import MAX_ATTRIBUTES, MAX_MESSAGE_BYTES, Receipt, id_text
from tidewheel.model.received import TRACE_CONTEXT, ReceivedMessage
from tidewheel.model.validation import Options, OutgoingMessage

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span

ROOM_BYTES = 2048
"""More than a context takes, JSON's escapes included. A message with less room to SQS's limit carries no context."""
MAX_STATE_CHARACTERS = 512
"""The longest tracestate that is carried: the length that W3C asks programs to hand on."""
_ID, _COUNT = "messaging.message.id", "messaging.batch.message_count"
_SUBSCRIPTION = "messaging.destination.subscription.name"


# ---- sending
def sending(topic: str) -> AbstractContextManager[Span | None]:
    """Makes a send the current span of a block."""
    return _current(_begin("send", topic, {}))


def sent(span: Span | None, receipts: Sequence[Receipt]) -> None:
    """Notes the sent messages in a span."""
    if span is not None:
        span.set_attributes({_ID: receipts[0].id} if len(receipts) == 1 else {_COUNT: len(receipts)})


def buffered(topic: str, message: OutgoingMessage, future: Future[Receipt]) -> OutgoingMessage:
    """Begins the span of a message, which ends with the future. Returns the message with its context."""
    span = _begin("send", topic, {_ID: id_text(message.id)})
    if span is not None:
        future.add_done_callback(partial(_end, span))
    return carrying(message, context_of(span))


def context_of(span: Span | None) -> Mapping[str, Any]:
    """Returns the trace context of a span, for its messages. Empty if nobody records the span."""
    context: dict[str, Any] = {}
    if span is not None and span.is_recording():
        from opentelemetry.trace import set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(context, set_span_in_context(span))
        if len(context.get("tracestate", "")) > MAX_STATE_CHARACTERS:
            del context["tracestate"]
    return context


def carrying(message: OutgoingMessage, context: Mapping[str, Any]) -> OutgoingMessage:
    """Returns a message with a trace context, unless it has attributes of these names."""
    attributes = message.attributes
    full = MAX_MESSAGE_BYTES - ROOM_BYTES < message.size <= MAX_MESSAGE_BYTES
    if not context or full or not attributes.keys().isdisjoint(TRACE_CONTEXT):
        return message
    if len(attributes) + len(context) > MAX_ATTRIBUTES:
        return replace(message, options=replace(message.options or Options(), **context))
    return replace(message, attributes={**attributes, **context})


# ---- consuming
def processing(topic: str, subscription: str, message: ReceivedMessage) -> AbstractContextManager[Span | None]:
    """Makes the work with a message the current span of a block, in a new trace."""
    about = {_SUBSCRIPTION: subscription, _ID: message.id}
    return _current(_begin("process", topic, about, [message]), records_text=True)


@contextmanager
def receiving(topic: str, subscription: str) -> Iterator[list[ReceivedMessage]]:
    """Records the messages that a block puts into the list, in a new trace. An empty poll is not recorded."""
    began_ns, received = time.time_ns(), list[ReceivedMessage]()
    yield received
    if received:
        about = {_SUBSCRIPTION: subscription, _COUNT: len(received)}
        with _current(_begin("receive", topic, about, received, start_time=began_ns)):
            pass


# ---- inside
def _begin(
    operation: str, topic: str, about: Mapping[str, Any], messages: Sequence[ReceivedMessage] = (), **options: Any
) -> Span | None:
    """Begins a span, of consumed messages in a new trace. None if the program has not loaded OpenTelemetry."""
    if sys.modules.get("opentelemetry.trace") is None:
        return None
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, get_tracer

    attributes = {"messaging.system": "tidewheel", "messaging.destination.name": topic, **about}
    attributes |= {"messaging.operation.name": operation, "messaging.operation.type": operation}
    if messages:
        options |= {"context": Context(), "links": _links(messages)}
    kinds = {"send": SpanKind.PRODUCER, "process": SpanKind.CONSUMER, "receive": SpanKind.CLIENT}
    tracer = get_tracer("tidewheel", __version__)
    return tracer.start_span(f"{topic} {operation}", kind=kinds[operation], attributes=attributes, **options)


def _links(messages: Sequence[ReceivedMessage]) -> list[Link]:
    """Returns links to the spans that sent messages, and to the caller's span, such as a Lambda invocation's."""
    from opentelemetry.trace import Link, get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    extract = TraceContextTextMapPropagator().extract
    links = [Link(get_current_span().get_span_context())]
    for each in messages:
        links.append(Link(get_current_span(extract(each.trace_context)).get_span_context(), {_ID: each.id}))
    return [each for each in links if each.context.is_valid]


def _end(span: Span, future: Future[Receipt]) -> None:
    with suppress(Exception), _current(span):
        future.result()


@contextmanager
def _current(span: Span | None, *, records_text: bool = False) -> Iterator[Span | None]:
    """Makes a span the current span of a block, and ends it with the block.

    Args:
        span: None: nothing is traced.
        records_text: whether to record the text of an error, which may quote a body if the SDK raises the error.
    """
    if span is None:
        yield None
        return
    from opentelemetry.trace import StatusCode, use_span

    with use_span(span, end_on_exit=True, record_exception=records_text, set_status_on_exception=False):
        try:
            yield span
        except Exception as error:
            reason = next(iter(error.failures.values())) if isinstance(error, SendFailed) else error
            span.set_attribute("error.type", type(reason).__qualname__)
            span.set_status(StatusCode.ERROR)
            raise
