"""Reads a call's requests to IAM, of clients of Tidewheel's table."""

from __future__ import annotations

from functools import partial

from tests.iam import iam_requests
from tidewheel.storage import table_keys


def _partition_key(_table: str, index: str | None) -> str:
    return table_keys.CHECK_PARTITION_KEY if index == table_keys.CHECK_INDEX else table_keys.PARTITION_KEY


requests_of = partial(iam_requests.requests_of, partition_key=_partition_key)
