"""Queues in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidewheel.clock import Clock
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.ports import Refusal, Release
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.sqs_message import SqsError
from tidewheel.model.job import CatchUpJob, DrainJob, Job, PartJob, job_body, job_of
from tidewheel.model.message import HEADER_ATTRIBUTE, SQS_MAX_BYTES
from tidewheel.model.park import ParkKey
from tidewheel.model.settings import SQS_MAX_DELAY_S
from tidewheel.model.subscription import DeliveryKey

MAX_BATCH = 10
WORK_QUEUE = "work"
REFUSED_QUEUE = "refused"
_LONGEST_KEPT = {"MessageRetentionPeriod": str(14 * 86_400)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message that a queue took.

    Attributes:
        header: the text of the `tidewheel` attribute.
        deliver_at_ms: when it is due.
        sent_at_ms: when the queue took it.
        visible_at_ms: when a consumer can receive it: sent_at_ms plus the delay.
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
        """The message id, from the header."""
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
    """The port `Queues`, which remembers all that was sent, and when the clock makes it visible.

    Args:
        clock: when a message is sent, and what its delay is counted from.
        sqs: the queues that messages go to, for others to receive; a URL that is none of theirs is unavailable. None:
            every URL is a queue that nobody receives from. Either way, `remove` makes one unavailable.
        prefix: what the names of the work queue and the queue of refused messages start with.

    Attributes:
        work_queue: what is to be done; made if it is not there.
        refused_queue: what SQS refused for good, likewise.
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
        """Makes `send` to this queue raise QueueUnavailable, as if it were deleted."""
        with self._lock:
            self._state.gone.add(queue_url)

    def restore(self, queue_url: str) -> None:
        """Makes a removed queue take messages again."""
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
        """Makes `send` refuse the messages that `applies` picks.

        Args:
            times: how many messages are refused before the rule is forgotten; None: all.
        """
        rule = _Rule(applies=applies, permanent=permanent, code=code, reason=reason, times=times)
        with self._lock:
            self._state.rules.append(rule)

    def sent(self, queue_url: str | None = None) -> list[SentMessage]:
        """Returns what a queue, or all queues, took so far, in the order of taking within each queue."""
        with self._lock:
            if queue_url is not None:
                return list(self._state.sent.get(queue_url, ()))
            return [message for each in self._state.sent.values() for message in each]

    def forget_sent(self) -> None:
        """Forgets what was taken so far; for runs so long that remembering it would fill the memory."""
        with self._lock:
            self._state.sent.clear()

    @property
    def jobs(self) -> list[Job]:
        """What is in the work queue."""
        return [job_of(message.body) for message in self.work_queue.everything]

    def take_jobs(self) -> list[Job]:
        """Empties the work queue and returns what was in it."""
        with self._lock:
            taken = self.jobs
            self.work_queue.purge()
            return taken

    @property
    def parts(self) -> list[tuple[DeliveryKey, int]]:
        """The parts of deliveries that are in the work queue."""
        return [(job.key, job.part) for job in self.jobs if isinstance(job, PartJob)]

    def take_parts(self) -> list[tuple[DeliveryKey, int]]:
        """Empties the work queue and returns the parts of deliveries that were in it."""
        return [(job.key, job.part) for job in self.take_jobs() if isinstance(job, PartJob)]

    @property
    def refused(self) -> list[dict[str, Any]]:
        """The documents in the queue of refused messages."""
        return [json.loads(message.body) for message in self.refused_queue.everything]

    # ---- the port
    def send(self, queue_url: str, batch: Sequence[tuple[Release, int]]) -> list[Refusal]:
        """Takes messages, except those that a rule refuses.

        Raises:
            QueueUnavailable: the queue was removed.
            ValueError: over ten messages, or a delay that SQS does not take; nothing was taken.
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
            return Refusal(index, rule.permanent, rule.code, rule.reason)
        if self._sqs is not None:
            try:
                self._sqs.queue(queue_url).put(release.text, _attributes(release), delay_s)
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

    def enqueue_parks(self, keys: Sequence[ParkKey]) -> None:
        """Puts parks that are to be drained into the work queue."""
        self._enqueue(DrainJob(key=key) for key in keys)

    def enqueue_catch_up(self, topic: str, subscription: str, generation: str) -> None:
        """Puts into the work queue that a subscription was resumed."""
        self._enqueue([CatchUpJob(topic=topic, subscription=subscription, generation=generation)])

    def _enqueue(self, jobs: Iterable[Job]) -> None:
        # Never between the two steps of take_jobs, which would drop the job.
        with self._lock:
            for job in jobs:
                self.work_queue.put(job_body(job))

    def refuse(self, document: Mapping[str, object]) -> None:
        """Keeps a refused message as JSON; what makes it too large for SQS is cut, and the document says so."""
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
