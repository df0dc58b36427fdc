"""Each port's suites run over both implementations; the AWS one is on moto, with pages of two items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from tests.contract.aws_resources import client, make_s3_bucket, make_table
from tests.contract.builders import Store
from tidewheel.aws.dynamodb_items import encode_trash
from tidewheel.aws.dynamodb_topics import DynamoTopics
from tidewheel.aws.s3_objects import S3Objects
from tidewheel.memory import MemoryObjects, MemoryTopics


@pytest.fixture(scope="module")
def aws() -> Iterator[None]:
    """Moto, for one file of tests: it is global, and other files bring their own."""
    with mock_aws():
        yield


@pytest.fixture(scope="module")
def dynamodb(aws: None) -> Any:
    """A DynamoDB client."""
    return client("dynamodb")


@pytest.fixture(scope="module")
def s3(aws: None) -> Any:
    """An S3 client."""
    return client("s3")


@pytest.fixture(scope="module")
def sqs(aws: None) -> Any:
    """An SQS client."""
    return client("sqs")


def aws_store(dynamodb: Any, **options: Any) -> Store:
    """An empty table; manifests go to memory."""
    objects = MemoryObjects()
    table = make_table(dynamodb)
    topics = DynamoTopics(dynamodb, table=table, objects=objects, sleep=lambda seconds: None, **options)

    def add_trash(topic: str, trash: Any) -> None:
        dynamodb.put_item(TableName=table, Item=encode_trash(topic, trash))

    return Store(topics=topics, objects=objects, add_trash=add_trash, object_names=objects.names)


@pytest.fixture(params=["memory", "aws"])
def store(request: pytest.FixtureRequest) -> Store:
    """An empty store of topics."""
    if request.param == "aws":
        return aws_store(request.getfixturevalue("dynamodb"), page_size=2)
    topics, objects = MemoryTopics(), MemoryObjects()
    return Store(topics=topics, objects=objects, add_trash=topics.add_trash, object_names=objects.names)


@pytest.fixture(params=["memory", "aws"])
def objects(request: pytest.FixtureRequest) -> Any:
    """An empty store of objects."""
    if request.param == "memory":
        return MemoryObjects()
    s3 = request.getfixturevalue("s3")
    return S3Objects(s3, s3_bucket=make_s3_bucket(s3))
