"""Reads Parquet files, the mapped columns only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidewheel.jobs.importing import values
from tidewheel.jobs.importing.files import opened
from tidewheel.jobs.importing.options import Columns
from tidewheel.jobs.importing.streams import explained
from tidewheel.jobs.importing.texts import is_any, is_bytes, is_text
from tidewheel.jobs.importing.times import ACCEPTED, takes
from tidewheel.jobs.importing.work import ENCODING, FileProblem, InputFile, Part, Present, Rows
from tidewheel.jobs.location import Location
from tidewheel.model.message import Encoding

_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 65_536
_BUFFER_BYTES = 1024 * 1024


def check_types(schema: pa.Schema, columns: Columns, enums: Sequence[str] = ()) -> None:
    """Checks the types of the mapped columns.

    Args:
        schema: of the file or table.
        columns: the mapped columns.
        enums: paths of columns, or inside of them, that Parquet stores as enumerations.

    Raises:
        FileProblem: there are two columns of a name, or a column has a type that cannot be sent.
    """
    for field, (accepts, advice, _) in _FIELDS.items():
        name = getattr(columns, field)
        if schema.names.count(name) > 1:
            raise FileProblem(f"it has two columns {name!r}; give each column a name of its own")
        if name in schema.names:
            type_ = pa.string() if name in enums else schema.field(name).type
            inside = [f", with the ENUM {path}" for path in enums if path.startswith(f"{name}.")]
            if inside or not accepts(values.plain_type(type_)):
                shown = f"{type_}{''.join(inside[:1])}"
                raise FileProblem(f"column {name!r} (--{field.replace('_', '-')}) is a {shown}; {advice}")


def read_parquet(location: Location, part: Part, present: Present) -> Iterator[Rows]:
    """Reads the rows of the row groups that begin in a part. The numbers of rows count from 1 in each row group.

    Raises:
        FileProblem: a row group is damaged, or a column has a type that cannot be mapped.
    """
    file = _open(location, part.file)
    columns = present(file.schema_arrow.names)
    check_types(file.schema_arrow, columns, _enums(file, columns.names))
    for number in range(file.metadata.num_row_groups):
        where = f"row group {number}"
        with explained("its footer"):
            group = file.metadata.row_group(number)
            # A damaged footer may name any byte: each row group is in one part, whatever it says.
            begin = min(max(0, group.column(0).data_page_offset), part.file.size_bytes - 1)
            chunks = (group.column(place) for place in range(group.num_columns))
            size = sum(each.total_uncompressed_size for each in chunks if _is_of(each.path_in_schema, columns.names))
        if not part.first <= begin < part.end:
            continue
        if group.num_rows < 0 or size < 0:
            raise FileProblem(f"{where}: its footer is damaged; make the file again")
        batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, size // max(1, group.num_rows))))
        read = 0
        for rows in _row_group(file, number, columns, batch_rows):
            yield rows
            read += len(rows)
        if read != group.num_rows:
            raise FileProblem(f"{where} holds {read} rows, and its footer says {group.num_rows}; make the file again")


def _row_group(file: pq.ParquetFile, number: int, columns: Columns, batch_rows: int) -> Iterator[Rows]:
    """Yields the rows of a row group. If there is not the memory for some, the rest comes in smaller batches."""
    names = list(dict.fromkeys(columns.names))
    enums = [name for name in _enums(file, names) if name in names]
    done = 0
    for most in (batch_rows, 1_024, 16):
        passed = 0
        with suppress(MemoryError), explained(f"row group {number}"):
            for batch in file.iter_batches(min(batch_rows, most), [number], names, use_threads=False):
                passed += batch.num_rows
                if passed > done:
                    left = batch.slice(batch.num_rows - min(batch.num_rows, passed - done))
                    for name in enums:
                        text = left.column(name).view(pa.string())
                        left = left.set_column(left.schema.names.index(name), name, text)
                    yield rows_of(left, columns, partial(_place, number, done))
                    done = passed
            return
    raise FileProblem("it needs too much memory; write it with smaller row groups or pages, and shorter values")


def _place(group: int, before: int, row: int) -> dict[str, Any]:
    return {"row_group": group, "row": before + row + 1}


def _enums(file: pq.ParquetFile, names: Collection[str]) -> list[str]:
    """Returns the paths of columns, or inside of them, that Parquet stores as enumerations."""
    found = (file.schema.column(number) for number in range(len(file.schema)))
    paths = (each.path for each in found if each.logical_type.type == "ENUM")
    return [path for path in paths if _is_of(path, names)]


def _is_of(path: str, names: Collection[str]) -> bool:
    """Returns whether a path is that of a column, or inside of one."""
    return path in names or path.partition(".")[0] in names


def _open(location: Location, file: InputFile) -> pq.ParquetFile:
    with explained("its footer"):
        found = pq.ParquetFile(
            pa.PythonFile(opened(location, file), mode="r"),
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit="us",  # nanoseconds, the default, wrap in the year 2262
            arrow_extensions_enabled=True,
        )
        assert found.schema_arrow is not None  # a damaged schema fails here
        return found


def rows_of(batch: pa.RecordBatch, columns: Columns, place: Callable[[int], dict[str, Any]]) -> Rows:
    """Returns a batch of typed columns as rows."""
    encoding = values.encoding_of(values.plain_type(batch.schema.field(columns.body).type))
    return Rows.mapped(
        columns,
        lambda name: values.plain(batch.column(name)),
        encoding=np.full(batch.num_rows, encoding, np.int8),
        place=place,
        given=lambda row: _given(batch, columns, row),
    )


def _given(batch: pa.RecordBatch, columns: Columns, row: int) -> dict[str, str]:
    """Returns the mapped columns of a row as JSON, as they are read from JSON lines."""
    forms = {getattr(columns, field): form for field, (_, _, form) in reversed(_FIELDS.items())}
    given = {name: values.json_of(batch.column(name), row, forms[name]) for name in batch.schema.names}
    bytes_ = values.encoding_of(values.plain_type(batch.schema.field(columns.body).type)) is Encoding.BYTES
    return given | ({ENCODING: '"bytes"'} if bytes_ else {})


def _is_body(type_: pa.DataType) -> bool:
    nested = pa.types.is_nested(type_) and _has_json(type_)
    return is_text(type_) or is_bytes(type_) or is_any(type_, "null") or nested


def _has_json(type_: pa.DataType) -> bool:
    """Returns whether a nested type has no values that only their own library reads: opaque ones, tensors, variants."""
    inside = [type_.field(number) for number in range(type_.num_fields)]
    binary = {field.name for field in inside if is_bytes(field.type)}
    variant = "metadata" in binary and {field.name for field in inside} <= {"metadata", "value", "typed_value"}
    own = isinstance(values.plain_type(type_), pa.BaseExtensionType)
    return not variant and not own and all(_has_json(field.type) for field in inside)


def _is_plain(type_: pa.DataType) -> bool:
    return is_text(type_) or is_any(type_, "integer", "floating", "boolean", "decimal", "null")


def _is_attributes(type_: pa.DataType) -> bool:
    nested = is_any(type_, "map", "struct") and _has_json(type_) and not _has_time(type_)
    return is_text(type_) or is_any(type_, "null") or nested


def _has_time(type_: pa.DataType) -> bool:
    """Returns whether a type has times inside, which have many texts."""
    type_ = getattr(type_, "value_type", type_)
    return pa.types.is_temporal(type_) or any(_has_time(type_.field(n).type) for n in range(type_.num_fields))


_FIELDS: dict[str, tuple[Callable[[pa.DataType], bool], str, Callable[[pa.Array], str]]] = {
    "body": (_is_body, "give text, binary, a struct, a list or a map, with plain types in it", values.body_json),
    "deliver_at": (takes, ACCEPTED, values.time_json),
    "key": (_is_plain, "give a column of text", values.key_json),
    "attributes": (
        _is_attributes,
        "give a map or struct of texts, numbers and flags, or the text of a JSON object",
        values.attributes_json,
    ),
    "expires_at": (takes, ACCEPTED, values.time_json),
    "group": (_is_plain, "give a column of text", values.key_json),
}
"""What a column may be, what to give, and a value as JSON, by field. The first field of a column counts."""
