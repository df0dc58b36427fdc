"""Reads CSV files, by Arrow's reader, from rows that are checked. All values are text: nothing is inferred."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from tidewheel.jobs.importing.csv_strict import RowTooLong, StrictCsv
from tidewheel.jobs.importing.options import Columns, Dialect
from tidewheel.jobs.importing.streams import check_expanded, stream_of
from tidewheel.jobs.importing.work import FileProblem, InputFile, Present, Rows
from tidewheel.jobs.location import Location
from tidewheel.model.message import Encoding


def read_csv(location: Location, file: InputFile, dialect: Dialect, present: Present) -> Iterator[Rows]:
    """Reads the rows of a file. The numbers of rows count from 1, without the header.

    Raises:
        FileProblem: the header is malformed, or has a name twice; or the file cannot be read to its end.
    """
    strict, stream, number, expanded = StrictCsv(dialect), stream_of(location, file), 1, 0
    header, begin = strict.header(stream)
    try:
        header.decode()
    except UnicodeDecodeError:
        raise FileProblem("its header is not UTF-8; write the file as UTF-8, and import it") from None
    if not header:
        return
    names = _parsed(header, dialect, [], []).schema.names
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise FileProblem(f"its header has {', '.join(repeated)} twice; give each column a name of its own")
    columns = present(names)
    try:
        for data, malformed in strict.blocks(stream, begin, len(names)):
            wrong: list[int] = []
            batch = _parsed(data, dialect, names, wrong)
            numbers = np.arange(number, number + batch.num_rows + len(wrong))
            places = ({"row": number + n - 1} | place for n, (place, _, _) in zip(wrong, malformed, strict=True))
            bad = [(place, kind, text) for place, (_, kind, text) in zip(places, malformed, strict=True)]
            yield _rows(batch, columns, np.delete(numbers, np.array(wrong, np.int64) - 1), bad)
            number += len(numbers)
            expanded += len(data) + sum(len(text) for _, _, text in malformed)
            check_expanded(file, expanded)
    except RowTooLong as problem:
        raise FileProblem(f"row {number} {problem}") from None


def _parsed(data: bytes, dialect: Dialect, names: Sequence[str], wrong: list[int]) -> pa.RecordBatch:
    """Returns rows of bytes. Adds the numbers of those with a wrong number of columns to `wrong`."""

    def skip(row: pc.InvalidRow) -> str:
        wrong.append(row.number)
        return "skip"

    table = pc.read_csv(
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
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, names or table.column_names)


def _rows(batch: pa.RecordBatch, columns: Columns, numbers: Any, malformed: list[tuple[Any, str, str]]) -> Rows:
    def given(row: int) -> dict[str, str]:
        values = {name: column[row].as_py() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        texts = {name: None if v is None else v.decode(errors="surrogateescape") for name, v in values.items()}
        return {name: json.dumps(text, ensure_ascii=False) for name, text in texts.items()}

    return Rows.mapped(
        columns,
        batch.column,
        encoding=np.full(batch.num_rows, Encoding.TEXT, np.int8),
        place=lambda row: {"row": int(numbers[row])},
        given=given,
        malformed=malformed,
    )
