"""Random requests of other programs to the endpoint."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.local.state.emulated import Emulated
from tidewheel.local.emulator import REGION

NAMES = ("a", "b")


class Requests:
    """Sends random requests, and remembers receipt handles. Refused requests are fine."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sent: dict[str, int] = {}
        self.errors: dict[str, str] = {}
        self._handles: list[tuple[str, str]] = []

    def connect(self, emulated: Emulated) -> None:
        """Uses another emulator from now on, on another port."""
        self._emulated = emulated
        session = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b")
        once = Config(retries={"total_max_attempts": 1})
        self.sqs, self.s3, self.dynamodb = (
            session.client(service, REGION, endpoint_url=emulated.emulator.wire.endpoint_url, config=once)  # type: ignore[call-overload]
            for service in ("sqs", "s3", "dynamodb")
        )
        self._table = next(each for each in self.dynamodb.list_tables()["TableNames"] if each.startswith("tidewheel-"))

    def send(self, count: int) -> None:
        """Sends requests of random kinds, after some that make what the others need."""
        for name in ("create_queue", "create_bucket", "put_object"):
            for _ in range(3):
                self._send(f"do_{name}")
        for _ in range(count):
            self._send(self.random.choice([name for name in dir(self) if name.startswith("do_")]))

    def _send(self, name: str) -> None:
        request: Callable[[], object] = getattr(self, name)
        try:
            request()
        except ClientError as error:
            self.errors[name] = str(error)
            return
        self.sent[name] = self.sent.get(name, 0) + 1

    def _name(self) -> str:
        return self.random.choice(NAMES)

    def _body(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 10, 100, 300_000)))

    def _queue_url(self) -> str:
        return str(self.sqs.get_queue_url(QueueName=self._name())["QueueUrl"])

    # ---- SQS
    def do_create_queue(self) -> None:
        sqs, name = self.sqs, self._name()
        attributes = {"VisibilityTimeout": str(self.random.randrange(60))}
        if name == "a":
            arn = f"arn:aws:sqs:{sqs.meta.region_name}:123456789012:b"
            attributes["RedrivePolicy"] = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 2}}'
        sqs.create_queue(QueueName=name, Attributes=attributes, tags={"tag": name})

    def do_delete_queue(self) -> None:
        if self.random.random() < 0.3:
            self.sqs.delete_queue(QueueUrl=self._queue_url())

    def do_set_queue_attributes(self) -> None:
        attributes = {"DelaySeconds": str(self.random.randrange(900)), "MessageRetentionPeriod": "3600"}
        self.sqs.set_queue_attributes(QueueUrl=self._queue_url(), Attributes=attributes)

    def do_tag_queue(self) -> None:
        self.sqs.tag_queue(QueueUrl=self._queue_url(), Tags={self._name(): "ü"})

    def do_untag_queue(self) -> None:
        self.sqs.untag_queue(QueueUrl=self._queue_url(), TagKeys=[self._name()])

    def do_send(self) -> None:
        attributes = {
            "text": {"DataType": "String", "StringValue": "täxt"},
            "bytes": {"DataType": "Binary", "BinaryValue": b"\0\xff" + self._body()[:1000]},
        }
        more = {"MessageGroupId": self._name()} if self.random.random() < 0.3 else {}
        body = "\U0001f30a" + "x" * len(self._body())
        delay = self.random.choice((0, 0, 5, 900))
        url = self._queue_url()
        self.sqs.send_message(QueueUrl=url, MessageBody=body, DelaySeconds=delay, MessageAttributes=attributes, **more)

    def do_send_batch(self) -> None:
        entries = [{"Id": str(i), "MessageBody": f"body {i}"} for i in range(self.random.randrange(1, 10))]
        self.sqs.send_message_batch(QueueUrl=self._queue_url(), Entries=entries)

    def do_receive(self) -> None:
        url = self._queue_url()
        visible_s = self.random.choice((0, 1, 30))
        answer = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=4, VisibilityTimeout=visible_s)
        self._handles += [(url, each["ReceiptHandle"]) for each in answer.get("Messages", ())]

    def do_delete_message(self) -> None:
        url, handle = self.random.choice(self._handles or [("", "")])
        if url:
            self.sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)

    def do_change_visibility(self) -> None:
        url, handle = self.random.choice(self._handles or [("", "")])
        if url:
            seconds = self.random.choice((0, 3, 600))
            self.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=seconds)

    def do_purge(self) -> None:
        if self.random.random() < 0.2:
            self.sqs.purge_queue(QueueUrl=self._queue_url())

    def do_move_dead_letters(self) -> None:
        self.sqs.start_message_move_task(SourceArn=f"arn:aws:sqs:{self.sqs.meta.region_name}:123456789012:b")

    # ---- S3
    def _object(self) -> dict[str, str]:
        buckets = self.s3.list_buckets()["Buckets"]
        return {"Bucket": self.random.choice(buckets)["Name"], "Key": f"{self._name()}/ü {self._name()}"}

    def do_create_bucket(self) -> None:
        self.s3.create_bucket(Bucket=f"bucket-{self._name()}")

    def do_delete_bucket(self) -> None:
        s3, name = self.s3, f"bucket-{self._name()}"
        for each in s3.list_objects_v2(Bucket=name).get("Contents", ()):
            s3.delete_object(Bucket=name, Key=each["Key"])
        s3.delete_bucket(Bucket=name)

    def do_put_object(self) -> None:
        metadata = {self._name(): "m"}
        self.s3.put_object(**self._object(), Body=self._body(), Metadata=metadata, ContentType="text/x")

    def do_copy_object(self) -> None:
        self.s3.copy_object(**self._object(), CopySource=self._object())

    def do_delete_object(self) -> None:
        self.s3.delete_object(**self._object())

    def do_delete_objects(self) -> None:
        named = self._object()
        keys = {"Objects": [{"Key": named["Key"]}, {"Key": f"{self._name()}/ü {self._name()}"}]}
        self.s3.delete_objects(Bucket=named["Bucket"], Delete=keys)

    def do_upload_in_parts(self) -> None:
        s3, named = self.s3, self._object()
        upload = s3.create_multipart_upload(**named)["UploadId"]
        etag = s3.upload_part(**named, UploadId=upload, PartNumber=1, Body=self._body() or b"x")["ETag"]
        s3.complete_multipart_upload(
            **named, UploadId=upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}
        )

    # ---- DynamoDB: Tidewheel's table
    def _key(self) -> dict[str, Any]:
        return {"pk": {"S": f"p{self._name()}"}, "sk": {"S": f"\ud83c\udf0as{self._name()}"}}

    def _item(self) -> dict[str, Any]:
        check = {"check_shard": {"S": "s"}, "next_check_ms": {"N": "5"}} if self.random.random() < 0.5 else {}
        value = {"B": self._body()[:1000]}
        nested = {"M": {"": {"S": "of an empty name"}, "list": {"L": [{"BOOL": True}, {"NULL": True}, value]}}}
        sets = {"names": {"SS": ["b", "a"]}, "numbers": {"NS": ["1", "2.5"]}}
        return {**self._key(), "value": value, "nested": nested, **sets, **check}

    def do_put_item(self) -> None:
        self.dynamodb.put_item(TableName=self._table, Item=self._item())

    def do_update_item(self) -> None:
        self.dynamodb.update_item(
            TableName=self._table,
            Key=self._key(),
            UpdateExpression="SET #v = :v ADD counts :n",
            ExpressionAttributeNames={"#v": "value"},
            ExpressionAttributeValues={":v": {"S": "new"}, ":n": {"N": "1"}},
        )

    def do_delete_item(self) -> None:
        self.dynamodb.delete_item(TableName=self._table, Key=self._key())

    def do_transact(self) -> None:
        put = {"Put": {"TableName": self._table, "Item": {**self._item(), "pk": {"S": "put"}}}}
        delete = {"Delete": {"TableName": self._table, "Key": {**self._key(), "pk": {"S": "put"}, "sk": {"S": "s"}}}}
        self.dynamodb.transact_write_items(
            TransactItems=[put, delete], ClientRequestToken=f"token {self.random.randrange(10**9)}"
        )

    # ---- in the process
    def do_wait(self) -> None:
        self._emulated.clock.advance_ms(self.random.choice((1, 1000, 60_000)))
