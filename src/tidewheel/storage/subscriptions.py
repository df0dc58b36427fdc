"""Stores subscriptions, and the stack resources that have adopted a subscription or topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidewheel.model.subscription_state import State, SubscriptionState, readers_of
from tidewheel.model.topic_state import TopicState, above
from tidewheel.storage import items, table_keys
from tidewheel.storage.table import StoredItems
from tidewheel.storage.table_keys import adoption_key, adoptions_prefix, topic_partition
from tidewheel.storage.topic_states import AT_ONCE_MS
from tidewheel.storage.writes import Change, Delete, Put, Value, Write, as_seen, key_item


class Subscriptions(StoredItems):
    """The subscriptions of each topic, with their states and filters."""

    def create(self, state: TopicState, subscription: SubscriptionState) -> bool:
        """Creates a subscription. Returns False if refused.

        `T{put SUB IF absent; STATE: subscriptions_version + 1, work_version + 1, the next slot lowered to the cursor,
        readers with this one unless it is declared to claim, IF collected_until <= cursor; sealed, readers and
        generation as read}`.

        A lowered next slot has no schedule. If the lowered next slot is open, so that its schedule could still fire, or
        the schedule of the higher next slot is missing, the sweep is to check the topic at once (`AT_ONCE_MS`).

        The transaction lowers next_slot only where next_slot is above the cursor. DynamoDB cannot compute a minimum of
        two numbers, so the comparison is a condition. If next_slot no longer compares with the cursor as in `state`,
        the transaction is refused, and the caller reads the topic state again, as for the other conditions.
        """
        cursor = subscription.cursor
        as_read, values = _as_read(state, cursor)
        put = Put(item=items.encode_subscription(subscription), if_absent=True)
        readers = (*state.readers, *readers_of([subscription]))
        lowered = items.state_change(
            state,
            "collected_until <= :cursor",
            as_read,
            seen={"sealed": state.sealed, "readers": items.encode_readers(state.readers)},
            values=values,
            sets=_lowered(state, cursor) | {"readers": items.encode_readers(readers)},
            adds={"subscriptions_version": 1, "work_version": 1},
        )
        return self._table.commit([put, lowered], action="create_subscription", topic=state.topic)

    def read(self, topic: str, name: str) -> SubscriptionState | None:
        """Reads a subscription."""
        return self._table.read(table_keys.subscription_key(topic, name), items.decode_subscription)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[SubscriptionState]:
        """Reads all subscriptions of a topic, by name.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        partition = table_keys.topic_partition(topic)
        return self._table.read_all(partition, table_keys.SUBSCRIPTIONS, items.decode_subscription, unreadable)

    def pause(self, subscription: SubscriptionState) -> bool:
        """Pauses a subscription. Returns False if refused.

        `SUB: state = PAUSED IF generation as read`.
        """
        return self._change_subscription(subscription, "pause", {"#state": State.PAUSED.value})

    def mark_broken(self, topic: str, name: str, generation: str) -> bool:
        """Marks a subscription as broken. Returns False if refused.

        `SUB: state = BROKEN IF state = ACTIVE and generation same`.
        """
        active = as_seen({"generation": generation, "#state": State.ACTIVE.value})
        change = Change(key=table_keys.subscription_key(topic, name), sets={"#state": State.BROKEN.value}, **active)
        return self._table.change(change, action="mark_broken", topic=topic)

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
        activated = Change(
            key=table_keys.subscription_key(state.topic, subscription.name),
            sets={"#state": State.ACTIVE.value},
            **as_seen({"generation": subscription.generation, "#state": subscription.state.value}),
        )
        sets = _lowered(state, cursor)
        lowered = items.state_change(state, as_read, values=values, sets=sets, adds={"work_version": 1})
        return self._table.commit([activated, lowered], action="resume", topic=state.topic)

    def update(self, subscription: SubscriptionState, changes: Mapping[str, Any]) -> bool:
        """Changes settings of a subscription. Returns False if refused.

        `SUB: the settings = ... IF generation as read`.

        Args:
            changes: values of `StoredSettings` by name.
        """
        return self._change_subscription(subscription, "update_subscription", dict(changes))

    def delete(self, state: TopicState, subscription: SubscriptionState) -> bool:
        """Deletes a subscription. Returns False if refused.

        `T{delete SUB IF generation as read; STATE: readers without it IF readers and generation as read}`.
        """
        key = table_keys.subscription_key(subscription.topic, subscription.name)
        writes: list[Write] = [Delete(key=key, **as_seen({"generation": subscription.generation}))]
        readers = tuple(each for each in state.readers if each.generation != subscription.generation)
        if readers != state.readers:
            seen = {"readers": items.encode_readers(state.readers)}
            writes.append(items.state_change(state, seen=seen, sets={"readers": items.encode_readers(readers)}))
        return self._table.commit(writes, action="delete_subscription", topic=subscription.topic)

    def restore(self, subscription: SubscriptionState) -> None:
        """Puts a subscription and overwrites an existing subscription."""
        put = Put(item=items.encode_subscription(subscription))
        self._table.put(put, action="restore_subscription", topic=subscription.topic)

    def _change_subscription(self, subscription: SubscriptionState, action: str, sets: dict[str, Value | None]) -> bool:
        key = table_keys.subscription_key(subscription.topic, subscription.name)
        change = Change(key=key, sets=sets, **as_seen({"generation": subscription.generation}))
        return self._table.change(change, action=action, topic=subscription.topic)


def _as_read(state: TopicState, cursor: int) -> tuple[str, dict[str, int]]:
    """Returns the condition on next_slot for a cursor as read, with the values.

    If next_slot is lowered, no schedule of the higher slot may be missing since, as this change would forget it.
    """
    lower = above(state.next_slot, cursor)
    condition = items.next_slot_comparison(lower, ":cursor")
    values = {"cursor": cursor}
    if not lower or state.next_check_ms == AT_ONCE_MS:
        return condition, values
    condition += f" AND (attribute_not_exists({table_keys.CHECK_SORT_KEY}) OR {table_keys.CHECK_SORT_KEY} <> :at_once)"
    return condition, values | {"at_once": AT_ONCE_MS}


def _lowered(state: TopicState, cursor: int) -> dict[str, Value | None]:
    """Returns the attributes of a topic state whose next slot is lowered to a cursor. Empty if it is low enough."""
    if not above(state.next_slot, cursor):
        return {}
    at_once = cursor >= state.sealed or state.next_check_ms == AT_ONCE_MS
    next_check_ms = AT_ONCE_MS if at_once else state.check_at(cursor, state.collect_at_ms)
    return {"next_slot": cursor, **items.check_fields(state.topic, next_check_ms)}


class Adoptions(StoredItems):
    """The stack resources that declare a topic or subscription which another resource created.

    A resource that adopts an existing topic or subscription marks it, and deletes the mark when the resource is
    deleted. The resource that created the topic or subscription looks for marks before it deletes. So a topic that
    moves to another stack survives when the old stack drops it.
    """

    def put(self, topic: str, subscription: str | None, owner: str) -> None:
        """Marks a topic or subscription as adopted by an owner, named by `flows.subscribe.owner_of`."""
        mark = Put(item=key_item(adoption_key(topic, subscription, owner)))
        self._table.put(mark, action="adopt", topic=topic)

    def release(self, topic: str, subscription: str | None, owner: str) -> None:
        """Deletes a mark. Does nothing if the mark does not exist."""
        self._table.delete(adoption_key(topic, subscription, owner), action="release", topic=topic)

    def of_others(self, topic: str, subscription: str | None, owner: str) -> bool:
        """Returns whether another owner has adopted it, with a strongly consistent Query."""
        found = self._table.query_prefix(topic_partition(topic), adoptions_prefix(subscription), projection="sk")
        return any(item["sk"]["S"] != adoption_key(topic, subscription, owner)[1] for item in found)
