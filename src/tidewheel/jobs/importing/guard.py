"""Keeps an error that nobody foresaw to its file or its row, so that the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from tidewheel.errors import TidewheelError
from tidewheel.jobs.importing.streams import first_line
from tidewheel.jobs.importing.work import FileProblem


@contextmanager
def explained(where: str | None, advice: str = "make the file again") -> Iterator[None]:
    """Turns an error into the problem of the file that is read. An error of AWS, or want of memory, stays as it is.

    Raises:
        FileProblem: the error, with the place.
    """
    try:
        yield
    except (FileProblem, MemoryError, BotoCoreError, ClientError, TidewheelError):
        raise
    except Exception as error:
        raise FileProblem(f"{where} cannot be read: {first_line(error)}; {advice}") from None
