"""Divides the files of an input among tasks, and reads a part of a file.

The division follows from the listing alone, so no file is opened for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidewheel.jobs.importing.csv_rows import header_of, read_csv
from tidewheel.jobs.importing.files import check_unchanged, codec_of
from tidewheel.jobs.importing.json_lines import check_lines, read_lines
from tidewheel.jobs.importing.options import Columns, ImportOptions
from tidewheel.jobs.importing.parquet import read_parquet
from tidewheel.jobs.importing.work import FileProblem, InputFile, Limits, Part, Rows
from tidewheel.jobs.location import Location
from tidewheel.model.groups import grouped

_LEAST_BYTES = 16 * 1024 * 1024
_OPENING_BYTES = 64 * 1024
"""What opening a file costs, as bytes that are read meanwhile."""


def shares_of(files: Sequence[InputFile], side_by_side: int, limits: Limits) -> list[list[Part]]:
    """Returns the parts that each task reads, in the order of the files: many small files, or parts of large files."""
    each = max(_LEAST_BYTES, -(-sum(file.size_bytes for file in files) // side_by_side))
    most = min(limits.part_bytes, each)
    parts = (part for file in files for part in _divided(file, most))
    return list(grouped(parts, lambda part: part.size_bytes + _OPENING_BYTES, most))


def _divided(file: InputFile, most: int) -> Iterator[Part]:
    if file.size_bytes <= most or not _is_divisible(file):
        yield Part(file=file)
        return
    for first in range(0, file.size_bytes, most):
        yield Part(file=file, first=first, end=min(first + most, file.size_bytes))


def _is_divisible(file: InputFile) -> bool:
    try:
        return file.format == "parquet" or (file.format == "json" and codec_of(file) is None)
    except FileProblem:  # told when the file is read
        return False


def read_part(location: Location, part: Part, options: ImportOptions) -> Iterator[Rows]:
    """Reads the rows of a part.

    Raises:
        FileProblem: the file cannot be read, lacks a column, has a column of a wrong type, or has changed.
    """
    if part.file.size_bytes == 0:
        return
    match part.file.format:
        case "parquet":
            yield from read_parquet(location, part, lambda names: _present(names, options))
        case "csv":
            part = replace(part, dialect=options.dialect)
            header = header_of(location, part)
            if header:
                yield from read_csv(location, replace(part, header=header, columns=_present(header, options)))
        case _:
            if not part.first:
                check_lines(location, part, options.needed)
            yield from read_lines(location, replace(part, columns=options.columns))
    check_unchanged(part.file)


def _present(names: tuple[str, ...], options: ImportOptions) -> Columns:
    for option, name in options.needed.items():
        if name not in names:
            raise FileProblem(f"no column {name!r} ({option}); there are: {', '.join(names) or 'none'}")
    return options.present(names)
