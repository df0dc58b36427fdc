"""Objects through pyarrow's file systems: in S3 or in a folder, without a client to share between processes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import IO

import pyarrow as pa
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, S3FileSystem

from tidewheel.aws import s3_layout
from tidewheel.bucket import BucketId
from tidewheel.errors import ObjectMissing
from tidewheel.flows.ports import StoredObject
from tidewheel.park import ParkKey
from tidewheel.sink import Sink

_S3 = "s3://"
_UNFINISHED = ".unfinished/"
_LOCAL_ACCESS = "local"
_COPY_BYTES = 8 * 1024 * 1024


class ArrowObjects:
    """The port `Objects` over a file system of pyarrow; several threads may use it.

    On S3, pyarrow keeps folders alive: where it deletes or moves an object, it puts an empty one named like the
    folder. Whoever deletes many takes `S3Objects` instead.

    Args:
        filesystem: pyarrow's.
        root: the S3 bucket, with a prefix or without, or the folder.
    """

    def __init__(self, filesystem: FileSystem, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/") + "/"
        self._opened: tuple[str, pa.NativeFile] | None = None

    def new_ledger_name(self, topic: str, first_slot: int, slot_ms: int, bucket_id: BucketId) -> str:
        """Returns a ledger's name with a random end."""
        return s3_layout.ledger_name(topic, first_slot, slot_ms, bucket_id, s3_layout.attempt())

    def new_park_name(self, key: ParkKey) -> str:
        """Returns a name of a park's ledger with a random end."""
        return s3_layout.park_name(key, s3_layout.attempt())

    def new_occurrences_name(self, topic: str, a: int) -> str:
        """Returns a name with a random end."""
        return s3_layout.occurrences_name(topic, a, s3_layout.attempt())

    def new_checkpoint_name(self, topic: str, written_at_ms: int) -> str:
        """Returns a checkpoint's name with a random end."""
        return s3_layout.checkpoint_name(topic, written_at_ms, s3_layout.attempt())

    def new_payload_name(self, topic: str, due_ms: int, message_id: str) -> str:
        """Returns a large body's name with a random end."""
        return s3_layout.payload_name(topic, due_ms, message_id, s3_layout.attempt())

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Writes an object whole: one request to S3 up to 10 MB; a file appears under its name when it is complete."""
        self._put(name, BytesIO(data))

    def get_range(self, name: str, offset: int, length: int) -> bytes:
        """Reads a range; the first read of an object asks for its size too.

        Raises:
            ObjectMissing: there is no such object.
        """
        try:
            file = self._open(name)
            wanted = min(length, file.size() - offset)
            return bytes(file.read_at(wanted, offset)) if wanted > 0 else b""
        except FileNotFoundError:
            raise ObjectMissing(name) from None
        except OSError as error:
            raise _explained(error, name) from error

    @contextmanager
    def create(self, name: str) -> Iterator[Sink]:
        """Writes to a temporary file, which becomes the object when the block has ended well.

        pyarrow's stream to S3 cannot be aborted: it completes the upload even when it is only garbage collected.
        """
        with tempfile.TemporaryFile() as spool:
            yield spool
            spool.seek(0)
            self._put(name, spool)

    def list(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Lists objects: reads all of the folder that the prefix is in."""
        folder = prefix.rpartition("/")[0]
        selector = FileSelector(self._root + folder, allow_not_found=True, recursive=True)
        found = {
            info.path.removeprefix(self._root): info
            for info in self._filesystem.get_file_info(selector)
            if info.type == FileType.File
        }
        for name in sorted(found):
            if name.startswith(prefix) and name > (after or "") and not name.startswith(_UNFINISHED):
                info = found[name]
                yield StoredObject(name=name, size_bytes=info.size, put_at_ms=info.mtime_ns // 1_000_000)

    def copy(self, name: str, to: str) -> None:
        """Copies a file, or an object inside S3.

        Raises:
            ObjectMissing: there is no such object.
        """
        self._make_folder(to)
        try:
            self._filesystem.copy_file(self._root + name, self._root + to)
        except FileNotFoundError:
            raise ObjectMissing(name) from None
        except OSError as error:
            raise _explained(error, name) from error

    def move(self, name: str, to: str) -> None:
        """Renames a file; copies an object inside S3, then deletes it under its old name.

        Raises:
            ObjectMissing: there is no such object.
        """
        self._make_folder(to)
        try:
            self._filesystem.move(self._root + name, self._root + to)
        except FileNotFoundError:
            raise ObjectMissing(name) from None
        except OSError as error:
            raise _explained(error, name) from error
        self._opened = None

    def delete(self, names: Iterable[str]) -> None:
        """Deletes objects, one after the other."""
        for name in names:
            with suppress(FileNotFoundError):
                self._filesystem.delete_file(self._root + name)
        self._opened = None

    def _open(self, name: str) -> pa.NativeFile:
        # The ranges of a ledger are read one after the other: its size is asked for once.
        opened = self._opened
        if opened is None or opened[0] != name:
            self._opened = opened = (name, self._filesystem.open_input_file(self._root + name))
        return opened[1]

    def _put(self, name: str, data: IO[bytes]) -> None:
        if not isinstance(self._filesystem, LocalFileSystem):
            self._write(name, data)
        else:
            unfinished = _UNFINISHED + s3_layout.attempt()
            self._write(unfinished, data)
            self.move(unfinished, name)
        self._opened = None

    def _write(self, name: str, data: IO[bytes]) -> None:
        self._make_folder(name)
        with self._filesystem.open_output_stream(self._root + name) as stream:
            shutil.copyfileobj(data, stream, _COPY_BYTES)

    def _make_folder(self, name: str) -> None:
        if isinstance(self._filesystem, LocalFileSystem):
            self._filesystem.create_dir((self._root + name).rpartition("/")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where objects are, as a value that can be sent to other processes.

    Attributes:
        root: `s3://` and the S3 bucket's name, or a folder.
        endpoint_url: where S3 and DynamoDB answer if it is not AWS.
        region: of AWS; by default the one that the environment names.
    """

    root: str
    endpoint_url: str | None = None
    region: str | None = None

    def objects(self) -> ArrowObjects:
        """Returns the objects, with connections of their own."""
        if not self.root.startswith(_S3):
            return ArrowObjects(LocalFileSystem(), self.root)
        filesystem = arrow_filesystem(region=self.region, endpoint_url=self.endpoint_url)
        return ArrowObjects(filesystem, self.root.removeprefix(_S3))


def arrow_filesystem(
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
) -> S3FileSystem:
    """Returns S3 as a file system.

    Args:
        region: of the S3 bucket; by default the one that the environment names.
        endpoint_url: where S3 answers if it is not AWS.
        access_key: by default AWS's usual places are searched, and made up for a local endpoint.
        secret_key: belongs to `access_key`.
    """
    access = local_access(endpoint_url)
    return S3FileSystem(
        access_key=access_key or access,
        secret_key=secret_key or access,
        region=region,
        endpoint_override=endpoint_url,
        connect_timeout=5,
        request_timeout=30,
        # An object that fits into one part is then written by one request instead of three.
        allow_delayed_open=True,
    )


def local_access(endpoint_url: str | None) -> str | None:
    """Returns made-up credentials for an endpoint without TLS, which is not AWS; None for any other."""
    return _LOCAL_ACCESS if endpoint_url is not None and endpoint_url.startswith("http://") else None


def _explained(error: OSError, name: str) -> Exception:
    """pyarrow has S3's code in its text only."""
    return ObjectMissing(name) if "NO_SUCH_KEY" in str(error) else error
