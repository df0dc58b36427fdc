"""Reads a file from front to back, decompressed, within a bound, and tells errors of files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from tidewheel.errors import TidewheelError
from tidewheel.jobs.importing.files import codec_of, opened
from tidewheel.jobs.importing.work import FileProblem, InputFile
from tidewheel.jobs.location import Location

_MOST_TIMES = 250
_FREE_BYTES = 256 * 1024 * 1024
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF_8_MARK = b"\xef\xbb\xbf"


class Stream:
    """A file's bytes, decompressed.

    Args:
        source: Arrow's file.
        file: the same, for messages.
    """

    def __init__(self, source: pa.NativeFile, file: InputFile) -> None:
        self._source, self._file, self._read = source, file, 0

    def read(self, size: int = -1) -> bytes:
        """Reads up to so many bytes; fewer only at the end.

        Raises:
            FileProblem: the bytes are too many.
        """
        data: bytes = self._source.read(size)
        self._read += len(data)
        check_expanded(self._file, self._read)
        return data

    def seek(self, offset: int) -> None:
        """Goes to a byte of a file that is not compressed."""
        self._source.seek(offset)


def stream_of(location: Location, file: InputFile) -> Stream:
    """Opens a file."""
    codec = codec_of(file)
    raw = pa.PythonFile(opened(location, file), mode="r")
    return Stream(raw if codec is None else pa.CompressedInputStream(raw, codec), file)


def check_expanded(file: InputFile, read_bytes: int) -> None:
    """Raises FileProblem if a file has expanded to too many bytes."""
    if read_bytes > max(_FREE_BYTES, _MOST_TIMES * file.size_bytes):
        raise FileProblem(
            f"it decompresses to more than {_MOST_TIMES} times its {file.size_bytes:,} bytes, as archive bombs do; if "
            "you trust it, decompress it yourself"
        )


def text_of(begin: bytes) -> bytes:
    """Returns the first bytes of a text file, without the mark of UTF-8.

    Raises:
        FileProblem: the file is UTF-16 or UTF-32.
    """
    if begin.startswith(_WIDE_MARKS) or b"\0" in begin[:4]:
        raise FileProblem("it is UTF-16 or UTF-32; write it as UTF-8, and import it")
    return begin.removeprefix(UTF_8_MARK)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


@contextmanager
def explained(where: str | None, advice: str = "make the file again") -> Iterator[None]:
    """Turns an error into the problem of the file that is read. An error of AWS, or want of memory, stays as it is.

    Raises:
        FileProblem: the error, with the place.
    """
    try:
        yield
    except (FileProblem, MemoryError, BotoCoreError, ClientError, TidewheelError):
        raise
    except Exception as error:
        raise FileProblem(f"{where} cannot be read: {_first_line(error)}; {advice}") from None
