"""Reads Parquet files, the mapped columns only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidewheel.jobs.importing.attributes import object_text
from tidewheel.jobs.importing.files import opened
from tidewheel.jobs.importing.options import Columns
from tidewheel.jobs.importing.streams import first_line
from tidewheel.jobs.importing.texts import decoded, is_bytes, is_text
from tidewheel.jobs.importing.times import ACCEPTED, takes
from tidewheel.jobs.importing.work import FileProblem, InputFile, Limits, Part, Rows
from tidewheel.jobs.location import Location
from tidewheel.model.message import Encoding

_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 65_536
_BUFFER_BYTES = 1024 * 1024


def row_groups(location: Location, part: Part, limits: Limits) -> list[tuple[int, int, int]]:
    """Returns runs of row groups [first, end) with their bytes. Each run is about a chunk, at least a row group.

    Raises:
        FileProblem: the file cannot be read, or a column has a type that cannot be mapped.
    """
    found = _open(location, part.file)
    check_types(found.schema_arrow, part.columns)
    runs: list[tuple[int, int, int]] = []
    rows = limits.rows
    for number in range(found.metadata.num_row_groups):
        with _explained("its footer"):
            group = found.metadata.row_group(number)
            size = sum(_sizes(group, part.columns))
        if group.num_rows < 0 or size < 0:
            raise FileProblem(f"row group {number}: its footer is damaged; make the file again")
        if not runs or rows + group.num_rows > limits.rows or runs[-1][2] + size > limits.raw_bytes:
            runs.append((number, number, 0))
            rows = 0
        first, _, before = runs[-1]
        runs[-1] = (first, number + 1, before + size)
        rows += group.num_rows
    return runs


def names_of(location: Location, file: InputFile) -> tuple[str, ...]:
    """Returns the names of a file's columns."""
    return tuple(_open(location, file).schema_arrow.names)


def check_types(schema: pa.Schema, columns: Columns) -> None:
    """Checks the types of the mapped columns.

    Raises:
        FileProblem: a column has a type that cannot be mapped.
    """
    for field, (accepts, advice) in _ACCEPTED.items():
        name = getattr(columns, field)
        if name is None:
            continue
        if schema.names.count(name) > 1:
            raise FileProblem(f"it has two columns {name!r}; give each column a name of its own")
        type_ = schema.field(name).type
        if not accepts(type_.value_type if pa.types.is_dictionary(type_) else type_):
            raise FileProblem(f"column {name!r} (--{field.replace('_', '-')}) is a {type_}; {advice}")


def read_parquet(location: Location, part: Part, batch_rows: int) -> Iterator[Rows]:
    """Reads the rows of some row groups. The numbers of rows count from 1 in each row group.

    Raises:
        FileProblem: a row group is damaged.
    """
    file = _open(location, part.file)
    names = list(dict.fromkeys(name for name in asdict(part.columns).values() if name is not None))
    for number in range(part.first, part.end):
        where = f"row group {number}"
        with _explained("its footer"):
            group = file.metadata.row_group(number)
        mean = max(1, sum(_sizes(group, part.columns)) // max(1, group.num_rows))
        rows = max(1, min(batch_rows, _BATCH_ROWS, _BATCH_BYTES // mean))
        batches = file.iter_batches(rows, row_groups=[number], columns=names, use_threads=False)
        read = 0
        while True:
            with _explained(where):
                batch = next(batches, None)
                if batch is None:
                    break
                found = _rows(batch, part.columns, number, read)
            yield found
            read += batch.num_rows
        if read != group.num_rows:
            raise FileProblem(f"{where} holds {read} rows, and its footer says {group.num_rows}; make the file again")


def _open(location: Location, file: InputFile) -> pq.ParquetFile:
    with _explained("its footer"):
        found = pq.ParquetFile(
            pa.PythonFile(opened(location, file), mode="r"),
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        assert found.schema_arrow is not None  # a damaged schema fails here
        return found


@contextmanager
def _explained(where: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise FileProblem(f"{where} cannot be read: {first_line(error)}; make the file again") from None


def _sizes(group: pq.RowGroupMetaData, columns: Columns) -> Iterator[int]:
    wanted = set(asdict(columns).values())
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema.partition(".")[0] in wanted:
            yield column.total_uncompressed_size


def _rows(batch: pa.RecordBatch, columns: Columns, group: int, before: int) -> Rows:
    body = decoded(batch.column(columns.body))
    payload, encoding = _body(body)

    def column(name: str | None) -> pa.Array | None:
        return None if name is None else batch.column(name)

    return Rows(
        due=batch.column(columns.deliver_at),
        payload=payload,
        encoding=np.full(batch.num_rows, encoding, np.int8),
        key=column(columns.key),
        attributes=_attributes(column(columns.attributes)),
        expires=column(columns.expires_at),
        place=lambda row: {"row_group": group, "row": before + row + 1},
        given=lambda row: {name: batch.column(name)[row].as_py() for name in batch.schema.names},
    )


def _body(body: pa.Array) -> tuple[pa.BinaryArray, Encoding]:
    if is_text(body.type):
        return body.cast(pa.binary()), Encoding.TEXT
    if is_bytes(body.type) or pa.types.is_null(body.type):
        return body.cast(pa.binary()), Encoding.BYTES
    encode = msgspec.json.Encoder(enc_hook=str).encode
    values = body.to_pylist(maps_as_pydicts="lossy")
    return pa.array([None if value is None else encode(value) for value in values], pa.binary()), Encoding.JSON


def _attributes(column: pa.Array | None) -> pa.Array | None:
    if column is None or column.null_count == len(column):
        return None
    column = decoded(column)
    if is_text(column.type):
        return column.cast(pa.string())
    pairs: list[Any] = column.to_pylist()
    if pa.types.is_struct(column.type):
        pairs = [None if each is None else each.items() for each in pairs]
    return pa.array([None if each is None else object_text(each) for each in pairs], pa.string())


def _is_nested(type_: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type_))


def _is_plain(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        is_text(type_)
        or types.is_integer(type_)
        or types.is_floating(type_)
        or types.is_boolean(type_)
        or types.is_decimal(type_)
        or types.is_null(type_)
    )


def _is_attributes(type_: pa.DataType) -> bool:
    return bool(is_text(type_) or pa.types.is_map(type_) or pa.types.is_struct(type_) or pa.types.is_null(type_))


_ACCEPTED: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "deliver_at": (takes, ACCEPTED),
    "body": (
        lambda type_: is_text(type_) or is_bytes(type_) or _is_nested(type_) or bool(pa.types.is_null(type_)),
        "give text, binary, a struct, a list or a map",
    ),
    "key": (_is_plain, "give a column of text"),
    "attributes": (_is_attributes, "give a map or struct of texts, or the text of a JSON object"),
    "expires_at": (takes, ACCEPTED),
}
