"""The answers to a race's threads, and the checks of the final state."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.recorded_queues import SentMessage
from tidewheel.model.message import MessageId
from tidewheel.model.topic_state import TopicState


@dataclass(slots=True, kw_only=True)
class Sent:
    """A message of the race.

    Attributes:
        sent_ms: by which a key chooses between its messages.
        ingests: calls of ingest that had it.
        accepted: whether one of these returned.
        cancelled: what cancels of it answered: True (never comes), False (too late), None (no answer).
        superseded: whether another message of its key was ingested while its slot was open.
    """

    id: MessageId
    due_ms: int
    key: str | None
    sent_ms: int
    ingests: int = 0
    accepted: bool = False
    cancelled: set[bool | None] = field(default_factory=set)
    superseded: bool = False


class Record:
    """All answers of a race, shared by the threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent: dict[str, Sent] = {}
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.violations: list[str] = []
        self.doubtful: list[tuple[int, int]] = []
        self._last: TopicState | None = None

    def did(self, what: str) -> None:
        """Counts something done."""
        with self.lock:
            self.done[what] += 1

    def gave_up(self, what: str) -> None:
        """Counts a call that gave up after conflicts."""
        with self.lock:
            self.failed[what] += 1

    def saw(self, state: TopicState) -> None:
        """Compares the marks with the marks seen before by the same thread."""
        last, self._last = self._last, state
        if not state.collected_until <= state.planned <= state.sealed:
            self.violations.append(f"not collected_until <= planned <= sealed: {state}")
        for mark in ("collected_until", "planned", "sealed", "work_version", "swap_version", "subscriptions_version"):
            if last is not None and getattr(state, mark) < getattr(last, mark):
                self.violations.append(f"{mark} went back from {getattr(last, mark)} to {getattr(state, mark)}")

    def may_double(self, first_ms: int, end_ms: int) -> None:
        """Records a delivery call without an answer, so that messages due in the range may arrive once more."""
        with self.lock:
            self.doubtful.append((first_ms, end_ms))

    # ---- the end
    def check(self, subscriptions: Iterable[str], messages: Iterable[SentMessage]) -> list[str]:
        """Returns all violations.

        Args:
            subscriptions: URLs of the queues that must have got every message.
            messages: what the queues took.
        """
        found = list(self.violations)
        copies: dict[str, Counter[str]] = {url: Counter() for url in subscriptions}
        for each in messages:
            copies[each.queue_url][each.id] += 1
            if each.visible_at_ms < each.deliver_at_ms:
                found.append(f"early: {each.id} by {each.deliver_at_ms - each.visible_at_ms} ms")
            if each.id not in self.sent:
                found.append(f"never sent: {each.id}")
        newest = self._newest()
        for sent in self.sent.values():
            for url, counts in copies.items():
                problem = self._problem(sent, counts[sent.id], newest)
                if problem is not None:
                    found.append(f"{problem}: {sent.id} came {counts[sent.id]} times to {url}: {sent}")
        return found

    def _newest(self) -> set[str]:
        by_key: defaultdict[str, list[Sent]] = defaultdict(list)
        for sent in self.sent.values():
            if sent.key is not None:
                by_key[sent.key].append(sent)
        newest: set[str] = set()
        for members in by_key.values():
            last_ms = max(each.sent_ms for each in members)
            last = [each.id for each in members if each.sent_ms == last_ms]
            newest.update(last if len(last) == 1 else ())  # of two of the same millisecond, either may win
        return newest

    def _problem(self, sent: Sent, copies: int, newest: set[str]) -> str | None:
        doubts = sum(first <= sent.due_ms < end for first, end in self.doubtful)
        if copies > max(1, sent.ingests) + doubts:
            return "doubled"
        if copies and True in sent.cancelled:
            return "cancelled, and came"
        if copies and sent.superseded:
            return "superseded in time, and came"
        must_come = sent.accepted and not sent.cancelled & {True, None} and (sent.key is None or sent.id in newest)
        return "lost" if must_come and not copies else None
