"""Loads the functions' own handlers as Lambda does, each with a fresh module, environment and clients.

Standard output stays the caller's. A handler's log goes to standard error, from CRITICAL on unless another level is
set. Metrics are off, unless the function's environment says otherwise: then metrics go to standard output, as on
Lambda.
"""

from __future__ import annotations

import itertools
import json
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import boto3
import botocore.session

from tidewheel import clock as clocks
from tidewheel.clock import Clock
from tidewheel.jobs.variables import environment
from tidewheel.local.emulator import ACCESS_KEY, REGION
from tidewheel.local.event_source import Failed, Run, record_of
from tidewheel.local.module_files import module_at
from tidewheel.memory.sqs_message import MemoryMessage

ASYNC_RETRIES = 2
"""Lambda's default number of retries of an asynchronous invocation."""

CoreSession = Callable[[], botocore.session.Session]

_loads = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    """Describes a function in the template, with all references resolved."""

    function_name: str
    arn: str
    handler: str
    """Dotted, as Lambda wants it: functions.<folder>.handler.handler."""
    environment: dict[str, str]
    timeout_ms: int
    memory_mb: int
    role_arn: str | None = None
    async_retries: int = ASYNC_RETRIES

    @property
    def folder(self) -> str:
        """The handler's folder, which names the function (ingest, dispatch, deliver, sweep, compact)."""
        return self.handler.split(".")[-3]


class LambdaContext:
    """Is the context object of a handler. Its time is the stack's, so a virtual clock stops it too."""

    def __init__(self, spec: FunctionSpec, clock: Clock) -> None:
        self.function_name = spec.function_name
        self.invoked_function_arn = spec.arn
        self.memory_limit_in_mb = spec.memory_mb
        self.aws_request_id = str(uuid.uuid4())
        self.log_group_name = f"/aws/lambda/{spec.function_name}"
        self.log_stream_name = "local"
        self._clock = clock
        self._deadline_ms = clock.now_ms() + spec.timeout_ms

    def get_remaining_time_in_millis(self) -> int:
        """Returns the time left, in milliseconds."""
        return max(0, self._deadline_ms - self._clock.now_ms())


class Handler:
    """Runs one function. Its module is loaded by `warm`, or at the first call."""

    def __init__(self, spec: FunctionSpec, root: Path, core_session: CoreSession, clock: Clock, log_level: str) -> None:
        self.spec, self._clock = spec, clock
        self._environment = {
            "POWERTOOLS_METRICS_DISABLED": "true",
            **spec.environment,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_LAMBDA_FUNCTION_NAME": spec.function_name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mb),
            "POWERTOOLS_SERVICE_NAME": spec.folder,
            "POWERTOOLS_LOG_LEVEL": log_level,
            "TIDEWHEEL_SEND_THREADS": "1",
        }
        self._root, self._core_session = root, core_session
        self._module_name = f"_tidewheel_local_{next(_loads)}_{spec.folder}"
        self._call: Callable[[Any, LambdaContext], Any] | None = None

    def warm(self) -> None:
        """Loads the module, once. Changes the process's environment meanwhile, so no other thread may run."""
        if self._call is None:
            *folders, module, attribute = self.spec.handler.split(".")[1:]
            path = self._root.joinpath(*folders, module + ".py")
            with self._cold_start(self._core_session):
                self._call = getattr(module_at(path, self._module_name), attribute)

    @property
    def module(self) -> ModuleType:
        """The loaded module."""
        self.warm()
        return sys.modules[self._module_name]

    def invoke(self, event: Any) -> Any:
        """Calls the handler with a JSON event. Returns the JSON answer.

        Raises:
            Exception: any error of the handler, or TypeError for an answer that is not JSON.
        """
        self.warm()
        assert self._call is not None
        with clocks.use(self._clock):
            answer = self._call(event, LambdaContext(self.spec, self._clock))
        return json.loads(json.dumps(answer))

    def close(self) -> None:
        """Unloads the module."""
        sys.modules.pop(self._module_name, None)

    @contextmanager
    def _cold_start(self, core_session: CoreSession) -> Iterator[None]:
        with (
            environment(self._environment),
            patch.object(boto3, "DEFAULT_SESSION", boto3.Session(botocore_session=core_session())),
            # boto3.Session() asks for a botocore session here, so the module's own sessions are ours too.
            patch.object(botocore.session, "get_session", lambda *_, **__: core_session()),
            clocks.use(self._clock),
            redirect_stdout(sys.stderr),
        ):
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSpec:
    """Describes a mapping in the template."""

    queue_arn: str
    function_arn: str
    batch_size: int
    window_ms: int
    reports_failures: bool


def runner(spec: MappingSpec, handler: Handler) -> Run:
    """Returns the function that calls a handler with a batch, in the event and the answer of Lambda's mappings.

    It fails if the answer is malformed.
    """

    def run(batch: Sequence[MemoryMessage]) -> Failed:
        answer = handler.invoke({"Records": [record_of(message, spec.queue_arn) for message in batch]})
        ids = _failed_ids(answer, {message.id for message in batch}) if spec.reports_failures else set()
        return dict.fromkeys(ids)

    return run


def _failed_ids(answer: Any, known: set[str]) -> set[str]:
    """Reads a partial batch answer as Lambda does.

    No answer means success. Any error here, as of a malformed answer, means failure of all messages.
    """
    ids = {failure["itemIdentifier"] for failure in (answer or {}).get("batchItemFailures") or ()}
    if not ids <= known:
        raise ValueError(f"a partial batch answer names messages that were not in the batch: {ids - known}")
    return ids
