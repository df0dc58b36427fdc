"""Moves from RocketMQ's delay levels and timer messages."""

from collections.abc import Mapping
from typing import Any

from tidewheel import Consumer, Receipt, Tidewheel, TopicSettings
from tidewheel.model.levels import parse_levels

RETRIES = 16
"""A consumer group's maxReconsumeTimes, before a message goes to %DLQ%."""


def create_topic(tw: Tidewheel, name: str, message_delay_level: str | None = None) -> None:
    """Creates a topic with the broker's levels: `messageDelayLevel` of broker.conf, if set."""
    levels = None if message_delay_level is None else parse_levels(message_delay_level)
    tw.create_topic(name, settings=TopicSettings(delay_levels=levels))


# region recipe
def subscribe(tw: Tidewheel, topic: str, group: str, tags: str = "*") -> Consumer:
    """Creates a subscription for a consumer group and its tag expression, such as "paid || refunded".

    `retry_later(message)` waits as RECONSUME_LATER does: level 3, then 4, 5, ...
    """
    wanted = None if tags == "*" else {"TAGS": [tag.strip() for tag in tags.split("||")]}
    tw.create_subscription(topic, group, filter_policy=wanted)
    return Consumer(tw, topic, group, max_attempts=RETRIES + 1)


# endregion


def when(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns a message's due time as arguments of `send`, in the broker's order."""
    if int(properties.get("DELAY", "0")) > 0:  # setDelayTimeLevel
        return {"delay_level": int(properties["DELAY"])}
    if "TIMER_DELAY_SEC" in properties:  # setDelayTimeSec
        return {"delay": int(properties["TIMER_DELAY_SEC"])}
    if "TIMER_DELAY_MS" in properties:  # setDelayTimeMs
        return {"delay": int(properties["TIMER_DELAY_MS"]) / 1000}
    if "TIMER_DELIVER_MS" in properties:  # setDeliverTimeMs
        return {"deliver_at": int(properties["TIMER_DELIVER_MS"]) / 1000}
    return {}


def send(tw: Tidewheel, topic: str, body: bytes, properties: Mapping[str, str]) -> Receipt:
    """Sends a producer's message. Its UNIQ_KEY drops repetitions while it waits."""
    attributes = {name: properties[name] for name in ("TAGS", "KEYS") if properties.get(name)}
    return tw.send(topic, body.decode(), attributes=attributes, key=properties.get("UNIQ_KEY"), **when(properties))


def main() -> None:
    """Sends by a level of its own table, by RocketMQ's timer, and to a consumer with tags, in virtual time."""
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    create_topic(tw, "orders", "1m 1h 3d")
    subscribe(tw, "orders", "billing", "paid || refunded")
    send(tw, "orders", b"level 3", {"DELAY": "3", "TAGS": "paid"})
    send(tw, "orders", b"two days", {"TIMER_DELAY_SEC": "172800", "TAGS": "refunded"})
    send(tw, "orders", b"not for billing", {"DELAY": "1", "TAGS": "shipped"})
    for _ in range(3):
        stack.advance(days=1)
        stack.advance(seconds=1)
        print(f"{stack.now():%d %B}", [message.body for message in stack.receive("orders", "billing")])


if __name__ == "__main__":
    main()
