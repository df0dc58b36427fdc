"""Divides the marks of a delivery's parts among items, so that no item takes the writes of all parts.

    item    parts
    0       0 to 255, which is the delivery itself
    1       256 to 511: a copy of the delivery with other marks, in a partition of its own
    ...
    95      24,320 to 24,575
    0       24,576 to 24,831, and so on

A transaction puts all items of a delivery, and a transaction deletes them. So a delivery has all its items or is gone.
No worker makes an item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from tidewheel.model.subscription_state import NOTHING_SENT, Delivery, Tally

TOGETHER = 256
"""Consecutive parts whose marks are in one item."""
MOST_ITEMS = 96
"""Items of a delivery. With a plan, its topic state and the cursor, they fit into one transaction."""
IN_THE_FIRST = ""
"""Stands for a filter policy in further items. A transaction of many copies of a long policy would be too large."""


def item_of(part: int) -> int:
    """Returns the number of the item with a part's marks."""
    return part // TOGETHER % MOST_ITEMS


def item_count(parts: int) -> int:
    """Returns how many items a delivery with so many parts has."""
    return max(1, min(MOST_ITEMS, -(-parts // TOGETHER)))


def most_in_an_item(parts: int) -> int:
    """Returns how many of so many parts have their marks in the first item, which has the most."""
    return min(parts, TOGETHER * -(-parts // (TOGETHER * MOST_ITEMS)))


def hand_outs_together(parts: int) -> int:
    """Returns how many deliveries a transaction can open, each with a cursor, beside the plan and the topic state."""
    return (100 - 2) // (1 + item_count(parts))


def across_items(parts: Iterable[int]) -> list[int]:
    """Orders parts so that the items with their marks take turns."""
    return sorted(parts, key=lambda part: part % TOGETHER)


def is_full(marks: Delivery, part: int) -> bool:
    """Returns whether all parts are done whose marks are in the same item as those of a part."""
    starts = range(item_of(part) * TOGETHER, marks.parts, TOGETHER * MOST_ITEMS)
    return len(marks.done) >= sum(min(TOGETHER, marks.parts - start) for start in starts)


def divided(delivery: Delivery) -> Iterator[Delivery]:
    """Yields the items of a delivery, each with its own marks. The first has the counts and the filter policy."""
    for number in range(item_count(delivery.parts)):
        yield replace(
            delivery,
            done=frozenset(part for part in delivery.done if item_of(part) == number),
            leases=tuple(each for each in delivery.leases if item_of(each[0]) == number),
            unread=tuple(each for each in delivery.unread if item_of(each[0]) == number),
            tally=NOTHING_SENT if number else delivery.tally,
            filter_policy=IN_THE_FIRST if number and delivery.filter_policy else delivery.filter_policy,
        )


def merged(items: Sequence[Delivery]) -> Delivery:
    """Returns the delivery of some items, of which the first is the delivery itself."""
    first, since = items[0], [each.unread_ms for each in items if each.unread_ms is not None]
    if len(items) == 1:
        return first
    return replace(
        first,
        done=first.done.union(*(each.done for each in items)),
        leases=tuple(sorted(chain.from_iterable(each.leases for each in items))),
        unread=tuple(sorted(chain.from_iterable(each.unread for each in items))),
        unread_ms=min(since, default=None),
        reason=next((each.reason for each in items if each.reason is not None), None),
        done_ms=max(each.done_ms for each in items),
        tally=Tally(*map(sum, zip(*(each.tally for each in items), strict=True))),
    )
