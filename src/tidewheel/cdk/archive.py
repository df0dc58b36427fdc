"""Zip archives and fingerprints that depend on names and content alone: not on times, owners, or the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import jsii
from aws_cdk import BundlingOptions, BundlingOutput, DockerImage, ILocalBundling

_FIRST_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip archive can say."""

_READABLE = 0o100644 << 16
"""A regular file that all may read, in the upper half of the external attributes: Lambda runs as another user."""

NO_DOCKER = DockerImage.from_registry("docker-is-not-used")
"""CDK demands an image, and would fall back to it; our local bundling never lets it."""


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


@jsii.implements(ILocalBundling)
class LocalArchive:
    """Makes an asset's archive on this machine."""

    def __init__(self, write: Callable[[Path], object]) -> None:
        """Take the function that writes one archive into a folder."""
        self._write = write

    # jsii passes the options by keyword only because it finds one of them named here.
    def try_bundle(self, output_dir: str, *, image: object, **_options: object) -> bool:  # noqa: ARG002
        """Write the archive into a folder."""
        self._write(Path(output_dir))
        return True


def bundled_by(write: Callable[[Path], object], output: BundlingOutput) -> BundlingOptions:
    """Return the options of an asset whose archive a function of this package writes."""
    return BundlingOptions(image=NO_DOCKER, local=LocalArchive(write), output_type=output)
