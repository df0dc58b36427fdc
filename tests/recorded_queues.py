"""The deployed queues over in-memory SQS, with a record of all accepted messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from tests.stored import altered
from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.clock import Clock
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.ports import QueueMessage, Refusal
from tidewheel.local import MemoryTidewheel
from tidewheel.memory import MemoryService, MemorySqs
from tidewheel.memory.service import memory_queues
from tidewheel.model.subscription_state import DeliveryKey
from tidewheel.model.task import PartTask, Task, task_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message accepted by a queue.

    Attributes:
        header: the text of the `tidewheel` attribute.
        visible_at_ms: when a consumer can receive the message.
    """

    queue_url: str
    text: str
    attributes: Mapping[str, str]
    header: str
    deliver_at_ms: int
    sent_at_ms: int
    visible_at_ms: int

    @property
    def id(self) -> str:
        """The message id from the header."""
        return str(json.loads(self.header)["id"])


@dataclass(slots=True, kw_only=True)
class _Rule:
    applies: Callable[[QueueMessage], bool]
    permanent: bool
    code: str
    reason: str
    times: int | None


class RecordedQueues(SqsQueues):
    """The deployed queues, with removable queues and refusals chosen by tests.

    Args:
        clock: the queues' time.
        sqs: the queues; None: each URL is a queue.
        prefix: prefix of the names of the work queue and the queue of refused messages.

    Attributes:
        gone: URLs of removed queues.
    """

    def __init__(self, clock: Clock, sqs: MemorySqs | None = None, *, prefix: str = "") -> None:
        self.sqs = MemorySqs(clock, on_demand=True) if sqs is None else sqs
        made = memory_queues(self.sqs, prefix)
        self.work_queue, self.refused_queue = map(self.sqs.queue, (made.work_queue_url, made.refused_queue_url))
        super().__init__(
            made.client,
            work_queue_url=self.work_queue.url,
            refused_queue_url=self.refused_queue.url,
            ingest_queues=lambda _: ("tidewheel_urgent", "tidewheel_bulk"),
            sleep=lambda _: None,
        )
        self.gone: set[str] = set()
        self._clock = clock
        self._sent: dict[str, list[SentMessage]] = {}
        self._rules: list[_Rule] = []

    # ---- what a test tells and asks
    def remove(self, queue_url: str) -> None:
        """Makes `send` to this queue raise QueueUnavailable, as if the queue were deleted."""
        self.gone.add(queue_url)

    def restore(self, queue_url: str) -> None:
        """Makes a removed queue accept messages again."""
        self.gone.discard(queue_url)

    def refuse_if(
        self,
        applies: Callable[[QueueMessage], bool],
        *,
        permanent: bool,
        code: str = "InvalidMessageContents",
        reason: str = "told to refuse",
        times: int | None = None,
    ) -> None:
        """Makes queues refuse messages, either the first `times` or all."""
        self._rules.append(_Rule(applies=applies, permanent=permanent, code=code, reason=reason, times=times))

    def sent(self, queue_url: str | None = None) -> list[SentMessage]:
        """Returns the messages accepted by one or all queues, in the order of acceptance."""
        if queue_url is not None:
            return list(self._sent.get(queue_url, ()))
        return [message for each in list(self._sent.values()) for message in each]

    @property
    def jobs(self) -> list[Task]:
        """The jobs in the work queue."""
        return [task_of(message.body) for message in self.work_queue.everything]

    def take_jobs(self) -> list[Task]:
        """Empties the work queue and returns the jobs."""
        with self.sqs.lock:  # no job may come between the two steps
            taken = self.jobs
            self.work_queue.purge()
            return taken

    def take_parts(self) -> list[tuple[DeliveryKey, int]]:
        """Empties the work queue and returns the delivery parts."""
        return [(job.key, job.part) for job in self.take_jobs() if isinstance(job, PartTask)]

    @property
    def refused(self) -> list[dict[str, Any]]:
        """The documents in the queue of refused messages."""
        return [json.loads(message.body) for message in self.refused_queue.everything]

    # ---- the port
    def send(self, queue_url: str, batch: Sequence[tuple[QueueMessage, int]]) -> list[Refusal]:
        """Sends the messages to which no rule applies, and records the accepted ones."""
        if queue_url in self.gone:
            raise QueueUnavailable(queue_url, "it does not exist")
        told = {index: rule for index, (release, _) in enumerate(batch) if (rule := self._rule_for(release))}
        places = [index for index in range(len(batch)) if index not in told]
        found = super().send(queue_url, [batch[index] for index in places]) if places else []
        refusals = [replace(each, index=places[each.index]) for each in found]
        refusals += [
            Refusal(index, rule.permanent and not _of_all(rule.code), rule.code, rule.reason)
            for index, rule in told.items()
        ]
        not_taken, now_ms = {each.index for each in refusals}, self._clock.now_ms()
        self._sent.setdefault(queue_url, []).extend(
            SentMessage(
                queue_url=queue_url,
                text=release.text,
                attributes=dict(release.attributes or {}),
                header=release.header,
                deliver_at_ms=release.deliver_at_ms,
                sent_at_ms=now_ms,
                visible_at_ms=now_ms + delay_s * 1000,
            )
            for index, (release, delay_s) in enumerate(batch)
            if index not in not_taken
        )
        return sorted(refusals, key=lambda each: each.index)

    def _rule_for(self, release: QueueMessage) -> _Rule | None:
        for rule in self._rules:
            if rule.times != 0 and rule.applies(release):
                if rule.times is not None:
                    rule.times -= 1
                return rule
        return None


def _of_all(code: str) -> bool:
    return "Throttl" in code or code.startswith(("AccessDenied", "KMS"))


class RecordedService(MemoryService):
    """A service in memory whose queues are recorded."""

    queues: RecordedQueues


def recorded_service(clock: Clock, **options: Any) -> RecordedService:
    """Returns an empty service whose queues are recorded. Each URL is a queue."""
    return cast("RecordedService", altered(MemoryService.at(clock, **options), queues=RecordedQueues(clock)))


class RecordedTidewheel(MemoryTidewheel):
    """`MemoryTidewheel` with recorded queues."""

    service: RecordedService

    def _make_service(self, max_skew_ms: int) -> MemoryService:
        service = super()._make_service(max_skew_ms)
        return altered(service, queues=RecordedQueues(self.clock, self.sqs.sqs, prefix=f"{self.stack_name}_"))
