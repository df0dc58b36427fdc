"""Divides the files of an input among tasks, and reads a part of a file.

The division follows from the listing alone, so no file is opened for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from tidewheel.jobs.importing.csv_rows import read_csv
from tidewheel.jobs.importing.files import check_unchanged, codec_of
from tidewheel.jobs.importing.json_lines import read_lines
from tidewheel.jobs.importing.options import ImportOptions
from tidewheel.jobs.importing.parquet import read_parquet
from tidewheel.jobs.importing.texts import is_bytes
from tidewheel.jobs.importing.work import InputFile, Limits, Part, Rows, present
from tidewheel.jobs.location import Location
from tidewheel.model.groups import grouped

_LEAST_BYTES = 16 * 1024 * 1024
_OPENING_BYTES = 64 * 1024
"""What opening a file costs, as bytes that are read meanwhile."""


def shares_of(files: Sequence[InputFile], side_by_side: int, limits: Limits) -> list[list[Part]]:
    """Returns the parts that each task reads: a part of a large file, or many small files."""
    each = max(_LEAST_BYTES, -(-sum(file.size_bytes for file in files) // side_by_side))
    most = min(limits.part_bytes, each)
    divided = {file.name: file for file in files if file.size_bytes > most and _is_divisible(file)}
    shares = [
        [Part(file=file, first=first, end=min(first + most, file.size_bytes))]
        for file in divided.values()
        for first in range(0, file.size_bytes, most)
    ]
    whole = (Part(file=file) for file in files if file.name not in divided)
    return [*shares, *grouped(whole, lambda part: part.size_bytes + _OPENING_BYTES, most)]


def _is_divisible(file: InputFile) -> bool:
    return file.format == "parquet" or (file.format == "json" and codec_of(file) is None)


def read_part(location: Location, part: Part, options: ImportOptions) -> Iterator[Rows]:
    """Reads the rows of a part. A column that the file lacks may be the name of its folder.

    Raises:
        FileProblem: the file cannot be read, lacks a column, has a column of a wrong type, or has changed.
    """
    folders = part.file.of_folders
    given = {option: name for option, name in asdict(options.columns).items() if name in folders and option != "body"}
    for rows in _read(location, part, options, given):
        yield _with_folders(rows, options, given, folders) if given else rows
    check_unchanged(part.file)


def _read(location: Location, part: Part, options: ImportOptions, given: Mapping[str, str]) -> Iterator[Rows]:
    hint = "; if it is rare, put a line that has it first" if part.file.format == "json" else ""
    find = partial(present, options, given.values(), hint)
    match part.file.format if part.file.size_bytes else None:
        case "parquet":
            yield from read_parquet(location, part, find)
        case "csv":
            yield from read_csv(location, part.file, options.dialect, find)
        case "json":
            yield from read_lines(location, part, options.columns, find)


def _with_folders(rows: Rows, options: ImportOptions, given: Mapping[str, str], folders: Mapping[str, str]) -> Rows:
    """Returns rows with the values of the folders' names where the file has none."""
    values = dict(rows.values)
    for option, name in given.items():
        own = values.get(option, pa.nulls(len(rows)))
        own = own if is_bytes(own.type) else own.cast(pa.string())
        values[option] = pc.coalesce(own, pa.array([folders[name]] * len(rows), own.type))
    texts = {name: json.dumps(folders[name]) for name in given.values()}

    def shown(row: int) -> Mapping[str, str]:
        own = rows.given(row)
        return {**own, **{name: text for name, text in texts.items() if own.get(name, "null") == "null"}}

    return replace(rows, values=values, columns=options.present({*rows.columns.names, *given.values()}), given=shown)
