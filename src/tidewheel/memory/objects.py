"""Objects in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from tidewheel.bucket import BucketId
from tidewheel.errors import ObjectMissing


class MemoryObjects:
    """The port `Objects` over a dict."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, bytes] = {}
        self._attempts = 0

    def names(self, prefix: str = "") -> list[str]:
        """Returns the names that start with a prefix, in order."""
        with self._lock:
            return sorted(name for name in self._objects if name.startswith(prefix))

    def new_ledger_name(self, topic: str, first_slot: int, slot_ms: int, bucket_id: BucketId) -> str:  # noqa: ARG002
        """Returns a name that ends in the number of the attempt."""
        with self._lock:
            self._attempts += 1
            return f"ledgers/{topic}/{first_slot}-{bucket_id}-{self._attempts:08x}.parquet"

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Keeps a copy of the data."""
        with self._lock:
            self._objects[name] = bytes(data)

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Returns a range, cut at the object's end.

        Raises:
            ObjectMissing: there is no such object.
        """
        with self._lock:
            if name not in self._objects:
                raise ObjectMissing(name)
            return self._objects[name][offset : offset + length]

    def delete(self, names: Iterable[str]) -> None:
        """Forgets objects."""
        with self._lock:
            for name in names:
                self._objects.pop(name, None)
