"""A table, an S3 bucket and queues on moto or on given endpoints, and a count of their requests."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config

from tidewheel.storage import table_keys

REGION = "eu-west-1"
ACCESS_KEY, SECRET_KEY = "test", "test"
"""Made up: the servers that `tests/independent` starts know no others."""


def has_endpoints() -> bool:
    """Whether the environment gives an endpoint of DynamoDB. No test runs on moto then."""
    return "AWS_ENDPOINT_URL_DYNAMODB" in os.environ


def client(service: str, **config: Any) -> Any:
    """Makes a client with made-up credentials. botocore takes an endpoint from the environment."""
    return boto3.client(
        service,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(**config),
    )


def make_table(dynamodb: Any) -> str:
    """Creates an empty table as the stack does. Returns its name."""
    name = f"table-{uuid.uuid4().hex}"
    check_key = (table_keys.CHECK_PARTITION_KEY, table_keys.CHECK_SORT_KEY)
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=_key_schema(table_keys.PARTITION_KEY, table_keys.SORT_KEY),
        AttributeDefinitions=[
            {"AttributeName": table_keys.PARTITION_KEY, "AttributeType": "S"},
            {"AttributeName": table_keys.SORT_KEY, "AttributeType": "S"},
            {"AttributeName": table_keys.CHECK_PARTITION_KEY, "AttributeType": "S"},
            {"AttributeName": table_keys.CHECK_SORT_KEY, "AttributeType": "N"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": table_keys.CHECK_INDEX,
                "KeySchema": _key_schema(*check_key),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )
    return name


def _key_schema(partition_key: str, sort_key: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition_key, "KeyType": "HASH"}, {"AttributeName": sort_key, "KeyType": "RANGE"}]


def make_s3_bucket(s3: Any) -> str:
    """Creates an empty S3 bucket. Returns its name."""
    name = f"s3-bucket-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return name


def make_queue(sqs: Any) -> str:
    """Creates an empty queue. Returns its URL."""
    return str(sqs.create_queue(QueueName=f"queue-{uuid.uuid4().hex}")["QueueUrl"])


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
