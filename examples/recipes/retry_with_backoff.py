"""Retries after 1, 2 and 4 minutes; what has failed four times goes to the dead-letter queue."""

from collections.abc import Callable
from typing import Any

from tidewheel import Backoff, Consumer, Tidewheel

TOPIC, SUBSCRIPTION = "payments", "bank"
BACKOFF = Backoff(base="1m", factor=2, maximum="1h")  # jitter=0.2 spreads retries


class Unavailable(Exception):
    """The bank is not available."""


def set_up(tw: Tidewheel) -> Consumer:
    """Creates the topic and its consumer, with four attempts."""
    tw.create_topic(TOPIC)
    tw.create_subscription(TOPIC, SUBSCRIPTION)
    return Consumer(tw, TOPIC, SUBSCRIPTION, max_attempts=4)


# region recipe
def work(tw: Tidewheel, consumer: Consumer, call: Callable[[Any, str], None], wait_s: int = 20) -> None:
    """Handles due messages. `call` gets a body and an idempotency key that all attempts share."""
    for message in consumer.receive(wait_s=wait_s):
        try:
            call(message.json(), message.original_id or message.id)
        except Unavailable:
            consumer.retry_later(message, backoff=BACKOFF)  # sends it again, then deletes the received message
        else:
            tw.delete(TOPIC, SUBSCRIPTION, [message])


# endregion


def main() -> None:
    """A bank that is never there, in virtual time."""
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    consumer = set_up(tw)

    def call(body: Any, key: str) -> None:
        print(f"{stack.now():%H:%M:%S} {body} as {key}")
        raise Unavailable

    tw.send(TOPIC, {"order": 17})
    for _ in range(10 * 60):
        stack.advance(seconds=1)
        work(tw, consumer, call)
    print("in the dead-letter queue:", tw.stats(TOPIC).dead)


if __name__ == "__main__":
    main()
