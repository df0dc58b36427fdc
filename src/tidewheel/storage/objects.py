"""The port to objects in S3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tidewheel.errors import ObjectMissing
from tidewheel.ledger.sink import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object in a listing."""

    name: str
    size_bytes: int
    put_at_ms: int


class Objects(Protocol):
    """The objects in S3."""

    def new_attempt(self) -> str:
        """Returns the end of a new object's name, hexadecimal digits that no other object has."""
        ...

    def put(self, name: str, data: bytes | memoryview, *, new: bool = False) -> None:
        """Writes a whole object.

        Args:
            new: an object that already has this name stays as it is.
        """
        ...

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Reads a range with one request. The result is shorter than `length` if the object ends.

        Raises:
            ObjectMissing: there is no such object.
        """
        ...

    def create(self, name: str) -> AbstractContextManager[Sink]:
        """Opens an object for writing in pieces.

        The object exists after the block ends without an exception, and does not exist otherwise.
        """
        ...

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Lists the objects whose names start with a prefix, in the order of their names.

        Args:
            after: only names that sort behind `after`, whether an object of that name exists or not.
        """
        ...

    def copy(self, name: str, to: str) -> None:
        """Writes a copy of an object under another name.

        Raises:
            ObjectMissing: there is no such object.
        """
        ...

    def move(self, name: str, to: str) -> None:
        """Renames an object. If the move stops in the middle, the object may have both names."""
        ...

    def restore(self, name: str, whole: Callable[[Callable[[int, int], bytes]], bool]) -> bool:
        """Makes the newest whole version of an object the current version. Returns False if none is kept.

        Args:
            name: the object, which may be deleted.
            whole: told a function that reads a range (offset, length) of a version.
        """
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects. Missing objects are ignored."""
        ...

    def erase(self, names: Iterable[str]) -> None:
        """Deletes objects in all versions, including objects deleted before."""
        ...


class UnversionedObjects(Objects, Protocol):
    """Objects without versions, outside of S3."""

    def restore(self, name: str, whole: Callable[[Callable[[int, int], bytes]], bool]) -> bool:
        """Returns whether the object is whole. No earlier versions are kept."""
        try:
            return whole(lambda offset, length: self.get_range(name, offset, length))
        except ObjectMissing:
            return False

    def erase(self, names: Iterable[str]) -> None:
        """Deletes objects."""
        self.delete(names)
