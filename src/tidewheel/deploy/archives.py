"""Names the archives of a stack by their content, and makes each."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidewheel.bundling.functions import functions_hash, write_bundle
from tidewheel.bundling.jobs import WHEELS_SUFFIX, package_hash, wheels_hash, write_package, write_wheels
from tidewheel.bundling.pinned_packages import LAMBDA, X86
from tidewheel.shipped import GLUE_JOBS, shipped

MACHINES = {"arm64": LAMBDA, "x86_64": X86}
"""Lambda's name of an architecture -> the machine."""
_SCRIPT = "ScriptKey"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An object that the stack needs.

    Attributes:
        key: The object's name, with a hash of all that the content is made of.
        write: Writes the object as the only file of an empty folder.
    """

    key: str
    write: Callable[[Path], object]


def archives(parameters: Iterable[str], architecture: str) -> dict[str, Archive]:
    """Returns the archive of each parameter of a template that locates an archive."""
    return {name: _archive(name, architecture) for name in parameters}


def _archive(parameter: str, architecture: str) -> Archive:
    if parameter == "FunctionsKey":
        machine = MACHINES[architecture]
        return Archive(
            key=f"functions-{architecture}-{functions_hash(machine)}.zip", write=partial(write_bundle, machine=machine)
        )
    if parameter == "JobPackageKey":
        return Archive(key=f"package-{package_hash()}.zip", write=write_package)
    if parameter == "JobWheelsKey":
        return Archive(key=f"wheels-{wheels_hash()}{WHEELS_SUFFIX}", write=write_wheels)
    job = parameter.removesuffix(_SCRIPT).lower()
    [script] = shipped(GLUE_JOBS).glob(f"{job}_*.py")
    hash_ = hashlib.sha256(script.read_bytes()).hexdigest()
    return Archive(key=f"{script.stem}-{hash_}.py", write=partial(shutil.copy, script))
