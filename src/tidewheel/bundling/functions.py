"""Bundles the code of the functions.

All functions share an archive:

    pyarrow/ boto3/ ...                from PyPI, as pinned in requirements.lock, for Lambda's machine; unchanged
    tidewheel/                         this package
    functions/<name>/handler.py        the handlers
    .../__pycache__/*.pyc              bytecode of all modules, if this machine has the functions' Python

Without bytecode, each cold start compiles hundreds of modules. LEFT_OUT names the files that are left
out. All other files are unchanged. uv fetches wheels for arm64 on any machine, so Docker is not needed. `jobs.py`
bundles the code of the Glue jobs.

The asset's hash covers the pinned packages, the modules of this package and the bundling code. So the hash is known
without bundling and equal on all machines. Other changes deploy nothing, and an archive in `cdk.out` is not made again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from tidewheel.bundling import archive, pinned_packages
from tidewheel.bundling.archive import files_of, fingerprint, write_archive
from tidewheel.bundling.pinned_packages import LAMBDA, Machine, install, interpreter, pinned
from tidewheel.errors import BundleFailed
from tidewheel.shipped import FUNCTIONS, PACKAGE, PUBLIC_NAMES, shipped

MB = 1_000_000

LIMIT_BYTES = 220 * MB
"""The limit on the unpacked archive. A package that grows reaches this limit before Lambda's own limit."""

LAMBDA_LIMIT_BYTES = 250 * 1024 * 1024
"""Lambda's limit on an unpacked function with its layers (Lambda quotas, "Deployment package size")."""

PACKAGES = (
    "aws-lambda-powertools",
    "boto3",
    "botocore",
    "cronsim",
    "jmespath",
    "numpy",
    "pyarrow",
    "pyroaring",
    "python-dateutil",
    "s3transfer",
    "six",
    "typing-extensions",
    "tzdata",
    "urllib3",
)
"""All packages that `tidewheel[lambda]` needs, directly or indirectly."""

LEFT_OUT = {
    ".lock": "uv's, while it installs",
    "bin/*": "command lines, made by the installer; they name the Python that ran it",
    "*.dist-info/INSTALLER": "the installer's",
    "*.dist-info/RECORD": "the installer's; it lists the files that are left out, too",
    "*.dist-info/REQUESTED": "the installer's",
    "numpy/*tests/*": "tests: 8 MB",
    "pyarrow/tests/*": "tests: 3 MB",
    "pyarrow/include/*": "C++ headers: 6 MB",
    "pyarrow/*flight*": "Arrow Flight, a protocol over gRPC: 33 MB",
    "pyarrow/*_s3*": "Arrow's own client of S3: 17 MB; the functions use botocore",
    "tidewheel/bundling/*": "what makes this archive",
    "tidewheel/cdk/*": "the constructs",
    "tidewheel/cli/*": "the command line",
    "tidewheel/cost/*": "the calculation of bills",
    "tidewheel/prove/*": "the trial of a stack",
    "tidewheel/deploy/*": "the deployment",
    "tidewheel/local/*": "the local runtime",
    "tidewheel/memory/*": "the clients in memory, for tests",
    "tidewheel/jobs/*": "the Glue jobs",
    "tidewheel/console/*": "the console",
    "tidewheel/spark/*": "the Glue jobs",
}
"""Pattern -> reason, for the files to leave out. Patterns match names in the archive; `*` matches `/` too."""


def handler_of(function: str) -> str:
    """Returns the name of a function's handler for the function's configuration.

    Raises:
        BundleFailed: The archive does not have the handler.
    """
    file = f"functions/{function}/handler.py"
    if file not in _handlers():
        raise BundleFailed(f"functions.zip has no {file}, which the function {function!r} is configured with.")
    return f"functions.{function}.handler.handler"


def functions_hash(machine: Machine = LAMBDA) -> str:
    """Returns the hash of the functions' archive."""
    bytecode = "" if interpreter(machine.python) is None else "with bytecode"
    return fingerprint(own_files(), pinned(PACKAGES, machine), machine.architecture, bytecode, *makers())


def fill(folder: Path, machine: Machine = LAMBDA) -> None:
    """Writes the content of the functions' archive to an empty folder.

    Raises:
        BundleFailed: A package could not be installed, or a module could not be compiled.
    """
    install_files(folder, pinned(PACKAGES, machine), own_files(), machine)
    if (python := interpreter(machine.python)) is not None:
        compile_modules(folder, python)


def compile_modules(folder: Path, python: str) -> None:
    """Writes the bytecode of all modules in a folder. Python uses the bytecode without looking at the source.

    Raises:
        BundleFailed: A module could not be compiled.
    """
    options = ["-q", "--invalidation-mode=unchecked-hash", "-s", str(folder), str(folder)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # Constant sets are written in the order of their hashes.
    environment = {**kept, "PYTHONHASHSEED": "0"}
    done = subprocess.run([python, "-m", "compileall", *options], env=environment, stdout=sys.stderr, check=False)
    if done.returncode:
        raise BundleFailed(f"{python} could not compile the modules of the functions: it says why above.")


def install_files(folder: Path, requirements: str, own: Mapping[str, Path], machine: Machine) -> None:
    """Installs packages without LEFT_OUT, and copies own files, into an empty folder.

    Raises:
        BundleFailed: A package could not be installed.
    """
    install(requirements, folder, machine)
    for name, path in files_of(folder).items():
        if _left_out(name):
            path.unlink()
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    for name, path in own.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)


def write_bundle(target: Path, machine: Machine = LAMBDA) -> None:
    """Writes the functions' archive to a folder as `functions.zip`, and prints the size to stderr.

    Raises:
        BundleFailed: As for `fill`, or the archive is larger than LIMIT_BYTES.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder, machine)
        files = files_of(folder)
        unpacked = sum(path.stat().st_size for path in files.values())
        if unpacked > LIMIT_BYTES:
            raise BundleFailed(
                f"functions.zip has {unpacked / MB:.1f} MB unpacked, more than its limit of {LIMIT_BYTES / MB:.0f} MB "
                f"(Lambda's own is {LAMBDA_LIMIT_BYTES / MB:.0f} MB): see which package grew, and LEFT_OUT in "
                "`tidewheel/bundling/functions.py`."
            )
        zipped = target / "functions.zip"
        write_archive(files, zipped)
    # jsii talks to node over stdout.
    print(
        f"functions.zip for {machine.architecture}: {unpacked / MB:.1f} MB unpacked of Lambda's "
        f"{LAMBDA_LIMIT_BYTES / MB:.0f} MB, {zipped.stat().st_size / MB:.1f} MB zipped.",
        file=sys.stderr,
    )


def own_files() -> dict[str, Path]:
    """Returns the handlers and modules of this package by their names in the functions' archive."""
    return {**_handlers(), **own_modules()}


def own_modules() -> dict[str, Path]:
    """Returns the deployed modules of this package by their names in an archive."""
    # The wheel keeps handlers and jobs in folders of the package that begin with "_".
    found = (path.relative_to(PACKAGE) for path in [*PACKAGE.rglob("*.py"), PACKAGE / PUBLIC_NAMES])
    names = (path.as_posix() for path in found if not any(part.startswith("_") for part in path.parts[:-1]))
    modules = {f"{PACKAGE.name}/{name}": PACKAGE / name for name in names}
    return {name: path for name, path in modules.items() if not _left_out(name)}


def _handlers() -> dict[str, Path]:
    found = shipped(FUNCTIONS).glob("*/handler.py")
    return {f"functions/{path.parent.name}/handler.py": path for path in found}


def _left_out(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in LEFT_OUT)


def makers() -> list[str]:
    """Returns the source of the bundling modules, which also determine an archive's bytes."""
    return [
        Path(module).read_text(encoding="utf-8") for module in (__file__, archive.__file__, pinned_packages.__file__)
    ]
