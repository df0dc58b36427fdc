"""Moves from a Redis sorted set and a poller that feeds Kafka."""

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Protocol

from tidewheel import Message, Tidewheel


class Redis(Protocol):
    """The used methods of redis-py's client, without decode_responses."""

    def zrangebyscore(
        self, name: str, min: float, max: str, start: int, num: int, withscores: bool
    ) -> Sequence[tuple[bytes, float]]:
        """Returns members and scores, by score."""

    def zrem(self, name: str, *values: bytes) -> int:
        """Returns the number of removed members."""


class KafkaProducer(Protocol):
    """The used methods of confluent_kafka's producer."""

    def produce(self, topic: str, value: bytes, key: str, on_delivery: Callable[[object, object], None]) -> None:
        """Puts a record into the producer's buffer; on_delivery gets an error, or None, and the record."""

    def flush(self) -> int:
        """Returns the number of undelivered records."""


TOPIC, SUBSCRIPTION = "delayed", "kafka"
PAGE = 1000


def key_of(member: str) -> str:
    """Returns a member's key. A hash, because a key has at most 256 characters."""
    return sha256(member.encode()).hexdigest()


def add(tw: Tidewheel, redis: Redis, name: str, member: str, due: datetime | float) -> None:
    """Replaces ZADD: an existing member gets the new time. After the migration, the first line is enough."""
    tw.send(TOPIC, member, deliver_at=due, key=key_of(member), replace=True)
    redis.zrem(name, member.encode())


def remove(tw: Tidewheel, redis: Redis, name: str, member: str) -> None:
    """Replaces ZREM. `migrate` notices the removal. After the migration, the second line is enough."""
    redis.zrem(name, member.encode())
    tw.cancel(TOPIC, key=key_of(member))


# region recipe
def migrate(tw: Tidewheel, redis: Redis, name: str, cut: datetime) -> int:
    """Moves members due from `cut` on. Run it again if it stops, never twice at a time. Returns a count."""
    moved = 0
    while page := redis.zrangebyscore(name, cut.timestamp(), "+inf", start=0, num=PAGE, withscores=True):
        # Without replace: a message sent before a crash, or by `add` with a new time, stays.
        messages = [Message(body=m.decode(), deliver_at=score, key=key_of(m.decode())) for m, score in page]
        for (member, _), receipt in zip(page, tw.send_many(TOPIC, messages), strict=True):
            if redis.zrem(name, member):
                moved += 1
            else:  # `remove` or `add` was faster
                tw.cancel(TOPIC, receipt.id)
    return moved


# endregion


def forward(tw: Tidewheel, producer: KafkaProducer, kafka_topic: str, wait_s: int = 20) -> int:
    """Replaces the poller: puts due messages into Kafka. Returns their number."""
    refused: list[object] = []

    def delivered(error: object, record: object) -> None:
        if error is not None:
            refused.append(error)

    messages = tw.receive(TOPIC, SUBSCRIPTION, max_messages=100, wait_s=wait_s)
    for message in messages:
        producer.produce(kafka_topic, value=message.bytes(), key=message.id, on_delivery=delivered)
    if producer.flush() or refused:
        return 0  # they come again, after the queue's visibility time-out
    tw.delete(TOPIC, SUBSCRIPTION, messages)
    return len(messages)


class _SortedSet:
    """Stands for Redis."""

    def __init__(self, members: dict[bytes, float]) -> None:
        self.members = members

    def zrangebyscore(
        self, name: str, min: float, max: str, start: int, num: int, withscores: bool
    ) -> Sequence[tuple[bytes, float]]:
        """Members and scores, by score."""
        assert (name, max, withscores) == ("delayed", "+inf", True)
        found = sorted((each for each in self.members.items() if each[1] >= min), key=lambda each: (each[1], each[0]))
        return found[start : start + num]

    def zrem(self, name: str, *values: bytes) -> int:
        """How many it removed."""
        assert name == "delayed"
        return sum(self.members.pop(value, None) is not None for value in values)


class _Printer:
    """Stands for Kafka."""

    def produce(self, topic: str, value: bytes, key: str, on_delivery: Callable[[object, object], None]) -> None:
        """Prints a record."""
        print(topic, value.decode(), key)
        on_delivery(None, value)

    def flush(self) -> int:
        """Nothing is left."""
        return 0


def main() -> None:
    """Moves a thousand members and lets the first of them become due, in virtual time."""
    from datetime import timedelta

    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic(TOPIC)
    tw.create_subscription(TOPIC, SUBSCRIPTION)
    now = stack.now()
    redis = _SortedSet({f"job {n}".encode(): (now + timedelta(minutes=n)).timestamp() for n in range(1000)})
    print(migrate(tw, redis, "delayed", now + timedelta(hours=1)), "moved,", len(redis.members), "left to the poller")
    stack.advance(hours=1, minutes=2, seconds=1)
    forward(tw, _Printer(), "jobs")


if __name__ == "__main__":
    main()
