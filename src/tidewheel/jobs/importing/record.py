"""Remembers an import: its input, and what its tasks have written.

    imports/<topic>/_<import id>/begun-<run>     empty, from the begin of a run's tasks until its ledgers count
    imports/<topic>/_<import id>/staged.json     the record, from the end of the tasks until all ledgers are live
    imports/<topic>/_<import id>/rejects/*.json  rejected rows, until they are copied
    imports/<topic>/_<import id>.json            the record, when the import is finished

Both records are sealed JSON objects (`model.checksum`). The first is put only if it is absent, so of two runs at once
one decides which ledgers are the import's. While it is there, the orphan sweep deletes no ledger of the topic.
"""

from __future__ import annotations

import json
import posixpath
import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import msgspec

from tidewheel.errors import CorruptMetadata, ObjectMissing
from tidewheel.flows.ports.parallel import Parallel
from tidewheel.jobs.importing.options import Dialect, ImportOptions
from tidewheel.jobs.importing.staging import Staged
from tidewheel.jobs.importing.work import InputFile, Work
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.object_names import IMPORTS, begun_name, import_name, runs_begun, staged_name, topic_prefix
from tidewheel.storage.items import decode_bucket, encode_bucket
from tidewheel.storage.objects import Objects

_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The options and files that a token stands for.

    Attributes:
        options: values by option.
        files: sizes by name, without the folders that all names share, so that an import with a token may move.
        changed: the last change of each file, by its whole name.
    """

    options: dict[str, str]
    files: dict[str, int]
    changed: dict[str, str]

    @classmethod
    def of(cls, options: ImportOptions, files: Sequence[InputFile] = (), **about: str) -> Input:
        """Returns the input of an import. Of a table, `about` tells the rows."""
        folder = posixpath.commonpath([posixpath.dirname(file.name) for file in files]) if files else ""
        given = {
            "--format": files[0].format if files else str(options.format),
            "--time-zone": options.time_zone or "",
            "--csv-quote": options.dialect.quote,
            "--csv-escape": options.dialect.escape or "",
            "--min-lead": f"{options.min_lead_ms // 1000} s",
            **{f"--{name.replace('_', '-')}": column or "" for name, column in asdict(options.columns).items()},
        }
        return cls(
            options=given | about,
            files={posixpath.relpath(file.name, folder): file.size_bytes for file in files},
            changed={file.name: file.changed for file in files},
        )

    def difference(self, other: Input) -> str | None:
        """Returns the first difference of another input, or None."""
        for option, value in self.options.items():
            if other.options.get(option) != value:
                return f"{option} was {value!r} and is {other.options.get(option)!r}"
        for name in sorted(self.files.keys() | other.files.keys()):
            before, now = self.files.get(name), other.files.get(name)
            if before != now:
                had, has = ("no place in the input" if n is None else f"{n:,} bytes" for n in (before, now))
                return f"file {name} had {had} and has {has}"
        return None


def token_of(options: ImportOptions, files: Sequence[InputFile]) -> str:
    """Returns the given token, or a hash of format, columns, time zone, and the files' names, sizes and changes."""
    if options.token is not None:
        return options.token
    values = [
        files[0].format,
        asdict(options.columns),
        options.time_zone,
        [(file.name, file.size_bytes, file.changed) for file in files],
        *([asdict(options.dialect)] if options.dialect != Dialect() else ()),
    ]
    return blake2b(json.dumps(values).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Record:
    """An import after its tasks.

    Attributes:
        stored_ms: when the record was made.
        first_mark: the number of the first ledger's mark. Drawn at random, so that no mark of a lost record fits.
        good: rows in ledgers.
        rejected: rows by kind of problem.
        failed: problems of files of which nothing is imported, by name.
        rejects: objects with the rejected rows.
        ledgers: their buckets, as items of the table.
        is_finished: whether all is done.
        rejects_in: the folder to which the rejected rows were copied.
        run: the run that made it.
    """

    given: Input
    stored_ms: int
    first_mark: int
    good: int
    rejected: dict[str, int]
    failed: dict[str, str]
    rejects: list[str]
    ledgers: list[dict[str, dict[str, Any]]]
    is_finished: bool = False
    rejects_in: str | None = None
    run: str = ""

    @classmethod
    def of(cls, given: Input, staged: Staged, work: Work) -> Record:
        """Returns the record of what the tasks have written."""
        return cls(
            given=given,
            stored_ms=work.now_ms,
            run=work.run,
            first_mark=secrets.randbits(48),
            good=staged.good,
            rejected=dict(staged.rejected),
            failed=staged.failed,
            rejects=staged.rejects,
            ledgers=[encode_bucket(work.state.topic, bucket) for bucket in staged.ledgers],
        )

    @cached_property
    def buckets(self) -> list[Bucket]:
        """The buckets of the ledgers."""
        return [decode_bucket(_item(each)) for each in self.ledgers]

    @property
    def names(self) -> list[str]:
        """The names of all objects."""
        return [*(bucket.object_name for bucket in self.buckets), *self.rejects]

    def encode(self) -> bytes:
        """Returns the record's bytes."""
        return sealed(msgspec.json.encode(self))


def decode_record(data: bytes, name: str) -> Record:
    """Reads a record.

    Raises:
        CorruptMetadata: the object is damaged.
    """
    try:
        record = msgspec.json.decode(opened(data), type=Record)
        assert record.buckets is not None  # each can be read
        return record
    except (msgspec.MsgspecError, AttributeError, ValueError) as error:
        raise CorruptMetadata(
            f"object {name}, bytes 0-{len(data) - 1}, does not say what an import is ({error}): restore the object "
            "from a backup. Without it, a run imports everything again"
        ) from None


def _item(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns an item with its bytes, which are base64 in JSON."""
    return {
        name: {type_: b64decode(value, validate=True) if isinstance(value, str) and type_ == "B" else value}
        for name, typed in values.items()
        for type_, value in typed.items()
    }


class Records:
    """The records of one import."""

    def __init__(self, objects: Objects, work: Work) -> None:
        self._objects, self._work = objects, work
        self._finished = import_name(work.state.topic, work.import_id)
        self._staged = staged_name(work.state.topic, work.import_id)

    def read(self) -> Record | None:
        """Returns the record. None if no run's tasks have ended.

        Raises:
            CorruptMetadata: it is damaged.
        """
        return _read(self._objects, self._finished) or _read(self._objects, self._staged)

    def begin(self) -> None:
        """Tells that this run's tasks begin. A rebuild leaves their ledgers out until `count`."""
        self._objects.put(begun_name(self._work.state.topic, self._work.import_id, self._work.run), b"")

    def count(self, record: Record) -> None:
        """Lets the ledgers of the run that made the record count. Called before any of them is committed."""
        if record.run:
            self._objects.delete([begun_name(self._work.state.topic, self._work.import_id, record.run)])

    def store(self, record: Record) -> Record:
        """Stores the record of this run's tasks, unless there is one. Returns the record that counts."""
        self._objects.put(self._staged, record.encode(), new=True)
        # A run that finished meanwhile has deleted the first record, after it put the second.
        found = self.read()
        if found is None:
            raise ObjectMissing(self._staged)
        if found.is_finished:
            self._objects.delete([self._staged])
        return found

    def finish(self, record: Record) -> None:
        """Marks the import as finished, and deletes what it kept. If it stops in between, the next run deletes it."""
        if not record.is_finished:
            rejects_in = self._work.options.rejects if record.rejects else None
            done = replace(record, rejects=[], is_finished=True, rejects_in=rejects_in)
            self._objects.put(self._finished, done.encode())
        kept = [each.name for each in self._objects.list(self._work.folder)]
        # Ledgers of other runs, which died, must not count even now.
        self._objects.delete([*record.rejects, *(name for name in kept if not runs_begun([name]))])

    def forget(self) -> None:
        """Deletes the record."""
        self._objects.delete([self._finished])

    def other_with(self, given: Input, parallel: Parallel) -> tuple[str, str] | None:
        """Returns the id of another import with messages of a file of the input as it is now, and the file."""
        prefix, found = f"{topic_prefix(IMPORTS, self._work.state.topic)}_", list[tuple[str, str]]()

        def compare(name: str) -> None:
            with suppress(CorruptMetadata):
                other = _read(self._objects, name)
                if other is not None and other.good:
                    same = (file for file, changed in given.changed.items() if other.given.changed.get(file) == changed)
                    found.extend((_import_id(name, prefix), file) for file in same if file not in other.failed)

        names = (each.name for each in self._objects.list(prefix))
        # An import to a deleted topic of this name had another generation.
        end = f".{self._work.state.generation}"
        parallel(compare, [each for each in names if _import_id(each, prefix).endswith(end)])
        return min(found, default=None)


def _import_id(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).removesuffix(".json").removesuffix("/staged")


def _read(objects: Objects, name: str) -> Record | None:
    try:
        return decode_record(objects.get_range(name, 0, _MOST_BYTES), name)
    except ObjectMissing:
        return None
