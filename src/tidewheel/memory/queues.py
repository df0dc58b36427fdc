"""Queues in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidewheel.clock import Clock
from tidewheel.errors import QueueUnavailable
from tidewheel.flows.ports import Refusal, Release
from tidewheel.settings import SQS_MAX_DELAY_S
from tidewheel.subscription import DeliveryKey

MAX_BATCH = 10


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
    parts: list[tuple[DeliveryKey, int]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    rules: list[_Rule] = field(default_factory=list)


class MemoryQueues:
    """The port `Queues`, which remembers all that was sent, and when the clock makes it visible.

    Every URL is a queue, unless `remove` was told otherwise.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
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

    @property
    def parts(self) -> list[tuple[DeliveryKey, int]]:
        """What is in the work queue."""
        with self._lock:
            return list(self._state.parts)

    def take_parts(self) -> list[tuple[DeliveryKey, int]]:
        """Empties the work queue and returns what was in it."""
        with self._lock:
            taken, self._state.parts = self._state.parts, []
            return taken

    @property
    def refused(self) -> list[dict[str, Any]]:
        """The documents in the queue of refused messages."""
        with self._lock:
            return list(self._state.refused)

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
            now_ms = self._clock.now_ms()
            refusals: list[Refusal] = []
            for index, (release, delay_s) in enumerate(batch):
                rule = self._rule_for(release)
                if rule is not None:
                    refusals.append(Refusal(index, rule.permanent, rule.code, rule.reason))
                    continue
                self._state.sent.setdefault(queue_url, []).append(
                    SentMessage(
                        queue_url=queue_url,
                        text=release.text,
                        attributes=dict(release.attributes or {}),
                        header=release.header,
                        deliver_at_ms=release.deliver_at_ms,
                        sent_at_ms=now_ms,
                        visible_at_ms=now_ms + delay_s * 1000,
                    )
                )
            return refusals

    def _rule_for(self, release: Release) -> _Rule | None:
        for rule in self._state.rules:
            if rule.times != 0 and rule.applies(release):
                if rule.times is not None:
                    rule.times -= 1
                return rule
        return None

    def enqueue_parts(self, key: DeliveryKey, parts: Sequence[int]) -> None:
        """Remembers parts of a delivery."""
        with self._lock:
            self._state.parts.extend((key, part) for part in parts)

    def refuse(self, document: Mapping[str, object]) -> None:
        """Remembers a refused message, as JSON would carry it."""
        copy = json.loads(json.dumps(document))
        with self._lock:
            self._state.refused.append(copy)
