"""Webhooks that fail are posted again for a day, at growing distances, and then kept as dead letters."""

# region recipe
from collections.abc import Callable
from typing import Any

from tidewheel import Backoff, Consumer, ReceivedMessage, RetryLater, Tidewheel

BACKOFF = Backoff(base="1m", factor=2, maximum="6h", jitter=0.1)

Post = Callable[[str, Any, str], None]
"""Posts an event to a URL with an idempotency key."""


def worker(tw: Tidewheel) -> Consumer:
    return Consumer(tw, "webhooks", "poster", max_attempts=12)


def deliver(message: ReceivedMessage, post: Post) -> None:
    """Give it to the worker: `worker(tw).run(lambda message: deliver(message, post))`."""
    hook = message.json()
    try:
        post(hook["url"], hook["event"], message.original_id or message.id)
    except OSError:
        raise RetryLater(backoff=BACKOFF) from None


# endregion


def test_a_webhook_is_tried_twelve_times_in_a_day_with_one_idempotency_key() -> None:
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic("webhooks")
    tw.create_subscription("webhooks", "poster", reader="tidewheel")
    sent, tries = tw.send("webhooks", {"url": "https://example.com", "event": "paid"}), []

    def post(_url: str, _event: object, key: str) -> None:
        tries.append(key)
        raise ConnectionError

    for _ in range(40 * 60):
        stack.advance(minutes=1)
        for message in worker(tw).receive():
            try:
                deliver(message, post)
            except RetryLater as later:
                worker(tw).retry_later(message, backoff=later.backoff)
    assert tries == [sent.id] * 12
    assert tw.stats("webhooks").dead == 1
