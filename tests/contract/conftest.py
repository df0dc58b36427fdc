"""Each port's suites run over both implementations; the AWS one is on moto, with pages of two items."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from moto.server import ThreadedMotoServer
from pyarrow.fs import LocalFileSystem

from tests.contract.aws_resources import REGION, client, make_s3_bucket, make_table
from tests.contract.builders import Store
from tidewheel.aws.dynamodb_topics import DynamoTopics
from tidewheel.aws.s3_objects import S3Objects
from tidewheel.memory import MemoryObjects, MemoryTopics
from tidewheel.spark.arrow_objects import ArrowObjects, arrow_filesystem


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
    return Store(topics=topics, objects=objects, object_names=objects.names)


@pytest.fixture(params=["memory", "aws"])
def store(request: pytest.FixtureRequest) -> Store:
    """An empty store of topics."""
    if request.param == "aws":
        return aws_store(request.getfixturevalue("dynamodb"), page_size=2)
    topics, objects = MemoryTopics(), MemoryObjects()
    return Store(topics=topics, objects=objects, object_names=objects.names)


@pytest.fixture(scope="module")
def s3_endpoint(aws: None) -> Iterator[str]:
    """The same S3 as that of the client, over HTTP."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["memory", "aws", "arrow folder", "arrow s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An empty store of objects."""
    if request.param == "memory":
        return MemoryObjects()
    if request.param == "arrow folder":
        return ArrowObjects(LocalFileSystem(), str(tmp_path))
    s3 = request.getfixturevalue("s3")
    if request.param == "aws":
        return S3Objects(s3, s3_bucket=make_s3_bucket(s3))
    filesystem = arrow_filesystem(region=REGION, endpoint_url=request.getfixturevalue("s3_endpoint"))
    return ArrowObjects(filesystem, make_s3_bucket(s3))
