"""Stores subscriptions and deliveries in DynamoDB."""

from __future__ import annotations

from collections.abc import Iterable

from tidewheel.aws import dynamodb_items as items
from tidewheel.aws import table_layout as layout
from tidewheel.aws.dynamodb_table import Table
from tidewheel.aws.dynamodb_topic_states import next_slot_comparison
from tidewheel.aws.dynamodb_writes import Change, Item, Put, Value, Write
from tidewheel.flows.ports import AT_ONCE_MS, HandOut
from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.topic_state import TopicState, above


class DynamoDeliveries:
    """Implements subscriptions and deliveries of the port `Topics`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def create_subscription(self, state: TopicState, subscription: SubscriptionState) -> bool:
        """Creates a subscription in a single transaction.

        The transaction lowers next_slot only where next_slot is above the cursor. DynamoDB cannot compute a minimum of
        two numbers, so the comparison is a condition. If next_slot no longer compares with the cursor as in `state`,
        the transaction is refused, and the caller reads the topic state again, as for the other conditions.
        """
        cursor = subscription.cursor
        lower = above(state.next_slot, cursor)
        sets: dict[str, Value | None] = {}
        if lower:
            next_check_ms = AT_ONCE_MS if cursor >= state.sealed else state.check_at(cursor, state.collect_at_ms)
            sets = {"next_slot": cursor, **items.check_fields(state.topic, next_check_ms)}
        failed = self._table.transact(
            [
                Put(item=items.encode_subscription(subscription), if_absent=True),
                Change(
                    key=layout.topic_state_key(state.topic),
                    condition=f"collected_until <= :cursor AND {items.SAME_TOPIC} AND "
                    + next_slot_comparison(lower, ":cursor"),
                    values={"cursor": cursor, "generation": state.generation},
                    sets=sets,
                    adds={"subscriptions_version": 1, "work_version": 1},
                ),
            ],
            action="create_subscription",
            topic=state.topic,
        )
        return not failed

    def subscriptions(self, topic: str) -> list[SubscriptionState]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.SUBSCRIPTIONS)
        return [items.decode_subscription(item) for item in found]

    def subscription(self, topic: str, name: str) -> SubscriptionState | None:
        item = self._table.get(layout.subscription_key(topic, name))
        return None if item is None else items.decode_subscription(item)

    def hand_out(self, step: HandOut) -> bool:
        """Hands out a plan in a transaction, or in an UpdateItem if the step has no delivery."""
        topic = step.subscription.topic
        writes = hand_out_writes(step)
        if len(writes) > 1:
            return not self._table.transact(writes, action="hand_out", topic=topic)
        done, _ = self._table.update(_cursor_change(step), action="hand_out", topic=topic)
        return done

    def delivery(self, key: DeliveryKey) -> Delivery | None:
        return _delivery(self._table.get(layout.delivery_key(key)))

    def open_deliveries(self, topic: str) -> list[Delivery]:
        found = self._table.query_prefix(layout.topic_partition(topic), layout.DELIVERIES)
        return [items.decode_delivery(item) for item in found]

    def lease_part(self, key: DeliveryKey, part: int, now_ms: int, expired_before_ms: int) -> Delivery | None:
        """Leases a part with a single UpdateItem.

        If the response is lost and boto3 sends the request again, the second try finds the lease of the first and
        returns None. The part then waits until the lease expires, as after a crash.
        """
        lease = f"leases.#{part}"
        return self._change(
            Change(
                key=layout.delivery_key(key),
                condition=f"attribute_exists(pk) AND NOT contains(done, :part) "
                f"AND (attribute_not_exists({lease}) OR {lease} < :expired)",
                values={"part": part, "expired": expired_before_ms},
                sets={lease: now_ms},
            ),
            "lease_part",
            key,
        )

    def release_part(self, key: DeliveryKey, part: int) -> None:
        """Releases a part's lease with a single UpdateItem."""
        change = Change(key=layout.delivery_key(key), condition="attribute_exists(pk)", sets={f"leases.#{part}": None})
        self._table.update(change, action="release_part", topic=key.topic)

    def part_done(self, key: DeliveryKey, part: int) -> Delivery | None:
        """Marks a part as done with a single UpdateItem."""
        change = Change(
            key=layout.delivery_key(key),
            condition="attribute_exists(pk)",
            sets={f"leases.#{part}": None},
            adds={"done": frozenset((part,))},
        )
        return self._change(change, "part_done", key)

    def _change(self, change: Change, action: str, key: DeliveryKey) -> Delivery | None:
        done, item = self._table.update(change, action=action, topic=key.topic, returns=True)
        return _delivery(item) if done else None

    def stamp_delivery(self, key: DeliveryKey, seen_look_at_ms: int, next_check_ms: int) -> bool:
        """Sets a delivery's next check with a single UpdateItem."""
        done, _ = self._table.update(
            Change(
                key=layout.delivery_key(key),
                condition="next_check_ms = :seen",
                values={"seen": seen_look_at_ms},
                sets={"next_check_ms": next_check_ms},
            ),
            action="stamp_delivery",
            topic=key.topic,
        )
        return done

    def delete_deliveries(self, keys: Iterable[DeliveryKey]) -> None:
        """Deletes each delivery with a DeleteItem.

        A batch costs the same, and would need another permission.
        """
        for key in keys:
            self._table.delete(layout.delivery_key(key), action="delete_deliveries", topic=key.topic)


def hand_out_writes(step: HandOut) -> list[Write]:
    """Returns the writes that hand out a plan."""
    writes: list[Write] = [_cursor_change(step)]
    if step.delivery is not None:
        writes.append(Put(item=items.encode_delivery(step.delivery)))
    return writes


def _cursor_change(step: HandOut) -> Change:
    seen = step.subscription
    return Change(
        key=layout.subscription_key(seen.topic, seen.name),
        condition="#cursor = :cursor AND generation = :generation",
        values={"cursor": seen.cursor, "generation": seen.generation},
        sets={"#cursor": step.to},
    )


def _delivery(item: Item | None) -> Delivery | None:
    return None if item is None else items.decode_delivery(item)
