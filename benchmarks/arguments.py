"""Checks the arguments of long commands before they begin."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from tidewheel.errors import InvalidValue

INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended, as shells have it."""


def at_least(least: int) -> Callable[[str], int]:
    """Returns a type for argparse, of whole numbers from a minimum on."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: give a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value}: give {least} or more")
        return value

    return number


def check_directory(directory: Path) -> None:
    """Makes a directory, if missing, and writes a file into the directory.

    Raises:
        InvalidValue: no file can be written there.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise InvalidValue("directory", str(directory), f"Give one that can be written to: {error.strerror}.") from None


def check_file(file: Path) -> None:
    """Checks that a file can be written, without a change to the file.

    Raises:
        InvalidValue: its directory is not there or cannot be written to, or it is a directory itself.
    """
    if file.is_dir():
        raise InvalidValue("file", str(file), "Give a file; this is a directory.")
    try:
        tempfile.TemporaryFile(dir=file.parent).close()
    except OSError as error:
        raise InvalidValue(
            "file", str(file), f"Give one in a directory that can be written to: {error.strerror}."
        ) from None
