"""Reads CSV files, by Arrow's reader, from rows that are checked. All values are text: nothing is inferred."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from tidewheel.jobs.importing.csv_strict import Malformed, RowTooLong, StrictCsv
from tidewheel.jobs.importing.options import Dialect
from tidewheel.jobs.importing.streams import stream_of
from tidewheel.jobs.importing.work import FileProblem, Part, Rows
from tidewheel.jobs.location import Location
from tidewheel.model.message import Encoding


def header_of(location: Location, part: Part) -> tuple[str, ...]:
    """Returns the names of a file's columns; no name if the file has no row.

    Raises:
        FileProblem: the file cannot be read, its header is malformed, or two columns have the same name.
    """
    row, _ = StrictCsv(part.dialect).header(stream_of(location, part.file))
    try:
        text = row.decode()
    except UnicodeDecodeError:
        raise FileProblem("its header is not UTF-8; write the file as UTF-8, and import it") from None
    names = tuple(_parsed(row, part.dialect, (), []).column_names) if text else ()
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise FileProblem(f"its header has {', '.join(repeated)} twice; give each column a name of its own")
    return names


def read_csv(location: Location, part: Part) -> Iterator[Rows]:
    """Reads the rows of a file. The numbers of rows count from 1, without the header.

    Raises:
        FileProblem: the file cannot be read to its end.
    """
    strict = StrictCsv(part.dialect)
    stream = stream_of(location, part.file)
    _, begin = strict.header(stream)
    number = 1
    try:
        for data, malformed in strict.blocks(stream, begin, len(part.header)):
            rows = _block(data, malformed, part, number)
            number += len(rows) + len(malformed)
            yield rows
    except RowTooLong as problem:
        raise FileProblem(f"row {number} {problem}") from None


def _block(data: bytes, malformed: list[Malformed], part: Part, first: int) -> Rows:
    wrong: list[int] = []
    table = _parsed(data, part.dialect, part.header, wrong)
    numbers = np.arange(first, first + table.num_rows + len(wrong))
    return _rows(
        pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], table.column_names),
        part,
        np.delete(numbers, np.array(wrong, np.int64) - 1),
        [({"row": first + n - 1} | place, kind, text) for n, (place, kind, text) in zip(wrong, malformed, strict=True)],
    )


def _parsed(data: bytes, dialect: Dialect, names: tuple[str, ...], wrong: list[int]) -> pa.Table:
    """Returns rows of bytes. Adds the numbers of those with a wrong number of columns to `wrong`."""

    def skip(row: pc.InvalidRow) -> str:
        wrong.append(row.number)
        return "skip"

    return pc.read_csv(
        pa.BufferReader(data),
        read_options=pc.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        parse_options=pc.ParseOptions(
            quote_char=dialect.quote,
            double_quote=dialect.doubled,
            escape_char=False if dialect.doubled else dialect.escape,
            newlines_in_values=True,
            invalid_row_handler=skip,
        ),
        convert_options=pc.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=["\\N"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _rows(batch: pa.RecordBatch, part: Part, numbers: Any, malformed: list[tuple[dict[str, Any], str, str]]) -> Rows:
    def given(row: int) -> dict[str, str]:
        values = {name: batch.column(name)[row].as_py() for name in batch.schema.names}
        texts = {
            name: value if value is None else value.decode(errors="surrogateescape") for name, value in values.items()
        }
        return {name: json.dumps(text, ensure_ascii=False) for name, text in texts.items()}

    return Rows.mapped(
        part.columns,
        batch.column,
        encoding=np.full(batch.num_rows, Encoding.TEXT, np.int8),
        place=lambda row: {"row": int(numbers[row])},
        given=given,
        malformed=malformed,
    )
