"""Reads a call's requests to IAM, of clients of Tidewheel's table."""

from __future__ import annotations

from functools import partial

from tidewheel.local.emulator import iam_requests
from tidewheel.storage import layout


def _partition_key(_table: str, index: str | None) -> str:
    return layout.CHECK_PARTITION_KEY if index == layout.CHECK_INDEX else layout.PARTITION_KEY


requests_of = partial(iam_requests.requests_of, partition_key=_partition_key)
