"""Defines the values that the driver of an import and its tasks exchange."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidewheel.jobs.importing.options import Columns, ImportOptions
from tidewheel.jobs.location import Location
from tidewheel.model.object_names import import_folder
from tidewheel.model.topic_state import TopicState

Present = Callable[[Collection[str]], Columns]
"""Returns the mapped columns that a file with columns of some names has."""
MALFORMED = "the line is malformed"
"""The problem of a line that is no row."""
ENCODING = "tidewheel.encoding"
"""A column of JSON lines, `bytes` if the body is base64, as in the rejects of binary bodies."""

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

Mask = npt.NDArray[np.bool_]


class FileProblem(Exception):
    """A file of the input cannot be imported. The text gives the reason and advice."""


def present(options: ImportOptions, elsewhere: Collection[str], hint: str, names: Collection[str]) -> Columns:
    """Returns the mapped columns that are among some names.

    Args:
        options: name the columns.
        elsewhere: columns that need not be among the names.
        hint: ends the text of a problem.
        names: of the columns of a file or a table.

    Raises:
        FileProblem: a needed column is missing.
    """
    for option, name in options.needed.items():
        if name not in names and name not in elsewhere:
            raise FileProblem(f"no column {name!r} ({option}); there are: {', '.join(names) or 'none'}{hint}")
    return options.present(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file as it was when the import began.

    Attributes:
        name: path or `s3://` URL.
        size_bytes, changed: size, and time or tag of the last change.
        format: parquet, csv or json.
    """

    name: str
    size_bytes: int
    changed: str
    format: str

    @property
    def of_folders(self) -> dict[str, str]:
        """Columns that the file's folders give, such as `kind=renewal`, with their values."""
        named = [folder.partition("=") for folder in self.name.split("/")[:-1]]
        return {name: unquote(value) for name, sign, value in named if name and sign and value != _NO_VALUE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file, or a range of its bytes.

    Attributes:
        first, end: the part has the row groups and the lines that begin in these bytes. By default it is the whole
            file, which may have more bytes when it is decompressed.
    """

    file: InputFile
    first: int = 0
    end: int = sys.maxsize

    @property
    def size_bytes(self) -> int:
        """The length of the range."""
        return min(self.end, self.file.size_bytes) - self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds a task's memory.

    Attributes:
        rows, raw_bytes: of a ledger.
        part_bytes: of the files of a task.
    """

    rows: int = 1_000_000
    raw_bytes: int = 128 * 1024 * 1024
    part_bytes: int = 128 * 1024 * 1024


LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The data shared by all tasks of an import's run.

    Attributes:
        state: of the topic when the run began.
        token: the import's name.
        run: this run's name, with which the content begins in the ids of its ledgers' buckets.
        now_ms: start of this run.
        location: where ledgers are written.
        source: how the input in S3 is read.
    """

    options: ImportOptions
    state: TopicState
    token: str
    run: str
    now_ms: int
    location: Location
    source: Location
    limits: Limits = LIMITS

    @property
    def import_id(self) -> str:
        """The token and the generation: a topic that is deleted and created again has no rows of earlier imports."""
        return f"{self.token}.{self.state.generation}"

    @property
    def folder(self) -> str:
        """The prefix of the objects that the import keeps until it is finished."""
        return import_folder(self.state.topic, self.import_id)

    @property
    def earliest_ms(self) -> int:
        """Rows due before this time are rejected as too soon."""
        return max(self.now_ms + self.options.min_lead_ms, self.state.sealed * self.state.slot_ms)


@dataclass(slots=True, kw_only=True)
class Rows:
    """Some rows of a file, by column.

    Attributes:
        columns: names of the columns.
        values: the mapped columns by the field of `columns`. Times are as the file has them. A body is bytes, or
            nested values, which become JSON. Keys and groups are text, bytes or numbers. Attributes are the text of a
            JSON object, or a map or struct.
        encoding: of each body.
        wrong: kinds of problems that the reader found, each with its rows.
        place: where a row stands in its file, for people.
        given: a row's columns, each as JSON.
        malformed: places, kinds of problems and texts of lines that are no rows.
    """

    columns: Columns
    values: Mapping[str, pa.Array]
    encoding: npt.NDArray[np.int8]
    wrong: Mapping[str, Mask] = field(default_factory=dict)
    place: Callable[[int], dict[str, Any]]
    given: Callable[[int], Mapping[str, str]]
    malformed: list[tuple[dict[str, Any], str, str]] = field(default_factory=list)

    @classmethod
    def mapped(cls, columns: Columns, column: Callable[[str], pa.Array], **others: Any) -> Rows:
        """Makes rows of mapped columns, given a function that returns a column by its name."""
        values = {field: column(name) for field, name in asdict(columns).items() if name is not None}
        return cls(columns=columns, values=values, **others)

    def __len__(self) -> int:
        return len(self.encoding)


@dataclass(slots=True, kw_only=True)
class Imported:
    """Reports the outcome of an import.

    Attributes:
        token: the import's name; give it as `--token` to run the import again even if the files are moved.
        read: rows that were read; the sum of imported, rejected and skipped.
        imported: rows that this run made live.
        sent: rows of these that were due so soon that they were sent without a ledger.
        rejected: rows that this run rejected, by reason.
        ledgers: ledgers that this run made live.
        skipped: rows that an earlier run imported or rejected.
        failed: problems of files of which nothing was imported, by name.
        all_rejected: whether this run and earlier ones rejected all rows.
        seconds: duration of this run.
    """

    token: str
    imported: int = 0
    sent: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    ledgers: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    all_rejected: bool = False
    seconds: float = 0.0

    @property
    def read(self) -> int:
        """Returns the number of rows with an outcome."""
        return self.imported + self.rejected.total() + self.skipped
