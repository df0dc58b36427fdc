"""The expected messages, derived from the requests to the service alone, without ledgers, topic states or plans.

    COMES      each subscription gets it, at least once; exactly once if nothing died
    MAY_COME   what was asked came about when its slot was sealed, so both are right
    NEVER      nobody gets it any more

A slot is open until the lookahead before it starts: what is asked for by then takes effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from tidewheel.model.settings import TopicSettings


class Fate(Enum):
    """The fate of a message."""

    COMES = "comes"
    MAY_COME = "may come"
    NEVER = "never"


@dataclass(slots=True, kw_only=True)
class Sent:
    """A message and its known history.

    Attributes:
        order: its place among all that were sent.
        by: the ingest queue that it goes through.
        ingested_ms: when that queue was seen empty after it was sent; None: not yet.
        moved_to: what took its place.
        released: whether its key was cancelled since, in time or not, so that it keeps no other from coming.
    """

    id: str
    order: int
    sent_ms: int
    due_ms: int
    by: str
    key: str | None = None
    replace: bool = False
    expires_ms: int | None = None
    ingested_ms: int | None = None
    moved_to: Sent | None = field(default=None, repr=False)
    released: bool = False
    fate: Fate = Fate.COMES

    @property
    def now(self) -> Sent:
        """The message now in its place."""
        return self if self.moved_to is None else self.moved_to.now


class Oracle:
    """Keeps the fate of every message of a topic.

    Attributes:
        sent: by id.
    """

    def __init__(self, settings: TopicSettings) -> None:
        self._settings = settings
        self.sent: dict[str, Sent] = {}

    def is_open(self, message: Sent, now_ms: int) -> bool:
        """Whether a message waits in an open slot."""
        slot_ms = self._settings.slot_ms
        return now_ms + self._settings.lookahead_ms < message.due_ms // slot_ms * slot_ms

    def add(self, message: Sent, now_ms: int) -> None:
        """Adds a sent message. A message with a key and without `replace` is dropped while another waits."""
        waiting = [each for each in self._waiting(message.key, now_ms) if not each.released]
        if message.key is not None and not message.replace and waiting:
            if any(each.ingested_ms is None for each in waiting):  # either may be ingested first
                for each in [*waiting, message]:
                    each.fate = Fate.MAY_COME
            else:
                newest = max((each.order for each in self.with_key(message.key) if each.replace), default=-1)
                # One that was replaced too late comes, but the key stands for what took its place.
                known = any(each.fate is Fate.COMES and each.order >= newest for each in waiting)
                message.fate = Fate.NEVER if known else Fate.MAY_COME
        self.sent[message.id] = message

    def ingested(self, by: str, now_ms: int) -> None:
        """Notes an empty ingest queue, and ends all messages replaced by its messages."""
        for message in [each for each in self.sent.values() if each.ingested_ms is None and each.by == by]:
            message.ingested_ms = now_ms
            if message.replace:
                older = [each for each in self._waiting(message.key, -1) if each.order < message.order]
                due = [each for each in older if each.due_ms <= message.sent_ms]
                self._end((each for each in older if each not in due), now_ms, surely=message.fate is Fate.COMES)
                # What was due already, but perhaps in an ingest queue still.
                self.too_late(each for each in due if each.ingested_ms is None or each.ingested_ms >= message.sent_ms)

    def purge(self, first_ms: int, end_ms: int, now_ms: int) -> None:
        """Drops all messages due in [first_ms, end_ms) and sent until now."""
        self._end((each for each in self.sent.values() if first_ms <= each.due_ms < end_ms), now_ms, surely=True)

    def cancel(self, messages: Iterable[Sent]) -> None:
        """Notes a successful cancel, after which the messages never come."""
        for each in messages:
            each.fate = Fate.NEVER

    def too_late(self, messages: Iterable[Sent]) -> None:
        """Notes an answer of the service by which some of the messages come."""
        for each in messages:
            if each.fate is Fate.COMES:
                each.fate = Fate.MAY_COME

    def with_key(self, key: str) -> list[Sent]:
        """All messages with a key, of any fate."""
        return [each for each in self.sent.values() if each.key == key]

    def _waiting(self, key: str | None, now_ms: int) -> Iterator[Sent]:
        return (
            each
            for each in self.sent.values()
            if key is not None and each.key == key and each.fate is not Fate.NEVER and each.due_ms > now_ms
        )

    def _end(self, messages: Iterable[Sent], now_ms: int, *, surely: bool) -> None:
        for each in messages:
            if each.fate is not Fate.NEVER:
                in_time = each.ingested_ms is None or self.is_open(each, now_ms)
                each.fate = Fate.NEVER if in_time and surely else Fate.MAY_COME
