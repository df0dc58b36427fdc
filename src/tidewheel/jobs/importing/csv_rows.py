"""Reads CSV files, by Arrow's reader. All values are text: nothing is inferred."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from tidewheel.jobs.importing.streams import first_line, stream_of
from tidewheel.jobs.importing.work import MALFORMED, FileProblem, Part, Rows
from tidewheel.jobs.location import Location
from tidewheel.model.message import Encoding

_BLOCK_BYTES = 16 * 1024 * 1024
"""Also the length of the longest row."""


def header_of(location: Location, part: Part) -> tuple[str, ...]:
    """Returns the names of a file's columns.

    Raises:
        FileProblem: the file cannot be read, or two columns have the same name.
    """
    reader = _open(location, part, (), deque())
    names = tuple(reader.schema.names)
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise FileProblem(f"its header has {', '.join(repeated)} twice; give each column a name of its own")
    return names


def read_csv(location: Location, part: Part) -> Iterator[Rows]:
    """Reads the rows of a file. The numbers of rows count from 1, without the header.

    Raises:
        FileProblem: the file cannot be read to its end.
    """
    bad: deque[pc.InvalidRow] = deque()
    reader = _open(location, part, part.header, bad)
    number = 1
    while (batch := _next(reader)) is not None:
        malformed = []
        numbers = np.arange(number, number + batch.num_rows + len(bad))
        if bad:
            wrong = [_number(row) for row in bad]
            malformed = [({"row": n}, MALFORMED, row.text) for n, row in zip(wrong, bad, strict=True)]
            bad.clear()
            numbers = np.setdiff1d(numbers, wrong)[: batch.num_rows]
        number += batch.num_rows + len(malformed)
        yield _rows(batch, part, numbers, malformed)
    if bad:
        yield _rows(_none(part), part, np.zeros(0, np.int64), [({"row": _number(r)}, MALFORMED, r.text) for r in bad])


def _number(row: pc.InvalidRow) -> int:
    return int(row.number) - 1 if row.number is not None else 0


def _none(part: Part) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array([], pa.binary()) for name in part.header})


def _open(location: Location, part: Part, header: tuple[str, ...], bad: deque[pc.InvalidRow]) -> pc.CSVStreamingReader:
    def keep(row: pc.InvalidRow) -> str:
        bad.append(row)
        return "skip"

    stream: Any = stream_of(location, part.file)
    try:
        return pc.open_csv(
            stream,
            read_options=pc.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pc.ParseOptions(newlines_in_values=True, invalid_row_handler=keep),
            convert_options=pc.ConvertOptions(check_utf8=False, column_types=dict.fromkeys(header, pa.binary())),
        )
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise _explained(error) from None


def _next(reader: pc.CSVStreamingReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise _explained(error) from None


def _explained(error: Exception) -> Exception:
    if isinstance(error, MemoryError):
        return error
    if "straddling" in str(error):
        return FileProblem(f"a row is longer than {_BLOCK_BYTES:,} bytes, or a value's quotes are not closed")
    # The rest of the text is the row.
    said = re.sub(r"(Expected \d+ columns, got \d+).*", r"\1, and is not UTF-8", first_line(error))
    return FileProblem(f"it is no CSV file that can be read: {said}")


def _rows(batch: pa.RecordBatch, part: Part, numbers: Any, malformed: list[tuple[dict[str, Any], str, str]]) -> Rows:
    columns = part.columns

    def column(name: str | None) -> pa.Array | None:
        return None if name is None else batch.column(name)

    def given(row: int) -> dict[str, str]:
        texts = {name: batch.column(name)[row].as_py().decode(errors="surrogateescape") for name in batch.schema.names}
        return {name: json.dumps(text, ensure_ascii=False) for name, text in texts.items()}

    return Rows(
        due=batch.column(columns.deliver_at),
        payload=batch.column(columns.body),
        encoding=np.full(batch.num_rows, Encoding.TEXT, np.int8),
        key=column(columns.key),
        attributes=column(columns.attributes),
        expires=column(columns.expires_at),
        place=lambda row: {"row": int(numbers[row])},
        given=given,
        malformed=malformed,
    )
