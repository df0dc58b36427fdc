"""Zip archives and fingerprints that depend on names and content alone: not on times, owners, or who made them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_FIRST_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip archive can say."""

_READABLE = 0o100644 << 16
"""A regular file that all may read, in the upper half of the external attributes: Lambda runs as another user."""


def files_of(folder: Path) -> dict[str, Path]:
    """Return all files of a folder by their names relative to it, with `/`."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in found}


def write_archive(files: Mapping[str, Path], target: Path) -> None:
    """Write files as a zip archive, in the order of their names."""
    with ZipFile(target, "w") as archive:
        for name in sorted(files):
            entry = ZipInfo(name, _FIRST_TIME)
            entry.external_attr = _READABLE
            # Not the machine's own, which ZipInfo takes.
            entry.create_system = 3
            archive.writestr(entry, files[name].read_bytes(), compress_type=ZIP_DEFLATED)


def fingerprint(files: Mapping[str, Path], *inputs: str) -> str:
    """Return a hash of files' names and content, and of anything else."""
    digest = hashlib.sha256()
    content = [(name, files[name].read_bytes()) for name in sorted(files)]
    for name, data in [*content, *(("", text.encode()) for text in inputs)]:
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
