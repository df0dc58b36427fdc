"""Stores objects in a folder, which several processes share."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidewheel.errors import ObjectMissing
from tidewheel.jobs.location import Location
from tidewheel.ledger.sink import Sink
from tidewheel.model.object_names import random_attempt
from tidewheel.storage.objects import StoredObject, UnversionedObjects

_UNFINISHED = ".unfinished"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderLocation(Location):
    """Locates objects in the folder `root`."""

    def objects(self) -> FolderObjects:
        """Returns the objects."""
        return FolderObjects(Path(self.root))


class FolderObjects(UnversionedObjects):
    """Implements the port `Objects` on a folder. Safe for several threads and processes.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def new_attempt(self) -> str:
        """Returns random hexadecimal digits."""
        return random_attempt()

    def put(self, name: str, data: bytes | memoryview, *, new: bool = False) -> None:
        """Writes an object whole. With `new`, an existing object stays."""
        if new and (self._root / name).exists():
            return
        with self.create(name) as sink:
            sink.write(data)

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Reads a range of an object. Returns b"" if the object ends before `offset`.

        Raises:
            ObjectMissing: There is no such object.
        """
        with _known(name), (self._root / name).open("rb") as file:
            file.seek(offset)
            return file.read(max(0, length))

    @contextmanager
    def create(self, name: str) -> Iterator[Sink]:
        """Writes to a temporary file, which becomes the object when the block ends without an error."""
        unfinished = self._parent_made(f"{_UNFINISHED}/{random_attempt()}")
        try:
            with unfinished.open("wb") as sink:
                yield sink
            unfinished.replace(self._parent_made(name))
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Lists objects. Reads the whole folder of the prefix."""
        folder = self._root / prefix.rpartition("/")[0]
        found = {path.relative_to(self._root).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        for name in sorted(found):
            if name.startswith(prefix) and name > (after or "") and not name.startswith(f"{_UNFINISHED}/"):
                state = found[name].stat()
                yield StoredObject(name=name, size_bytes=state.st_size, put_at_ms=state.st_mtime_ns // 1_000_000)

    def copy(self, name: str, to: str) -> None:
        """Copies an object.

        Raises:
            ObjectMissing: There is no such object.
        """
        with _known(name):
            shutil.copyfile(self._root / name, self._parent_made(to))

    def move(self, name: str, to: str) -> None:
        """Renames an object.

        Raises:
            ObjectMissing: There is no such object.
        """
        with _known(name):
            (self._root / name).replace(self._parent_made(to))

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects, one after the other."""
        for name in names:
            (self._root / name).unlink(missing_ok=True)

    def _parent_made(self, name: str) -> Path:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


@contextmanager
def _known(name: str) -> Iterator[None]:
    """Raises ObjectMissing if the block finds no file."""
    try:
        yield
    except FileNotFoundError:
        raise ObjectMissing(name) from None
