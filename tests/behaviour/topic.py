"""The helpers of a test for its topic, in memory and on moto alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.stored import stored
from tidewheel import Tidewheel
from tidewheel.cli.target import Target
from tidewheel.local import MemoryTidewheel
from tidewheel.model.message import Receipt
from tidewheel.model.pack import PACK_ATTRIBUTE
from tidewheel.model.received import ReceivedMessage
from tidewheel.storage.table_keys import note_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Here(Target):
    """A target of the command line whose client is given."""

    made: Tidewheel

    def client(self) -> Tidewheel:
        return self.made


def record_of(raw: Any) -> dict[str, Any]:
    """The record of a message that was received, in the event of a Lambda function."""
    return {
        "messageId": raw["MessageId"],
        "receiptHandle": raw["ReceiptHandle"],
        "body": raw["Body"],
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in raw.get("MessageAttributes", {}).items()
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:orders",
        "awsRegion": "us-east-1",
    }


def receive_raw(sqs: Any, queue_url: str) -> list[dict[str, Any]]:
    """Takes messages of a queue as plain boto3 does, with all attributes."""
    answer = sqs.receive_message(
        QueueUrl=queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )
    return list(answer.get("Messages", []))


class Topic:
    """A topic of a stack.

    Attributes:
        stack, client, name: the stack, its SDK client, the topic's name.
    """

    def __init__(self, stack: Any, name: str, *subscriptions: str, **settings: Any) -> None:
        self.stack, self.name = stack, name
        self.client: Tidewheel = stack.client()
        self.client.create_topic(name, **settings)
        for each in subscriptions or ("billing",):
            self.client.create_subscription(name, each, reader="tidewheel")

    def another(self, suffix: str, *subscriptions: str, **settings: Any) -> Topic:
        """Makes another topic, with settings."""
        return Topic(self.stack, f"{self.name}-{suffix}"[-48:].strip("-"), *subscriptions, **settings)

    # ---- time and messages
    def send(self, body: Any, **options: Any) -> Receipt:
        return self.client.send(self.name, body, **options)

    def send_and_store(self, body: Any, **options: Any) -> Receipt:
        """Sends a message, and waits for its ingest. Messages due in over an hour are gathered for five minutes."""
        receipt = self.send(body, **options)
        self.advance(seconds=301)
        return receipt

    def advance(self, **duration: float) -> None:
        self.stack.advance(**duration)

    def take(self, subscription: str = "billing") -> list[ReceivedMessage]:
        """Receives all receivable messages, of which none is early."""
        messages: list[ReceivedMessage] = self.stack.receive(self.name, subscription)
        for each in messages:
            assert each.visible_at is not None and each.visible_at >= each.deliver_at, each
        return messages

    def bodies(self, subscription: str = "billing") -> list[str]:
        return sorted(each.body for each in self.take(subscription))

    # ---- below the client
    @property
    def in_memory(self) -> bool:
        return isinstance(self.stack, MemoryTidewheel)

    @property
    def sqs(self) -> Any:
        return self.stack.sqs if self.in_memory else self.stack.session.client("sqs")

    def queue_url(self, subscription: str = "billing") -> str:
        [url] = [each.queue_url for each in self.client.subscriptions(self.name) if each.name == subscription]
        return url

    def receive_raw(self, subscription: str = "billing") -> list[dict[str, Any]]:
        return receive_raw(self.sqs, self.queue_url(subscription))

    def everything_in(self, queue_url: str) -> list[Any]:
        """All messages of a queue, whether receivable, delayed or in flight."""
        return list(self.stack.queue(queue_url).everything)

    def ingest_urls(self) -> tuple[str, str]:
        return self.client.core.connection.settings.ingest_queues(self.name)

    def copies_of_what_is_on_its_way(self) -> list[tuple[str, str, bytes]]:
        """(queue, body, pack) of each message in the ingest queues."""
        return [
            (url, each.body, bytes(each.message_attributes[PACK_ATTRIBUTE]["BinaryValue"]))
            for url in self.ingest_urls()
            for each in self.everything_in(url)
        ]

    def bring_again(self, copies: list[tuple[str, str, bytes]]) -> None:
        """Puts messages into the ingest queues, as SQS does for a second delivery."""
        for url, body, pack in copies:
            attributes = {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": pack}}
            self.sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)

    @contextmanager
    def nothing_is_sent(self) -> Iterator[None]:
        """Checks that the block changes nothing in memory, and sends nothing."""
        before = self._state()
        yield
        assert self._state() == before

    def _state(self) -> Any:
        depths = [len(self.everything_in(url)) for url in self.ingest_urls()]
        return depths, self.stack.service.objects.names(), repr(stored(self.stack.service).of(self.name))

    def left(self) -> list[str]:
        """Names everything of the topic in the table, in S3 and in the scheduler, but the note of its deletion."""
        if self.in_memory:
            service = self.stack.service
            found = {*stored(service).of(self.name).keys_in_table()} - {note_key(self.name, "deleted")}
            items = ["items"] if found else []
            return items + self.objects() + [n for n in service.wheel.schedules if n.startswith(f"{self.name}.")]
        dynamodb, scheduler = (self.stack.session.client(name) for name in ("dynamodb", "scheduler"))
        [table] = dynamodb.list_tables()["TableNames"]
        pages = dynamodb.get_paginator("scan").paginate(TableName=table)
        found = [item for page in pages for item in page["Items"]]
        keys = [item["pk"]["S"] for item in found if item["sk"]["S"] != "deleted"]
        items = [key for key in keys if key == f"T#{self.name}" or key.startswith(f"T#{self.name}#")]
        schedules = [each["Name"] for each in scheduler.list_schedules()["Schedules"]]
        return items + self.objects() + [name for name in schedules if name.startswith(f"{self.name}.")]

    def overwrite(self, name: str, data: bytes) -> None:
        """Replaces an object in memory, as an unrestricted user may."""
        self.stack.service.objects.put(name, data)

    def objects(self, prefix: str = "") -> list[str]:
        """Names the topic's objects."""
        if self.in_memory:
            names = self.stack.service.objects.names(prefix)
        else:
            s3 = self.stack.session.client("s3")
            [s3_bucket] = s3.list_buckets()["Buckets"]
            pages = s3.get_paginator("list_objects_v2").paginate(Bucket=s3_bucket["Name"], Prefix=prefix)
            names = [each["Key"] for page in pages for each in page.get("Contents", [])]
        return [name for name in names if f"/{self.name}/" in name]
