"""The ports of the flows in memory: public fakes for tests, your own included.

Each promises what its AWS counterpart promises (`tests/contract` runs the same suites over both), is safe to
use from several threads, and makes every write whole or not at all.
"""

from __future__ import annotations

from tidewheel.memory.objects import MemoryObjects
from tidewheel.memory.queues import MemoryQueues, SentMessage
from tidewheel.memory.runs import MemoryRuns
from tidewheel.memory.service import MemoryService
from tidewheel.memory.sqs import MemorySqs
from tidewheel.memory.topics import MemoryTopics
from tidewheel.memory.wheel import MemoryWheel

__all__ = [
    "MemoryObjects",
    "MemoryQueues",
    "MemoryRuns",
    "MemoryService",
    "MemorySqs",
    "MemoryTopics",
    "MemoryWheel",
    "SentMessage",
]
