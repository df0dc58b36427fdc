"""Stores parks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState
from tidewheel.storage import items, layout
from tidewheel.storage.items import Note
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Change, Check, Delete, Put, Write, as_seen


class Parked(Enum):
    """The outcome of putting a park."""

    PARKED = "parked"
    EXISTS = "exists"
    """An earlier try put the same messages."""
    MOVED = "moved"
    """A condition failed: an item is not as read, or is gone. Nothing was written."""


class JobNote(NamedTuple):
    """The note of a job whose messages are parked. It outlives the park. `Notes` reads it.

    Attributes:
        name: the job's.
        ttl_s: when the table forgets the note, in seconds of Unix time.
    """

    name: str
    ttl_s: int


_WITHOUT_LEDGER = (
    "pk, sk, v, #rows, size_bytes, next_check_ms, object_name, leased_ms, tries, refused_ms, first_due_ms, unreadable"
)


class Parks(StoredItems):
    """The parks of each topic."""

    def put(self, park: Park, state: State, note: JobNote | None = None) -> Parked:
        """Puts a park of a subscription whose state was read, and the note of its job. EXISTS if either is there.

        `T{put PARK IF absent; check SUB: state as read and generation same; put NOTE IF absent}`.

        The check ensures that no park of a paused subscription appears after the resume that drains the parks.
        """
        key = park.key
        same = as_seen({"generation": key.generation, "#state": state.value})
        owner = Check(key=layout.subscription_key(key.topic, key.subscription), **same)
        writes: list[Write] = [owner]
        if note is not None:
            item = items.encode_note(layout.note_key(key.topic, note.name), Note(0), note.ttl_s)
            writes.append(Put(item=item, if_absent=True))
        failed = self._transact_park(park, writes, "put_park")
        if not failed:
            return Parked.PARKED
        return Parked.MOVED if failed == [1] else Parked.EXISTS

    def park_part(self, key: DeliveryKey, part: int, park: Park) -> Parked:
        """Puts a park and marks the part done.

        `T{put PARK IF absent; DELIVERY: done + part, its lease forgotten IF the delivery exists and the part is not
        done}`.
        """
        done = Change(
            key=layout.delivery_key(key),
            condition="attribute_exists(pk) AND NOT contains(done, :part)",
            values={"part": part},
            sets={f"leases.#{part}": None},
            adds={"done": frozenset((part,))},
        )
        failed = self._transact_park(park, [done], "park_part")
        if not failed:
            return Parked.PARKED
        return Parked.MOVED if 1 in failed else Parked.EXISTS

    def read(self, key: ParkKey) -> Park | None:
        """Reads a park."""
        return self._table.read(layout.park_key(key), items.decode_park)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Park]:
        """Reads all parks of a topic, by subscription, without their ledgers.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        return self._of(topic, layout.PARKS, unreadable)

    def of(self, subscription: SubscriptionState) -> list[Park]:
        """Reads the parks of a subscription's generation, without their ledgers. Leaves out unreadable parks."""
        prefix = layout.parks_prefix(subscription.name, subscription.generation)
        return self._of(subscription.topic, prefix, {})

    def _of(self, topic: str, prefix: str, unreadable: dict[str, Exception] | None) -> list[Park]:
        partition = layout.topic_partition(topic)
        return self._table.read_all(partition, prefix, items.decode_park, unreadable, projection=_WITHOUT_LEDGER)

    def lease(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
        """Leases a park. Returns the park afterwards, or None if refused.

        `leased_ms = now IF the park exists and leased_ms is absent or older than expired_before_ms`.

        If the response is lost and boto3 sends the request again, the second try finds the lease of the first. The
        park then waits until the lease expires, as after a crash.
        """
        change = Change(
            key=layout.park_key(key),
            condition="attribute_exists(pk) AND (attribute_not_exists(leased_ms) OR leased_ms < :expired)",
            values={"expired": expired_before_ms},
            sets={"leased_ms": now_ms},
        )
        return self._table.change_and_read(change, items.decode_park, action="lease_park", topic=key.topic)

    def replace(self, leased: Park, parks: Sequence[Park]) -> Parked:
        """Replaces a leased park by parks of the messages that are left. Returns EXISTS if one of them is there.

        `T{delete PARK IF leased_ms as read; put each PARK IF absent}`.
        """
        gone = Delete(key=layout.park_key(leased.key), **as_seen({"leased_ms": leased.leased_ms}))
        puts = [Put(item=items.encode_park(park), if_absent=True) for park in parks]
        failed = self._table.transact([gone, *puts], action="replace_park", topic=leased.key.topic)
        if not failed:
            return Parked.PARKED
        return Parked.MOVED if 0 in failed else Parked.EXISTS

    def put_off(self, leased: Park, park: Park) -> bool:
        """Ends the lease of a park whose messages are all left. Returns False if refused.

        `next_check_ms, tries, refused_ms and unreadable as in park, leased_ms forgotten IF leased_ms as
        read`.
        """
        sets = {
            "leased_ms": None,
            layout.CHECK_SORT_KEY: park.next_check_ms,
            "tries": park.tries,
            "refused_ms": park.refused_ms,
            "unreadable": park.unreadable,
        }
        change = Change(key=layout.park_key(leased.key), sets=sets, **as_seen({"leased_ms": leased.leased_ms}))
        return self._table.change(change, action="put_off_park", topic=leased.key.topic)

    def set_next_check(self, key: ParkKey, seen_next_check_ms: int, next_check_ms: int) -> bool:
        """Sets a park's next check. Returns False if refused.

        `next_check_ms = ... IF next_check_ms as seen`.
        """
        change = items.next_check_change(layout.park_key(key), seen_next_check_ms, next_check_ms)
        return self._table.change(change, action="stamp_park", topic=key.topic)

    def delete(self, keys: Iterable[ParkKey]) -> None:
        """Deletes parks. Missing parks are ignored. The caller deletes the parks' objects."""
        for key in keys:
            self._table.delete(layout.park_key(key), action="delete_parks", topic=key.topic)

    def _transact_park(self, park: Park, others: Sequence[Write], action: str) -> list[int]:
        put = Put(item=items.encode_park(park), if_absent=True)
        return self._table.transact([put, *others], action=action, topic=park.key.topic)
