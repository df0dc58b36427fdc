"""Moves from Pulsar's delayed messages."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from tidewheel import Message, Receipt, Tidewheel


class PulsarMessage(Protocol):
    """The used methods of pulsar-client's message."""

    def data(self) -> bytes:
        """The content."""

    def properties(self) -> dict[str, str]:
        """What becomes attributes."""

    def message_id(self) -> object:
        """Its place in the topic."""


class Reader(Protocol):
    """The used methods of pulsar-client's reader."""

    def has_message_available(self) -> bool:
        """Tells whether there is another message."""

    def read_next(self) -> PulsarMessage:
        """Returns the next message, due or not: only shared subscriptions hold messages back."""


DueTime = Callable[[PulsarMessage], datetime]
"""Returns a message's due time. The Python client does not know it: let producers put it into a property."""


TOPIC = "jobs"


def send(
    tw: Tidewheel,
    content: bytes,
    properties: Mapping[str, str] | None = None,
    deliver_at: int | None = None,
    deliver_after: timedelta | None = None,
) -> Receipt:
    """Takes the arguments of pulsar-client's `Producer.send`: deliver_at is in milliseconds."""
    due = None if deliver_at is None else deliver_at / 1000
    return tw.send(TOPIC, content.decode(), attributes=properties, deliver_at=due, delay=deliver_after)


# region recipe
def migrate(tw: Tidewheel, reader: Reader, due: DueTime, cut: datetime, now: datetime) -> int:
    """Sends messages due from `cut` on. Run it again if it stops, but before `cut`. Returns their number.

    Args:
        reader: from the earliest message of a topic, or of each of its partitions.
    """
    if now >= cut:
        raise ValueError(f"cut={cut:%FT%TZ} has passed: messages of an earlier run may have been delivered")

    def later() -> Iterator[Message]:
        while reader.has_message_available():
            message = reader.read_next()
            if not stays(message, due, cut):
                yield Message(
                    body=message.data().decode(),
                    deliver_at=due(message),
                    attributes=message.properties(),
                    key=str(message.message_id()),
                )

    return len(tw.send_many(TOPIC, later()))


# endregion


def stays(message: PulsarMessage, due: DueTime, cut: datetime) -> bool:
    """Tells whether old consumers handle a message. They acknowledge and skip messages due from `cut` on."""
    return due(message) < cut


class _Message:
    """Stands for a message of Pulsar's."""

    def __init__(self, place: int, due: datetime) -> None:
        self._place, self._due = place, due

    def data(self) -> bytes:
        """The content."""
        return f"job {self._place}".encode()

    def properties(self) -> dict[str, str]:
        """Has the time at which it is due."""
        return {"due": self._due.isoformat()}

    def message_id(self) -> object:
        """Its place in the topic."""
        return f"(1,{self._place},-1,-1)"


class _Reader:
    """Stands for a reader of Pulsar's."""

    def __init__(self, messages: list[_Message]) -> None:
        self._messages = iter(messages)
        self._next = next(self._messages, None)

    def has_message_available(self) -> bool:
        """Whether there is another one."""
        return self._next is not None

    def read_next(self) -> _Message:
        """The next one."""
        assert self._next is not None
        found, self._next = self._next, next(self._messages, None)
        return found


def _due(message: PulsarMessage) -> datetime:
    return datetime.fromisoformat(message.properties()["due"])


def main() -> None:
    """Moves what is due from the second hour on, twice, in virtual time."""
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic(TOPIC)
    tw.create_subscription(TOPIC, "workers")
    now = stack.now()
    messages = [_Message(n, now + timedelta(hours=n)) for n in range(6)]
    cut = now + timedelta(hours=2)
    for _ in range(2):
        print(migrate(tw, _Reader(messages), _due, cut, stack.now()), "sent")
    send(tw, b"job 6", deliver_after=timedelta(hours=6))
    for _ in range(7):
        stack.advance(hours=1, seconds=1)
        print(f"{stack.now():%H:%M}", [message.body for message in stack.receive(TOPIC, "workers")])


if __name__ == "__main__":
    main()
