"""Stores parks."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.storage import items, table_keys
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Change, Check, Put, as_seen


class Parked(Enum):
    """The outcome of putting a park."""

    PARKED = "parked"
    EXISTS = "exists"
    """An earlier try put the same messages."""
    MOVED = "moved"
    """A condition failed: an item is not as read, or is gone. Nothing was written."""


_WITHOUT_LEDGER = "pk, sk, v, #rows, size_bytes, next_check_ms, object_name, leased_ms, tries, first_due_ms, unreadable"


class Parks(StoredItems):
    """The parks of each topic."""

    def put(self, park: Park, state: State) -> Parked:
        """Puts a park of a subscription whose state was read.

        `T{put PARK IF absent; check SUB: state as read and generation same}`.

        The check ensures that no park of a paused subscription appears after the resume that drains the parks.
        """
        key = park.key
        same = as_seen({"generation": key.generation, "#state": state.value})
        owner = Check(key=table_keys.subscription_key(key.topic, key.subscription), **same)
        put = Put(item=items.encode_park(park), if_absent=True)
        failed = self._table.transact([put, owner], action="put_park", topic=key.topic)
        if not failed:
            return Parked.PARKED
        return Parked.MOVED if failed == [1] else Parked.EXISTS

    def read(self, key: ParkKey) -> Park | None:
        """Reads a park."""
        return self._table.read(table_keys.park_key(key), items.decode_park)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Park]:
        """Reads all parks of a topic, by subscription, without their ledgers.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        return self._of(topic, table_keys.PARKS, unreadable)

    def of(self, subscription: SubscriptionState) -> list[Park]:
        """Reads the parks of a subscription's generation, without their ledgers. Leaves out unreadable parks."""
        prefix = table_keys.parks_prefix(subscription.name, subscription.generation)
        return self._of(subscription.topic, prefix, {})

    def _of(self, topic: str, prefix: str, unreadable: dict[str, Exception] | None) -> list[Park]:
        partition = table_keys.topic_partition(topic)
        return self._table.read_all(partition, prefix, items.decode_park, unreadable, projection=_WITHOUT_LEDGER)

    def lease(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
        """Leases a park. Returns the park afterwards, or None if refused.

        `leased_ms = now IF the park exists and leased_ms is absent or older than expired_before_ms`.

        If the response is lost and boto3 sends the request again, the second try finds the lease of the first. The
        park then waits until the lease expires, as after a crash.
        """
        change = Change(
            key=table_keys.park_key(key),
            condition="attribute_exists(pk) AND (attribute_not_exists(leased_ms) OR leased_ms < :expired)",
            values={"expired": expired_before_ms},
            sets={"leased_ms": now_ms},
        )
        return self._table.change_and_read(change, items.decode_park, action="lease_park", topic=key.topic)

    def put_off(self, leased: Park, park: Park) -> bool:
        """Ends the lease of a park whose messages are all left. Returns False if refused.

        `next_check_ms, tries and unreadable as in park, leased_ms forgotten IF leased_ms as read`.
        """
        sets = {
            "leased_ms": None,
            table_keys.CHECK_SORT_KEY: park.next_check_ms,
            "tries": park.tries,
            "unreadable": park.unreadable,
        }
        change = Change(key=table_keys.park_key(leased.key), sets=sets, **as_seen({"leased_ms": leased.leased_ms}))
        return self._table.change(change, action="put_off_park", topic=leased.key.topic)

    def set_next_check(self, key: ParkKey, seen_next_check_ms: int, next_check_ms: int) -> bool:
        """Sets a park's next check. Returns False if refused.

        `next_check_ms = ... IF next_check_ms as seen`.
        """
        change = items.next_check_change(table_keys.park_key(key), seen_next_check_ms, next_check_ms)
        return self._table.change(change, action="stamp_park", topic=key.topic)

    def delete(self, keys: Iterable[ParkKey]) -> None:
        """Deletes parks. Missing parks are ignored. The caller deletes the parks' objects."""
        for key in keys:
            self._table.delete(table_keys.park_key(key), action="delete_parks", topic=key.topic)
