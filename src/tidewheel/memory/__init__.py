"""Clients and ports in memory, for Tidewheel's tests and yours.

Each makes the same promises as its AWS counterpart (`tests/contract` runs the same suites on both). All are safe for
use by several threads, and each write is atomic.
"""

from __future__ import annotations

from tidewheel.memory.dynamodb import MemoryDynamoDBClient
from tidewheel.memory.objects import MemoryObjects
from tidewheel.memory.service import MemoryService
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.sqs_client import MemorySqsClient
from tidewheel.memory.wheel import MemoryRuns, MemoryWheel

__all__ = [
    "MemoryDynamoDBClient",
    "MemoryObjects",
    "MemoryRuns",
    "MemoryService",
    "MemorySqs",
    "MemorySqsClient",
    "MemoryWheel",
]
