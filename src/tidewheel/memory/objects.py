"""Stores objects in memory."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import NamedTuple

from tidewheel import clock as clocks
from tidewheel.errors import ObjectMissing
from tidewheel.ledger.sink import Sink
from tidewheel.storage.objects import StoredObject, UnversionedObjects


class _Kept(NamedTuple):
    data: bytes
    put_at_ms: int


class MemoryObjects(UnversionedObjects):
    """Implements the port `Objects` with a dict.

    Args:
        now_ms: returns the time at which an object is put; the current clock by default.
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: clocks.current().now_ms()) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._objects: dict[str, _Kept] = {}
        self._attempts = 0

    def names(self, prefix: str = "") -> builtins.list[str]:
        """Returns the names with a prefix, sorted."""
        with self._lock:
            return sorted(name for name in self._objects if name.startswith(prefix))

    def new_attempt(self) -> str:
        """Returns the attempt's number."""
        with self._lock:
            self._attempts += 1
            return f"{self._attempts:08x}"

    def put(self, name: str, data: bytes | memoryview, *, new: bool = False) -> None:
        """Stores a copy of the data. With `new`, an existing object stays."""
        kept = _Kept(bytes(data), self._now_ms())
        with self._lock:
            if not (new and name in self._objects):
                self._objects[name] = kept

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Returns a range, cut at the object's end.

        Raises:
            ObjectMissing: there is no such object.
        """
        return self._found(name).data[offset : offset + length]

    @contextmanager
    def create(self, name: str) -> Iterator[Sink]:
        """Stores the written data if the block ends without an error."""
        pieces = BytesIO()
        yield pieces
        self.put(name, pieces.getbuffer())

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Lists the objects as of the first iteration."""
        with self._lock:
            kept = sorted(
                (name, each) for name, each in self._objects.items() if name.startswith(prefix) and name > (after or "")
            )
        for name, each in kept:
            yield StoredObject(name=name, size_bytes=len(each.data), put_at_ms=each.put_at_ms)

    def copy(self, name: str, to: str) -> None:
        """Copies an object to another name.

        Raises:
            ObjectMissing: there is no such object.
        """
        self.put(to, self._found(name).data)

    def move(self, name: str, to: str) -> None:
        """Renames an object, with a new time of writing.

        Raises:
            ObjectMissing: there is no such object.
        """
        self.copy(name, to)
        self.delete([name])

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects."""
        with self._lock:
            for name in names:
                self._objects.pop(name, None)

    def _found(self, name: str) -> _Kept:
        try:
            return self._objects[name]
        except KeyError:
            raise ObjectMissing(name) from None
