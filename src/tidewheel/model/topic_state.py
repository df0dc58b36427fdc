"""Defines the topic state, which every decision about a slot is checked against.

      collected_until        cursor            planned            sealed        now + lookahead
         |              |                  |                 |                  |
    -----+--------------+------------------+-----------------+------------------+---------> slots
    collected | handed out, being   | planned, waits  | sealed: no new    | open: rows go
              | delivered or done   | for this cursor | ledger, rows go   | to ledgers
              |                     |                 | direct            |

    open -> sealed -> planned -> handed out -> collected          collected_until <= planned <= sealed

`next_slot` is a lower bound of the first slot with work left. `work_version` grows with each ledger, subscription and
resume, `swap_version` with each merge, purge of ledgers and end of a recurring message, `subscriptions_version` with
each subscription. A change based on an older version is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidewheel.errors import UnsupportedLayout
from tidewheel.model.message import MessageId, id_bytes, id_deliver_at_ms
from tidewheel.model.settings import TopicSettings
from tidewheel.model.subscription_state import PlainReader
from tidewheel.model.untrusted import whole
from tidewheel.model.wheel import fires_at_ms

LAYOUT = 1
"""The layout of all data. A newer one is refused. See docs/upgrading.md."""
ALL_SEALED = 10**12 - 1
"""The value of `sealed` once a topic is deleted, above every slot."""
PURGE_KEPT_MS = 28 * 86_400_000
"""The longest time that a message can wait for ingest: SQS's 14 days in the queue, and 14 in its dead-letter queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """A purged time range. Rows due in the range and sent before the purge are dropped.

    The rows are due in [first_ms, end_ms), and were sent before `sent_before_ms`.
    """

    first_ms: int
    end_ms: int
    sent_before_ms: int

    @classmethod
    def of(cls, first_ms: object, end_ms: object, sent_before_ms: object, *_: object) -> Purge:
        """Reads a purge from the table or a checkpoint. Bounds may lie before 1970.

        Raises:
            ValueError: the values are not a purge.
        """
        least = -(1 << 63)
        return cls(first_ms=whole(first_ms, least), end_ms=whole(end_ms, least), sent_before_ms=whole(sent_before_ms))

    def covers(self, other: Purge) -> bool:
        """Returns whether this purge drops all messages of another purge."""
        within = self.first_ms <= other.first_ms and other.end_ms <= self.end_ms
        return within and other.sent_before_ms <= self.sent_before_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """The marks of a topic, in slots unless named otherwise.

    Attributes:
        generation: distinguishes topics with the same name, when a deleted name is used again.
        next_slot: None when no message waits.
        purge_ms: rows sent before this time are dropped.
        purges: time ranges whose rows are dropped if they were sent before the purge.
        deleting_at_ms: when the deletion of the topic began. None: the topic is not being deleted.
        next_check_ms: when the sweep checks the topic next. None: never.
        collect_at_ms: when ledgers are collected next. None: nothing to collect.
        merge_considered_version: `work_version` when the sweep last considered a merge.
        merge_at_ms: when the sweep considers the next merge. None: when enough ledgers have come.
        view_at_ms: when the sweep writes the next live view. None: the topic has none.
        waiting: messages in ledgers that are not planned. Each commit adds to the count. Each plan, merge and purge
            subtracts its estimate.
        recurring: how many recurring messages the topic has.
        layout: the layout by which all of the topic's data is read and changed.
        created_at_ms: when the topic was created. None: unknown.
        readers: the subscriptions that are not declared to claim messages.
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
    view_at_ms: int | None = None
    waiting: int = 0
    recurring: int = 0
    layout: int = LAYOUT
    created_at_ms: int | None = None
    readers: tuple[PlainReader, ...] = ()

    @property
    def slot_ms(self) -> int:
        """The topic's slot length."""
        return self.settings.slot_ms

    def claims(self, message_id: MessageId) -> bool:
        """Returns whether consumers claim a message."""
        return self.settings.claims_id(id_bytes(message_id))

    @property
    def plain_readers(self) -> list[str]:
        """The subscriptions that are declared as plain."""
        return [each.name for each in self.readers if each.declared]

    def cancellable_until_ms(self, id: bytes) -> int | None:
        """Returns until when the message with an id of 16 bytes can surely be stopped. None: until a consumer has it.

        A subscription that is not declared to claim may hand out a message that is stopped after the seal of its slot.
        """
        if self.settings.claims_id(id) and not self.readers:
            return None
        return id_deliver_at_ms(id) // self.slot_ms * self.slot_ms - self.settings.lookahead_ms

    def check_at(self, next_slot: int | None, collect_at_ms: int | None) -> int | None:
        """Returns when the sweep must check the topic next.

        This is the earliest of four times: the next merge, the next live view, the next slot's schedule plus a grace,
        and the collection plus one collect interval. A dispatch collects when the collection is due. The sweep collects
        only if no dispatch came within another interval.
        """
        times = [] if collect_at_ms is None else [collect_at_ms + self.settings.collect_interval_s * 1000]
        if next_slot is not None:
            times.append(fires_at_ms(self.topic, next_slot, self.settings) + self.settings.heal_grace_ms)
        times += [each for each in (self.merge_at_ms, self.view_at_ms) if each is not None]
        return min(times, default=None)

    def purged(self, due_ms: int, sent_ms: int, until_ms: float = math.inf) -> bool:
        """Returns whether a message with this due time and send time was purged, by a purge until a time."""
        return sent_ms < self.purge_ms <= until_ms or any(
            each.first_ms <= due_ms < each.end_ms and sent_ms < each.sent_before_ms <= until_ms for each in self.purges
        )

    def sent_at_ms(self, now_ms: int, known_until_ms: float = math.inf) -> int:
        """Returns the send timestamp, the later of now and the last purge until a time.

        A message sent before a purge may be dropped. A message sent at the time of the purge or later is not dropped.
        """
        purges_ms = [self.purge_ms, *(each.sent_before_ms for each in self.purges)]
        return max([now_ms, *(each for each in purges_ms if each <= known_until_ms)])

    def purges_in_force(self, now_ms: int, held_from: int | None) -> tuple[Purge, ...]:
        """Returns the purged ranges still in force for messages.

        Such a message is in a ledger, on its way to ingest, in an open delivery, or in a park.

        Args:
            now_ms: the time.
            held_from: the first slot with a message in an open delivery or a park. None: there is no such message.
        """
        slots = self.collected_until, self.collected_until if held_from is None else held_from
        collected_ms = min(slots) * self.slot_ms
        return tuple(
            each for each in self.purges if each.end_ms > collected_ms or each.sent_before_ms + PURGE_KEPT_MS > now_ms
        )

    @property
    def wants_merge(self) -> bool:
        """Whether the sweep must be asked to consider a merge.

        True if enough ledgers have come since the sweep last considered a merge, and `next_check_ms` does not ask for a
        merge already.
        """
        asked = (
            self.merge_at_ms is not None and self.next_check_ms is not None and self.next_check_ms <= self.merge_at_ms
        )
        return not asked and self.work_version + 1 - self.merge_considered_version > self.settings.max_buckets // 2


def check_layout(topic: str, layout: int) -> None:
    """Raises UnsupportedLayout if a topic's data layout is unknown to this release.

    A release changes nothing in a topic whose topic state it cannot read. Every change names the layout in its
    condition.
    """
    if layout > LAYOUT:
        raise UnsupportedLayout(topic, layout, LAYOUT)


def above(next_slot: int | None, slot: int) -> bool:
    """Returns whether the next slot must be lowered to include a slot."""
    return next_slot is None or next_slot > slot


def new_topic_state(topic: str, generation: str, settings: TopicSettings, now_ms: int) -> TopicState:
    """Returns a new topic's state with all marks at slot(now)."""
    slot = now_ms // settings.slot_ms
    view_at_ms = now_ms if settings.live_view else None
    return TopicState(
        topic=topic,
        generation=generation,
        settings=settings,
        sealed=slot,
        planned=slot,
        collected_until=slot,
        next_check_ms=view_at_ms,
        view_at_ms=view_at_ms,
        created_at_ms=now_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWork:
    """A changed next slot, with the times of the next check and the next collection."""

    next_slot: int | None
    next_check_ms: int | None
    collect_at_ms: int | None
