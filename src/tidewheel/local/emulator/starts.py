"""Accepts Lambda's Invoke and Glue's StartJobRun. The pump runs them later.

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

Answer = tuple[int, dict[str, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionStart:
    """A requested asynchronous invocation."""

    at_ms: int
    arn: str
    event: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStart:
    """A requested job run."""

    at_ms: int
    job_name: str
    arguments: dict[str, str]


Start = FunctionStart | JobStart


class Starts:
    """Holds requested starts, in the order of the requests."""

    def __init__(self, clock: Clock, changed: Condition) -> None:
        self._clock = clock
        self._changed = changed
        self._waiting: deque[Start] = deque()
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

    def take(self) -> Start:
        """Removes and returns the oldest request."""
        return self._waiting.popleft()

    def _invoke(self, params: dict[str, Any]) -> Answer:
        name = unquote(urlsplit(params["url"]).path.split("/")[3]).rpartition("function:")[2].partition(":")[0]
        kind = params["headers"].get("X-Amz-Invocation-Type", "RequestResponse")
        if kind != "Event":
            advice = "give InvocationType='Event': the local runtime invokes functions asynchronously only"
            return _refused(400, "InvalidParameterValueException", f"InvocationType is {kind!r}; {advice}")
        if name not in self._arns:
            return _refused(404, "ResourceNotFoundException", f"Function not found: {name}")
        try:
            event = json.loads(params["body"] or b"null")
        except ValueError as error:
            return _refused(400, "InvalidRequestContentException", f"Could not parse request body into json: {error}")
        self._add(FunctionStart(at_ms=self._clock.now_ms(), arn=self._arns[name], event=event))
        return 202, {}, b""

    def _start_job_run(self, params: dict[str, Any]) -> Answer:
        request = json.loads(params["body"])
        name = request["JobName"]
        if name not in self._jobs:
            return _refused(400, "EntityNotFoundException", f"Job {name} not found.")
        run_id = f"jr_{next(self._numbers):064x}"
        arguments = dict(request.get("Arguments", {}))
        self._add(JobStart(at_ms=self._clock.now_ms(), job_name=name, arguments=arguments))
        return 200, {}, json.dumps({"JobRunId": run_id}).encode()

    def _add(self, start: Start) -> None:
        with self._changed:
            self._waiting.append(start)
            self._changed.notify_all()


def _refused(status: int, code: str, message: str) -> Answer:
    """Returns an error for both protocols. Lambda has the code in a header, Glue in the body."""
    body = json.dumps({"__type": code, "Message": message, "message": message}).encode()
    return status, {"x-amzn-ErrorType": code}, body
