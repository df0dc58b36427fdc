"""Stores subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewheel.model.subscription_state import State, SubscriptionState
from tidewheel.model.topic_state import TopicState, above
from tidewheel.storage import items, layout
from tidewheel.storage.table import Table
from tidewheel.storage.topic_states import AT_ONCE_MS
from tidewheel.storage.writes import Change, Delete, Put, Value


class Subscriptions:
    """The subscriptions of each topic, with their states and filters."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def create(self, state: TopicState, subscription: SubscriptionState) -> bool:
        """Creates a subscription. Returns False if refused.

        `T{put SUB IF absent; STATE: subscriptions_version + 1, work_version + 1, the next slot lowered to the cursor IF
        collected_until <= cursor and generation as read}`.

        A lowered next slot has no schedule. If the lowered next slot is open, so that its schedule could still fire, or
        the schedule of the higher next slot is missing, the sweep is to check the topic at once (`AT_ONCE_MS`).

        The transaction lowers next_slot only where next_slot is above the cursor. DynamoDB cannot compute a minimum of
        two numbers, so the comparison is a condition. If next_slot no longer compares with the cursor as in `state`,
        the transaction is refused, and the caller reads the topic state again, as for the other conditions.
        """
        cursor = subscription.cursor
        as_read, values = _as_read(state, cursor)
        failed = self._table.transact(
            [
                Put(item=items.encode_subscription(subscription), if_absent=True),
                Change(
                    key=layout.topic_state_key(state.topic),
                    condition=f"collected_until <= :cursor AND {items.SAME_TOPIC} AND {as_read}",
                    values=values,
                    sets=_lowered(state, cursor),
                    adds={"subscriptions_version": 1, "work_version": 1},
                ),
            ],
            action="create_subscription",
            topic=state.topic,
        )
        return not failed

    def read(self, topic: str, name: str) -> SubscriptionState | None:
        """Reads one subscription."""
        return self._table.read(layout.subscription_key(topic, name), items.decode_subscription)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[SubscriptionState]:
        """Reads all subscriptions of a topic, by name.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        found = self._table.query_prefix(layout.topic_partition(topic), layout.SUBSCRIPTIONS)
        return items.readable(found, items.decode_subscription, layout.SUBSCRIPTIONS, unreadable)

    def pause(self, subscription: SubscriptionState) -> bool:
        """Pauses a subscription. Returns False if refused.

        `SUB: state = PAUSED IF generation as read`.
        """
        return self._change_subscription(subscription, "pause", {"#state": State.PAUSED.value})

    def mark_broken(self, topic: str, name: str, generation: str) -> bool:
        """Marks a subscription as broken. Returns False if refused.

        `SUB: state = BROKEN IF state = ACTIVE and generation same`.
        """
        change = Change(
            key=layout.subscription_key(topic, name),
            condition="generation = :generation AND #state = :active",
            values={"generation": generation, "active": State.ACTIVE.value},
            sets={"#state": State.BROKEN.value},
        )
        done, _ = self._table.update(change, action="mark_broken", topic=topic)
        return done

    def resume(self, state: TopicState, subscription: SubscriptionState) -> bool:
        """Makes a subscription active. Returns False if refused.

        `T{SUB: state = ACTIVE IF state and generation as read; STATE: work_version + 1, the next slot lowered to the
        cursor IF generation as read and next_slot compares with the cursor as in `state`}`.

        A lowered next slot has no schedule. If the lowered next slot is open, so that its schedule could still fire, or
        the schedule of the higher next slot is missing, the sweep is to check the topic at once (`AT_ONCE_MS`).

        As in `create`, the comparison of next_slot with the cursor is a condition, and a schedule that is missing since
        `state` was read refuses the transaction.
        """
        cursor = subscription.cursor
        as_read, values = _as_read(state, cursor)
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
                    condition=f"{items.SAME_TOPIC} AND {as_read}",
                    values=values,
                    sets=_lowered(state, cursor),
                    adds={"work_version": 1},
                ),
            ],
            action="resume",
            topic=state.topic,
        )
        return not failed

    def update(self, subscription: SubscriptionState, changes: Mapping[str, Any]) -> bool:
        """Changes settings of a subscription. Returns False if refused.

        `SUB: the settings = ... IF generation as read`.

        Args:
            changes: values of `StoredSettings` by name.
        """
        return self._change_subscription(subscription, "update_subscription", dict(changes))

    def delete(self, subscription: SubscriptionState) -> bool:
        """Deletes a subscription. Returns False if refused.

        `delete SUB IF generation as read`.
        """
        delete = Delete(
            key=layout.subscription_key(subscription.topic, subscription.name),
            condition="generation = :generation",
            values={"generation": subscription.generation},
        )
        return not self._table.transact([delete], action="delete_subscription", topic=subscription.topic)

    def restore(self, subscription: SubscriptionState) -> None:
        """Puts a subscription and overwrites an existing subscription."""
        put = Put(item=items.encode_subscription(subscription))
        self._table.put(put, action="restore_subscription", topic=subscription.topic)

    def _change_subscription(self, subscription: SubscriptionState, action: str, sets: dict[str, Value | None]) -> bool:
        change = Change(
            key=layout.subscription_key(subscription.topic, subscription.name),
            condition="generation = :generation",
            values={"generation": subscription.generation},
            sets=sets,
        )
        done, _ = self._table.update(change, action=action, topic=subscription.topic)
        return done


def _as_read(state: TopicState, cursor: int) -> tuple[str, dict[str, Value]]:
    """Returns the condition, with its values, that next_slot compares with a cursor as read.

    If next_slot is lowered, no schedule of the higher slot may be missing since, as this change would forget it.
    """
    lower = above(state.next_slot, cursor)
    condition = items.next_slot_comparison(lower, ":cursor")
    values: dict[str, Value] = {"cursor": cursor, "generation": state.generation}
    if not lower or state.next_check_ms == AT_ONCE_MS:
        return condition, values
    condition += f" AND (attribute_not_exists({layout.CHECK_SORT_KEY}) OR {layout.CHECK_SORT_KEY} <> :at_once)"
    return condition, values | {"at_once": AT_ONCE_MS}


def _lowered(state: TopicState, cursor: int) -> dict[str, Value | None]:
    """Returns the attributes of a topic state whose next slot is lowered to a cursor. Empty if it is low enough."""
    if not above(state.next_slot, cursor):
        return {}
    at_once = cursor >= state.sealed or state.next_check_ms == AT_ONCE_MS
    next_check_ms = AT_ONCE_MS if at_once else state.check_at(cursor, state.collect_at_ms)
    return {"next_slot": cursor, **items.check_fields(state.topic, next_check_ms)}
