"""CloudFormation's contract with the function behind a custom resource: one answer to each request, whatever happens.

    CloudFormation                          the function
    Create  properties           -->        answers with a physical id; with FAILED, the stack is rolled back
    Update  physical id, old and new
            properties           -->        answers with the same id: changed in place
                                            answers with another id: replaced, and a Delete of the old id follows
    Delete  physical id          -->        answers when it is gone, also when it was never there

The answer is an object that is put to a presigned URL, which is a secret. A stack without an answer waits until the
resource's `ServiceTimeout`. So an answer goes out on an error too, and from a timer before Lambda ends the function.

If it stops before the answer: CloudFormation takes the resource for failed when its time is up, and rolls back. The
next request finds what was done until then, so any request may find anything done already. After the answer: done.

After FAILED, the Delete may come at once. So work that the timer has answered for asks before each of its steps whether
there is still a point in it, and stops: what it did later would be there after its deletion.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from tidewheel.errors import InvalidValue, TidewheelError

RESERVE_S = 10.0
"""The timer goes off so long before Lambda ends the function: three attempts to answer take less."""
ATTEMPTS = 3
PUT_TIMEOUT_S = 3.0
MAX_REASON = 900
"""Characters. CloudFormation takes answers of 4,096 bytes, of which the ids need some, and a character may be four."""


class Kind(StrEnum):
    """What CloudFormation asks for."""

    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"


class AnsweredAlready(Exception):
    """CloudFormation was told that the request failed: nothing more may be done for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of CloudFormation's.

    Attributes:
        answer_url: Where the answer is put; never logged.
        logical_id: The resource's name in the template.
        physical_id: What the resource was called in the answer to its creation; None while it is created.
        properties, old_properties: The template's, every value a text; old ones with an update only.
    """

    kind: Kind
    answer_url: str = field(repr=False)
    stack_id: str
    request_id: str
    logical_id: str
    resource_type: str
    physical_id: str | None
    properties: Mapping[str, Any]
    old_properties: Mapping[str, Any]

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> Request:
        """Reads the function's event.

        Raises:
            InvalidValue: it is no request, so there is nobody to answer.
        """
        missing = [
            name
            for name in ("RequestType", "ResponseURL", "StackId", "RequestId", "LogicalResourceId")
            if name not in event
        ]
        if missing or event["RequestType"] not in list(Kind):
            advice = f"only CloudFormation calls this function; the event lacks {', '.join(missing) or 'a RequestType'}"
            raise InvalidValue("event", sorted(event), advice)
        return cls(
            kind=Kind(event["RequestType"]),
            answer_url=str(event["ResponseURL"]),
            stack_id=str(event["StackId"]),
            request_id=str(event["RequestId"]),
            logical_id=str(event["LogicalResourceId"]),
            resource_type=str(event.get("ResourceType", "")),
            physical_id=event.get("PhysicalResourceId"),
            properties=event.get("ResourceProperties", {}),
            old_properties=event.get("OldResourceProperties", {}),
        )


class Timer(Protocol):
    """What `threading.Timer` is."""

    def start(self) -> None:
        """Starts to wait."""

    def cancel(self) -> None:
        """Calls nothing any more."""


StartTimer = Callable[[float, Callable[[], None]], Timer]
Put = Callable[[str, bytes], None]
Check = Callable[[], None]
"""Raises AnsweredAlready as soon as there is an answer; while one is put, it waits."""
Work = Callable[[Request, Check], str]


def answered(
    request: Request,
    work: Work,
    *,
    remaining_s: float,
    where: str,
    put: Put | None = None,
    timer: StartTimer = threading.Timer,
) -> str | None:
    """Does what a request asks for and answers it, exactly once.

    Args:
        request: the request.
        work: does it; returns the physical id. It calls the check before each step that changes something.
        remaining_s: how long the function may still run.
        where: where to read more about an error that nobody has foreseen, such as a log stream's name.
        put: puts an answer to a URL; `put_answer` by default.
        timer: makes the timer.

    Returns:
        Why it failed, as CloudFormation was told; None if all is well.

    Raises:
        OSError: the answer could not be put.
    """
    answer = _Answer(request, put or put_answer)
    seconds = max(0.0, remaining_s - RESERVE_S)
    late = f"not done within {seconds:.0f} s; deploy again, which goes on from there (see {where})"
    guard = timer(seconds, lambda: answer.failed(late))
    guard.start()
    try:
        physical_id = work(request, answer.check)
    except Exception as error:
        guard.cancel()
        answer.failed(_reason(error, where))
    else:
        guard.cancel()
        answer.succeeded(physical_id)
    return answer.reason


class _Answer:
    """The one answer to a request: the timer's or the work's, whichever is first."""

    def __init__(self, request: Request, put: Put) -> None:
        self._request = request
        self._put = put
        self._lock = threading.Lock()
        self._given = False
        self.reason: str | None = None

    def check(self) -> None:
        """Raises AnsweredAlready if the answer is given."""
        with self._lock:
            if self._given:
                raise AnsweredAlready(f"request {self._request.request_id} is answered already")

    def succeeded(self, physical_id: str) -> None:
        self._give("SUCCESS", "", physical_id)

    def failed(self, reason: str) -> None:
        # A creation that failed has an id, too: the Delete that follows needs one.
        self._give("FAILED", reason, self._request.physical_id or self._request.request_id)

    def _give(self, status: str, reason: str, physical_id: str) -> None:
        request = self._request
        document = {
            "Status": status,
            "Reason": reason,
            "PhysicalResourceId": physical_id,
            "StackId": request.stack_id,
            "RequestId": request.request_id,
            "LogicalResourceId": request.logical_id,
        }
        with self._lock:  # held while it is put: who comes second must not end the function before it is there
            if self._given:
                return
            self._put(request.answer_url, json.dumps(document, ensure_ascii=False).encode())
            self._given = True
            self.reason = reason or None


def put_answer(url: str, body: bytes) -> None:
    """Puts an answer to the presigned URL, which was signed for no content type.

    Raises:
        OSError: three attempts failed.
    """
    for attempt in range(1, ATTEMPTS + 1):
        request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})
        try:
            with urllib.request.urlopen(request, timeout=PUT_TIMEOUT_S):
                return
        except OSError:
            if attempt == ATTEMPTS:
                raise


def _reason(error: Exception, where: str) -> str:
    """Returns what the stack's events show: our own errors say what to do, of others the log says more."""
    text = str(error) if isinstance(error, TidewheelError) else f"{type(error).__name__}: {error} (see {where})"
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 3]}..."
