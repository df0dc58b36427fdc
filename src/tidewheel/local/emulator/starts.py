"""Accepts Lambda's Invoke and Glue's StartJobRun, and holds every asynchronous call until it is over.

    accept -> waiting --take--> under way --settle--> a retry is due, or over
    begin  ----------------------^

The pump runs the calls. A call that a schedule or a rule makes begins without waiting.

Why: moto would look for Docker to run a function, and runs no job at all. Only clients of our sessions are answered
here; over HTTP moto knows neither function nor job.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import Condition
from typing import Any
from urllib.parse import unquote, urlsplit

from tidewheel.clock import Clock
from tidewheel.local.emulator.resources import Function, Job, Resource

Answer = tuple[int, dict[str, Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An asynchronous call of a function or a job. All of it is plain data, so that a state folder can keep it.

    Attributes:
        at_ms: when the call was made; of a retry, when the retry is due.
        target: the function's ARN, or the job's name.
        event: the function's input, or the job's arguments.
        is_job: whether a job is called.
        caller: the origin of the call: "schedule <name>", "rule <name>" or "lambda.Invoke".
        role_arn: the role with which a schedule invokes the function and sends the dead letter.
        by_schedule: whether a schedule fired it.
        begin_retries: limit of the scheduler's retries of a call that could not begin.
        dead_letter_arn: the queue for the event after the last retry has failed.
        tries: retries so far.
    """

    at_ms: int
    target: str
    event: Any
    is_job: bool = False
    caller: str = "lambda.Invoke"
    role_arn: str | None = None
    by_schedule: bool = False
    begin_retries: int = 0
    dead_letter_arn: str | None = None
    tries: int = 0


class Starts:
    """Holds asynchronous calls, in the order in which they were accepted.

    Attributes:
        calls: the calls that are not over yet, by id.
        touched: called with the id of each call that is accepted, has another retry ahead, or is over.
    """

    def __init__(self, clock: Clock, changed: Condition) -> None:
        self._clock = clock
        self._changed = changed
        self._waiting: deque[str] = deque()
        self.calls: dict[str, Call] = {}
        self.touched: Callable[[str], None] = lambda _: None
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
        return self.calls[self._waiting[0]].at_ms if self._waiting else None

    def take(self) -> str:
        """Returns the id of the oldest requested call. It is no longer waiting, but under way."""
        return self._waiting.popleft()

    def begin(self, call: Call) -> str:
        """Accepts a call that is under way at once. Returns its id."""
        call_id = uuid.uuid4().hex
        with self._changed:
            self.calls[call_id] = call
            self.touched(call_id)
        return call_id

    def settle(self, call_id: str, retry_ms: int | None) -> None:
        """Notes that a call has ended, and when its retry is due. None: the call is over."""
        with self._changed:
            call = self.calls.pop(call_id)
            if retry_ms is not None:
                self.calls[call_id] = replace(call, at_ms=retry_ms, tries=call.tries + 1)
            self.touched(call_id)

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
        self._accept(Call(at_ms=self._clock.now_ms(), target=self._arns[name], event=event))
        return 202, {}, b""

    def _start_job_run(self, params: dict[str, Any]) -> Answer:
        request = json.loads(params["body"])
        name = request["JobName"]
        if name not in self._jobs:
            return _refused(400, "EntityNotFoundException", f"Job {name} not found.")
        run_id = f"jr_{next(self._numbers):064x}"
        arguments = dict(request.get("Arguments", {}))
        self._accept(Call(at_ms=self._clock.now_ms(), target=name, event=arguments, is_job=True))
        return 200, {}, json.dumps({"JobRunId": run_id}).encode()

    def _accept(self, call: Call) -> None:
        with self._changed:
            self._waiting.append(self.begin(call))
            self._changed.notify_all()


def _refused(status: int, code: str, message: str) -> Answer:
    """Returns an error for both protocols. Lambda has the code in a header, Glue in the body."""
    body = json.dumps({"__type": code, "Message": message, "message": message}).encode()
    return status, {"x-amzn-ErrorType": code}, body
