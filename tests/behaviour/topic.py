"""The helpers of a test for its topic, in memory and on moto alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.stored import stored
from tidewheel import Tidewheel
from tidewheel.local import LocalTidewheel, MemoryTidewheel
from tidewheel.model.message import Receipt
from tidewheel.model.pack import PACK_ATTRIBUTE
from tidewheel.model.received import ReceivedMessage
from tidewheel.storage.layout import note_key

READS = ("Get", "Query", "Receive", "BatchGet", "List", "Scan")


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
            self.client.create_subscription(name, each)

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
        """Checks that the block only reads from AWS, and sends nothing."""
        before = self._state()
        yield
        assert self._state() == before

    def _state(self) -> Any:
        depths = [len(self.everything_in(url)) for url in self.ingest_urls()]
        if isinstance(self.stack, LocalTidewheel):
            asked = Counter({k: n for k, n in self.stack.requests.items() if not k.split(".")[1].startswith(READS)})
            return depths, asked
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
        """Replaces an object, as an unrestricted user may."""
        if self.in_memory:
            self.stack.service.objects.put(name, data)
            return
        s3 = self.stack.session.client("s3")
        [s3_bucket] = s3.list_buckets()["Buckets"]
        s3.put_object(Bucket=s3_bucket["Name"], Key=name, Body=data)

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
