"""Runs the suites of the table's ports over two clients of DynamoDB at once, with pages of two items.

The ports are the same code over both. The client in memory must answer each request as the other client does.

The AWS one is on moto, or on what AWS_ENDPOINT_URL_DYNAMODB and its kin name. Then moto is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.contract.aws_resources import client, has_endpoints, make_s3_bucket, make_table
from tests.contract.builders import Store
from tests.contract.compared import ComparedClient
from tests.folder_objects import FolderObjects
from tidewheel.aws.s3_objects import S3Objects
from tidewheel.memory import MemoryObjects
from tidewheel.storage.storage import Storage
from tidewheel.storage.table import Table


@pytest.fixture(scope="module")
def aws() -> Iterator[None]:
    """The given endpoints, or moto for one file of tests. Each file starts its own moto, since moto is global."""
    if has_endpoints():
        yield
        return
    from moto import mock_aws

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


@dataclass
class Paged:
    """A client of DynamoDB that answers with small pages."""

    client: Any
    page_size: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def query(self, **request: Any) -> Any:
        return self.client.query(**{"Limit": self.page_size, **request})


def aws_store(dynamodb: Any, *, compared: bool = False, page_size: int | None = None) -> Store:
    """An empty table, with manifests in memory.

    Args:
        dynamodb: boto3's client.
        compared: whether the client in memory must answer all requests alike.
        page_size: the most items of an answer; None: as many as fit into DynamoDB's megabyte.
    """
    objects = MemoryObjects()
    table = make_table(dynamodb)
    asked: Any = ComparedClient(dynamodb, table) if compared else dynamodb
    if page_size is not None:
        asked = Paged(asked, page_size)
    return Store(Storage(Table(asked, table, sleep=lambda seconds: None), objects), object_names=objects.names)


@pytest.fixture
def store(dynamodb: Any) -> Store:
    """An empty store of topics."""
    return aws_store(dynamodb, compared=True, page_size=2)


@pytest.fixture(params=["memory", "aws", "folder"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An empty store of objects."""
    if request.param == "memory":
        return MemoryObjects()
    if request.param == "folder":
        return FolderObjects(tmp_path)
    s3 = request.getfixturevalue("s3")
    return S3Objects(s3, s3_bucket=make_s3_bucket(s3))
