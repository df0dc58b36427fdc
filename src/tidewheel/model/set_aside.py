"""Defines what is set aside: planned segments that could not be read when their part was delivered.

    put ----> suspect ----> deleted, when its rows went to the queue or a park
                 |  ^
                 v  |  retry
              damaged ----> deleted, when somebody gives it up

A suspect is tried again by the sweep and holds collection, as an open delivery does. A damaged item is not tried and
holds nothing, because its bytes were copied to `aside/`. A set-aside item belongs to one generation of a subscription.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidewheel.model.object_names import PARKED
from tidewheel.model.plan import Piece, Plan
from tidewheel.model.subscription_state import Delivery, DeliveryKey, Owned, SubscriptionState

MAX_MANIFEST_BYTES = 300_000
"""Largest plan of an item, because an item has at most 400 KB."""
DAMAGED_AFTER_TRIES = 3
DAMAGED_AFTER_MS = 30 * 60_000
"""A suspect becomes damaged after this many tries that found damage, over at least this time."""
REFUSED_AFTER_MS = 24 * 3_600_000
"""A suspect that S3 refuses, while it gives others, is damaged after this time. So is what is lost with all others."""
UNKNOWN_GENERATION = "unknown"
"""Generation in the key of direct rows for a subscription that could not be read."""
_FIRST_WAIT_MS = 5 * 60_000
_MAX_WAIT_MS = 60 * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideKey(Owned):
    """Names a set-aside item.

    Attributes:
        generation: UNKNOWN_GENERATION if the subscription could not be read.
        id: made from the delivery and the pieces, so that a repetition that misses the same makes the same item.
    """

    id: str

    def is_of(self, subscription: SubscriptionState | None) -> bool:
        """Whether the item belongs to a subscription's present generation."""
        return (
            subscription is not None
            and subscription.name == self.subscription
            and self.generation in (subscription.generation, UNKNOWN_GENERATION)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """The pieces of a delivery's part that could not be read.

    Attributes:
        plan: the unreadable segments alone, with the ids that were cancelled when the whole plan was made.
        ranges: the pieces, each the number of a segment of `plan`, the first row and the row behind the last.
        start: the subscription's start.
        filter_policy: as in the delivery.
        first_ms, end_ms: as in the delivery, of a replay.
        reason: why the last try failed.
        first_seen_ms: when the first try failed.
        tries: tries so far, after the first.
        damage: tries that found damage, not only trouble.
        next_check_ms: when the sweep tries again. None: damaged.
    """

    key: SetAsideKey
    plan: Plan
    ranges: tuple[tuple[int, int, int], ...]
    start: int
    reason: str
    first_seen_ms: int
    next_check_ms: int | None
    tries: int = 0
    damage: int = 0
    filter_policy: str | None = None
    first_ms: int | None = None
    end_ms: int | None = None

    @property
    def damaged(self) -> bool:
        """Whether nobody tries again."""
        return self.next_check_ms is None

    @property
    def direct(self) -> bool:
        """Whether the rows were direct: no ledger has them."""
        return any(each.startswith(PARKED) for each in self.objects)

    def may_hold(self, slot: int, due_ms: int) -> bool:
        """Whether a message of a ledger, with this slot and due time, may be among the rows. Of no replay."""
        if self.direct or self.first_ms is not None or not self.plan.first_slot <= slot < self.plan.end_slot:
            return False
        segments = (each.planned.segment for each in self.pieces)
        inside = (each.first_deliver_at_ms <= due_ms <= each.last_deliver_at_ms for each in segments)
        return bool(self.plan.unindexed) or any(inside)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces that could not be read."""
        segments = self.plan.segments
        return tuple(Piece(planned=segments[i], first_row=first, end_row=end) for i, first, end in self.ranges)

    @property
    def objects(self) -> tuple[str, ...]:
        """Names of the objects, each once."""
        named = [each.object_name for each in self.plan.segments]
        return tuple(dict.fromkeys([*named, *(each.object_name for each in self.plan.unindexed)]))

    @property
    def rows(self) -> int:
        """Estimated messages."""
        of_segments = sum(max(1, each.due_rows) for each in self.plan.segments)
        return of_segments + sum(each.rows for each in self.plan.unindexed)

    @property
    def delivery(self) -> Delivery:
        """The delivery's selection of rows, as a delivery of one part without a queue."""
        return Delivery(
            key=DeliveryKey(**self.key.owned, plan=self.plan.first_slot),
            queue_url="",
            parts=1,
            start=self.start,
            next_check_ms=0,
            filter_policy=self.filter_policy,
            first_ms=self.first_ms,
            end_ms=self.end_ms,
        )


def set_aside_key(key: DeliveryKey, content: str) -> SetAsideKey:
    """Returns the key of what could not be read of a delivery, given a hash of what that is."""
    id = f"{key.plan:012d}.{key.replay or '-'}.{content[:16]}"
    return SetAsideKey(**key.owned, id=id)


def wait_ms(tries: int) -> int:
    """Returns how long to wait after a number of tries: 5, 10, 20, 40 minutes, then an hour."""
    return min(_FIRST_WAIT_MS << min(tries, 10), _MAX_WAIT_MS)
