"""Runs the deployed handlers of `functions/` on ports in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from tidewheel.flows.maintenance.merge import in_process, merge
from tidewheel.flows.ports import Ports
from tidewheel.local.event_source import Failed, record_of
from tidewheel.local.module_files import module_at
from tidewheel.local.pump import Failure
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.model.checked_clock import begin_invocation, unchecked_ms
from tidewheel.model.settings import MAX_FUNCTION_S, ServiceSettings
from tidewheel.shipped import FUNCTIONS, shipped
from tidewheel.telemetry.function import Telemetry, without_cold_starts
from tidewheel.telemetry.metrics import Metric

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.utilities.typing import LambdaContext


class MemoryFunctions:
    """Calls the bodies of the handlers, as Lambda calls the handlers.

    Attributes:
        logged: the failures that a handler logs before it continues, oldest first.
    """

    def __init__(self, ports: Ports, settings: ServiceSettings) -> None:
        self._ports, self._settings = ports, settings
        self.logged: list[Failure] = []

    def batch(self, function: str, queue_arn: str, messages: Sequence[MemoryMessage]) -> Failed:
        """Calls a function with messages of its queue."""
        event = {"Records": [record_of(each, queue_arn) for each in messages]}
        return self._call(function, event, {"messages": len(messages)})

    def call(self, function: str, event: Mapping[str, Any]) -> None:
        """Calls a function with an event."""
        self._call(function, event, event)

    def merge(self, topic: str) -> None:
        """Merges as the Glue job does, for which a large merge is left on AWS."""
        begin_invocation(self._ports.clock)
        done = merge(self._ports, topic, in_process(self._ports.objects), lease_s=MAX_FUNCTION_S)
        self._log("compact", {"topic": topic}, [] if done is None else done.skipped)

    def _call(self, function: str, event: Mapping[str, Any], logged_as: Mapping[str, Any]) -> Failed:
        begin_invocation(self._ports.clock)
        telemetry = _MemoryTelemetry(self._ports, self._settings)
        try:
            loaded(function).handler.body(telemetry, event, _CONTEXT)
        finally:
            reported = {id(error) for error in telemetry.left.values()}
            self._log(function, logged_as, [each for each in telemetry.failures if id(each) not in reported])
        return telemetry.left

    def _log(self, function: str, event: Mapping[str, Any], errors: Sequence[BaseException]) -> None:
        at_ms = unchecked_ms(self._ports.clock)
        self.logged += (Failure(function=function, at_ms=at_ms, event=event, error=each) for each in errors)


@cache
def loaded(function: str) -> ModuleType:
    """Returns the module of a function's handler, without a service on AWS."""
    with without_cold_starts():
        return module_at(shipped(FUNCTIONS) / function / "handler.py", f"_tidewheel_memory_{function}")


class _MemoryTelemetry(Telemetry):
    """Keeps what a handler logs as failures, and what it leaves.

    Attributes:
        failures: in the order of the log.
        left: SQS's ids of messages -> the reason.
    """

    def __init__(self, ports: Ports, settings: ServiceSettings) -> None:
        self.service, self.settings = ports, settings
        self.logger = _SILENT
        self.pause = lambda _: None
        self.failures: list[BaseException] = []
        self.left: dict[str, Exception | None] = {}

    def add(self, metric: Metric, value: float) -> None:
        pass

    def failed(self, _message: str, error: BaseException, /, **_: object) -> None:
        self.failures.append(error)

    def leave(self, messages: Iterable[str], error: Exception | None = None) -> None:
        self.left |= dict.fromkeys(messages, error)

    def unreadable(self, found: Mapping[str, Exception]) -> None:
        self.failures += found.values()

    @contextmanager
    def step(self, **_: object) -> Iterator[None]:
        yield

    def flush(self) -> None:
        pass


_SILENT = cast("Logger", SimpleNamespace(**dict.fromkeys(("info", "warning", "error"), lambda *_, **__: None)))
"""A logger that writes nothing."""
_CONTEXT = cast(
    "LambdaContext",
    SimpleNamespace(aws_request_id="memory", get_remaining_time_in_millis=lambda: MAX_FUNCTION_S * 1000),
)
"""Lambda's context of a call that takes no time."""
