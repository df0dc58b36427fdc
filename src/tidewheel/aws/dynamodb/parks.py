"""Stores parks in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change, Check, Delete, Put, Write
from tidewheel.flows.ports.notes import Note
from tidewheel.flows.ports.parks import JobNote, Parked
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState

_WITHOUT_LEDGER = (
    "pk, sk, v, #rows, size_bytes, next_check_ms, object_name, leased_ms, tries, refused_ms, first_due_ms, unreadable"
)


class DynamoParks:
    """Implements the port `Parks`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def put(self, park: Park, state: State, note: JobNote | None = None) -> Parked:
        """Puts a park in a single transaction."""
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
        """Moves a part to a park in a single transaction."""
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
        """Reads a park with a single GetItem."""
        item = self._table.get(layout.park_key(key))
        return None if item is None else items.decode_park(item)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Park]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.PARKS, projection=_WITHOUT_LEDGER)
        return items.readable(found, items.decode_park, layout.PARKS, unreadable)

    def of(self, subscription: SubscriptionState) -> list[Park]:
        prefix = layout.parks_prefix(subscription.name, subscription.generation)
        partition = layout.topic_partition(subscription.topic)
        found = self._table.query_prefix(partition, prefix, projection=_WITHOUT_LEDGER)
        return items.readable(found, items.decode_park, prefix, {})

    def lease(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
        """Leases a park with a single UpdateItem.

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
        """Replaces a park in a single transaction."""
        gone = Delete(key=layout.park_key(leased.key), **_leased(leased))
        puts = [Put(item=items.encode_park(park), if_absent=True) for park in parks]
        failed = self._table.transact([gone, *puts], action="replace_park", topic=leased.key.topic)
        if not failed:
            return Parked.PARKED
        return Parked.MOVED if 0 in failed else Parked.EXISTS

    def put_off(self, leased: Park, park: Park) -> bool:
        """Ends a park's lease with a single UpdateItem."""
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
        """Sets a park's next check with a single UpdateItem."""
        change = Change(
            key=layout.park_key(key),
            condition="next_check_ms = :seen",
            values={"seen": seen_next_check_ms},
            sets={"next_check_ms": next_check_ms},
        )
        done, _ = self._table.update(change, action="stamp_park", topic=key.topic)
        return done

    def delete(self, keys: Iterable[ParkKey]) -> None:
        """Deletes each park with a DeleteItem."""
        for key in keys:
            self._table.delete(layout.park_key(key), action="delete_parks", topic=key.topic)

    def _transact_park(self, park: Park, others: Sequence[Write], action: str) -> list[int]:
        put = Put(item=items.encode_park(park), if_absent=True)
        return self._table.transact([put, *others], action=action, topic=park.key.topic)


def _leased(park: Park) -> dict[str, Any]:
    """Returns the condition that a park is leased as read."""
    assert park.leased_ms is not None
    return {"condition": "leased_ms = :leased", "values": {"leased": park.leased_ms}}
