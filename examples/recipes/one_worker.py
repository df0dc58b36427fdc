"""Time-outs, webhooks, mails and a nightly job: four kinds of work in one process."""

# region recipe
import json

from tidewheel import Backoff, ReceivedMessage, Reject, RetryLater, Worker

worker = Worker()


@worker.handles("orders/closer")
def close(message: ReceivedMessage) -> None:
    print("closed:", message.json()["order"])


@worker.handles("hooks/post", at_once=20, retry=Backoff(base="1m", factor=2, maximum="6h"), parse=json.loads)
async def post(message: ReceivedMessage, hook: dict[str, str]) -> None:
    if hook["url"] == "busy":
        raise RetryLater(delay="5m", counts=False)


@worker.handles("mails/sender", reject=(KeyError,))
def mail(message: ReceivedMessage) -> None:
    if "@" not in message.json()["to"]:
        raise Reject("not an address")


@worker.handles("jobs/nightly", at_once=1, timeout="3h")
def report(message: ReceivedMessage) -> None:
    print("report")


# endregion


def test_four_kinds_of_work() -> None:
    from tidewheel.local import MemoryTidewheel

    stack = MemoryTidewheel()
    tw = stack.client()
    for address in worker.addresses:
        topic, subscription = address.split("/")
        tw.create_topic(topic)
        tw.create_subscription(topic, subscription, reader="tidewheel")
    tw.send("orders", {"order": 17}, delay="15m", key="17")
    tw.send("hooks", "not JSON")
    tw.send("hooks", {"url": "busy"})
    tw.send("hooks", {"url": "https://example.com"})
    tw.send("mails", {"to": "ann"}, delay="1h")
    tw.send("jobs", {}, delay="1h")
    counts = stack.drain(worker, until="2h")
    assert [each.handled for each in counts.values()] == [1, 1, 0, 1]
    assert counts["hooks/post"].retried == 25
    assert [each.reason for each in stack.dead_letters("mails", "sender")] == ["not an address"]
    [letter] = stack.dead_letters("hooks", "post")
    assert letter.body == "not JSON" and str(letter.reason).startswith("JSONDecodeError")
