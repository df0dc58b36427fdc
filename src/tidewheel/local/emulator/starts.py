"""Accepts Lambda's Invoke and Glue's StartJobRun, and holds the calls until the pump runs them.

Why: moto would look for Docker to run a function, and runs no job at all. Only clients of our sessions are answered
here; over HTTP moto knows neither function nor job.
"""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Condition
from typing import Any
from urllib.parse import unquote, urlsplit

from tidewheel.clock import Clock
from tidewheel.local.emulator.resources import Function, Job, Resource
from tidewheel.local.emulator.wire import Answer, answer_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An asynchronous call of a function or a job.

    Attributes:
        at_ms: when the call was made.
        target: the function's ARN, or the job's name.
        event: the function's input, or the job's arguments.
        is_job: whether a job is called.
        caller: the origin of the call: "schedule <name>", "rule <name>" or "lambda.Invoke".
        role_arn: the role with which a schedule invokes the function and sends the dead letter.
        by_schedule: whether a schedule fired it.
        dead_letter_arn: the queue for the event after the last retry has failed.
    """

    at_ms: int
    target: str
    event: Any
    is_job: bool = False
    caller: str = "lambda.Invoke"
    role_arn: str | None = None
    by_schedule: bool = False
    dead_letter_arn: str | None = None


class Starts:
    """Holds the calls that were accepted and not yet taken, in their order."""

    def __init__(self, clock: Clock, changed: Condition) -> None:
        self._clock, self._changed = clock, changed
        self._waiting: deque[Call] = deque()
        self._arns: dict[str, str] = {}
        self._jobs: set[str] = set()
        self._numbers = itertools.count(1)
        self.operations = {("lambda", "Invoke"): self._invoke, ("glue", "StartJobRun"): self._start_job_run}

    def know(self, resources: Iterable[Resource]) -> None:
        """Registers the functions and jobs of a stack as startable."""
        for resource in resources:
            if isinstance(resource, Function):
                self._arns[resource.name] = resource.arn
            elif isinstance(resource, Job):
                self._jobs.add(resource.name)

    def next_ms(self) -> int | None:
        """Returns the time of the oldest request. Returns None if there is none."""
        return self._waiting[0].at_ms if self._waiting else None

    def take(self) -> Call:
        """Returns the oldest requested call, which then waits no longer."""
        return self._waiting.popleft()

    def _invoke(self, params: dict[str, Any]) -> Answer:
        name = unquote(urlsplit(params["url"]).path.split("/")[3]).rpartition("function:")[2].partition(":")[0]
        kind = params["headers"].get("X-Amz-Invocation-Type", "RequestResponse")
        if kind != "Event":
            advice = "give InvocationType='Event': the local runtime invokes functions asynchronously only"
            return answer_of("lambda", 400, "InvalidParameterValueException", f"InvocationType is {kind!r}; {advice}")
        if name not in self._arns:
            return answer_of("lambda", 404, "ResourceNotFoundException", f"Function not found: {name}")
        try:
            event = json.loads(params["body"] or b"null")
        except ValueError as error:
            return answer_of(
                "lambda", 400, "InvalidRequestContentException", f"Could not parse request body into json: {error}"
            )
        self._accept(Call(at_ms=self._clock.now_ms(), target=self._arns[name], event=event))
        return 202, {}, b""

    def _start_job_run(self, params: dict[str, Any]) -> Answer:
        request = json.loads(params["body"])
        name = request["JobName"]
        if name not in self._jobs:
            return answer_of("glue", 400, "EntityNotFoundException", f"Job {name} not found.")
        run_id = f"jr_{next(self._numbers):064x}"
        arguments = dict(request.get("Arguments", {}))
        self._accept(Call(at_ms=self._clock.now_ms(), target=name, event=arguments, is_job=True))
        return 200, {}, json.dumps({"JobRunId": run_id}).encode()

    def _accept(self, call: Call) -> None:
        with self._changed:
            self._waiting.append(call)
            self._changed.notify_all()
