"""Runs the whole service through all failures, with a marker in every confidential part of messages.

`python -m tests.local.marked_run` prints the functions' metrics to standard output, as on Lambda, and their logs to
standard error; its last line on standard output is a JSON object with the text of every exception that
left a function, and with what must be found: so that a run that did nothing proves nothing.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

from tests.conftest import SKEW, TOPIC, Orders
from tests.packs import pack_of
from tidewheel.aws.sqs_queues import SqsQueues
from tidewheel.flows.ports import Refusal
from tidewheel.local import LocalTidewheel
from tidewheel.model.checksum import sealed
from tidewheel.model.message import Message
from tidewheel.model.pack import PACK_ATTRIBUTE

MARKER = "zqxSECRETxqz"
LOUD = {"POWERTOOLS_METRICS_DISABLED": "false"}


def message(delay: str, **more: Any) -> Message:
    """Returns a message with the marker in the body and in an attribute's value."""
    return Message(body=f"body {MARKER}", attributes={"name": f"value {MARKER}"}, delay=delay, **more)


def main() -> int:
    """Runs everything. Returns the exit code."""
    with LocalTidewheel(environment=SKEW | LOUD, log_level="DEBUG") as stack:
        client = stack.client()
        client.create_topic(TOPIC, inline_rows=10, part_rows=10)
        for name in ("billing", "audit"):
            client.create_subscription(TOPIC, name)
        service = Orders(stack, client)
        all_goes_well(service)
        corrupt_packs(service)
        refused = message_that_sqs_refuses(service)
        broken_queue(service)
        damaged_ledger(service)
        failures = [str(failure.error) for failure in stack.failures]
        work = stack.queue(service.queue_url("DeliveryRefusedQueue"))
        kept = sum(MARKER in each.body for each in work.everything)
    found = {"failures": failures, "refused": refused, "kept": kept}
    print(json.dumps(found))
    return 0


def all_goes_well(service: Orders) -> None:
    """Sends near and far, with keys, cancels, merges, pauses, replays."""
    client, stack = service.client, service.stack
    keys = [f"key {MARKER} {number % 20}" for number in range(40)]
    client.send_many(TOPIC, [message("2m", key=key) for key in keys])
    far = client.send_many(TOPIC, [message("2h", key=key) for key in keys[:20]])
    client.send_many(TOPIC, [message("2h", expires_in="1s")] * 40)
    stack.advance(minutes=10)
    client.cancel(TOPIC, far[0].id)
    client.pause(TOPIC, "audit")
    client.send(TOPIC, f"direct {MARKER}", delay="1m")
    stack.advance(hours=3)
    client.resume(TOPIC, "audit")
    stack.advance(hours=2)
    assert all(MARKER in str(each.body) for each in service.stack.receive(TOPIC, "billing"))


def corrupt_packs(service: Orders) -> None:
    """Puts malformed packs into the urgent queue, with the marker in each part."""
    sqs, url = service.stack.session.client("sqs"), service.queue_url("IngestionUrgentQueue")
    whole = {"topic": TOPIC, "gen": "g", "sent": 1, "ids": "AAAAAAAAAAAAAAAAAAAAAA==", "enc": "0", "bodies": ["x"]}
    odd: list[dict[str, Any]] = [
        {"bodies": [f"\x01{MARKER}"]},
        {"enc": "2", "bodies": [f"{MARKER}!"]},
        {"attrs": [{"name": f"\x01{MARKER}"}]},
        {"attrs": [{"name": [MARKER]}]},
        {"opts": [{"key": f"\x01{MARKER}", "seq": 1}]},
        {"opts": [{"key": [MARKER], "seq": 1}]},
        {"opts": [{"payload": MARKER}]},
        {"bodies": [MARKER, MARKER]},
        {"sent": MARKER},
        {"gen": f"{MARKER} "},
    ]
    for change in odd:
        attribute = {"DataType": "Binary", "BinaryValue": pack_of(whole | change)}
        sqs.send_message(QueueUrl=url, MessageBody="{}", MessageAttributes={PACK_ATTRIBUTE: attribute})
    # An unknown topic waits, so this call fails.
    lost = pack_of(whole | {"topic": "nobody", "bodies": [MARKER]})
    unknown = {"DataType": "Binary", "BinaryValue": lost}
    sqs.send_message(QueueUrl=url, MessageBody=MARKER, MessageAttributes={PACK_ATTRIBUTE: unknown})
    garbage = {"DataType": "Binary", "BinaryValue": sealed(b"\x01" + MARKER.encode())}
    sqs.send_message(QueueUrl=url, MessageBody=MARKER, MessageAttributes={PACK_ATTRIBUTE: garbage})
    service.stack.advance(minutes=20)


def message_that_sqs_refuses(service: Orders) -> str:
    """Lets SQS permanently reject a message, with the marker in the reason. Returns the message's id."""
    send = SqsQueues.send

    def refuse(self: SqsQueues, queue_url: str, batch: Any) -> list[Refusal]:
        return [Refusal(place, True, "InvalidMessageContents", f"bad {MARKER}") for place in range(len(batch))]

    SqsQueues.send = refuse  # type: ignore[method-assign]
    sent = service.client.send_many(TOPIC, [message("1m")])
    service.stack.advance(minutes=5)
    SqsQueues.send = send  # type: ignore[method-assign]
    return str(sent[0].id)


def broken_queue(service: Orders) -> None:
    """Deletes a subscription's queue before delivery, so that messages are parked, and recreates the queue."""
    sqs = service.stack.session.client("sqs")
    service.client.send_many(TOPIC, [message("2h")] * 30)
    url = sqs.get_queue_url(QueueName=f"tidewheel-{TOPIC}-audit")["QueueUrl"]
    sqs.delete_queue(QueueUrl=url)
    service.stack.advance(hours=3)
    sqs.create_queue(QueueName=f"tidewheel-{TOPIC}-audit")
    service.stack.advance(hours=1)


def damaged_ledger(service: Orders) -> None:
    """Overwrites a ledger, so that dispatch and deliver find the damage, and invokes a merge."""
    s3 = service.stack.session.client("s3")
    [bucket] = [each["Name"] for each in s3.list_buckets()["Buckets"]]
    service.client.send_many(TOPIC, [message("3h")] * 30)
    service.stack.advance_to(service.stack.now() + timedelta(minutes=10))
    for found in s3.list_objects_v2(Bucket=bucket, Prefix="ledgers/")["Contents"]:
        size = found["Size"]
        s3.put_object(Bucket=bucket, Key=found["Key"], Body=(MARKER.encode() * size)[:size])
    service.stack.advance(hours=5)
    [compact] = [each for each in service.stack._handlers if each.spec.folder == "compact"]
    compact.invoke({"topic": TOPIC})


if __name__ == "__main__":
    sys.exit(main())
