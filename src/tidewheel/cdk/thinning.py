"""Thinning: what is taken out of installed packages before they are bundled, and what must be true of the rest."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidewheel.cdk.bundles import SERVICES, UNUSED, BundleFailed
from tidewheel.cdk.pinned_packages import Machine
from tidewheel.cdk.service_descriptions import names_in, thin_descriptions
from tidewheel.cdk.shared_object import loaded_part, machine_of


def thin(folder: Path, code: Iterable[Path]) -> None:
    """Take out what no function uses: by UNUSED, of services' descriptions, and symbols of shared objects.

    Args:
        folder: The bundle.
        code: The files that call AWS.
    """
    for pattern in UNUSED:
        for path in sorted(folder.glob(pattern)):
            _remove(path)
    for service in (folder / "botocore" / "data").iterdir():
        if service.is_dir() and service.name not in SERVICES:
            _remove(service)
    thin_descriptions(folder / "botocore" / "data", SERVICES, names_in(code))
    for path in shared_objects(folder):
        data = path.read_bytes()
        path.write_bytes(loaded_part(data))


def shared_objects(folder: Path) -> Iterator[Path]:
    """Yield the files named like shared objects: `lib.cpython-313-aarch64-linux-gnu.so`, `libarrow.so.2600`."""
    return (path for path in sorted(folder.rglob("*.so*")) if re.search(r"\.so(\.\d+)*$", path.name))


def check(folder: Path, packages: Iterable[str], machine: Machine) -> None:
    """See that a bundle has what its functions import, and nothing for another machine.

    Args:
        folder: The bundle.
        packages: First names of the modules of others that its functions import.
        machine: The machine that it is for.

    Raises:
        BundleFailed: A package is missing, or a shared object is for another machine or Python.
    """
    missing = [name for name in sorted(packages) if not _importable(folder, name)]
    if missing:
        raise BundleFailed(f"A function imports {', '.join(missing)}, which its bundle lacks: see `bundles.py`.")
    python = f"cpython-{machine.python.replace('.', '')}-{machine.architecture}-linux-gnu"
    for path in shared_objects(folder):
        with path.open("rb") as file:
            found = machine_of(file.read(64))
        tag = re.search(r"\.(cpython-[^.]*|cp3[^.]*)\.so$", path.name)
        if found != machine.elf or (tag is not None and tag[1] != python):
            name = path.relative_to(folder)
            raise BundleFailed(f"{name} is not for {machine.architecture} and Python {machine.python}.")


def _importable(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or (folder / f"{name}.py").is_file() or any(folder.glob(f"{name}.*.so"))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        # A folder above it may have gone already.
        path.unlink(missing_ok=True)
