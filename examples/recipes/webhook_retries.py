"""Webhooks that fail are posted again for a day, at growing distances, and then kept as dead letters."""

# region recipe
import json
from urllib.request import Request, urlopen

from tidewheel import Backoff, Consumer, ReceivedMessage, RetryLater, Tidewheel

BACKOFF = Backoff(base="1m", factor=2, maximum="6h", jitter=0.1)


def deliver(message: ReceivedMessage) -> None:
    hook, key = message.json(), message.original_id or message.id
    try:
        urlopen(Request(hook["url"], json.dumps(hook["event"]).encode(), {"Idempotency-Key": key}), timeout=10).close()
    except OSError:
        raise RetryLater(backoff=BACKOFF) from None


def work(tw: Tidewheel) -> None:
    Consumer(tw, "webhooks", "poster", max_attempts=12).run(deliver)


# endregion


def test_a_webhook_is_tried_twelve_times_in_a_day_with_one_idempotency_key() -> None:
    from unittest.mock import patch

    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic("webhooks")
    tw.create_subscription("webhooks", "poster", reader="tidewheel")
    sent = tw.send("webhooks", {"url": "https://example.com", "event": "paid"})
    consumer, keys = Consumer(tw, "webhooks", "poster", max_attempts=12), []

    def refuse(request: Request, **_: object) -> None:
        keys.append(request.get_header("Idempotency-key"))
        raise ConnectionError

    with patch.dict(globals(), urlopen=refuse):
        for _ in range(24 * 60):
            stack.advance(minutes=1)
            for message in consumer.receive():
                try:
                    deliver(message)
                except RetryLater as later:
                    consumer.retry_later(message, backoff=later.backoff)
    assert keys == [sent.id] * 12
    assert tw.stats("webhooks").dead == 1
