"""Finds the files of an input, locally or in S3, and reads ranges of them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from glob import escape, glob, has_magic
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tidewheel.errors import InvalidValue
from tidewheel.jobs.importing.options import FORMATS, ImportOptions
from tidewheel.jobs.importing.tables import TABLES, is_delta, table_files
from tidewheel.jobs.importing.work import FileProblem, InputFile
from tidewheel.jobs.location import S3, Location, client

_ENDINGS = {"parquet": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}
CODECS = {"gz": "gzip", "gzip": "gzip", "bz2": "bz2", "zst": "zstd", "zstd": "zstd", "lz4": "lz4"}
_OTHER_CODECS = ("snappy", "deflate", "xz", "zip", "br", "z")
_ENDING = re.compile(rf"\.(\w+?)(?:\.({'|'.join([*CODECS, *_OTHER_CODECS])}))?\Z", re.IGNORECASE)
_BLOCK_BYTES = 8 * 1024 * 1024
_CHANGED = "it changed during the import, so it is not imported; import it alone"
_GONE = "it vanished during the import, so it is not imported"


def find_files(location: Location, options: ImportOptions) -> list[InputFile]:
    """Lists the input's files, sorted by name.

    Names in a folder that begin with `_` or `.` are left out. Of a table, the files of its current snapshot are listed.

    Raises:
        InvalidValue: there are no files, their format is unknown, or they are a table that cannot be read.
        ExtraMissing: the package that reads the table is not installed.
    """
    path = plain_url(options.input)
    table = options.format in TABLES
    try:
        if table:
            names = table_files(location, options)
            found = [each for name in names for each in _list(location, name, exact=True)]
            if len(found) < len(names):
                raise FileNotFoundError("the table's metadata name files that are gone")
        elif is_delta(location, path):
            raise InvalidValue("--input", options.input, "it is a Delta table; give --format delta")
        else:
            found = _named(location, path)
    except (BotoCoreError, ClientError, OSError, re.error) as error:
        raise InvalidValue("--input", options.input, f"it cannot be listed: {error}") from None
    if not found:
        raise InvalidValue("--input", options.input, "there are no files; give a file, a folder or a glob")
    format_ = "parquet" if table else options.format or _format_of([name for name, _, _ in found])
    return [InputFile(name=name, size_bytes=size, changed=changed, format=format_) for name, size, changed in found]


def plain_url(name: str) -> str:
    """Returns a path or an `s3://` URL, without the spellings of Hadoop."""
    return name.replace("s3a://", S3).removeprefix("file://")


def check_unchanged(file: InputFile) -> None:
    """Checks a file on this machine. In S3, each range is of the listed version.

    Raises:
        FileProblem: it has changed since the import began, or is gone.
    """
    if file.name.startswith(S3):
        return
    try:
        now = _stat(Path(file.name))
    except FileNotFoundError:
        raise FileProblem(_GONE) from None
    if now != (file.size_bytes, file.changed):
        raise FileProblem(_CHANGED)


def codec_of(file: InputFile) -> str | None:
    """Returns the codec by which a text file is compressed, by its ending."""
    found = _ENDING.search(file.name)
    return found[2] if found and file.format != "parquet" else None


def opened(location: Location, file: InputFile) -> io.BufferedIOBase:
    """Opens a file to read ranges."""
    if file.name.startswith(S3):
        return io.BufferedReader(_S3File(location, file), _BLOCK_BYTES)
    check_unchanged(file)
    try:
        return Path(file.name).open("rb")
    except OSError as error:
        raise FileProblem(f"it cannot be opened: {error.strerror}; let this run read it") from None


class _S3File(io.RawIOBase):
    """Reads an object by ranges, and only the version that was listed."""

    def __init__(self, location: Location, file: InputFile) -> None:
        self._client = client(location, "s3")
        self._s3_bucket, _, self._key = file.name.removeprefix(S3).partition("/")
        self._file, self._position = file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        first, end = self._position, min(self._file.size_bytes, self._position + len(buffer))
        if first >= end:
            return 0
        place = {"Bucket": self._s3_bucket, "Key": self._key, "IfMatch": self._file.changed}
        try:
            data = self._client.get_object(**place, Range=f"bytes={first}-{end - 1}")["Body"].read()
        except ClientError as error:
            problems = {"PreconditionFailed": _CHANGED, "NoSuchKey": _GONE}
            refused = f"S3 refuses bytes {first}-{end - 1}: {error}"
            raise FileProblem(problems.get(error.response["Error"]["Code"], refused)) from None
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def _named(location: Location, path: str) -> list[tuple[str, int, str]]:
    """Lists the files that have a name, or match it as a glob."""
    exact = sorted(_list(location, path, exact=True))
    matching = sorted(_list(location, path)) if has_magic(path) else exact
    others = sorted(set(matching) - set(exact)) if exact else []
    if others:
        advice = "write [[], [*] or [?] for a character of a name"
        raise InvalidValue("--input", path, f"it is a name, and as a glob matches {others[0][0]} too; {advice}")
    return exact or matching


def _list(location: Location, path: str, *, exact: bool = False) -> Iterator[tuple[str, int, str]]:
    return _in_s3(location, path, exact=exact) if path.startswith(S3) else _local(path, exact=exact)


def _local(path: str, *, exact: bool) -> Iterator[tuple[str, int, str]]:
    seen = set()
    for name in sorted(glob(escape(path) if exact else path, recursive=True)):  # noqa: PTH207
        root = Path(name)
        inside = sorted(root.rglob("*")) if root.is_dir() else [root]
        for each in inside:
            if not each.is_file() or _is_hidden(each.relative_to(root).parts):
                continue
            if (real := each.resolve()) not in seen:
                seen.add(real)  # a link to it, or its folder, may match too
                yield (str(each.absolute()), *_stat(each))


def _stat(path: Path) -> tuple[int, str]:
    found = path.stat()
    return found.st_size, str(found.st_mtime_ns)


def _in_s3(location: Location, url: str, *, exact: bool) -> Iterator[tuple[str, int, str]]:
    s3_bucket, _, pattern = url.removeprefix(S3).partition("/")
    prefix = pattern if exact else re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    globs = [each for each in pattern.strip("/").split("/") if each]
    pages = client(location, "s3").get_paginator("list_objects_v2").paginate(Bucket=s3_bucket, Prefix=prefix)
    for each in (each for page in pages for each in page.get("Contents", ())):
        parts = each["Key"].split("/")
        found = parts[: len(globs)] == globs if exact else matches(parts, globs)
        if found and not each["Key"].endswith("/") and not _is_hidden(parts[len(globs) :]):
            yield f"{S3}{s3_bucket}/{each['Key']}", each["Size"], each["ETag"]


def matches(name: Sequence[str], glob_: Sequence[str]) -> bool:
    """Returns whether a name or a folder above it, by parts, matches a glob."""
    if not glob_:
        return True
    if glob_[0] == "**":
        return any(matches(name[n:], glob_[1:]) for n in range(len(name)))
    first = bool(name) and (name[0] == glob_[0] or fnmatchcase(name[0], glob_[0]))
    return first and matches(name[1:], glob_[1:])


def _is_hidden(parts: Any) -> bool:
    return any(part.startswith(("_", ".")) for part in parts)


def _format_of(names: list[str]) -> str:
    found = {_ENDINGS.get(ending[1].lower() if (ending := _ENDING.search(name)) else "") for name in names}
    if len(found - {None}) > 1:
        kinds = ", ".join(sorted(each for each in found if each))
        raise InvalidValue("--format", None, f"the files are {kinds}; import each by a glob of its own")
    [format_, *others] = found
    if others or format_ is None:
        shown = sorted(name.rpartition("/")[2] for name in names)[:3]
        raise InvalidValue("--format", None, f"give {', '.join(FORMATS)}: files like {', '.join(shown)} do not say")
    return format_
