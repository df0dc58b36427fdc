"""Stores deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tidewheel.model.subscription_state import Delivery, DeliveryKey, State, SubscriptionState
from tidewheel.model.topic_state import TopicState
from tidewheel.storage import items, layout
from tidewheel.storage.table import StoredItems
from tidewheel.storage.writes import Change, Check, Put, Write, as_seen


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOut:
    """A subscription's step over a plan, which moves the cursor to `to`.

    The write is refused if the cursor is not as read.

    Attributes:
        delivery: the delivery to open; None for a step over slots in which nothing is due.
    """

    subscription: SubscriptionState
    to: int
    delivery: Delivery | None


class Replay(Enum):
    """The outcome of a request to deliver a plan again."""

    OPENED = "opened"
    REFUSED = "refused"
    """The subscription is paused or gone."""
    COLLECTED = "collected"
    """The plan's ledgers are not kept any more, or the topic is gone."""


class Deliveries(StoredItems):
    """The open deliveries of each topic, and the hand-outs that open them."""

    def hand_out(self, step: HandOut) -> bool:
        """Hands out a plan to a subscription. Returns False if refused.

        `T{put DELIVERY; SUB: cursor = to IF cursor and generation as read}`.
        """
        return self._table.commit(hand_out_writes(step), action="hand_out", topic=step.subscription.topic)

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        """Opens a delivery that replays a plan.

        `T{put DELIVERY; check SUB: not PAUSED, generation same; STATE: subscriptions_version + 1 IF collected_until <=
        the plan and generation as read}`.

        A collection that read the deliveries before this write is refused by subscriptions_version, so the plan's
        ledgers stay.
        """
        key = delivery.key
        put = Put(item=items.encode_delivery(delivery))
        active = as_seen({"generation": key.generation}, "#state <> :paused", paused=State.PAUSED.value)
        owner = Check(key=layout.subscription_key(key.topic, key.subscription), **active)
        kept = items.state_change(
            state, "collected_until <= :a", values={"a": key.plan}, adds={"subscriptions_version": 1}
        )
        failed = self._table.transact([put, owner, kept], action="open_replay", topic=state.topic)
        if 2 in failed:
            return Replay.COLLECTED
        return Replay.REFUSED if failed else Replay.OPENED

    def read(self, key: DeliveryKey) -> Delivery | None:
        """Reads an open delivery."""
        return self._table.read(layout.delivery_key(key), items.decode_delivery)

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Delivery]:
        """Reads all open deliveries of a topic.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        partition = layout.topic_partition(topic)
        return self._table.read_all(partition, layout.DELIVERIES, items.decode_delivery, unreadable)

    def lease_part(self, key: DeliveryKey, part: int, now_ms: int, expired_before_ms: int) -> Delivery | None:
        """Leases a part. Returns the delivery afterwards, or None if refused.

        `lease[part] = now IF the delivery exists, the part is not done and its lease is absent or older than
        expired_before_ms`.

        If the response is lost and boto3 sends the request again, the second try finds the lease of the first and
        returns None. The part then waits until the lease expires, as after a crash.
        """
        lease = f"leases.#{part}"
        change = Change(
            key=layout.delivery_key(key),
            condition=f"attribute_exists(pk) AND NOT contains(done, :part) "
            f"AND (attribute_not_exists({lease}) OR {lease} < :expired)",
            values={"part": part, "expired": expired_before_ms},
            sets={lease: now_ms},
        )
        return self._table.change_and_read(change, items.decode_delivery, action="lease_part", topic=key.topic)

    def release_part(self, key: DeliveryKey, part: int) -> None:
        """Deletes a part's lease after a failure. Does nothing if the lease is gone.

        A retry may then take the part at once.
        """
        change = Change(key=layout.delivery_key(key), condition="attribute_exists(pk)", sets={f"leases.#{part}": None})
        self._table.change(change, action="release_part", topic=key.topic)

    def part_done(self, key: DeliveryKey, part: int) -> Delivery | None:
        """Marks a part done. Returns the delivery afterwards, or None if refused.

        `done + part IF the delivery exists`.
        """
        change = Change(
            key=layout.delivery_key(key),
            condition="attribute_exists(pk)",
            sets={f"leases.#{part}": None},
            adds={"done": frozenset((part,))},
        )
        return self._table.change_and_read(change, items.decode_delivery, action="part_done", topic=key.topic)

    def set_next_check(self, key: DeliveryKey, seen_next_check_ms: int, next_check_ms: int) -> bool:
        """Sets a delivery's next check. Returns False if refused.

        `next_check_ms = ... IF next_check_ms as seen`.
        """
        change = items.next_check_change(layout.delivery_key(key), seen_next_check_ms, next_check_ms)
        return self._table.change(change, action="stamp_delivery", topic=key.topic)

    def delete(self, keys: Iterable[DeliveryKey]) -> None:
        """Deletes deliveries that are complete or of dead generations. Missing deliveries are ignored.

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
    condition = as_seen({"#cursor": seen.cursor, "generation": seen.generation})
    return Change(key=layout.subscription_key(seen.topic, seen.name), sets={"#cursor": step.to}, **condition)
