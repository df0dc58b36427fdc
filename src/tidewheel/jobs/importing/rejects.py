"""Writes rejected rows as JSON lines.

What is no text, such as bytes that are not UTF-8, becomes half a surrogate pair. So the line is malformed until it is
corrected: no message holds what stands in the place of a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from botocore.exceptions import BotoCoreError, ClientError

from tidewheel.errors import InvalidValue, TidewheelError
from tidewheel.jobs.importing.files import matches, plain_url
from tidewheel.jobs.location import S3, Location
from tidewheel.storage.objects import Objects

_TRIAL = "_tidewheel-writes-here"
_COLUMNS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MARK = "\U0010fffe"
_HALF = re.compile(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F]\w\w)|.)")
"""Half a surrogate pair in JSON, as its group. Whole pairs and other escapes have no group."""


def reject_line(
    file: str | None, place: Mapping[str, Any], given: Mapping[str, str], reason: str, mapped: Collection[str]
) -> bytes:
    """Returns a rejected row as a line. Mapped columns keep their names; of others, place and reason take the name.

    Args:
        file: its name; None: the row is of no file.
        place: where the row stands in its file.
        given: its columns, each as JSON.
        reason: why it is rejected.
        mapped: names of the mapped columns.
    """
    about = {"file": file, **place} if file is not None else place
    places = {_free(name, mapped): _clean(value) for name, value in about.items()}
    why = {_free("reason", mapped): _clean(reason)}
    row = {**places, **{name: text for name, text in given.items() if name not in places}, **why}
    line = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in row.items())
    return f"{{{line}}}\n".encode(errors="backslashreplace")


def check_writable(location: Location, folder: str, source: str, name: str) -> None:
    """Writes an empty object to the folder of rejects, and deletes it.

    Args:
        location: says how S3 is accessed.
        folder: of the rejects.
        source: the input, which may be a glob.
        name: of an object of this import's rejects.

    Raises:
        InvalidValue: the folder cannot be written, or the input would match its rejects.
    """
    if matches([*_parts(folder), name], _parts(source)):
        raise InvalidValue("--rejects", folder, "it is in the input: the next run would import it; give another")
    objects, prefix = folder_of(location, folder)
    try:
        objects.put(f"{prefix}{_TRIAL}", b"")
    except (OSError, BotoCoreError, ClientError, TidewheelError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidValue("--rejects", folder, f"{reason}; give a folder that this run may write to") from None
    with suppress(OSError, BotoCoreError, ClientError, TidewheelError):
        objects.delete([f"{prefix}{_TRIAL}"])


class _Files:
    """Files of this machine. The part of the port `Objects` that rejects need."""

    def put(self, name: str, data: bytes) -> None:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            Path(name).unlink()


def folder_of(location: Location, folder: str) -> tuple[Objects | _Files, str]:
    """Returns the objects or files of a folder, and the prefix of their names."""
    url = plain_url(folder)
    if not url.startswith(S3):
        return _Files(), f"{url}/"
    s3_bucket, _, prefix = url.removeprefix(S3).partition("/")
    place = Location(
        root=f"{S3}{s3_bucket}", endpoint_url=location.endpoint_url, region=location.region, profile=location.profile
    )
    return place.objects(), f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""


def _parts(name: str) -> list[str]:
    url = plain_url(name)
    return (url if url.startswith(S3) else str(Path(url).resolve())).rstrip("/").split("/")


def columns_of(line: str) -> Mapping[str, str]:
    """Returns the columns of a line of JSON as they stand there, without any if it is no object."""
    text = line.encode(errors="backslashreplace").decode()
    marked = _HALF.sub(lambda found: f"{_MARK}{found[1]}" if found[1] else found[0], text)
    for each, mark in ((text, "\\"), (marked, _MARK)):
        with suppress(msgspec.MsgspecError, RecursionError):
            return {name: str(value, "utf-8").replace(mark, "\\") for name, value in _COLUMNS.decode(each).items()}
    return {}


def _clean(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).encode(errors="replace").decode()


def _free(name: str, mapped: Collection[str]) -> str:
    return _free(f"_{name}", mapped) if name in mapped else name
