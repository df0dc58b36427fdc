"""Opens text files, bounds what files expand to, and tells errors of files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from tidewheel.errors import TidewheelError
from tidewheel.jobs.importing.files import CODECS, codec_of, opened
from tidewheel.jobs.importing.work import FileProblem, InputFile
from tidewheel.jobs.location import Location

_MOST_TIMES = 250
_FREE_BYTES = 256 * 1024 * 1024
_BUFFER_BYTES = 1024 * 1024
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF_8_MARK = b"\xef\xbb\xbf"


def stream_of(location: Location, file: InputFile) -> io.BufferedIOBase:
    """Opens a text file, decompressed.

    Raises:
        FileProblem: the codec is none that can be read, or the file cannot be opened.
    """
    codec = codec_of(file)
    if codec is None:
        return opened(location, file)
    if codec.lower() not in CODECS:
        raise FileProblem(f"files like *.{codec} are not read; decompress it, or give {', '.join(CODECS)}")
    raw = pa.PythonFile(opened(location, file), mode="r")
    return io.BufferedReader(pa.CompressedInputStream(raw, CODECS[codec.lower()]), _BUFFER_BYTES)


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
        said = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise FileProblem(f"{where} cannot be read: {said}; {advice}") from None
