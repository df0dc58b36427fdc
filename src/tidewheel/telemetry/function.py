"""Binds a function's handler to the service on AWS, and writes logs and a metrics record for each call.

Neither ever contains a message's body, attribute or key. A log contains names, ids, slots and counts. An exception of
this package names the fault, but not the content of a message. Traces are Lambda's own, and this package adds nothing
to them.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import boto3

from tidewheel import clock as clocks
from tidewheel import deadline
from tidewheel.aws.service import Service, watch_dates
from tidewheel.errors import InvalidValue
from tidewheel.flows.ports import Ports
from tidewheel.model.checked_clock import CheckedClock
from tidewheel.model.settings import ServiceSettings
from tidewheel.telemetry import metrics as own
from tidewheel.telemetry.metrics import DIMENSION, NAMESPACE, Metric
from tidewheel.telemetry.watched import RequestCount, WatchedQueues, WatchedWheel

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.utilities.typing import LambdaContext

_REPORT_S = 3
"""Kept at the end of a call for its metrics and its answer."""
_DOUBT_S = 5
"""How long a call lasts on after its clock was doubted."""
_cold_starts: ContextVar[bool] = ContextVar("tidewheel_cold_starts", default=True)


@contextmanager
def without_cold_starts() -> Iterator[None]:
    """Loads handlers without a service on AWS. The caller gives telemetry, and a service, to each `body`."""
    token = _cold_starts.set(False)
    try:
        yield
    finally:
        _cold_starts.reset(token)


class Telemetry:
    """A function's logger and metrics, made once at cold start.

    The service whose work they record is made with them.

    Attributes:
        service: the ports on AWS. Messages to subscriptions' queues are counted.
        settings: the service's settings.
        logger: Powertools' logger. Its level is the variable POWERTOOLS_LOG_LEVEL.
        pause: waits for some milliseconds.
    """

    service: Ports
    settings: ServiceSettings
    logger: Logger

    def __init__(self, function: str, environ: Mapping[str, str] = os.environ) -> None:
        """Makes the service from the environment's settings.

        Args:
            function: the function's name, such as "ingest". Each log record has this name.
            environ: the environment's variables.

        Raises:
            NotConfigured: a variable is missing.
        """
        from aws_lambda_powertools import Logger  # not needed where a service is in memory

        # The traceback as text is enough. As JSON too, the traceback would be logged and paid twice.
        self.logger = Logger(service=function, serialize_stacktrace=False)
        self._function = function
        session = boto3.session.Session()
        # Before any client is made, because a client copies the session's hooks when it is made.
        self._requests = RequestCount(session.events)
        self._clock = CheckedClock(clocks.current())
        self.pause = clocks.pauses(self._clock.local)
        watch_dates(session.events, self._clock)
        self.settings = ServiceSettings.from_environment(environ)
        self.service = service = Service.of(self.settings, session, self._clock)
        # No topic has this name: the cheapest read that each function may make.
        self._clock.ask = partial(service.topic_states.read, "")
        # By the local clock: a message that was sent is not to fail for a measure.
        service.queues = self._queues = WatchedQueues(service.queues, self._clock.local)
        service.wheel = WatchedWheel(service.wheel, self._schedule_refused)
        self._writes = environ.get("POWERTOOLS_METRICS_DISABLED") != "true"
        self._values: defaultdict[str, float] = defaultdict(float)
        self._unreadable: set[str] = set()
        self._left: list[str] = []

    def add(self, metric: Metric, value: float) -> None:
        """Adds to a metric of this call.

        The metric's `emitters` must include this function.
        """
        assert self._function in metric.emitters, (self._function, metric.name)
        self._values[metric.name] += value

    def failed(self, message: str, error: BaseException, /, **keys: object) -> None:
        """Logs and counts a failure, for a retry or for people."""
        self.add(own.FAILURES, 1)
        quoting = next((each for each in _chain(error) if isinstance(each, InvalidValue)), None)
        if quoting is not None:
            # The error's text quotes the value, which may be a body or a key. A traceback would show the text.
            self.logger.error(message, extra={**keys, "field": quoting.field, "advice": quoting.advice})
            return
        self.logger.error(message, exc_info=error, extra=keys)

    def leave(self, messages: Iterable[str], error: Exception | None = None) -> None:  # noqa: ARG002  # for tests
        """Leaves messages of a batch in the queue, which shows the messages again. The queue deletes all others.

        Args:
            messages: SQS's ids.
            error: the reason, not kept here, since its traceback holds what was read; None: there was no time.
        """
        self._left += messages

    def unread(self, names: Sequence[str]) -> None:
        """Counts and logs objects that are lost or refused. `tidewheel damaged list` lists their messages."""
        if names:
            self.logger.error("cannot be read: see `tidewheel damaged list`", objects=names)
            self.add(own.DAMAGED, len(names))

    def unreadable(self, found: Mapping[str, Exception]) -> None:
        """Counts all items unreadable for the last sweep. Logs only items newly unreadable.

        `tidewheel damaged list` lists all of them.
        """
        self.add(own.DAMAGED, len(found))
        for what, error in found.items():
            if what not in self._unreadable:
                self.logger.error("not readable", extra={"what": what, "reason": str(error)})
        self._unreadable = set(found)

    @contextmanager
    def step(self, *, topic: str, due: bool = True, **keys: object) -> Iterator[None]:
        """Adds the topic and other keys to the log records of a step.

        Args:
            topic: the topic of the step's work.
            due: whether the messages of this step are due now; see `WatchedQueues`.
            keys: other keys of the log. Absent values are left out.
        """
        known = {key: value for key, value in keys.items() if value is not None}
        self._queues.due = due
        with self.logger.append_context_keys(topic=topic, **known):
            yield

    def handler(self, body: Body) -> Callable[[Any, LambdaContext], dict[str, Any] | None]:
        """Wraps a handler's body with log context and metrics. For a batch, returns Lambda's partial answer.

        The call's work ends _REPORT_S before Lambda ends the function. The metrics are written at the end of each call.
        """

        @self.logger.inject_lambda_context(clear_state=True)
        @wraps(body)
        def handle(event: Any, context: LambdaContext) -> dict[str, Any] | None:
            self._forget()
            try:
                with deadline.ends_in(lambda: context.get_remaining_time_in_millis() / 1000 - _REPORT_S):
                    body(self, event, context)
                if "Records" not in event:
                    return None
                return {"batchItemFailures": [{"itemIdentifier": each} for each in self._left]}
            finally:
                doubt = self._clock.doubt()
                if doubt is not None:
                    self.failed("clock doubted", doubt)
                    self.add(own.CLOCK_DOUBTED, 1)
                self.flush()
                if doubt is not None:
                    # A machine that fails at once would be given more work than the others.
                    time.sleep(min(_DOUBT_S, context.get_remaining_time_in_millis() / 2000))

        return handle

    def flush(self) -> None:
        """Writes this call's metrics so far as a log record.

        Writes nothing if all metrics are zero.
        """
        sent, requests = self._queues.take_account(), self._requests.take()
        for message_id, code in sent.refused:
            self.logger.error("SQS refused a message for good", extra={"message_id": message_id, "code": code})
        if self._function in own.REQUESTS.emitters:
            self.add(own.REQUESTS, requests.total())
        if sent.messages:
            self.add(own.DELIVERED, sent.messages)
        if sent.late_ms:
            self.add(own.LATENESS, max(sent.late_ms))
        values = {name: value for name, value in self._values.items() if value}
        self._values.clear()
        if values and self._writes:
            self._write(values, requests)

    def _schedule_refused(self, topic: str, slot: int, error: Exception) -> None:
        """Counts a schedule refused by the scheduler. The sweep dispatches the topic without a schedule."""
        self.add(own.SCHEDULE_REFUSED, 1)
        self.logger.warning("schedule refused", exc_info=error, extra={"topic": topic, "slot": slot})

    def _write(self, values: Mapping[str, float], requests: Mapping[str, int]) -> None:
        """Writes the values in CloudWatch's embedded metric format. Only those with an alarm become billed metrics.

        https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
        """
        record: dict[str, object] = {DIMENSION: self.settings.stack, "function": self._function}
        billed = [own.BY_NAME[name] for name in values if own.BY_NAME[name].alarm is not None]
        if billed:
            units = [{"Name": metric.name, "Unit": metric.unit.value} for metric in billed]
            directive = {"Namespace": NAMESPACE, "Dimensions": [[DIMENSION]], "Metrics": units}
            record["_aws"] = {"Timestamp": self._clock.local.now_ms(), "CloudWatchMetrics": [directive]}
        print(json.dumps({**record, "requests": dict(requests), **values}))

    def _forget(self) -> None:
        """Drops the metrics of an earlier call, cut off in the same process."""
        self._values.clear()
        self._left.clear()
        self._queues.take_account()
        self._requests.take()
        self._clock.forget()


Body = Callable[[Telemetry, Any, "LambdaContext"], None]


class Function:
    """A function's handler: the body, with the telemetry and service of the cold start.

    Attributes:
        body: takes telemetry, an event and Lambda's context.
        telemetry: absent inside `without_cold_starts`.
    """

    telemetry: Telemetry

    def __init__(self, name: str, body: Body) -> None:
        self.body = body
        if _cold_starts.get():
            self.telemetry = Telemetry(name)
            self._handle = self.telemetry.handler(body)

    def __call__(self, event: Any, context: LambdaContext) -> dict[str, Any] | None:
        """Handles an event. For a batch, returns Lambda's partial answer."""
        return self._handle(event, context)


def function(name: str) -> Callable[[Body], Function]:
    """Returns a decorator to make a body the handler of the function with this name."""
    return partial(Function, name)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields an error and all causes in the traceback."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
