"""A table, an S3 bucket and queues on moto, and a count of the requests to them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config

from tidewheel.aws import table_layout as layout

REGION = "eu-west-1"
_numbers = itertools.count(1)


def client(service: str, **config: Any) -> Any:
    """A client with made-up credentials."""
    return boto3.client(
        service,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(**config),
    )


def make_table(dynamodb: Any) -> str:
    """Creates an empty table as the stack does; returns its name."""
    name = f"table-{next(_numbers)}"
    wake_key = (layout.WAKE_PARTITION_KEY, layout.WAKE_SORT_KEY)
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=_key_schema(layout.PARTITION_KEY, layout.SORT_KEY),
        AttributeDefinitions=[
            {"AttributeName": layout.PARTITION_KEY, "AttributeType": "S"},
            {"AttributeName": layout.SORT_KEY, "AttributeType": "S"},
            {"AttributeName": layout.WAKE_PARTITION_KEY, "AttributeType": "S"},
            {"AttributeName": layout.WAKE_SORT_KEY, "AttributeType": "N"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": layout.WAKE_INDEX,
                "KeySchema": _key_schema(*wake_key),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )
    return name


def _key_schema(partition_key: str, sort_key: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": partition_key, "KeyType": "HASH"},
        {"AttributeName": sort_key, "KeyType": "RANGE"},
    ]


def make_s3_bucket(s3: Any) -> str:
    """Creates an empty S3 bucket; returns its name."""
    name = f"s3-bucket-{next(_numbers)}"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return name


def make_queue(sqs: Any) -> str:
    """Creates an empty queue; returns its URL."""
    return str(sqs.create_queue(QueueName=f"queue-{next(_numbers)}")["QueueUrl"])


@contextmanager
def counted(boto3_client: Any) -> Iterator[Counter[str]]:
    """Counts a client's requests by operation while the block runs."""
    counts: Counter[str] = Counter()

    def count(model: Any, **_: Any) -> None:
        counts[model.name] += 1

    events = boto3_client.meta.events
    events.register("before-call.*", count)
    try:
        yield counts
    finally:
        events.unregister("before-call.*", count)
