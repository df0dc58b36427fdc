"""Deaths of a function or a program at an AWS call, before or after the call's effect.

Or AWS answers a function no more, and its calls take its time.

The hooks stand where botocore hands a call over and takes the answer back, so that neither its repetitions nor the
code above can hide it. What died does nothing more: a `finally` or an `except` that calls AWS dies there again.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

import botocore.session
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError

from tests.flows.world import Crash
from tidewheel.local.handlers import Handler, LambdaContext

CLIENT = "client"
"""Whose calls those are that no function makes: the program with the SDK's client."""
_INGEST_QUEUES = frozenset({"TIDEWHEEL_URGENT_QUEUE_URL", "TIDEWHEEL_BULK_QUEUE_URL"})
_QUEUES = _INGEST_QUEUES | {"TIDEWHEEL_WORK_QUEUE_URL", "TIDEWHEEL_REFUSED_QUEUE_URL"}
"""Variables of functions with the stack's queues; all other queues are subscriptions'."""
_READS = ("Get", "Head", "List", "Query", "Scan", "BatchGet", "Describe")


class When(Enum):
    """The kinds of happenings at a call."""

    BEFORE = "died before"
    AFTER = "died after"
    TWICE = "ran again whole before"
    """AWS gives the same event to the function once more, and that call runs from begin to end before this one."""
    HALF = "had every other message refused at"
    HANGS = "got no answer to this call and all later ones of its invocation:"
    """Each call takes all its tries, in the function's time. AWS does nothing of them."""


HANGING_S = 11
"""What a call takes that AWS does not answer: two tries with their time-outs, and the wait between them."""


class FunctionDied(Exception):
    """Lambda's error for the call of a dead function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A call at which something happens.

    Attributes:
        victim: who makes the call: a function's name, or CLIENT.
        number: of the call, from 1, over all that the story lets the victim do.
        operation: as "dynamodb.PutItem".
        when: what happens there.
        first: whether it is the first call of its invocation or program.
    """

    victim: str
    number: int
    operation: str
    when: When
    first: bool

    @property
    def matters(self) -> bool:
        """Whether no other death leaves AWS in the same state.

        Death before a call, but the first of an invocation, finds AWS as death after the call before does; and death
        after a read as death before it.
        """
        if self.when is When.BEFORE:
            return self.first
        return not self.operation.partition(".")[2].startswith(_READS)

    def __str__(self) -> str:
        return f"{self.victim} {self.when.value} call {self.number}, {self.operation}"


class Watch:
    """Follows the running function or program and its AWS calls.

    Attributes:
        visit: asked at each point of the victim's; True: it happens. None: nothing does.
        calls: of the victim so far, by operation, in order.
        deaths: so far.
        unmarked: how many of those that died, or ran twice at one time, had handed messages over, which is marked
            only after it: each may cost a copy. A function hands over to subscriptions, a program to ingest.
        job_errors: what jobs of the work queue ended with, which the function only reports as failed.
        overran: the functions that Lambda would have ended at their time-outs.
    """

    def __init__(self) -> None:
        self.visit: Callable[[Point], bool] | None = None
        self.calls: list[str] = []
        self.deaths = 0
        self.unmarked = 0
        self.job_errors: list[Exception] = []
        self.overran: list[str] = []
        self._hangs = False
        self._spent_s = 0
        self._victim: str | None = None
        self._running: list[tuple[Handler, Any]] = []
        self._dead = False
        self._first = True
        self._refused: list[str] = []
        self._handing_over = False
        self._handed_over = False
        self._twice = False
        self._queues: dict[str, str] = {}

    @contextmanager
    def mortal(self, victim: str) -> Iterator[None]:
        """Counts the victim's AWS calls within the block. Each call may be the victim's last."""
        self._victim, self._first, self._handed_over = victim, True, False
        try:
            yield
        finally:
            self._victim = None

    def begin_program(self) -> None:
        """Starts a program, after the death of another program or for its own sake."""
        self._dead, self._first, self._handed_over = False, True, False

    def observe(self, session: botocore.session.Session) -> None:
        """Follows all later clients of a session."""
        events = session.get_component("event_emitter")
        events.register("before-call", self._before)
        events.register("after-call", self._after)

    def make_mortal(self, handler: Handler) -> None:
        """Makes a function mortal, as on Lambda. After a death its caller gets an error."""
        invoke = handler.invoke
        context: Any = LambdaContext
        if not hasattr(context, "undisturbed"):
            context.undisturbed = context.get_remaining_time_in_millis
        context.get_remaining_time_in_millis = lambda it: max(0, it.undisturbed() - 1000 * self._spent_s)
        self._queues |= {handler.spec.environment[each]: each for each in _QUEUES & handler.spec.environment.keys()}

        def invoked(event: Any) -> Any:
            outer = self._first, self._handed_over
            self._running.append((handler, event))
            self._first, self._handed_over = True, False
            self._spent_s = 0
            try:
                return invoke(event)
            except Crash as crash:
                raise FunctionDied(str(crash)) from None
            finally:
                self._running.pop()
                self._dead = self._hangs = False
                if self._spent_s * 1000 > handler.spec.timeout_ms:
                    self.overran.append(f"{handler.spec.folder} took {self._spent_s} s of {handler.spec.timeout_ms} ms")
                self._first, self._handed_over = outer

        handler.invoke = invoked  # type: ignore[method-assign]
        module = handler.module
        if hasattr(module, "do_job"):
            module.do_job = self._noting_errors(module.do_job)

    def _noting_errors(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            try:
                return call(*args)
            except Exception as error:
                self.job_errors.append(error)
                raise

        return noted

    @property
    def _who(self) -> str:
        return self._running[-1][0].spec.folder if self._running else CLIENT

    def _before(self, model: Any, params: dict[str, Any], **_: Any) -> tuple[AWSResponse, dict[str, Any]] | None:
        if self._dead:
            raise Crash("it is dead")
        if self._victim is None or self._who != self._victim:
            return None
        if self._hangs:
            self._hang()
        self.calls.append(f"{model.service_model.service_name}.{model.name}")
        if self._happens(When.BEFORE):
            self._die()
        if self._running and self._happens(When.TWICE):
            handler, event = self._running[-1]
            self._twice = True
            handler.invoke(copy.deepcopy(event))
        if self._running and self._happens(When.HANGS):
            self._hangs, self.deaths, self.unmarked = True, self.deaths + 1, self.unmarked + self._handed_over
            self._hang()
        self._first = False
        self._handing_over = model.name.startswith("SendMessage") and self._hands_over(params)
        if model.name == "SendMessageBatch" and self._happens(When.HALF):
            return self._refuse_half(params)
        return None

    def _after(self, model: Any, parsed: dict[str, Any], **_: Any) -> None:
        if self._victim is None or self._who != self._victim:
            return
        for entry_id in self._refused:
            refusal = {"Id": entry_id, "Code": "InternalError", "Message": "not now", "SenderFault": False}
            parsed.setdefault("Failed", []).append(refusal)
        self._refused = []
        if self._handing_over:
            self._handing_over, self._handed_over = False, True
            self.unmarked, self._twice = self.unmarked + self._twice, False
        if self._happens(When.AFTER):
            self._die()

    def _happens(self, when: When) -> bool:
        if self.visit is None:
            return False
        assert self._victim is not None
        number, operation = len(self.calls), self.calls[-1]
        return self.visit(Point(victim=self._victim, number=number, operation=operation, when=when, first=self._first))

    def _hang(self) -> None:
        self._spent_s += HANGING_S
        raise ReadTimeoutError(endpoint_url="https://aws")

    def _die(self) -> None:
        self._dead = True
        self.deaths += 1
        self.unmarked += self._handed_over
        raise Crash(f"at call {len(self.calls)}, {self.calls[-1]}")

    def _hands_over(self, params: dict[str, Any]) -> bool:
        """Whether a request passes messages on to their next receivers, from the victim's point of view."""
        known = self._queues.get(json.loads(params["body"])["QueueUrl"])
        return known in _INGEST_QUEUES if self._who == CLIENT else known is None

    def _refuse_half(self, params: dict[str, Any]) -> tuple[AWSResponse, dict[str, Any]] | None:
        """Removes every other message of a batch before SQS sees the batch. Answers itself if none is left."""
        request = json.loads(params["body"])
        self._refused = [entry["Id"] for entry in request["Entries"][::2]]
        request["Entries"] = request["Entries"][1::2]
        if not request["Entries"]:
            return AWSResponse(params["url"], 200, {}, None), {"Successful": []}
        params["body"] = json.dumps(request).encode()
        return None
