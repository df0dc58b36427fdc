"""Keeps an error that nobody foresaw to its file, its row or its value, so that the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from tidewheel.errors import TidewheelError
from tidewheel.jobs.importing.checks import Checked, check, unreadable
from tidewheel.jobs.importing.options import Columns
from tidewheel.jobs.importing.streams import first_line
from tidewheel.jobs.importing.work import FileProblem, Part, Rows, Terms


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Turns an error into the problem of the file that is read. An error of AWS, or want of memory, stays as it is.

    Raises:
        FileProblem: the error, with the place.
    """
    try:
        yield
    except (FileProblem, MemoryError, BotoCoreError, ClientError, TidewheelError):
        raise
    except Exception as error:
        raise FileProblem(f"{where} cannot be read: {first_line(error)}; make the file again") from None


def checked_rows(reader: Iterator[Rows], part: Part, terms: Terms) -> Iterator[tuple[Rows, Checked]]:
    """Reads and checks rows. If a value of them cannot be held, they are halved until its row is alone and rejected.

    Raises:
        FileProblem: the file cannot be read.
    """
    with explained("it"):
        for rows in reader:
            yield from _checked(rows, part.columns, terms)


def _checked(rows: Rows, columns: Columns, terms: Terms) -> Iterator[tuple[Rows, Checked]]:
    try:
        checked = check(rows, columns, terms)
    except MemoryError:
        raise
    except Exception as error:
        half = len(rows) // 2
        if half:
            yield from _checked(_slice(rows, 0, half), columns, terms)
            yield from _checked(_slice(rows, half, len(rows)), columns, terms)
            return
        checked = unreadable(rows, error)
    yield rows, checked


def _slice(rows: Rows, start: int, end: int) -> Rows:
    def cut(column: pa.Array | None) -> pa.Array | None:
        return None if column is None else column[start:end]

    return replace(
        rows,
        due=rows.due[start:end],
        payload=rows.payload[start:end],
        encoding=rows.encoding[start:end],
        key=cut(rows.key),
        attributes=cut(rows.attributes),
        expires=cut(rows.expires),
        wrong={kind: wrong[start:end] for kind, wrong in rows.wrong.items()},
        place=lambda row: rows.place(start + row),
        given=lambda row: rows.given(start + row),
        malformed=rows.malformed if start == 0 else [],
    )
