"""Answers each CloudFormation request to a custom resource exactly once.

    CloudFormation                          the function
    Create  properties           -->        answers with a physical id; with FAILED, the stack is rolled back
    Update  physical id, old and new
            properties           -->        answers with the same id: changed in place
                                            answers with another id: replaced, and a Delete of the old id follows
    Delete  physical id          -->        answers when it is gone, also when it was never there

The answer is an object put to a presigned URL. The URL is a secret. Without an answer, the stack waits until the
resource's `ServiceTimeout`. So the function also answers after an error, and a timer answers before Lambda ends the
function.

If the function stops before the answer, CloudFormation treats the resource as failed at the time-out and rolls back.
The next request finds all work done so far, so every request must accept work that is already done. After the answer,
the request is complete.

After FAILED, the Delete may come at once. So the work has a deadline, which ends when the timer answers: no request to
AWS begins later. It would create things after their deletion.
"""

from __future__ import annotations

import json
import random
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from threading import Lock, Timer
from typing import Any

from tidewheel import deadline
from tidewheel.errors import InvalidValue, OutOfTime, TidewheelError

RESERVE_S = 10.0
"""Time between the timer and the end of the function."""
PUT_TIMEOUT_S = 1.5
"""The longest that an attempt to answer waits: for the connection, for TLS, and for S3."""
PUT_S = RESERVE_S - 3 * PUT_TIMEOUT_S
"""Attempts to answer begin so long after the first."""
MAX_REASON = 900
"""Characters of a reason. CloudFormation's limit is 4,096 bytes with the ids, and a character has up to four bytes."""


class Kind(StrEnum):
    """The action requested by CloudFormation."""

    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request from CloudFormation.

    Attributes:
        answer_url: URL to which the answer is put; never logged.
        logical_id: The resource's name in the template.
        physical_id: The resource's id in the answer to its creation; None while the resource is created.
        properties: The template's properties, every value a text.
    """

    kind: Kind
    answer_url: str = field(repr=False)
    stack_id: str
    request_id: str
    logical_id: str
    resource_type: str
    physical_id: str | None
    properties: Mapping[str, Any]

    @classmethod
    def from_event(cls, event: Mapping[str, Any]) -> Request:
        """Reads the function's event.

        Raises:
            InvalidValue: the event is no request, so there is nobody to answer.
        """
        needed = ("RequestType", "ResponseURL", "StackId", "RequestId", "LogicalResourceId")
        missing = [name for name in needed if name not in event]
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
        )


Put = Callable[[str, bytes], None]
Work = Callable[[Request], str]


def answered(
    request: Request,
    work: Work,
    *,
    remaining_s: Callable[[], float],
    where: str,
    put: Put | None = None,
    timer: Callable[[float, Callable[[], None]], Timer] = Timer,
) -> str | None:
    """Does a request's work and answers the request exactly once.

    Args:
        request: the request.
        work: does the work and returns the physical id. Stops at its `deadline`, which is when the timer answers.
        remaining_s: tells the time until Lambda ends the function.
        where: where to read more about an unexpected error, such as a log stream's name.
        put: puts an answer to a URL; `put_answer` by default.
        timer: makes the timer.

    Returns:
        The reason of the failure, as told to CloudFormation; None on success.

    Raises:
        OSError: the answer could not be put.
    """
    reasons: list[str] = []
    lock = Lock()

    def answer(reason: str, physical_id: str | None = None) -> None:
        with lock:  # Held during the put: a second caller must not end the function first.
            if not reasons:
                (put or put_answer)(request.answer_url, _document(request, reason, physical_id))
                reasons.append(reason)

    seconds = max(0.0, remaining_s() - RESERVE_S)
    late = f"not done within {seconds:.0f} s; deploy again, which goes on from there (see {where})"
    guard = timer(seconds, lambda: answer(late))
    guard.start()
    try:
        with deadline.ends_in(lambda: remaining_s() - RESERVE_S):
            physical_id = work(request)
    except Exception as error:
        guard.cancel()
        answer(late if isinstance(error, OutOfTime) else _reason(error, where))
    else:
        guard.cancel()
        answer("", physical_id)
    return reasons[0] or None


def _document(request: Request, reason: str, physical_id: str | None) -> bytes:
    """Returns the answer to a request. A failed creation needs a physical id too, for the Delete that follows."""
    document = {
        "Status": "FAILED" if reason else "SUCCESS",
        "Reason": reason,
        "PhysicalResourceId": physical_id or request.physical_id or request.request_id,
        "StackId": request.stack_id,
        "RequestId": request.request_id,
        "LogicalResourceId": request.logical_id,
    }
    return json.dumps(document, ensure_ascii=False).encode()


def put_answer(url: str, body: bytes, *, seconds: float = PUT_S) -> None:
    """Puts an answer to the presigned URL, which is signed without a content type.

    Args:
        seconds: how long attempts may begin.

    Raises:
        OSError: all attempts failed.
    """
    end_s = time.monotonic() + seconds
    for attempt in count(1):
        request = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})
        try:
            with urllib.request.urlopen(request, timeout=PUT_TIMEOUT_S):
                return
        except OSError:
            pause_s = random.uniform(0.05, 0.1) * 2**attempt
            if time.monotonic() + pause_s > end_s:
                raise
        time.sleep(pause_s)


def _reason(error: Exception, where: str) -> str:
    """Returns the text for the stack's events. For unexpected errors, the text refers to the log."""
    text = str(error) if isinstance(error, TidewheelError) else f"{type(error).__name__}: {error} (see {where})"
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 3]}..."
