"""Stores subscriptions' states and parks in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.aws import dynamodb_items as items
from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb_table import Table
from tidewheel.aws.dynamodb_topic_states import next_slot_comparison
from tidewheel.aws.dynamodb_writes import Change, Check, Delete, Put, Value, Write
from tidewheel.flows.ports import AT_ONCE_MS
from tidewheel.flows.ports.parks import Parked
from tidewheel.model.park import Park, ParkKey
from tidewheel.model.subscription_state import DeliveryKey, State, SubscriptionState
from tidewheel.model.topic_state import TopicState, above

_WITHOUT_LEDGER = "pk, sk, v, #rows, size_bytes, next_check_ms, object_name, leased_ms"


class DynamoParks:
    """Implements subscriptions' states and parks of the port `Topics`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    # ---- a subscription's state
    def pause(self, subscription: SubscriptionState) -> bool:
        """Pauses a subscription with a single UpdateItem."""
        return self._change_subscription(subscription, "pause", {"#state": State.PAUSED.value})

    def mark_broken(self, topic: str, name: str, generation: str) -> bool:
        """Marks a subscription as broken with a single UpdateItem."""
        change = Change(
            key=layout.subscription_key(topic, name),
            condition="generation = :generation AND #state = :active",
            values={"generation": generation, "active": State.ACTIVE.value},
            sets={"#state": State.BROKEN.value},
        )
        done, _ = self._table.update(change, action="mark_broken", topic=topic)
        return done

    def resume(self, state: TopicState, subscription: SubscriptionState) -> bool:
        """Resumes a subscription in a single transaction.

        As in `create_subscription`, the comparison of next_slot with the cursor is a condition.
        """
        cursor = subscription.cursor
        lower = above(state.next_slot, cursor)
        sets: dict[str, Value | None] = {}
        if lower:
            next_check_ms = AT_ONCE_MS if cursor >= state.sealed else state.check_at(cursor, state.collect_at_ms)
            sets = {"next_slot": cursor, **items.check_fields(state.topic, next_check_ms)}
        failed = self._table.transact(
            [
                Change(
                    key=layout.subscription_key(state.topic, subscription.name),
                    condition="generation = :generation AND #state = :seen",
                    values={"generation": subscription.generation, "seen": subscription.state.value},
                    sets={"#state": State.ACTIVE.value},
                ),
                Change(
                    key=layout.topic_state_key(state.topic),
                    condition=f"{items.SAME_TOPIC} AND " + next_slot_comparison(lower, ":cursor"),
                    values={"cursor": cursor, "generation": state.generation},
                    sets=sets,
                    adds={"work_version": 1},
                ),
            ],
            action="resume",
            topic=state.topic,
        )
        return not failed

    def set_filter(self, subscription: SubscriptionState, filter_policy: str | None) -> bool:
        """Changes the filter with a single UpdateItem."""
        return self._change_subscription(subscription, "set_filter", {"filter_policy": filter_policy})

    def _change_subscription(self, subscription: SubscriptionState, action: str, sets: dict[str, Value | None]) -> bool:
        change = Change(
            key=layout.subscription_key(subscription.topic, subscription.name),
            condition="generation = :generation",
            values={"generation": subscription.generation},
            sets=sets,
        )
        done, _ = self._table.update(change, action=action, topic=subscription.topic)
        return done

    def delete_subscription(self, subscription: SubscriptionState) -> bool:
        """Deletes a subscription in a transaction, since `Table.delete` has no conditions."""
        delete = Delete(
            key=layout.subscription_key(subscription.topic, subscription.name),
            condition="generation = :generation",
            values={"generation": subscription.generation},
        )
        return not self._table.transact([delete], action="delete_subscription", topic=subscription.topic)

    # ---- parks
    def put_park(self, park: Park) -> Parked:
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

    def _transact_park(self, park: Park, other: Write, action: str) -> list[int]:
        put = Put(item=items.encode_park(park), if_absent=True)
        return self._table.transact([put, other], action=action, topic=park.key.topic)

    def park(self, key: ParkKey) -> Park | None:
        """Reads a park with a single GetItem."""
        item = self._table.get(layout.park_key(key))
        return None if item is None else items.decode_park(item)

    def parks(self, topic: str) -> list[Park]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.PARKS, projection=_WITHOUT_LEDGER)
        return [items.decode_park(item) for item in found]

    def lease_park(self, key: ParkKey, now_ms: int, expired_before_ms: int) -> Park | None:
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

    def release_park(self, key: ParkKey) -> None:
        """Releases a park's lease with a single UpdateItem."""
        change = Change(key=layout.park_key(key), condition="attribute_exists(pk)", sets={"leased_ms": None})
        self._table.update(change, action="release_park", topic=key.topic)

    def stamp_park(self, key: ParkKey, seen_look_at_ms: int, next_check_ms: int) -> bool:
        """Sets a park's next check with a single UpdateItem."""
        change = Change(
            key=layout.park_key(key),
            condition="next_check_ms = :seen",
            values={"seen": seen_look_at_ms},
            sets={"next_check_ms": next_check_ms},
        )
        done, _ = self._table.update(change, action="stamp_park", topic=key.topic)
        return done

    def delete_parks(self, keys: Iterable[ParkKey]) -> None:
        """Deletes each park with a DeleteItem."""
        for key in keys:
            self._table.delete(layout.park_key(key), action="delete_parks", topic=key.topic)
