"""Stores parks in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb import items
from tidewheel.aws.dynamodb.table import Table
from tidewheel.aws.dynamodb.writes import Change, Check, Put, Write
from tidewheel.flows.ports.parks import Parked
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, State

_WITHOUT_LEDGER = "pk, sk, v, #rows, size_bytes, next_check_ms, object_name, leased_ms"


class DynamoParks:
    """Implements the port `Parks`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def put(self, park: Park) -> Parked:
        """Puts a park in a single transaction."""
        key = park.key
        owner = Check(
            key=layout.subscription_key(key.topic, key.subscription),
            condition="generation = :generation AND (#state = :paused OR #state = :broken)",
            values={"generation": key.generation, "paused": State.PAUSED.value, "broken": State.BROKEN.value},
        )
        failed = self._transact_park(park, owner, "put_park")
        if not failed:
            return Parked.PARKED
        return Parked.EXISTS if 0 in failed else Parked.MOVED

    def spill_part(self, key: DeliveryKey, part: int, park: Park) -> Parked:
        """Moves a part to a park in a single transaction."""
        done = Change(
            key=layout.delivery_key(key),
            condition="attribute_exists(pk) AND NOT contains(done, :part)",
            values={"part": part},
            sets={f"leases.#{part}": None},
            adds={"done": frozenset((part,))},
        )
        failed = self._transact_park(park, done, "spill_part")
        if not failed:
            return Parked.PARKED
        return Parked.MOVED if 1 in failed else Parked.EXISTS

    def read(self, key: ParkKey) -> Park | None:
        """Reads a park with a single GetItem."""
        item = self._table.get(layout.park_key(key))
        return None if item is None else items.decode_park(item)

    def all(self, topic: str) -> list[Park]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.PARKS, projection=_WITHOUT_LEDGER)
        return [items.decode_park(item) for item in found]

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

    def release(self, key: ParkKey) -> None:
        """Releases a park's lease with a single UpdateItem."""
        change = Change(key=layout.park_key(key), condition="attribute_exists(pk)", sets={"leased_ms": None})
        self._table.update(change, action="release_park", topic=key.topic)

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

    def _transact_park(self, park: Park, other: Write, action: str) -> list[int]:
        put = Put(item=items.encode_park(park), if_absent=True)
        return self._table.transact([put, other], action=action, topic=park.key.topic)
