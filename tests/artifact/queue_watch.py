"""A proxy for SQS that records when messages become visible in each queue.

SQS tells no receiver when a message became visible. What was sent with which delay is in the requests. That is the
oracle's measure of early and late, on any SQS, and it tells the harness which time comes next.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from tests.artifact.backend import Backend
from tests.artifact.http_service import HttpService, Request, Response
from tests.artifact.moved_clock import MovedClock
from tidewheel.model.message import HEADER_ATTRIBUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The earliest and latest time at which a sent message becomes visible in SQS."""

    earliest_ms: int
    latest_ms: int


class QueueWatch:
    """Stands before SQS.

    Attributes:
        sights: Each copy of a message that was sent to a queue, by the queue's name and the message's id.
    """

    def __init__(self, sqs_url: str, clock: MovedClock) -> None:
        self._backend = Backend(sqs_url)
        self._clock = clock
        self._lock = Lock()
        self._visible_ms: defaultdict[str, list[int]] = defaultdict(list)
        self.sights: defaultdict[tuple[str, str], list[Sight]] = defaultdict(list)
        self._service = HttpService(self._answer, clock)
        self.url = self._service.url

    def close(self) -> None:
        """Stops answering."""
        self._service.close()

    def next_visible_ms(self, queue_name: str) -> int | None:
        """The time when the next message of a queue becomes visible, among messages not yet received."""
        with self._lock:
            times = self._visible_ms[queue_name]
            return times[0] if times else None

    def looked(self, queue_name: str, now_ms: int) -> None:
        """Records that all visible messages of a queue were received."""
        with self._lock:
            times = self._visible_ms[queue_name]
            while times and times[0] <= now_ms:
                heapq.heappop(times)

    def comes_back(self, queue_name: str, at_ms: int) -> None:
        """Records when a message becomes visible again."""
        with self._lock:
            heapq.heappush(self._visible_ms[queue_name], at_ms)

    def _answer(self, request: Request) -> Response:
        before_ms = self._clock.now_ms()
        response = self._backend.answer(request)
        if response.status == 200:
            operation = request.headers.get("x-amz-target", "").rpartition(".")[2]
            if operation in ("SendMessage", "SendMessageBatch"):
                asked = json.loads(request.body)
                failed = {each["Id"] for each in json.loads(response.body).get("Failed") or []}
                entries = asked.get("Entries") or [asked]
                sent = [each for each in entries if each.get("Id") not in failed]
                self._sent(asked["QueueUrl"], sent, before_ms, self._clock.now_ms())
            elif operation in ("ChangeMessageVisibility", "ChangeMessageVisibilityBatch"):
                asked = json.loads(request.body)
                for each in asked.get("Entries") or [asked]:
                    at_ms = self._clock.now_ms() + 1000 * int(each["VisibilityTimeout"])
                    self.comes_back(_name(asked["QueueUrl"]), at_ms)
        return response

    def _sent(self, queue_url: str, entries: list[Mapping[str, Any]], before_ms: int, after_ms: int) -> None:
        name = _name(queue_url)
        with self._lock:
            for each in entries:
                delay_ms = 1000 * int(each.get("DelaySeconds") or 0)
                heapq.heappush(self._visible_ms[name], after_ms + delay_ms)
                header = each.get("MessageAttributes", {}).get(HEADER_ATTRIBUTE, {}).get("StringValue")
                if header is not None:
                    sight = Sight(earliest_ms=before_ms + delay_ms, latest_ms=after_ms + delay_ms)
                    self.sights[name, json.loads(header)["id"]].append(sight)


def _name(queue_url: str) -> str:
    return queue_url.rpartition("/")[2]
