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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import blake2b

import msgspec

from tidewheel.errors import CorruptMetadata, ObjectMissing
from tidewheel.flows.ports import Parallel
from tidewheel.jobs.importing.options import ImportOptions
from tidewheel.jobs.importing.staging import Staged
from tidewheel.jobs.importing.work import InputFile, Work
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.checksum import opened, sealed
from tidewheel.model.object_names import IMPORTS, begun_name, import_name, runs_begun, staged_name, topic_prefix
from tidewheel.storage.items import decode_bucket, encode_bucket
from tidewheel.storage.objects import Objects

_MOST_BYTES = 1 << 30
_LEAD = "--min-lead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The options and files that a token stands for.

    Attributes:
        about: options, and the size of each file, without the folders that all names share, so that an import with a
            token may move.
        changed: the last change of each file, by its whole name.
    """

    about: dict[str, str]
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
            _LEAD: f"{options.min_lead_ms // 1000} s",
            **{f"--{name.replace('_', '-')}": column or "" for name, column in asdict(options.columns).items()},
            **{f"file {posixpath.relpath(file.name, folder)}": f"{file.size_bytes:,} bytes" for file in files},
        }
        return cls(about=given | about, changed={file.name: file.changed for file in files})

    @property
    def token(self) -> str:
        """A hash of all but the lead: another lead is not another import."""
        about = {name: value for name, value in self.about.items() if name != _LEAD}
        return blake2b(json.dumps([about, self.changed]).encode(), digest_size=16).hexdigest()

    def difference(self, other: Input) -> str | None:
        """Returns the first difference of another input, or None."""
        for name in self.about | other.about:
            was, now = (each.about.get(name, "missing") for each in (self, other))
            if was != now:
                return f"{name} was {was!r} and is {now!r}"
        return None


@dataclass(frozen=True, kw_only=True)
class Record:
    """An import after its tasks.

    Attributes:
        run: the run that made it.
        stored_ms: when the record was made.
        first_mark: the number of the first ledger's mark. Drawn at random, so that no mark of a lost record fits.
        good: rows in ledgers.
        rejected: rows by kind of problem.
        failed: problems of files of which nothing is imported, by name.
        rejects: objects with the rejected rows.
        ledgers: their buckets, as items of the table in MessagePack.
        is_finished: whether all is done.
        rejects_in: the folder to which the rejected rows were copied.
    """

    given: Input
    run: str
    stored_ms: int
    first_mark: int
    good: int
    rejected: dict[str, int]
    failed: dict[str, str]
    rejects: list[str]
    ledgers: list[bytes]
    is_finished: bool = False
    rejects_in: str | None = None

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
            ledgers=[msgspec.msgpack.encode(encode_bucket(work.state.topic, each)) for each in staged.ledgers],
        )

    @cached_property
    def buckets(self) -> list[Bucket]:
        """The buckets of the ledgers."""
        return [decode_bucket(msgspec.msgpack.decode(each)) for each in self.ledgers]

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
        self._objects.delete([begun_name(self._work.state.topic, self._work.import_id, record.run)])

    def store(self, record: Record) -> Record:
        """Stores the record of this run's tasks, unless there is one. Returns the record that counts."""
        self._objects.put(self._staged, record.encode(), new=True)
        found = self.read()
        assert found is not None  # a run that finished meanwhile put the second record before it deleted the first
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

        def compare(record: tuple[str, str]) -> None:
            with suppress(CorruptMetadata):
                if (other := _read(self._objects, record[1])) is not None and other.good:
                    same = given.changed.items() & other.given.changed.items()
                    found.extend((record[0], file) for file, _ in same if file not in other.failed)

        names = [each.name for each in self._objects.list(prefix)]
        ids = [each.removeprefix(prefix).removesuffix(".json").removesuffix("/staged") for each in names]
        # An import to a deleted topic of this name had another generation.
        end = f".{self._work.state.generation}"
        parallel(compare, [each for each in zip(ids, names, strict=True) if each[0].endswith(end)])
        return min(found, default=None)


def _read(objects: Objects, name: str) -> Record | None:
    try:
        return decode_record(objects.get_range(name, 0, _MOST_BYTES), name)
    except ObjectMissing:
        return None
