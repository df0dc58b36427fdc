"""Webhooks that fail are posted again for a day, at growing distances, and then kept as dead letters."""

# region recipe
import json
from urllib.request import Request, urlopen

from tidewheel import Backoff, ReceivedMessage, Worker

worker = Worker()


@worker.handles("webhooks/poster", max_attempts=12, retry=Backoff(base="1m", factor=2, maximum="6h", jitter=0.1))
def deliver(message: ReceivedMessage) -> None:
    hook, key = message.json(), message.original_id or message.id
    urlopen(Request(hook["url"], json.dumps(hook["event"]).encode(), {"Idempotency-Key": key}), timeout=10).close()


# endregion


def test_a_webhook_is_tried_twelve_times_in_a_day_with_one_idempotency_key() -> None:
    from unittest.mock import patch

    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    tw.create_topic("webhooks")
    tw.create_subscription("webhooks", "poster", reader="tidewheel")
    sent = tw.send("webhooks", {"url": "https://example.com", "event": "paid"})
    keys = []

    def refuse(request: Request, **_: object) -> None:
        keys.append(request.get_header("Idempotency-key"))
        raise ConnectionError

    with patch.dict(globals(), urlopen=refuse):
        stack.drain(worker, until="1d", errors="count")
    assert keys == [sent.id] * 12
    assert tw.stats("webhooks").dead == 1
