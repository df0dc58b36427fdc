"""Defines the values that the driver of an import and its tasks exchange."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.jobs.importing.options import Columns, Dialect, ImportOptions
from tidewheel.jobs.location import Location
from tidewheel.ledger.bucket import Bucket
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import TopicState

MALFORMED = "the line is malformed"
"""The problem of a line that is no row."""
ENCODING = "tidewheel.encoding"
"""A column of JSON lines. It is `bytes` if the body is base64, as in the rejects of binary bodies."""

_MOST_PARTS = 100_000
_MOST_CHUNKS = 100_000

Mask = npt.NDArray[np.bool_]


class FileProblem(Exception):
    """A file of the input cannot be imported, or not to its end. The text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file as it was when the import began.

    Attributes:
        number: its place among the sorted names.
        name: path or `s3://` URL.
        size_bytes, changed: size, and time or tag of the last change.
        format: parquet, csv or json.
    """

    number: int
    name: str
    size_bytes: int
    changed: str
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a file, which one task reads.

    Attributes:
        number: its place in the file.
        first, end: row groups of Parquet, or bytes of JSON lines. Other files have one part.
        columns: the mapped columns that the file has.
        header, dialect: the columns of a CSV file, and how it quotes values.
        size_bytes: its share of the file, for progress.
    """

    file: InputFile
    number: int
    first: int
    end: int
    columns: Columns
    header: tuple[str, ...] = ()
    dialect: Dialect = field(default_factory=Dialect)
    size_bytes: int = 0

    @property
    def missing(self) -> str:
        """Says which rows are not imported if the part is not."""
        if self.file.format == "parquet":
            last = self.end - 1
            groups = f"row group {last}" if last == self.first else f"row groups {self.first} to {last}"
            return f"the rows of {groups} are not imported"
        if self.end > 0:
            return f"the lines that begin in bytes {self.first} to {self.end - 1} are not imported"
        return "none of its rows is imported"

    def mark(self, chunk: int) -> int:
        """Returns the number that stands for a chunk of this part in the import's marks."""
        return (self.file.number * _MOST_PARTS + self.number) * _MOST_CHUNKS + chunk

    def chunks(self, marks: frozenset[int]) -> frozenset[int]:
        """Returns the chunks of this part among committed marks."""
        first = self.mark(0)
        return frozenset(mark - first for mark in marks if 0 <= mark - first < _MOST_CHUNKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The common properties of an import's ledgers."""

    topic: str
    generation: str
    settings: TopicSettings
    import_id: str

    @classmethod
    def of(cls, state: TopicState, token: str) -> Target:
        """Returns the target of the import with this token."""
        # A topic that is deleted and created again has no rows of an import to the first topic.
        import_id = f"{token}.{state.generation}"
        return cls(topic=state.topic, generation=state.generation, settings=state.settings, import_id=import_id)

    def content(self, mark: int) -> str:
        """Returns a hash of the import and the mark, for the id of the chunk's bucket."""
        text = f"{self.generation}\n{self.import_id}\n{mark}"
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def once(self, mark: int) -> str:
        """Returns the mark's name in the table."""
        return f"{self.import_id}#{mark}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The data that a row's checks need besides its columns.

    Attributes:
        now_ms: start of this run.
        earliest_ms: rows due before this time are rejected as too soon.
        open_ms: rows due before this time are rejected as late: their slots were sealed meanwhile.
        time_zone: zone of times without a zone.
    """

    now_ms: int
    earliest_ms: int
    open_ms: int = 0
    time_zone: str | None = None

    @classmethod
    def of(cls, state: TopicState, now_ms: int, options: ImportOptions) -> Terms:
        """Returns the terms of a run that starts now."""
        earliest_ms = max(now_ms + options.min_lead_ms, state.sealed * state.slot_ms)
        return cls(now_ms=now_ms, earliest_ms=earliest_ms, time_zone=options.time_zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds a task's memory. An import that goes on has the limits of its first run, so that its chunks are the same.

    Attributes:
        rows, raw_bytes: of a chunk.
        part_bytes: of a part of JSON lines.
    """

    rows: int = 1_000_000
    raw_bytes: int = 128 * 1024 * 1024
    part_bytes: int = 128 * 1024 * 1024


LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The data shared by all tasks of an import.

    Attributes:
        location: where ledgers are written. Rejects in S3 are written with the same credentials.
        source: how the input in S3 is read.
        rejects: folder or `s3://` URL for rejected rows, if they are kept.
    """

    target: Target
    terms: Terms
    location: Location
    source: Location
    rejects: str | None
    limits: Limits


@dataclass(slots=True, kw_only=True)
class Chunk:
    """The outcome of one chunk.

    Attributes:
        number: its place in the part.
        rows: rows read, rejected rows included.
        rejected: by kind.
        bucket: of the written ledger; None if all rows were rejected, or the chunk was committed before.
    """

    number: int
    rows: int
    rejected: Counter[str] = field(default_factory=Counter)
    bucket: Bucket | None = None


@dataclass(slots=True, kw_only=True)
class Rows:
    """Some rows of a file, by column.

    Attributes:
        due, expires: times as the file has them.
        payload: the body's bytes, or nested values, which become JSON.
        encoding: of each body.
        key: text or numbers.
        attributes: the text of a JSON object, or a map or struct.
        group: text or numbers.
        wrong: kinds of problems that the reader found, each with its rows.
        place: where a row stands in its file, for people.
        given: a row's columns, each as JSON.
        malformed: places, kinds of problems and texts of lines that are no rows.
    """

    due: pa.Array
    payload: pa.BinaryArray
    encoding: npt.NDArray[np.int8]
    key: pa.Array | None = None
    attributes: pa.Array | None = None
    expires: pa.Array | None = None
    group: pa.Array | None = None
    wrong: Mapping[str, Mask] = field(default_factory=dict)
    place: Callable[[int], dict[str, Any]]
    given: Callable[[int], Mapping[str, str]]
    malformed: list[tuple[dict[str, Any], str, str]] = field(default_factory=list)

    @classmethod
    def mapped(cls, columns: Columns, column: Callable[[str], pa.Array], **others: Any) -> Rows:
        """Makes rows of mapped columns, given a function that returns a column by its name."""
        optional = {
            "key": columns.key,
            "attributes": columns.attributes,
            "expires": columns.expires_at,
            "group": columns.group,
        }
        found: dict[str, Any] = {field: None if name is None else column(name) for field, name in optional.items()}
        return cls(due=column(columns.deliver_at), **found, **others)

    def __len__(self) -> int:
        return len(self.due)
