"""Remembers an import's input, and the finished parts of it.

    imports/<topic>/_<import id>.json                              sealed (`model.checksum`), a JSON object: `Input`
    imports/<topic>/_<import id>/<file>-<part>-<rows>-<live>       empty: the part is finished, and made `live` ledgers
    imports/<topic>/_<import id>/all-<rows>                        empty: the import of a table is finished

The first object is written before the first ledger. The second is written after the commits of its part, and only
saves work: a part without it is read again, and its committed chunks are passed over.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from tidewheel.errors import CorruptMetadata, InvalidValue, ObjectMissing
from tidewheel.jobs.importing.options import Columns, Dialect, ImportOptions
from tidewheel.jobs.importing.work import InputFile, Limits, Part
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.object_names import import_name
from tidewheel.model.untrusted import json_object_of, mapping, text, whole
from tidewheel.storage.objects import Objects

_MOST_BYTES = 1 << 30
_ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The options, files and limits that decide an import's messages.

    Attributes:
        options: values by option.
        files: sizes by name, without the folders that all names share, so that an import with a token may move.
        changed: the last change of each file, by its whole name.
        limits: of chunks.
        earliest_ms: rows of a table due before this time are too soon, in a later run too.
    """

    options: Mapping[str, str]
    files: Mapping[str, int]
    changed: Mapping[str, str]
    limits: Limits
    earliest_ms: int = 0

    @classmethod
    def of(cls, options: ImportOptions, files: list[InputFile], limits: Limits) -> Input:
        """Returns the input of an import."""
        folder = posixpath.commonpath([posixpath.dirname(file.name) for file in files]) if files else ""
        return cls(
            options={
                "--format": files[0].format if files else str(options.format),
                "--time-zone": options.time_zone or "",
                "--csv-quote": options.dialect.quote,
                "--csv-escape": options.dialect.escape or "",
                "--min-lead": f"{options.min_lead_ms // 1000} s",
                **{f"--{name.replace('_', '-')}": column or "" for name, column in asdict(options.columns).items()},
            },
            files={posixpath.relpath(file.name, folder): file.size_bytes for file in files},
            changed={file.name: file.changed for file in files},
            limits=limits,
        )

    def difference(self, other: Input) -> str | None:
        """Returns the first difference of another input, or None."""
        for option, value in self.options.items():
            if other.options.get(option) != value:
                return f"{option} was {value!r} and is {other.options.get(option)!r}"
        for name in sorted(self.files.keys() | other.files.keys()):
            before, now = self.files.get(name), other.files.get(name)
            if before != now:
                return f"file {name} had {_bytes(before)} and has {_bytes(now)}"
        return None


def _bytes(size: int | None) -> str:
    return "no place in the input" if size is None else f"{size:,} bytes"


def token_of(options: ImportOptions, files: list[InputFile]) -> str:
    """Returns the given token, or a hash of format, columns, time zone, and the files' names, sizes and changes."""
    if options.token is not None:
        return options.token
    columns = asdict(options.columns)
    if columns["group"] == Columns().group:
        del columns["group"]  # so that a file has the token that it had before there were groups
    values = [
        files[0].format,
        columns,
        options.time_zone,
        [(file.name, file.size_bytes, file.changed) for file in files],
        *([asdict(options.dialect)] if options.dialect != Dialect() else ()),
    ]
    return blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


class Settled:
    """The stored state of an import.

    Args:
        objects: where it is stored.
        topic, import_id: name the import.
    """

    def __init__(self, objects: Objects, topic: str, import_id: str) -> None:
        self._objects = objects
        self._name = import_name(topic, import_id)
        self._finished = f"{self._name.removesuffix('.json')}/"
        self._parts: dict[str, tuple[int, int]] = {}

    def begin(self, given: Input, token: str) -> Input:
        """Stores the input, or compares it with that of an earlier run. Returns the first run's.

        Raises:
            InvalidValue: another import has this token.
            CorruptMetadata: the stored input is damaged.
        """
        stored = self.stored()
        if stored is None:
            # Of two runs at once, one stores its input.
            self._objects.put(self._name, sealed(json.dumps(asdict(given)).encode()), new=True)
            stored = decode_input(self._objects.get_range(self._name, 0, _MOST_BYTES), self._name)
        difference = stored.difference(given)
        if difference is not None:
            advice = "give the same as in its first run. Another --token imports every row again"
            raise InvalidValue("--token", token, f"in this import {difference}; {advice}")
        for found in self._objects.list(self._finished):
            name = found.name.removeprefix(self._finished)
            if "/" not in name and not name.startswith(_ALL):
                part, rows, live = name.rsplit("-", 2)
                self._parts[part] = int(rows), int(live)
        return stored

    def stored(self) -> Input | None:
        """Returns the stored input, or None if the import has not begun.

        Raises:
            CorruptMetadata: it is damaged.
        """
        try:
            return decode_input(self._objects.get_range(self._name, 0, _MOST_BYTES), self._name)
        except ObjectMissing:
            return None

    def finished(self) -> int | None:
        """Returns the rows of the import, or None if no run has finished all of it."""
        prefix = f"{self._finished}{_ALL}-"
        return next((int(found.name.removeprefix(prefix)) for found in self._objects.list(prefix)), None)

    def finish_all(self, rows: int) -> None:
        """Remembers that the import is finished, whatever becomes of its files."""
        self._objects.put(f"{self._finished}{_ALL}-{rows}", b"")

    def others_with(self, given: Input) -> Iterator[tuple[str, str]]:
        """Yields the id of each other import of the topic that has a file of the input as it is now, and the file."""
        folder, _, own = self._name.removesuffix(".json").rpartition("/_")
        generation = own.rpartition(".")[2]
        for found in self._objects.list(f"{folder}/_"):
            import_id = found.name.removeprefix(f"{folder}/_").removesuffix(".json")
            if "/" in import_id or import_id == own or import_id.rpartition(".")[2] != generation:
                continue
            with suppress(CorruptMetadata, ObjectMissing):
                other = decode_input(self._objects.get_range(found.name, 0, _MOST_BYTES), found.name)
                for file, changed in given.changed.items():
                    if other.changed.get(file) == changed:
                        yield import_id, file
                        break

    def rows_of(self, part: Part, marks: frozenset[int]) -> int | None:
        """Returns the rows of a finished part. None if it is not, or the table lost one of its marks."""
        rows, live = self._parts.get(_key(part), (None, 0))
        return rows if len(part.chunks(marks)) >= live else None

    def finish(self, part: Part, rows: int, live: int) -> None:
        """Remembers that a part is finished."""
        self._objects.put(f"{self._finished}{_key(part)}-{rows}-{live}", b"")


def _key(part: Part) -> str:
    return f"{part.file.number}-{part.number}"


def decode_input(data: bytes, name: str) -> Input:
    """Reads a stored input.

    Raises:
        CorruptMetadata: the object is damaged.
    """
    try:
        values: Mapping[str, Any] = json_object_of(opened(data))
        return Input(
            options={text(option): text(value) for option, value in mapping(values["options"]).items()},
            files={text(file): whole(size) for file, size in mapping(values["files"]).items()},
            changed={text(file): text(change) for file, change in mapping(values["changed"]).items()},
            limits=Limits(**{text(limit): whole(value) for limit, value in mapping(values["limits"]).items()}),
            earliest_ms=whole(values.get("earliest_ms", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptMetadata(
            f"object {name}, bytes 0-{len(data) - 1}, does not say what an import's input is ({error}): restore the "
            "object from a backup, or delete it and run the import again with the same files"
        ) from None
