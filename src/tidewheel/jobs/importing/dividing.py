"""Divides a file of the input into parts, in the file's order, from the file alone: each run makes the same parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidewheel.jobs.importing.csv_rows import header_of, read_csv
from tidewheel.jobs.importing.files import codec_of
from tidewheel.jobs.importing.json_lines import check_lines, read_lines
from tidewheel.jobs.importing.options import Columns, ImportOptions
from tidewheel.jobs.importing.parquet import names_of, read_parquet, row_groups
from tidewheel.jobs.importing.streams import explained
from tidewheel.jobs.importing.work import FileProblem, InputFile, Limits, Part, Rows
from tidewheel.jobs.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Divide:
    """Divides files. The task is run in a process that a damaged file may end."""

    location: Location
    options: ImportOptions
    limits: Limits

    @explained("it")
    def __call__(self, file: InputFile) -> list[Part]:
        """Returns the parts of a file.

        Raises:
            FileProblem: the file cannot be read, lacks a column, or has a column of a wrong type.
        """
        whole = Part(file=file, number=0, first=0, end=-1, columns=self.options.columns, size_bytes=file.size_bytes)
        if file.size_bytes == 0:
            return []
        match file.format:
            case "parquet":
                return list(self._parquet(whole))
            case "csv":
                whole = replace(whole, dialect=self.options.dialect)
                header = header_of(self.location, whole)
                return [replace(whole, columns=_present(header, self.options), header=header)] if header else []
            case _:
                check_lines(self.location, whole, needed(self.options))
                return list(self._lines(whole))

    def _parquet(self, whole: Part) -> Iterator[Part]:
        columns = _present(names_of(self.location, whole.file), self.options)
        part = replace(whole, columns=columns)
        for number, (first, end, size) in enumerate(row_groups(self.location, part, self.limits)):
            yield replace(part, number=number, first=first, end=end, size_bytes=size)

    def _lines(self, whole: Part) -> Iterator[Part]:
        if codec_of(whole.file) is not None:
            yield whole
            return
        for number, first in enumerate(range(0, whole.file.size_bytes, self.limits.part_bytes)):
            end = min(first + self.limits.part_bytes, whole.file.size_bytes)
            yield replace(whole, number=number, first=first, end=end, size_bytes=end - first)


def read_part(location: Location, part: Part, batch_rows: int) -> Iterator[Rows]:
    """Reads the rows of a part.

    Raises:
        FileProblem: the file cannot be read.
    """
    match part.file.format:
        case "parquet":
            return read_parquet(location, part, batch_rows)
        case "csv":
            return read_csv(location, part)
        case _:
            return read_lines(location, part)


def needed(options: ImportOptions) -> dict[str, str]:
    """Returns the columns that every file must have, by option."""
    return {
        f"--{option.replace('_', '-')}": name
        for option, name in asdict(options.columns).items()
        if name is not None and option not in options.optional
    }


def _present(names: tuple[str, ...], options: ImportOptions) -> Columns:
    for option, name in needed(options).items():
        if name not in names:
            raise FileProblem(f"no column {name!r} ({option}); there are: {', '.join(names) or 'none'}")
    absent: dict[str, Any] = {option: None for option, name in asdict(options.columns).items() if name not in names}
    return replace(options.columns, **absent)
