"""The port to deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tidewheel.model.subscription_state import Delivery, DeliveryKey, SubscriptionState
from tidewheel.model.topic_state import TopicState


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


class Deliveries(Protocol):
    """The open deliveries of each topic, and the hand-outs that open them."""

    def hand_out(self, step: HandOut) -> bool:
        """Hands out a plan to a subscription. Returns False if refused.

        `T{put DELIVERY; SUB: cursor = to IF cursor and generation as read}`.
        """
        ...

    def open_replay(self, state: TopicState, delivery: Delivery) -> Replay:
        """Opens a delivery that replays a plan.

        `T{put DELIVERY; check SUB: not PAUSED, generation same; STATE: subscriptions_version + 1 IF collected_until <=
        the plan and generation as read}`.

        A collection that read the deliveries before this write is refused by subscriptions_version, so the plan's
        ledgers stay.
        """
        ...

    def read(self, key: DeliveryKey) -> Delivery | None:
        """Reads an open delivery."""
        ...

    def all(self, topic: str, unreadable: dict[str, Exception] | None = None) -> list[Delivery]:
        """Reads all open deliveries of a topic.

        Args:
            unreadable: gets the name and the error of each that cannot be read. None: the first error is raised.
        """
        ...

    def lease_part(self, key: DeliveryKey, part: int, now_ms: int, expired_before_ms: int) -> Delivery | None:
        """Leases a part. Returns the delivery afterwards, or None if refused.

        `lease[part] = now IF the delivery exists, the part is not done and its lease is absent or older than
        expired_before_ms`.
        """
        ...

    def release_part(self, key: DeliveryKey, part: int) -> None:
        """Deletes a part's lease after a failure. Does nothing if the lease is gone.

        A retry may then take the part at once.
        """
        ...

    def part_done(self, key: DeliveryKey, part: int) -> Delivery | None:
        """Marks a part done. Returns the delivery afterwards, or None if refused.

        `done + part IF the delivery exists`.
        """
        ...

    def set_next_check(self, key: DeliveryKey, seen_next_check_ms: int, next_check_ms: int) -> bool:
        """Sets a delivery's next check. Returns False if refused.

        `next_check_ms = ... IF next_check_ms as seen`.
        """
        ...

    def delete(self, keys: Iterable[DeliveryKey]) -> None:
        """Deletes deliveries that are complete or of dead generations. Missing deliveries are ignored."""
        ...
