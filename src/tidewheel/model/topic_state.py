"""A topic's state: the one item of marks that every decision about a slot is compared with.

      collected_until        cursor            planned            sealed        now + lookahead
         |              |                  |                 |                  |
    -----+--------------+------------------+-----------------+------------------+---------> slots
    collected | handed out, being   | planned, waits  | sealed: no new    | open: rows go
              | delivered or done   | for this cursor | ledger, rows go   | to ledgers
              |                     |                 | direct            |

    open -> sealed -> planned -> handed out -> collected          collected_until <= planned <= sealed

`next_slot` is a lower bound of the first slot with work left; `work_version` grows with each ledger, subscription and
resume, `swap_version` with each merge, `subscriptions_version` with each subscription, so that a change based on an
older sight of them is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidewheel.errors import UnsupportedLayout
from tidewheel.model.settings import TopicSettings
from tidewheel.model.untrusted import whole
from tidewheel.model.wheel import fires_at_ms

LAYOUT = 1
"""The layout of a topic's data that this release writes, and the newest that it reads: see docs/upgrading.md."""
ALL_SEALED = 10**12 - 1
"""What `sealed` becomes when a topic is deleted: above every slot."""
PURGE_KEPT_MS = 28 * 86_400_000
"""How long a message can wait for ingest: SQS's 14 days in its queue, and as many in the dead-letter queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """A purged range of time: rows due in [first_ms, end_ms) and sent before `sent_before_ms` are dropped."""

    first_ms: int
    end_ms: int
    sent_before_ms: int

    @classmethod
    def of(cls, first_ms: object, end_ms: object, sent_before_ms: object, *_: object) -> Purge:
        """Reads what the table or a checkpoint holds of it; a bound may lie before 1970.

        Raises:
            ValueError: it is not that.
        """
        least = -(1 << 63)
        return cls(first_ms=whole(first_ms, least), end_ms=whole(end_ms, least), sent_before_ms=whole(sent_before_ms))

    def covers(self, other: Purge) -> bool:
        """Whether it drops all that another drops."""
        within = self.first_ms <= other.first_ms and other.end_ms <= self.end_ms
        return within and other.sent_before_ms <= self.sent_before_ms


class PurgeMarks(Protocol):
    """What was purged of a topic: its topic state's marks, or a copy of them that a merge or a checkpoint holds."""

    @property
    def purge_ms(self) -> int:
        """Rows sent before it are dropped, whenever they are due."""
        ...

    @property
    def purges(self) -> tuple[Purge, ...]:
        """Ranges of time whose rows are dropped."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """The marks of one topic, in slots unless named otherwise.

    Attributes:
        generation: tells apart topics of the same name, one deleted and one created again.
        next_slot: None when nothing waits.
        purge_ms: rows sent before it are dropped.
        purges: ranges of time, of which rows that were sent before are dropped.
        deleting_at_ms: when the deletion of the topic began; None: it lives.
        next_check_ms: when the sweep looks at the topic next; None: never.
        collect_at_ms: when it is collected next; None: nothing to collect.
        merge_considered_version: `work_version` when the sweep last considered a merge.
        merge_at_ms: when it considers the next one; None: when enough ledgers have come.
        waiting: messages in ledgers that are not planned: counted by each commit, estimated anew by each dispatch.
        recurring: how many recurring messages the topic has.
        layout: by which rules all of the topic's data is read and changed.
    """

    topic: str
    generation: str
    settings: TopicSettings
    sealed: int
    planned: int
    collected_until: int
    next_slot: int | None = None
    work_version: int = 0
    swap_version: int = 0
    subscriptions_version: int = 0
    purge_ms: int = 0
    purges: tuple[Purge, ...] = ()
    deleting_at_ms: int | None = None
    next_check_ms: int | None = None
    collect_at_ms: int | None = None
    merge_considered_version: int = 0
    merge_at_ms: int | None = None
    waiting: int = 0
    recurring: int = 0
    layout: int = LAYOUT

    @property
    def slot_ms(self) -> int:
        """The topic's slot length."""
        return self.settings.slot_ms

    def check_at(self, next_slot: int | None, collect_at_ms: int | None) -> int | None:
        """Returns when the sweep must look: for a merge, or a grace after the next slot's schedule's time or the
        collection's.

        A dispatch collects on its way when it is time; the sweep does so only if none has come for another interval.
        """
        times = [] if collect_at_ms is None else [collect_at_ms + self.settings.collect_interval_s * 1000]
        if next_slot is not None:
            times.append(fires_at_ms(next_slot, self.settings) + self.settings.heal_grace_ms)
        if self.merge_at_ms is not None:
            times.append(self.merge_at_ms)
        return min(times, default=None)

    @property
    def last_purge_ms(self) -> int:
        """The newest purge: what was sent before it may be dropped, and nothing that was sent at it or later."""
        return max(self.purge_ms, *(each.sent_before_ms for each in self.purges), 0)

    def purged(self, due_ms: int, sent_ms: int) -> bool:
        """Returns whether a message that is due then, and was sent then, was purged."""
        return sent_ms < self.purge_ms or any(
            each.first_ms <= due_ms < each.end_ms and sent_ms < each.sent_before_ms for each in self.purges
        )

    def sent_at_ms(self, now_ms: int) -> int:
        """Returns the sending time of what is sent now: never before a purge that is known, whatever the clocks."""
        return max(now_ms, self.last_purge_ms)

    def purges_in_force(self, now_ms: int) -> tuple[Purge, ...]:
        """Returns the purged ranges that may still meet a message: one in a ledger, or on its way to ingest."""
        collected_ms = self.collected_until * self.slot_ms
        return tuple(
            each for each in self.purges if each.end_ms > collected_ms or each.sent_before_ms + PURGE_KEPT_MS > now_ms
        )

    @property
    def wants_merge(self) -> bool:
        """Whether enough ledgers have come since the sweep last considered a merge, and it does not know yet."""
        asked = (
            self.merge_at_ms is not None and self.next_check_ms is not None and self.next_check_ms <= self.merge_at_ms
        )
        return not asked and self.work_version + 1 - self.merge_considered_version > self.settings.max_buckets // 2


def check_layout(topic: str, layout: int) -> None:
    """Raises UnsupportedLayout if a topic's data has a layout that this release does not know.

    A release changes nothing of a topic whose topic state it cannot read: every change names the layout in its
    condition.
    """
    if layout > LAYOUT:
        raise UnsupportedLayout(topic, layout, LAYOUT)


def above(next_slot: int | None, slot: int) -> bool:
    """Whether the next slot must be lowered to reach a slot."""
    return next_slot is None or next_slot > slot


def new_topic_state(topic: str, generation: str, settings: TopicSettings, now_ms: int) -> TopicState:
    """Returns a new topic's state: all marks at slot(now)."""
    slot = now_ms // settings.slot_ms
    return TopicState(
        topic=topic, generation=generation, settings=settings, sealed=slot, planned=slot, collected_until=slot
    )
