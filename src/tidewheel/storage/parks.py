"""Stores parks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from tidewheel.model.note import Note
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState
from tidewheel.storage import items, layout
from tidewheel.storage.table import Table
from tidewheel.storage.writes import Change, Check, Delete, Put, Write


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


class Parks:
    """The parks of each topic."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def put(self, park: Park, state: State, note: JobNote | None = None) -> Parked:
        """Puts a park of a subscription whose state was read, and the note of its job. EXISTS if either is there.

        `T{put PARK IF absent; check SUB: state as read and generation same; put NOTE IF absent}`.

        The check ensures that no park of a paused subscription appears after the resume that drains the parks.
        """
        key = park.key
        owner = Check(
            key=layout.subscription_key(key.topic, key.subscription),
            condition="generation = :generation AND #state = :state",
            values={"generation": key.generation, "state": state.value},
        )
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
        found = self._table.query_prefix(layout.topic_partition(topic), layout.PARKS, projection=_WITHOUT_LEDGER)
        return items.readable(found, items.decode_park, layout.PARKS, unreadable)

    def of(self, subscription: SubscriptionState) -> list[Park]:
        """Reads the parks of a subscription's generation, without their ledgers. Leaves out unreadable parks."""
        prefix = layout.parks_prefix(subscription.name, subscription.generation)
        partition = layout.topic_partition(subscription.topic)
        found = self._table.query_prefix(partition, prefix, projection=_WITHOUT_LEDGER)
        return items.readable(found, items.decode_park, prefix, {})

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
        done, item = self._table.update(change, action="lease_park", topic=key.topic, returns=True)
        return items.decode_park(item) if done and item is not None else None

    def replace(self, leased: Park, parks: Sequence[Park]) -> Parked:
        """Replaces a leased park by parks of the messages that are left. Returns EXISTS if one of them is there.

        `T{delete PARK IF leased_ms as read; put each PARK IF absent}`.
        """
        gone = Delete(key=layout.park_key(leased.key), **_leased(leased))
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
        change = Change(key=layout.park_key(leased.key), sets=sets, **_leased(leased))
        done, _ = self._table.update(change, action="put_off_park", topic=leased.key.topic)
        return done

    def set_next_check(self, key: ParkKey, seen_next_check_ms: int, next_check_ms: int) -> bool:
        """Sets a park's next check. Returns False if refused.

        `next_check_ms = ... IF next_check_ms as seen`.
        """
        change = items.next_check_change(layout.park_key(key), seen_next_check_ms, next_check_ms)
        done, _ = self._table.update(change, action="stamp_park", topic=key.topic)
        return done

    def delete(self, keys: Iterable[ParkKey]) -> None:
        """Deletes parks. Missing parks are ignored. The caller deletes the parks' objects."""
        for key in keys:
            self._table.delete(layout.park_key(key), action="delete_parks", topic=key.topic)

    def _transact_park(self, park: Park, others: Sequence[Write], action: str) -> list[int]:
        put = Put(item=items.encode_park(park), if_absent=True)
        return self._table.transact([put, *others], action=action, topic=park.key.topic)


def _leased(park: Park) -> dict[str, Any]:
    """Returns the condition that a park is leased as read."""
    assert park.leased_ms is not None
    return {"condition": "leased_ms = :leased", "values": {"leased": park.leased_ms}}
