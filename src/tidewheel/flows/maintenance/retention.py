"""Counts the dead bytes of a topic's ledgers, and chooses the ledgers to rewrite.

A row is dead below `collected_until`, or once it is cancelled, purged or expired. A ledger's bytes count by the share
of its dead rows. A topic may have as many dead bytes as live bytes, and SLACK_BYTES more. Above that, the deadest
ledgers are rewritten, and of these all that are more dead than alive:

    dead share   0.97  0.91  0.80  0.55 | 0.40  0.10      live 300 KB, dead 700 KB: the first four are rewritten
                 '---------.---------'
                           '-----> one ledger, of 130 KB

So a rewrite drops at least as many bytes as it writes, and at least SLACK_BYTES are sent between two rewrites: in a
topic's life, at most one byte is rewritten for a byte sent, in at most one run for SLACK_BYTES.

With strict erasure, every ledger with a dead byte is rewritten, each at most once in STRICT_MS.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyroaring import BitMap

from tidewheel.ledger.bucket import Bucket, BucketId
from tidewheel.ledger.index import Weight
from tidewheel.model.tombstone import Tombstone
from tidewheel.model.topic_state import TopicState

SLACK_BYTES = 64 * 1024
STRICT_MS = 20 * 3_600_000
"""With strict erasure, a ledger is rewritten at most once in this time. It leaves four hours of a day for the
collection that finds the ledger, for the rewrite, and for the collection of the old ledger."""
EXPIRED_FOR_MS = 15 * 60_000
"""A merge drops a message that expired so long ago. A job's clock is not checked, and its error is shorter: AWS refuses
requests that are signed by a clock with a larger error."""
_MORE_DEAD_THAN_ALIVE = 0.5
_MARGIN = 1 / 32
"""Of the live bytes: how far the estimate of the dead bytes may be off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """The bounds and sizes of a topic's dead data.

    Attributes:
        collected_until: the first slot that somebody may still read.
        planned: rows from this slot on are rewritten. Plans name the ledgers of the rows below.
        size_bytes: the dead bytes of each ledger.
        due: the ledgers that strict erasure rewrites now. None: the topic has no strict erasure.
    """

    collected_until: int = 0
    planned: int = 0
    size_bytes: Mapping[BucketId, float] = field(default_factory=dict)
    due: frozenset[BucketId] | None = None

    def of(self, bucket: Bucket) -> float:
        """Returns the dead bytes of a ledger."""
        return self.size_bytes.get(bucket.id, 0)

    def deadest(self, buckets: Iterable[Bucket]) -> list[Bucket]:
        """Returns the ledgers to rewrite, the deadest first. Returns none while the topic may keep its dead bytes.

        A ledger whose rows a plan still names frees its bytes later, so the other ledgers come first.
        """
        candidates = list(buckets)
        dead_bytes = sum(map(self.of, candidates))
        live_bytes = sum(each.size_bytes for each in candidates) - dead_bytes
        allowed = SLACK_BYTES + live_bytes * (1 - _MARGIN)
        if self.due is None and (dead_bytes <= allowed or dead_bytes + live_bytes <= SLACK_BYTES):
            return []
        found: list[Bucket] = []
        for each in sorted(candidates, key=lambda each: (-self._share(each), each.id)):
            if self.due is not None:
                rewritten = each.id in self.due
            else:
                rewritten = self._share(each) >= _MORE_DEAD_THAN_ALIVE or dead_bytes > allowed
            if self._share(each) and rewritten:
                found.append(each)
                dead_bytes -= self.of(each)
        free = [each for each in found if not each.occupies(self.collected_until, self.planned)]
        return free or found

    def _share(self, bucket: Bucket) -> float:
        return self.of(bucket) / bucket.size_bytes


NOTHING_DEAD = Dead()


def dead_of(state: TopicState, buckets: Sequence[Bucket], tombstones: Iterable[Tombstone], now_ms: int) -> Dead:
    """Estimates the dead bytes of a topic's ledgers from their buckets. Reads nothing.

    Args:
        state: its marks and purges say what is dead.
        buckets: all of the topic's. Others share the cancelled messages among too few.
        tombstones: all of the topic's that are certain.
        now_ms: rows that expired EXPIRED_FOR_MS before this time are dead.
    """
    cancelled = _cancelled_rows(state, buckets, tombstones)
    size_bytes: dict[BucketId, float] = {}
    for each in buckets:
        live = max(0.0, _live_share(each, state, now_ms) - cancelled.get(each.id, 0) / each.rows)
        if live < 1:
            size_bytes[each.id] = each.size_bytes * (1 - live)
    due = None
    if state.settings.strict_erasure:
        due = frozenset(each.id for each in buckets if each.checked_ms + STRICT_MS <= now_ms)
    return Dead(collected_until=state.collected_until, planned=state.planned, size_bytes=size_bytes, due=due)


def _live_share(bucket: Bucket, state: TopicState, now_ms: int) -> float:
    """Returns the share of a ledger's bytes that is neither collected, purged nor expired."""
    parts = _parts(bucket, state.slot_ms)
    alive = _alive(bucket, state)
    live = 0.0
    for part in parts:
        if part.expires_s and part.expires_s * 1000 + EXPIRED_FOR_MS <= now_ms:
            continue
        first, end = part.first_slot >> bucket.slot_shift, (part.last_slot >> bucket.slot_shift) + 1
        occupied = bucket.slots.range_cardinality(first, end)
        live += part.raw_bytes * (alive.range_cardinality(first, end) / occupied if occupied else 0)
    return live / sum(part.raw_bytes for part in parts)


def _parts(bucket: Bucket, slot_ms: int) -> Sequence[Weight]:
    """Returns a ledger's bytes by runs of slots, as fine as its bucket knows these."""
    if bucket.weights:
        return bucket.weights
    if bucket.complete:
        return [
            Weight(each.first_deliver_at_ms // slot_ms, each.last_deliver_at_ms // slot_ms, each.raw_bytes)
            for each in bucket.segments
        ]
    return [Weight(bucket.first_slot, bucket.last_slot, 1)]


def _alive(bucket: Bucket, state: TopicState) -> BitMap:
    """Returns the slots whose rows are neither collected nor purged. A coarse slot is alive if any of its slots is."""
    end = int(bucket.slots.max()) + 1
    alive = BitMap(bucket.slots)
    alive.remove_range(0, min(end, state.collected_until >> bucket.slot_shift))
    if bucket.checked_ms < state.purge_ms:
        alive.clear()
    for purge in state.purges:
        if bucket.checked_ms < purge.sent_before_ms:
            slot_ms = state.slot_ms << bucket.slot_shift
            first, stop = max(0, -(-purge.first_ms // slot_ms)), max(0, purge.end_ms // slot_ms)
            alive.remove_range(first, max(first, min(end, stop)))
    return alive


def _cancelled_rows(
    state: TopicState, buckets: Sequence[Bucket], tombstones: Iterable[Tombstone]
) -> dict[BucketId, float]:
    """Estimates how many rows of each ledger were cancelled since the ledger was checked.

    A tombstone does not name a ledger, and counts in each ledger that has rows of its slot, by their number. A ledger
    that was checked since has no such row: it was dropped, or is in another ledger.
    """
    times: dict[int, list[int]] = {}
    for each in tombstones:
        if each.slot >= state.collected_until:
            times.setdefault(each.slot, []).append(each.put_ms)
    if not times:
        return {}
    for put_ms in times.values():
        put_ms.sort()
    holders = [(each, each.rows / len(each.slots), _shared(times, each)) for each in buckets]
    rows: dict[int, float] = {}
    for _, density, slots in holders:
        for slot in slots:
            rows[slot] = rows.get(slot, 0) + density

    def since(bucket: Bucket, slot: int) -> int:
        return len(times[slot]) - bisect_left(times[slot], bucket.checked_ms)

    return {
        bucket.id: reduce(lambda total, slot: total + since(bucket, slot) * density / rows[slot], slots, 0.0)
        for bucket, density, slots in holders
        if slots
    }


def _shared(times: Mapping[int, object], bucket: Bucket) -> list[int]:
    """Returns the slots of tombstones in which a ledger has rows."""
    if bucket.slot_shift:
        return [slot for slot in times if slot >> bucket.slot_shift in bucket.slots]
    return list(BitMap(times) & bucket.slots)
