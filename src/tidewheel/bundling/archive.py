"""Writes zip archives and fingerprints that depend only on file names and content.

Times, owners and the machine have no effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_FIRST_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip archive can store."""

_READABLE = 0o100644 << 16
"""A regular file that all users may read, since Lambda runs as another user.

The mode is in the upper half of the external attributes.
"""


def files_of(folder: Path) -> dict[str, Path]:
    """Returns all files of a folder by their relative names, with `/`."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in found}


def write_archive(files: Mapping[str, Path], target: Path) -> None:
    """Writes files to a zip archive, sorted by name."""
    with ZipFile(target, "w") as archive:
        for name in sorted(files):
            entry = ZipInfo(name, _FIRST_TIME)
            entry.external_attr = _READABLE
            # ZipInfo's default depends on the machine.
            entry.create_system = 3
            archive.writestr(entry, files[name].read_bytes(), compress_type=ZIP_DEFLATED)


def fingerprint(files: Mapping[str, Path], *inputs: str) -> str:
    """Returns a hash of files' names and content, and of further inputs."""
    digest = hashlib.sha256()
    content = [(name, files[name].read_bytes()) for name in sorted(files)]
    for name, data in [*content, *(("", text.encode()) for text in inputs)]:
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
