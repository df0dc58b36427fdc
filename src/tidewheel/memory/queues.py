"""Implements the queues in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidewheel.clock import Clock
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.ports.queues import Refusal, Release
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.sqs_message import SqsError
from tidewheel.model.job import CatchUpJob, DrainJob, HoldJob, Job, PartJob, SetAsideJob, job_body, job_of
from tidewheel.model.message import HEADER_ATTRIBUTE, SQS_MAX_BYTES
from tidewheel.model.park import ParkKey
from tidewheel.model.set_aside import SetAside
from tidewheel.model.settings import SQS_MAX_DELAY_S
from tidewheel.model.subscription_state import DeliveryKey

MAX_BATCH = 10
WORK_QUEUE = "work"
REFUSED_QUEUE = "refused"
_LONGEST_KEPT = {"MessageRetentionPeriod": str(14 * 86_400)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message that a queue accepted.

    Attributes:
        header: the text of the `tidewheel` attribute.
        deliver_at_ms: when the message is due.
        sent_at_ms: when the queue accepted the message.
        visible_at_ms: when a consumer can receive the message: sent_at_ms plus the delay.
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
    applies: Callable[[Release], bool]
    permanent: bool
    code: str
    reason: str
    times: int | None


@dataclass(slots=True)
class _State:
    sent: dict[str, list[SentMessage]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    rules: list[_Rule] = field(default_factory=list)


class MemoryQueues:
    """Implements the port `Queues` in memory, and records all sent messages.

    Args:
        clock: gives the sending time, from which delays count.
        sqs: the queues to which messages are sent, for consumers to receive. A URL of no such queue is unavailable.
            None: every URL is a queue without consumers. Either way, `remove` makes a queue unavailable.
        prefix: prefix of the names of the work queue and the queue of refused messages.

    Attributes:
        work_queue: the jobs to do; created if absent.
        refused_queue: messages that SQS refused permanently; created if absent.
    """

    def __init__(self, clock: Clock, sqs: MemorySqs | None = None, *, prefix: str = "") -> None:
        self._clock = clock
        self._sqs = sqs
        own = MemorySqs(clock) if sqs is None else sqs
        self.work_queue = own.create_queue(f"{prefix}{WORK_QUEUE}", _LONGEST_KEPT)
        self.refused_queue = own.create_queue(f"{prefix}{REFUSED_QUEUE}", _LONGEST_KEPT)
        self._lock = threading.Lock()
        self._state = _State()

    # ---- what a test tells and asks
    def remove(self, queue_url: str) -> None:
        """Makes `send` to this queue raise QueueUnavailable, as if the queue were deleted."""
        with self._lock:
            self._state.gone.add(queue_url)

    def restore(self, queue_url: str) -> None:
        """Makes a removed queue accept messages again."""
        with self._lock:
            self._state.gone.discard(queue_url)

    def refuse_if(
        self,
        applies: Callable[[Release], bool],
        *,
        permanent: bool,
        code: str = "InvalidMessageContents",
        reason: str = "told to refuse",
        times: int | None = None,
    ) -> None:
        """Makes `send` refuse the messages that `applies` selects.

        Args:
            times: how many messages are refused before the rule ends; None: all.
        """
        rule = _Rule(applies=applies, permanent=permanent, code=code, reason=reason, times=times)
        with self._lock:
            self._state.rules.append(rule)

    def sent(self, queue_url: str | None = None) -> list[SentMessage]:
        """Returns all messages that a queue, or every queue, accepted so far.

        Each queue's messages are in the order of acceptance.
        """
        with self._lock:
            if queue_url is not None:
                return list(self._state.sent.get(queue_url, ()))
            return [message for each in self._state.sent.values() for message in each]

    def forget_sent(self) -> None:
        """Deletes the record of accepted messages, so that long runs do not fill the memory."""
        with self._lock:
            self._state.sent.clear()

    @property
    def jobs(self) -> list[Job]:
        """The jobs in the work queue."""
        return [job_of(message.body) for message in self.work_queue.everything]

    def take_jobs(self) -> list[Job]:
        """Empties the work queue and returns its jobs."""
        with self._lock:
            taken = self.jobs
            self.work_queue.purge()
            return taken

    @property
    def parts(self) -> list[tuple[DeliveryKey, int]]:
        """The delivery parts in the work queue."""
        return [(job.key, job.part) for job in self.jobs if isinstance(job, PartJob)]

    def take_parts(self) -> list[tuple[DeliveryKey, int]]:
        """Empties the work queue and returns its delivery parts."""
        return [(job.key, job.part) for job in self.take_jobs() if isinstance(job, PartJob)]

    @property
    def refused(self) -> list[dict[str, Any]]:
        """The documents in the queue of refused messages."""
        return [json.loads(message.body) for message in self.refused_queue.everything]

    # ---- the port
    def send(self, queue_url: str, batch: Sequence[tuple[Release, int]]) -> list[Refusal]:
        """Accepts messages, except messages refused by a rule.

        Raises:
            QueueUnavailable: the queue was removed.
            ValueError: over ten messages, or a delay that SQS does not accept; no message was accepted.
        """
        if not 1 <= len(batch) <= MAX_BATCH:
            raise ValueError(f"a batch has 1 to {MAX_BATCH} messages, not {len(batch)}")
        for _, delay_s in batch:
            if not 0 <= delay_s <= SQS_MAX_DELAY_S:
                raise ValueError(f"a delay is 0 to {SQS_MAX_DELAY_S} s, not {delay_s}")
        with self._lock:
            if queue_url in self._state.gone:
                raise QueueUnavailable(queue_url, "it does not exist")
            refusals = [self._take(queue_url, index, *entry) for index, entry in enumerate(batch)]
            return [refusal for refusal in refusals if refusal is not None]

    def _take(self, queue_url: str, index: int, release: Release, delay_s: int) -> Refusal | None:
        rule = self._rule_for(release)
        if rule is not None:
            alike = "Throttl" in rule.code or rule.code.startswith(("AccessDenied", "KMS"))
            return Refusal(index, rule.permanent and not alike, rule.code, rule.reason, alike)
        if self._sqs is not None:
            try:
                system = None if release.group is None else {"MessageGroupId": release.group}
                self._sqs.queue(queue_url).put(release.text, _attributes(release), delay_s, system)
            except SqsError as error:
                if error.code.endswith("NonExistentQueue"):
                    raise QueueUnavailable(queue_url, str(error)) from error
                return Refusal(index, True, error.code, error.message)
        now_ms = self._clock.now_ms()
        sent = SentMessage(
            queue_url=queue_url,
            text=release.text,
            attributes=dict(release.attributes or {}),
            header=release.header,
            deliver_at_ms=release.deliver_at_ms,
            sent_at_ms=now_ms,
            visible_at_ms=now_ms + delay_s * 1000,
        )
        self._state.sent.setdefault(queue_url, []).append(sent)
        return None

    def _rule_for(self, release: Release) -> _Rule | None:
        for rule in self._state.rules:
            if rule.times != 0 and rule.applies(release):
                if rule.times is not None:
                    rule.times -= 1
                return rule
        return None

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Puts parts of a delivery into the work queue."""
        self._enqueue(PartJob(key=key, part=part) for part in parts)

    def enqueue_parks(self, keys: Sequence[ParkKey], *, delay_s: int = 0) -> None:
        """Puts parks into the work queue to be drained."""
        self._enqueue((DrainJob(key=key) for key in keys), delay_s)

    def enqueue_hold(self, job: HoldJob, *, delay_s: int = 0) -> None:
        """Puts held messages into the work queue."""
        self._enqueue([job], delay_s)

    def enqueue_set_aside(self, items: Sequence[SetAside]) -> None:
        """Puts tries of set-aside items into the work queue."""
        self._enqueue(SetAsideJob(key=each.key, tries=each.tries) for each in items)

    def enqueue_catch_up(self, topic: str, subscription: str, generation: str) -> None:
        """Puts a resumed subscription's job into the work queue."""
        self._enqueue([CatchUpJob(topic=topic, subscription=subscription, generation=generation)])

    def _enqueue(self, jobs: Iterable[Job], delay_s: int = 0) -> None:
        # The lock keeps this out of take_jobs, which would drop a job put between its two steps.
        with self._lock:
            for job in jobs:
                self.work_queue.put(job_body(job), delay_s=delay_s)

    def refuse(self, document: Mapping[str, object]) -> None:
        """Stores a refused message as JSON. An oversized field is cut and named in the document."""
        kept = dict(document)
        lengths: dict[str, int] = {}
        while len(text := json.dumps({**kept, "cut": lengths} if lengths else kept)) > SQS_MAX_BYTES:
            longest = max(kept, key=lambda name: len(json.dumps(kept[name])))
            whole = str(kept[longest])
            lengths.setdefault(longest, len(whole))
            kept[longest] = whole[: len(whole) // 2]
        self.refused_queue.put(text)


def _attributes(release: Release) -> dict[str, dict[str, str]]:
    values = {HEADER_ATTRIBUTE: release.header, **(release.attributes or {})}
    return {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}
